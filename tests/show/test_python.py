"""The names of `advisor` in a notebook, and the notebook of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import advisor
from advisor import (
    Answer,
    Scenario,
    advise,
    explore,
    export,
    fit,
    ingest,
    refit_text,
    scenario,
    schedule,
)
from advisor.predict.curve import curve_rows
from advisor.prediction import AdvisorError
from tests.golden.notebook import PAGE, executed
from tests.own_model import CONFIG_JSON

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def answer() -> Answer:
    return advise(
        "Qwen/Qwen3-30B-A3B", "1xH200", drafter_id="eagle3", acceptance="2.4@3", batch_size=16
    )


def test_a_name_and_gpus_are_a_scenario() -> None:
    made = scenario("deepseek-ai/DeepSeek-V3", gpus="8xH200", batch_size=32)
    assert (made.model_id, made.hardware_id, made.n_gpus, made.tensor_parallel) == (
        "deepseek-v3",
        "h200-sxm",
        8,
        8,
    )
    assert made.drafter_id == "mtp"
    assert advise(made).scenario == made


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"model": "deepsek-v3", "gpus": "8xH200"}, "did you mean deepseek-v3"),
        ({"model": "deepseek-v3", "gpus": "H200"}, "write it as 8xH200"),
        ({"model": "deepseek-v3", "gpus": "8xRTX"}, "say which"),
        (
            {"model": "deepseek-v3", "gpus": "8xH200", "batch": 3},
            "'batch' is not a setting of a scenario",
        ),
        ({"model": "deepseek-v3", "gpus": "8xH200", "batch_size": 0}, "batch_size=0"),
    ],
)
def test_what_is_wrong_is_said_in_words(given: dict[str, object], expected: str) -> None:
    with pytest.raises(AdvisorError, match=re.escape(expected)):
        scenario(**given)


@pytest.mark.parametrize("form", ["path", "text", "content"])
def test_a_config_is_a_scenario(tmp_path: Path, form: str) -> None:
    (tmp_path / "My-MoE").mkdir()
    path = tmp_path / "My-MoE" / "config.json"
    path.write_text(CONFIG_JSON)
    config = {"path": path, "text": CONFIG_JSON, "content": json.loads(CONFIG_JSON)}[form]
    made = Scenario.from_config(config, batch_size=8)
    assert json.loads(made.model_config_json or "") == json.loads(CONFIG_JSON)
    assert made.batch_size == 8
    assert made.model_id == ("My-MoE" if form == "path" else "own-model")


def test_an_answer_shows_itself(answer: Answer) -> None:
    assert str(answer).splitlines()[1].startswith("Draft ")
    shown = answer._repr_html_()
    assert shown.count("<tr") == str(answer).count("%\n") + 1 or "<table" in shown
    assert "<script" not in shown
    assert "recommended" in shown


def test_the_curve_and_the_schedule_are_frames(answer: Answer) -> None:
    frame = answer.curve.to_frame()
    assert frame.to_dict("records") == curve_rows(answer.curve)
    assert list(schedule(answer).n_draft) == [item.n_draft for item in answer.k_by_batch]


def test_a_grid_has_a_row_for_each_combination(answer: Answer) -> None:
    base = answer.scenario.model_copy(update={"k_max": 2})
    frame = explore(base, [1, 16], context_tokens=[512, 2048])
    assert len(frame) == 2 * 2 * 3
    at = frame[(frame.batch_size == 16) & (frame.context_tokens == 2048) & (frame.n_draft == 2)]
    assert float(at.speedup.iloc[0]) == pytest.approx(answer.drafts[2].speedup, rel=1e-3)


def test_own_rows_refit_an_answer_and_it_is_exported(answer: Answer, tmp_path: Path) -> None:
    slower = answer.curve.to_frame().query("n_draft > 0 and batch_size in (1, 4, 16, 64)")
    slower = slower.eval(
        "speedup = speedup * tpot_ms / (tpot_ms + round_host_ms / accepted_length)"
    )
    of = ("hardware_id", "model_id", "engine", "tensor_parallel", "context_tokens")
    rows = slower.assign(
        draft_tokens_k=slower["n_draft"],
        drafter="eagle3",
        gpu_count=1,
        **{name: getattr(answer.scenario, name) for name in of},
    )
    rows.to_csv(tmp_path / "mine.csv", index=False)
    refit = fit(ingest(tmp_path / "mine.csv"))
    refitted = advise(answer.scenario.model_copy(update={"refit": refit_text(refit)}))
    assert refitted.recommendation.speedup.value != answer.recommendation.speedup.value
    made = export(refitted, "sglang", tmp_path / "out", draft_model="a/b")
    assert (tmp_path / "out" / "sglang_launch.sh").read_text().strip().endswith(made.launch_line)


def test_what_is_of_another_kind_is_told_what_is_expected(answer: Answer) -> None:
    calls: dict[str, Callable[[], object]] = {
        "gpus='8xH200'": lambda: advise("deepseek-v3", gpus=8),  # type: ignore[arg-type]
        "fit(ingest('file.csv'))": lambda: fit("file.csv"),  # type: ignore[arg-type]
        "schedule(advise(scenario))": lambda: schedule(answer.scenario),  # type: ignore[arg-type]
        "'batch' is not one of the": lambda: explore(answer.scenario, batch=[1]),
        "got dict": lambda: advise({}),  # type: ignore[arg-type]
    }
    for said, call in calls.items():
        with pytest.raises(AdvisorError, match=re.escape(said)):
            call()


def test_every_public_name_loads_and_stands_on_the_page() -> None:
    page = (ROOT / "docs/python.md").read_text()
    assert set(dir(advisor)) == set(advisor.__all__)
    for name in advisor.__all__:
        assert getattr(advisor, name) is not None
        assert name.startswith("__") or name in page


def test_the_notebook_runs_and_prints_what_stands_in_it() -> None:
    stored = json.loads(PAGE.read_text(encoding="utf-8"))
    again = executed(json.loads(PAGE.read_text(encoding="utf-8")))
    assert again == stored, "run: python -m tests.golden.notebook"
    assert len(PAGE.read_text()) < 30_000


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"batch_size": 0}, "batch_size=0: expected at least 1"),
        ({"batch_size": "a"}, "batch_size='a': expected a whole number"),
        ({"engine": "tgi"}, "engine='tgi': expected 'vllm', 'sglang', 'trtllm' or 'other'"),
        ({"batch": 4}, "'batch' is not a setting of a scenario"),
    ],
)
def test_a_wrong_field_is_refused_in_words(given: dict[str, object], expected: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        Scenario(acceptance="2.4@3", **given)  # type: ignore[arg-type]
    assert str(refused.value) == expected
