"""Sections of docs/validation.md on step times: bars, plain decode, ratios, the peer, verified
tokens, rates.

`python -m studies.validation.step_times` prints them in half a minute, and writes the ratios that
comparisons read, as `make validation` does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.engines import engine_ids
from advisor.catalog.kernel_choice import ActivationScales
from advisor.catalog.models import load_model, model_ids
from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.predict.curve import DEFAULT_BATCHES, curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, build_scenario
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS, PROFILES
from studies.fits.records import write_ratios
from studies.overheads import held_out_rows, without
from studies.published import read_numbers
from studies.validation.plain import (
    FAR,
    FAR_POINTS,
    NEAR,
    PEER,
    RATES,
    WAYS,
    believed,
    compared,
    decode_rates,
    decode_rates_section,
    decode_section,
    figures_s,
    groups,
    groups_closer,
    peer_section,
    plain_decode,
    read_peer,
    side_by_side,
)
from studies.validation.ratios import SOURCE, Judged, judged, pairs, ratio_records, ratios_section
from studies.validation.tables import markdown_table, percent

NVFP4_SCALES: dict[ActivationScales, str] = {
    "static": "half (shipped)",
    "dynamic": "none",
    "fused": "all",
}
"""How much of TensorRT-LLM's nvfp4 time beyond vLLM's at the same product is taken off; no table
settles it."""
NO_STORE = (
    "## Plain decode: time per output token\n\nNo store here, so not judged; run `make store` "
    "first."
)


@dataclass(frozen=True)
class Decode:
    """Plain decode of the store's points."""

    by_scales: Mapping[ActivationScales, pd.DataFrame]
    """With each way of scaling the products of nvfp4."""
    as_named: pd.DataFrame
    """With lengths, runs and caches as the points name them: what another tool is asked."""

    @property
    def shipped(self) -> pd.DataFrame:
        """As the product scales them."""
        return self.by_scales["static"]


def judged_decode() -> Decode | None:
    """Plain decode of the store here. None without a store."""
    try:
        with open_store(default_store_path()) as opened:
            points = plain_decode_points(opened)
    except AdvisorError:
        return None
    return Decode(
        {scales: plain_decode(points, scales) for scales in NVFP4_SCALES},
        plain_decode(points, as_named=True),
    )


def step_time_sections(decode: Decode | None) -> list[str]:
    """The sections in the order of the document. `decode`: `judged_decode`."""
    costs = verify_costs(read_numbers(CURVES))
    rates = decode_rates(read_numbers(RATES))
    measured = [verify_cost_section(costs), decode_rates_section(rates)]
    if decode is None:
        return [NO_STORE, *measured]
    rows = held_out_rows(decode.shipped)
    by_scales = {
        NVFP4_SCALES[scales]: believed(held_out_rows(each))
        for scales, each in decode.by_scales.items()
    }
    return [
        bars_of_step_times(step_time_bars(decode, costs)),
        decode_section(rows, decode.shipped, without(decode.shipped)),
        ratios_section(believed(rows), by_scales),
        peer_section(believed(held_out_rows(decode.as_named))),
        *measured,
    ]


def write_judged_ratios(decode: Decode) -> Path:
    """Write what comparisons read, from points judged with constants fitted without their
    models."""
    return write_ratios(ratio_records(believed(held_out_rows(decode.shipped))), SOURCE)


def main() -> None:
    """Print the sections and write the ratios."""
    decode = judged_decode()
    sys.stdout.write("\n\n".join(step_time_sections(decode)) + "\n")
    if decode is not None:
        sys.stdout.write(f"\n{write_judged_ratios(decode)} written\n")


CAUSES: dict[tuple[str, str, str, str], str] = {
    (
        "qwen3-32b",
        "sglang",
        "h100-sxm",
        "bf16",
    ): "requests of equal length in waves: SGLang takes all prompts "
    "before it decodes, and first tokens are 1.05 of what that says; so judged 4 % off, end to "
    "end within 4 % anyhow",
}
"""Why a group of FAR_POINTS points or more is beyond FAR, each a cause that can be checked."""
SCANS = 90
FALL = 0.03


@dataclass(frozen=True)
class Bar:
    """One bar with its figure."""

    what: str
    bar: str
    figure: str
    met: bool | None
    """None: cannot be judged here; `figure` says why."""

    @property
    def status(self) -> str:
        """Met, missed, or not judged."""
        return "not judged here" if self.met is None else "met" if self.met else "missed"


def at_most(what: str, value: float, limit: float) -> Bar:
    """A share that must not exceed `limit`."""
    return Bar(what, f"<= {percent(limit)}", percent(value), bool(value <= limit))


def at_least(what: str, value: float, limit: float) -> Bar:
    """A share that must reach `limit`."""
    return Bar(what, f">= {percent(limit)}", percent(value), bool(value >= limit))


def decode_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Bars on time per output token. `rows`: `plain_decode`, its small launches those that are
    shipped."""
    bare = without(rows)
    apart = held_out_rows(rows)
    yield at_most(
        "plain decode, no constant chosen on these points: median",
        figures_s(believed(bare))[1],
        0.105,
    )
    median, p90 = figures_s(believed(apart))[1:3]
    yield at_most("plain decode, constants fitted without the point's model: median", median, 0.095)
    yield at_most("... 90 % within", p90, 0.28)
    family = believed(held_out_rows(rows[rows["engine"] == "sglang"], families=True))
    yield at_most(
        "... SGLang's, fitted without the model's family: median", figures_s(family)[1], 0.15
    )
    yield at_most("... 90 % of all points, quarantine included, within", figures_s(apart)[2], 0.33)
    table = groups(believed(apart))
    yield at_most("... mean of group medians", float(table["median"].mean()), 0.115)
    yield at_least(f"... groups within {NEAR:.0%}", float((table["median"] <= NEAR).mean()), 0.80)
    far = table[(table["n"] >= FAR_POINTS) & (table["median"] > FAR)]
    keys = [tuple(row[:4]) for row in far.itertuples(index=False)]
    unnamed = [", ".join(key) for key in keys if key not in CAUSES]
    yield Bar(
        f"... groups of {FAR_POINTS} points or more beyond {FAR:.0%} without a named cause",
        "none",
        f"{len(unnamed)} of {len(keys)}" + (f": {'; '.join(unnamed)}" if unnamed else ""),
        not unnamed,
    )


def quarantine_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Bars on how few points are set apart."""
    apart = int((rows["rule"] != "").sum())
    yield at_most("quarantine, share of the points", apart / len(rows), 0.05)
    kept = len(rows) - apart
    yield Bar("points judged", ">= 2,600", f"{kept:,} of {len(rows):,}", kept >= 2600)


def peer_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Bars beside AIConfigurator, from its last run. `rows`: `plain_decode` as named, which is what
    it was asked."""
    if not PEER.is_file():
        yield Bar("better than AIConfigurator", "median and p90", "not run here", None)
        return
    once = believed(held_out_rows(rows))
    answers = read_peer()[1]
    by_way = [side_by_side(once, answers, way) for way in WAYS]
    for (name, kind, measured, ours, theirs), (_, other, *_) in zip(
        *map(compared, by_way), strict=True
    ):
        if name not in ("MoE", "dense", "heavy (prefill >= 1/10)", "heavy, end to end"):
            continue
        own, *peers = (
            figures_s(kind, ours, measured)[1:3],
            *(figures_s(each, theirs, measured)[1:3] for each in (kind, other)),
        )
        yield Bar(
            f"beside AIConfigurator, {name} (n {len(kind)})",
            "smaller median and p90, however it is asked",
            " against ".join((_pair(*own), " and ".join(_pair(*peer) for peer in peers))),
            all(own[0] < peer[0] and own[1] < peer[1] for peer in peers),
        )
    closer, count = min(groups_closer(both) for both in by_way)
    yield at_least(
        f"beside AIConfigurator, closer in groups ({closer} of {count})", closer / count, 0.75
    )


def _pair(median: float, p90: float) -> str:
    return f"{percent(median)} / {percent(p90)}"


def ratio_bars(rows: pd.DataFrame) -> Iterator[Bar]:
    """Bars on ratios between choices."""
    once = believed(held_out_rows(rows))
    engines = pairs(once, "engine")
    trt_vllm = judged(engines[(engines["before"] == "trtllm") & (engines["after"] == "vllm")])
    every = judged(engines)
    yield _direction(
        "engine direction, TensorRT-LLM against vLLM, pairs beyond 5 %", trt_vllm, 0.85
    )
    yield _direction("engine direction, all engines, pairs beyond 5 %", every, 0.77)
    _, _, count, right = every.directions[0]
    yield Bar(
        "engine direction by groups", ">= 7 of 9", f"{right} of {count}", right >= 7 / 9 * count
    )
    yield at_most("engine ratio, TensorRT-LLM against vLLM: median error", trt_vllm.median, 0.10)
    weights = pairs(once, "weights")
    gain = judged(weights[(weights["before"] == "fp8") & (weights["after"] == "fp4")])
    yield at_most(f"fp8 -> fp4 at one version: median error (n {gain.n})", gain.median, 0.10)
    tensor = pairs(once, "tensor parallel")
    for before, limit in ((1, 0.05), (2, 0.05), (4, 0.07)):
        found = judged(tensor[tensor["before"] == before])
        yield at_most(
            f"TP {before} -> {2 * before}: median error (n {found.n})", found.median, limit
        )
    found = judged(pairs(once, "batch"))
    yield at_most(f"T(4B)/T(B): median error (n {found.n})", found.median, 0.07)


def _direction(what: str, found: Judged, limit: float) -> Bar:
    n, right, *_ = found.directions[0]
    return at_least(f"{what} (n {n})", right, limit)


def verify_bars(costs: pd.DataFrame) -> Iterator[Bar]:
    """Bars on the cost of verified tokens, as they were before attention's arithmetic and
    modules."""
    for queries, limit in ((1, 0.22), (8, 0.11)):
        error = ratio_error(costs, queries)
        yield at_most(
            f"T(t)/T(1) of DeepSeek-V4-Flash, {queries} tokens a sequence: median error",
            error,
            limit,
        )


def scan_bars() -> Iterator[Bar]:
    """Bars on shape: steps and rounds rise with batch and K, for as many models and engines as
    load."""
    falls = [(fall, name) for name, setup in _scanned() for fall in [largest_fall(setup)]]
    worst, name = max(falls)
    figure = (
        f"{percent(worst)} ({name}); {sum(fall > FALL for fall, _ in falls)} of {len(falls)} beyond"
    )
    yield Bar(
        f"steps and rounds rise with batch and K, {len(falls)} scans",
        f"falls <= {FALL:.0%}",
        figure,
        worst <= FALL,
    )


def _scanned() -> Iterator[tuple[str, Setup]]:
    """SCANS setups: MoE models in the order of their ids on eight H200, each with every engine."""
    found = 0
    for model_id in model_ids():
        if load_model(model_id).moe is None or found >= SCANS:
            continue
        try:
            setups = [load_setup(_scan(model_id, engine)) for engine in engine_ids()]
        except AdvisorError:
            continue
        for engine, setup in zip(engine_ids(), setups, strict=True):
            found += 1
            yield f"{model_id}, {engine}", setup


def _scan(model_id: str, engine: str) -> Scenario:
    return build_scenario(
        hardware_id="h200-sxm",
        n_gpus=8,
        tensor_parallel=8,
        engine=engine,
        model_id=model_id,
        drafter_id="eagle3",
        acceptance="2.4@3",
        k_max=8,
    )


def largest_fall(setup: Setup) -> float:
    """Largest share by which a step or a round is cheaper than one with fewer tokens.

    A plain step, a verifying step or a round.
    """
    curve = curve_for(setup, DEFAULT_BATCHES, np.arange(setup.scenario.k_max + 1))
    tables = (curve.plain_step_s[:, None], curve.verify_step_s, curve.round_s[:, 1:])
    axes = ((table, axis) for table in tables for axis in (0, 1) if table.shape[axis] > 1)
    return max(float(np.max(1.0 - np.divide(*_after_before(table, axis)))) for table, axis in axes)


def _after_before(table: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Each value along `axis` from the second on, and the largest one before it."""
    before = np.maximum.accumulate(table, axis=axis)
    after = np.moveaxis(table, axis, 0)[1:]
    return after, np.moveaxis(before, axis, 0)[:-1]


def latent_attention_bar() -> Iterator[Bar]:
    """The bar on verification with data-parallel latent attention at long context."""
    setup = load_setup(
        build_scenario(
            hardware_id="h200-sxm",
            n_gpus=8,
            tensor_parallel=1,
            expert_parallel=8,
            model_id="deepseek-v3",
            drafter_id="mtp",
            acceptance="2.5@3",
            context_tokens=32768,
            k_max=3,
        )
    )
    ratio = float(curve_for(setup, [64], [3]).verify_ratio[0, 0])
    yield Bar(
        (
            "DeepSeek-V3, data-parallel attention, 8 x H200, 32k, batch 64: verification ratio at "
            "K = 3"
        ),
        "about 1.65 (1.5-1.8), from the measured rate of attention",
        f"{ratio:.2f}",
        1.5 <= ratio <= 1.8,
    )


def speed_bars() -> Iterator[Bar]:
    """Bars on speed, by this machine's clock, and on the size of what is shipped."""
    setup = load_setup(build_scenario(acceptance="2.4@3", model_id="qwen3-30b-a3b", k_max=8))
    seconds = _best_s(lambda: curve_for(setup, DEFAULT_BATCHES, np.arange(9)))
    yield Bar(
        "curve of 20 batches x K 0-8 with band",
        "<= 60 ms",
        f"{1e3 * seconds:.0f} ms",
        seconds <= 0.06,
    )
    yield Bar("a million designs in one call", "<= 0.3 s", "printed by `make bench`", None)
    size = sum(
        path.stat().st_size for path in (PROFILES / "calibration").rglob("*") if path.is_file()
    )
    yield Bar(
        "shipped fits, measured shapes and modules",
        "<= 20 MB",
        f"{size / 1e6:.1f} MB",
        size <= 20e6,
    )


def _best_s(call: Callable[[], object], repeats: int = 7) -> float:
    """Shortest wall time of `call`: what it takes where nothing else runs. [s]"""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def step_time_bars(decode: Decode, costs: pd.DataFrame) -> list[Bar]:
    """Every bar on step times. `costs`: `verify_costs`."""
    rows = decode.shipped
    parts: Sequence[Iterator[Bar]] = (
        decode_bars(rows),
        quarantine_bars(rows),
        peer_bars(decode.as_named),
        ratio_bars(rows),
        verify_bars(costs),
        scan_bars(),
        latent_attention_bar(),
        speed_bars(),
    )
    return [bar for part in parts for bar in part]


def bars_section(title: str, said: str, bars: Sequence[Bar]) -> str:
    """A section of docs/validation.md: how many bars are met, what to know of them, and each with
    its figure."""
    met = sum(bar.met is True for bar in bars)
    lines = [(bar.what, bar.bar, bar.figure, bar.status) for bar in bars]
    table = markdown_table(("what", "bar", "figure", "status"), lines)
    return f"## {title}\n\n{met} of {len(bars)} met. {said}\n\n{table}"


def bars_of_step_times(bars: Sequence[Bar]) -> str:
    """The section on step times."""
    said = (
        "Plain decode is judged with the constants of small launches fitted without the point's "
        "own model. Chosen on these points and kept when a model is left out: the forms, vLLM's "
        "0.18 border, SGLang's constant for every layer instead of one for norms, TensorRT-LLM's "
        "fp8 cache. So this is a development score."
    )
    return bars_section("Bars of step times", said, bars)


CURVES = MEASUREMENTS / "verify_cost_curve"
QUERIES = (1, 2, 4, 8)
"""Tokens that a sequence verifies: the curve says how many a step has, not whose they are. [-]"""


def verify_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Measured and predicted steps of the target curve, for each sharing of its tokens in QUERIES.

    Columns: tokens, queries, measured_s, predicted_s, measured and predicted (ratios to the step of
    one token). Only inside captured graphs: the jump beyond is the engine's. `frame` is
    measurements/verify_cost_curve.
    """
    rows = frame[(frame["curve"] == "target_verify_step") & (frame["in_graph_range"] == 1)]
    point = rows.iloc[0]
    setup = load_setup(
        build_scenario(
            hardware_id=point["hardware_id"],
            n_gpus=int(point["gpu_count"]),
            tensor_parallel=int(point["tensor_parallel"]),
            engine=str(point["engine"]).lower(),
            model_id=point["model_id"],
            drafter_id="mtp",
            acceptance="2.0@3",
            context_tokens=int(point["context_tokens"]),
            k_max=max(QUERIES) - 1,
        )
    )
    measured = rows.set_index("x_nominal")["time_ms"] / 1e3
    alone_s = float(curve_for(setup, [1], [0]).plain_step_s[0])
    found = []
    for queries in QUERIES:
        tokens = measured.index[measured.index % queries == 0].to_numpy()
        curve = curve_for(setup, tokens / queries, [queries - 1])
        found.append(
            pd.DataFrame(
                {
                    "tokens": tokens,
                    "queries": queries,
                    "measured_s": measured[tokens].to_numpy(),
                    "predicted_s": curve.verify_step_s[:, 0],
                    "measured": measured[tokens].to_numpy() / measured[1],
                    "predicted": curve.verify_step_s[:, 0] / alone_s,
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def ratio_error(costs: pd.DataFrame, queries: int) -> float:
    """Median error of T(t)/T(1) at one sharing of the tokens. [-]"""
    rows = costs[(costs["queries"] == queries) & (costs["tokens"] > 1)]
    return float(np.median(np.abs(rows["predicted"] / rows["measured"] - 1.0)))


def verify_cost_section(costs: pd.DataFrame) -> str:
    """The section of docs/validation.md."""
    body = []
    for queries, rows in costs.groupby("queries"):
        step, ratio = (
            rows[f"predicted{unit}"] / rows[f"measured{unit}"] - 1.0 for unit in ("_s", "")
        )
        body.append(
            (
                queries,
                len(rows),
                percent(float(step.abs().median())),
                percent(float(step.median())),
                percent(ratio_error(costs, int(str(queries)))),
                percent(float(np.quantile(ratio.abs(), 0.9))),
                percent(float(ratio.median())),
            )
        )
    header = (
        "tokens per sequence",
        "n",
        "step: median error",
        "bias",
        "T(t)/T(1): median error",
        "p90",
        "bias",
    )
    return (
        "## Step time against verified tokens\n\nThe only direct measurement (vLLM post of "
        "2026-08-14, figure 2): "
        "DeepSeek-V4-Flash on four B300, steps of 1 to 1,024 tokens inside captured graphs, 8,192 "
        "tokens of context. "
        "Nothing is fitted on it. The figure does not say how many sequences share the tokens, "
        "and its context is "
        "synthetic, so that equal tokens may touch fewer experts than served ones.\n\n"
        + markdown_table(header, body)
    )


if __name__ == "__main__":
    main()
