"""Words of a refusal for a column in another unit; what is refused: tests/hostile/test_wrong_units.py."""

from __future__ import annotations

import pytest

from advisor.measured.point_checks import check_units
from advisor.measured.points import refit_points
from advisor.prediction import AdvisorError
from tests.refit_synthetic import synthetic_points


@pytest.mark.parametrize(
    ("factor", "said"), [(1234.5, "is 1,230 times"), (1 / 25_000, "is 1/25,000 of"), (7.5, "7.5 t")]
)
def test_a_factor_is_said_in_three_digits_and_never_as_a_power_of_ten(factor: float, said: str) -> None:
    frame = synthetic_points((1, 4, 16), (3,), quantity="tpot_s")
    frame["tpot_s"] *= factor
    points, _ = refit_points(frame)
    with pytest.raises(AdvisorError) as refused:
        check_units(points)
    assert said in str(refused.value)
