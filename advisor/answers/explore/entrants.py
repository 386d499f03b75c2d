"""What is asked of a leaderboard, and the models that take part, each with the drafters known for
it.

How much of a draft is accepted has no default in this project. Here it is, in this order: as the
user says; the curve measured with this very model; for a model with an MTP module of its own and no
curve, the middle of the heads that were measured, marked as borrowed; else nothing is drafted. On
an asked kind of text a curve measured on that kind goes first, and all that were measured on
another are carried to it, borrowed ones before their middle is taken.
"""

from __future__ import annotations

import csv
import fnmatch
import functools
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from advisor.answers.by_batch import BatchHistogram
from advisor.catalog.hardware import hardware_from_own
from advisor.catalog.models import load_model, model_ids, own_model, resolve_model_name
from advisor.catalog.task_transfer import TASKS, Task, carried, task_of, task_transfer
from advisor.physics.acceptance import (
    Acceptance,
    AcceptanceCurve,
    acceptance_curves,
    parse_acceptance,
)
from advisor.physics.architecture import Architecture, parameter_counts
from advisor.physics.draft import load_drafter
from advisor.physics.hardware import load_hardware
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.scenario_fields import MAX_BATCH
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError, Array

By = Literal["cost", "throughput", "speed", "energy"]
BY: tuple[By, ...] = get_args(By)
"""Orders: cost [USD per million tokens], throughput [tokens/s per GPU], time per output token,
energy [J per token]."""


@dataclass(frozen=True)
class ModelFilter:
    """Filter on the models that take part, by size in parameters and by name. None or empty sets no
    limit."""

    names: tuple[str, ...] = ()
    """Ids, or patterns of ids such as `qwen3*`."""
    min_total_params: float | None = None
    max_total_params: float | None = None
    min_active_params: float | None = None
    max_active_params: float | None = None
    listed: frozenset[str] | None = None
    """Only these; None: all."""

    def __post_init__(self) -> None:
        """Raises AdvisorError for a pattern that no model has, and for an empty or senseless range
        of sizes."""
        known = model_ids()
        for name in self.names:
            if not fnmatch.filter(known, name):
                raise AdvisorError(
                    f"no shipped model is called {name[:60]!r}; give ids or patterns such as "
                    "qwen3*, as `advisor models` lists them, or a config.json with --config"
                )
        for what in ("total", "active"):
            least = getattr(self, f"min_{what}_params")
            most = getattr(self, f"max_{what}_params")
            for value in (least, most):
                if value is not None and not value > 0:
                    raise AdvisorError(
                        f"a limit on {what} parameters must be above 0, e.g. 4e10; got {value:g}"
                    )
            if least is not None and most is not None and least > most:
                raise AdvisorError(
                    f"no model has {least:g} or more and {most:g} or fewer {what} parameters"
                )

    def models(self) -> tuple[str, ...]:
        """Ids of the shipped models that are meant by name."""
        if not self.names:
            return model_ids()
        return tuple(
            each for each in model_ids() if any(fnmatch.fnmatch(each, name) for name in self.names)
        )

    def why_not(
        self, name: str, architecture: Architecture
    ) -> Literal["scores", "total", "active"] | None:
        """Filter that keeps a model out: the table of scores, or its total or active size."""
        if self.listed is not None and name not in self.listed:
            return "scores"
        counts = parameter_counts(architecture)
        total = float(counts.total)
        active = float(counts.active_all)
        if _is_outside(total, self.min_total_params, self.max_total_params):
            return "total"
        return (
            "active"
            if _is_outside(active, self.min_active_params, self.max_active_params)
            else None
        )


def _is_outside(size: float, least: float | None, most: float | None) -> bool:
    return (least is not None and size < least) or (most is not None and size > most)


@dataclass(frozen=True)
class RankQuestion:
    """A load on a machine. `scenario` gives accelerator, GPUs, context, formats, engine, kind of
    text and the limit on time per token; its model, drafter, batch and placement are not read."""

    scenario: Scenario
    users: BatchHistogram
    """Sequences that decode together on the whole machine, and how often."""
    by: By
    usd_per_hour: float | None = None
    """Price of one GPU; None: the accelerator profile's."""
    drafter: tuple[str, str] | None = None
    """Drafter and accepted length for every model that it can serve; None: what is known of
    each."""
    expert_parallel: bool = False
    """Whether experts split over ranks are tried too."""
    whole_machine: bool = False
    """Whether every GPU is used and paid; else as few as serve best."""
    wanted: ModelFilter = field(default_factory=ModelFilter)
    configs: tuple[tuple[str, str], ...] = ()
    """(name, config.json) of the user's own models."""

    @property
    def users_range(self) -> tuple[int, int]:
        """Fewest and most users of loads that have a share of the time. [-]"""
        batches = [
            batch
            for batch, weight in zip(self.users.batches, self.users.weights, strict=True)
            if weight > 0
        ]
        return min(batches), max(batches)


def default_by(scenario: Scenario, usd_per_hour: float | None = None) -> By:
    """Order where none is asked for: cost where a price is known, else throughput."""
    hardware_json = scenario.hardware_json
    name = scenario.hardware_id
    hardware = (
        load_hardware(name) if hardware_json is None else hardware_from_own(hardware_json, name)
    )
    return (
        "cost"
        if usd_per_hour is not None or hardware.price_usd_per_hour is not None
        else "throughput"
    )


def users_of(scenario: Scenario) -> int:
    """Sequences that decode together on all of a scenario's GPUs, in all copies of the model.
    [-]"""
    placement = max(scenario.tensor_parallel, scenario.expert_parallel)
    return scenario.batch_size * (scenario.n_gpus // placement)


def question_of(scenario: Scenario, usd_per_hour: float | None = None) -> RankQuestion:
    """A scenario's own load on its GPUs, asked of every model, a config of its own among them."""
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
    """A load as a number of users, `64`, or users with shares of time, `1:10,64:90`. Raises
    AdvisorError else."""
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
    return ",".join(
        f"{batch}:{weight:g}" for batch, weight in zip(users.batches, users.weights, strict=True)
    )


Accepted = Literal["measured", "borrowed", "carried", "uncarried", "given", "none"]
"""Where an accepted length is from: measured with this model, borrowed from other heads, either of
them carried to another kind of text, measured on text that nothing is known to carry to the asked
kind, given by the user, or none."""


@dataclass(frozen=True)
class Basis:
    """Source of an accepted length."""

    accepted: Accepted
    dataset: str | None = None
    """Text that a measured curve was taken on."""
    source: str | None = None
    heads: tuple[str, ...] = ()
    """Models whose MTP heads are lent, their median."""
    tasks: tuple[str, ...] = ()
    """Kinds of text that they were measured on."""
    remarks: tuple[str, ...] = ()
    """Remarks of the acceptance itself."""


@dataclass(frozen=True)
class Entrant:
    """One model with one drafter."""

    name: str
    """Id of a shipped model, or the name of the user's config."""
    setup: Setup
    """Setup on one GPU, before a placement is chosen."""
    basis: Basis

    @property
    def accepted(self) -> Accepted:
        """Source of the accepted length, in one word."""
        return self.basis.accepted


def entrants_of(name: str, config: str | None, question: RankQuestion) -> list[Entrant]:
    """A model with each drafter known, and last without any. Raises AdvisorError where it cannot be
    loaded."""
    entrant = {"model_id": name, "model_config_json": config, "batch_size": 1}
    base = question.scenario.model_dump() | question.scenario.moved(entrant)
    architecture = architecture_of(name, config)
    entrants = []
    for known in _drafters(architecture, question):
        # What is borrowed comes carried already, and plain decoding has nothing to carry.
        drafts = known.basis.accepted != "none"
        task = question.scenario.task if known.heads is None and drafts else None
        drafter = {"drafter_id": known.drafter_id, "acceptance": known.acceptance, "task": task}
        try:
            setup = load_setup(
                build_scenario(**base | drafter), True if known.heads is not None else None
            )
        except AdvisorError:
            if known.drafter_id == "none":
                raise
            continue  # this drafter cannot serve this model: it then decodes plainly
        if known.heads is not None:
            setup = replace(setup, acceptance=known.heads.spread_over(setup.acceptance))
        remarks = () if known.basis.accepted == "given" else setup.acceptance.remarks
        entrants.append(Entrant(name, setup, replace(known.basis, remarks=remarks)))
    return entrants


def architecture_of(name: str, config: str | None) -> Architecture:
    """The model as stored: a shipped one by its id, or of the user's config."""
    return load_model(name) if config is None else own_model(config, name)


@dataclass(frozen=True)
class _Known:
    """A drafter with its accepted length."""

    drafter_id: str
    acceptance: str
    basis: Basis
    heads: BorrowedHeads | None = None
    """Where it is borrowed from; None: it is not."""


def _drafters(architecture: Architecture, question: RankQuestion) -> Iterator[_Known]:
    """Each drafter that is known, and plain decoding last."""
    scenario = question.scenario
    if question.drafter is not None:
        if question.drafter[0] != "none":
            yield _Known(*question.drafter, Basis("given"))
    else:
        several = (
            curve for curve in acceptance_curves(model_id=architecture.id) if len(curve.n_draft) > 1
        )
        known = _first_of_each("drafter_id", several, scenario.task)
        for drafter_id, curve in known.items():
            accepted = _accepted(curve, load_drafter(drafter_id).kind, scenario.task)
            basis = Basis(accepted, curve.dataset, curve.source)
            yield _Known(drafter_id, curve.id, basis)
        if architecture.mtp_modules and not known:  # what was measured goes before what is borrowed
            heads = borrowed_heads(scenario.task, scenario.context_tokens, scenario.k_max)
            if heads is not None:
                lent: Accepted = "carried" if heads.n_carried else "borrowed"
                basis = Basis(lent, heads=heads.names, tasks=heads.tasks)
                yield _Known("mtp", heads.chances, basis, heads)
    yield _Known("none", "0", Basis("none"))


def _accepted(curve: AcceptanceCurve, kind: str, task: str | None) -> Accepted:
    if task is None or task == task_of(curve.dataset):
        return "measured"
    return "carried" if is_carried(curve, kind, task) else "uncarried"


def _first_of_each(
    key: str, curves: Iterable[AcceptanceCurve], task: str | None
) -> dict[str, AcceptanceCurve]:
    """The first curve of each value of a field, of the asked task where it has one."""
    first: dict[str, AcceptanceCurve] = {}
    for curve in curves:
        name = getattr(curve, key)
        known = task_of(first.setdefault(name, curve).dataset)
        if task is not None and known != task == task_of(curve.dataset):
            first[name] = curve
    return first


_KIND = "mtp"


@dataclass(frozen=True, eq=False)
class BorrowedHeads:
    """Measured MTP heads as they are lent to another model."""

    chances: str
    """Chances of each draft token given those before it, comma-separated, from the median accepted
    length at each K."""
    names: tuple[str, ...]
    """Models whose heads these are."""
    tasks: tuple[str, ...]
    """Kinds of text that they were measured on."""
    n_carried: int
    """Heads whose length was carried to the asked text. [-]"""
    down: Array
    up: Array
    """Distance that being carried adds to the ends of the band, in logarithms, median over the
    heads, [K]. [-]"""
    remarks: tuple[str, ...]

    def spread_over(self, known: Acceptance) -> Acceptance:
        """Accepted lengths read from `chances`, with the band that being carried adds."""
        value = known.accepted_length
        most = np.arange(known.accepted_length.size) + 1.0
        down = np.hypot(np.log(value / known.low), self.down)
        up = np.hypot(np.log(known.high / value), self.up)
        low = np.maximum(value * np.exp(-down), 1.0)
        high = np.maximum(np.minimum(value * np.exp(up), most), value)
        return replace(
            known, low=low, high=high, source=", ".join(self.names), remarks=self.remarks
        )


def is_carried(curve: AcceptanceCurve, kind: str, task: str | None) -> bool:
    """Whether a curve's lengths are moved to the asked text: of another kind, where both kinds are
    known."""
    known = task_of(curve.dataset)
    return (
        task not in (None, known)
        and known in TASKS
        and task_transfer(kind, known, str(task)) is not None
    )


@functools.lru_cache(maxsize=32)
def borrowed_heads(task: Task | None, context_tokens: int, k_max: int) -> BorrowedHeads | None:
    """The middle of the measured MTP heads, K as far as all go, each on the asked text first.

    One curve a model, of the asked task where there is one. A head whose text is not known is left
    out where a task is asked: it cannot be said to be of it. None where no head is left.
    """
    every_k = [
        curve
        for curve in acceptance_curves(drafter_id="mtp")
        if curve.n_draft == tuple(range(1, len(curve.n_draft) + 1))
        and (task in (None, task_of(curve.dataset)) or is_carried(curve, _KIND, task))
    ]
    heads = list(_first_of_each("model_id", every_k, task).values())
    if not heads:
        return None
    longest = min(len(curve.n_draft) for curve in heads)
    size = max(k_max, longest)
    measured = [parse_acceptance(curve.id, size) for curve in heads]
    moved = [
        carried(curve.id, known, _KIND, task, context_tokens)
        for curve, known in zip(heads, measured, strict=True)
    ]
    lengths = np.median([known.accepted_length[: longest + 1] for known in moved], axis=0)
    gains = np.maximum(np.diff(lengths), 0.0)
    before = np.concatenate([[1.0], gains[:-1]])
    # Where a draft brought nothing, the next one does not either.
    chances = np.minimum(
        np.divide(gains, before, out=np.zeros_like(gains), where=before > 0.0), 1.0
    )
    remarks = dict.fromkeys(remark for known in moved for remark in known.remarks)
    names = sorted(curve.model_id for curve in heads)
    tasks = sorted({task_of(curve.dataset) or "unknown" for curve in heads})
    return BorrowedHeads(
        ",".join(f"{chance:.4f}" for chance in chances),
        tuple(names),
        tuple(tasks),
        sum(is_carried(curve, _KIND, task) for curve in heads),
        _added(measured, moved, "low")[: k_max + 1],
        _added(measured, moved, "high")[: k_max + 1],
        tuple(remarks),
    )


def _added(measured: Sequence[Acceptance], moved: Sequence[Acceptance], end: str) -> Array:
    """What being carried added to the distance of a band's end from the middle, in logarithms, [K].
    [-]"""

    def far(known: Acceptance) -> Array:
        return np.abs(np.log(getattr(known, end) / known.accepted_length))

    squares = [
        np.square(far(new)) - np.square(far(old)) for old, new in zip(measured, moved, strict=True)
    ]
    return np.asarray(np.sqrt(np.maximum(np.median(squares, axis=0), 0.0)))


MAX_SCORES_BYTES = 1_000_000
_MAX_ROWS = 5_000
_MODEL_COLUMNS = ("model", "model_id", "name")


@dataclass(frozen=True)
class Scores:
    """Cells by model and column, as the user gave them."""

    file_name: str
    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, str]]
    """Cells by model id, or the name as given where no shipped model is called so."""

    def column(self, name: str) -> str:
        """A column by its name, without regard to case. Raises AdvisorError with those there
        are."""
        for known in self.columns:
            if known.lower() == name.strip().lower():
                return known
        raise AdvisorError(
            f"{self.file_name} has no column {name[:60]!r}; it has {', '.join(self.columns)[:600]}"
        )

    def numbers(self, name: str) -> dict[str, float]:
        """Numbers of a column by model, empty cells left out. Raises AdvisorError for a cell that
        is no number."""
        column = self.column(name)
        numbers = {}
        for model, row in self.cells.items():
            if text := row[column]:
                try:
                    numbers[model] = float(text)
                except ValueError as error:
                    raise AdvisorError(
                        f"{self.file_name}: {column[:60]} of {model[:60]} is {text[:40]!r}, not a "
                        "number; choose a column of numbers"
                    ) from error
                if not math.isfinite(numbers[model]):
                    raise AdvisorError(
                        f"{self.file_name}: {column[:60]} of {model[:60]} is not a finite number"
                    )
        return numbers

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of models in the table that no shipped model has."""
        return tuple(name for name in self.cells if name not in model_ids())

    def where(self, condition: str) -> frozenset[str]:
        """Models whose cell is as `column=value` says, in any case. Raises AdvisorError where none
        is."""
        name, equals, value = condition.partition("=")
        if not equals:
            raise AdvisorError(f"{condition[:60]!r} is not column=value, e.g. licence=apache-2.0")
        column = self.column(name)
        wanted = value.strip().lower()
        models = frozenset(
            model for model, row in self.cells.items() if row[column].lower() == wanted
        )
        if not models:
            seen = sorted({row[column] for row in self.cells.values() if row[column]})[:12]
            raise AdvisorError(
                f"{self.file_name}: no model has {column}={value.strip()[:60]}; it holds "
                f"{', '.join(seen)[:600]}"
            )
        return models


def read_scores(name: str, data: bytes) -> Scores:
    """Scores from a CSV with a column of models. Raises AdvisorError for no such table, or a model
    twice."""
    if len(data) > MAX_SCORES_BYTES:
        raise AdvisorError(
            f"{name} has more than {MAX_SCORES_BYTES:,} bytes; a table of scores is smaller"
        )
    try:
        rows = list(
            csv.reader(io.StringIO(data.decode("utf-8-sig")), skipinitialspace=True, strict=True)
        )
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name} is no CSV ({error}); give columns model,score") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    header = rows[0] if rows else []
    place = next((i for i, cell in enumerate(header) if cell.lower() in _MODEL_COLUMNS), None)
    columns = tuple(cell for i, cell in enumerate(header) if i != place)
    if place is None or not columns or not all(columns) or len(set(columns)) < len(columns):
        raise AdvisorError(
            f"{name}: the first line must name a column model and one column or more of scores, "
            "each once"
        )
    if not 2 <= len(rows) <= _MAX_ROWS + 1:
        raise AdvisorError(
            f"{name} has {max(len(rows) - 1, 0):,} rows of models; 1 to {_MAX_ROWS:,} are read"
        )
    return Scores(name, columns, _cells(name, header, place, rows[1:]))


def _cells(
    name: str, header: Sequence[str], place: int, rows: Sequence[Sequence[str]]
) -> dict[str, dict[str, str]]:
    cells_by_model: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise AdvisorError(
                f"{name}: line {number} has {len(row)} cells, the first line {len(header)}"
            )
        model = _model(row[place])
        if not model:
            raise AdvisorError(f"{name}: line {number} names no model")
        if model in cells_by_model:
            raise AdvisorError(f"{name}: {model[:60]} is listed twice (line {number}); delete one")
        cells_by_model[model] = {
            column: cell
            for i, (column, cell) in enumerate(zip(header, row, strict=True))
            if i != place
        }
    return cells_by_model


def _model(text: str) -> str:
    """The id of a shipped model by id or repository; other names as they stand."""
    if text in model_ids():
        return text
    resolved = resolve_model_name(text)
    return text if resolved is None else resolved.model_id
