"""A refit's constants as rows of text, the same on the page and on the command line."""

from __future__ import annotations

from advisor.points.refit import RefitParameter, RefitResult

PARAMETER_COLUMNS = ("Constant", "Before", "After", "Change", "Standard error", "Learnt")


def parameter_rows(result: RefitResult) -> list[tuple[str, ...]]:
    """One row per constant, under PARAMETER_COLUMNS."""
    return [
        (
            item.meaning.capitalize(),
            _amount(item, item.before),
            _amount(item, item.after),
            f"{round(item.factor - 1.0, 2) + 0.0:+.0%}",  # adding 0.0 makes a negative zero positive
            f"{item.log_stderr:.0%}",
            "at its bound" if item.at_bound else "yes" if item.identified else "no",
        )
        for item in result.parameters
    ]


def _amount(item: RefitParameter, value: float) -> str:
    return f"{value * 1e6:,.1f} \N{MICRO SIGN}s" if item.unit == "s" else f"{value:.2f}x"


def notes(result: RefitResult) -> list[str]:
    """Which constants ended at their bound and which these data cannot determine, one sentence each."""
    said = []
    for names, what in (
        (result.at_bound, "Ended at their bound"),
        (result.unidentified, "Cannot be determined from these data, so they stay near their values before"),
    ):
        if names:
            said.append(f"{what}: {', '.join(item.meaning for item in result.parameters if item.name in names)}.")
    return said
