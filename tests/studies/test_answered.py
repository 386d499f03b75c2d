"""Which published rows can be predicted, and that the rest is refused for a reason."""

from __future__ import annotations

from advisor.measured.points import COLLECTIONS, published_rows
from studies.diagnosis import answered, apart_section, by_laboratory, summary


def test_most_rows_of_the_second_collection_that_state_enough_are_predicted() -> None:
    rows = answered(published_rows(COLLECTIONS[1]))
    asked = rows[rows["asked"]]
    assert asked["predicted"].mean() >= 0.85
    assert (rows.loc[~rows["predicted"], "reason"] != "").all()
    large = asked.groupby("laboratory").filter(lambda group: len(group) > 4)
    assert large.groupby("laboratory")["predicted"].mean().min() >= 0.7
    assert rows["plain_s"].notna().mean() > 0.9


def test_a_row_that_states_no_accelerator_is_not_counted_and_one_without_model_is_refused() -> None:
    frame = published_rows(COLLECTIONS[1])
    one = frame[frame["hardware_id"] == "b200-sxm"].head(1)
    assert not answered(one.assign(hardware_id="not-stated"))["asked"].item()
    unnamed = answered(one.assign(model_id="not-stated"))
    assert unnamed["asked"].item()
    assert "model_id is not stated" in by_laboratory(unnamed)
    assert "of these 0 (0.0%) are predicted" in summary(unnamed)


def test_the_set_apart_is_counted_and_said_to_judge_nothing_only_where_it_cannot() -> None:
    rows = answered(published_rows(*COLLECTIONS))
    said = apart_section(rows)
    assert f"{rows['apart'].sum()} rows" in said
    assert "0 of these can be predicted" in said
    assert "judge nothing yet" in said
    sound = apart_section(rows.assign(apart=True))
    assert "judge nothing" not in sound
    assert "each look is logged" in sound
