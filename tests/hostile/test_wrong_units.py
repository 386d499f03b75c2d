"""No silent wrong refit: every wrong unit or sense that a file can show is refused, named, asked
about or judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import combine
from advisor.measured.point_checks import check_units
from advisor.measured.refit import refit_chosen, select_points
from advisor.measured.refit_result import MAX_BASELINE_MOVE, MAX_ERROR, RefitResult
from advisor.prediction import AdvisorError
from advisor.show.phrases.reading import reading_texts
from advisor.show.words.refit import sentence
from tests.golden.sentences import lines_with
from tests.hostile.wrong_units import GPUS, cases, right, table, times
from tests.measured.refit_synthetic import refit, synthetic_points

WHOLE = ("tpot_s", "output_tok_per_s", "ttft_s", "request_latency_s", "step_time_s", "speedup")


def heard(data: bytes) -> list[tuple[str, str]]:
    """Everything that is said about a file on its way into a refit, with its kind."""
    said: list[tuple[str, str]] = []
    try:
        result = read_upload("mine.csv", data).result
        said += [("refused", reason) for reason in result.rejects["reason"].unique()]
        said += [("named", text) for text in reading_texts(result.warnings)]
        answer = refitted(data)
    except AdvisorError as error:
        return [*said, ("refused", str(error))]
    said += [("asked", text) for text in answer.questions]
    return [*said, *(("against", text) for text in answer.reasons_against)]


def refitted(data: bytes) -> RefitResult:
    return refit_chosen(*select_points(read_upload("mine.csv", data).result.frame))


@pytest.mark.parametrize("gpus", [1, GPUS])
@pytest.mark.parametrize("measured", [("tpot_s",), ("step_time_s",), ("speedup",), WHOLE])
def test_a_right_file_is_refitted_without_a_word(measured, gpus):
    assert heard(table(measured, gpus=gpus, drafts_only=measured == ("speedup",))) == []


@pytest.mark.parametrize("name", sorted(cases()))
def test_a_wrong_file_is_not_refitted_in_silence(name):
    data, outcome, word = cases()[name]
    said = heard(data)
    assert any(kind == outcome and word in text for kind, text in said), said


def test_there_are_at_least_23_wrong_files():
    assert len(cases()) >= 23


def test_a_wrong_prefix_is_refused_with_column_example_and_question():
    with pytest.raises(
        AdvisorError,
        match=r"tpot_s is .* times what is predicted.*line \d+.*unit in the header right\?",
    ):
        refitted(table(("tpot_s",), times("tpot_s", 1e3)))


def test_on_rooflines_only_factors_that_no_efficiency_explains_are_refused():
    frame = synthetic_points((1, 4, 16), (0,), quantity="tpot_s", hardware_id="mi300x")
    points, _ = select_points(frame)
    assert {point.tier for point in points} == {"roofline"}
    frame["tpot_s"] *= 4
    assert refit(frame).reasons_against
    frame["tpot_s"] *= 250
    with pytest.raises(AdvisorError, match=r"near 10\^3"):
        refit(frame)


def test_a_number_of_gpus_below_three_is_not_asked_about():
    frame = table(("tpot_s",), times("tpot_s", 2.0), gpus=2)
    assert [text for text in refitted(frame).questions if "number of" in text] == []


def test_an_outlier_or_two_are_set_aside_and_do_not_refuse_the_column():
    frame = right().assign(metric=None)[list(right().columns)]
    frame.loc[frame.index[:2], "tpot_s"] *= 1e3
    points, _ = select_points(frame.assign(speedup=np.nan, step_time_s=np.nan, derived=None))
    assert check_units(points) == ()


def test_better_is_never_said_of_a_refit_that_stays_far_off():
    answer = refitted(
        table(("step_time_s",), lambda f: {"step_time_s": f["tpot_s"]}, drafts_only=True)
    )
    assert answer.own_errors.after.mape > MAX_ERROR
    assert answer.own_errors.after.mape < answer.own_errors.before.mape
    assert answer.far_off
    assert "predicted better" not in sentence(answer)


def test_a_refit_that_the_data_speak_against_is_written_only_by_force(tmp_path: Path, run, golden):
    bad = tmp_path / "bad.csv"
    out = tmp_path / "my.refit"
    bad.write_bytes(table(("tpot_s",), times("tpot_s", GPUS), GPUS))
    code, text, error = run("fit", str(bad), "--output", str(out))
    assert code == 2
    golden(not_written=lines_with(error, "is not"))
    golden(number_gpus=lines_with(error, "number of"))
    golden(rejected_checks=lines_with(text, "rejected by"))
    assert not out.exists()
    code, text, _ = run("fit", str(bad), "--output", str(out), "--force")
    assert code == 0
    assert out.read_text(encoding="utf-8").startswith("on=h200-sxm/vllm")


def test_a_refit_that_ends_at_a_bound_has_that_against_it(golden):
    answer = refit(synthetic_points((1, 2, 4, 8, 16), (1, 3, 5), truth={"launch": 40.0}))
    golden(ended_their=[text for text in answer.reasons_against if "Ended at" in text])


def test_a_refit_that_brings_nothing_says_so_and_has_nothing_against_it(golden):
    answer = refit(synthetic_points((1, 2, 4, 8, 16), (1, 3, 5), noise=0.02))
    assert answer.reasons_against == ()
    assert answer.own_errors.agrees_already
    golden(shipped_constants=lines_with(sentence(answer), "The shipped"))


def test_a_factor_on_all_times_moves_the_baseline_step_further_than_an_engine_explains(golden):
    frame = synthetic_points((1, 4, 16, 64), (0, 1, 3), quantity="tpot_s", hardware_id="mi300x")
    answer = refit(frame.assign(tpot_s=1.6 * frame["tpot_s"]))
    golden(baseline_step=[text for text in answer.reasons_against if "The baseline" in text])
    assert np.median(answer.baseline.moves) > MAX_BASELINE_MOVE
    at = answer.baseline.furthest
    assert f"{1e3 * answer.baseline.after_s[at]:.3g} ms" in sentence(answer)


def test_the_gate_judges_the_batches_of_the_rows_that_are_used_and_names_one_of_them():
    answer = refit(synthetic_points((1, 2, 4), (0, 1, 3), quantity="tpot_s"))
    assert answer.reasons_against == ()
    moved = np.full(len(answer.baseline.batches), 1.5)
    moved[[0, -1]] = 1.6, 3.0
    unused = answer.rows.iloc[:1].assign(batch_size=512.0, used=False)
    with_unused = pd.concat([answer.rows, unused])
    for after_s in (moved * answer.baseline.before_s, np.full(moved.shape, np.nan)):
        baseline = replace(answer.baseline, after_s=after_s, surprising_s=after_s)
        held_back = replace(answer, baseline=baseline)
        (reason,) = held_back.reasons_against
        assert "at batch 1," in reason
        assert replace(held_back, rows=with_unused).reasons_against == (reason,)


def test_equal_rows_count_once_and_the_same_rows_of_another_file_too():
    data = table(("tpot_s",))
    twice = read_upload("twice.csv", data + data.split(b"\n", 1)[1]).result
    rows = len(right())
    assert (twice.rows_kept, twice.rows_repeated, twice.rows_refused) == (rows, rows, 0)
    assert any(f"{rows} rows equal to another" in text for text in reading_texts(twice.warnings))
    other = read_upload("other.csv", data + b"\n")
    both = combine([read_upload("one.csv", data), other])
    assert both.sources[0].sha256 != both.sources[1].sha256
    assert (both.result.rows_kept, both.result.rows_repeated) == (rows, rows)
    pd.testing.assert_frame_equal(both.result.frame, read_upload("one.csv", data).result.frame)


def test_a_long_file_becomes_few_questions_and_says_how_many_rows_it_left_out(monkeypatch):
    from advisor.measured import points as module

    frame = synthetic_points(range(1, 61), (1, 3, 5))
    frame.loc[frame.index[:30], "batch_size"] = np.nan
    monkeypatch.setattr(module, "MAX_ASKED", 100)
    monkeypatch.setattr(module, "MAX_POINTS", 40)
    asked = []
    monkeypatch.setattr(
        module, "_ask", lambda *given, ask=module._ask: asked.append(given) or ask(*given)
    )
    points, refused = select_points(frame)
    assert len(asked) == 100 + 40, "those that are fitted once more, with prompts in their times"
    assert len(points) == 40
    assert (points[0].line, points[-1].line) == (32, 181)
    assert sum(one.rows for one in refused) == 180 - 40
    assert {(one.line, one.rows) for one in refused if "not stated" in one.reason} == {(2, 30)}
