"""The question: hardware, model, batch, drafter, engine. Frozen, hashable; round-trips through JSON
and a URL.

Beside it what a scenario comes from: a scenario file or JSON report (docs/scenarios.md), an example
of profiles/examples, and loads of experts by layer, from a file to the line of text that a scenario
carries.

What it leaves open, drafter, acceptance or placement, is taken by one rule for page and terminal.
"""

import base64
import binascii
import csv
import datetime as dt
import hashlib
import io
import json
import math
import re
import tokenize
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, urlencode

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from advisor.catalog.engines import is_release, stated_sizes
from advisor.catalog.hardware import drafter_name, model_name, own_drafter
from advisor.catalog.models import (
    checkpoint_name,
    family_of,
    load_model,
    model_ids,
    other_checkpoint,
    own_model,
    resolve_model_name,
    stored_format,
    unknown_model,
)
from advisor.physics.acceptance import AcceptanceCurve, acceptance_curve, every_curve
from advisor.physics.draft import load_drafter
from advisor.physics.hardware import gpus_of_node, load_hardware
from advisor.predict.plain_sweep import parse_sweep
from advisor.predict.scenario_fields import (
    DOCUMENTS,
    DRAFT_FIELDS,
    FIELDS,
    POOL_FIELDS,
    RANK_FIELDS,
    SERVER_FIELDS,
    SPELLINGS,
    ScenarioFields,
    mean_context,
)
from advisor.prediction import AdvisorError, Array, Frozen, explain
from advisor.profiles import load_profile, profile_ids, read_file, shown_path
from advisor.text import RepeatedKeyError, listed, printable, read_json

START_ACCEPTANCE = "gpt-oss-20b-eagle3-mt-bench"
"""The curve to start from; a nearer one takes its place."""


def usual_drafter(model_id: str) -> str:
    """The drafter that ships with the model or stands in its recipe.

    Without one, that which most models have a head for.
    """
    return own_drafter(model_id) or str(FIELDS["drafter_id"].default)


Distance = Literal["own", "family", "drafter", "kind", "other"]
"""From a model and drafter to a measured curve: of both; of the drafter with a model of the family;
of the drafter with another model; of another drafter of its kind; of none such."""


def distance_of(curve: AcceptanceCurve, model_id: str, drafter_id: str) -> Distance:
    """Distance of a curve from the model and drafter that it is used for."""
    if curve.drafter_id == drafter_id:
        if curve.model_id == model_id:
            return "own"
        return "family" if family_of(curve.model_id) == family_of(model_id) else "drafter"
    kinds = {load_drafter(each).kind for each in (curve.drafter_id, drafter_id)}
    return "kind" if len(kinds) == 1 else "other"


def nearest_acceptance(model_id: str, drafter_id: str, current: str = START_ACCEPTANCE) -> str:
    """The measured curve nearest to a shipped model and drafter.

    It is `current` when that is the user's own numbers or as near.

    Near: measured with this drafter, else with one of its kind; of those with this model, else in
    its family, the closest name first. A drafter of a kind that was never measured keeps `current`.
    """
    curves = {curve.id: curve for curve in every_curve()}
    if current not in curves:
        return current
    kind = load_drafter(drafter_id).kind
    near = [curve for curve in curves.values() if curve.drafter_id == drafter_id] or [
        curve for curve in curves.values() if load_drafter(curve.drafter_id).kind == kind
    ]
    if not near:
        return current

    def nearness(curve: AcceptanceCurve) -> tuple[bool, int]:
        same_family = family_of(curve.model_id) == family_of(model_id)
        pairs = zip(curve.model_id, model_id, strict=False)
        shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        return curve.model_id == model_id, shared if same_family else 0

    best = max(near, key=nearness)
    is_as_near = curves[current] in near and nearness(curves[current]) == nearness(best)
    return current if is_as_near else best.id


_ORIGINS: dict[Distance, str] = {
    "own": "measured",
    "family": "borrowed in the family: measured",
    "drafter": "borrowed from another family: measured",
    "kind": "borrowed from another drafter of its kind: measured",
    "other": "borrowed from another kind of drafter: measured",
}


def acceptance_origin(acceptance: str, model_id: str, drafter_id: str) -> str:
    """Model and drafter of a measured acceptance curve, borrowed where they are others, and how
    far. Empty for numbers."""
    curve = acceptance_curve(acceptance)
    if curve is None:
        return ""
    how = _ORIGINS[distance_of(curve, model_id, drafter_id)]
    checkpoint = curve.checkpoint or model_name(curve.model_id)
    drafter = drafter_name(curve.drafter_id).replace("Own", "its own")
    return f"{how} with {checkpoint} and {drafter} on {curve.dataset}"


def usual_tensor_parallel(n_gpus: int, node: int) -> int:
    """Ranks of one instance over all GPUs, as most deployments have it, but within a node of `node`
    GPUs. [-]"""
    return n_gpus if n_gpus <= node else math.gcd(n_gpus, node)


def carried_text(extrapolated: NDArray[np.bool_], drafts: NDArray[np.int64]) -> str:
    """Sentence on those of some K whose accepted length is neither measured nor given. Empty where
    none is."""
    draft_lengths = [int(k) for k in drafts if k and extrapolated[k]]
    if not draft_lengths:
        return ""
    runs = np.split(draft_lengths, 1 + np.flatnonzero(np.diff(draft_lengths) > 1))
    ranges = [
        text
        for run in runs
        for text in ([f"{run[0]} to {run[-1]}"] if run.size > 2 else map(str, run))
    ]
    return f"At K = {listed(ranges)} it is extrapolated, with a wider 80% range."


def drafted(values: dict[str, Any], assumed: list[str]) -> dict[str, Any]:
    """Drafter and acceptance of a new scenario, from what is known of its model. Says in `assumed`
    what it takes."""
    config = values.get("model_config_json")
    name = values["model_id"]
    model_id = name if config is None else own_model(config, name).id
    drafter_id = values.get("drafter_id") or usual_drafter(model_id)
    if "drafter_id" not in values:
        assumed.append(f"{drafter_name(drafter_id)} (--drafter)")
    acceptance = values.get("acceptance")
    if acceptance is None and drafter_id == "none":
        acceptance = "0"
    elif acceptance is None:
        acceptance = nearest_acceptance(model_id, drafter_id)
        assumed.append(
            f"accepted length {acceptance_origin(acceptance, model_id, drafter_id)} "
            "(--accepted-length)"
        )
    return {"drafter_id": drafter_id, "acceptance": acceptance}


def named_model(text: str) -> dict[str, Any]:
    """Fields of a model's id or name: id, checkpoint, a release's format. Raises AdvisorError for
    an unknown one."""
    if text in model_ids():
        return {"model_id": text, "model_config_json": None, "checkpoint": None}
    resolved = resolve_model_name(text)
    if resolved is None:
        raise AdvisorError(unknown_model(text))
    fields = {
        "model_id": resolved.model_id,
        "model_config_json": None,
        "checkpoint": other_checkpoint(text),
    }
    if resolved.weight_format not in (None, stored_format(load_model(resolved.model_id))):
        fields["weight_dtype"] = resolved.weight_format
    return fields


def split_gpus(text: str) -> tuple[int, str]:
    """GPUs and the accelerator's name of `8xH200`. Raises AdvisorError for anything else."""
    match = re.fullmatch(r"([0-9]{1,6})\s*[x×*]\s*(\S.*)", text.strip(), re.IGNORECASE)
    if match is None:
        raise AdvisorError(
            f"{printable(text, 40)!r} does not say how many GPUs of which kind; write it as 8xH200"
        )
    return int(match[1]), match[2]


MAX_CONFIG_BYTES = 1_000_000
"""Largest config.json a link may carry. [B]"""
MAX_LINK_CHARACTERS = 30_000
"""A longer address is refused by servers and proxies; what makes it longer stays out of it."""

UNNAMED_MODEL = "own-model"
"""Name of a configuration that is given without one."""


class Scenario(ScenarioFields):
    """Choices of the user. `acceptance` is one string: `X@K`, a list `a1,a2,...`, or the id of a
    measured curve."""

    if not TYPE_CHECKING:  # the fields stay the signature that editors show

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise AdvisorError(explain(error)) from error

    @classmethod
    def from_config(cls, config: Path | str | Mapping[str, Any], **fields: Any) -> "Scenario":
        """Scenario of a config.json (path, text or content) and other `fields`. Raises
        AdvisorError."""
        text = json.dumps(dict(config)) if isinstance(config, Mapping) else str(config)
        if not text.lstrip().startswith("{"):
            fields = {"model_id": checkpoint_name(Path(text))} | fields
            text = read_file(Path(text), MAX_CONFIG_BYTES, "a config.json").decode(
                "utf-8-sig", errors="replace"
            )
        values = {"model_config_json": text, "model_id": UNNAMED_MODEL} | fields
        return build_scenario(**drafted(values, []) | values)

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        """A name for a configuration that comes without one: the default is another model's."""
        if isinstance(values, dict) and values.get("model_config_json") is not None:
            return {"model_id": UNNAMED_MODEL} | values
        return values

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, values: Any) -> Any:
        """Choices that go by other names, as `SPELLINGS` has them."""
        if not isinstance(values, dict):
            return values
        return values | {
            name: SPELLINGS.get(str(values[name]).lower(), values[name])
            for name in FIELDS.keys() & values.keys()
            if FIELDS[name].choices
        }

    @model_validator(mode="before")
    @classmethod
    def _context(cls, values: Any) -> Any:
        """The context that the lengths say, where it is left out beside both of them."""
        if not isinstance(values, dict) or "context_tokens" in values:
            return values
        input_tokens = values.get("input_tokens")
        output_tokens = values.get("output_tokens")
        if None in (input_tokens, output_tokens):
            return values
        try:
            prompt = int(input_tokens or 0)
            output = int(output_tokens or 0)
        except (TypeError, ValueError, OverflowError):
            return values  # the field's own check says what is wrong
        return values | {"context_tokens": int(mean_context(prompt, output))}

    @model_validator(mode="after")
    def _placement(self) -> "Scenario":
        if self.n_gpus % self.tensor_parallel:
            raise ValueError(
                f"tensor_parallel={self.tensor_parallel} does not divide n_gpus={self.n_gpus}; "
                "choose a divisor"
            )
        if self.expert_parallel > self.n_gpus or self.n_gpus % self.expert_parallel:
            raise ValueError(
                f"expert_parallel={self.expert_parallel} does not divide n_gpus={self.n_gpus}; "
                "choose a divisor"
            )
        if self.engine_version is not None and not is_release(self.engine_version):
            raise ValueError(
                f"engine_version={self.engine_version!r} is no release number; give one such as "
                "0.33.0, or leave it out"
            )
        if self.graph_sizes is not None:
            stated_sizes(self.graph_sizes)
        if self.plain_sweep is not None:
            parse_sweep(self.plain_sweep)
        shared = self.shared_prefix_tokens
        for name in ("context_tokens", "input_tokens"):
            tokens = getattr(self, name)
            if shared is not None and tokens is not None and shared >= tokens:
                raise ValueError(
                    f"shared_prefix_tokens={shared} leaves nothing of {name}={tokens}; give a "
                    "shorter prefix"
                )
        if (self.input_tokens is None) != (self.output_tokens is None):
            raise ValueError("input_tokens and output_tokens go together; give both or neither")
        if self.input_tokens is not None and self.context_tokens < self.input_tokens:
            usual = int(mean_context(self.input_tokens, self.output_tokens))
            raise ValueError(
                f"context_tokens={self.context_tokens} is shorter than the prompt, "
                f"input_tokens={self.input_tokens}; give the mean while decoding, prompt and half "
                f"the output: {usual}"
            )
        return self

    @property
    def hash(self) -> str:
        """Twelve hex digits that name this scenario. Equal scenarios have equal hashes."""
        values = self.model_dump(mode="json")
        for name, row in FIELDS.items():
            # Reports from before the field must keep their hash.
            if row.is_younger and getattr(self, name) == row.default:
                del values[name]
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    @property
    def is_private(self) -> bool:
        """Whether it carries something of the user's own, which no shared cache may keep."""
        return any(
            row.is_private and getattr(self, name) is not None for name, row in FIELDS.items()
        )

    @property
    def served_checkpoint(self) -> str | None:
        """Another checkpoint than the profile's own, as it was named. None without one, or of
        another model."""
        resolved = (
            None
            if self.model_config_json is not None
            else resolve_model_name(self.checkpoint or "")
        )
        return (
            self.checkpoint if resolved is not None and resolved.model_id == self.model_id else None
        )

    def moved(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes to the scenario. What one server logs of its cache does not go to another one,
        nor what is said of one drafter's weights to another drafter."""
        changed = {name for name, value in changes.items() if getattr(self, name) != value}
        dropped = POOL_FIELDS if changed & SERVER_FIELDS else ()
        if "drafter_id" in changed:
            dropped = (*dropped, *DRAFT_FIELDS)
        return dict.fromkeys(dropped) | dict(changes)

    def model_copy(
        self, *, update: Mapping[str, Any] | None = None, deep: bool = False
    ) -> "Scenario":
        """A copy with changes, as `moved` has them."""
        return super().model_copy(update=self.moved(update or {}), deep=deep)

    def on_assumed_ranks(self) -> "Scenario":
        """The scenario without loads and layout of experts, which say nothing of another
        model's."""
        has_loads = any(getattr(self, name) is not None for name in RANK_FIELDS)
        return self.model_copy(update=dict.fromkeys(RANK_FIELDS)) if has_loads else self

    def to_query(self) -> str:
        """URL query: model, GPU, batch, context, engine, and other fields that differ from their
        default."""
        always_written = ("hardware_id", "model_id", "batch_size", "context_tokens", "engine")
        values = self.model_dump(mode="json", include=set(always_written)) | self.model_dump(
            mode="json", exclude_defaults=True
        )
        if (
            self.model_config_json is not None
        ):  # left out it would be UNNAMED_MODEL, which the page names itself
            values["model_id"] = self.model_id
            if self.model_id == UNNAMED_MODEL:
                del values["model_id"]
        return urlencode(
            {name: pack(value) if name in DOCUMENTS else value for name, value in values.items()}
        )

    @classmethod
    def from_query(cls, query: str) -> "Scenario":
        """Inverse of `to_query`. Raises AdvisorError naming the parameter that is wrong."""
        values: dict[str, Any] = dict(parse_qsl(query.lstrip("?"), keep_blank_values=True))
        return build_scenario(
            **{
                name: unpack(name, text) if name in DOCUMENTS else text
                for name, text in values.items()
            }
        )


def scenario_words(
    scenario: Scenario,
    own_model: str | None = None,
    own_hardware: str | None = None,
    *,
    left_out: Sequence[str] = (),
) -> list[str]:
    """A scenario as words of a shell line: model, GPUs, and fields that these alone leave
    otherwise.

    own_model, own_hardware : files that hold the user's own. left_out : fields without a word.
    """
    gpus = ["--gpus", f"{scenario.n_gpus}x{scenario.hardware_id}"]
    if scenario.hardware_json is not None:
        gpus = [
            "--gpus",
            str(scenario.n_gpus),
            "--hardware",
            own_hardware or f"{scenario.hardware_id}.json",
        ]
    words = [own_model or scenario.served_checkpoint or scenario.model_id, *gpus]
    known = {
        name: getattr(scenario, name) for name in ("model_id", "hardware_id", "n_gpus", *DOCUMENTS)
    }
    hardware = load_hardware(scenario.hardware_id) if scenario.hardware_json is None else None
    known["tensor_parallel"] = (
        1 if hardware is None else usual_tensor_parallel(scenario.n_gpus, gpus_of_node(hardware))
    )
    usual = build_scenario(**known | drafted(known, []))
    for name, row in FIELDS.items():
        value = getattr(scenario, name)
        flags = {flag.name for flag in row.flags}
        if (
            (name in known and name != "tensor_parallel")
            or name in left_out
            or not flags
            or value in (None, getattr(usual, name))
        ):
            continue
        if name == "acceptance":
            flags = {acceptance_option(value)}
        words += [flags.pop(), str(value)]
    return words


def acceptance_option(acceptance: str) -> str:
    """The option that takes an acceptance as a scenario holds it."""
    if "@" in acceptance:
        return "--accepted-length"
    return "--acceptance-preset" if acceptance[0].isalpha() else "--acceptance"


def build_scenario(**values: Any) -> Scenario:
    """Scenario from loose values. Raises AdvisorError: one sentence per wrong field, with what to
    do."""
    return Scenario(**values)


def pack(text: str) -> str:
    """A document as a link carries it: compressed, in the letters of an address."""
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(name: str, text: str) -> str:
    """Inverse of `pack`. Raises AdvisorError naming the parameter when the text is damaged or
    unpacks to too much."""
    try:
        # Bounded: a short link could unpack to all memory.
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(
            base64.b64decode(text, altchars=b"-_", validate=True), MAX_CONFIG_BYTES
        )
        if not unpacker.eof:
            raise ValueError("incomplete or too large")
        return unpacked.decode()
    except (ValueError, zlib.error) as error:
        raise AdvisorError(
            f"{name} in the link is damaged or too large; copy the whole link again"
        ) from error


SCHEMA_VERSION: Literal[1] = 1
"""Of a JSON report and of a scenario file, which is one without the answer."""
MAX_SCENARIO_BYTES = 16_000_000
"""Largest scenario file or JSON report read: a report with a large config.json has about 2 MB.
[B]"""


@dataclass(frozen=True)
class ScenarioFile:
    """Scenario of a file, and the file's own words about it."""

    scenario: Scenario
    date: dt.date | None
    """Date of the report; None in a file that holds a scenario alone."""
    stated_hash: str

    @property
    def note(self) -> str:
        """Says that the file's scenario is not the one it was written with. Empty where it is."""
        if self.stated_hash == self.scenario.hash:
            return ""
        return (
            f"Its scenario has the hash {self.scenario.hash}, the file says "
            f"{_plain(self.stated_hash)}: it was edited, or written by another version of the "
            "advisor."
        )


def scenario_json(scenario: Scenario) -> str:
    """The scenario as a file's text. `read_scenario` is the inverse."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "scenario_hash": scenario.hash,
        "scenario": scenario.model_dump(mode="json"),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read_scenario(content: bytes) -> ScenarioFile:
    """The scenario of a scenario file, a JSON report, or printed with --json. Raises AdvisorError
    for others."""
    if len(content) > MAX_SCENARIO_BYTES:
        raise AdvisorError(
            f"the file has {len(content):,} bytes; a scenario file or JSON report has at most "
            f"{MAX_SCENARIO_BYTES:,}"
        )
    try:
        document = read_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise AdvisorError("the file is not text; give a scenario file or a JSON report") from error
    except RepeatedKeyError as error:
        raise AdvisorError(f"{error}; remove one of them") from error
    except ValueError as error:
        raise AdvisorError(
            "the file is not JSON, or is cut off; give a scenario file or a JSON report"
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("scenario"), dict):
        raise AdvisorError(
            f"the file is {_what_else(document)}; give a scenario file or a JSON report"
        )
    # Answers that commands print with --json have a version of their own, or none; the hash beside
    # the scenario tells them from a cut-out piece.
    has_own_version = "outcome" in document or "schema_version" not in document
    is_answer = has_own_version and "scenario_hash" in document
    if (version := document.get("schema_version")) != SCHEMA_VERSION and not is_answer:
        raise AdvisorError(
            f"the file has schema_version {repr(version)[:40]}; this advisor reads {SCHEMA_VERSION}"
        )
    for name, value in document["scenario"].items():
        # Python counts true as 1: a batch of true would pass as a batch of one.
        if isinstance(value, bool):
            raise AdvisorError(
                f"{_plain(name)} is {str(value).lower()}; every setting of a scenario is a number "
                "or text"
            )
    try:
        scenario = build_scenario(
            **{str(name): value for name, value in document["scenario"].items()}
        )
    except AdvisorError as error:
        raise AdvisorError(f"the scenario in the file cannot be: {error}") from error
    return ScenarioFile(scenario, _date(document), str(document.get("scenario_hash", "")))


def load_scenario_file(path: Path) -> ScenarioFile:
    """Read a scenario file on disk, as `read_scenario`. Raises AdvisorError, also when it cannot be
    read."""
    content = read_file(
        path, MAX_SCENARIO_BYTES, "a scenario file or JSON report", "give a scenario file"
    )
    try:
        return read_scenario(content)
    except AdvisorError as error:
        raise AdvisorError(f"{shown_path(path)}: {error}") from error


def _date(document: dict[str, Any]) -> dt.date | None:
    if (stated := document.get("date")) is None:
        return None
    try:
        return dt.date.fromisoformat(stated)
    except (TypeError, ValueError) as error:
        raise AdvisorError(
            f"the file's date {_plain(stated)} is not a day, e.g. 2026-11-21"
        ) from error


def _what_else(document: Any) -> str:
    if isinstance(document, dict):
        if isinstance(document.get("scenarios"), list):
            return f"a comparison of {len(document['scenarios'])} scenarios, not one scenario"
        if "model_type" in document or "architectures" in document:
            return "a model's config.json, not a scenario: give it as the model"
        if "bandwidth_bytes_per_s" in document:
            return "an accelerator, not a scenario: give it as the accelerator"
    return "JSON without a scenario"


def _plain(value: Any) -> str:
    return repr(str(value)[:40])


_LISTING = "run `python -m advisor examples` for all of them"


class MeasuredSpeedup(Frozen):
    """A speedup that a source of an example measured on its very scenario, at one K."""

    n_draft: int = Field(ge=1)
    batch_size: int | None = Field(default=None, ge=1)
    """None: at the batch where it is highest, which the source does not state."""
    speedup: float = Field(gt=0)


class Example(Frozen):
    """One scenario with a line on what it shows, and where its accepted length comes from."""

    id: str
    title: str = Field(max_length=60)
    description: str = Field(max_length=150)
    """What it shows and, where `measured` is given, how the prediction compares with it: what is
    read first."""
    acceptance_origin: Literal["measured curve", "published value"]
    """A measured curve of the profiles, or numbers from a publication typed in as a user would."""
    acceptance_note: str
    sources: tuple[str, ...] = Field(min_length=1)
    measured: tuple[MeasuredSpeedup, ...] = ()
    """Speedups that its sources measured; the prediction is never fitted to them."""
    scenario: Scenario


def example_ids() -> list[str]:
    """Ids of all examples, sorted."""
    return profile_ids("examples")


@lru_cache(maxsize=16)
def load_example(example_id: str) -> Example:
    """The example of that id. Raises AdvisorError for an unknown id (with close matches) or a
    damaged file."""
    return load_profile("examples", example_id, Example, "examples", _LISTING)


MAX_LOADS_BYTES = 50_000_000
MOST_MISSING = 0.125
"""Share of a model's experts, its last ones, that may have no row; a table that lacks more is of
another model. [-]"""
_COLUMNS = ("layer", "expert", "tokens")
_STEPS = 100.0
_COARSE_STEPS = 25.0
"""Steps to a layer's mean load in a text, and in one of more than _MANY_CELLS, which a link would
not hold else. [-]"""
_MANY_CELLS = 16_384
_TOP = 65_535
MAX_CELLS = 2**20
"""Layers times experts, several times those of any model that is known: a short text could unpack
to all memory. [-]"""


def read_loads(name: str, data: bytes, n_experts: int = 0) -> Array:
    """Loads by layer and expert, [layers, N], of a .npy array or a CSV with columns layer, expert,
    tokens.

    n_experts : the model's, to which a CSV is filled up that lacks at most MOST_MISSING of them; 0:
        none. [-]

    Layers come in the order of their numbers; an expert that a CSV leaves out has no load. Raises
    AdvisorError for anything else, with the line where there is one.
    """
    if data[:6] == b"\x93NUMPY":
        try:
            loads = np.load(io.BytesIO(data), allow_pickle=False)
        except (
            ValueError,
            OSError,
            EOFError,
            MemoryError,
            OverflowError,
            tokenize.TokenError,
        ) as error:
            # A header can ask for more than memory or an integer holds, or end within itself.
            raise AdvisorError(
                f"{name}: not a readable .npy array; save it with numpy.save"
            ) from error
        if loads.ndim != 2 or not np.issubdtype(loads.dtype, np.number) or np.iscomplexobj(loads):
            raise AdvisorError(
                f"{name} holds {loads.dtype} {loads.shape}; expected numbers [layers, experts]"
            )
        return np.asarray(loads, float)
    return _csv_loads(name, data, n_experts)


def _csv_loads(name: str, data: bytes, n_experts: int) -> Array:
    try:
        cells = _csv_cells(name, data)
    except (UnicodeDecodeError, csv.Error) as error:
        raise AdvisorError(f"{name}: neither a .npy array nor a CSV in UTF-8") from error
    if not cells:
        raise AdvisorError(f"{name} has no rows; expected one for each layer and expert")
    layers = sorted({layer for layer, _ in cells})
    first = sum(layer == layers[0] for layer, _ in cells)
    last = sum(layer == layers[-1] for layer, _ in cells)
    # Files are written layer by layer: one that was cut lacks rows of its last.
    if last < (1.0 - MOST_MISSING) * first:
        raise AdvisorError(
            f"{name} names {last} experts in its last layer, {layers[-1]}, and {first} in its "
            "first: it seems cut off; give experts that are never chosen with 0"
        )
    experts = 1 + max(expert for _, expert in cells)
    if n_experts * (1.0 - MOST_MISSING) <= experts:
        experts = max(experts, n_experts)
    if len(layers) * experts > MAX_CELLS:
        raise AdvisorError(
            f"{name} names {len(layers)} layers and experts up to {experts - 1}, more than any "
            "model has"
        )
    loads = np.zeros((len(layers), experts))
    for (layer, expert), load in cells.items():
        loads[layers.index(layer), expert] = load
    return loads


def _csv_cells(name: str, data: bytes) -> dict[tuple[int, int], float]:
    """Loads by layer and expert; what is no CSV raises as the reader of CSVs does, while its rows
    are read too."""
    rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig")))
    columns = tuple(rows.fieldnames or ())
    if not columns:
        raise AdvisorError(f"{name} is empty; expected columns {', '.join(_COLUMNS)}")
    if not set(_COLUMNS) <= set(columns):
        raise AdvisorError(
            f"{name} has columns {', '.join(columns[:8])}; expected {', '.join(_COLUMNS)}"
        )
    cells: dict[tuple[int, int], float] = {}
    for line, row in enumerate(rows, start=2):
        try:
            layer = int(row["layer"])
            expert = int(row["expert"])
            load = float(row["tokens"])
        except (TypeError, ValueError) as error:
            raise AdvisorError(
                f"{name}, line {line}: expected whole layer and expert, and a number of tokens"
            ) from error
        if not 0 <= expert < 65_536 or not 0 <= layer < 2_000:
            raise AdvisorError(
                f"{name}, line {line}: layer {layer}, expert {expert} cannot be; counting starts "
                "at 0"
            )
        if (layer, expert) in cells:
            raise AdvisorError(
                f"{name}, line {line}: layer {layer}, expert {expert} comes twice; give each once"
            )
        cells[layer, expert] = load
    return cells


def write_loads(loads: Array) -> str:
    """Loads [layers, N] as a line, in steps of 1 or 4 % of a layer's mean. Raises AdvisorError for
    no loads."""
    values = np.asarray(loads, float)
    _check(values, "the loads")
    values = values / values.max(axis=1, keepdims=True)  # whatever their unit, sums stay finite
    steps = np.rint(_steps(values.size) * values / values.mean(axis=1, keepdims=True))
    small = np.minimum(steps, _TOP).astype("<u2")
    # The two bytes of each number apart: the upper ones are nearly all zero, and compress to
    # nothing.
    planes = small.reshape(-1, 1).view(np.uint8).T.tobytes()
    return f"{values.shape[0]}x{values.shape[1]}:{base64.urlsafe_b64encode(zlib.compress(planes, 9)).decode()}"  # noqa: E501


def loads_shape(text: str) -> tuple[int, int]:
    """Number of layers and of experts that a text of loads holds. (0, 0) for any other text."""
    layers, _, experts = text.partition(":")[0].partition("x")
    integers = text.isascii() and layers.isdecimal() and experts.isdecimal()
    return (int(layers), int(experts)) if integers else (0, 0)


def parse_loads(text: str) -> Array:
    """Inverse of `write_loads`, [layers, N] over each layer's mean load. [-] Raises AdvisorError
    for damage."""
    refused = AdvisorError(
        "expert_loads is no text of loads, or damaged; give a CSV with columns layer, expert, "
        "tokens, or copy the whole link again"
    )
    layers, experts = loads_shape(text)
    cells = layers * experts
    if not 0 < cells <= MAX_CELLS:
        raise refused
    try:
        data = base64.b64decode(text.partition(":")[2], altchars=b"-_", validate=True)
        planes = zlib.decompressobj().decompress(data, 2 * cells + 1)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise refused from error
    if len(planes) != 2 * cells:
        raise refused
    steps = np.frombuffer(planes, np.uint8).reshape(2, cells).T.copy().view("<u2")
    loads = np.asarray(steps.reshape(layers, experts), float) / _steps(cells)
    _check(loads, "expert_loads")
    return loads


def _steps(cells: int) -> float:
    return _STEPS if cells <= _MANY_CELLS else _COARSE_STEPS


def _check(loads: Array, subject: str) -> None:
    if loads.ndim != 2 or not loads.size or not np.all(np.isfinite(loads)) or loads.min() < 0.0:
        raise AdvisorError(f"{subject}: expected numbers >= 0 by layer and expert")
    if loads.size > MAX_CELLS:
        raise AdvisorError(
            f"{subject}: {loads.shape[0]} layers of {loads.shape[1]} experts are more than any "
            "model has"
        )
    if not np.all(loads.max(axis=1) > 0.0):
        raise AdvisorError(f"{subject}: a layer has no load at all; leave it out")
