"""What a sweep computes: every combination of the listed settings, in parts that can be done apart.

The rows of a sweep: one for each combination, batch and K.

Doing a sweep: parts handed to processes or to a Ray cluster, written one by one, so that it can go on later.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from advisor import __version__
from advisor.answers.best_k import recommended_drafts
from advisor.physics import laws
from advisor.physics.bands import band
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario
from advisor.predict.scenario_fields import DOCUMENTS, FIELDS, MAX_BATCH
from advisor.predict.setup import Setup
from advisor.predict.spend import drawn_times
from advisor.prediction import AdvisorError, Array
from advisor.profiles import PACKAGE, PROFILES, read_file, shown_path, write_whole

MAX_SCENARIOS = 20_000_000
"""Batches times combinations that one sweep may ask for. [-]"""
COMBINATION_S = 0.009
"""Of one core for a combination with all its batches, five to ten of them (docs/sweeps.md, how long it takes). [s]"""
COUNT_S = 1.0
"""Of one core to count the ranks of one layout with copies of experts: 0.2 to 4 s, 1 with 256 (docs/sweeps.md). [s]"""
REMEMBERED_COUNTS = 64
"""Counts that a process keeps (advisor.predict.setup); of more, each may be lost before it is asked for again. [-]"""
_COUNTED_BY = ("model_id", "routing", "k_max", "expert_parallel", "redundant_experts")
"""Settings that a count follows from. A plan without one of the last two has none. [-]"""
CURVES_PER_PART = 64
"""Combinations, each with all its batches, in one part of the result: what is lost when a worker is. [-]"""
MAX_BYTES = 1_000_000
_CASES = "cases"
_OWN = {"model_id": "model_config_json", "hardware_id": "hardware_json"}
"""Settings that may name a file of the user's own, and where its content then stands."""
_PROFILE_FILES = ("*.yaml", "*.json", "*.csv")
Settings = Mapping[str, Any]
"""Fields of a scenario by name, the batch apart."""


@dataclass(frozen=True)
class SweepPlan:
    """Every combination of `cases` and `axes`, each at all `batches`."""

    cases: tuple[Settings, ...]
    """Settings that belong together, e.g. a model with its placement; one empty case where none are listed."""
    axes: Mapping[str, tuple[Any, ...]]
    """Values of every other setting, one or several."""
    batches: tuple[int, ...]
    own: Mapping[tuple[str, str], Settings] = field(default_factory=dict)
    """What a setting of `own_named` and its text in the plan stand for: the user's own model or accelerator."""

    def own_named(self, read: Callable[[str, str], Settings]) -> SweepPlan:
        """The plan with models and accelerators of the user's own, each named after its file and its content.

        read : the fields that a path sets, given a setting's name and its text; empty for an id.
        """
        listed = [*self.axes.items(), *((name, (one,)) for case in self.cases for name, one in case.items())]
        own: dict[tuple[str, str], Settings] = {}
        for name, values in listed:
            for text in values if name in _OWN else ():
                if fields := read(name, str(text)):
                    digest = hashlib.sha256(str(fields[_OWN[name]]).encode()).hexdigest()[:6]
                    own[name, text] = {**fields, name: f"own-{fields[name].removeprefix('own-')}-{digest}"}
        return replace(self, own=own)

    @property
    def n_curves(self) -> int:
        """Combinations, the batch apart. [-]"""
        return len(self.cases) * math.prod(len(values) for values in self.axes.values())

    @property
    def n_scenarios(self) -> int:
        """Combinations. [-]"""
        return self.n_curves * len(self.batches)

    @property
    def expected_s(self) -> float:
        """Time that one core takes, by COMBINATION_S and COUNT_S. [s]"""
        return COMBINATION_S * self.n_curves + COUNT_S * self.n_counts

    @property
    def n_counts(self) -> int:
        """Times that ranks of a layout with copies of experts are counted, at most. [-]"""
        cases = {frozenset((name, case[name]) for name in _COUNTED_BY if name in case) for case in self.cases}
        axes = {name: self.axes[name] for name in _COUNTED_BY if name in self.axes}
        each_once = _n_with_copies([dict(case) for case in cases], axes)
        return each_once if each_once <= REMEMBERED_COUNTS else _n_with_copies(self.cases, self.axes)

    @property
    def n_parts(self) -> int:
        """Parts of the result. [-]"""
        return math.ceil(self.n_curves / CURVES_PER_PART)

    def part(self, index: int) -> tuple[Settings, ...]:
        """The combinations of one part, in the order of the whole: the last axis changes first."""
        first = index * CURVES_PER_PART
        return tuple(map(self._combination, range(first, min(first + CURVES_PER_PART, self.n_curves))))

    def _combination(self, index: int) -> Settings:
        found: dict[str, Any] = {}
        for name, values in reversed(list(self.axes.items())):
            index, place = divmod(index, len(values))
            found[name] = values[place]
        found = {**self.cases[index], **found}
        for name in _OWN.keys() & found.keys():
            found |= self.own.get((name, found[name]), {})
        return found

    @property
    def digest(self) -> str:
        """Twelve hex digits of the question and the constants that answer it.

        Parts of equal ones fit together.

        The axes count in their order, which decides what lies in each part; the settings of a case do not.
        """
        asked = {"cases": self.cases, "axes": list(self.axes.items()), "batches": self.batches}
        if self.own:
            asked["own"] = sorted(map(str, self.own.items()))
        by = [__version__, _constants_sha256(PROFILES)]
        return hashlib.sha256(json.dumps([asked, by], sort_keys=True).encode()).hexdigest()[:12]

    @property
    def text(self) -> str:
        """The plan as YAML, which `read_plan` reads back."""
        cases = [dict(case) for case in self.cases if case]
        axes = {name: values[0] if len(values) == 1 else list(values) for name, values in self.axes.items()}
        content = {**({_CASES: cases} if cases else {}), **axes, "batch_size": list(self.batches)}
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def _n_with_copies(cases: Sequence[Settings], axes: Mapping[str, tuple[Any, ...]]) -> int:
    """Combinations with copies of experts on several ranks. [-]"""

    def fitting(name: str, values: Sequence[Any]) -> int:
        none = {"expert_parallel": (None, 1), "redundant_experts": (None,)}.get(name, ())
        return sum(value not in none for value in values)

    listed = math.prod(fitting(name, values) for name, values in axes.items())
    return listed * sum(
        math.prod(fitting(name, [case.get(name)]) for name in _COUNTED_BY[-2:] if name not in axes) for case in cases
    )


def made_by() -> dict[str, str]:
    """Release and constants by which rows are computed here.

    Every part of a sweep states them.
    """
    return {"release": __version__, "constants": _constants_sha256(PROFILES)[:12]}


def _constants_sha256(folder: Path) -> str:
    """Of the paths and contents of every profile below a folder."""
    files = (path for kind in _PROFILE_FILES for path in folder.rglob(kind))
    whole = hashlib.sha256()
    for name, path in sorted((path.relative_to(folder).as_posix(), path) for path in files):
        whole.update(f"{name}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def load_plan(path: Path) -> SweepPlan:
    """Read a plan from a file, as `read_plan`. Raises AdvisorError, also when it cannot be read."""
    text = read_file(path, MAX_BYTES, "a sweep's file", "give a YAML file of settings").decode("utf-8", "replace")
    try:
        return read_plan(text)
    except AdvisorError as error:
        raise AdvisorError(f"{shown_path(path)}: {error}") from error


def read_plan(text: str) -> SweepPlan:
    """Read a plan from YAML.

    Scenario settings by name, each one value or a list, and `cases` of settings that go together.

    Raises AdvisorError for what is no such file, an unknown setting, one given twice, or more than MAX_SCENARIOS.
    """
    content = _mapping(text)
    cases = content.pop(_CASES, [{}])
    if not (isinstance(cases, list) and cases and all(isinstance(case, dict) for case in cases)):
        raise AdvisorError("cases: expected a list of settings that go together, e.g. - {model_id: qwen3-30b-a3b}")
    batches = _batches(content.pop("batch_size", None))
    _check_names([*content, *(name for case in cases for name in case)])
    for name in content.keys() & {name for case in cases for name in case}:
        raise AdvisorError(f"{name} stands both in cases and beside them; leave it in one place")
    axes = {name: tuple(value) if isinstance(value, list) else (value,) for name, value in content.items()}
    for name, values in (*axes.items(), *((name, (one,)) for case in cases for name, one in case.items())):
        if not values:
            raise AdvisorError(f"{name}: the list is empty; give at least one value")
        if not all(one is None or (isinstance(one, (str, int, float)) and not isinstance(one, bool)) for one in values):
            raise AdvisorError(f"{name}: expected a number, a text or a list of them (lists stand beside cases)")
        if any(isinstance(one, str) and not one.isprintable() for one in values):
            raise AdvisorError(f"{name}: a text holds characters that cannot be shown; write it anew")
        if len(set(values)) < len(values):
            raise AdvisorError(f"{name}: a value stands in the list twice; leave one")
    if len({frozenset(case.items()) for case in cases}) < len(cases):
        raise AdvisorError("cases: one stands there twice; leave one")
    plan = SweepPlan(tuple(cases), axes, batches)
    if plan.n_scenarios > MAX_SCENARIOS:
        raise AdvisorError(f"the sweep asks for {plan.n_scenarios:,} scenarios; at most {MAX_SCENARIOS:,} are computed")
    return plan


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which the plain loader keeps the last in silence."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{key} is given twice; leave one")
        return dict(super().construct_mapping(node, deep))


def _mapping(text: str) -> dict[str, Any]:
    try:
        content = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise AdvisorError(f"not readable as YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(content, dict):
        raise AdvisorError("expected settings by name, e.g. `batch_size: [1, 16, 64]`")
    return {str(name): value for name, value in content.items()}


def _batches(given: Any) -> tuple[int, ...]:
    values = given if isinstance(given, list) else [given]
    if given is None or not values or not all(isinstance(one, int) and not isinstance(one, bool) for one in values):
        raise AdvisorError("batch_size: expected whole numbers, e.g. [1, 4, 16, 64]")
    if wrong := [one for one in values if not 1 <= one <= MAX_BATCH]:
        raise AdvisorError(f"batch_size: {str(wrong[0])[:40]} is none; give 1 to {MAX_BATCH:,}")
    if len(set(values)) < len(values):
        raise AdvisorError("batch_size: a value stands in the list twice; leave one")
    return tuple(values)


def _check_names(names: Sequence[str]) -> None:
    swept = [name for name in FIELDS if name not in DOCUMENTS and not FIELDS[name].is_private]
    for name in names:
        if name == "batch_size":
            raise AdvisorError("batch_size stands beside cases, not in one")
        if name not in swept:
            raise AdvisorError(f"{name!r} is no setting of a sweep; there are {', '.join(swept)}")


SETTINGS = tuple(name for name, row in FIELDS.items() if name not in DOCUMENTS and not row.is_private)
"""Columns that name the scenario."""
_KINDS: Mapping[type, str] = {int: "Int64", float: "Float64"}
_SEED = 0
"""Of the error that absolute times share: the same question has the same band. [-]"""
_MAX_INT = 2**63 - 1
"""What a column of whole numbers holds at most. [-]"""
COLUMNS = {
    **{name: _KINDS.get(FIELDS[name].kind, "string") for name in SETTINGS},
    "batch_size": "int32",
    "n_draft": "int16",
    "speedup": "float32",
    "speedup_low": "float32",
    "speedup_high": "float32",
    "p_gain": "float32",
    "expected_loss": "float32",
    "recommended": "bool",
    "tpot_ms": "float32",
    "tpot_low_ms": "float32",
    "tpot_high_ms": "float32",
    "tokens_per_s_per_gpu": "float32",
    "tokens_per_s_per_gpu_low": "float32",
    "tokens_per_s_per_gpu_high": "float32",
    "accepted_length": "float32",
    "plain_step_ms": "float32",
    "round_ms": "float32",
    "tier": "string",
    "fits": "bool",
    "reason": "string",
}
"""Of a row: the scenario's settings, what is predicted at one K, and why nothing is."""


def sweep_rows(combinations: Iterable[Mapping[str, Any]], batches: Sequence[int]) -> pd.DataFrame:
    """Predictions of every combination at every batch and K, `COLUMNS`.

    Parameters
    ----------
    combinations : settings of a scenario, the batch apart; n_gpus is what the placement needs where it is left out.
    batches : sequences that decode together. [-]

    Returns
    -------
    One row for each K from 0 to the setting's k_max; one row with a `reason` and no prediction where a combination
    cannot be. Of each batch one row is `recommended`: the K of least expected loss. Times in milliseconds.
    """
    found = [_of_one(dict(settings), np.array(batches)) for settings in combinations]
    whole = {name: np.concatenate([one[name] for one in found]) for name in COLUMNS} if found else {}
    return pd.DataFrame(whole, columns=list(COLUMNS)).astype(COLUMNS)


def _of_one(settings: dict[str, Any], batches: np.ndarray) -> dict[str, np.ndarray]:
    try:
        scenario = build_scenario(**{"n_gpus": _needed_gpus(settings), **settings, "batch_size": int(batches[0])})
        setup = load_setup(scenario)
        curve = curve_for(setup, batches)
    except AdvisorError as error:
        return _columns(settings, batches, _nothing(str(error)), 1)
    return _columns(scenario.model_dump(include=set(SETTINGS)), batches, _predicted(setup, curve), len(curve.drafts))


def _needed_gpus(settings: Mapping[str, Any]) -> int:
    """GPUs of the placement. [-]"""
    ranks = (_as_its_kind(name, settings.get(name)) for name in ("tensor_parallel", "expert_parallel"))
    return max(1, *(rank or 1 for rank in ranks))


def _columns(
    settings: Mapping[str, Any], batches: np.ndarray, predicted: Mapping[str, Any], n_drafts: int
) -> dict[str, np.ndarray]:
    """All columns of one combination, [nB x nK] each: batch by batch, K changing first."""
    rows = len(batches) * n_drafts
    named = {name: np.full(rows, _as_its_kind(name, settings.get(name)), object) for name in SETTINGS}
    answers = {name: np.broadcast_to(value, (len(batches), n_drafts)).ravel() for name, value in predicted.items()}
    return named | {"batch_size": np.repeat(batches, n_drafts)} | answers


def _as_its_kind(name: str, value: Any) -> Any:
    """The value as its column holds it. Nothing where it is none of the kind, which the row's reason says."""
    if value is None:
        return None
    try:
        found = FIELDS[name].kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(found, int) and abs(found) > _MAX_INT else found


def _nothing(reason: str) -> dict[str, Any]:
    numbers = {name: np.nan for name, kind in COLUMNS.items() if kind == "float32"}
    return {**numbers, "n_draft": -1, "recommended": False, "tier": "", "fits": False, "reason": reason}


def _predicted(setup: Setup, curve: Curve) -> dict[str, Any]:
    """The answers of one curve, arrays that broadcast to [nB, nK]."""
    best, odds = recommended_drafts(setup, curve)
    columns = np.arange(len(curve.drafts))
    own_z = np.random.default_rng(_SEED).standard_normal(len(curve.draws))
    # What absolute times err by beyond their components is in their bands.
    drawn = drawn_times(setup, curve, np.broadcast_to(columns, curve.speedup.shape), own_z)
    rate = laws.tokens_per_s_per_gpu(curve.batches[:, None], drawn.token_s, setup.placement.gpus)
    return {
        "n_draft": curve.drafts,
        "speedup": curve.speedup,
        "speedup_low": curve.low,
        "speedup_high": curve.high,
        "p_gain": odds.p_gain,
        "expected_loss": odds.loss,
        "recommended": columns == best[:, None],
        **_banded("tpot{}_ms", curve.tpot_s * 1e3, drawn.tpot_s * 1e3),
        **_banded("tokens_per_s_per_gpu{}", curve.tokens_per_s_per_gpu, np.asarray(rate)),
        "accepted_length": curve.accepted_length,
        "plain_step_ms": curve.plain_step_s[:, None] * 1e3,
        "round_ms": curve.round_s * 1e3,
        "tier": curve.tier.astype(str),
        "fits": (curve.batches <= setup.memory.largest_batch)[:, None],
        "reason": "",
    }


def _banded(name: str, central: Array, drawn: Array) -> dict[str, Array]:
    """Columns of a figure and the ends of its band; the centre is no quantile of the draws, as in the curve's own."""
    low, high = band(drawn)
    ends = {"_low": np.minimum(low, central), "_high": np.maximum(high, central)}
    return {name.format(""): central, **{name.format(end): values for end, values in ends.items()}}


_PLAN = "plan.json"
_AHEAD = 2
"""Parts handed out for each worker: one in work, one waiting. [-]"""
_LOST = (
    "a worker ended before its part was done (stopped from outside, or out of memory); the parts written are kept: "
    "give the same command again to go on, with fewer workers if memory was short"
)
Show = Callable[[float], None]


@dataclass(frozen=True)
class SweepResult:
    """Result of a run."""

    folder: Path
    n_scenarios: int
    """Of the whole plan. [-]"""
    n_parts: int
    n_found: int
    """Parts that an earlier run had written. [-]"""
    elapsed_s: float


def run_sweep(
    plan: SweepPlan, folder: Path, workers: int = 1, ray_address: str = "", show: Show | None = None
) -> SweepResult:
    """Compute a plan into `folder`/part-*.parquet. Parts that are there already are kept.

    Parameters
    ----------
    folder : made where it is not there; one that holds another sweep, or other files alone, is refused.
    workers : processes on this machine. [-]
    ray_address : of a Ray cluster, HOST:PORT or `auto`, to use in place of processes; needs the package ray.
    show : called with the share done after every part.

    Raises AdvisorError for a folder that cannot be used, and a cluster that is not reached.
    """
    started_s = time.monotonic()
    _open(plan, folder)
    missing = [index for index in range(plan.n_parts) if not _part(folder, index).exists()]
    found = plan.n_parts - len(missing)
    tasks = ((index, plan.part(index)) for index in missing)
    for done, (index, content) in enumerate(_computed(tasks, plan.batches, workers, ray_address, len(missing)), 1):
        _write(_part(folder, index), content)
        if show is not None:
            show((found + done) / plan.n_parts)
    return SweepResult(folder, plan.n_scenarios, plan.n_parts, found, time.monotonic() - started_s)


def _open(plan: SweepPlan, folder: Path) -> None:
    """Make the folder the plan's, or see that it is."""
    note = {"digest": plan.digest, "cases": plan.cases, "axes": plan.axes, "batch_size": plan.batches}
    place = folder / _PLAN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            if any(folder.iterdir()):
                raise AdvisorError(f"{shown_path(folder)} holds other files; give a new folder")
            _write(place, (json.dumps(note, indent=2, default=str) + "\n").encode())
            return
        written = json.loads(read_file(place, 10_000_000))
    except (OSError, ValueError) as error:
        raise AdvisorError(f"cannot use {shown_path(folder)}: {error}; give a new folder") from error
    if not isinstance(written, dict) or written.get("digest") != plan.digest:
        raise AdvisorError(
            f"{shown_path(folder)} holds another sweep (settings in another order count as one), or one by other "
            "constants or another release; give a new folder"
        )


def _part(folder: Path, index: int) -> Path:
    return folder / f"part-{index:06d}.parquet"


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a run that is stopped leaves no half a part."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise AdvisorError(
            f"cannot write {shown_path(path)}: {error.strerror or error}; parts before it are kept"
        ) from error


Task = tuple[int, Sequence[Mapping[str, Any]]]


def _computed(
    tasks: Iterator[Task], batches: Sequence[int], workers: int, ray_address: str, n_tasks: int
) -> Iterator[tuple[int, bytes]]:
    if ray_address:
        yield from _on_ray(tasks, batches, ray_address)
    elif min(workers, n_tasks) <= 1:
        for index, combinations in tasks:
            yield index, part_bytes(combinations, batches)
    else:
        yield from _in_processes(tasks, batches, min(workers, n_tasks))


def part_bytes(combinations: Sequence[Mapping[str, Any]], batches: Sequence[int]) -> bytes:
    """One part as a Parquet file."""
    return parquet_bytes(sweep_rows(combinations, batches), made_by())


def parquet_bytes(frame: pd.DataFrame, maker: Mapping[str, str]) -> bytes:
    """Rows as a Parquet file that says who made them, as `made_by` does."""
    content = io.BytesIO()
    frame = frame.copy(deep=False)
    frame.attrs = dict(maker)
    frame.to_parquet(content, index=False, compression="zstd", write_page_checksum=True)
    return content.getvalue()


def _in_processes(tasks: Iterator[Task], batches: Sequence[int], workers: int) -> Iterator[tuple[int, bytes]]:
    # One thread each: small arrays, and threads of a worker only wait for those of the others.
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            pending: dict[Future[bytes], int] = {}

            def hand_out() -> None:
                while len(pending) < _AHEAD * workers and (task := next(tasks, None)) is not None:
                    pending[pool.submit(part_bytes, task[1], batches)] = task[0]

            hand_out()
            while pending:
                for done in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(done), done.result()
                hand_out()
    except BrokenProcessPool as error:
        raise AdvisorError(_LOST) from error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _on_ray(tasks: Iterator[Task], batches: Sequence[int], address: str) -> Iterator[tuple[int, bytes]]:
    ray = _connect(address)
    compute = ray.remote(part_bytes).options(num_cpus=1, max_retries=3)
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    pending: dict[Any, int] = {}

    def hand_out() -> None:
        while len(pending) < ahead and (task := next(tasks, None)) is not None:
            pending[compute.remote(task[1], batches)] = task[0]

    hand_out()
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1)
        for reference in ready:
            try:
                yield pending.pop(reference), ray.get(reference)
            except ray.exceptions.RayTaskError:  # ours, not the cluster's
                raise
            except ray.exceptions.RayError as error:
                raise AdvisorError(_LOST) from error
        hand_out()


def _connect(address: str) -> Any:
    """Ray, connected. This package and its profiles travel along, its requirements have to be there."""
    try:
        import ray
    except ImportError as error:
        raise AdvisorError("--ray needs the package ray; install it here and on the cluster") from error
    if not ray.is_initialized():
        try:
            with tempfile.TemporaryDirectory() as bundle:
                leave = shutil.ignore_patterns("__pycache__")
                shutil.copytree(PACKAGE, Path(bundle) / "advisor", ignore=leave)
                shutil.copytree(PROFILES, Path(bundle) / "profiles", ignore=leave, dirs_exist_ok=True)
                environment = {"working_dir": bundle, "env_vars": {"OMP_NUM_THREADS": "1"}}
                ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise AdvisorError(f"no Ray cluster at {address}: {_first_line(error)}") from error
    return ray


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
