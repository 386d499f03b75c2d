"""Signs that a run is of another server than the predicted one: memory, plain step; and what others
published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from advisor.answers.diagnosis.physics import Comparison
from advisor.answers.own_gap import is_far
from advisor.answers.summary import fit_of
from advisor.measured.published import runs_beside
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.scenario_fields import FIELDS
from advisor.text import counted, listed


def plain_off(compared: Sequence[Comparison]) -> float | None:
    """Measured over predicted plain step, the median of the runs. None near 1 and where none was
    timed."""
    ratios = [comparison.ratio("plain") for comparison in compared]
    known = [ratio for ratio in ratios if ratio is not None]
    off = median(known) if known else 1.0
    return off if is_far(off) else None


def published_near(one: Comparison) -> str:
    """Sentence on published runs of the run's set-up at batches up to twice away. Empty where there
    are none."""
    gpus = max(one.scenario.tensor_parallel, one.scenario.expert_parallel)
    near = [
        run
        for run in runs_beside(one.scenario, gpus)
        if 0.5 <= run.batch_size / one.batch_size <= 2.0
    ]
    if not near:
        return ""
    speedups = [f"{speedup:.2f}x" for speedup in sorted(run.speedup for run in near)]
    batches = [f"{batch:,.0f}" for batch in sorted(run.batch_size for run in near)]
    measured = " to ".join(dict.fromkeys((speedups[0], speedups[-1])))
    at = " to ".join(dict.fromkeys((batches[0], batches[-1])))
    return (
        f"{counted(len(near), 'published run')} of this set-up, on any engine: {measured} at "
        f"batch {at}."
    )


@dataclass(frozen=True)
class Unfit:
    """A server that does not fit as it is predicted, and what would."""

    title: str
    text: str
    formats: tuple[str, ...]
    """Weight formats in which it fits, the widest first."""
    scenario: Scenario


def unfit_of(compared: Sequence[Comparison]) -> Unfit | None:
    """The first server of which not even one sequence fits as it is predicted. None where each
    fits."""
    unfit = (comparison for comparison in compared if not comparison.largest_batch)
    comparison = next(unfit, None)
    if comparison is None:
        return None
    scenario = comparison.scenario
    setup = load_setup(comparison.scenario)
    others = [
        load_setup(scenario.model_copy(update={"weight_dtype": name}))
        for name in FIELDS["weight_dtype"].choices
    ]
    fitting = sorted(
        (other for other in others if other.memory.largest_batch),
        key=lambda other: -other.memory.weights_bytes,
    )
    formats = tuple(str(other.scenario.weight_dtype) for other in fitting)
    now = scenario.weight_dtype or setup.architecture.dtypes.routed
    fit = fit_of(setup)
    needs = "" if fit is None else f" {fit.title[:1].lower()}{fit.title[1:]}:"
    offered = f" It fits as {listed(formats)}." if formats else " No format of ours fits."
    text = (
        f"As {now} the server{needs} which weight format does it run?{offered} All predictions "
        "rest on it."
    )
    return Unfit(f"Does not fit in memory as {now}", text, formats, scenario)
