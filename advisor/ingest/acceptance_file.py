"""Acceptance from a file of any tool: metrics of vLLM and SGLang, lists, acceptance histograms, golden curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import yaml
from numpy.typing import ArrayLike

from advisor.arrays import Array
from advisor.ingest import acceptance
from advisor.ingest.acceptance import MAX_METRICS_BYTES, MAX_POSITIONS, AcceptanceRates, conditional_rates
from advisor.ingest.result import shorten
from advisor.ingest.upload import MIB, Sample, open_upload
from advisor.prediction import AdvisorError

_HISTOGRAMS = ("pooled_spec_decode_acceptance_histogram", "acceptance_histogram")
"""Fields that hold rounds by accepted drafts: AIPerf's aggregate export; vLLM's replies with per-request metrics."""
_MAX_DEPTH = 6
_MAX_CURVE_BYTES = MIB
_CURVE = "golden AL"
"""Words in the head of a golden curve of InferenceX."""


def read_acceptance(
    name: str, data: bytes, earlier: tuple[str, bytes] | None = None, conditional: bool = False
) -> AcceptanceRates:
    """Acceptance by position from a file, recognised by its content.

    Parameters
    ----------
    name, data : vLLM's or SGLang's metrics text (GET /metrics), a list of rates, JSON with an acceptance histogram
        (AIPerf's export, vLLM's replies), or InferenceX's golden acceptance lengths (YAML).
    earlier : an earlier scrape of the same server; what was counted up to it is taken away.
    conditional : of a list only, as in `rates_from_list`.

    Raises
    ------
    AdvisorError, and nothing else, for anything that holds no acceptance, or several that differ.
    """
    if len(data) > MAX_METRICS_BYTES:
        raise AdvisorError(f"{name} has {len(data) / MIB:,.0f} MiB; at most {MAX_METRICS_BYTES // MIB} are read")
    if data.lstrip()[:1] == b"{" or data.lstrip()[:2] in (b"[{", b"[\n"):
        return _from_json(name, open_upload(name, data))
    if b"sglang:spec_" in data and b"vllm:spec_decode_" not in data:
        return _from_sglang(name, data, earlier)
    if _CURVE.encode() in data[:4096]:
        return _from_curve(name, data)
    return acceptance.read_acceptance(name, data, earlier, conditional)


def rates_from_histogram(rounds: Mapping[int, float], source: str) -> AcceptanceRates:
    """Acceptance by position from the number of rounds that accepted exactly j drafts.

    S_i = rounds with j >= i over all rounds. K is the largest j stated, so a list must not be cut of its zeros. Raises
    AdvisorError for no rounds, a negative count, or K outside 1..64.
    """
    longest = max(rounds, default=0)
    if not 1 <= longest <= MAX_POSITIONS or any(count < 0 or not math.isfinite(count) for count in rounds.values()):
        raise AdvisorError(f"{source}: expected rounds by accepted drafts 0 to K, K from 1 to {MAX_POSITIONS}")
    counts = np.array([rounds.get(j, 0.0) for j in range(longest + 1)], dtype=float)
    total = float(counts.sum())
    if total <= 0:
        raise AdvisorError(f"{source} counts no round; send requests with speculation on")
    share = counts[::-1].cumsum()[::-1][1:] / total
    accepted = np.arange(longest + 1)
    mean = float((counts * accepted).sum() / total)
    variance = float((counts * (accepted - mean) ** 2).sum() / total)
    text = f"{source}: {total:,.0f} rounds, {longest} draft positions"
    given = conditional_rates(share)
    return AcceptanceRates(tuple(given.tolist()), total, math.sqrt(variance / total) / (1 + mean), text)


def histogram_shares(value: Any) -> list[float] | None:
    """Share of rounds that accept draft 1, 2, ..., K, of a tool's histogram (an object or a list). None for none."""
    rounds = _as_rounds(value)
    if not rounds or max(rounds) < 1 or sum(rounds.values()) <= 0:
        return None
    counts = np.array([rounds.get(j, 0.0) for j in range(max(rounds) + 1)])
    return [float(share) for share in counts[::-1].cumsum()[::-1][1:] / counts.sum()]


def _as_rounds(value: Any) -> dict[int, float]:
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    rounds: dict[int, float] = {}
    for key, count in pairs:
        good = isinstance(count, int | float) and not isinstance(count, bool) and str(key).isdecimal()
        if not good or int(key) > MAX_POSITIONS:
            return {}
        rounds[int(key)] = float(count)
    return rounds


def _from_json(name: str, sample: Sample) -> AcceptanceRates:
    summed: dict[int, float] = {}
    for rounds in _histograms(sample.records, 0):
        for accepted, count in rounds.items():
            summed[accepted] = summed.get(accepted, 0.0) + count
    if not summed:
        raise AdvisorError(
            f"{name} is JSON without an acceptance histogram ({' or '.join(_HISTOGRAMS)}, which AIPerf writes with "
            "vLLM's --per-request-spec-decode-metrics); expected the text of GET /metrics, a list, or a histogram"
        )
    return rates_from_histogram(summed, f"acceptance histogram, {shorten(name)}")


def _histograms(records: Iterable[Any], depth: int) -> Iterable[dict[int, float]]:
    for record in records:
        if isinstance(record, Mapping):
            for key, value in record.items():
                if key in _HISTOGRAMS:
                    yield _as_rounds(value)
                elif depth < _MAX_DEPTH and isinstance(value, Mapping | list):
                    yield from _histograms([value] if isinstance(value, Mapping) else value, depth + 1)


def _from_sglang(name: str, data: bytes, earlier: tuple[str, bytes] | None) -> AcceptanceRates:
    """One accepted length: SGLang counts rounds and tokens, not positions."""
    now = _sglang_values(data)
    before = _sglang_values(earlier[1]) if earlier is not None else {}
    steps = now.get("spec_num_steps", [])
    if not steps or max(steps) < 1 or min(steps) != max(steps):
        raise AdvisorError(f"{name} has no single sglang:spec_num_steps above 0, so the accepted length has no K")
    k = int(max(steps))
    tokens, calls = (
        math.fsum(now.get(key, [])) - math.fsum(before.get(key, []))
        for key in ("generation_tokens_total", "spec_verify_calls_total")
    )
    gauge = [value for value in now.get("spec_accept_length", []) if value > 1]
    if calls > 0 and tokens > 0:
        length, how, rounds = tokens / calls, "generation tokens over verification calls", calls
    elif gauge:
        length, how, rounds = math.fsum(gauge) / len(gauge), "the gauge of the last decode batches", None
    else:
        raise AdvisorError(f"{name} counts no round with drafts; send requests first, then scrape /metrics")
    if not 1 < length <= k + 1:
        raise AdvisorError(f"{name}: {length:.3g} tokens a round do not fit K = {k}; scrape a server with one K")
    warning = "SGLang counts no positions: one probability stands for all, bent as measured curves are"
    source = f"SGLang metrics, {shorten(name)}: accepted length {length:.3f} at K = {k}, from {how}"
    return AcceptanceRates((_one_probability(length, k),) * k, rounds, None, source, (warning,), (length, k))


def _sglang_values(data: bytes) -> dict[str, list[float]]:
    """Values of SGLang's counters and gauges by name without prefix and labels."""
    found: dict[str, list[float]] = {}
    for line in data.decode("utf-8", errors="replace").splitlines():
        name, _, rest = line.partition("{") if "{" in line else line.partition(" ")
        if not name.startswith("sglang:"):
            continue
        try:
            value = float(rest.rpartition("}")[2].split()[0])
        except (ValueError, IndexError):
            continue
        found.setdefault(name.removeprefix("sglang:"), []).append(value)
    return found


def _one_probability(length: float, k: int) -> float:
    """alpha with 1 + alpha + ... + alpha^K = length, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(k + 1)) < length else (low, middle)
    return high


def _from_curve(name: str, data: bytes) -> AcceptanceRates:
    """A golden curve of InferenceX: accepted length by K, of one model and mode."""
    if len(data) > _MAX_CURVE_BYTES:
        raise AdvisorError(f"{name} has {len(data):,} bytes; a golden curve has a few lines")
    try:
        document = yaml.safe_load(data.decode("utf-8", errors="replace"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise AdvisorError(f"{name} is no readable YAML: {shorten(str(error))[:120]}") from error
    curves = dict(_curves(document, ()))
    if len(curves) != 1:
        named = ", ".join(map(shorten, list(curves)[:6])) or "none"
        raise AdvisorError(
            f"{name} holds {len(curves)} curves of accepted length by K ({named}); keep the lines of one"
        )
    ((label, lengths),) = curves.items()
    k = max(lengths)
    if sorted(lengths) != list(range(1, k + 1)) or k > MAX_POSITIONS:
        raise AdvisorError(
            f"{name}, {label}: expected an accepted length for each K from 1; found {sorted(lengths)[:8]}"
        )
    shares = falling(np.diff([1.0, *(lengths[i] for i in range(1, k + 1))]))
    given = conditional_rates(np.clip(shares, 0.0, 1.0))
    warning = "from accepted lengths that were measured at each K apart; shares that rose with position were averaged"
    return AcceptanceRates(tuple(given.tolist()), None, None, f"golden acceptance lengths, {label}", (warning,))


def _curves(node: Any, path: tuple[str, ...]) -> Iterable[tuple[str, dict[int, float]]]:
    if not isinstance(node, Mapping) or len(path) > _MAX_DEPTH:
        return
    if node and all(isinstance(key, int) and isinstance(value, int | float) for key, value in node.items()):
        yield " ".join(path), {int(key): float(value) for key, value in node.items()}
        return
    for key, value in node.items():
        yield from _curves(value, (*path, str(key)))


def falling(shares: ArrayLike) -> Array:
    """Shares that fall with position, [K]. Neighbours that rise are replaced by their mean, which keeps the sum."""
    blocks: list[list[float]] = []
    for share in np.asarray(shares, dtype=float):
        blocks.append([float(share), 1.0])
        while len(blocks) > 1 and blocks[-1][0] > blocks[-2][0]:
            (low, n_low), (high, n_high) = blocks[-2], blocks[-1]
            blocks[-2:] = [[(low * n_low + high * n_high) / (n_low + n_high), n_low + n_high]]
    return np.repeat([value for value, _ in blocks], [int(n) for _, n in blocks])
