"""What is asked of a leaderboard: the load, the machine, the limit, what to rank by, and which models take part."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Literal, get_args

from advisor.architecture import Architecture, parameter_counts
from advisor.catalog import hardware_from_own, model_ids
from advisor.hardware import load_hardware
from advisor.prediction import AdvisorError
from advisor.runtime import BatchHistogram
from advisor.scenario import MAX_BATCH, Scenario

By = Literal["cost", "throughput", "speed", "energy"]
BY: tuple[By, ...] = get_args(By)
"""Orders: cost [USD per million tokens], throughput [tokens/s per GPU], time per output token, energy [J per token]."""


@dataclass(frozen=True)
class Wanted:
    """Filter on the models that take part, by size in parameters and by name.

    None or empty sets no limit.
    """

    names: tuple[str, ...] = ()
    """Ids, or patterns of ids such as `qwen3*`."""
    min_total_params: float | None = None
    max_total_params: float | None = None
    min_active_params: float | None = None
    max_active_params: float | None = None
    listed: frozenset[str] | None = None
    """Only these; None: all."""

    def __post_init__(self) -> None:
        """Raises AdvisorError for a pattern that no model has, and for an empty or senseless range of sizes."""
        known = model_ids()
        for name in self.names:
            if not fnmatch.filter(known, name):
                raise AdvisorError(
                    f"no shipped model is called {name[:60]!r}; give ids or patterns such as qwen3*, as `advisor "
                    "models` lists them, or a config.json with --config"
                )
        for what in ("total", "active"):
            least, most = getattr(self, f"min_{what}_params"), getattr(self, f"max_{what}_params")
            for value in (least, most):
                if value is not None and not value > 0:
                    raise AdvisorError(f"a limit on {what} parameters must be above 0, e.g. 4e10; got {value:g}")
            if least is not None and most is not None and least > most:
                raise AdvisorError(f"no model has {least:g} or more and {most:g} or fewer {what} parameters")

    def models(self) -> tuple[str, ...]:
        """Ids of the shipped models that are meant by name."""
        if not self.names:
            return model_ids()
        return tuple(each for each in model_ids() if any(fnmatch.fnmatch(each, name) for name in self.names))

    def why_not(self, name: str, architecture: Architecture) -> str:
        """Reason that a model takes no part, by its name and size, empty where it does."""
        if self.listed is not None and name not in self.listed:
            return "left out by the table of scores"
        counts = parameter_counts(architecture)
        sizes = {"total": float(counts.total), "active": float(counts.active_all)}
        for what, size in sizes.items():
            least, most = getattr(self, f"min_{what}_params"), getattr(self, f"max_{what}_params")
            if (least is not None and size < least) or (most is not None and size > most):
                return f"{what} size outside the limits asked for"
        return ""


@dataclass(frozen=True)
class RankQuestion:
    """A load on a machine. `scenario` gives accelerator, GPUs, context, formats, engine, kind of text and the limit on
    time per token; its model, drafter, batch and placement are not read."""

    scenario: Scenario
    users: BatchHistogram
    """Sequences that decode together on the whole machine, and how often."""
    by: By
    usd_per_hour: float | None = None
    """Price of one GPU; None: the accelerator profile's."""
    drafter: tuple[str, str] | None = None
    """Drafter and accepted length for every model that it can serve; None: what is known of each."""
    expert_parallel: bool = False
    """Whether experts split over ranks are tried too."""
    whole_machine: bool = False
    """Whether every GPU is used and paid; else as few as serve best."""
    wanted: Wanted = field(default_factory=Wanted)
    configs: tuple[tuple[str, str], ...] = ()
    """(name, config.json) of the user's own models."""

    @property
    def load_text(self) -> str:
        """The load in words, as `64 users`, or `1 to 128 users`."""
        batches = [batch for batch, weight in zip(self.users.batches, self.users.weights, strict=True) if weight > 0]
        least, most = min(batches), max(batches)
        return f"{most:,} user{'' if most == 1 else 's'}" if least == most else f"{least:,} to {most:,} users"


def default_by(scenario: Scenario, usd_per_hour: float | None = None) -> By:
    """Order where none is asked for: cost where a price is known, else throughput."""
    given, name = scenario.hardware_json, scenario.hardware_id
    hardware = load_hardware(name) if given is None else hardware_from_own(given, name)
    return "cost" if usd_per_hour is not None or hardware.price_usd_per_hour is not None else "throughput"


def users_of(scenario: Scenario) -> int:
    """Sequences that decode together on all of a scenario's GPUs. [-]

    A scenario's batch is that of one copy of the model.
    """
    placement = max(scenario.tensor_parallel, scenario.expert_parallel)
    return scenario.batch_size * (scenario.n_gpus // placement)


def question_of(scenario: Scenario, usd_per_hour: float | None = None) -> RankQuestion:
    """A scenario's own load, asked of every model.

    Users of all its copies, and its GPUs as the machine. A config of its own takes part.
    """
    config = scenario.model_config_json
    shared = scenario.on_assumed_ranks().model_copy(
        update={"tensor_parallel": 1, "expert_parallel": 1, "routing": "auto"}
    )
    return RankQuestion(
        shared,
        one_load(users_of(scenario)),
        default_by(scenario, usd_per_hour),
        usd_per_hour,
        configs=() if config is None else ((scenario.model_id, config),),
    )


def one_load(users: int) -> BatchHistogram:
    """A load that is always the same. Raises AdvisorError for a number of users that is none."""
    if not 1 <= users <= MAX_BATCH:
        raise AdvisorError(f"{users} users cannot be served; give 1 to {MAX_BATCH:,}")
    return BatchHistogram((users,), (1.0,))


def load_from_text(text: str) -> BatchHistogram:
    """A load as a number of users, `64`, or as users with their share of the time, `1:10,64:90`.

    Raises AdvisorError naming the piece that is neither.
    """
    try:
        return BatchHistogram.from_text(text) if ":" in text else one_load(int(text))
    except AdvisorError as error:
        raise AdvisorError(f"{str(error).partition('; give e.g.')[0]}; {_LOADS}") from error
    except ValueError as error:
        raise AdvisorError(f"{text.strip()[:40]!r} is no number of users; {_LOADS}") from error


_LOADS = "give e.g. 64, or users with their share of the time, 1:10,64:90"


def load_as_text(users: BatchHistogram) -> str:
    """A load as `load_from_text` reads it."""
    if len(users.batches) == 1:
        return str(users.batches[0])
    return ",".join(f"{batch}:{weight:g}" for batch, weight in zip(users.batches, users.weights, strict=True))
