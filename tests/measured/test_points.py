"""The collections of published rows: one reader, the times they print, and rows with a defect.

Words of a refusal for a column in another unit; what is refused: tests/hostile/test_wrong_units.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.read import read_upload
from advisor.measured.point_checks import check_units, least_pass_s
from advisor.measured.points import measured_times, published_rows, refit_points
from advisor.measured.published import COLLECTIONS, FIRST_COLLECTION
from advisor.prediction import AdvisorError
from studies.published import point_of, points_of
from studies.validation.outside import external_points, faster_than_reading
from tests.golden.sentences import Golden, lines_with
from tests.measured.refit_synthetic import synthetic_points
from tests.published import judged

ROW = {
    "hardware_id": "h200-sxm",
    "gpu_count": "1",
    "model_id": "qwen3-30b-a3b",
    "engine": "vLLM",
    "drafter": "eagle3",
    "draft_tokens_k": "3",
    "batch_size": "8",
    "accepted_length": "2.4",
    "accepted_length_same_run": "1",
    "baseline_value": "800",
    "sd_value": "1200",
    "metric": "output_tok_per_s",
    "speedup": "1.5",
}


def test_the_first_collection_is_read_where_none_is_named_and_every_cell_of_all_is_text() -> None:
    first = published_rows()
    every = published_rows(*COLLECTIONS)
    assert first.equals(published_rows(FIRST_COLLECTION))
    assert len(every) > len(first) > 700
    assert set(every.columns) - set(first.columns) <= set(COLUMNS["points"])
    assert set(first.columns) <= set(every.columns)
    assert all(isinstance(cell, str) for row in every.to_numpy() for cell in row)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, (0.01, 8 / 1200)),
        ({"metric": "tpot_ms", "baseline_value": "20", "sd_value": "10"}, (0.02, 0.01)),
        (
            {"metric": "output_tok_per_s_per_user", "baseline_value": "50", "sd_value": "100"},
            (0.02, 0.01),
        ),
        ({"metric": "output_tok_per_s_per_gpu", "gpu_count": "4"}, (0.0025, 2 / 1200)),
        (
            {"metric": "total_tok_per_s", "input_tokens": "300", "output_tokens": "100"},
            (0.04, 8 / (0.25 * 1200)),
        ),
        (
            {
                "metric": "total_tok_per_s_per_gpu",
                "gpu_count": "4",
                "input_tokens": "8192",
                "output_tokens": "1024",
            },
            (0.0225, 8 / (4 * 1200 / 9)),
        ),
        (
            {
                "metric": "request_latency_s",
                "output_tokens": "100",
                "baseline_value": "2",
                "sd_value": "1",
            },
            (0.02, 0.01),
        ),
    ],
)
def test_a_rows_times_are_seconds_for_a_token_of_one_sequence(
    cells: dict[str, str], expected: tuple[float, float]
) -> None:
    assert measured_times(ROW | cells) == pytest.approx(expected)


def test_a_row_that_prints_a_ratio_alone_has_no_times() -> None:
    plain, speculative = measured_times(
        ROW | {"metric": "ratio_only", "baseline_value": "", "sd_value": ""}
    )
    assert plain != plain
    assert speculative != speculative


def test_a_row_with_a_defect_is_set_aside_with_its_reason() -> None:
    frame = published_rows().head(1).assign(**(ROW | {"defect": "the engine was at fault"}))
    assert points_of(frame) == ([], {"set aside for a defect: the engine was at fault": 1})
    assert len(points_of(frame.assign(defect=""))[0]) == 1


def test_a_pass_cannot_be_shorter_than_reading_its_weights_at_the_nominal_bandwidth() -> None:
    setup = point_of(ROW).setup
    one = least_pass_s(setup, 1, 1)
    many = least_pass_s(setup, 64, 4)
    assert one < many
    # All 30.5e9 parameters but the embedding, two bytes each, over 4.8 TB/s.
    assert many <= 2 * 30.5e9 / 4.8e12
    # 3.3e9 active parameters with the embedding: the least that one token can touch.
    assert one == pytest.approx(2 * 3.0e9 / 4.8e12, rel=0.1)


def test_a_round_faster_than_memory_is_found_and_an_ordinary_one_is_not(golden: Golden) -> None:
    assert faster_than_reading(point_of(ROW)) == ""
    golden(
        printed_round=lines_with(
            faster_than_reading(point_of(ROW | {"sd_value": "24000"})), "the printed"
        )
    )
    golden(
        printed_plain=lines_with(
            faster_than_reading(point_of(ROW | {"baseline_value": "16000"})), "the printed"
        )
    )


def test_rows_faster_than_memory_are_those_marked_so() -> None:
    frame = published_rows(*COLLECTIONS)
    marked = frame[frame["defect"].str.contains("shorter than reading")]
    rest = frame[~frame["point_id"].isin([point.facts["point_id"] for point in judged()])]
    beside, _ = points_of(rest.assign(defect=""), other_models=True)
    points = (*judged(), *beside, *external_points(frame))
    found = {point.facts["point_id"] for point in points if faster_than_reading(point)}
    assert found
    assert found <= set(marked["point_id"])
    assert set(marked["model_id"]) == {"llama4-scout"}


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1234.5, "is 1,230 times"), (1 / 25_000, "is 1/25,000 of"), (7.5, "7.5 t")],
)
def test_a_factor_is_said_in_three_digits_and_never_as_a_power_of_ten(
    factor: float, expected: str
) -> None:
    frame = synthetic_points((1, 4, 16), (3,), quantity="tpot_s")
    frame["tpot_s"] *= factor
    points, _ = refit_points(frame)
    with pytest.raises(AdvisorError) as refused:
        check_units(points)
    assert expected in str(refused.value)


def test_a_time_is_not_suspected_to_be_of_a_round_where_plain_steps_are_off_alike() -> None:
    frame = synthetic_points((1, 4, 16), (3,), quantity="tpot_s").assign(
        tpot_s=lambda rows: rows["tpot_s"] * 3.7
    )
    (asked,) = check_units(refit_points(frame)[0])
    assert asked.endswith("is it per token or per round?")
    both = synthetic_points((1, 4, 16), (0, 3), quantity="tpot_s").assign(
        tpot_s=lambda rows: rows["tpot_s"] * 3.7
    )
    assert check_units(refit_points(both)[0]) == ()


def test_a_file_of_eight_copies_is_predicted_as_one_copy_at_an_eighth_of_the_batch() -> None:
    head = "hardware,model,engine,k,drafter,al,accepted_length_same_run,batch,gpus,tp,dp,tpot_ms,kv_cache_dtype"  # noqa: E501
    of_one = "\n".join(
        [
            head,
            *(f"h200-sxm,qwen3-30b-a3b,sglang,3,eagle3,2.4,1,{b},1,1,,5,auto" for b in (1, 8, 32)),
        ]
    )
    of_all = "\n".join(
        [
            head,
            *(f"h200-sxm,qwen3-30b-a3b,sglang,3,eagle3,2.4,1,{b * 8},8,1,8,5," for b in (1, 8, 32)),
        ]
    )
    frames = [read_upload("copies.csv", text.encode()).result.frame for text in (of_one, of_all)]
    (one, refused), (whole, also_refused) = map(refit_points, frames)
    assert not refused
    assert not also_refused
    assert (
        [point.batch_size for point in whole]
        == [1.0, 8.0, 32.0]
        == [point.batch_size for point in one]
    )
    for each, other in zip(one, whole, strict=True):
        assert np.allclose(each.observations.upper, other.observations.upper)
    asked = read_upload("copies.csv", of_all.replace(",8,1,8,5", ",8,1,,5").encode()).result
    (field,) = [item for item in asked.missing if item.name == "data_parallel"]
    assert (field.needed, field.prefill) == (True, 8)
    assert not refit_points(asked.frame)[0]


def test_a_row_informs_rounds_where_its_plain_step_is_ours_and_its_drafts_were_counted() -> None:
    plain_s = float(point_of(ROW).observations.upper[0].sum())
    assert measured_times(ROW)[0] == pytest.approx(0.01)

    def informs(**cells: str) -> bool:
        return point_of({**ROW, **cells}).informs

    def printed(factor: float) -> dict[str, str]:
        """Rates 1.5 times apart, the plain one `factor` times as slow as predicted."""
        rate = 8.0 / (plain_s * factor)
        return {"baseline_value": f"{rate}", "sd_value": f"{1.5 * rate}"}

    assert point_of({**ROW, **printed(1.25)}).plain_over_measured == pytest.approx(0.8)
    assert [informs(**printed(factor)) for factor in (0.6, 0.7, 1.45, 1.6)] == [
        False,
        True,
        True,
        False,
    ]
    assert informs(metric="ratio_only")
    assert not informs(**printed(1.0), task="random", accepted_length_same_run="0")
    notes = (
        "decode context parallel 1",
        "decode context parallel 8",
        "beyond captured graphs: 768 tokens in a step",
    )
    assert [informs(**printed(1.0), task="random", notes=what) for what in notes] == [
        True,
        False,
        False,
    ]
