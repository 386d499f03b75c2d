"""Two columns of one table that hold one quantity side by side: without drafts, and with them.

Many people keep one row a batch: `batch, plain_tpot_ms, mtp_tpot_ms`. The two become
`baseline_value` and `sd_value`, and what they count becomes `metric`, where the headers say it;
where they leave it open, it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import (
    COLUMNS,
    SAID,
    UNIT_FACTORS,
    Numbers,
    drafter_name,
    header_key,
    match_header,
    true_in,
)
from advisor.physics.draft import drafter_ids
from advisor.prediction import AdvisorError
from advisor.text import NUMBER, number_of


@dataclass(frozen=True)
class PairMetric:
    """Quantity that a pair of values may count: a few words, the column that the second one fills,
    and how.

    `scale` turns the value into the column's unit; of its inverse where `per_second`. No column: a
    ratio alone follows.
    """

    title: str
    column: str = ""
    scale: float = 1.0
    per_second: bool = False


IGNORED = "ignored: "
"""How the header of a column begins that a user says to leave alone."""
RATE = "output_tok_per_s"
ANY_RATE = "any_tok_per_s"
"""Metric of rates that may be of one request or of all: the speedup follows all the same, and no
time."""
METRICS = {
    "tpot_ms": PairMetric("Time per output token, ms", "tpot_s", 1e-3),
    "tpot_s": PairMetric("Time per output token, s", "tpot_s"),
    "step_time_ms": PairMetric("Step or whole-round time, ms", "step_time_s", 1e-3),
    "step_time_s": PairMetric("Step or whole-round time, s", "step_time_s"),
    "output_tok_per_s": PairMetric("Tokens/s, all requests together", "output_tok_per_s"),
    "output_tok_per_s_per_user": PairMetric("Tokens/s of one request", "tpot_s", per_second=True),
    ANY_RATE: PairMetric("Tokens/s, of one or of all"),
    "request_latency_s": PairMetric("Whole request, s"),
}
"""Metrics that are offered where a file leaves its own open."""
ROUND_TIME = r"^(?:step|round)_time"
"""Metrics whose value with drafts is the time of a whole round, which gives several tokens."""
SIDES = {"baseline": "baseline_value", "sd": "sd_value"}
"""How our own headers of a pair begin (`baseline_tpot_ms`, `sd_tpot_ms`), and the columns they
fill."""
_PLAIN, _SPEC, _DRAFTING, _FILLERS, _RATES, _TOKENS = map(frozenset, SAID.header_words.values())
_TOKEN_RATE = re.compile(r"(?<!_per)_tok(?:en)?s?_(?:per_)?s(?:ec|econds?)?_")
"""Tokens per second, and not seconds per token."""
_ITL = "itl"
_TOKEN_TIME = "token time"
_ORDER = (
    "tpot",
    "step_time",
    "output_tok_per_s",
    "output_tok_per_s_per_user",
    ANY_RATE,
    "request_latency",
)
"""Of several pairs in one table, the one that tells most comes first."""


def value_direction(metric: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Whether smaller values are faster, by a metric's name, and whether it tells at all [rows]."""
    rate = metric.str.contains(r"tok|per_s|/s|rate|throughput", case=False, regex=True)
    time = metric.str.contains(r"latency|_ms|_s$|time|tpot|itl|ttft", case=False, regex=True)
    latency = metric.str.contains(r"tpot|itl|ttft|per_output_token", case=False, regex=True)
    lower = true_in((time & ~rate) | latency)
    return lower, true_in(time | rate | latency)


_VALUE = re.compile(
    rf"({NUMBER})\s*(?:({'|'.join(UNIT_FACTORS)})(?:/tok(?:en)?)?|(?:tok(?:en)?s?/s|tps)(/user)?)"
)


def value_and_metric(text: str) -> tuple[float, str]:
    """A value and what it counts, by its unit: `52ms`, `0.052 s`, `1900 tok/s`, `31 tok/s/user`.

    Units may be spelled `ms/token`, `tokens/s` or `tps`, in any case; times come back in ms.

    Raises AdvisorError for anything else, and for a value that is not above 0.
    """
    match = _VALUE.fullmatch(text.strip().lower())
    value = None if match is None else number_of(match[1])
    if match is None or value is None:
        raise AdvisorError(
            f"{text!r} is no value with its unit; expected a time per token or a rate, as in 52ms, "
            "0.052s, 1900tok/s (all requests or one) or 31tok/s/user"
        )
    if value <= 0.0:
        raise AdvisorError(f"{text}: expected a value above 0")
    if match[2]:
        return value * (UNIT_FACTORS[match[2]] / METRICS["tpot_ms"].scale), "tpot_ms"
    return value, "output_tok_per_s_per_user" if match[3] else ANY_RATE


def two_values(
    without: float, with_drafts: float, metric: str, settings: Mapping[str, float | None]
) -> bytes:
    """A table of one row: a value without drafts beside one with them, and settings by column.

    metric : of METRICS. A setting that is None is left out, so that it is asked for.
    """
    row = {"baseline_value": f"{without:.9g}", "sd_value": f"{with_drafts:.9g}", "metric": metric}
    row |= {name: f"{value:g}" for name, value in settings.items() if value is not None}
    return f"{','.join(row)}\n{','.join(row.values())}\n".encode()


def metric_name(text: str) -> str | None:
    """Our name of a metric (`TPOT (ms)` is tpot_ms), else the text. None where it says neither a
    time nor a rate."""
    key = header_key(text)
    if key in METRICS:
        return key
    return text.strip() if value_direction(pd.Series([text], dtype="str"))[1][0] else None


def told_per_token(frame: pd.DataFrame) -> bool:
    """Whether open pairs of times must be times per token: a round is never shorter than a plain
    step."""
    open_ = frame[open_pairs(frame)]
    return bool((open_["sd_value"].astype(float) < open_["baseline_value"].astype(float)).any())


def open_pairs(frame: pd.DataFrame) -> np.ndarray:
    """Rows with values without and with drafts whose metric is not said, so that no speedup
    follows."""
    pair = frame[["baseline_value", "sd_value"]].notna().all(axis=1) & frame["speedup"].isna()
    drafting = Numbers(frame)["draft_tokens_k"] != 0
    return np.asarray(pair.to_numpy() & drafting & frame["metric"].isna().to_numpy())


@dataclass(frozen=True)
class _Header:
    """One header taken apart."""

    place: int
    side: str
    """plain, spec, or neither."""
    kind: str
    """Of _ORDER; empty where the header does not say what is counted."""
    rest: frozenset[str]
    unit: str
    n_draft: int | None
    drafter: str | None
    weak: bool
    """Whether its only word for drafts is `sd`, which may be a standard deviation."""


@dataclass(frozen=True)
class SideBySide:
    """The two columns of a pair, and what their headers say of it."""

    plain: int
    spec: int
    metric: str | None
    """Of METRICS; None where the headers leave it open."""
    factors: tuple[float, float]
    """From each header's unit to that of the metric; 1 where it is open."""
    said: dict[str, object]
    """K and drafter that the header of the values with drafts names: guesses, to be confirmed."""
    others: tuple[str, ...] = ()
    """Quantities of further pairs, which are left out."""

    @property
    def columns(self) -> dict[str, tuple[int, float]]:
        """Place and factor of the canonical columns that the pair fills."""
        return {
            "baseline_value": (self.plain, self.factors[0]),
            "sd_value": (self.spec, self.factors[1]),
        }

    def names(self) -> dict[int, str]:
        """Name of each of the two in our words, by place."""
        stem = "value" if self.metric is None else self.metric
        return {self.plain: f"baseline_{stem}", self.spec: f"sd_{stem}"}

    def facts(self, headers: Sequence[str]) -> dict[str, object]:
        """Headers of both columns, what they count or are guessed to, and quantities left out."""
        guess = METRICS.get(str(self.said.get("metric")))
        return {
            "plain": headers[self.plain][:40],
            "spec": headers[self.spec][:40],
            "counts": None if self.metric is None else METRICS[self.metric].title,
            "guess": None if guess is None else guess.title,
            "others": self.others,
        }


def side_by_side(headers: Sequence[str], shown: Sequence[str] = ()) -> SideBySide | None:
    """The pair of columns without and with drafts among the headers of a table, or None. A message
    says those shown.

    One of the two may be called by its quantity alone, where the other says its side. Raises
    AdvisorError where several columns may be one side of the pair, since a row has one K and one
    value with drafts.
    """
    native = [match_header(header, "points") for header in headers]
    if any(match and match[0] in SIDES.values() for match in native):
        return None
    candidates = [
        _taken_apart(place, header)
        for place, header in enumerate(headers)
        if _may_be_one(native[place]) and not header.startswith(IGNORED)
    ]
    headers_shown = shown or headers
    pairs = _pairs(candidates, headers_shown) or _pairs(
        [token_time for candidate in candidates for token_time in _per_token(candidate)],
        headers_shown,
    )
    rank = {kind: place for place, kind in enumerate(_ORDER)}
    ranked = sorted(pairs, key=lambda pair: rank.get(pair[0].kind, len(_ORDER)))
    if not ranked:
        return None
    best_pair, *others = ranked
    pair = _side_by_side(*best_pair, drafts_said(headers[best_pair[1].place]))
    return replace(pair, others=tuple(other.kind for other, _ in others if other.kind))


def _pairs(candidates: Sequence[_Header], headers: Sequence[str]) -> list[tuple[_Header, _Header]]:
    groups: dict[tuple[str, frozenset[str], bool], list[_Header]] = {}
    for header in candidates:
        groups.setdefault((header.kind, header.rest, header.unit == "/s"), []).append(header)
    pairs = [_pair(alike, headers) for alike in groups.values()]
    return [pair for pair in pairs if pair is not None]


def _per_token(header: _Header) -> list[_Header]:
    """A time per token under either of its names, TPOT or ITL, in the unit said or in ms; none of
    another quantity.

    The inter-token latency with drafts may be that of a chunk, a whole round: what it counts is
    left open.
    """
    if header.kind == "tpot" or _ITL in header.rest:
        return [
            replace(header, kind=_TOKEN_TIME, rest=header.rest - {_ITL}, unit=header.unit or "ms")
        ]
    return []


def own_header(header: str) -> str | None:
    """The column that one of our own headers of a pair fills (`sd_tpot_ms`: sd_value), or None."""
    side, _, metric = header_key(header).partition("_")
    return SIDES.get(side) if metric in METRICS else None


def says_k(header: str) -> bool:
    """Whether a header names K itself (`k3_tpot_ms`, `K=3`): `mtp3` may be a version, and is asked
    about."""
    return re.search(r"(?:^|_)k_?\d", header_key(header)) is not None


def drafts_said(header: str) -> dict[str, object]:
    """K and drafter that a header names: guesses, to be confirmed."""
    parsed = _taken_apart(0, header)
    guesses = {"draft_tokens_k": parsed.n_draft or None, "drafter": parsed.drafter}
    return {name: value for name, value in guesses.items() if value is not None}


def metrics_in_unit(header: str) -> list[str]:
    """Metrics that values under a header may count: a unit that it says is obeyed."""
    header_unit = _taken_apart(0, header).unit
    unit = {1.0: "s", None: header_unit}.get(UNIT_FACTORS.get(header_unit), "ms")
    return [
        name
        for name in METRICS
        if unit in ("", "/s" if "_per_s" in name else name.rpartition("_")[2])
    ]


def side_of(header: str) -> str:
    """Side that a header names, `plain` or `spec`. Empty for neither."""
    return _taken_apart(0, header).side


def said_by(header: str) -> str:
    """Quantity or unit that a header says of its values, or `rate` of one request or of all. Empty
    for neither."""
    parsed = _taken_apart(0, header)
    return (
        "rate"
        if parsed.unit == "/s" and parsed.kind in ("", ANY_RATE)
        else parsed.kind or parsed.unit
    )


def meaning_of(header: str) -> object:
    """The quantity of a header, however it is called: headers of one quantity have the same."""
    if match := match_header(header, "points"):
        return match
    parsed = _taken_apart(0, header)
    rate = parsed.unit == "/s" and parsed.kind in ("", ANY_RATE, "output_tok_per_s")
    return (
        ("rate", parsed.rest)
        if rate
        else (parsed.kind, parsed.rest, parsed.unit)
        if parsed.kind
        else header_key(header)
    )


def _may_be_one(native: tuple[str, float] | None) -> bool:
    """Whether a column may be part of a pair: none of ours, or one that measures."""
    return native is None or (
        COLUMNS["points"][native[0]].positive and not COLUMNS["points"][native[0]].context
    )


def _words(header: str) -> list[str]:
    key = re.sub(r"(^|_)w_o(_|$)", r"\1without\2", header_key(header))
    key = re.sub(r"(^|_)eagle_(\d)(?=_|$)", r"\1eagle\2", key)
    key = re.sub(r"(^|_)(mtp|spec|sd|ngram|dflash)(\d+)(?=_|$)", r"\1\2_k\3", key)
    key = re.sub(
        r"(^|_)(eagle3?|mtp|spec|ngram|dflash)_(\d+)_(?:draft_)?tok(?:en)?s?(?=_|$)",
        r"\1\2_k\3",
        key,
    )
    return re.sub(r"(^|_)k_(\d+)(?=_|$)", r"\1k\2", key).split("_")


def _taken_apart(place: int, header: str) -> _Header:
    words = set(_words(header))
    if match_header(header, "points") is not None:  # one of our own headers never says a side
        marks: set[str] = set()
    elif words <= {"no", "non"}:  # a number of a row
        marks = set()
    else:
        marks = words & (_PLAIN | _SPEC) | {word for word in words if re.fullmatch(r"k\d+", word)}
    n_draft = next((int(word[1:]) for word in marks if re.fullmatch(r"k\d+", word)), None)
    side = "plain" if marks & _PLAIN or n_draft == 0 else "spec" if marks else ""
    left = words - marks - (_DRAFTING if marks else set())
    rate = bool(left & _RATES) or _TOKEN_RATE.search(f"_{header_key(header)}_") is not None
    unit = "/s" if rate else next((word for word in left if word in UNIT_FACTORS), "")
    quantity = next(
        (SAID.header_quantities[word] for word in sorted(left) if word in SAID.header_quantities),
        "",
    )
    kind = quantity or ("tpot" if unit and left & _TOKENS else "")
    if rate:
        per_user = left & {"user", "request", "req", "seq", "sequence", "stream"}
        # `throughput` alone is said of both
        of_all = left & {"out", "output", "system", "all", "generated"}
        kind = "output_tok_per_s_per_user" if per_user else "output_tok_per_s" if of_all else ""
        kind = kind or (ANY_RATE if left & {"throughput", "tput", "any"} else "")
    rest = (
        left
        - _FILLERS
        - set(SAID.header_quantities)
        - set(UNIT_FACTORS)
        - {"second", "latency" if kind else ""}
    )
    rest -= (_RATES | {"user", "seq", "sequence", "all", "any", "system"}) if rate else set()
    known = (drafter_name(word) for word in sorted(marks))
    drafter = next((name for name in known if name in drafter_ids()), None)
    return _Header(place, side, kind, frozenset(rest), unit, n_draft, drafter, marks == {"sd"})


def _pair(alike: Sequence[_Header], headers: Sequence[str]) -> tuple[_Header, _Header] | None:
    """The columns without and with drafts among those of one quantity, or None."""
    by_side = {
        side: [header for header in alike if header.side == side] for side in ("plain", "spec", "")
    }
    plain = by_side["plain"]
    spec = by_side["spec"]
    bare = by_side[""]
    if plain and not spec and len(bare) == 1:
        spec = bare
    elif spec and not plain and len(bare) == 1 and (bare[0].kind or bare[0].rest):
        plain = bare
        spec = [header for header in spec if not header.weak]
    if not plain or not spec:
        return None
    if len(plain) > 1 or len(spec) > 1:
        repeated = plain if len(plain) > 1 else spec
        names = ", ".join(repr(headers[header.place][:40]) for header in repeated[:4])
        drafts = "without drafts" if repeated is plain else "with drafts"
        raise AdvisorError(
            f"several columns may be the values {drafts} ({names}), and a row has one K: keep one "
            "of them, or give each K a row of its own with its K in draft_tokens_k"
        )
    return plain[0], spec[0]


def _side_by_side(plain: _Header, spec: _Header, guesses: dict[str, object]) -> SideBySide:
    kind = plain.kind
    units = [UNIT_FACTORS.get(header.unit) for header in (plain, spec)]
    if plain.kind == _TOKEN_TIME:
        factors = [float(unit or 1.0) / UNIT_FACTORS["ms"] for unit in units]
        return SideBySide(
            plain.place, spec.place, None, (factors[0], factors[1]), guesses | {"metric": "tpot_ms"}
        )
    if not kind or (plain.unit != "/s" and None in units):
        # Both in the first one's unit, where both say theirs.
        factor = 1.0 if units[0] is None or units[1] is None else units[1] / units[0]
        guess = {"metric": "output_tok_per_s_per_user"} if plain.unit == "/s" else {}
        first = 1e-3 if units[0] == UNIT_FACTORS["us"] else 1.0  # microseconds are counted in ms
        return SideBySide(plain.place, spec.place, None, (first, first * factor), guesses | guess)
    if plain.unit == "/s":
        return SideBySide(plain.place, spec.place, kind, (1.0, 1.0), guesses)
    ending = "s" if kind == "request_latency" else "ms"
    factors = [float(unit or 1.0) / UNIT_FACTORS[ending] for unit in units]
    metric = f"{kind}_{ending}"
    return SideBySide(plain.place, spec.place, metric, (factors[0], factors[1]), guesses)
