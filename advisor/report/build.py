"""build_report(): an advice and a date in, the typed report out. No clock, no file, no network."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
from collections.abc import Mapping

import numpy as np

from advisor import __version__
from advisor.advice import Advice
from advisor.comparison import model_name, setting_lines
from advisor.components import component_name
from advisor.curve import curve_rows, digits
from advisor.next_steps import NextSteps
from advisor.points import Errors
from advisor.prediction import Constant
from advisor.report.document import (
    AcceptedLength,
    Answer,
    ComponentTime,
    CurvePoint,
    ErrorLine,
    Report,
    ScheduleRange,
    Setting,
    UsedConstant,
)
from advisor.report.engines import check_steps, engine_setups
from advisor.report.further import cited_works, derivation_steps, design_section, tried_changes
from advisor.report.words import LIMITS
from advisor.setup import Setup
from advisor.text import printable

MAX_QUERY_CHARACTERS = 8_000
"""Longest share query printed: servers and mail programs cut longer addresses. The JSON report has the scenario."""
_PACKAGES = ("numpy", "pydantic", "plotly", "matplotlib", "typst", "aiconfigurator-core")


def build_report(
    advice: Advice,
    date: dt.date,
    *,
    steps: NextSteps | None = None,
    validation: Mapping[str, Errors] | None = None,
    served_model: str | None = None,
    draft_model: str | None = None,
) -> Report:
    """The report on an advice.

    Parameters
    ----------
    date : printed on the report; the only date in it.
    steps : what to try next and how the design stands, of `next_steps`. None: not looked up.
    validation : errors on published measurements by group name, as `applicable_errors` gives them. None: not looked up.
    served_model, draft_model : names for the engines' launch lines; see `engine_setups`.
    """
    scenario, query = advice.scenario, advice.scenario.to_query()
    standing = None if steps is None else steps.standing
    return Report(
        date=date,
        scenario=scenario,
        scenario_hash=scenario.hash,
        share_query=query if len(query) <= MAX_QUERY_CHARACTERS else "",
        question=_question(advice),
        settings=scenario_settings(advice),
        verdict=printable(advice.recommendation.verdict),
        answer=_answer(advice),
        curve_k=advice.curve_k,
        sweet_spot_batch=int(advice.sweet_spot_batch),
        break_even_batch=None if advice.break_even_batch is None else digits(advice.break_even_batch),
        curve=_curve(advice),
        schedule=_schedule(advice),
        engines=engine_setups(advice, served_model, draft_model),
        check_commands=check_steps(advice, served_model, draft_model),
        components=_components(advice),
        accepted_lengths=_accepted_lengths(advice),
        assumptions=_assumptions(advice),
        warnings=tuple(printable(text) for text in advice.warnings),
        limits=LIMITS,
        constants=_constants(advice.setup),
        validation=None if validation is None else tuple(_error_line(*item) for item in validation.items()),
        design=None if standing is None else design_section(standing),
        next_steps=None if steps is None else tried_changes(steps),
        derivation=derivation_steps(advice),
        cited=cited_works(advice, designs=standing is not None),
        sources=tuple(printable(text) for text in advice.setup.sources),
        versions=_versions(),
    )


def _question(advice: Advice) -> str:
    setup, scenario = advice.setup, advice.scenario
    return (
        f"Should {model_name(setup)} draft with {printable(setup.drafter.name)} on {printable(setup.place)} at "
        f"batch {scenario.batch_size:,}, and how many tokens K?"
    )


def scenario_settings(advice: Advice) -> tuple[Setting, ...]:
    """What the scenario says, as a reader sees it."""
    return tuple(Setting(label=label, value=value) for label, value in setting_lines(advice.setup).items())


def _answer(advice: Advice) -> Answer:
    answer = advice.recommendation
    return Answer(
        k_draft=answer.k_draft,
        speedup=digits(answer.speedup.value),
        speedup_low=digits(answer.speedup.low),
        speedup_high=digits(answer.speedup.high),
        band_level=advice.band_level,
        tier=answer.speedup.tier,
        because=printable(answer.speedup.because),
        extrapolated=answer.speedup.extrapolated,
        bound=answer.bound,
        bound_because=answer.bound_because,
        tpot_ms=digits(answer.tpot_s * 1e3),
        tokens_per_s_per_gpu=digits(answer.tokens_per_s_per_gpu),
        p_best=digits(answer.p_best),
        regret=digits(answer.regret),
        equal_drafts=answer.equal_drafts,
        meets_limit=answer.meets_limit,
        largest_batch_that_fits=advice.setup.memory.largest_batch,
    )


def _curve(advice: Advice) -> tuple[CurvePoint, ...]:
    parts = {f"{name}_ms": name for name in advice.curve.round_components}
    points = []
    for row in curve_rows(advice.curve):
        times = {name: row.pop(column) for column, name in parts.items()}
        points.append(CurvePoint(**row, components_ms=times))
    return tuple(points)


def _schedule(advice: Advice) -> tuple[ScheduleRange, ...]:
    return tuple(
        ScheduleRange(
            batch_start=item.batch_start,
            batch_end=item.batch_end,
            k_draft=item.k_draft,
            speedup=digits(item.speedup),
            regret=digits(item.regret),
            meets_limit=item.meets_limit,
        )
        for item in advice.k_by_batch
    )


def _components(advice: Advice) -> tuple[ComponentTime, ...]:
    curve, row = advice.curve, advice.batch_index
    column = int(np.flatnonzero(curve.drafts == advice.curve_k)[0])
    plain = {name: float(time[row]) * 1e3 for name, time in curve.plain_components.items()}
    whole = {name: float(time[row, column]) * 1e3 for name, time in curve.round_components.items()}
    names = sorted(dict.fromkeys([*plain, *whole]), key=lambda name: -whole.get(name, 0.0))
    times = [(name, plain.get(name, 0.0), whole.get(name, 0.0)) for name in names]
    return tuple(
        ComponentTime(name=name, label=component_name(name), plain_ms=digits(one), round_ms=digits(other))
        for name, one, other in times
        if one or other
    )


def _accepted_lengths(advice: Advice) -> tuple[AcceptedLength, ...]:
    given = advice.setup.acceptance
    return tuple(
        AcceptedLength(
            k_draft=k,
            accepted_length=digits(given.accepted_length[k]),
            low=digits(given.low[k]),
            high=digits(given.high[k]),
            extrapolated=bool(given.extrapolated[k]),
        )
        for k in range(given.accepted_length.size)
    )


def _assumptions(advice: Advice) -> tuple[str, ...]:
    setup = advice.setup
    source = setup.acceptance.source
    lines = [source[:1].upper() + source[1:] if source.startswith("accepted length") else f"Accepted length: {source}"]
    lines.append(f"Routing: {setup.routing_because}")
    lines += [f"{setup.drafter.name}: {note}" for note in setup.drafter.notes]
    lines += [f"{setup.hardware.name}: {note}" for note in setup.hardware.notes]
    return tuple(printable(line).rstrip(".") + "." for line in lines)


def _constants(setup: Setup) -> tuple[UsedConstant, ...]:
    """Peaks and measured kernel constants of the formats in use."""
    hardware = setup.hardware
    used = {setup.architecture.dtypes.attention, setup.architecture.dtypes.dense, setup.architecture.dtypes.routed}
    named: dict[str, Constant | None] = {
        "Memory": hardware.memory_bytes,
        "Memory bandwidth": hardware.bandwidth_bytes_per_s,
    }
    if setup.placement.gpus > 1:
        named["Link"] = hardware.link_bytes_per_s
    named |= {f"Peak, {dtype}": peak for dtype, peak in hardware.peak_flops_per_s.items() if dtype in {*used, "bf16"}}
    rows = [(name, constant) for name, constant in named.items() if constant is not None]
    return tuple(
        UsedConstant(
            name=name,
            value=constant.value,
            unit=constant.unit,
            kind=constant.kind,
            confidence=constant.confidence,
            source=printable(constant.source),
            date=constant.date,
        )
        for name, constant in rows
    )


def _error_line(group: str, errors: Errors) -> ErrorLine:
    return ErrorLine(
        group=group,
        n=errors.n,
        median_error=_share(errors.median_ape),
        p90_error=_share(errors.p90_ape),
        sign_right=_share(errors.sign_accuracy),
        in_band=_share(errors.coverage),
    )


def _share(value: float | None) -> float | None:
    return None if value is None else digits(value)


def _versions() -> dict[str, str]:
    """The advisor, Python, and the packages that numbers and files depend on; absent ones are left out."""
    found = {"advisor": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
