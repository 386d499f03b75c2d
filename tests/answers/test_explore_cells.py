"""A grid of scenarios: what it asks, that its rows are the advisor's answers, and that it goes on
where it stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import types
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from advisor.answers.advice import advise
from advisor.answers.explore.cells import AXES, _base, _stops, sweep_rows
from advisor.answers.explore.grid import CURVES_PER_PART, read_plan
from advisor.answers.explore.questions import fastest_within, one_k_for_all, where_drafting_pays
from advisor.answers.explore.sweep_files import part_bytes, read_sweep_files, run_sweep
from advisor.physics.acceptance import load_acceptance_curve
from advisor.predict import setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import counted_balance
from advisor.predict.spend import PLAIN_LOG_SD
from advisor.prediction import AdvisorError
from advisor.profiles import PROFILES

PLAN = """
cases:
  - {model_id: qwen3-30b-a3b}
  - {model_id: mixtral-8x7b, tensor_parallel: 2}
hardware_id: [h100-sxm, h200-sxm]
acceptance: 2.4@3
k_max: 4
batch_size: [1, 64]
"""


def frame_of(folder: Path) -> pd.DataFrame:
    parts = sorted(folder.glob("part-*.parquet"))
    return pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.answers.explore.grid.CURVES_PER_PART", 1)


def test_a_plan_is_every_combination_with_what_belongs_together_kept_together() -> None:
    plan = read_plan(PLAN)
    assert (plan.n_curves, plan.n_scenarios, plan.n_parts) == (4, 8, 1)
    assert [
        (one["model_id"], one["hardware_id"], one.get("tensor_parallel")) for one in plan.part(0)
    ] == [
        ("qwen3-30b-a3b", "h100-sxm", None),
        ("qwen3-30b-a3b", "h200-sxm", None),
        ("mixtral-8x7b", "h100-sxm", 2),
        ("mixtral-8x7b", "h200-sxm", 2),
    ]


def test_the_parts_of_a_plan_are_all_of_it_in_order() -> None:
    contexts = list(range(1000, 1000 + CURVES_PER_PART + 7))
    plan = read_plan(
        f"acceptance: 2.4@3\nbatch_size: 1\ncontext_tokens: {contexts}\nengine: [vllm, sglang]"
    )
    whole = [one for index in range(plan.n_parts) for one in plan.part(index)]
    assert plan.n_parts == 3
    assert [(one["context_tokens"], one["engine"]) for one in whole] == [
        (context, engine) for context in contexts for engine in ("vllm", "sglang")
    ]


COPIES = """
cases:
  - {model_id: mixtral-8x7b, engine: vllm}
  - {model_id: mixtral-8x7b, engine: sglang}
hardware_id: [h100-sxm, h200-sxm]
acceptance: 2.4@3
expert_parallel: [1, 4]
redundant_experts: [null, 8]
k_max: [1, 2]
batch_size: [1, 64]
"""


def test_a_plan_counts_each_layout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def spied(*given: Any) -> Any:
        asked.append(given)
        return counted_balance(*given)

    monkeypatch.setattr(setup, "counted_balance", spied)
    monkeypatch.setattr(setup, "_KNOWN", OrderedDict())
    plan = read_plan(COPIES)
    rows = sweep_rows(plan.part(0), plan.batches)
    assert (rows["reason"] == "").all()
    assert len(asked) == 2


@pytest.mark.parametrize(
    "text", [PLAN, "batch_size: [1, 8]\nacceptance: '0.7,0.5'\nmax_tpot_ms: [null, 20.5]"]
)
def test_a_plan_is_written_as_it_is_read(text: str) -> None:
    plan = read_plan(text)
    assert read_plan(plan.text) == plan
    assert read_plan(plan.text).digest == plan.digest


def test_rows_are_the_advisors_answers() -> None:
    rows = sweep_rows(read_plan(PLAN).part(0), (1, 64))
    assert len(rows) == 4 * 2 * 5
    place = (
        (rows["model_id"] == "mixtral-8x7b")
        & (rows["hardware_id"] == "h200-sxm")
        & (rows["batch_size"] == 64)
    )
    answer = advise(
        Scenario(
            model_id="mixtral-8x7b",
            hardware_id="h200-sxm",
            tensor_parallel=2,
            n_gpus=2,
            acceptance="2.4@3",
            k_max=4,
            batch_size=64,
        )
    )
    own = rows[place].set_index("n_draft")
    assert list(own.index) == [0, 1, 2, 3, 4]
    for item in answer.drafts:
        row = own.loc[item.n_draft]
        found = [
            row["speedup"],
            row["speedup_low"],
            row["speedup_high"],
            row["tpot_ms"],
            row["expected_loss"],
        ]
        said = [
            item.speedup,
            item.speedup_low,
            item.speedup_high,
            1e3 * item.tpot_s,
            item.expected_loss,
        ]
        found += [
            row["round_ms"],
            row["plain_step_ms"],
            row["tokens_per_s_per_gpu"],
            row["accepted_length"],
        ]
        at = (answer.batch_index, item.n_draft)
        curve = answer.curve
        said += [
            1e3 * curve.round_s[at],
            1e3 * curve.plain_step_s[at[0]],
            curve.tokens_per_s_per_gpu[at],
        ]
        said.append(curve.accepted_length[item.n_draft])
        assert found == pytest.approx(said, rel=1e-5)
        assert bool(row["recommended"]) == item.recommended
    assert (rows.groupby(["model_id", "hardware_id", "batch_size"])["recommended"].sum() == 1).all()


def test_combinations_priced_together_answer_as_each_does_alone_to_the_last_bit() -> None:
    base = {
        "hardware_id": "h200-sxm",
        "model_id": "deepseek-v3",
        "tensor_parallel": 8,
        "drafter_id": "mtp",
    }
    together = [
        {**base, **lengths, "context_tokens": context, "max_tpot_ms": limit}
        for lengths in (
            {"acceptance": "2.4@3"},
            {"acceptance": "1.8@1"},
            {"acceptance": "2.4@3", "k_max": 2},
        )
        for context in (512, 4096, 131072)
        for limit in (None, 15.0, 1000.0)
    ]
    shared = sweep_rows(together, [4, 64])
    alone = [sweep_rows([one], [4, 64]) for one in together]
    pd.testing.assert_frame_equal(shared, pd.concat(alone, ignore_index=True), check_exact=True)
    assert shared.loc[shared["recommended"], "n_draft"].nunique() > 1


def test_absolute_figures_have_bands_as_wide_as_their_errors() -> None:
    rows = sweep_rows(read_plan(PLAN).part(0), (1, 64))
    for value, low, high in (
        ("tpot_ms", "tpot_low_ms", "tpot_high_ms"),
        ("tokens_per_s_per_gpu", "tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high"),
    ):
        assert (rows[low] <= rows[value]).all()
        assert (rows[value] <= rows[high]).all()
    plain = rows[rows["n_draft"] == 0]
    # 80 % of a normal error of PLAIN_LOG_SD lie within 1.2816 of its standard deviations; draws of
    # parts add to it.
    wide = np.log(plain["tpot_high_ms"] / plain["tpot_low_ms"])
    assert (wide > 0.9 * 2 * 1.2816 * PLAIN_LOG_SD).all()
    assert (wide < 2.5 * 2 * 1.2816 * PLAIN_LOG_SD).all()
    gpus = rows["n_gpus"].astype(float)
    batch = rows["batch_size"].astype(float)
    edge = rows["tokens_per_s_per_gpu_low"] < rows["tokens_per_s_per_gpu"]
    inverse = 1e3 * batch / (gpus * rows["tpot_high_ms"])
    assert rows["tokens_per_s_per_gpu_low"][edge].to_numpy() == pytest.approx(
        inverse[edge].to_numpy(), rel=5e-4
    )


def test_the_stops_of_an_axis_change_the_setting_and_what_belongs_to_it() -> None:
    curve = "gpt-oss-20b-eagle3-mt-bench"
    own = {
        "hardware_id": "l40s",
        "model_id": "gpt-oss-20b",
        "drafter_id": "eagle3",
        "n_gpus": 16,
        "tensor_parallel": 16,
    }
    asked = build_scenario(**own, acceptance=curve, k_max=2, context_tokens=3000)
    stops = {axis: list(_stops(asked, axis).values()) for axis in AXES}
    assert [one["batch_size"] for one in stops["Batch"]] == [2**power for power in range(9)]
    contexts = [512, 2048, 3000, 8192, 32768, 131072]
    assert stops["Context"] == [{"context_tokens": one} for one in contexts]
    prompted = asked.model_copy(update={"input_tokens": 2048})
    assert [one["context_tokens"] for one in _stops(prompted, "Context").values()] == contexts[1:]
    assert next(iter(_stops(asked.model_copy(update={"context_tokens": 1}), "Context"))) == "1"
    assert stops["K"] == [{"n_draft": 1}, {"n_draft": 2}]
    sizes = (1, 2, 4, 8, 16)
    assert stops["GPUs"] == [
        {"n_gpus": n, "tensor_parallel": n, "expert_parallel": 1} for n in sizes
    ]
    assert stops["Weight format"][1] == {"weight_dtype": "fp8", "expert_dtype": "fp8"}
    assert stops["Accelerator"][0] == {"hardware_id": "l40s"}
    assert {"hardware_id": "rtx-4090"} not in stops["Accelerator"]
    models = {one["model_id"]: one for one in stops["Model"]}
    assert next(iter(models)) == "gpt-oss-20b"
    assert models["gpt-oss-20b"] == {
        "model_id": "gpt-oss-20b",
        "drafter_id": "eagle3",
        "acceptance": curve,
    }
    assert models["deepseek-v3"]["drafter_id"] == "mtp"
    assert acceptance_of(models["deepseek-v3"]) == ("deepseek-v3", "mtp")
    drafters = {one["drafter_id"]: one for one in stops["Drafter"]}
    assert "none" not in drafters
    assert drafters["eagle3"]["acceptance"] == curve, (
        "of several curves of this pair the scenario's own"
    )
    assert acceptance_of(drafters["p-eagle"]) == ("gpt-oss-20b", "p-eagle")
    assert acceptance_of(drafters["mtp"])[1] == "mtp", "another model's, where this one has none"
    stated = asked.model_copy(update={"acceptance": "2.4@3", "drafter_id": "mtp"})
    assert {one["acceptance"] for one in _stops(stated, "Drafter").values()} == {"2.4@3"}
    of_models = {one["model_id"]: one["drafter_id"] for one in _stops(stated, "Model").values()}
    shipped = {"deepseek-v3": "mtp", "kimi-k3": "dspark", "gpt-oss-20b": "eagle3"}
    assert shipped.items() <= of_models.items(), "eagle3 where none ships with the model"


def test_what_belongs_to_a_setting_that_an_axis_changes_is_left_out() -> None:
    own = {"model_config_json": "{}", "hardware_json": "{}", "refit": "x"}
    asked = build_scenario(acceptance="2.4@3").model_copy(update=own)
    for axes, left in (
        ({"Batch", "K"}, {*own}),
        ({"Batch", "GPUs"}, {"model_config_json", "hardware_json"}),
        ({"Model", "Batch"}, {"hardware_json"}),
        ({"Accelerator", "Batch"}, {"model_config_json"}),
        ({"Accelerator", "Model"}, set()),
    ):
        assert set(_base(asked, axes)) & own.keys() == left


def acceptance_of(stop: dict[str, Any]) -> tuple[str, str]:
    """Model and drafter whose accepted lengths a stop takes."""
    curve = load_acceptance_curve(stop["acceptance"])
    return curve.model_id, curve.drafter_id


def test_what_cannot_be_is_a_row_with_its_reason_and_no_number() -> None:
    rows = sweep_rows(
        [
            {"model_id": "qwen3-30b-a3b", "tensor_parallel": 7, "acceptance": "2.4@3"},
            {"k_max": "x"},
            {"k_max": 2**63},
        ],
        (1, 8),
    )
    assert len(rows) == 6
    assert rows["speedup"].isna().all()
    assert not rows["recommended"].any()
    assert rows["reason"].iloc[0].startswith("tensor_parallel=7 does not divide")
    assert "k_max" in rows["reason"].iloc[2]


def test_a_fault_of_ours_is_no_reason_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("ours")

    monkeypatch.setattr("advisor.answers.explore.cells.rounds_for", fails)
    with pytest.raises(ValueError, match="ours"):
        sweep_rows([{"acceptance": "2.4@3"}], (1,))


def killed(*_: object) -> bytes:
    """In place of `part_bytes`: what a worker does that the system ends."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


@pytest.mark.usefixtures("small_parts")
def test_a_lost_worker_is_one_sentence_and_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan(PLAN)
    with monkeypatch.context() as patched:
        patched.setattr("advisor.answers.explore.sweep_files.part_bytes", killed)
        with pytest.raises(
            AdvisorError, match="the parts written are kept: give the same command again"
        ):
            run_sweep(plan, tmp_path / "out", workers=2)
    assert run_sweep(plan, tmp_path / "out").n_parts == 4


@pytest.mark.usefixtures("small_parts")
def test_a_sweep_that_was_stopped_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    plan = read_plan(PLAN)
    done = []
    first = run_sweep(plan, tmp_path / "out", show=done.append)
    assert (first.n_parts, first.n_found) == (4, 0)
    assert done == [0.25, 0.5, 0.75, 1.0]
    before = frame_of(tmp_path / "out")
    (tmp_path / "out" / "part-000002.parquet").unlink()
    kept = (tmp_path / "out" / "part-000001.parquet").stat().st_mtime_ns
    assert run_sweep(plan, tmp_path / "out").n_found == 3
    assert (tmp_path / "out" / "part-000001.parquet").stat().st_mtime_ns == kept
    pd.testing.assert_frame_equal(frame_of(tmp_path / "out"), before)


def test_a_folder_of_another_sweep_or_of_other_files_is_refused(tmp_path: Path) -> None:
    run_sweep(read_plan("batch_size: 1\nacceptance: 2.4@3"), tmp_path / "out")
    with pytest.raises(AdvisorError, match="holds another sweep"):
        run_sweep(read_plan("batch_size: 2\nacceptance: 2.4@3"), tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(AdvisorError, match="holds other files"):
        run_sweep(read_plan("batch_size: 1\nacceptance: 2.4@3"), tmp_path / "mine")
    (tmp_path / "out" / "plan.json").write_text(json.dumps([1]))
    with pytest.raises(AdvisorError, match="holds another sweep"):
        run_sweep(read_plan("batch_size: 1\nacceptance: 2.4@3"), tmp_path / "out")


@pytest.mark.usefixtures("small_parts")
def test_a_sweep_with_its_settings_in_another_order_is_another_one(tmp_path: Path) -> None:
    """The order decides what lies in each part: parts of two orders would hold some combinations
    twice."""
    head = "batch_size: 1\nacceptance: 2.4@3\nk_max: 1\n"
    run_sweep(
        read_plan(f"{head}engine: [vllm, sglang]\ncontext_tokens: [512, 1024, 2048]"),
        tmp_path / "out",
    )
    with pytest.raises(AdvisorError, match="holds another sweep"):
        run_sweep(
            read_plan(f"{head}context_tokens: [512, 1024, 2048]\nengine: [vllm, sglang]"),
            tmp_path / "out",
        )


def test_a_sweep_by_other_profiles_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read_plan("batch_size: 1\nacceptance: 2.4@3")
    shipped = plan.digest
    copy = tmp_path / "profiles"
    shutil.copytree(PROFILES, copy)
    monkeypatch.setattr("advisor.answers.explore.grid.PROFILES", copy)
    assert plan.digest == shipped
    accelerator = copy / "hardware" / "h200-sxm.yaml"
    accelerator.write_text(
        accelerator.read_text().replace("value: 151397597184", "value: 251397597184")
    )
    assert plan.digest != shipped
    shutil.copy(PROFILES / "hardware" / "h200-sxm.yaml", accelerator)
    assert plan.digest == shipped
    (copy / "routing" / "one-more.yaml").write_text("{}")
    assert plan.digest != shipped


@pytest.mark.usefixtures("small_parts")
def test_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process that starts runs the main module again, and a test of a page leaves its script
    # there.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    plan = read_plan(PLAN)
    run_sweep(plan, tmp_path / "one")
    run_sweep(plan, tmp_path / "two", workers=2)
    pd.testing.assert_frame_equal(frame_of(tmp_path / "one"), frame_of(tmp_path / "two"))
    assert np.isfinite(frame_of(tmp_path / "two")["speedup"]).all()


@pytest.fixture
def cluster() -> Iterator[str]:
    """Address of a Dask cluster of two workers on this machine."""
    distributed = pytest.importorskip("distributed", reason="it is in requirements.txt")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as local:
        yield local.scheduler_address


@pytest.mark.thorough
@pytest.mark.usefixtures("small_parts")
def test_a_cluster_gives_what_this_machine_gives_and_goes_on(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    plan = read_plan(PLAN)
    run_sweep(plan, tmp_path / "one")
    assert run_sweep(plan, tmp_path / "many", cluster=cluster).n_found == 0
    names = [f"part-{index:06d}.parquet" for index in range(4)]
    for name in names:
        here, there = ((tmp_path / folder / name).read_bytes() for folder in ("one", "many"))
        assert here == there, name
    (tmp_path / "many" / names[2]).unlink()
    assert run_sweep(plan, tmp_path / "many", cluster=cluster).n_found == 3
    assert (tmp_path / "many" / names[2]).read_bytes() == (tmp_path / "one" / names[2]).read_bytes()
    other = {"release": "0.0.1", "constants": "0"}
    monkeypatch.setattr("advisor.answers.explore.sweep_files.made_by", lambda: other)
    with pytest.raises(AdvisorError, match=r"the sweep is by release 0\.0\.1"):
        run_sweep(plan, tmp_path / "other", cluster=cluster)


def test_a_part_by_another_release_is_refused() -> None:
    with pytest.raises(AdvisorError, match="install the same release on every worker"):
        part_bytes([], (1,), {"release": "0.0.1", "constants": "0"})


def test_a_scheduler_that_does_not_answer_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="it is in requirements.txt")
    monkeypatch.setattr("advisor.answers.explore.sweep_files._ANSWER_S", 1)
    with pytest.raises(AdvisorError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run_sweep(read_plan(PLAN), tmp_path / "out", cluster="tcp://127.0.0.1:9")


def queries() -> list[str]:
    """The SQL examples of docs/choose-hardware.md, as printed there."""
    page = (Path(__file__).parents[2] / "docs" / "choose-hardware.md").read_text(encoding="utf-8")
    part = page.split("## Questions to it")[1].split("\n## ")[0]
    lines = [line.strip() for line in part.splitlines() if line.startswith("    ")]
    return [one for one in " ".join(lines).split(";") if one.strip()]


def test_duckdb_answers_the_questions_of_the_page_as_the_advisor_does(tmp_path: Path) -> None:
    text = PLAN.replace("k_max: 4", "k_max: [2, 4]\nengine: [vllm, sglang]").replace(
        "[1, 64]", "[1, 64, 512]"
    )
    run_sweep(read_plan(text), tmp_path / "out")
    rows = read_sweep_files([tmp_path / "out"]).frame
    pays, fastest, one_k = (
        duckdb.sql(one.replace("FOLDER", str(tmp_path / "out"))).df() for one in queries()
    )

    expected = (
        where_drafting_pays(rows)
        .dropna(subset=["pays_up_to"])
        .set_index(["model_id", "hardware_id"])
    )
    assert len(expected) > 1
    found = pays.set_index(["model_id", "hardware_id"])["pays_up_to"]
    assert found.to_dict() == expected["pays_up_to"].to_dict()

    quick = fastest_within(rows, 20.0).set_index("model_id")
    assert set(fastest["model_id"]) == set(quick.index)
    for model, best, rate in fastest.itertuples(index=False):
        row = quick.loc[model]
        assert best == {"hw": row["hardware_id"], "k": row["n_draft"], "batch": row["batch_size"]}
        assert rate == row["tokens_per_s_per_gpu"]

    losses = one_k_for_all(rows).head(3)
    assert sorted(losses["n_draft"]) == [0, 1, 2], "those that every point has"
    assert list(one_k["n_draft"]) == list(losses["n_draft"])
    for name in ("points", "loss", "worst"):
        assert one_k[name].to_numpy() == pytest.approx(losses[name].to_numpy(), rel=1e-5)
