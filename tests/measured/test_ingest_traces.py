"""Routing traces: files of every layout, hostile files, and SYNTHETIC routers whose parameters must
come back."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from advisor.measured.ingest.traces import LayerCounts, read_power_log, read_trace, read_traces
from advisor.physics.routing_trace import fit_sequences
from advisor.prediction import AdvisorError
from advisor.profiling.routing_draw import Routing, draw_routing
from tests.golden.sentences import Golden, lines_with

N = 64
K = 4


def synthetic(sequences=30, tokens=128, layers=4, n=N, k=K, cv=0.5, phi=0.15, rho=0.25, seed=1):
    """[sequences, tokens, layers, k] of a SYNTHETIC router with k distinct experts per token."""
    rng = np.random.default_rng(seed)
    routing = Routing("synthetic", cv, phi, rho)
    return np.stack(
        [draw_routing(rng, sequences, tokens, n, k, routing) for _ in range(layers)], axis=2
    )


def npy(array):
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


IDS = synthetic(sequences=6, tokens=16, layers=3)


def as_npz():
    out = io.BytesIO()
    np.savez(out, **{f"r{i}": ids.astype(np.uint8) for i, ids in enumerate(IDS)})
    return out.getvalue()


def as_csv(joined):
    lines = [
        "sequence,token,layer," + ("experts" if joined else ",".join(f"e{i}" for i in range(K)))
    ]
    for (s, t, layer), _ in np.ndenumerate(IDS[..., 0]):
        ids = map(str, IDS[s, t, layer])
        lines.append(f"{s},{t},{layer}," + (";" if joined else ",").join(ids))
    return "\n".join(lines).encode()


def as_token_lines():
    return "\n".join(
        json.dumps(
            {"sequence": s, "token": t, "layer": layer, "experts": IDS[s, t, layer].tolist()}
        )
        for (s, t, layer), _ in np.ndenumerate(IDS[..., 0])
    ).encode()


def reply(field):
    """One line per request, nested as an engine's reply is (constructed)."""
    return "\n".join(
        json.dumps({"choices": [{"text": "x", "routed_experts": field(ids)}]}) for ids in IDS
    ).encode()


FILES = {
    "npy": npy(IDS.astype(np.uint16)),
    "fortran": npy(np.asfortranarray(IDS)),
    "npz": as_npz(),
    "csv": as_csv(False),
    "csv_joined": as_csv(True),
    "token_lines": as_token_lines(),
    "lists": reply(lambda ids: ids.tolist()),
    "base64_npy": reply(lambda ids: base64.b64encode(npy(ids.astype(np.uint8))).decode()),
    "base64_flat": reply(lambda ids: base64.b64encode(ids.astype("<i4").tobytes()).decode()),
}


def assert_same(trace):
    for got, expected in zip(trace.sequences, IDS, strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("name", FILES)
def test_every_layout_gives_the_same_ids(name):
    trace = read_trace(name, FILES[name], LayerCounts(3, 4, K))
    assert_same(trace)


def test_three_axes_are_sequences_tokens_and_experts_of_one_layer():
    trace = read_trace("one.npy", npy(IDS[:, :, 0]))
    assert [ids.shape for ids in trace.sequences] == [(16, 1, K)] * 6


def with_dense(ids, n_dense=2):
    """Those ids as SGLang records them: every layer of the model, the dense ones first and zero."""
    return np.concatenate([np.zeros((ids.shape[0], n_dense, ids.shape[2]), ids.dtype), ids], axis=1)


EVERY_LAYER = {
    "base64_flat": reply(
        lambda ids: base64.b64encode(with_dense(ids).astype("<i4").tobytes()).decode()
    ),
    "lists": reply(lambda ids: with_dense(ids).tolist()),
    "npy": npy(np.stack([with_dense(ids) for ids in IDS])),
}


@pytest.mark.parametrize("name", EVERY_LAYER)
def test_dense_layers_that_an_engine_records_as_zeros_are_left_out(name):
    trace = read_trace(name, EVERY_LAYER[name], LayerCounts(routed=3, every=5, n_active=K))
    assert trace.layout.endswith("2 layers without routing left out")
    assert_same(trace)


def test_bytes_that_fit_all_layers_and_those_that_route_are_read_by_their_zeros():
    """15 tokens of 4 layers are as long as 12 of 5: nothing but zeros in the dense one makes it the
    latter."""
    ids = synthetic(sequences=1, tokens=15, layers=4)[0] + 1
    counts = LayerCounts(routed=4, every=5, n_active=K)

    def read(array):
        text = base64.b64encode(array.astype("<i4").tobytes()).decode()
        return read_trace("x", json.dumps({"routed_experts": text}).encode(), counts).sequences[0]

    assert np.array_equal(read(ids), ids)
    assert np.array_equal(read(with_dense(ids[:12], 1)), ids[:12])


@pytest.mark.parametrize("counts", [LayerCounts(routed=3), LayerCounts(routed=2, every=3)])
def test_three_axes_with_the_models_layers_in_the_middle_are_one_request(counts, golden):
    """vLLM's array of one request must not pass for one layer of many short sequences."""
    files = [(f"{number}.npy", npy(ids.astype(np.uint8))) for number, ids in enumerate(IDS)]
    trace = read_traces(files, counts)
    golden(one_sequence=trace.layout)
    assert_same(trace)
    with pytest.raises(AdvisorError, match="several files can be given together"):
        fit_sequences(read_trace(*files[0], counts).sequences, 16)


def crafted_npy(shape):
    header = str({"descr": "<u2", "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\x00" * 64


def zip_of(name, data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


HOSTILE = {
    "empty": (b"", "empty"),
    "objects": (npy(np.array([{"a": 1}], dtype=object)), "whole numbers"),
    "floats": (npy(IDS.astype(float)), "whole numbers"),
    "huge shape": (crafted_npy((10**6, 10**6, 10**6)), "says"),
    "negative shape": (crafted_npy((-1, 4, 4)), "damaged"),
    "code in the header": (
        b"\x93NUMPY\x01\x00" + (30).to_bytes(2, "little") + b"__import__('os').getcwd()     ",
        "damaged",
    ),
    "cut": (FILES["npy"][:60], "damaged"),
    "pickle": (b"\x80\x04\x95abc", "pickle"),
    "zip of text": (zip_of("a.txt", b"x"), "no .npz"),
    "zip bomb": (zip_of("a.npy", b"\x00" * (257 << 20)), "unpacks to more"),
    "text": (b"hello there", "sequence and token"),
    "csv without token": (b"sequence,e0\n1,2\n", "sequence and token"),
    "csv with words": (b"sequence,token,e0\n1,1,abc\n", "whole number"),
    "csv with a hole": (b"sequence,token,layer,e0\n1,1,0,3\n1,1,1,3\n1,2,0,3\n", "lacks a layer"),
    "csv with nan": (b"sequence,token,e0,e1\n1,1,3,\n", "empty or fractional"),
    "deep json": (b"[" * 100_000, "JSON"),
    "bad base64": (b'{"routed_experts": "***"}', "neither a list nor base64"),
    "ragged": (b'{"routed_experts": [[1, 2], [3]]}', "differ in length"),
    "no ids": (b'{"a": 1}', "no field"),
    "flat": (FILES["base64_flat"], "no shape"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_is_no_trace_is_refused_in_one_sentence(name):
    data, reason = HOSTILE[name]
    with pytest.raises(AdvisorError, match=reason):
        read_trace("upload", data)


@pytest.mark.parametrize(
    ("cv", "phi", "rho"), [(0.5, 0.2, 0.15), (0.9, 0.1, 0.3), (0.3, 0.05, 0.0)]
)
def test_parameters_and_touched_experts_of_a_known_router_come_back(cv, phi, rho):
    ids = synthetic(60, 256, 6, n=128, k=8, cv=cv, phi=phi, rho=rho)
    trace = fit_sequences(list(ids), 128)
    assert trace.fit.load_cv == pytest.approx(cv, abs=0.05)
    assert trace.fit.affinity == pytest.approx(phi, abs=0.02)
    assert trace.fit.stickiness == pytest.approx(rho, abs=0.02)
    assert {row.batch_size for row in trace.unions} == {1, 2, 4, 8, 16}
    assert trace.largest_error < 0.02


def test_a_dense_layer_is_masked_and_named():
    ids = synthetic(layers=3)
    ids[:, :, 1] = np.arange(K)
    trace = fit_sequences(list(ids), N)
    assert trace.layers == (0, 2)
    assert trace.notes[0].facts == {"dense": 1, "layers": 3}
    alone = fit_sequences(list(ids[:, :, [0, 2]]), N)
    assert trace.fit.affinity == alone.fit.affinity


@pytest.mark.parametrize(
    ("sequences", "reason"),
    [
        ([np.zeros((20, 1, 2), int)] * 3, "no routing trace"),
        (list(synthetic(1)), "at least 2"),
        (list(synthetic(3) + 1000), "expected 0 to 63"),
        ([np.tile(np.arange(20)[:, None, None] % N, (1, 1, 2))] * 3, "twice"),
        ([synthetic(1)[0], synthetic(1, layers=2)[0]], "differ"),
    ],
)
def test_ids_that_cannot_be_are_refused(sequences, reason):
    with pytest.raises(AdvisorError, match=reason):
        fit_sequences(sequences, N)


def test_more_sequences_narrow_the_intervals():
    few = fit_sequences(list(synthetic(6)), N).fit.affinity_interval
    many = fit_sequences(list(synthetic(60)), N).fit.affinity_interval
    assert many[1] - many[0] < few[1] - few[0]


FIXTURES = Path(__file__).parents[1] / "fixtures/power"
HEAD = "timestamp, index, power.draw [W]\n"


def smi(*watts: object, head: str = HEAD) -> bytes:
    return (head + "".join(f"2026/03/14 09:26:53.589, 0, {each}\n" for each in watts)).encode()


@pytest.mark.parametrize("name", ["nvidia_smi_constructed.csv", "dcgmi_dmon_constructed.txt"])
def test_both_tools_give_the_power_while_the_gpus_worked(name: str) -> None:
    log = read_power_log(name, (FIXTURES / name).read_bytes())
    assert log.gpus == 2
    assert log.mean_w == pytest.approx(616.5, abs=3)  # 612 and 621 W while busy
    assert log.samples + log.idle_samples == 120
    assert log.idle_samples == 36  # 18 of 60 samples of each GPU lie before and after the run


def test_a_log_without_an_idle_part_keeps_every_sample() -> None:
    log = read_power_log("run.csv", smi("400.00 W", "410.00 W", "390.00 W"))
    assert (log.mean_w, log.samples, log.idle_samples) == (pytest.approx(400.0), 3, 0)


def test_units_are_read_from_the_cell_or_the_heading() -> None:
    assert read_power_log("a.csv", smi("400000 mW")).mean_w == pytest.approx(400.0)
    assert (
        read_power_log("a.csv", smi(400, head="timestamp, index, power.draw.average [W]\n")).mean_w
        == 400.0
    )
    assert (
        read_power_log("a.csv", smi(400000, head="timestamp, index, power.draw [mW]\n")).mean_w
        == 400.0
    )


def test_a_sample_without_a_value_is_left_out() -> None:
    log = read_power_log("a.csv", smi("[N/A]", "300.00 W", "[Not Supported]"))
    assert (log.samples, log.mean_w) == (1, 300.0)


def test_dcgm_columns_are_told_by_the_heading() -> None:
    text = "#Entity   GPUTL   POWER\n ID    %   W\nGPU 0   99   650.5\nGPU 1   98   649.5\n"
    log = read_power_log("d.txt", text.encode())
    assert (log.gpus, log.mean_w) == (2, pytest.approx(650.0))


def of_gpus(*levels: list[float]) -> bytes:
    """A log of GPUs 0, 1, ... with these samples each."""
    lines = [f"t, {gpu}, {watts:.2f} W\n" for gpu, each in enumerate(levels) for watts in each]
    return (HEAD + "".join(lines)).encode()


def test_a_gpu_that_stood_still_is_left_out_and_told(golden: Golden) -> None:
    for idle in (70.0, 0.0):
        log = read_power_log("a.csv", of_gpus([600.0] * 50, [idle] * 50))
        assert (log.mean_w, log.at_work, log.idle_gpus) == (600.0, ("0",), ("1",))
        golden(samples_gpu=lines_with(log.text, "50 samples"))


def test_a_run_that_took_little_of_the_log_is_found() -> None:
    noise = np.random.default_rng(1).normal(0.0, 3.0, 1000)
    for share in (0.01, 0.04, 0.5, 0.97):
        busy = int(1000 * share)
        log = read_power_log(
            "a.csv", of_gpus(list(np.r_[[75.0] * (1000 - busy), [600.0] * busy] + noise))
        )
        assert (log.samples, log.idle_samples) == (busy, 1000 - busy)
        assert log.mean_w == pytest.approx(600.0, abs=3)


def test_a_peak_within_a_steady_run_leaves_nothing_out() -> None:
    log = read_power_log("a.csv", of_gpus([400.0 + step % 7 for step in range(995)] + [700.0] * 4))
    assert (log.idle_samples, log.mean_w) == (0, pytest.approx(404.0, abs=1))
    with pytest.raises(AdvisorError, match="fewer than 5 samples"):
        read_power_log("a.csv", of_gpus([75.0] * 60 + [600.0] * 2))


def test_as_many_gpus_must_have_worked_as_an_instance_has() -> None:
    log = read_power_log("a.csv", of_gpus([600.0] * 9, [590.0] * 9, [70.0] * 9))
    log.check(2)
    with pytest.raises(
        AdvisorError, match=r"2 GPUs worked in it \(0, 1\) and the scenario's instance has 1; log"
    ):
        log.check(1)


@pytest.mark.parametrize(
    "head", ["#Entity   GPUTL   SMACT\n ID    %\n", "#Entity   GPUTL   TOTEC\n", ""]
)
def test_a_dcgm_log_without_a_column_of_power_is_refused(head: str) -> None:
    with pytest.raises(AdvisorError, match=r"no heading .* with a column POWER"):
        read_power_log("d.txt", f"{head}GPU 0   95   0.9\nGPU 0   96   0.9\n".encode())
