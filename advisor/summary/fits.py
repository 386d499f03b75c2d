"""Whether a scenario fits in memory, and how many of the same accelerator it would take."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.advice import Advice
from advisor.memory import GIB
from advisor.prediction import AdvisorError
from advisor.scenario import Scenario
from advisor.setup import load_setup

_MOST_GPUS = 64


@dataclass(frozen=True)
class Fit:
    """Lack of memory of a scenario, and a change that fits. Bytes of one GPU."""

    needed_bytes: float
    usable_bytes: float
    largest_batch: int
    """The largest batch that fits as it is; 0 when not even one sequence does. [-]"""
    weights_bytes: float
    """Of the model and its drafter."""
    context_tokens: int
    scenario: Scenario | None
    """The same on as many GPUs as it takes; None where 64 do not hold it."""

    @property
    def title(self) -> str:
        """Memory needed and there, in one line."""
        return f"Needs {self.needed_bytes / GIB:,.0f} GiB a GPU, {self.usable_bytes / GIB:,.0f} are usable"

    @property
    def because(self) -> str:
        """Reason in one sentence."""
        if self.largest_batch:
            return (
                f"Batch {self.largest_batch:,} is the largest that fits. The numbers are what it would do if it fitted."
            )
        what = "The weights alone are" if self.weights_fill else f"One sequence at context {self.context_tokens:,} is"
        return f"{what} too large. The numbers are what it would do if it fitted."

    @property
    def weights_fill(self) -> bool:
        """Whether the weights alone are too large, so that no batch and no context helps."""
        return self.weights_bytes > self.usable_bytes

    @property
    def remedy(self) -> str:
        """Sentence on what makes it fit, by what does not."""
        if self.weights_fill:
            return "Choose more GPUs or a smaller weight format."
        shorter = "a smaller batch, a shorter context" if self.largest_batch else "a shorter context"
        return f"Choose {shorter}, more GPUs or a smaller format."


def fit_of(advice: Advice) -> Fit | None:
    """None where the scenario fits."""
    memory, scenario = advice.setup.memory, advice.scenario
    if memory.largest_batch >= scenario.batch_size:
        return None
    needed = memory.total_bytes(scenario.batch_size, advice.setup.placement.attention_groups)
    return Fit(
        needed_bytes=needed,
        usable_bytes=memory.usable_bytes,
        largest_batch=memory.largest_batch,
        weights_bytes=memory.weights_bytes + memory.drafter_bytes,
        context_tokens=scenario.context_tokens,
        scenario=_on_more_gpus(scenario),
    )


def _on_more_gpus(scenario: Scenario) -> Scenario | None:
    gpus = scenario.n_gpus
    while (gpus := gpus * 2) <= _MOST_GPUS:
        wider = scenario.model_copy(update={"n_gpus": gpus, "tensor_parallel": gpus})
        try:
            if load_setup(wider).memory.largest_batch >= scenario.batch_size:
                return wider
        except AdvisorError:  # a placement that the model does not allow
            continue
    return None
