"""Accepted tokens by draft position -> conditional acceptance probabilities, the form a scenario takes.

vLLM counts, for each draft position, the rounds that accepted it: shares of all rounds, not of the rounds that reached
the position. Names and labels of its counters: vllm-project/vllm, vllm/v1/spec_decode/metrics.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from advisor.acceptance import SAME_RUN_LOG_SD, parse_acceptance
from advisor.arrays import Array
from advisor.ingest.result import shorten
from advisor.ingest.upload import MIB, open_upload
from advisor.prediction import AdvisorError

MAX_METRICS_BYTES = 32 * MIB
MAX_POSITIONS = 64
"""As many probabilities as a scenario takes."""

_DRAFTS = "vllm:spec_decode_num_drafts"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_NAMES = (_DRAFTS, _DRAFT_TOKENS, _ACCEPTED, _BY_POSITION)
_LIST = re.compile(r"[\s\d.,;eE+\-\[\]()]+", re.ASCII)
_MAX_LINE = 10_000
_DISAGREE = 0.01
"""Share by which counters that should agree may differ, because an engine counts while it is scraped, before a note."""

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class AcceptanceRates:
    """Acceptance by draft position, as measured."""

    conditional: tuple[float, ...]
    """Probability that draft token i is accepted when all before it were. [-]"""
    n_drafts: float | None
    """Rounds counted; None where the input gives shares alone. [-]"""
    relative_error: float | None
    """Standard error of the accepted length at the longest K, over that length, as if rounds were independent. [-]"""
    source: str
    warnings: tuple[str, ...] = ()
    length: tuple[float, int] | None = None
    """Accepted length and its K, where a tool counts nothing by position."""

    @property
    def text(self) -> str:
        """The scenario's `acceptance`, four digits a number: `0.7,0.5,0.4`, or `2.41@3` of a length alone."""
        if self.length is not None:
            return f"{self.length[0]:.4g}@{self.length[1]}"
        return ",".join(f"{share:.4g}" for share in self.conditional)

    def accepted_lengths(self, k_max: int) -> pd.DataFrame:
        """Accepted length for K = 0..k_max as a scenario would take it.

        Columns: n_draft, accepted_length, low, high (80 % band) [tokens per round], measured (False: the last
        probability is held). Raises AdvisorError for k_max outside 1..64.
        """
        found = parse_acceptance(self.text, k_max, borrowed=False)
        return pd.DataFrame(
            {
                "n_draft": np.arange(k_max + 1),
                "accepted_length": found.accepted_length,
                "low": found.low,
                "high": found.high,
                "measured": ~found.extrapolated,
            }
        )


def conditional_rates(share_of_rounds: ArrayLike) -> Array:
    """P(i accepted | those before it accepted) from S_i = P(1..i accepted), [K] -> [K]. [-]

    S_i / S_(i-1) with S_0 = 1; 0 behind a position that no round reached, where AL(K) = 1 + sum of S_i does not depend
    on it. Raises AdvisorError unless 1 >= S_1 >= S_2 ... >= 0.
    """
    share = np.asarray(share_of_rounds, dtype=float)
    before = np.concatenate([[1.0], share[:-1]])
    wrong = ~((share >= 0) & (share <= before))  # also true for NaN
    if wrong.any():
        i = int(np.argmax(wrong))
        raise AdvisorError(
            f"position {i + 1} is accepted in {share[i]:.4g} of the rounds and the one before it in {before[i]:.4g}; "
            "a round accepts a token only with all before it, so shares of rounds fall from at most 1 (if yours are "
            "given the tokens before, say that they are conditional)"
        )
    return np.divide(share, before, out=np.zeros_like(share), where=before > 0)


def rates_from_list(text: str, conditional: bool = False) -> AcceptanceRates:
    """Acceptance by position from a written list.

    Parameters
    ----------
    text : numbers between 0 and 1, separated by commas, semicolons or blanks, brackets allowed; at most 64.
    conditional : True: each given that all before it were accepted. False: share of all rounds, as vLLM prints it
        (spec_decode_per_position_acceptance_rates, "Per-position acceptance rate").

    Raises
    ------
    AdvisorError for anything else, naming the entry.
    """
    pieces = [piece for piece in re.split(r"[,;\s]+", text.strip().strip("[]()").strip()) if piece]
    if not 1 <= len(pieces) <= MAX_POSITIONS:
        raise AdvisorError(f"the list has {len(pieces)} entries; give 1 to {MAX_POSITIONS} acceptance rates")
    shares = np.array([_number(piece) for piece in pieces])
    for place, (piece, share) in enumerate(zip(pieces, shares, strict=True), start=1):
        if not 0 <= share <= 1:
            raise AdvisorError(
                f"entry {place} of the list is {shorten(piece)!r}; an acceptance rate is a number between 0 and 1"
            )
    given = shares if conditional else conditional_rates(shares)
    kind = "given the tokens before" if conditional else "shares of rounds"
    return AcceptanceRates(tuple(given.tolist()), None, None, f"{len(pieces)} acceptance rates ({kind})")


def read_acceptance(
    name: str, data: bytes, earlier: tuple[str, bytes] | None = None, conditional: bool = False
) -> AcceptanceRates:
    """Acceptance by position from vLLM's metrics text (GET /metrics), or from a file that holds a list.

    Parameters
    ----------
    name, data : the scrape; several engines in it are summed.
    earlier : an earlier scrape of the same server; what was counted up to it is taken away.
    conditional : of a list only, as in `rates_from_list`.

    Raises
    ------
    AdvisorError, and nothing else: no such counters, several models, no rounds, a counter that fell between scrapes
    (the server was restarted), positions missing, or a later position accepted more often than an earlier one.
    """
    text = _text(name, data)
    if earlier is None and len(text) <= _MAX_LINE and _LIST.fullmatch(text):
        return rates_from_list(text, conditional)
    counters = parse_metrics(name, text)
    source = f"vLLM metrics, {shorten(name)}"
    if earlier is not None:
        counters = _since(name, counters, earlier[0], parse_metrics(earlier[0], _text(*earlier)))
        source += f" since {shorten(earlier[0])}"
    return _from_counters(name, counters, source)


def parse_metrics(name: str, text: str) -> Series:
    """vLLM's speculative-decoding counters in a Prometheus exposition: (counter, labels) -> value.

    Names are without `_total`, which the text format adds. Raises AdvisorError, with the line, for a damaged sample, a
    value that is no count, a series given twice, and when there are none.
    """
    found: Series = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith("vllm:spec_decode_"):
            continue
        sample = _sample(line)
        if sample is None:
            raise AdvisorError(f"{name}, line {number}: {shorten(line)!r} is no sample `name{{label=...}} value`")
        counter = sample.name.removesuffix("_total")
        if counter not in _NAMES:
            continue  # _created times, and counters that are not needed
        if not 0 <= sample.value < math.inf:
            raise AdvisorError(f"{name}, line {number}: {str(sample.value)!r} is no count; scrape /metrics again")
        key = (counter, frozenset(sample.labels.items()))
        if key in found:
            raise AdvisorError(f"{name}, line {number}: {counter} appears twice; give two scrapes as two files")
        found[key] = float(sample.value)
    lacking = [counter for counter in (_DRAFTS, _BY_POSITION) if not any(key[0] == counter for key in found)]
    if lacking:
        raise AdvisorError(
            f"{name} has no counter {lacking[0]}; expected the text of GET /metrics of a vLLM server (engine V1) or of "
            "SGLang with speculative decoding on, a list of acceptance rates, or JSON with an acceptance histogram"
        )
    return found


def _text(name: str, data: bytes) -> str:
    if len(data) > MAX_METRICS_BYTES:
        raise AdvisorError(f"{name} has {len(data) / MIB:,.0f} MiB; at most {MAX_METRICS_BYTES // MIB} are read")
    if data.lstrip()[:1] == b"[":
        return data.decode("utf-8", errors="replace")
    sample = open_upload(name, data)  # bounded decompression and decoding, binary formats refused
    if sample.kind != "text":
        raise AdvisorError(f"{name} is {sample.kind}; expected the text of vLLM's /metrics, or a list of rates")
    return sample.data.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _sample(line: str) -> Sample | None:
    """The sample on a line of a Prometheus exposition. None where there is none."""
    if len(line) > _MAX_LINE:
        return None
    try:
        (family,) = text_string_to_metric_families(line)
    except (ValueError, IndexError):  # the parser indexes into what a damaged label leaves empty
        return None
    (sample,) = family.samples
    # The parser takes any name before labels; a damaged one would be left out as a counter that is not needed.
    return sample if re.fullmatch(r"[\w:]+", sample.name) else None


def _since(name: str, now: Series, earlier_name: str, before: Series) -> Series:
    """Counts between two scrapes, series by series. One that is new starts at zero."""
    for key, count in before.items():
        if key not in now:
            raise AdvisorError(
                f"{name} lacks a series of {key[0]} that {earlier_name} has; both must be scrapes of one server"
            )
        if now[key] < count:
            raise AdvisorError(
                f"{key[0]} fell from {count:.12g} in {earlier_name} to {now[key]:.12g} in {name}; the server was "
                "restarted between them, or the two files are in the wrong order"
            )
    return {key: count - before.get(key, 0.0) for key, count in now.items()}


def _from_counters(name: str, counters: Series, source: str) -> AcceptanceRates:
    models = {dict(labels).get("model_name", "") for _, labels in counters}
    if len(models) > 1:
        shown = ", ".join(shorten(model) or "(no name)" for model in sorted(models)[:4])
        raise AdvisorError(f"{name} counts {len(models)} models ({shown}); keep the lines of one of them")
    drafts, accepted = _sum(counters, _DRAFTS), _by_position(name, counters)
    if drafts <= 0:
        raise AdvisorError(f"{name} counts no round with drafts; send requests first, then scrape /metrics")
    try:
        conditional = conditional_rates(accepted / drafts)
    except AdvisorError as error:
        raise AdvisorError(f"{name}: {error}") from error
    k = len(accepted)
    share = accepted / drafts
    mean = float(share.sum())  # of accepted draft tokens per round; their square has the mean sum (2 i - 1) S_i
    variance = max(0.0, float(((2 * np.arange(1, k + 1) - 1) * share).sum()) - mean**2)
    relative = math.sqrt(variance / drafts) / (1 + mean)
    warnings = _warnings(counters, drafts, accepted, relative)
    source += f": {drafts:,.0f} rounds, {k} draft positions"
    return AcceptanceRates(tuple(conditional.tolist()), drafts, relative, source, tuple(warnings))


def _by_position(name: str, counters: Series) -> Array:
    """Accepted tokens of each position over all engines, [K]."""
    sums: dict[int, float] = {}
    for (counter, labels), count in counters.items():
        if counter != _BY_POSITION:
            continue
        position = dict(labels).get("position", "")
        if not re.fullmatch(r"\d{1,3}", position, re.ASCII):
            raise AdvisorError(f"{name}: {_BY_POSITION} needs a label position=0, 1, ...; found {shorten(position)!r}")
        sums[int(position)] = sums.get(int(position), 0.0) + count
    if sorted(sums) != list(range(len(sums))):
        raise AdvisorError(
            f"{name}: draft positions {sorted(sums)[:8]} do not run from 0 without a gap; keep all lines"
        )
    if len(sums) > MAX_POSITIONS:
        raise AdvisorError(f"{name} has {len(sums)} draft positions; at most {MAX_POSITIONS} are read")
    return np.array([sums[i] for i in range(len(sums))])


def _warnings(counters: Series, drafts: float, accepted: Array, error: float) -> list[str]:
    notes = []
    engines = {dict(labels).get("engine") for counter, labels in counters if counter == _DRAFTS}
    if len(engines) > 1:
        notes.append(f"{len(engines)} engines are summed")
    proposed, total = _sum(counters, _DRAFT_TOKENS), _sum(counters, _ACCEPTED)
    if proposed and proposed < (1 - _DISAGREE) * drafts * len(accepted):
        notes.append(
            f"a round drafted {proposed / drafts:.2f} tokens on average, not {len(accepted)}: tokens that were not "
            "drafted count as refused, so the rates hold for this mix of draft lengths"
        )
    if total and abs(accepted.sum() / total - 1) > _DISAGREE:
        notes.append(
            f"the positions add up to {accepted.sum():,.0f} accepted tokens, but {total:,.0f} are counted in all"
        )
    if error > SAME_RUN_LOG_SD:
        notes.append(
            f"only {drafts:,.0f} rounds: their sampling error of {error:.1%} is wider than the {SAME_RUN_LOG_SD:.0%} "
            "that the band assumes; count more"
        )
    return notes


def _sum(counters: Series, name: str) -> float:
    return math.fsum(count for (counter, _), count in counters.items() if counter == name)


def _number(text: str) -> float:
    """The number. NaN where it is none. Underscores and the like, which float() takes, are no numbers here."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return math.nan
    return float(text)
