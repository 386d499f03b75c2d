"""Measured quantities in the one form that every fit here works on, and what the model predicts for
them.

A speedup, a step time or a time per token is a ratio of two sums of seconds. Each second belongs to
a multiplier of NAMES, which scales the constants behind it, or to none; so the logarithm and its
slopes are cheap for any multipliers.

Who measured them decides what they are used for (`part_of`). A laboratory is told by the title of a
source, else by its address, so that whatever it publishes next is left out with what it published
before.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from advisor.physics import laws
from advisor.physics.components import COMPONENTS, FACTORS
from advisor.physics.step import n_layers
from advisor.predict.curve import Curve
from advisor.predict.setup import Setup
from advisor.prediction import Array, Frozen
from advisor.profiles import PROFILES, read_profile
from advisor.text import number_of

LABORATORIES = PROFILES / "validation" / "laboratories.yaml"
PARTED_FROM = date(2026, 11, 30)
PARTS = ("judge", "choose", "fit")
"""What rows of a laboratory first collected since then do: judge, and inform nothing; inform forms,
widths and corrections of data; inform constants. All earlier ones are seen, and judge nothing."""
_SAME_OWNER = {
    "raw.githubusercontent.com": "github.com",
    "gist.github.com": "github.com",
    "hf.co": "huggingface.co",
}
"""Hosts whose paths begin with an owner of another host."""
_PAGES = ".github.io"


class Laboratory(Frozen):
    """A company, wiki, team or person with the sources that are theirs."""

    name: str = Field(min_length=2)
    titles: tuple[str, ...] = Field(min_length=1)
    addresses: tuple[str, ...] = ()
    """Host and path that all of its addresses begin with, in the form of `place_of`; the longest
    one decides."""
    first_collected: date = date.min
    """Left out where it was before PARTED_FROM."""
    repository: str = ""
    """What the work of one person is called by, `owner/name`. Empty for a team."""
    immature: str = ""
    """Why its serving stack is called immature, and by whom. Empty where nobody does."""


class _LaboratoryFile(Frozen):
    laboratories: tuple[Laboratory, ...]

    @model_validator(mode="after")
    def _each_once(self) -> _LaboratoryFile:
        places = [
            place
            for each in self.laboratories
            for place in (f"laboratory {each.name}", *each.titles, *each.addresses)
        ]
        wrong = [place for place, times in Counter(places).items() if times > 1]
        for each in self.laboratories:
            wrong += [address for address in each.addresses if place_of(address) != address]
        if wrong:
            raise ValueError(
                "laboratories, titles and addresses stand once, addresses as host/path in lower "
                f"case, but not these: {', '.join(wrong)}"
            )
        return self


def laboratory_of_row(row: Mapping[str, Any]) -> str:
    """Laboratory of a row by its source_title, else its source_url. The title itself where neither
    is listed."""
    cells = (row.get(name) for name in SOURCE_COLUMNS)
    # An empty cell may be NaN.
    texts = [cell if isinstance(cell, str) else "" for cell in cells]
    title, address = texts
    return _listed().get(title) or _at(place_of(address)) or title


def laboratories_of(rows: pd.DataFrame) -> list[str]:
    """Laboratory of each row."""
    return list(map(laboratory_of_row, rows.to_dict("records")))


SOURCE_COLUMNS = ("source_title", "source_url")


def place_of(address: str) -> str:
    """Host and path of an address in lower case, as laboratories list them. Empty for what is no
    address.

    Without scheme, user, port, `www.` and query. A site of GitHub Pages and a raw file are their
    owner's on GitHub.
    """
    text = address.strip().lower()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    except ValueError:  # a bracket that no IPv6 address closes
        return ""
    if "." not in host:
        return ""
    if host.endswith(_PAGES):
        path = f"/{host.removesuffix(_PAGES)}{parts.path}"
        host = "github.com"
    else:
        host = _SAME_OWNER.get(host, host)
        path = parts.path
    return "/".join([host, *(part for part in path.split("/") if part)])


def _at(place: str) -> str:
    """The laboratory whose address is the longest beginning of a place, whole names at a time.
    Empty for none.

    A site below a listed host is its owner's too.
    """
    host, *path = place.split("/")
    domains = host.split(".")
    for i in range(len(domains)):
        for n in range(len(path), -1, -1):
            if laboratory := _listed().get("/".join([".".join(domains[i:]), *path[:n]])):
                return laboratory
    return ""


def part_of(laboratory: str) -> str:
    """Part of a laboratory: `seen`, or that of PARTS at sha256 of its name modulo 3."""
    listed = laboratories().get(laboratory)
    if listed and listed.first_collected < PARTED_FROM:
        return "seen"
    return PARTS[int(hashlib.sha256(laboratory.encode()).hexdigest(), 16) % 3]


@lru_cache(maxsize=1)
def laboratories() -> dict[str, Laboratory]:
    """Listed laboratories by name."""
    file = read_profile(LABORATORIES, _LaboratoryFile)
    return {each.name: each for each in file.laboratories}


@lru_cache(maxsize=1)
def _listed() -> dict[str, str]:
    """Laboratories by title, and by address."""
    return {
        place: each.name
        for each in laboratories().values()
        for place in (*each.titles, *each.addresses)
    }


TIME_NAMES = tuple(FACTORS)
NAMES = (*TIME_NAMES, "accepted_length")
"""All multipliers; the last one scales accepted lengths that were borrowed from another run."""
QUANTITIES = ("speedup", "step_time_s", "tpot_s", "verify_time_s", "draft_time_s")
"""What a row may measure: a ratio [-], and times of a step or round, of a token, of a verification
pass, and of all draft passes of a round. [s]"""
LENGTH = NAMES.index("accepted_length")
_FIXED = len(NAMES)  # column of what no multiplier scales


@dataclass(frozen=True)
class Observations:
    """Measured quantities, n of them, as sums of multiplied parts.

    log value = log(upper . m) - log(lower . m) + shift + length_share log m_AL.

    `upper` and `lower` [n, len(NAMES) + 1] hold seconds by multiplier m; nothing scales the last
    column.
    """

    line: NDArray[np.int_]
    """Which row of its file each was measured in."""
    quantity: NDArray[np.str_]
    """Of QUANTITIES."""
    measured: Array
    upper: Array
    lower: Array
    shift: Array
    """Logarithm of the accepted length, or minus it for a time per token; 0 for other times."""
    length_share: Array
    """1 or -1 where that length was borrowed, so that its multiplier counts; else 0."""

    @property
    def log_measured(self) -> Array:
        """Log of each value [n]."""
        return np.log(self.measured)

    def where(self, chosen: NDArray[Any]) -> Observations:
        """Observations that are `chosen`: a mask [n], or places."""
        return Observations(*(column[chosen] for column in vars(self).values()))

    def depend_on(self) -> NDArray[np.bool_]:
        """Multipliers that any of the values depends on [names]."""
        used = np.asarray((self.upper + self.lower > 0).any(axis=0))[:_FIXED]
        used[LENGTH] |= bool((self.length_share != 0).any())
        return used


_NONE = Observations(
    np.zeros(0, int),
    np.zeros(0, str),
    np.zeros(0),
    *np.zeros((2, 0, _FIXED + 1)),
    *np.zeros((2, 0)),
)


def joined(parts: Iterable[Observations]) -> Observations:
    """All of several, one after the other."""
    columns = zip(*(vars(part).values() for part in (_NONE, *parts)), strict=True)
    return Observations(*map(np.concatenate, columns))


def stacked(several: Sequence[Observations]) -> Observations:
    """Several observations of n values each as one, [m, n]."""
    fields = (vars(observations).values() for observations in several)
    return Observations(*map(np.stack, zip(*fields, strict=True)))


def log_predicted(observed: Observations, theta: Array) -> Array:
    """Log of each quantity [n] at log multipliers `theta`: [names], or [n, names] for one set
    each."""
    m = _multipliers(theta)
    ratio = np.log((observed.upper * m).sum(axis=-1)) - np.log((observed.lower * m).sum(axis=-1))
    return np.asarray(ratio + observed.shift + observed.length_share * theta[..., LENGTH])


def log_slopes(observed: Observations, theta: Array) -> Array:
    """Derivative of `log_predicted` by each log multiplier [n, names]."""
    m = _multipliers(theta)
    upper = observed.upper * m
    lower = observed.lower * m
    slopes = upper / upper.sum(axis=-1, keepdims=True) - lower / lower.sum(axis=-1, keepdims=True)
    slopes[..., LENGTH] += observed.length_share
    return np.asarray(slopes[..., :_FIXED])


def _multipliers(theta: Array) -> Array:
    return np.concatenate([np.exp(theta), np.ones((*np.shape(theta)[:-1], 1))], axis=-1)


def observe(
    line: int,
    row: Mapping[str, Any],
    plain: Array,
    spec: Array,
    prefill_s: float,
    length: float,
    borrowed: bool,
) -> Observations:
    """Quantities that a row measures, and the parts they are made of.

    Parameters
    ----------
    line, row : where it stands, and its cells.
    plain, spec : a plain step and a round by multiplier [len(NAMES) + 1]; the same for a row
        without speculation. [s]
    prefill_s : prefill charged to one output token. [s]
    length, borrowed : tokens per round, 1 without speculation, and whether they were counted in
        another run. [-]
    """
    charged = plain.copy()
    round_charged = spec.copy()
    unit_divisor = np.eye(_FIXED + 1)[_FIXED]
    charged[_FIXED] += prefill_s
    round_charged[LENGTH if borrowed else _FIXED] += length * prefill_s
    drafting = np.zeros_like(spec)
    drafting[_DRAFTING] = spec[_DRAFTING]
    drafting[_LAUNCH] = spec[_LAUNCH] - plain[_LAUNCH]
    verifying = spec - drafting
    verifying[_SCHEDULING] = 0.0  # a timed forward pass does not hold the host's scheduling
    per_token = np.array(
        [1.0, 0.0, -1.0, 0.0, 0.0]
    )  # what the accepted length does to each of QUANTITIES
    measured = np.array([number(row, name) or np.nan for name in QUANTITIES])
    observations = Observations(
        line=np.full(len(QUANTITIES), line),
        quantity=np.array(QUANTITIES),
        measured=measured,
        upper=np.stack([charged, spec, round_charged, verifying, drafting]),
        lower=np.stack([round_charged, unit_divisor, unit_divisor, unit_divisor, unit_divisor]),
        shift=per_token * math.log(length),
        length_share=per_token * float(borrowed),
    )
    return observations.where(np.isin(QUANTITIES, _measured(row)) & observations.upper.any(axis=1))


ROUND_METRICS = ("step_time_ms", "step_time_s")
_LAUNCH = TIME_NAMES.index("launch")
_DRAFTING = [TIME_NAMES.index("drafter"), TIME_NAMES.index("draft_host")]
_SCHEDULING = [TIME_NAMES.index("round_host"), TIME_NAMES.index("host")]


def _measured(row: Mapping[str, Any]) -> list[str]:
    """Quantities of a row, none of them twice in other words."""
    measured = [name for name in QUANTITIES if number(row, name)]
    derived = str(row.get("derived") or "")
    paired = (
        "tpot_s" in derived or str(row.get("metric")) in ROUND_METRICS
    )  # the plain value stands in no other row
    if (
        "speedup" in measured and "speedup" in derived and not paired
    ):  # from a baseline row: it holds the row's time
        return ["speedup"]
    if (
        "step_time_s" in measured and "tpot_s" in measured
    ):  # one tells the other; the computed one gives way
        measured.remove("step_time_s" if "step_time_s" in derived else "tpot_s")
    return measured


def number(row: Mapping[str, Any], name: str) -> float | None:
    """A cell as a finite number. None for an empty one."""
    return number_of(row.get(name))


def time_columns(setup: Setup, curve: Curve) -> tuple[Array, Array]:
    """Seconds of a plain step and of a round by multiplier, [nB, len(NAMES) + 1] each. `curve` has
    one K."""
    parts = {name: time[:, 0] for name, time in curve.round_components.items()}
    # Layers launched over all drafting passes of one round. [-]
    n_draft = int(curve.drafts[0])
    drafts_with = setup.draft_architecture
    layers = (
        int(setup.drafter.passes(n_draft)) * n_layers(drafts_with)
        if drafts_with is not None and n_draft
        else 0
    )
    launched_s = laws.launches(setup.costs.launch_per_layer_s, layers)
    parts |= {
        "launch": parts["launch"] + launched_s,
        "draft": np.maximum(parts["draft"] - launched_s, 0.0),
    }
    return _grouped(curve.plain_components), _grouped(parts)


def _grouped(parts: Mapping[str, Array]) -> Array:
    out = np.zeros((*np.shape(parts["launch"]), len(NAMES) + 1))
    for component in COMPONENTS:
        if component.key in parts:
            place = TIME_NAMES.index(component.factor) if component.factor else _FIXED
            out[..., place] += parts[component.key]
    return out
