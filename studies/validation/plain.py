"""Plain decode of the kernel package's silicon points and of published rates, ours and
AIConfigurator's, in seconds.

`python -m studies.validation.plain` prints how right it is by the shipped constants;
`studies.validation.step_times` judges with those chosen on these points left out by model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from advisor.catalog.engines import OTHER_ENGINE, engine_called
from advisor.catalog.kernel_choice import ActivationScales
from advisor.catalog.models import load_model, model_ids, model_profile
from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.physics.step import launched_layers, norm_symbols
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.prefill import prefill_shares_s
from advisor.predict.scenario import build_scenario
from advisor.predict.setup import Setup, with_own_costs
from advisor.prediction import AdvisorError
from advisor.profiles import MEASUREMENTS, PROFILES
from advisor.text import frame_csv
from studies.validation.ratios import ratios_table
from studies.validation.silicon import (
    GROUP,
    POINTS,
    REQUESTS,
    SCENARIO_FORMATS,
    SETTINGS,
    SHORTEST,
    chosen_formats,
    drawn_shares,
    expressible,
    near_duplicates,
    placement_of,
    read_quarantine,
)
from studies.validation.tables import markdown_table, percent

LAUNCHES = ("n_layers", "normed_layers", "launch_per_layer_s", "query_key_norm_s")
"""What the prediction charges for small launches."""
PREDICTED = (
    "gpus",
    "served_batch",
    "predicted_s",
    "step_s",
    "predicted_end_to_end_s",
    "tier",
    *LAUNCHES,
)


def plain_decode(
    frame: pd.DataFrame, scales: ActivationScales = "static", as_named: bool = False
) -> pd.DataFrame:
    """Measured and predicted time per output token, for the points that a scenario can express.

    Predicted: the plain step at the mean context plus the prefill that shares the GPU, at the batch
    that fits there where more was asked for. End to end, (TTFT + (OSL - 1) TPOT) / OSL: by Little's
    law the step and the whole prefill of the sequences in flight, whatever the engine does first;
    those that wait for memory count as in flight. Where lengths were drawn, at the shares of slots
    and prompts that a request met (`silicon.drawn_shares`).

    Columns: POINTS, end_to_end_s, PREDICTED, near_duplicate, and `rule`, by which a point stands in
    the quarantine (else empty). `frame` is `store.plain_decode_points`; `scales` are those of
    quantised products; `as_named` leaves lengths, runs and caches as the points name them, as
    another tool is asked.
    """
    points = expressible(frame, as_named)
    keys = [name for name in (*SETTINGS, *SCENARIO_FORMATS, "drawn") if name != "batch_size"]
    judged = [
        rows
        for _, group in points.groupby(keys, sort=False)
        if (rows := _predicted(group, scales)) is not None
    ]
    rows = (
        pd.concat(judged).sort_index().reset_index(drop=True)
        if judged
        else points.assign(**dict.fromkeys(PREDICTED))
    )
    rule = rows["point_id"].map(read_quarantine().set_index("point_id")["rule"]).fillna("")
    tokens = rows["output_tokens"]
    end_to_end_s = (rows["ttft_s"] + (tokens - 1) * rows["measured_s"]) / tokens
    return rows[[*POINTS, *PREDICTED]].assign(
        end_to_end_s=end_to_end_s, near_duplicate=near_duplicates(rows), rule=rule
    )


def _predicted(group: pd.DataFrame, scales: ActivationScales) -> pd.DataFrame | None:
    """Points that differ in batch alone, with their prediction. None where no scenario or no
    sequence fits."""
    try:
        setup = plain_setup(group.iloc[0].to_dict())
        setup = setup if scales == "static" else with_own_costs(setup, scales=scales)
    except AdvisorError:
        return None
    fits = setup.memory.largest_batch
    if fits == 0:
        return None
    served = group["batch_size"].clip(upper=fits)
    in_flight, others = drawn_shares() if group["drawn"].all() else (1.0, 1.0)
    flying = (in_flight * group["batch_size"]).clip(lower=1.0, upper=fits)
    batches, where = np.unique(flying.to_numpy(float), return_inverse=True)
    curve = curve_for(setup, batches, [0])
    norm = norm_symbols(setup.architecture, setup.costs)
    launch = (
        launched_layers(setup.architecture, setup.costs),
        norm["L_q"],
        setup.costs.launch_per_layer_s,
        norm["c_q"],
    )
    prompts_s, own_s = prefill_shares_s(setup, batches)
    whole_s = curve.plain_step_s + prompts_s
    judged_s = curve.plain_step_s + others * (prompts_s - own_s)
    return group.assign(
        gpus=setup.placement.gpus,
        served_batch=served,
        predicted_s=judged_s[where],
        step_s=curve.plain_step_s[where],
        predicted_end_to_end_s=whole_s[where] * group["batch_size"] / served,
        tier=curve.tier[where, 0].astype(str),
        **dict(zip(LAUNCHES, launch, strict=True)),
    )


def plain_setup(point: Mapping[str, Any]) -> Setup:
    """Setup of a point of `expressible`, at its mean context. Raises AdvisorError where no scenario
    expresses it."""
    placement = placement_of(point)
    lengths = {name: int(point[name]) for name in ("input_tokens", "output_tokens")}
    return load_setup(
        build_scenario(
            hardware_id=point["hardware_id"],
            n_gpus=placement.gpus,
            tensor_parallel=placement.tensor_parallel,
            expert_parallel=placement.expert_parallel,
            engine=point["engine"],
            model_id=point["model_id"],
            drafter_id="ngram",
            acceptance="1.5@1",
            k_max=1,
            **lengths,
            **chosen_formats(point),
        )
    )


def judged_plain_decode() -> pd.DataFrame:
    """Plain decode (`plain_decode`) judged with the store here. Raises AdvisorError without one."""
    with open_store(default_store_path()) as opened:
        return plain_decode(plain_decode_points(opened))


def main() -> None:
    """Print the figures of plain decode."""
    sys.stdout.write(overview(judged_plain_decode()) + "\n")


LIGHT = 0.9
"""Where the plain step is less of the predicted time than this, prefill is a tenth or more: heavy.
[-]"""
NEAR = 0.15
FAR = 0.25
FAR_POINTS = 20
"""A group is near within NEAR; one of FAR_POINTS points or more beyond FAR needs a named cause.
[-]"""


def errors_s(
    rows: pd.DataFrame, predicted: str = "predicted_s", measured: str = "measured_s"
) -> np.ndarray:
    """Relative error |predicted / measured - 1| of each row. [-]"""
    return np.abs(rows[predicted].to_numpy(float) / rows[measured].to_numpy(float) - 1.0)


def figures_s(
    rows: pd.DataFrame, predicted: str = "predicted_s", measured: str = "measured_s"
) -> tuple[int, float, float, float]:
    """(n, median error, 90 % within, median bias) of rows. NaN without rows."""
    if rows.empty:
        return 0, np.nan, np.nan, np.nan
    error = errors_s(rows, predicted, measured)
    ratio = rows[predicted].to_numpy(float) / rows[measured].to_numpy(float)
    return (
        len(rows),
        float(np.median(error)),
        float(np.quantile(error, 0.9)),
        float(np.median(ratio) - 1.0),
    )


def is_moe(rows: pd.DataFrame) -> pd.Series:
    """Whether each row's model has routed experts."""
    known = {
        model_id: load_model(model_id).moe is not None for model_id in rows["model_id"].unique()
    }
    return rows["model_id"].map(known).astype(bool)


def is_heavy(rows: pd.DataFrame) -> pd.Series:
    """Whether prefill is a tenth or more of each row's predicted time per token."""
    return rows["step_s"] < LIGHT * rows["predicted_s"]


def kinds(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows by kind: all of them, MoE, dense, heavy, by engine, by weights."""
    yield "all", rows
    moe = is_moe(rows)
    heavy = is_heavy(rows)
    yield "MoE", rows[moe]
    yield "dense", rows[~moe]
    yield "heavy (prefill >= 1/10)", rows[heavy]
    for engine, group in rows.groupby("engine"):
        yield str(engine), group
    for weights, group in rows.groupby("weight_dtype"):
        yield f"weights {weights}", group


def groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Figures of each GROUP, worst first: n, median error, 90 % within and median bias."""
    found: list[dict[str, Any]] = []
    for key, group in rows.groupby(list(GROUP)):
        n, median, p90, bias = figures_s(group)
        found.append(
            dict(zip(GROUP, key, strict=True))
            | {"n": n, "median": median, "p90": p90, "bias": bias}
        )
    table = pd.DataFrame(found, columns=[*GROUP, "n", "median", "p90", "bias"])
    return table.sort_values("median", ascending=False, ignore_index=True)


def believed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are judged: not in the quarantine, a measurement listed twice once."""
    return rows[(rows["rule"] == "") & ~rows["near_duplicate"]]


def overview(rows: pd.DataFrame) -> str:
    """The figures of plain decode on one screen: kinds of points, groups, ratios between
    choices."""
    judged = believed(rows)
    return "\n\n".join(
        (kinds_table(rows), groups_line(judged), groups_table(judged), ratios_table(judged))
    )


def kinds_table(rows: pd.DataFrame) -> str:
    """Errors of all points, of those after the quarantine, and of these, each measurement once, by
    kind."""
    judged = believed(rows)
    lines = [("all points", *_cells(rows)), ("after quarantine", *_cells(rows[rows["rule"] == ""]))]
    lines += [("each measurement once", *_cells(judged))]
    lines += [(f"- {name}", *_cells(kind)) for name, kind in kinds(judged)][1:]
    whole = judged.assign(
        predicted_s=judged["predicted_end_to_end_s"], measured_s=judged["end_to_end_s"]
    )
    heavy = is_heavy(judged)
    lines += [
        ("end to end, (TTFT + decode) / OSL", *_cells(whole)),
        ("- heavy, end to end", *_cells(whole[heavy])),
    ]
    return markdown_table(("points", "n", "median", "p90", "bias"), lines)


def groups_line(judged: pd.DataFrame) -> str:
    """Mean of the group medians, the share of groups that are near, and how many large ones are
    far."""
    table = groups(judged)
    whole = groups(
        judged.assign(
            predicted_s=judged["predicted_end_to_end_s"], measured_s=judged["end_to_end_s"]
        )
    )
    far = table[(table["n"] >= FAR_POINTS) & (table["median"] > FAR)]
    return (
        f"{len(table)} groups (model, engine, accelerator, weights): mean of their medians "
        f"{percent(float(table['median'].mean()))}, within {NEAR:.0%}: "
        f"{percent(float((table['median'] <= NEAR).mean()))}; of {FAR_POINTS} points or more "
        f"beyond {FAR:.0%}: {len(far)}. End to end: {percent(float(whole['median'].mean()))}, "
        f"within {NEAR:.0%}: {percent(float((whole['median'] <= NEAR).mean()))}."
    )


def groups_table(judged: pd.DataFrame) -> str:
    """The groups, worst first."""
    lines = [
        (*row[:5], *(percent(share) for share in row[5:]))
        for row in groups(judged).itertuples(index=False, name=None)
    ]
    return markdown_table(
        ("model", "engine", "accelerator", "weights", "n", "median", "p90", "bias"), lines
    )


def _cells(rows: pd.DataFrame) -> tuple[object, ...]:
    n, *shares = figures_s(rows)
    return (n, *(percent(share) for share in shares))


def decode_section(rows: pd.DataFrame, shipped: pd.DataFrame, bare: pd.DataFrame) -> str:
    """The section of docs/validation.md.

    `rows`: judged, small launches fitted without the point's model; `shipped`: with those that are
    shipped; `bare`: with none that was chosen on these points.
    """
    in_flight, others = drawn_shares()
    apart = rows[rows["rule"] != ""]
    runs = apart["model_id"] + " " + apart["version"]
    by_rule = [
        (rule, len(group), ", ".join(sorted(set(runs[group.index]))))
        for rule, group in apart.groupby("rule")
    ]
    variants = {
        "fitted without the point's model": rows,
        "as shipped": shipped,
        "none chosen on these points": bare,
    }
    by_variant = [(name, *_cells(believed(each))) for name, each in variants.items()]
    return (
        "## Plain decode: time per output token\n\nPoints of the measured-kernel package "
        "(silicon_sample.csv): "
        "aggregated serving, placements a scenario can express, a point and its alias once. "
        "Predicted: plain step at "
        "the mean context plus the prefill that shares the GPU, at the batch that memory holds. "
        "8-bit checkpoints but "
        "Llama's are scaled by blocks, whatever the table calls them. InferenceX's lengths are "
        "drawn from 0.8 of those "
        f"named up to those, {REQUESTS} requests a slot, and judged so: "
        f"{(1.0 + SHORTEST) / 2.0:g} of each length in "
        f"the mean, {in_flight:.3f} of the slots and {others:.3f} of the other slots' prompts met "
        "while decoding, the "
        "cache in the format of its script of the day "
        "(profiles/validation/plain_decode_caches.csv).\n\n"
        "Small launches that no kernel table holds are the only constants fitted on these points, "
        "so each point is "
        "judged with those fitted without its model:\n\n"
        + markdown_table(("small launches", "n", "median", "p90", "bias"), by_variant)
        + "\n\n"
        + kinds_table(rows)
        + "\n\nEnd to end is judged by Little's law, which does not ask whether an engine mixes "
        "prompts into steps or "
        "runs them first.\n\n"
        f"Quarantine: {len(apart)} of {len(rows)} points, found by rules on measured fields and "
        "physics, listed with a "
        "reason each in profiles/validation/plain_decode_quarantine.csv; no rule sees a "
        "prediction. Its thresholds "
        "were set so that the list keeps to 5 % of the points. Points within 0.5 % of another of "
        "the same setting and "
        "version count once.\n\n"
        + markdown_table(("rule", "points", "runs"), by_rule)
        + f"\n\n{groups_line(believed(rows))}\n\n{groups_table(believed(rows))}"
    )


RATES = MEASUREMENTS / "decode_no_sd"
COOKBOOK = "sgl-cookbook benchmark page"
"""Rows that are judged and never fitted: their speculative counterparts are kept for outside
validation."""
LONG_ANSWER = 256
"""Output tokens below which a closed loop prefills more than it decodes. [-]"""
QUEUED = 1.25
"""End-to-end time per token over time per output token from which a request mostly waits or
prefills. [-]"""
GROUPS_IN_NOTES = "data-parallel attention"


def not_steady(row: Mapping[str, Any]) -> str:
    """Reason why a row is no steady state of its batch. Empty where it may be one. Sees measured
    fields alone."""
    if np.isnan(_time_s(row)):
        return "no time per token"
    if row["concurrency"] > 1 and pd.isna(row["output_tokens"]):
        return "lengths not stated"
    if row["concurrency"] > 1 and row["output_tokens"] < LONG_ANSWER:
        return f"answers under {LONG_ANSWER} tokens"
    whole_s = row["concurrency"] / row["output_tok_per_s"]
    if row["concurrency"] > 1 and whole_s > QUEUED * _time_s(row):
        return "waits or prefills more than it decodes"
    return ""


def _time_s(row: Mapping[str, Any]) -> float:
    """Time per output token of a request: the mean where it is printed, else the median, else the
    rate's. [s]"""
    for name in ("mean_tpot_ms", "median_tpot_ms"):
        if not pd.isna(row[name]):
            return float(row[name]) / 1e3
    return float(row["concurrency"] / row["output_tok_per_s"])


def decode_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows that a scenario can express, with measured and predicted seconds.

    row_id, source, model_id, hardware_id, engine, batch_size, measured_s, predicted_s, not_steady
    (the rule, else empty), cookbook (whether it is one of COOKBOOK).
    """
    found = []
    for row in frame.to_dict("records"):
        predicted = _of_rate(row)
        if predicted is None:
            continue
        found.append(
            {
                "row_id": row["row_id"],
                "source": row["source_title"],
                "model_id": row["model_id"],
                "hardware_id": row["hardware_id"],
                "engine": row["engine"],
                "batch_size": int(row["concurrency"]),
                "measured_s": _time_s(row),
                "predicted_s": predicted[0],
                "not_steady": not_steady(row),
                "cookbook": row["source_title"] == COOKBOOK,
            }
        )
    return pd.DataFrame(found)


def end_to_end_rates(frame: pd.DataFrame, least_prompt: int) -> pd.DataFrame:
    """Published rows with prompts of `least_prompt` tokens and more on several GPUs: seconds of a
    token end to end.

    Columns row_id, source, measured_s and predicted_s, both by Little's law: the requests over the
    output rate, those that wait for memory among them.
    """
    stated = frame[["output_tok_per_s", "output_tokens"]].notna().all(axis=1)
    long = frame[stated & (frame["input_tokens"] >= least_prompt) & (frame["gpu_count"] > 1)]
    names = ("row_id", "source_title", "concurrency", "output_tok_per_s")
    rows = [
        (*(row[name] for name in names), *predicted)
        for row in long.to_dict("records")
        if (predicted := _of_rate(row)) is not None
    ]
    found = pd.DataFrame(
        rows, columns=["row_id", "source", "requests", "rate", "predicted_s", "served"]
    )
    found["predicted_s"] *= found["requests"] / found.pop("served")
    found["measured_s"] = found.pop("requests") / found.pop("rate")
    return found


def _of_rate(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Time per output token of the row's scenario, and the requests that fit: [s], [-]. None where
    it has none."""
    if row["model_id"] not in model_ids() or pd.isna(row["gpu_count"]):
        return None
    gpus = int(row["gpu_count"])
    engine = engine_called(str(row["engine"]), forks=True)
    moe = load_model(row["model_id"]).moe is not None
    expert = 1 if pd.isna(row["expert_parallel"]) or not moe else int(row["expert_parallel"])
    tensor = gpus if pd.isna(row["tensor_parallel"]) else int(row["tensor_parallel"])
    if GROUPS_IN_NOTES in str(row["notes"]) and moe:
        tensor = 1
        expert = gpus
    lengths = {} if pd.isna(row["output_tokens"]) else {"output_tokens": int(row["output_tokens"])}
    if not pd.isna(row["input_tokens"]):
        lengths["input_tokens" if lengths else "context_tokens"] = int(row["input_tokens"])
    try:
        setup = load_setup(
            build_scenario(
                hardware_id=row["hardware_id"],
                n_gpus=gpus,
                tensor_parallel=tensor,
                expert_parallel=expert,
                engine=engine.id if engine else OTHER_ENGINE,
                model_id=row["model_id"],
                drafter_id="ngram",
                acceptance="1.5@1",
                k_max=1,
                **lengths,
                **_format(str(row["weight_dtype"]), row["model_id"]),
            )
        )
        if setup.memory.largest_batch < 1:
            return None
        batch = min(float(row["concurrency"]), float(setup.memory.largest_batch))
        return float(curve_for(setup, [batch], [0]).tpot_s[0, 0]), batch
    except AdvisorError:
        return None


def _format(text: str, model_id: str) -> dict[str, str]:
    """weight_dtype of the scenario. Nothing for the checkpoint's own."""
    if text == "fp8":
        if load_model(model_id).dtypes.dense == "fp8_block":
            return {}  # the checkpoint itself, whatever its experts are stored in
        released = {each.weight_format for each in model_profile(model_id).published_formats}
        return {"weight_dtype": "fp8_block" if "fp8_block" in released else "fp8"}
    return {"weight_dtype": text} if text in ("bf16", "nvfp4", "fp8_block") else {}


def decode_rates_section(rows: pd.DataFrame) -> str:
    """The section of docs/validation.md."""
    steady = rows[rows["not_steady"] == ""]
    kinds = [
        ("all", rows),
        ("steady", steady),
        ("... of the SGLang cookbook", steady[steady["cookbook"]]),
    ]
    kinds += [("... of the others", steady[~steady["cookbook"]])]
    kinds += [
        (f"not steady: {why}", group)
        for why, group in rows[rows["not_steady"] != ""].groupby("not_steady")
    ]
    by_kind = [(name, *_decode_cells(group)) for name, group in kinds]
    by_source = [
        (*key, *_decode_cells(group))
        for key, group in steady.groupby(["source", "model_id", "hardware_id", "engine"])
    ]
    return (
        "## Published decode rates without speculation\n\nNever fitted. A row is set apart by "
        "rule on what it states: "
        f"answers under {LONG_ANSWER} tokens, lengths not stated, or an end-to-end time per token "
        f"more than {QUEUED} "
        "times its time per output token. Rows of the SGLang cookbook are judged and never "
        "fitted. Lengths are caps of "
        "random draws in most sources, so contexts are at most those.\n\n"
        + markdown_table(("rows", "n", "median error", "p90", "bias"), by_kind)
        + "\n\nSteady ones by source:\n\n"
        + markdown_table(
            ("source", "model", "accelerator", "engine", "n", "median error", "p90", "bias"),
            by_source,
        )
    )


def _decode_cells(rows: pd.DataFrame) -> tuple[object, ...]:
    n, *shares = figures_s(rows)
    return (n, *(percent(share) for share in shares))


PEER = PROFILES.parent / "docs" / "peer" / "aiconfigurator.csv"
"""Its answers, one line a point; the first line says which version answered when, and how fast both
tools are."""
WAYS = {"checkpoint": "by checkpoint", "format": "by format"}
"""How the tool was asked first: by its configuration of the release, or by the formats that the
points name."""
COLUMNS = ("point_id", *(f"{name}_{way}" for way in WAYS for name in ("tpot_s", "ttft_s")))


@dataclass(frozen=True)
class PeerRun:
    """One run of the tool over the points."""

    version: str
    date: str
    """Day of the run, YYYY-MM-DD."""
    asked: int
    """Points asked for; those without an answer are not in the file."""
    seconds_per_point: float
    """Median, its tables being in memory. [s]"""
    own_seconds_per_point: float
    """Ours on the same machine, setups included. [s]"""
    how: str
    """How it was asked, in words."""


def write_peer(answers: pd.DataFrame, run: PeerRun, path: Path = PEER) -> None:
    """Write a run: its description as a comment, then COLUMNS of the points that were answered.

    `answers` has a line for each point and way: point_id, first (of WAYS), tpot_s and ttft_s.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    wide = answers.pivot(index="point_id", columns="first", values=["tpot_s", "ttft_s"]).dropna()
    wide.columns = [f"{name}_{way}" for name, way in wide.columns]
    lines = frame_csv(wide.reset_index()[list(COLUMNS)], float_format="%.4g")
    path.write_text(f"# {json.dumps(run.__dict__)}\n{lines}", encoding="utf-8")


def read_peer(path: Path = PEER) -> tuple[PeerRun, pd.DataFrame]:
    """The last run, and its answers in seconds, COLUMNS."""
    with path.open(encoding="utf-8") as lines:
        run = PeerRun(**json.loads(lines.readline().removeprefix("# ")))
    return run, pd.read_csv(path, comment="#")


def side_by_side(judged: pd.DataFrame, answers: pd.DataFrame, way: str) -> pd.DataFrame:
    """The judged rows that the tool answered, with peer_s and peer_end_to_end_s of one of WAYS."""
    named = {f"tpot_s_{way}": "peer_s", f"ttft_s_{way}": "peer_ttft_s"}
    both = judged.merge(answers[["point_id", *named]].rename(columns=named), on="point_id")
    tokens = both["output_tokens"]
    return both.assign(
        peer_end_to_end_s=(both["peer_ttft_s"] + (tokens - 1) * both["peer_s"]) / tokens
    )


def compared(both: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str, str, str]]:
    """(kind, rows, measured, ours, theirs: columns) of each kind of point. Heavy ones also end to
    end."""
    for name, rows in kinds(both):
        yield name, rows, "measured_s", "predicted_s", "peer_s"
    whole = ("end_to_end_s", "predicted_end_to_end_s", "peer_end_to_end_s")
    yield "end to end", both, *whole
    yield "heavy, end to end", both[is_heavy(both)], *whole


def groups_closer(both: pd.DataFrame) -> tuple[int, int]:
    """(groups in which our median error is smaller, groups)."""
    closer = [
        float(np.median(errors_s(group))) < float(np.median(errors_s(group, "peer_s")))
        for _, group in both.groupby(list(GROUP))
    ]
    return sum(closer), len(closer)


def peer_section(judged: pd.DataFrame, path: Path = PEER) -> str:
    """The section of docs/validation.md. `judged`: plain decode as named (`plain_decode`),
    `believed`."""
    if not path.is_file():
        return "## Beside AIConfigurator\n\nNot run here; `make bench-peer` does."
    run, answers = read_peer(path)
    by_way = [side_by_side(judged, answers, way) for way in WAYS]
    body = []
    for (name, rows, measured, ours, theirs), (_, other, *_) in zip(
        *map(compared, by_way), strict=True
    ):
        figures = (
            figures_s(rows, ours, measured),
            *(figures_s(each, theirs, measured) for each in (rows, other)),
        )
        body.append(
            (name, len(rows), *(percent(share) for _, *shares in figures for share in shares))
        )
    header: tuple[str, ...] = ("points", "n", "ours: median", "p90", "bias")
    header += tuple(
        text for way in WAYS.values() for text in (f"AIConfigurator {way}: median", "p90", "bias")
    )
    closer = " and ".join(
        f"{won} of {count} ({way})"
        for way, both in zip(WAYS.values(), by_way, strict=True)
        for won, count in [groups_closer(both)]
    )
    return (
        f"## Beside AIConfigurator\n\nAIConfigurator {run.version} asked for the same points on "
        f"{run.date} "
        f"({run.how}); it answered {len(answers):,} of {run.asked:,}. Same rows for both, after "
        "the quarantine. Closer "
        f"in groups (model, engine, accelerator, weights): {closer}. A point takes it "
        f"{1e3 * run.seconds_per_point:.0f} ms with its tables in memory, us "
        f"{1e3 * run.own_seconds_per_point:.1f} ms, "
        "setups included. Both are asked for the lengths that the points name and a steady batch, "
        "ours with none of "
        "the caches that InferenceX launched; the figures above have lengths drawn, runs and "
        "caches. The points are "
        "shipped with its own tables and were known to its makers.\n\n"
        + markdown_table(header, body)
    )


if __name__ == "__main__":
    main()
