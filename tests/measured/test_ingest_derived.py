"""Derived quantities: hand-computed values, limits, and the search for a baseline."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.derived import (
    _group_codes,
    acceptance_by_position_text,
    accepted_length_from_counts,
    accepted_length_from_latencies,
    batch_from_rate,
    match_baselines,
    output_rate_from_latency,
    output_rate_from_total,
    speedup_from_values,
    step_time_from_latencies,
)
from advisor.measured.ingest.read import read_upload
from advisor.measured.ingest.rows import evaluate
from advisor.measured.ingest.side_by_side import value_direction
from advisor.predict.scenario_fields import mean_context
from advisor.show.phrases.reading import reading_texts
from tests.golden.sentences import lines_with

TIMES = st.floats(1e-6, 100)


def test_accepted_length_from_counts_is_one_plus_accepted_over_drafts():
    assert accepted_length_from_counts([9520, 0, 5], [6800, 10, 0]).tolist()[:2] == [2.4, 1.0]
    assert np.isnan(accepted_length_from_counts(5, 0))
    assert np.isnan(accepted_length_from_latencies(0.009, 0.010)), "a chunk shorter than a token"
    assert np.isnan(accepted_length_from_latencies(0.009, [np.nan, 0.0])).all()


@given(TIMES, st.floats(1, 20))
def test_accepted_length_from_latencies_recovers_tokens_per_chunk(token, length):
    assert accepted_length_from_latencies(token * length, token) == pytest.approx(length, rel=1e-9)
    assert accepted_length_from_latencies(token, token) == 1.0


def test_step_time_is_chunk_latency_unless_chunks_are_not_steps():
    assert step_time_from_latencies(0.0096, 0.004, 2.4) == pytest.approx(0.0096)
    assert step_time_from_latencies(0.010, 0.004, 2.4) == 0.010, "4 % off"
    assert step_time_from_latencies(0.0107, 0.004, 2.4) == pytest.approx(0.0096), "11 % off"
    assert step_time_from_latencies(0.005, 0.004, 2.4) == pytest.approx(0.0096)
    assert step_time_from_latencies(0.005, np.nan, 2.4) == pytest.approx(0.005)
    assert step_time_from_latencies(np.nan, 0.004, 2.4) == pytest.approx(0.0096)
    assert np.isnan(step_time_from_latencies(np.nan, 0.004, np.nan))


def test_output_rates_and_context_are_plain_arithmetic():
    assert output_rate_from_latency(8, 100, 2.5) == pytest.approx(320)
    assert output_rate_from_total(12000, 1000, 200) == pytest.approx(2000)
    assert mean_context(1000, 200) == 1100
    assert batch_from_rate(1000, 9e-3, [200, 2, 1, np.nan]) == pytest.approx(
        [9 * 199 / 200, 4.5, 9, 9]
    )
    metric = pd.Series(["output_tok_per_s", "tpot_ms", "step_time_ms", "marks"])
    speedups = speedup_from_values(
        [100, 30, 10, 10], [150, 20, 16, 16], metric, [np.nan, np.nan, 2.4, 2.4]
    )
    assert speedups[:3] == pytest.approx([1.5, 1.5, 10 * 2.4 / 16])
    assert np.isnan(speedups[3]), "a name that says neither time nor rate gives no direction"


@pytest.mark.parametrize(
    ("metric", "lower"),
    [
        ("tpot_ms", True),
        ("request_latency_s", True),
        ("output_tok_per_s", False),
        ("decode_tok_per_s_per_user", False),
        ("time_per_output_token", True),
        ("", None),
        ("ratio_only", None),
    ],
)
def test_the_name_of_a_metric_tells_which_way_is_faster(metric, lower):
    is_lower, told = value_direction(pd.Series([metric]))
    assert (bool(is_lower[0]) if told[0] else None) is lower


def points(**columns: list) -> pd.DataFrame:
    n_rows = len(next(iter(columns.values())))
    given_columns = {
        "hardware_id": ["h200-sxm"] * n_rows,
        "model_id": ["m"] * n_rows,
        "engine": ["vllm"] * n_rows,
        "batch_size": [4] * n_rows,
        **columns,
    }
    text = pd.DataFrame(given_columns).to_csv(index=False)
    frame = read_upload("p", text.encode()).frame
    assert list(frame.columns) == list(COLUMNS["points"])
    return frame


def matched(frame):
    out, notes = match_baselines(frame)
    return out, "; ".join(reading_texts(notes))


def speedups(frame: pd.DataFrame) -> list[float]:
    return match_baselines(frame)[0]["speedup"].tolist()


def test_speedup_is_a_ratio_of_rates_where_times_are_missing():
    out, _ = match_baselines(points(draft_tokens_k=[0, 3], output_tok_per_s=[100, 150]))
    assert out["speedup"].tolist()[1] == pytest.approx(1.5)
    assert out["metric"].tolist()[1] == "output_tok_per_s"
    assert out["baseline_value"].tolist()[1] == 100


@pytest.mark.parametrize(
    "column",
    [
        "hardware_id",
        "engine",
        "model_id",
        "batch_size",
        "tensor_parallel",
        "weight_dtype",
        "dataset",
        "batch_kind",
    ],
)
def test_a_baseline_that_differs_in_anything_is_no_baseline(column, golden):
    values = [1, 2] if column in ("batch_size", "tensor_parallel") else ["a", "b"]
    out, note = matched(points(draft_tokens_k=[0, 3], tpot_ms=[10, 4], **{column: values}))
    assert out["speedup"].isna().all()
    golden(no_baseline=lines_with(note, "no baseline"))


def test_lengths_may_differ_by_five_percent_and_the_nearest_baseline_counts():
    frame = points(
        draft_tokens_k=[0, 0, 3, 3],
        tpot_ms=[10, 20, 5, 5],
        input_tokens=[1000, 1040, 1035, 1200],
        output_tokens=[256] * 4,
    )
    assert speedups(frame)[2:] == pytest.approx([4.0, np.nan], nan_ok=True)


def test_what_one_of_two_runs_leaves_open_of_the_load_contradicts_nothing(golden):
    for plain, drafted in (([4096, 512], [None, None]), ([None, None], [4096, 512])):
        frame = points(
            draft_tokens_k=[0, 3],
            tpot_ms=[10, 4],
            input_tokens=[plain[0], drafted[0]],
            output_tokens=[plain[1], drafted[1]],
            batch_kind=["max_concurrency", None],
        )
        out, note = matched(frame)
        assert out["speedup"].tolist()[1] == pytest.approx(2.5)
        golden(does_not=lines_with(note, "does not"))
        assert "no baseline" not in note
        assert match_baselines(frame, unstated_fits=False)[0]["speedup"].isna().all()
    several = {
        "batch_size": [4, 8, 4, 8],
        "tpot_ms": [10, 20, 5, 5],
        "input_tokens": [128, 128, None, None],
    }
    assert speedups(points(draft_tokens_k=[0, 0, 3, 3], **several))[2:] == pytest.approx([2.0, 4.0])


def test_a_row_that_leaves_open_which_of_two_loads_it_is_of_has_no_baseline(golden):
    frame = points(draft_tokens_k=[0, 0, 3], tpot_ms=[10, 30, 5], input_tokens=[128, 4096, None])
    out, note = matched(frame)
    assert out["speedup"].isna().all()
    golden(several_runs=lines_with(note, "several runs"))
    among = {"input_tokens": [100, 100, 102, None], "output_tokens": [100, 400, 100, None]}
    assert np.isnan(
        speedups(points(draft_tokens_k=[0, 0, 0, 3], tpot_ms=[10, 30, 10, 5], **among))
    ).all()
    near = points(draft_tokens_k=[0, 0, 3], tpot_ms=[10, 12, 5], input_tokens=[4096, 4100, None])
    assert speedups(near)[2] == pytest.approx(2.2)


def test_a_batch_of_each_rank_is_not_that_of_a_run_that_does_not_say_what_it_counts():
    frame = points(draft_tokens_k=[0, 3], tpot_ms=[10, 4], batch_kind=["requests_per_rank", None])
    assert match_baselines(frame)[0]["speedup"].isna().all()


@pytest.mark.parametrize(
    ("columns", "expected", "unsaid"),
    [
        (
            {"draft_tokens_k": [0, 0, 3], "tpot_ms": [10, 11, 4], "batch_size": [8, 4, 4]}
            | {"weight_dtype": ["fp8", "fp8", None], "output_tokens": [512, 512, 128]},
            "no baseline found for 1 row with K > 0: the nearest run without drafts (line 3) "
            "differs from line 4 in stored type of the routed experts' weights (fp8, here not "
            "stated), generated length (512, here 128);",
            "(line 2)",
        ),
        (
            {"draft_tokens_k": [0, 0, 3], "tpot_ms": [9, 8, 4], "batch_size": [1, 16, 8]},
            "(line 3) differs",
            "(line 2)",
        ),
        (
            {
                "tpot_ms": [9, 4],
                "weight_dtype": ["fp8", "bf16"],
                "batch_kind": [None, "max_concurrency"],
            },
            "experts' weights (fp8, here bf16); fill",
            "what batch_size counts",
        ),
        (
            {"tpot_ms": [9, None]},
            "neither a time per token nor a rate in 1 row with K > 0",
            "no baseline",
        ),
    ],
)
def test_of_a_row_without_a_speedup_is_said_what_keeps_it_from_one(columns, expected, unsaid):
    _, note = matched(points(**({"draft_tokens_k": [0, 3]} | columns)))
    assert expected in note
    assert unsaid not in note


def test_every_combination_of_cells_has_a_code_of_its_own():
    cells = list(itertools.product([None, "a", "b"], [None, "c"], [None, "d", "e"]))
    assert len(set(_group_codes(pd.DataFrame(cells, columns=list("xyz")), "xyz"))) == len(cells)


UNLIKE = {
    "draft_tokens_k": [0, 3, 3],
    "tpot_ms": [10, None, 4],
    "output_tok_per_s": [None, 900, None],
}


def test_runs_that_state_no_figure_of_one_kind_are_told_so_and_not_asked_for_lengths(golden):
    out, note = matched(points(**UNLIKE))
    assert out["speedup"].notna().tolist() == [False, False, True]
    golden(line_run=lines_with(note, "line 2"))
    assert "state lengths" not in note


def test_rows_whose_baseline_leaves_something_open_are_counted_among_those_with_a_speedup_alone(
    golden,
):
    _, note = matched(points(**UNLIKE, input_tokens=[4096, None, None]))
    golden(speedup_computed=lines_with(note, "speedup computed"))
    golden(row_these=lines_with(note, "in 1"))


def test_several_equal_baselines_count_with_their_median():
    assert speedups(points(draft_tokens_k=[0, 0, 0, 3], tpot_ms=[8, 10, 90, 5]))[
        3
    ] == pytest.approx(2.0)


def test_an_unknown_batch_or_k_never_matches():
    assert np.isnan(
        speedups(points(draft_tokens_k=[0, 3], tpot_ms=[10, 4], batch_size=[None, None]))
    ).all()
    out, note = matched(points(draft_tokens_k=[None, None], tpot_ms=[10, 4]))
    assert out["speedup"].isna().all()
    assert "K is unknown" in note


def test_a_stated_speedup_is_kept():
    assert speedups(points(draft_tokens_k=[0, 3], tpot_ms=[10, 4], speedup=[None, 1.7]))[1] == 1.7


def test_speedup_times_round_time_is_accepted_length_in_baseline_steps():
    rows = read_upload(
        "p",
        b"hardware_id,model_id,engine,batch_size,draft_tokens_k,itl_ms,tpot_ms\nh,m,vllm,4,0,8,8\nh,m,vllm,4,3,9.6,4\n",
    )
    row = rows.result.frame.iloc[1]
    assert row["speedup"] * row["step_time_s"] == pytest.approx(row["accepted_length"] * 0.008)


def test_only_shares_between_0_and_1_are_acceptance_by_position():
    assert acceptance_by_position_text([0.7, 0.5]) == "0.7;0.5"
    assert acceptance_by_position_text([1, 0]) == "1;0"
    for wrong in ([], [1.2], ["a"], None, 3, [True], [float("nan")]):
        assert acceptance_by_position_text(wrong) is None


def test_rows_without_any_computed_value_stay_in_place_beside_rows_with_one():
    frame = read_upload(
        "p",
        b"hardware_id,model_id,engine,batch_size,draft_tokens_k,tpot_ms,input_tokens,output_tokens,derived\n"
        b"h,m,vllm,4,0,8,,,\nh,m,vllm,4,3,4,,,\nh,m,vllm,9,3,4,,,\nh,m,vllm,7,3,4,10,10,dataset\n",
    ).result.frame
    assert frame["derived"].fillna("").tolist() == [
        "step_time_s",
        "speedup",
        "",
        "dataset;context_tokens",
    ]


def test_rows_with_neither_old_nor_new_names_are_kept_when_others_have_them():
    records = [
        {"steps": 0, "acc_length": 1.0, "step_time": 0.008, "speed": 125.0},
        {"steps": 3, "acc_length": 2.4, "step_time": 0.012, "speed": 200.0},
        {"steps": 3, "acc_length": 2.4, "step_time": None, "speed": 180.0, "batch_size": 8},
        {"steps": 0, "acc_length": 1.0, "step_time": 0.010, "speed": 100.0, "batch_size": 8},
    ]
    text = "\n".join(
        json.dumps({"batch_size": 1, "topk": 1, "num_draft_tokens": 4} | record)
        for record in records
    )
    frame = read_upload("x", text.encode()).result.frame
    assert frame["derived"].fillna("").tolist() == ["", "speedup", "step_time_s;speedup", ""]


def test_a_length_that_is_a_mean_over_requests_is_noted():
    table = (
        "hardware_id,model_id,gpu_count,drafter,draft_tokens_k,batch_size,tpot_s,accepted_length,"
        "accepted_length_same_run,accepted_length_per_request\n"
        "h200-sxm,qwen3-30b-a3b,1,eagle3,3,16,0.004,2.4,1,1\n"
        "h200-sxm,qwen3-30b-a3b,1,eagle3,3,32,0.005,2.4,1,0\n"
    )
    measured = evaluate(read_upload("runs.csv", table.encode()))
    kinds = {note.kind: dict(note.facts) for note in measured.derived}
    assert kinds["otherwise_length_per_request"] == {"n": 1}
