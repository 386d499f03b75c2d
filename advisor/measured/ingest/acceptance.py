"""Acceptance by draft position from a file of any tool: metrics of vLLM and SGLang, lists,
histograms, golden curves.

vLLM counts, for each draft position, the rounds that accepted it: shares of all rounds, not of the
rounds that reached the position. Names and labels of its counters: vllm-project/vllm,
vllm/v1/spec_decode/metrics.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import ArrayLike
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from advisor.measured.ingest.result import ReadNote, shorten, warned
from advisor.measured.ingest.upload import MIB, open_upload
from advisor.measured.ingest.upload import Sample as FileSample
from advisor.physics.acceptance import SAME_RUN_LOG_SD, parse_acceptance, solve_alpha
from advisor.prediction import AdvisorError, Array
from advisor.text import number_of

MAX_METRICS_BYTES = 32 * MIB
MAX_POSITIONS = 64
"""As many probabilities as a scenario takes."""
_DRAFTS = "vllm:spec_decode_num_drafts"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens"
_BY_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"
_GENERATED = "vllm:generation_tokens"
"""Output tokens; they fall where the server was restarted."""
_NAMES = (_DRAFTS, _DRAFT_TOKENS, _ACCEPTED, _BY_POSITION, _GENERATED)
_TOKENS = "sglang:generation_tokens"
_ROUNDS = "sglang:spec_verify_calls"
_REQUESTS = "sglang:num_requests"
_GAUGES = ("sglang:spec_num_steps", "sglang:spec_accept_length")
"""Gauges of SGLang's speculation; below 1 they say nothing."""
_SGLANG = (_TOKENS, _ROUNDS, _REQUESTS, *_GAUGES)
_LIST = re.compile(r"[\s\d.,;eE+\-\[\]()]+", re.ASCII)
_MAX_LINE = 10_000
_DISAGREE = 0.01
"""Share by which counters that should agree may differ, because an engine counts while it is
scraped, before a note."""
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass(frozen=True)
class AcceptanceRates:
    """Acceptance by draft position, as measured."""

    conditional: tuple[float, ...]
    """Probability that draft token i is accepted when all before it were. [-]"""
    n_drafts: float | None
    """Rounds counted; None where the input gives shares alone. [-]"""
    relative_error: float | None
    """Standard error of the accepted length at the longest K, over that length, as if rounds were
    independent. [-]"""
    source: str
    warnings: tuple[ReadNote, ...] = ()
    length: tuple[float, int] | None = None
    """Accepted length and its K, where a tool counts nothing by position."""

    @property
    def text(self) -> str:
        """The scenario's `acceptance`, four digits a number: `0.7,0.5,0.4`, or `2.41@3` of a length
        alone."""
        if self.length is not None:
            return f"{self.length[0]:.4g}@{self.length[1]}"
        return ",".join(f"{share:.4g}" for share in self.conditional)

    def accepted_lengths(self, k_max: int) -> pd.DataFrame:
        """Accepted length for K = 0..k_max as a scenario would take it.

        Columns: n_draft, accepted_length, low, high (80 % band) [tokens per round], measured
        (False: the last probability is held). Raises AdvisorError for k_max outside 1..64.
        """
        curve = parse_acceptance(self.text, k_max, borrowed=False)
        return pd.DataFrame(
            {
                "n_draft": np.arange(k_max + 1),
                "accepted_length": curve.accepted_length,
                "low": curve.low,
                "high": curve.high,
                "measured": ~curve.extrapolated,
            }
        )


def conditional_rates(share_of_rounds: ArrayLike) -> Array:
    """P(i accepted | those before it accepted) from S_i = P(1..i accepted), [K] -> [K]. [-]

    S_i / S_(i-1) with S_0 = 1; 0 behind a position that no round reached, where AL(K) = 1 + sum of
    S_i does not depend on it. Raises AdvisorError unless 1 >= S_1 >= S_2 ... >= 0.
    """
    share = np.asarray(share_of_rounds, dtype=float)
    before = np.concatenate([[1.0], share[:-1]])
    wrong = ~((share >= 0) & (share <= before))  # also true for NaN
    if wrong.any():
        i = int(np.argmax(wrong))
        raise AdvisorError(
            f"position {i + 1} is accepted in {share[i]:.4g} of the rounds and the one before it "
            f"in {before[i]:.4g}; a round accepts a token only with all before it, so shares of "
            "rounds fall from at most 1 (if yours are given the tokens before, say that they are "
            "conditional)"
        )
    return np.divide(share, before, out=np.zeros_like(share), where=before > 0)


def rates_from_list(text: str, conditional: bool = False) -> AcceptanceRates:
    """Acceptance by position from a written list.

    Parameters
    ----------
    text : numbers between 0 and 1, separated by commas, semicolons or blanks, brackets allowed; at
        most 64.
    conditional : True: each given that all before it were accepted. False: share of all rounds, as
        vLLM prints it (spec_decode_per_position_acceptance_rates, "Per-position acceptance rate").

    Raises
    ------
    AdvisorError for anything else, naming the entry.
    """
    pieces = [piece for piece in re.split(r"[,;\s]+", text.strip().strip("[]()").strip()) if piece]
    if not 1 <= len(pieces) <= MAX_POSITIONS:
        raise AdvisorError(
            f"the list has {len(pieces)} entries; give 1 to {MAX_POSITIONS} acceptance rates"
        )
    shares = np.array([number_of(piece) for piece in pieces], dtype=float)
    for place, (piece, share) in enumerate(zip(pieces, shares, strict=True), start=1):
        if not 0 <= share <= 1:
            raise AdvisorError(
                f"entry {place} of the list is {shorten(piece)!r}; an acceptance rate is a number "
                "between 0 and 1"
            )
    rates = shares if conditional else conditional_rates(shares)
    kind = "given the tokens before" if conditional else "shares of rounds"
    return AcceptanceRates(
        tuple(rates.tolist()), None, None, f"{len(pieces)} acceptance rates ({kind})"
    )


def _counted(
    name: str, text: str, earlier: tuple[str, bytes] | None, names: Collection[str]
) -> Series:
    """What one model's server counted, since an earlier scrape where there is one; gauges are those
    of the last.

    Raises AdvisorError as `parse_metrics` does, for several models, and for a counter that fell.
    """
    now = parse_metrics(name, text, names)
    models = {dict(labels).get("model_name") for _, labels in now} - {None}
    if len(models) > 1:
        model_names = ", ".join(
            shorten(str(model)) or "(no name)" for model in sorted(map(str, models))[:4]
        )
        raise AdvisorError(
            f"{name} counts {len(models)} models ({model_names}); keep the lines of one of them"
        )
    if earlier is None:
        return now
    before = parse_metrics(earlier[0], _text(*earlier), names)
    return now | _since(
        name,
        now,
        earlier[0],
        {key: count for key, count in before.items() if key[0] not in _GAUGES},
    )


def parse_metrics(name: str, text: str, names: Collection[str] = _NAMES) -> Series:
    """Some counters and gauges of a Prometheus exposition: (name, labels) -> value.

    Names are without `_total`, which the text format adds. Raises AdvisorError, with the line, for
    a damaged sample, a value that is no count, and a series given twice.
    """
    series: Series = {}
    prefixes = tuple({metric.partition("_")[0] for metric in names})
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith(prefixes) or not any(metric in line for metric in names):
            continue
        sample = _sample(line)
        if sample is None:
            raise AdvisorError(
                f"{name}, line {number}: {shorten(line)!r} is no sample `name{{label=...}} value`"
            )
        counter = sample.name.removesuffix("_total")
        if counter not in names:
            continue  # _created times, and counters that are not needed
        if not 0 <= sample.value < math.inf:
            raise AdvisorError(
                f"{name}, line {number}: {str(sample.value)!r} is no count; scrape /metrics again"
            )
        key = (counter, frozenset(sample.labels.items()))
        if key in series:
            raise AdvisorError(
                f"{name}, line {number}: {counter} appears twice; give two scrapes as two files"
            )
        series[key] = float(sample.value)
    return series


def _check_size(name: str, data: bytes) -> None:
    if len(data) > MAX_METRICS_BYTES:
        raise AdvisorError(
            f"{name} has {len(data) / MIB:,.0f} MiB; at most {MAX_METRICS_BYTES // MIB} are read"
        )


def _text(name: str, data: bytes) -> str:
    _check_size(name, data)
    if data.lstrip()[:1] == b"[":
        return data.decode("utf-8", errors="replace")
    sample = open_upload(name, data)  # bounded decompression and decoding, binary formats refused
    if sample.kind != "text":
        raise AdvisorError(
            f"{name} is {sample.kind}; expected the text of vLLM's /metrics, or a list of rates"
        )
    return sample.text


def _sample(line: str) -> Sample | None:
    """The sample on a line of a Prometheus exposition. None where there is none."""
    if len(line) > _MAX_LINE:
        return None
    try:
        (family,) = text_string_to_metric_families(line)
    except (ValueError, IndexError):  # the parser indexes into what a damaged label leaves empty
        return None
    (sample,) = family.samples
    # The parser takes any name before labels; a damaged one would be left out as a counter that is
    # not needed.
    return sample if re.fullmatch(r"[\w:]+", sample.name) else None


def _since(name: str, now: Series, earlier_name: str, before: Series) -> Series:
    """Counts between two scrapes, series by series. One that is new starts at zero."""
    for key, count in before.items():
        if key not in now:
            raise AdvisorError(
                f"{name} lacks a series of {key[0]} that {earlier_name} has; both must be scrapes "
                "of one server"
            )
        if now[key] < count:
            raise AdvisorError(
                f"{key[0]} fell from {count:.12g} in {earlier_name} to {now[key]:.12g} in {name}; "
                "the server was restarted between them, or the two files are in the wrong order"
            )
    return {
        key: count - before.get(key, 0.0) for key, count in now.items() if key[0] not in _GAUGES
    }


def _from_counters(name: str, counters: Series, source: str) -> AcceptanceRates:
    drafts = _sum(counters, _DRAFTS)
    accepted = _by_position(name, counters)
    if drafts <= 0:
        raise AdvisorError(
            f"{name} counts no round with drafts; send requests first, then scrape /metrics"
        )
    try:
        conditional = conditional_rates(accepted / drafts)
    except AdvisorError as error:
        raise AdvisorError(f"{name}: {error}") from error
    k = len(accepted)
    share = accepted / drafts
    # of accepted draft tokens per round; their square has the mean sum (2 i - 1) S_i
    mean = float(share.sum())
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
        if not re.fullmatch(r"[0-9]{1,3}", position):
            raise AdvisorError(
                f"{name}: {_BY_POSITION} needs a label position=0, 1, ...; found "
                f"{shorten(position)!r}"
            )
        sums[int(position)] = sums.get(int(position), 0.0) + count
    if sorted(sums) != list(range(len(sums))):
        raise AdvisorError(
            f"{name}: draft positions {sorted(sums)[:8]} do not run from 0 without a gap; keep "
            "all lines"
        )
    if len(sums) > MAX_POSITIONS:
        raise AdvisorError(
            f"{name} has {len(sums)} draft positions; at most {MAX_POSITIONS} are read"
        )
    return np.array([sums[i] for i in range(len(sums))])


def _warnings(counters: Series, drafts: float, accepted: Array, error: float) -> list[ReadNote]:
    notes = []
    engines = {dict(labels).get("engine") for counter, labels in counters if counter == _DRAFTS}
    if len(engines) > 1:
        notes.append(warned("engines_summed", n=len(engines)))
    proposed = _sum(counters, _DRAFT_TOKENS)
    total = _sum(counters, _ACCEPTED)
    if proposed and proposed < (1 - _DISAGREE) * drafts * len(accepted):
        notes.append(warned("k_mixed", mean=proposed / drafts, n=len(accepted)))
    if total and abs(accepted.sum() / total - 1) > _DISAGREE:
        notes.append(warned("positions_apart", n=float(accepted.sum()), total=total))
    if error > SAME_RUN_LOG_SD:
        notes.append(warned("few_rounds", n=drafts, error=error))
    return notes


def _sum(counters: Series, name: str) -> float:
    return math.fsum(count for (counter, _), count in counters.items() if counter == name)


_HISTOGRAMS = ("pooled_spec_decode_acceptance_histogram", "acceptance_histogram")
"""Fields that hold rounds by accepted drafts: AIPerf's aggregate export; vLLM's replies with
per-request metrics."""
_MAX_DEPTH = 6
_MAX_CURVE = MIB
_CURVE = "golden AL"
"""Words in the head of a golden curve of InferenceX."""


def read_acceptance_file(
    name: str,
    data: bytes,
    earlier: tuple[str, bytes] | None = None,
    conditional: bool = False,
    k: int | None = None,
) -> AcceptanceRates:
    """Acceptance by position from a file, recognized by its content.

    Parameters
    ----------
    name, data : vLLM's or SGLang's metrics text (GET /metrics), a list of rates, JSON with an
        acceptance histogram (AIPerf's export, vLLM's replies), or InferenceX's golden acceptance
        lengths (YAML).
    earlier : an earlier scrape of the same server; what was counted up to it is taken away.
    conditional : of a list only, as in `rates_from_list`.
    k : draft length that the server runs, for metrics that do not state it. [-]

    Raises
    ------
    AdvisorError, and nothing else, for anything that holds no acceptance, or several that differ:
    several models, no rounds, a counter that fell between scrapes (the server was restarted),
    positions missing.
    """
    if data.lstrip()[:1] == b"{" or data.lstrip()[:2] in (b"[{", b"[\n"):
        _check_size(name, data)
        return _from_json(name, open_upload(name, data))
    text = _text(name, data)
    source = shorten(name) + (f" since {shorten(earlier[0])}" if earlier else "")
    if _CURVE in text[:4096]:
        return _from_curve(name, text)
    if earlier is None and len(text) <= _MAX_LINE and _LIST.fullmatch(text):
        return rates_from_list(text, conditional)
    if "sglang:spec_" in text and "vllm:spec_decode_" not in text:
        return _from_sglang(name, _counted(name, text, earlier, _SGLANG), source, k)
    counters = _counted(name, text, earlier, _NAMES)
    counted = {counter for counter, _ in counters}
    if {_DRAFT_TOKENS, _ACCEPTED} <= counted and not {_DRAFTS, _BY_POSITION} & counted:
        return _from_totals(name, counters, f"vLLM metrics, {source}", k)
    lacking = [counter for counter in (_DRAFTS, _BY_POSITION) if counter not in counted]
    if lacking:
        raise AdvisorError(
            f"{name} has no counter {lacking[0]}; expected the text of GET /metrics of a vLLM "
            "server (engine V1) or of SGLang with speculative decoding on, a list of acceptance "
            "rates, or JSON with an acceptance histogram"
        )
    return _from_counters(name, counters, f"vLLM metrics, {source}")


def rates_from_histogram(rounds: Mapping[int, float], source: str) -> AcceptanceRates:
    """Acceptance by position from the number of rounds that accepted exactly j drafts.

    S_i = rounds with j >= i over all rounds. K is the largest j stated, so a list must not be cut
    of its zeros. Raises AdvisorError for no rounds, a negative count, or K outside 1..64.
    """
    longest = max(rounds, default=0)
    if not 1 <= longest <= MAX_POSITIONS or any(
        count < 0 or not math.isfinite(count) for count in rounds.values()
    ):
        raise AdvisorError(
            f"{source}: expected rounds by accepted drafts 0 to K, K from 1 to {MAX_POSITIONS}"
        )
    counts, share = _shares(rounds)
    total = float(counts.sum())
    if total <= 0:
        raise AdvisorError(f"{source} counts no round; send requests with speculation on")
    accepted = np.arange(longest + 1)
    mean = float((counts * accepted).sum() / total)
    variance = float((counts * (accepted - mean) ** 2).sum() / total)
    text = f"{source}: {total:,.0f} rounds, {longest} draft positions"
    rates = conditional_rates(share)
    return AcceptanceRates(
        tuple(rates.tolist()), total, math.sqrt(variance / total) / (1 + mean), text
    )


def histogram_shares(value: Any) -> list[float] | None:
    """Share of rounds that accept draft 1, 2, ..., K, of a tool's histogram (an object or a list).
    None for none."""
    rounds = _as_rounds(value)
    if not rounds or max(rounds) < 1 or sum(rounds.values()) <= 0:
        return None
    return [float(share) for share in _shares(rounds)[1]]


def _shares(rounds: Mapping[int, float]) -> tuple[Array, Array]:
    """Rounds by accepted drafts, [K + 1], and S_i, the share of them that accept i drafts or more,
    [K]. [-]"""
    counts = np.array([rounds.get(j, 0.0) for j in range(max(rounds) + 1)], dtype=float)
    return counts, counts[::-1].cumsum()[::-1][1:] / max(counts.sum(), 1e-300)


def _as_rounds(value: Any) -> dict[int, float]:
    pairs = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    rounds: dict[int, float] = {}
    for key, count in pairs:
        good = (
            isinstance(count, int | float)
            and not isinstance(count, bool)
            and re.fullmatch(r"[0-9]{1,9}", str(key))
        )
        if not good or int(key) > MAX_POSITIONS:
            return {}
        rounds[int(key)] = float(count)
    return rounds


def _from_json(name: str, sample: FileSample) -> AcceptanceRates:
    summed: dict[int, float] = {}
    for rounds in _histograms(sample.records, 0):
        for accepted, count in rounds.items():
            summed[accepted] = summed.get(accepted, 0.0) + count
    if not summed:
        raise AdvisorError(
            f"{name} is JSON without an acceptance histogram ({' or '.join(_HISTOGRAMS)}, which "
            "AIPerf writes with vLLM's --per-request-spec-decode-metrics); expected the text of "
            "GET /metrics, a list, or a histogram"
        )
    return rates_from_histogram(summed, f"acceptance histogram, {shorten(name)}")


def _histograms(records: Iterable[Any], depth: int) -> Iterable[dict[int, float]]:
    for record in records:
        if isinstance(record, Mapping):
            for key, value in record.items():
                if key in _HISTOGRAMS:
                    yield _as_rounds(value)
                elif depth < _MAX_DEPTH and isinstance(value, Mapping | list):
                    yield from _histograms(
                        [value] if isinstance(value, Mapping) else value, depth + 1
                    )


def _from_sglang(name: str, counters: Series, source: str, k: int | None) -> AcceptanceRates:
    """One accepted length: SGLang counts rounds and tokens. A request's first token is its
    prompt's, of no round."""
    readings = [
        [value for (key, _), value in counters.items() if key == gauge and value >= 1.0]
        for gauge in _GAUGES
    ]
    steps, accept_lengths = readings
    if k is None and (not steps or min(steps) != max(steps)):
        raise AdvisorError(
            f"{name} has no single sglang:spec_num_steps above 0, so the accepted length has no K; "
            "state the server's --speculative-num-steps with --k"
        )
    k = _served_k(name, max(steps) if k is None else k)
    tokens = _sum(counters, _TOKENS) - _sum(counters, _REQUESTS)
    calls = _sum(counters, _ROUNDS)
    source = f"SGLang metrics, {source}"
    if calls > 0 and tokens > 0:
        how = f"{source}, from generation tokens over verification calls"
        return _of_length(name, tokens / calls, k, calls, how)
    if accept_lengths:
        length = math.fsum(accept_lengths) / len(accept_lengths)
        how = f"{source}, from the gauge of the last decode batches"
        return _of_length(name, length, k, None, how)
    raise AdvisorError(
        f"{name} counts no round with drafts; send requests first, then scrape /metrics"
    )


def _from_totals(name: str, counters: Series, source: str, k: int | None) -> AcceptanceRates:
    """One accepted length of vLLM's releases before 0.9, which count neither rounds nor
    positions."""
    if k is None:
        raise AdvisorError(
            f"{name} is of a vLLM before 0.9, which does not count rounds, so the accepted length "
            "has no K; state the server's num_speculative_tokens with --k"
        )
    k = _served_k(name, k)
    rounds = _sum(counters, _DRAFT_TOKENS) / k
    if rounds <= 0:
        raise AdvisorError(
            f"{name} counts no round with drafts; send requests first, then scrape /metrics"
        )
    length = 1.0 + _sum(counters, _ACCEPTED) / rounds
    return _of_length(name, length, k, rounds, f"{source}, from accepted over drafted tokens")


def _served_k(name: str, k: float) -> int:
    """K of a server. Raises AdvisorError for more positions than are read."""
    if not 1 <= k <= MAX_POSITIONS:
        raise AdvisorError(
            f"{name}: the server drafts K = {shorten(str(k))}; expected 1 to {MAX_POSITIONS}"
        )
    return int(k)


def _of_length(
    name: str, length: float, k: int, rounds: float | None, source: str
) -> AcceptanceRates:
    """Rates of a server that counts one accepted length alone. Raises AdvisorError where K does not
    fit it."""
    if not 1 <= length <= k + 1:
        raise AdvisorError(
            f"{name}: {length:.3g} tokens a round do not fit K = {k}; scrape a server with one K"
        )
    text = f"{source}: accepted length {length:.3f} at K = {k}"
    rates = (float(solve_alpha(length, k)),) * k
    if round(length, 3) == 1.0:  # nothing is accepted at any position
        return AcceptanceRates(rates, rounds, None, text)
    return AcceptanceRates(rates, rounds, None, text, (warned("no_positions"),), (length, k))


def _from_curve(name: str, text: str) -> AcceptanceRates:
    """A golden curve of InferenceX: accepted length by K, of one model and mode."""
    if len(text) > _MAX_CURVE:
        raise AdvisorError(f"{name} has {len(text):,} characters; a golden curve has a few lines")
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AdvisorError(f"{name} is no readable YAML: {shorten(str(error))[:120]}") from error
    curves = dict(_curves(document, ()))
    if len(curves) != 1:
        labels = ", ".join(map(shorten, list(curves)[:6])) or "none"
        raise AdvisorError(
            f"{name} holds {len(curves)} curves of accepted length by K ({labels}); keep the "
            "lines of one"
        )
    ((label, lengths),) = curves.items()
    k = max(lengths)
    if sorted(lengths) != list(range(1, k + 1)) or k > MAX_POSITIONS:
        raise AdvisorError(
            f"{name}, {label}: expected an accepted length for each K from 1; found "
            f"{sorted(lengths)[:8]}"
        )
    shares = falling(np.diff([1.0, *(lengths[i] for i in range(1, k + 1))]))
    rates = conditional_rates(np.clip(shares, 0.0, 1.0))
    source = f"golden acceptance lengths, {label}"
    return AcceptanceRates(tuple(rates.tolist()), None, None, source, (warned("golden_curve"),))


def _curves(node: Any, path: tuple[str, ...]) -> Iterable[tuple[str, dict[int, float]]]:
    if not isinstance(node, Mapping) or len(path) > _MAX_DEPTH:
        return
    if node and all(
        isinstance(key, int) and isinstance(value, int | float) for key, value in node.items()
    ):
        yield " ".join(path), {int(key): float(value) for key, value in node.items()}
        return
    for key, value in node.items():
        yield from _curves(value, (*path, str(key)))


def falling(shares: ArrayLike) -> Array:
    """Shares that fall with position, [K]. Neighbours that rise are replaced by their mean, which
    keeps the sum."""
    blocks: list[list[float]] = []
    for share in np.asarray(shares, dtype=float):
        blocks.append([float(share), 1.0])
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            low, n_low = blocks[-2]
            high, n_high = blocks[-1]
            blocks[-2:] = [[(low * n_low + high * n_high) / (n_low + n_high), n_low + n_high]]
    return np.repeat([value for value, _ in blocks], [int(n) for _, n in blocks])
