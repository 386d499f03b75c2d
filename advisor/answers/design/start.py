"""A model to start from, typed as a shape or a target size, and a design as a config.json in the
baseline's dialect.

What nobody typed is assumed and said: attention as in Llama-3 (heads of 128 over the hidden size, 8
of them with keys and values), Qwen3's vocabulary. A target size takes a shipped model near it and
solves the experts.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from advisor.answers.design.candidates import Candidate
from advisor.answers.design.dials import Experts, experts_of
from advisor.answers.design.grid import (
    MAX_BATCHES,
    RANK_WIDTH_MULTIPLE,
    TARGET_SHARE,
    DesignGrid,
    Mixes,
    design_architecture,
    moe_shape,
    shared_experts,
    weights,
    widths,
)
from advisor.answers.design.space import DesignSpace
from advisor.answers.flags import Flags
from advisor.catalog.hf.config import DESIGN_SUFFIX, architecture_from_config
from advisor.catalog.hf.dialects import NESTED_KEYS
from advisor.catalog.hf.layers import (
    EXPERT_COUNT_KEYS,
    EXPERT_WIDTH_KEYS,
    SHARED_COUNT_KEYS,
    SHARED_TOTAL_KEYS,
    TOP_K_KEYS,
)
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.catalog.routing_presets import ONE_DOMAIN, routing_preset_ids
from advisor.catalog.routing_shift import is_moved, write_moved
from advisor.physics.architecture import Architecture, parameter_counts
from advisor.physics.step import Placement
from advisor.predict.scenario import Scenario, build_scenario
from advisor.prediction import AdvisorError

SHAPE_EXAMPLE = "61L h7168 N256 k8 s1 w2048"
_HEAD_DIM = 128  # Llama-3's
_KV_HEADS = 8  # Llama-3's
_VOCABULARY = 151_936  # Qwen3's
NEAR = 1.5
"""Choice of this project: shipped models within this factor of a target size may start from it, the
newest first."""
_MAX_TEXT = 200
_OF = re.compile(r"(\d+)\s*(?:of|/)\s*(\d+)(?:\s*\+\s*(\d+))?", re.IGNORECASE)
_PIECE = re.compile(r"(?:(?P<count>[0-9]+)L|(?P<letter>[A-Za-z])(?P<value>[0-9]+))", re.IGNORECASE)


@dataclass(frozen=True)
class _Part:
    letter: str
    field: str
    words: str
    most: int
    least: int = 1


_PARTS = (
    _Part("L", "layers", "layers", 1_000),
    _Part("h", "hidden_size", "hidden size", 131_072),
    _Part("N", "n_experts", "experts", 65_536),
    _Part("k", "n_active", "experts per token", 65_536),
    _Part("s", "n_shared", "shared experts", 1_024, least=0),
    _Part("w", "expert_width", "expert width", 131_072),
    _Part("a", "heads", "attention heads", 4_096),
    _Part("g", "kv_heads", "heads with keys and values", 4_096),
    _Part("d", "head_dim", "head size", 4_096),
    _Part("v", "vocabulary", "vocabulary", 4_000_000),
    _Part("m", "mtp_modules", "MTP modules", 8, least=0),
)
_BY_LETTER = {part.letter.lower(): part for part in _PARTS}
_NEEDED = ("layers", "hidden_size", "n_experts", "n_active", "expert_width")


@dataclass(frozen=True)
class TypedShape:
    """A mixture of experts in a line of text: every layer routes, and attends with grouped heads.
    All [-]."""

    layers: int
    hidden_size: int
    n_experts: int
    n_active: int
    expert_width: int
    n_shared: int = 0
    heads: int | None = None
    """None: heads of `head_dim` over the hidden size."""
    kv_heads: int = _KV_HEADS
    head_dim: int = _HEAD_DIM
    vocabulary: int = _VOCABULARY
    mtp_modules: int = 0

    @property
    def query_heads(self) -> int:
        """Attention heads, typed or assumed."""
        return self.heads if self.heads is not None else max(1, self.hidden_size // self.head_dim)

    @property
    def text(self) -> str:
        """The shape as it is typed, the assumed parts left out."""
        extra = f" m{self.mtp_modules}" if self.mtp_modules else ""
        return (
            f"{self.layers}L h{self.hidden_size} N{self.n_experts} k{self.n_active} "
            f"s{self.n_shared} w{self.expert_width}{extra}"
        )


def parse_shape(text: str, shown: str = "") -> TypedShape:
    """A shape from `61L h7168 N256 k8 s1 w2048`, in any order and case. Raises AdvisorError naming
    the piece.

    shown : what the user typed of it, for errors; default all.
    """
    typed_text = shown or text.strip()[:_MAX_TEXT]
    field_values: dict[str, int] = {}
    for piece in text[:_MAX_TEXT].replace(",", " ").split():
        match = _PIECE.fullmatch(piece)
        part = None if match is None else _BY_LETTER.get((match["letter"] or "L").lower())
        if match is None or part is None:
            raise AdvisorError(
                f"shape {typed_text!r}: {piece!r} is no part of a shape; {_known_parts()}"
            )
        value = int((match["count"] or match["value"])[:12])
        if part.field in field_values:
            raise AdvisorError(
                f"shape {typed_text!r} gives the {part.words} twice; give each part once"
            )
        if not part.least <= value <= part.most:
            raise AdvisorError(
                f"shape {typed_text!r}: {part.words} {value:,} must lie in "
                f"{part.least}..{part.most:,}"
            )
        field_values[part.field] = value
    missing = [part for part in _PARTS if part.field in _NEEDED and part.field not in field_values]
    if missing:
        names = " and ".join(f"the {part.words} ({_typed(part)})" for part in missing)
        raise AdvisorError(f"shape {typed_text!r} lacks {names}; {_known_parts()}")
    return _checked(TypedShape(**field_values), typed_text)


def parse_experts(text: str, own: Experts) -> Experts:
    """Routed layer from `N320 k8 s0 w2048` or `8 of 320 + 1`, in any order. Raises AdvisorError.

    Parts left out are those of `own`, but for shared experts: `8 of 320` has none. A width left out
    beside another N is the one that keeps the total size.
    """
    typed_text = text.strip()[:_MAX_TEXT]
    pieces = (
        _OF.sub(lambda match: f"k{match[1]} N{match[2]} s{match[3] or 0}", typed_text)
        .replace(",", " ")
        .split()
    )
    wrong_pieces = [piece for piece in pieces if not re.fullmatch(r"[NKSWnksw]\d+", piece)]
    if wrong_pieces:
        raise AdvisorError(
            f"{wrong_pieces[0]!r} is no part of a design; type experts alone, like 8 of 256 + 1 or "
            f"{own.text}"
        )
    typed = {piece[0].upper(): piece for piece in pieces}
    n = int(typed.get("N", f"N{own.n_experts}")[1:][:12])
    width = own.n_experts * own.expert_width / max(n, 1)
    width = (
        own.expert_width
        if n == own.n_experts
        else RANK_WIDTH_MULTIPLE * max(1, round(width / RANK_WIDTH_MULTIPLE))
    )
    defaults = {"N": own.n_experts, "K": own.n_active, "S": 0, "W": width}
    default_parts = " ".join(
        f"{letter}{value}" for letter, value in defaults.items() if letter not in typed
    )
    shape = parse_shape(f"{' '.join(pieces)} {default_parts} 1L h1 a1 g1", typed_text)
    shared = float(shape.n_shared) if "S" in typed else own.n_shared
    return Experts(shape.n_experts, shape.n_active, shared, shape.expert_width)


MAX_DESIGNS_COMPARED = 4
"""Designs that are held beside the start: as many as there are colors. [-]"""


def parse_designs(text: str, own: Experts) -> tuple[Experts, ...]:
    """Routed layers from `4 of 64; 8 of 256 + 1`, each once. Raises AdvisorError for one that is
    none, or too many."""
    typed = [piece for piece in text.split(";") if piece.strip()]
    if len(typed) > MAX_DESIGNS_COMPARED:
        raise AdvisorError(
            f"{len(typed)} designs to compare with: give at most {MAX_DESIGNS_COMPARED}, separated "
            "by semicolons, like 4 of 64; 8 of 256 + 1"
        )
    return tuple(dict.fromkeys(parse_experts(piece, own) for piece in typed))


def _checked(shape: TypedShape, typed_text: str) -> TypedShape:
    if shape.n_active > shape.n_experts:
        raise AdvisorError(
            f"shape {typed_text!r}: k{shape.n_active} exceeds N{shape.n_experts}; choose k of at "
            "most N experts"
        )
    if shape.query_heads % min(shape.kv_heads, shape.query_heads):
        raise AdvisorError(
            f"shape {typed_text!r}: {shape.query_heads} attention heads are not divided by "
            f"{shape.kv_heads} with keys and values; give both, e.g. "
            f"a{8 * max(1, shape.query_heads // 8)} g8"
        )
    return shape


def _typed(part: _Part) -> str:
    example = next(
        (p for p in SHAPE_EXAMPLE.split() if p.strip("0123456789").lower() == part.letter.lower()),
        None,
    )
    return example or f"{part.letter}8"


def _known_parts() -> str:
    needed = ", ".join(f"{_typed(part)} ({part.words})" for part in _PARTS[:6])
    return (
        f"a shape is like {SHAPE_EXAMPLE}: {needed}; further a (heads), g (KV heads), d (head "
        "size), v, m (MTP)"
    )


def shape_config(shape: TypedShape) -> dict[str, Any]:
    """The shape as a Hugging Face config.json, in the dialect of GLM-4 MoE: grouped heads, shared
    experts."""
    return {
        "model_type": "glm4_moe",
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.query_heads,
        "num_key_value_heads": min(shape.kv_heads, shape.query_heads),
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "n_routed_experts": shape.n_experts,
        "num_experts_per_tok": shape.n_active,
        "n_shared_experts": shape.n_shared,
        "moe_intermediate_size": shape.expert_width,
        "intermediate_size": shape.expert_width * (shape.n_active + shape.n_shared),
        "first_k_dense_replace": 0,
        "num_nextn_predict_layers": shape.mtp_modules,
        "tie_word_embeddings": False,
    }


@dataclass(frozen=True)
class Start:
    """A scenario whose model was typed or sized, and where its shape comes from."""

    scenario: Scenario
    facts: Mapping[str, Any]
    """Those of START_FACTS that are known."""


_OF_A_SHAPE = ("query_heads", "head_dim", "kv_heads", "vocabulary")
_OF_A_SIZE = (
    *("near", "layers", "depth", "hidden_size", "design", "total", "active"),
    *("targets", "chosen", "multiple"),
)
START_FACTS = frozenset(("shape", "heads_assumed", "vocabulary_assumed", *_OF_A_SHAPE, *_OF_A_SIZE))
START_FLAGS: Flags = {
    "typed": ("shape", "known", None),
    "heads_assumed": ("heads_assumed", "==", True),
    "vocabulary_assumed": ("vocabulary_assumed", "==", True),
    "newest": ("chosen", "==", "newest"),
    "nearest": ("chosen", "==", "nearest"),
}


def start_from_shape(scenario: Scenario, text: str) -> Start:
    """The scenario with a typed shape as its model. Raises AdvisorError for a shape that cannot
    be."""
    shape = parse_shape(text)
    letters = {piece.strip("0123456789,").lower() for piece in text.split()}
    facts = {name: getattr(shape, name) for name in _OF_A_SHAPE} | {
        "shape": shape.text,
        "heads_assumed": not letters & {"a", "g", "d"},
        "vocabulary_assumed": "v" not in letters,
    }
    model_id = shape.text.replace(" ", "-")
    return Start(_with_config(scenario, model_id, shape_config(shape)), facts)


def _targets(total_params: float | None, active_params: float | None) -> dict[str, float]:
    """The target sizes that are given. Raises AdvisorError where none is, or one is no size."""
    sizes = {"total": total_params, "active": active_params}
    targets = {name: float(value) for name, value in sizes.items() if value is not None}
    if not targets or not all(value > 0 and np.isfinite(value) for value in targets.values()):
        raise AdvisorError(
            "give a target size as a positive number, e.g. 40 B in all or 3 B active"
        )
    if few := [value for value in targets.values() if value < 1e6]:  # 40 for 40B
        raise AdvisorError(
            f"{few[0]:g} parameters are no size of a model; did you mean {few[0]:g}B?"
        )
    return targets


@lru_cache(maxsize=32)
def starts(
    total_params: float | None = None, active_params: float | None = None
) -> tuple[str, ...]:
    """Ids of the shipped models that can be brought to a target size, in the order in which they
    are tried."""
    targets = _targets(total_params, active_params)
    return tuple(
        model.id for model in _by_likeness(targets) if _brought(model, targets) is not None
    )


def _brought(
    near: Architecture, targets: Mapping[str, float]
) -> tuple[Architecture, dict[str, Any]] | None:
    """A shipped model brought to the targets, with its config.json; None where it or its dialect
    cannot be."""
    wanted, error = _solved(near, targets)
    if error > TARGET_SHARE:
        return None
    try:
        return wanted, config_with(dict(model_profile(near.id).config), wanted)
    except AdvisorError:
        return None


def start_from_size(
    scenario: Scenario,
    total_params: float | None = None,
    active_params: float | None = None,
    like: str | None = None,
) -> Start:
    """The scenario with a model of a target size: total, active without embeddings, or both.
    [parameters]

    Layers and attention are those of `like`; default the newest shipped model within NEAR of the
    target, of several the nearest; of the nearest where none is. The expert width, and with two
    targets the numbers of experts, are solved. Raises AdvisorError where nothing comes near.
    """
    targets = _targets(total_params, active_params)
    for near in (
        _by_likeness(targets)
        if like is None
        else [model for model in _shipped() if model.id == like]
    ):
        if (brought := _brought(near, targets)) is None:
            continue
        wanted, config = brought
        moe = wanted.routed
        counts = parameter_counts(wanted)
        is_near = _off(near, targets) <= np.log(NEAR)
        layers: dict[str, int] = {}
        for mixer in near.mixers:
            layers[mixer.kind] = layers.get(mixer.kind, 0) + mixer.count
        facts = {
            "shape": None,
            "near": near.name,
            "layers": tuple(layers.items()),
            "depth": sum(layers.values()),
            "hidden_size": near.hidden_size,
            "design": Experts(moe.n_experts, moe.n_active, moe.n_shared, moe.expert_width),
            "total": counts.total,
            "active": counts.active_nonembedding,
            "targets": tuple(targets.items()),
            "chosen": "typed" if like else "newest" if is_near else "nearest",
            "multiple": RANK_WIDTH_MULTIPLE,
        }
        name = f"{counts.total / 1e9:.0f}b-n{moe.n_experts}k{moe.n_active}s{moe.n_shared}w{moe.expert_width}"  # noqa: E501
        return Start(_with_config(scenario, name, config), facts)
    if like is not None:
        raise AdvisorError(
            f"{like} cannot be widened or thinned to {_targets_text(targets)}; start from another "
            "model"
        )
    sizes = sorted(float(parameter_counts(model).total) for model in _shipped())
    raise AdvisorError(
        f"no shipped model can be widened or thinned to {_targets_text(targets)} (they have "
        f"{sizes[0] / 1e9:,.3g} to {sizes[-1] / 1e9:,.0f} B in all); change a target, or type a "
        f"shape like {SHAPE_EXAMPLE}"
    )


def _with_config(
    scenario: Scenario, name: str, config: dict[str, Any], routing: str = ""
) -> Scenario:
    document = json.dumps(config)
    architecture_from_config(document, name, "the start")
    moved = {"routing": routing} if routing else {}
    return build_scenario(
        **(dict(scenario) | {"model_id": name, "model_config_json": document} | moved)
    )


def _targets_text(targets: Mapping[str, float]) -> str:
    return " and ".join(f"{value / 1e9:,.4g} B {name}" for name, value in targets.items())


@lru_cache(maxsize=1)
def _shipped() -> tuple[Architecture, ...]:
    models = [load_model(model_id) for model_id in model_ids()]
    return tuple(model for model in models if model.moe is not None)


def _off(architecture: Architecture, targets: Mapping[str, float]) -> float:
    """Logarithm of how far a model is from the targets. [-]"""
    counts = parameter_counts(architecture)
    sizes = {"total": counts.total, "active": counts.active_nonembedding}
    return max(abs(float(np.log(sizes[name] / target))) for name, target in targets.items())


def _by_likeness(targets: Mapping[str, float]) -> list[Architecture]:
    """Shipped models in the order in which they are tried as a start."""

    def order(architecture: Architecture) -> tuple[int, float]:
        off = _off(architecture, targets)
        return (-model_profile(architecture.id).year if off <= np.log(NEAR) else 0, off)

    return sorted(_shipped(), key=order)


def _solved(near: Architecture, targets: Mapping[str, float]) -> tuple[Architecture, float]:
    """`near` with the routed layers that come nearest to the targets, and how far off they are. [-]

    With one target the experts are `near`'s own and the width is solved; with two, the experts of
    the grid compete too, those like `near`'s first.
    """
    moe = near.routed
    grid = DesignGrid(width_step=RANK_WIDTH_MULTIPLE)
    two = len(targets) > 1
    shared = shared_experts(moe)
    experts = np.unique([*grid.n_experts, moe.n_experts]) if two else np.array([moe.n_experts])
    active = np.unique([*grid.n_active, moe.n_active]) if two else np.array([moe.n_active])
    axes = np.meshgrid(experts, active, indexing="ij")
    n, k = [axis.ravel().astype(float) for axis in axes]
    possible = k <= n
    n = n[possible]
    k = k[possible]
    width = widths(grid, near, Placement())
    mix = Mixes(n[:, None], k[:, None], np.full((len(n), 1), shared))
    size = weights(near, moe_shape(near, mix, width))
    reached = {"total": size.total, "active": size.active}
    error = np.max(
        [np.abs(np.log(reached[name] / target)) for name, target in targets.items()], axis=0
    )
    unlike = (np.log2(n / moe.n_experts) ** 2 + np.log2(k / moe.n_active) ** 2)[:, None]
    # nearer than a tenth of what is allowed, the likeness to the shipped model decides
    rank = np.maximum(error, 0.1 * TARGET_SHARE) + 1e-3 * unlike + 1e-6 * error
    row, column = np.unravel_index(int(np.argmin(rank)), error.shape)
    wanted = design_architecture(near, int(n[row]), int(k[row]), shared, int(width[column]))
    return wanted, float(np.expm1(error[row, column]))


MAX_NAME = 36
"""Longest name of a design: what the sidebar shows whole. [characters]"""
_COMPARED = (
    "n_experts",
    "n_active",
    "expert_width",
    "shared_width",
    "count",
    "matrices",
    "zero_experts",
)


def baseline_config(scenario: Scenario) -> dict[str, Any]:
    """The config.json behind a scenario's model, as a fresh copy."""
    if scenario.model_config_json is not None:
        return json.loads(scenario.model_config_json)
    return copy.deepcopy(dict(model_profile(scenario.model_id).config))


def design_config(space: DesignSpace, index: int) -> dict[str, Any]:
    """config.json of one design: the baseline's, with the keys of its routed layers changed.

    Raises AdvisorError where the dialect cannot express the design (another depth or number of
    heads, or experts that it computes from other keys): the file is read back and must give the
    same routed layers.
    """
    if space.body[index]:
        raise AdvisorError(
            "a design with another depth or other heads is not written as a config.json; choose "
            "one with the baseline's own, or change the layer keys by hand"
        )
    return experts_config(space, experts_of(space, index))


def experts_config(space: DesignSpace, experts: Experts) -> dict[str, Any]:
    """The baseline's config.json with other experts. Raises AdvisorError where its dialect cannot
    express them."""
    wanted = design_architecture(space.setup.architecture, *experts)
    return config_with(baseline_config(space.setup.scenario), wanted)


def config_with(config: dict[str, Any], wanted: Architecture) -> dict[str, Any]:
    """A config.json with the routed layers of another design. Raises AdvisorError where its dialect
    cannot."""
    problem = ""
    for own_width_is_total in (
        False,
        True,
    ):  # what moe_shared_expert_intermediate_size means differs by model type
        changed = _changed(copy.deepcopy(config), wanted, own_width_is_total)
        problem = _difference(changed, wanted)
        if not problem:
            return changed
    raise AdvisorError(
        f"this model's config.json cannot express the design ({problem}); choose a candidate with "
        "the baseline's own shared experts, or another baseline"
    )


def routing_in_serve(space: DesignSpace, experts: Experts) -> str:
    """The routing that a design has here, as text for its scenario. Empty where the scenario's own
    says it.

    That of the design itself, of a uniform one, a user's trace, and text of one domain, which no
    text carries on.
    """
    scenario = space.setup.scenario
    preset = space.setup.routing
    counts = float(experts.n_experts), float(experts.n_active), float(experts.n_shared)
    preset_id = "" if preset is None else preset.id
    routing = scenario.routing if is_moved(scenario.routing) else preset_id
    can_tell = is_moved(routing) or (
        routing in routing_preset_ids() and scenario.task not in ONE_DOMAIN
    )
    if not can_tell or counts == space.baseline.counts:
        return ""
    return write_moved(routing, space.baseline.counts, counts)


def design_name(space: DesignSpace, item: Experts | Candidate) -> str:
    """A short name that tells the designs of one baseline apart."""
    stem = DESIGN_SUFFIX.sub("", space.setup.scenario.model_id)
    suffix = f"-n{item.n_experts}k{item.n_active}s{item.n_shared:.3g}w{item.expert_width}"
    return stem[: MAX_NAME - len(suffix)].rstrip("-._") + suffix


def _changed(
    config: dict[str, Any], wanted: Architecture, own_width_is_total: bool
) -> dict[str, Any]:
    holder = _expert_holder(config)
    moe = wanted.routed
    config.pop("_name_or_path", None)  # the file no longer describes that checkpoint
    _set(holder, EXPERT_COUNT_KEYS, moe.n_experts)
    _set(holder, TOP_K_KEYS, moe.n_active)
    _set(holder, EXPERT_WIDTH_KEYS, moe.expert_width)
    if "zero_expert_num" in holder:
        holder["zero_expert_num"] = moe.zero_experts
    _set_shared(holder, moe.n_shared, moe.shared_width, own_width_is_total)
    if moe.n_experts % int(holder.get("n_group") or 1):
        for key in (
            "n_group",
            "topk_group",
        ):  # a router that picks groups first needs groups of equal size
            holder.pop(key, None)
    return config


def _expert_holder(config: dict[str, Any]) -> dict[str, Any]:
    """The object that carries the expert keys: the file itself, a nested text model, or DBRX's
    ffn_config."""
    places = [config]
    for place in places:
        if any(place.get(key) is not None for key in EXPERT_COUNT_KEYS):
            return place
        places.extend(
            place[key] for key in (*NESTED_KEYS, "ffn_config") if isinstance(place.get(key), dict)
        )
    raise AdvisorError("the baseline's config.json has no expert count to change; import it anew")


def _set(holder: dict[str, Any], keys: tuple[str, ...], value: int) -> None:
    present = [key for key in keys if holder.get(key) is not None]
    if present:
        holder[present[0]] = value


def _set_shared(
    holder: dict[str, Any], n_shared: int, shared_width: int, own_width_is_total: bool
) -> None:
    totals = [key for key in SHARED_TOTAL_KEYS if holder.get(key) is not None]
    counts = [key for key in SHARED_COUNT_KEYS if holder.get(key) is not None]
    holder |= dict.fromkeys(totals, shared_width) | dict.fromkeys(counts, n_shared)
    if holder.get("moe_shared_expert_intermediate_size") is not None and n_shared:
        holder["moe_shared_expert_intermediate_size"] = (
            shared_width if own_width_is_total else shared_width // n_shared
        )
    if not totals and not counts and n_shared:
        holder["n_shared_experts"] = n_shared


def _difference(config: dict[str, Any], wanted: Architecture) -> str:
    """What the file says otherwise than the design when read back; empty when nothing."""
    read = architecture_from_config(config, wanted.name).moe
    return "; ".join(
        f"{name} {getattr(read, name, None)} instead of {getattr(wanted.moe, name)}"
        for name in _COMPARED
        if getattr(read, name, None) != getattr(wanted.moe, name)
    )


def added_keys(space: DesignSpace, config: dict[str, Any]) -> list[str]:
    """Keys that the baseline's file does not have: the engine's model code must understand them."""
    baseline_holder = _expert_holder(baseline_config(space.setup.scenario))
    return sorted(set(_expert_holder(config)) - set(baseline_holder))


_BATCHES = re.compile(
    r"(?P<first>[0-9]{1,6})"
    r"(\s*-\s*(?P<last>[0-9]{1,6})|\s*:\s*(?P<weight>[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?))?",
    re.IGNORECASE,
)


def parse_batches(text: str) -> dict[int, float]:
    """Batches as {batch: weight} from `1,64`, `1-512` or `1:0.2,64:0.8`. Raises AdvisorError for
    others."""
    weight_by_batch: dict[int, float] = {}
    for piece in text.split(","):
        match = _BATCHES.fullmatch(piece.strip())
        if match is None:
            raise AdvisorError(
                f"batches {text[:80]!r} is no list like 1,64, range like 1-512 or histogram like "
                "1:0.2,64:0.8"
            )
        first = int(match["first"])
        last = int(match["last"] or match["first"])
        if last < first:
            raise AdvisorError(
                f"batches {text[:80]!r}: a range runs from the smaller to the larger batch, e.g. "
                "1-512"
            )
        weight = float(match["weight"] or 1.0)
        between = (2**i for i in range(last.bit_length()) if first < 2**i < last)
        for batch in sorted({first, last, *between}):
            if batch in weight_by_batch:
                raise AdvisorError(f"batches {text[:80]!r} gives {batch} twice")
            weight_by_batch[batch] = weight
    if len(weight_by_batch) > MAX_BATCHES:
        raise AdvisorError(
            f"{len(weight_by_batch)} batches are too many for one search; give at most "
            f"{MAX_BATCHES}"
        )
    return weight_by_batch
