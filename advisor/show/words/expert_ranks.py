"""Experts on ranks in sentences, as tables, and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from advisor.answers.expert_ranks import LayoutCost, MovedBytes, RanksAnswer, charged
from advisor.physics import laws
from advisor.physics.hardware import gpus_of_node
from advisor.physics.notes import Note, ranked
from advisor.predict.setup import Setup
from advisor.show.phrases.notes import note_texts
from advisor.show.table import Column, Table

_EVEN = 0.001
"""Changes smaller than this are called none. [-]"""


def verdict(answer: RanksAnswer) -> str:
    """Sentences on the rank that reads most, a round's time against the assumed one, and the best
    layout.

    At the recommended K of experts in order; the best layout is chosen with each at its own.
    """
    setup = answer.setup
    arm = answer.in_order
    k = arm.best
    ranks = setup.placement.expert_parallel
    where = f"{setup.architecture.name} on {ranks} expert-parallel ranks of {setup.hardware.name}"
    at = f"batch {setup.scenario.batch_size:,}, K = {arm.curve.drafts[k]}"
    return (
        f"{where}, {at}: with experts in order the rank that reads most in a layer reads "
        f"{arm.touched[k]:.1f} of its {answer.counts.slots_of_fullest} experts, and the fullest "
        f"serves {arm.pairs_ratio[k]:.2f} times the mean rank's rows. A round takes "
        f"{arm.curve.round_s[0, k] * 1e3:.2f} ms, {_change(arm, answer.assumed, k)} what is "
        f"assumed without counts. {_best(answer)}"
    )


def _change(arm: LayoutCost, base: LayoutCost, k: int) -> str:
    share = float(arm.curve.round_s[0, k] / base.curve.round_s[0, k]) - 1.0
    if abs(share) < _EVEN:
        return "as long as"
    direction = "more" if share > 0 else "less"
    return f"{abs(share):.1%} {direction} than"


def _best(answer: RanksAnswer) -> str:
    best = answer.best
    first = answer.in_order
    if best is first:
        able = "" if answer.fits(answer.quickest) else " and fits in memory"
        return f"No balanced layout that was tried{able} is quicker."
    gain = 1.0 - float(best.curve.tpot_s[0, best.best] / first.curve.tpot_s[0, first.best])
    if gain < _EVEN:
        return "Balancing changes nothing here."
    what = (
        f"{best.redundant} copies of hot experts and a balanced layout"
        if best.redundant
        else "A balanced layout"
    )
    verb = "save" if best.redundant else "saves"
    return f"{what} {verb} {gain:.1%} of the time per token."


def layout_table(answer: RanksAnswer) -> Table[LayoutCost]:
    """Each layout at its own recommended K."""
    return Table(_LAYOUT, answer.arms)


def _at_best(name: str) -> Callable[[LayoutCost], float]:
    """A figure of an arm's curve at its recommended K."""
    return lambda arm: getattr(arm.curve, name)[0, arm.best]


def ms(time_s: float) -> str:
    """A time in milliseconds, two decimals."""
    return f"{time_s * 1e3:.2f}"


_LAYOUT: tuple[Column[LayoutCost], ...] = (
    Column("layout", attrgetter("name"), words=True),
    Column("experts read", lambda arm: arm.touched[arm.best], "{:.1f}".format),
    Column("rows, fullest/mean", lambda arm: arm.pairs_ratio[arm.best], "{:.2f}".format),
    Column("baseline step ms", lambda arm: arm.curve.plain_step_s[0], ms),
    Column("K", lambda arm: arm.curve.drafts[arm.best]),
    Column("round ms", _at_best("round_s"), ms),
    Column("speedup", _at_best("speedup"), "{:.2f}".format),
    Column("80% range", lambda arm: f"{_at_best('low')(arm):.2f}-{_at_best('high')(arm):.2f}"),
    Column("time per token ms", _at_best("tpot_s"), ms),
    Column(
        "copies/GPU",
        attrgetter("extra_bytes"),
        lambda size: f"{size / 1e9:.2f} GB" if size else "-",
    ),
    Column("tier", _at_best("tier"), words=True),
)


def rank_table(answer: RanksAnswer) -> Table[int]:
    """Experts in order by K: the rank that reads most, counted and assumed, and the fullest rank's
    rows."""
    arm = answer.in_order
    assumed = answer.assumed
    touched = answer.counts.touched_overall[arm.curve.drafts]
    columns = (
        Column[int]("K", lambda row: arm.curve.drafts[row]),
        Column[int]("experts touched", lambda row: touched[row], "{:.1f}".format),
        Column[int]("rank that reads most", lambda row: arm.touched[row], "{:.2f}".format),
        Column[int]("assumed", lambda row: assumed.touched[row], "{:.2f}".format),
        Column[int](
            "error", lambda row: assumed.touched[row] / arm.touched[row] - 1.0, "{:+.1%}".format
        ),
        Column[int]("rows, fullest/mean", lambda row: arm.pairs_ratio[row], "{:.2f}".format),
        Column[int]("assumed", lambda row: assumed.pairs_ratio[row], "{:.2f}".format),
    )
    return Table(columns, range(len(arm.curve.drafts)))


def exchange_table(answer: RanksAnswer) -> Table[tuple[MovedBytes, int]]:
    """Bytes of one layer at the rank that receives most, by way of exchange and K.

    Beside them those of all layers, and those of all ranks for each token emitted.
    """
    curve = answer.in_order.curve  # plain decoding, the recommended K, and the longest
    shown_drafts = {0, int(curve.drafts[answer.in_order.best]), int(curve.drafts[-1])}
    rows = [
        (moved, at)
        for moved in answer.moved
        for at, k in enumerate(moved.drafts)
        if k in shown_drafts
    ]
    return Table(_EXCHANGE, rows)


def _moved(label: str, name: str) -> Column[tuple[MovedBytes, int]]:
    return Column(
        label, lambda row: getattr(row[0], name)[row[1]], lambda size: f"{size / 1e6:,.2f} MB"
    )


_EXCHANGE: tuple[Column[tuple[MovedBytes, int]], ...] = (
    Column("exchange", lambda row: row[0].transport.name, words=True),
    Column("K", lambda row: row[0].drafts[row[1]]),
    _moved("dispatch", "dispatch"),
    _moved("combine", "combine"),
    _moved("step, all layers", "per_step"),
    _moved("per emitted token, all ranks", "per_token"),
)


def exchange_text(answer: RanksAnswer) -> str:
    """Sentences on how far tokens travel, and on what the prediction charges for it."""
    if not answer.moved:
        return (
            "Attention and experts share the same ranks: no tokens are exchanged, only all-reduced."
        )
    counts = answer.counts
    setup = answer.setup
    k = int(answer.in_order.curve.drafts[answer.in_order.best])
    nodes = (
        f"; {counts.other_nodes[k]:.2f} other nodes serve it" if counts.other_nodes[k] > 0 else ""
    )
    return (
        f"A token's experts lie on {counts.reached[k]:.2f} ranks, {counts.other_rank[k]:.0%} of "
        f"its choices on other ranks than its own{nodes}. Bytes grow with the K+1 tokens of a "
        f"step, and per emitted token by (K+1) over the accepted length. {_charged_text(setup, k)}"
    )


def _charged_text(setup: Setup, k: int) -> str:
    """What the time of one direction is that of; beyond a node, of which two it is the longer."""
    moved = charged(setup, np.array([k]))
    network = setup.costs.network
    inside = f"{moved.inside[0] / 1e6:.2f} MB"
    counted = "counted as the measured kernels' were (16 bits to each chosen expert)"
    if network is None:
        return (
            f"The time charged is that of {inside} a direction and layer at K = {k}, {counted}, "
            "times the fullest rank's share."
        )
    share = laws.other_nodes(network.ranks_per_node, setup.placement.expert_parallel)
    latency_s = laws.network_wait(X_net=0.0, s=share, t_net=network.t0_s)
    return (
        f"The time charged for a direction and layer at K = {k} is the longer of that of {inside} "
        f"over the links inside a node, {counted}, and that of {moved.outside[0] / 1e6:.2f} MB "
        f"over the network between nodes, {share:.0%} of the messages as they travel, at "
        f"{network.bandwidth_bytes_per_s / 1e9:.0f} GB/s a GPU after {latency_s * 1e6:.0f} us; "
        "bytes times the fullest rank's share."
    )


def notes(answer: RanksAnswer) -> tuple[str, ...]:
    """Notes on where the counts come from and what stays assumed."""
    setup = answer.setup
    placing = answer.placing
    traffic = answer.traffic
    texts = [f"Loads of ranks: {traffic.because}; {answer.counts.n_draws} steps drawn."]
    if len(traffic.folds()) > 1:
        texts.append(
            "Balanced layouts are planned on one half of the sequences and judged on the other."
        )
    elif traffic.kind != "trace":
        texts.append(
            "Balanced layouts are planned on the loads they are judged with: real loads drift "
            "between the two."
        )
    texts.append(
        "Bands hold the doubt of kernels, routing and acceptance, not that of the layout. Choices "
        "of an expert with copies go to one of them by chance; tokens are spread evenly over "
        "ranks before the exchange."
    )
    ranks_per_node = placing.ranks_per_node
    if ranks_per_node is not None and ranks_per_node != gpus_of_node(setup.hardware):
        texts.append(
            f"Nodes of {ranks_per_node} place the experts and count the nodes that serve a token; "
            f"the times are those of nodes of {gpus_of_node(setup.hardware)}, the accelerator's "
            "own."
        )
    crowded = [arm for arm in answer.arms if arm.extra_bytes and not answer.fits(arm)]
    texts += [f"{arm.name}: the copies do not fit in memory at this batch." for arm in crowded]
    return tuple(texts)


def warning_notes(answer: RanksAnswer) -> tuple[Note, ...]:
    """Notes on the trace and on the scenario. That imbalance is assumed is not said where it was
    counted."""
    counted = answer.traffic.kind != "preset"
    of_scenario = (
        note for note in answer.setup.notes if not (counted and note.kind == "imbalance_assumed")
    )
    return ranked([*trace_notes(answer), *of_scenario])


def trace_notes(answer: RanksAnswer) -> list[Note]:
    """Notes on the trace's fit, and on a trace with fewer sequences than the batch."""
    batch = answer.setup.scenario.batch_size
    fewest = min(len(judged) for _, judged in answer.traffic.folds())
    is_few = answer.traffic.kind == "trace" and fewest < batch
    few = [Note.of("trace_of_few", batch=batch, sequences=fewest)] if is_few else []
    return [*answer.traffic.notes, *few]


def document(answer: RanksAnswer) -> dict[str, Any]:
    """Everything as JSON, SI units."""
    exchange = [
        {
            "transport": moved.transport.id,
            "travels": moved.transport.travels,
            "flags": moved.transport.flags,
            "dispatch_bytes": moved.dispatch,
            "combine_bytes": moved.combine,
            "step_bytes": moved.per_step,
            "bytes_per_emitted_token": moved.per_token,
        }
        for moved in answer.moved
    ]
    return {
        "ranks": answer.setup.placement.expert_parallel,
        "origin": answer.traffic.kind,
        "because": answer.traffic.because,
        "routing": answer.traffic.routing,
        "drafts": answer.in_order.curve.drafts,
        "experts_touched": answer.counts.touched_overall[answer.in_order.curve.drafts],
        "layouts": [_arm_document(answer, arm) for arm in answer.arms],
        "exchange": exchange,
        "notes": notes(answer),
        "warnings": note_texts(warning_notes(answer)),
    }


def _arm_document(answer: RanksAnswer, arm: LayoutCost) -> dict[str, Any]:
    curve = arm.curve
    k = arm.best
    plain_step_s = float(curve.plain_step_s[0])
    tiers = [str(tier) for tier in curve.tier[0]]
    return {
        "layout": arm.name,
        "redundant": arm.redundant,
        "slowest_reads": arm.touched,
        "fullest_rows_over_mean": arm.pairs_ratio,
        "plain_step_s": plain_step_s,
        "round_s": curve.round_s[0],
        "speedup": curve.speedup[0],
        "low": curve.low[0],
        "high": curve.high[0],
        "tier": tiers,
        "tpot_s": curve.tpot_s[0],
        "n_draft": int(curve.drafts[k]),
        "extra_bytes_per_gpu": arm.extra_bytes,
        "fits": answer.fits(arm),
    }
