"""Tables with one row a batch, plain and speculative values side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from advisor.measured.ingest.read import read_given, read_upload
from advisor.measured.ingest.remap import IGNORE, own_headers, targets
from advisor.measured.ingest.rows import Measured, resolve_names, with_given
from advisor.measured.ingest.side_by_side import (
    METRICS,
    metric_name,
    side_by_side,
    side_of,
    told_per_token,
    two_values,
    value_and_metric,
)
from advisor.measured.points import refit_points
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

BATCHES = (1, 2, 4, 8, 16, 32)
PLAIN_MS = (6.1, 6.6, 7.5, 8.9, 11.2, 14.0)
SPEC_MS = (3.4, 3.9, 4.8, 6.0, 7.9, 10.8)
PLACE = {
    "hardware": "h200-sxm",
    "model": "qwen3-30b-a3b",
    "engine": "vllm",
    "tp": 1,
    "drafter": "eagle3",
    "K": 3,
}


def wide(plain: str, spec: str, more: dict[str, object] | None = None, scale: float = 1.0) -> bytes:
    """Six batches with the plain and the speculative time under these headers."""
    context = PLACE | (more or {})
    lines = [",".join(["batch", plain, spec, *context])]
    for batch, one, other in zip(BATCHES, PLAIN_MS, SPEC_MS, strict=True):
        lines.append(",".join(map(str, [batch, one * scale, other * scale, *context.values()])))
    return "\n".join(lines).encode()


def rows_of(data: bytes, **values: object) -> Measured:
    return resolve_names(with_given(read_upload("wide.csv", data), values))


@pytest.mark.parametrize(
    ("plain", "spec", "scale"),
    [
        ("plain_tpot_ms", "spec_tpot_ms", 1.0),
        ("tpot_before ms", "tpot_after ms", 1.0),
        ("tpot_ms", "tpot_spec_ms", 1.0),  # bare beside marked: the bare one is the other side
        ("baseline_tpot_ms", "tpot_ms", 1.0),
        ("TPOT (ms) no spec", "TPOT (ms) EAGLE3", 1.0),
        ("Without speculation [ms/token]", "With speculation [ms/token]", 1.0),
        ("plain time per token (s)", "speculative time per token (s)", 1e-3),
        ("tpot_k0_ms", "tpot_k3_ms", 1.0),
        ("baseline_tpot_ms", "sd_tpot_ms", 1.0),
        ("w/o MTP: mean TPOT us", "w/ MTP: mean TPOT us", 1e3),
        ("TPOT ms (baseline)", "TPOT ms (EAGLE-3 3 tokens)", 1.0),
    ],
)
def test_plain_and_speculative_times_side_by_side_give_speedups_and_times(plain, spec, scale):
    frame = rows_of(wide(plain, spec, scale=scale)).result.frame
    assert frame["speedup"].to_numpy(float) == pytest.approx(np.divide(PLAIN_MS, SPEC_MS))
    assert frame["tpot_s"].to_numpy(float) == pytest.approx(np.array(SPEC_MS) * 1e-3), (
        "the time is that with drafts"
    )
    assert set(frame["metric"]) == {"tpot_ms"}


def test_every_row_of_a_wide_table_can_be_refitted_on_both_its_values():
    data = wide("plain_tpot_ms", "spec_tpot_ms", {"accepted_length": 2.4})
    points, refused = refit_points(rows_of(data).result.frame)
    assert not refused
    assert [point.observations.quantity.tolist() for point in points] == [
        ["speedup", "tpot_s"]
    ] * len(BATCHES)
    assert points[0].accepted_length == pytest.approx(2.4)


def test_what_side_by_side_values_count_is_asked_where_the_headers_leave_it_open():
    rows = rows_of(wide("plain (ms)", "MTP (ms)", {"accepted_length": 2.4}))
    (asked,) = [item for item in rows.result.missing if item.name == "metric"]
    assert asked.needed
    assert asked.rows == len(BATCHES)
    points, refused = refit_points(rows.result.frame)
    assert not points
    assert {item.reason for item in refused} == {
        "metric does not say what baseline_value and sd_value count; fill it in"
    }
    as_tokens = with_given(rows, {"metric": "TPOT (ms)"}).result
    assert not [item for item in as_tokens.missing if item.name == "metric"]
    assert as_tokens.frame["speedup"].iloc[0] == pytest.approx(6.1 / 3.4)


def test_a_plain_step_beside_a_whole_round_is_a_speedup_times_the_accepted_length():
    rounds_ms = [time * 2.4 for time in SPEC_MS]
    lines = [f"{b},{p},{r},3,2.4" for b, p, r in zip(BATCHES, PLAIN_MS, rounds_ms, strict=True)]
    data = "\n".join(["batch,plain_step_ms,spec_step_ms,k,accepted_length", *lines]).encode()
    frame = read_upload("wide.csv", data).result.frame
    assert frame["speedup"].to_numpy(float) == pytest.approx(np.divide(PLAIN_MS, SPEC_MS))
    assert frame["step_time_s"].to_numpy(float) == pytest.approx(np.array(rounds_ms) * 1e-3)


@pytest.mark.parametrize(
    ("header", "metric", "factors", "expected"),
    [
        (
            "TPOT off (ms),TPOT MTP K=2 (ms)",
            "tpot_ms",
            (1.0, 1.0),
            {"draft_tokens_k": 2, "drafter": "mtp"},
        ),
        ("plain,mtp", None, (1.0, 1.0), {"drafter": "mtp"}),
        ("plain (s),mtp (ms)", None, (1.0, 1e-3), {"drafter": "mtp"}),
        ("plain (us),mtp (us)", None, (1e-3, 1e-3), {"drafter": "mtp"}),  # counted in ms
        ("plain (us),mtp (ms)", None, (1e-3, 1.0), {"drafter": "mtp"}),
        ("plain,mtp (ms)", None, (1.0, 1.0), {"drafter": "mtp"}),
        (
            "plain tokens/s,mtp tokens/s",
            None,
            (1.0, 1.0),
            {"drafter": "mtp", "metric": "output_tok_per_s_per_user"},
        ),
        ("tput_nospec,tput_mtp", "any_tok_per_s", (1.0, 1.0), {"drafter": "mtp"}),
        ("plain output tok/s,mtp output tok/s", "output_tok_per_s", (1.0, 1.0), {"drafter": "mtp"}),
        (
            "plain request latency (ms),mtp request latency (s)",
            "request_latency_s",
            (1e-3, 1.0),
            {"drafter": "mtp"},
        ),
    ],
)
def test_a_pair_has_the_metric_the_units_and_the_guesses_of_its_headers(
    header, metric, factors, expected
):
    pair = side_by_side(["batch", *header.split(",")])
    assert (pair.plain, pair.spec, pair.metric, pair.said) == (1, 2, metric, expected)
    assert pair.factors == pytest.approx(factors)


@pytest.mark.parametrize(
    ("word", "side"),
    [
        *((word, "plain") for word in ("plain", "vanilla", "nosd", "without", "k0")),
        *((word, "spec") for word in ("specdec", "eagle3", "mtp3", "k2")),
        ("no", ""),
    ],
)
def test_a_header_names_its_side(word, side):
    assert side_of(word) == side


def test_a_metric_goes_by_our_name_or_its_own_where_that_says_a_time_or_a_rate():
    texts = ("TPOT (ms)", " Output tok per s ", "tail latency", "marks")
    assert [metric_name(text) for text in texts] == [
        "tpot_ms",
        "output_tok_per_s",
        "tail latency",
        None,
    ]


def test_rates_of_one_request_become_times_per_token():
    frame = rows_of(wide("baseline tok/s/user", "eagle3 tok/s/user")).result.frame
    assert frame["speedup"].to_numpy(float) == pytest.approx(np.divide(SPEC_MS, PLAIN_MS))
    assert frame["tpot_s"].to_numpy(float) == pytest.approx(1.0 / np.array(SPEC_MS))


def test_several_speculative_columns_are_a_question_and_never_a_guess():
    with pytest.raises(
        AdvisorError,
        match=r"several columns may be the values with drafts \('mtp_tpot_ms', 'eagle_t",
    ):
        read_upload("wide.csv", b"batch,tpot_ms,mtp_tpot_ms,eagle_tpot_ms\n1,6,4,3\n")
    with pytest.raises(
        AdvisorError, match=r"the values without drafts \('base_tpot_ms', 'plain_tpot_ms'\)"
    ):
        read_upload("wide.csv", b"batch,base_tpot_ms,plain_tpot_ms,mtp_tpot_ms\n1,6,4,3\n")
    with pytest.raises(
        AdvisorError, match="several columns may be"
    ):  # its own K may be that of either column
        read_upload("wide.csv", b"batch,K,tpot_ms,tpot_k1_ms,tpot_k3_ms\n1,3,6,4,3\n")


@pytest.mark.parametrize(
    "header",
    [
        "batch,tpot_ms,tpot_sd_ms",  # a standard deviation
        "batch,step_time_ms,draft_time_ms,verify_time_ms",
        "no,batch,mtp,tpot_ms",  # a row's number and a flag
        "batch,tpot_ms,tpot_p99_ms",
        "batch,baseline_tpot_ms,output_tok_per_s",
        "batch,baseline_value,sd_value",
    ],
)
def test_columns_that_are_no_pair_stay_what_they_are(header):
    assert side_by_side(header.split(",")) is None


def test_the_form_preselects_the_plain_time_as_plain():
    found = {
        item.theirs: item.ours
        for item in own_headers("wide.csv", wide("plain_tpot_ms", "spec_tpot_ms"))
    }
    assert found["plain_tpot_ms"] == "baseline_tpot_ms"
    assert found["spec_tpot_ms"] == "sd_tpot_ms"
    alone = {
        item.theirs: item.ours
        for item in own_headers("x.csv", b"users,plain tpot ms p50,k\n1,6,3\n")
    }
    assert alone["plain tpot ms p50"] == IGNORE, "never the time of a row with drafts"
    assert set(found.values()) <= set(targets())


@pytest.mark.parametrize("metric", METRICS)
def test_columns_of_any_name_can_be_mapped_to_a_pair(metric):
    data = wide("A", "B")
    columns = {"A": f"baseline_{metric}", "B": f"sd_{metric}"}
    frame = read_upload("wide.csv", data, columns=columns).result.frame
    unit = 1e3 if metric in ("tpot_s", "step_time_s") else 1.0  # times are kept in ms
    assert set(frame["metric"]) == {metric.removesuffix("_s") + "_ms" if unit > 1 else metric}
    assert frame["baseline_value"].to_numpy(float) == pytest.approx(np.array(PLAIN_MS) * unit)
    assert frame["sd_value"].to_numpy(float) == pytest.approx(np.array(SPEC_MS) * unit)
    if column := METRICS[metric].column:
        si = (
            1.0 / np.array(SPEC_MS)
            if metric.endswith("user")
            else np.array(SPEC_MS) * (1e-3 if "_ms" in metric else 1)
        )
        assert frame[column].to_numpy(float) == pytest.approx(si)


def test_a_pair_in_a_file_that_is_not_recognized_is_named_with_what_it_lacks(golden):
    with pytest.raises(
        AdvisorError, match=r"off \(baseline_value\), on \(sd_value\) are understood"
    ) as refused:
        read_upload("wide.csv", b"streams,off,on\n1,6.1,3.4\n")
    golden(map_theirs=lines_with(str(refused.value), "--map theirs=ours"))
    assert (
        read_upload(
            "wide.csv", b"streams,off,on\n1,6.1,3.4\n", columns={"streams": "batch_size"}
        ).result.rows_kept
        == 1
    )


SEVERAL = (
    "batch;plain TPOT (ms);TPOT (ms) K=1;TPOT (ms) K=3;K1 AL;K3 "
    "AL;hardware;model;engine;tp;drafter\n"
)


def several(*rows: str) -> bytes:
    return (
        SEVERAL + "".join(f"{row};h200-sxm;qwen3-30b-a3b;vllm;1;eagle3\n" for row in rows)
    ).encode()


def test_several_k_side_by_side_become_one_row_each_with_their_own_accepted_length():
    rows = read_upload("k.csv", several("1;6.0;4.0;3.0;1.7;2.4", "2;6,6;4.4;3.3;1.7;2.4"))
    frame = resolve_names(rows).result.frame
    assert frame["batch_size"].tolist() == [1, 1, 2, 2]
    assert frame["draft_tokens_k"].tolist() == [1, 3, 1, 3]
    assert frame["accepted_length"].tolist() == [1.7, 2.4, 1.7, 2.4]
    assert frame["speedup"].to_numpy(float) == pytest.approx([1.5, 2.0, 1.5, 2.0])
    points, refused = refit_points(frame)
    assert not refused
    assert len(points) >= len(frame)


def test_a_k_that_was_not_run_gives_no_row_and_a_bad_cell_refuses_its_own_alone():
    result = read_upload("k.csv", several("1;6.0;4.0;;1.7;", "2;6.6;x;3.3;1.7;2.4")).result
    assert result.frame["draft_tokens_k"].tolist() == [1, 3]
    assert result.rows_refused == 1
    assert "K = 1, 3" in reading_texts(result.warnings)[0]


@pytest.mark.parametrize(
    ("text", "column", "values"),
    [
        (
            "batch,tpot_ms,tpot_k1_ms,tpot_k3_ms\n1,6,4,3\n",
            "speedup",
            [1.5, 2.0],
        ),  # named by its quantity alone
        ("batch,k0_tpot_ms,k1_tpot_ms,k3_tpot_ms\n1,6,4,3\n", "speedup", [1.5, 2.0]),
        ("batch,tpot_k1_ms,tpot_k3_ms\n1,4,3\n", "tpot_s", [0.004, 0.003]),  # no plain value at all
        (
            '[{"batch": 1, "plain_tpot_ms": 6, "mtp1_tpot_ms": 4, "mtp3_tpot_ms": 3}]',
            "speedup",
            [1.5, 2.0],
        ),
    ],
)
def test_several_k_are_read_in_tables_and_json_whatever_plain_is_called(text, column, values):
    frame = read_upload("k", text.encode()).result.frame
    assert frame["draft_tokens_k"].tolist() == [1, 3]
    assert frame[column].to_numpy(float) == pytest.approx(values)


def test_predict_and_the_form_see_the_rows_of_each_k():
    asked = read_given("k.csv", several("1;6.0;4.0;3.0;1.7;2.4")).asked
    assert asked["draft_tokens_k"].tolist() == ["1", "3"]
    assert {item.native for item in own_headers("k.csv", several("1;6;4;3;2;2"))} >= {
        "sd_tpot_ms",
        "draft_tokens_k",
    }


def test_a_time_per_token_called_tpot_on_one_side() -> None:
    pair = side_by_side(["concurrency", "tpot_plain_ms", "itl_with_eagle"])
    assert (pair.plain, pair.spec, pair.metric, pair.factors) == (1, 2, None, (1.0, 1.0))
    assert pair.said == {"drafter": "eagle", "metric": "tpot_ms"}
    seconds = side_by_side(["plain tpot (s)", "itl mtp (ms)"])
    assert seconds.factors == pytest.approx((1000.0, 1.0))
    assert side_by_side(["plain_ttft_ms", "itl_with_eagle"]) is None


def test_a_time_with_drafts_below_the_plain_one_is_no_whole_round() -> None:
    frame = pd.DataFrame(
        {"draft_tokens_k": [3.0, 3.0], "baseline_value": [2.3, 3.5], "sd_value": [2.0, 3.9]}
    )
    frame = frame.assign(speedup=np.nan, metric=None)
    assert told_per_token(frame)
    assert not told_per_token(frame.assign(sd_value=[2.3, 3.9])), "as long as the plain one"
    assert not told_per_token(frame.assign(metric="tpot_ms"))


RATES = {0: [92, 612, 2210], 1: [121, 798, 2290], 3: [158, 890, 1980]}


@pytest.mark.parametrize("batches", ["bs=1,B=8,batch 64", "conc1,c=8,concurrency=64", "1,8,64"])
@pytest.mark.parametrize(
    "setups",
    ["setup;baseline (no spec);eagle k=1;K3", "a;off;1 token;num_speculative_tokens=3", "k;0;1;3"],
)
def test_a_row_a_k_and_a_column_a_batch_are_rates_of_the_server_where_they_rise_so(batches, setups):
    rows = zip(setups.split(";"), [batches, *RATES.values()], strict=True)
    read = read_upload(
        "wide.csv", "\n".join(f"{row},{str(cells).strip('[]')}" for row, cells in rows).encode()
    )
    found = {(row.batch_size, row.draft_tokens_k): row for row in read.result.frame.itertuples()}
    rates = {(batch, k): RATES[k][i] for i, batch in enumerate((1, 8, 64)) for k in (1, 3)}
    assert {at: row.output_tok_per_s for at, row in found.items()} == rates
    assert found[64, 3].speedup == pytest.approx(1980 / 2210)
    assert read.sources[0].headers["batch_size"][0] == batches.replace(",", ", ")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("setup,bs=1,bs=64\noff,60,30\nk=3,70,20\n", True),  # fall: of one request, or else
        ("setup,bs=1,bs=64\noff,9,80\nk=3,7,50\n", True),  # may be milliseconds
        ("setup,bs=1,bs=64\noff,9000,80000\nk=3,7000,70000\n", True),  # of whole requests
        ("setup,TPOT (ms) bs=1,TPOT (ms) bs=64\noff,9,14\nk=3,7,11\n", False),
        ("batch,off,k=1,k=3\n1,92,121,158\n64,2210,2290,1980\n", False),  # the other way round
    ],
)
def test_what_values_count_is_asked_only_where_neither_headers_nor_values_tell(text, asked):
    missing = {
        item.name for item in read_upload("wide.csv", text.encode()).result.missing if item.needed
    }
    assert ("metric" in missing) is asked


def test_a_batch_that_is_named_by_hand_leaves_several_k_side_by_side() -> None:
    rows = b"num_requests;plain tok/s;MTP 1 tok/s;MTP 3 tok/s\n8;410;610;660\n96;2700;2840;2150\n"
    found = read_upload(
        "runs.csv", rows, {"num_requests": "batch_size", "MTP 3 tok/s": "ignore"}
    ).result.frame
    assert found["draft_tokens_k"].isna().all(), "one K alone is a pair of columns"
    found = read_upload("runs.csv", rows, {"num_requests": "batch_size"}).result.frame
    assert found["draft_tokens_k"].tolist() == [1, 3, 1, 3]
    assert found["batch_size"].tolist() == [8, 8, 96, 96]
    assert found["speedup"].tolist() == pytest.approx(
        [610 / 410, 660 / 410, 2840 / 2700, 2150 / 2700]
    )


@pytest.mark.parametrize(("with_drafts", "per_token"), [(6.4, True), (11.2, False)])
def test_gaps_that_are_shorter_with_drafts_are_between_tokens(
    with_drafts: float, per_token: bool
) -> None:
    """A round holds a plain step's work, so its chunks come no sooner."""
    rows = (
        "users,K,ITL "
        f"ms,accepted_length\n1,0,9.8,\n1,2,{with_drafts},2.2\n64,0,25.3,\n64,2,29.7,2.2\n"
    )
    read = read_upload("runs.csv", rows.encode())
    times = read.result.frame["tpot_s" if per_token else "step_time_s"].tolist()
    assert times == pytest.approx([9.8e-3, 1e-3 * with_drafts, 25.3e-3, 29.7e-3])
    assert read.result.frame["tpot_s"].notna().all() == per_token
    noted = any(note.kind == "otherwise_tpot_s" for note in read.result.derived)
    assert noted is per_token


def test_a_row_that_says_no_k_of_its_own_is_named_and_other_tables_stay_what_they_are():
    with pytest.raises(AdvisorError, match=r"each with a K of its own .* not off and run A"):
        read_upload("wide.csv", b"setup,bs=1,bs=8\noff,60,48\nrun A,70,45\n")
    with pytest.raises(AdvisorError, match="not recognized"):
        read_upload("wide.csv", b"city,1,8\nRome,60,48\nOslo,70,45\n")


def test_columns_called_accept_are_lengths_where_their_values_can_be() -> None:
    text = (
        "batch,baseline tok/s,K=2 tok/s,K=4 tok/s,accept K2,accept "
        "K4\n1,165,290,330,{}\n64,4700,5600,4500,{}\n"
    )
    found = read_upload("wide.csv", text.format("2.25,2.95", "2.2,2.9").encode()).frame
    assert found["accepted_length"].tolist() == [2.25, 2.95, 2.2, 2.9]
    rates = read_upload("wide.csv", text.format("0.62,0.49", "0.6,0.48").encode()).frame
    assert rates["accepted_length"].isna().all(), "shares of drafts are none"


@pytest.mark.parametrize(
    ("header", "cells", "k"),
    [
        ("spec", ("off", "K=3"), [0, 3]),
        ("setup", ("baseline", "3 draft tokens"), [0, 3]),
        ("setup", ("no speculation", "EAGLE3 (2 drafts)"), [0, 2]),
        ("mode", ("no spec", "on"), [0, None]),  # asked for, of the one row
        ("note", ("off", "warm"), None),  # words that say no K stay what they are
        ("spec", ("off", "3"), [0, 3]),
        ("K", ("no", "3"), [0, 3]),  # numbers among words of a column that is called K
        ("k", ("0", "3"), [0, 3]),
    ],
)
def test_a_column_of_words_is_k_where_every_cell_says_it(header, cells, k):
    rows = "".join(f"48,2,{cell},{ms}\n" for cell, ms in zip(cells, (21.7, 27.9), strict=True))
    read = read_upload("runs.csv", f"concurrency,tp,{header},tpot_ms\n{rows}".encode())
    found = [None if pd.isna(one) else int(one) for one in read.frame["draft_tokens_k"]]
    assert found == (k or [None, None])
    assert any(
        "is read as the draft length" in one for one in reading_texts(read.result.warnings)
    ) is (k is not None and header != "k")
    named = read_upload(
        "runs.csv",
        f"a,tp,{header},t\n{rows}".encode(),
        {"a": "concurrency", "t": "tpot_ms", header: "k"},
    )
    assert (
        k is None
        or [None if pd.isna(one) else int(one) for one in named.frame["draft_tokens_k"]] == k
    )
    assert header == "k" or k is None or read.sources[0].headers["draft_tokens_k"][0] == header


UNTIDY = (
    "Concurrent reqs, out tok/s (no spec) ,out tok/s spec k=1,out_tok_s K3, TPS_k5,mean accept "
    "len k1,AL K=3,"
)
UNTIDY += "acc len (K=5)\n"
OWN_WORDS = "load,speed base,speed a K1,pace K=3,velocity k5,foo K1,bar K=3,baz (k5)\n"
MEANT = dict.fromkeys(("speed a K1", "pace K=3", "velocity k5"), "sd_output_tok_per_s")
MEANT |= dict.fromkeys(("foo K1", "bar K=3", "baz (k5)"), "accepted_length")
MEANT |= {"load": "batch_size", "speed base": "baseline_output_tok_per_s"}
CELLS = "1,92.4,138.1,171.5,176.9,1.78,2.58,2.97\n128,4710,4482,3871,3205,1.76,2.54,2.91\n"


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (UNTIDY, {}),
        (
            UNTIDY.replace("out tok/s spec k=1,out_tok_s K3, TPS_k5", "spec k=1,spec k=3,spec k=5"),
            {},
        ),
        (OWN_WORDS, MEANT),
    ],
)
def test_the_k_of_each_header_counts_whatever_else_it_says(
    header: str, columns: dict[str, str]
) -> None:
    result = read_upload("wide.csv", (header + CELLS).encode(), columns).result
    found = result.frame
    assert found["draft_tokens_k"].tolist() == [1, 3, 5] * 2
    assert found["accepted_length"].tolist() == [1.78, 2.58, 2.97, 1.76, 2.54, 2.91]
    assert found["speedup"].round(2).tolist() == [1.49, 1.86, 1.91, 0.95, 0.82, 0.68]
    assert not {"metric", "draft_tokens_k", "batch_size"} & {
        item.name for item in result.missing if item.needed
    }
    assert result.header_of("sd_value", 2)[0].endswith(("TPS_k5", "k=5", "velocity k5")), (
        "the file's own headers"
    )


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (
            "# bench\nbatch,plain tok/s,k1 tok/s,k3 tok/s\n1,90,130,170\n\n8,600,x,970\n",
            [(5, "k1 tok/s")],
        ),
        ("batch,plain tok/s,k1 tok/s,k3 tok/s\n1,90,130,170\n8,x,840,970\n", [(3, "plain tok/s")]),
        ("setup,TPOT ms bs=1,TPOT ms bs=8\noff,9,14\n\nk=3,7,x\n", [(4, "k=3")]),
        (
            '[{"batch":1,"plain_tpot_ms":9,"k1_tpot_ms":7,"k3_tpot_ms":6},'
            '{"batch":8,"plain_tpot_ms":9,"k1_tpot_ms":"x","k3_tpot_ms":6}]',
            [(2, "with_drafts_tpot_ms")],
        ),
        (
            (
                "batch,plain tok/s,k1 tok/s,k3 tok/s,AL k1,AL "
                "k3\n1,90,130,170,1.7,2.5\n8,600,800,970,2.9,2.5\n"
            ),
            [(3, "accepted_length / draft_tokens_k")],
        ),
    ],
)
def test_a_refusal_names_the_line_and_the_column_of_the_file(
    text: str, places: list[tuple[int, str]]
) -> None:
    rejects = read_upload("wide.csv", text.encode()).result.rejects
    assert list(zip(rejects["line"], rejects["column"], strict=True)) == places


def test_two_columns_of_one_meaning_are_named_as_the_file_calls_them() -> None:
    columns = {
        "load": "batch_size",
        "base": "baseline_tpot_ms",
        "fast": "sd_tpot_ms",
        "quick": "sd_tpot_ms",
    }
    with pytest.raises(
        AdvisorError, match="'fast' and 'quick' are both to be read as 'Time per output token, ms"
    ):
        read_upload("own.csv", b"load,base,fast,quick\n1,9,7,6\n8,14,11,10\n", columns)
    with pytest.raises(
        AdvisorError,
        match=r"columns 'AL K1 and AL K3' and 'mean acc len k1' both give the accepted",
    ):
        read_upload(
            "own.csv",
            (
                b"batch,plain tpot ms,k1 tpot ms,k3 tpot ms,AL K1,AL K3,mean acc len "
                b"k1\n1,9,8,7,1.7,2.5,1.8\n"
            ),
        )


@pytest.mark.parametrize(
    ("text", "value", "metric"),
    [
        ("52ms", 52, "tpot_ms"),
        ("0.052 s", 52, "tpot_ms"),
        ("52e3us", 52, "tpot_ms"),
        ("52000 µs", 52, "tpot_ms"),
        ("52 MS/token", 52, "tpot_ms"),
        ("1900tok/s", 1900, "any_tok_per_s"),
        ("1900 tokens/s", 1900, "any_tok_per_s"),
        ("1900 TPS", 1900, "any_tok_per_s"),
        ("31 tok/s/user", 31, "output_tok_per_s_per_user"),
        ("31 Tokens/s/User", 31, "output_tok_per_s_per_user"),
    ],
)
def test_a_typed_value_says_what_it_counts_by_its_unit(
    text: str, value: float, metric: str
) -> None:
    assert value_and_metric(text) == (pytest.approx(value), metric)
    typed = two_values(value, value / 2, metric, {"batch_size": 64, "draft_tokens_k": None})
    row = read_upload("typed", typed).result.frame.iloc[0]
    assert row["baseline_value"] == pytest.approx(value)
    assert (row["metric"], row["batch_size"]) == (metric, 64)
    assert pd.isna(row["draft_tokens_k"])
