"""`make seeds`: the claims of this project's sources, each beside the library's own answer,
computed now.

Prints the table and fails where a claim left the state in profiles/validation/seeds.json without a
decision note that says why. `--write` (`make seeds WRITE=1`) keeps what was found and writes
docs/sources.md; it refuses the same claims. A note says why in a line of docs/decisions that names
the claim and the change: `` `cohere-amdahl`: in part -> reproduced``, or `` `cohere-amdahl`:
drafting over a plain step: no longer 14.3 %``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from advisor.measured.seeds import (
    FOUND,
    STATES,
    TOLERANCE,
    Claim,
    Figure,
    JudgedClaim,
    Ours,
    State,
    read_claims,
    read_findings,
    seeds_table,
)
from advisor.physics.architecture import Architecture
from advisor.physics.touched_experts import expected_experts, touched_experts
from advisor.predict.curve import Curve, curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import by_form
from advisor.prediction import AdvisorError, Array
from advisor.profiles import MEASUREMENTS
from advisor.show.explain.round import citations
from studies.published import read_numbers
from studies.runtime import K_MAX, N_REQUESTS, PaperStudy, paper_study, rows_of, summarise_study
from studies.validation.outside import (
    BATCHES,
    COMMAND_A_PLUS,
    WIDE_BATCHES,
    best_k,
    by_active,
    by_ridge,
    cohere,
    moesd_cells,
    plateau,
)
from studies.validation.tables import markdown_table

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "sources.md"
NOTES = ROOT / "docs" / "decisions"
_B = np.array(BATCHES)


def judge(claim: Claim, quantities: Mapping[str, Ours]) -> JudgedClaim:
    """The state of a claim by the rule at the head of this file. Raises AdvisorError for a quantity
    nobody computes."""
    figures = claim.all_figures()
    missing = [figure.ours for figure in figures if figure.ours not in quantities]
    if missing:
        raise AdvisorError(
            f"{claim.id}: nothing computes {', '.join(missing)}; add it to studies/seeds.py"
        )
    ours = {figure.what: quantities[figure.ours] for figure in figures}
    return JudgedClaim(state=_state(figures, ours), figures=ours)


def _state(figures: Sequence[Figure], ours: Mapping[str, Ours]) -> State:
    if not figures:
        return "not testable"
    held = sum(figure.holds(ours[figure.what].value) for figure in figures)
    return "reproduced" if held == len(figures) else "in part" if held else "disagrees"


def lost(claim: Claim, before: JudgedClaim, now: JudgedClaim) -> list[str]:
    """List how a claim left its state: `old -> new`, and figures that held and hold no more."""
    changed = [f"{before.state} -> {now.state}"] if before.state != now.state else []
    for figure in claim.all_figures():
        was = before.figures.get(figure.what)
        if (
            was is not None
            and figure.holds(was.value)
            and not figure.holds(now.figures[figure.what].value)
        ):
            changed.append(f"{figure.what}: no longer {figure.published}")
    return changed


def write_findings(findings: Mapping[str, JudgedClaim], path: Path = FOUND) -> None:
    """Write what was found, one claim a line."""
    lines = [
        f" {json.dumps(name)}: {json.dumps(_rounded(found.model_dump(exclude_none=True)))}"
        for name, found in findings.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _rounded(found: dict[str, object]) -> dict[str, object]:
    figures: Mapping[str, Mapping[str, float]] = found["figures"]  # type: ignore[assignment]
    # Five digits: a claim never turns on the sixth, and machines differ there.
    short = {
        what: {name: float(f"{x:.5g}") for name, x in ours.items()}
        for what, ours in figures.items()
    }
    return {**found, "figures": short}


def described(claim: Claim, found: JudgedClaim) -> str:
    """A claim over several lines: its state, then each figure published and ours."""
    lines = [f"{found.state.upper():12} {claim.id}: {claim.claim}"]
    for figure in claim.all_figures():
        ours = found.figures[figure.what]
        band = (
            ""
            if ours.low is None or ours.high is None
            else f" ({figure.shown(ours.low)} to {figure.shown(ours.high)})"
        )
        holds = "" if figure.holds(ours.value) else "  <- does not hold"
        lines.append(
            f"    {figure.what}: published {figure.published}, ours "
            f"{figure.shown(ours.value)}{band}{holds}"
        )
    return "\n".join(lines if claim.all_figures() else [*lines, f"    {claim.not_testable}"])


def quantities() -> dict[str, Ours]:
    """Every quantity that profiles/validation/seeds.yaml names, computed. About 15 s on one
    core."""
    return {
        **curve_quantities(),
        **routing_quantities(),
        **design_quantities(),
        **moesd_quantities(),
        **cascade(),
    }


def curve_quantities() -> dict[str, Ours]:
    """Command A+ and dense Command A over batch at K = 3, and their best K."""
    moe, dense = cohere()
    speedup = moe.speedup[:, 0]
    flat = dense.speedup[:, 0]
    sweet = np.flatnonzero((_B >= 4) & (_B <= 16))
    later = np.flatnonzero((_B >= 2) & (_B <= 64))
    best = int(sweet[speedup[sweet].argmax()])
    late = _B >= 64
    plain_s = moe.plain_step_s
    parts = moe.round_components
    # What verified tokens add beyond their kernels is a correction: the decline must not rest on
    # it.
    uncorrected = (
        moe.accepted_length[0] * plain_s / (moe.round_s[:, 0] - _part(parts, "verified", moe))
    )
    ks, dense_ks = best_k()
    found = {
        "cohere/speedup at 1": _banded(moe, 0),
        "cohere/best at 4 to 16": _banded(moe, best),
        "cohere/best over batch 1": _value(speedup[later].max() / speedup[0]),
        "cohere/batch of the best": _value(_B[speedup.argmax()]),
        "cohere/dense rise": _value(_largest_ratio(flat)),
        "cohere/dense at 128": _banded(dense, BATCHES.index(128)),
        "cohere/dense at 256": _banded(dense, BATCHES.index(256)),
        "cohere/rise from 64": _value(_largest_ratio(speedup[late])),
        "cohere/rise from 64 uncorrected": _value(_largest_ratio(uncorrected[late])),
        "cohere/drafting at 1": _value(
            sum(_part(parts, name, moe)[0] for name in ("draft", "draft_host")) / plain_s[0]
        ),
        "cohere/dense R at 1": _value(dense.verify_ratio[0, 0]),
        "cohere/dense best K rise": _value(np.diff(dense_ks).max()),
    }
    for batch in (1, 8, 16, 32, 64):
        found[f"cohere/R at {batch}"] = _value(moe.verify_ratio[BATCHES.index(batch), 0])
    for batch in (1, 16, 32, 64):
        found[f"cohere/best K at {batch}"] = _value(ks[BATCHES.index(batch)])
    for batch in (4, 8, 16, 32, 64):
        found[f"cohere/over dense at {batch}"] = _value((speedup / flat)[BATCHES.index(batch)])
    return found


def routing_quantities() -> dict[str, Ours]:
    """Distinct experts of consecutive tokens by the routing of Command A+, against choices at
    random."""
    setup = load_setup(COMMAND_A_PLUS)
    moe = setup.architecture.moe
    assert moe is not None
    tokens = np.arange(1.0, 5.0)
    correlated = touched_experts(
        1.0, tokens, moe.n_experts, moe.n_active, *setup.routing_parameters()
    )
    saved = 1.0 - correlated / expected_experts(tokens, moe.n_experts, moe.n_active)
    return {
        "cohere/experts of 4": _value(correlated[3]),
        "cohere/experts of 4 over 1": _value(correlated[3] / correlated[0]),
        **{f"cohere/saved at {n}": _value(saved[n - 1]) for n in (2, 3, 4)},
    }


def design_quantities() -> dict[str, Ours]:
    """Command A+ with other k, and with its shared experts routed: speedup over WIDE_BATCHES at K =
    3."""
    curves = {k: _with_experts(k, shared=4) for k in (4, 8, 16)}
    unshared = _with_experts(12, shared=0)
    at = {batch: int(np.abs(WIDE_BATCHES - batch).argmin()) for batch in (1, 64, 256)}
    reach = {k: _reach(curve, 1.5) for k, curve in curves.items()}
    return {
        "cohere/k 4 over 8 at 256": _value(curves[4][at[256]] / curves[8][at[256]]),
        "cohere/k 8 over 16 at 256": _value(curves[8][at[256]] / curves[16][at[256]]),
        "cohere/reach of k 4 over 8": _value(reach[4] / reach[8]),
        "cohere/shared at 1": _value(curves[8][at[1]] / unshared[at[1]]),
        **{
            f"cohere/unshared at {b}": _value(unshared[at[b]] / curves[8][at[b]]) for b in (64, 256)
        },
    }


def _reach(speedup: Array, least: float) -> float:
    """Largest batch of WIDE_BATCHES with a speedup of at least `least`, interpolated on a log axis;
    1 where none is."""
    last = int(np.flatnonzero(speedup >= least).max(initial=0))
    if not 0 < last < len(speedup) - 1:
        return float(WIDE_BATCHES[last])
    share = (speedup[last] - least) / (speedup[last] - speedup[last + 1])
    return float(WIDE_BATCHES[last] * (WIDE_BATCHES[last + 1] / WIDE_BATCHES[last]) ** share)


def _with_experts(n_active: int, shared: int) -> Array:
    """Speedup of Command A+ with another k and number of shared experts, by the form, over
    WIDE_BATCHES."""
    setup = by_form(load_setup(COMMAND_A_PLUS))
    moe = setup.architecture.moe
    assert moe is not None
    width = moe.shared_width // moe.n_shared * shared
    changed = moe.model_copy(
        update={"n_active": n_active, "n_shared": shared, "shared_width": width}
    )
    architecture: Architecture = setup.architecture.model_copy(update={"moe": changed})
    return curve_for(
        dataclasses.replace(setup, architecture=architecture), WIDE_BATCHES, [3]
    ).speedup[:, 0]


MOESD = Scenario(
    hardware_id="a800-80gb-sxm",
    n_gpus=2,
    tensor_parallel=2,
    model_id="qwen2-57b-a14b",
    drafter_id="qwen2-0.5b",
    acceptance="0.9",
    context_tokens=512,
    k_max=4,
)
"""The paper's pair on its first accelerators; the chance is that of its cells at temperature 0."""


def moesd_quantities() -> dict[str, Ours]:
    """MoESD's cells, its curve over batch and its target efficiency."""
    table = moesd_cells(read_numbers(MEASUREMENTS / "moesd_cells"))
    found = {
        f"moesd/{row['cell_id']}": Ours(value=row["predicted"], low=row["low"], high=row["high"])
        for row in table.to_dict("records")
    }
    qwen = table[table["model_id"] == "qwen2-57b-a14b"]
    highest = qwen.loc[qwen["predicted"].idxmax()]
    found["moesd/highest"] = Ours(
        value=highest["predicted"], low=highest["low"], high=highest["high"]
    )
    found["moesd/batch of the highest"] = _value(highest["batch_size"])
    batches = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    curve = curve_for(load_setup(MOESD), batches, [4], verify_tokens=4)
    speedup = curve.speedup[:, 0]
    efficiency = 1.0 / curve.verify_ratio[:, 0]
    plateaus = {k: plateau(values) for k, values in by_active((4, 8, 16, 32)).items()}
    ridge = by_ridge()
    return found | {
        "moesd/best over batch 1": _value(speedup.max() / speedup[0]),
        "moesd/last over best": _value(speedup[-1] / speedup.max()),
        "moesd/efficiency correlation": _value(np.corrcoef(speedup, efficiency)[0, 1]),
        "moesd/best efficiency over batch 1": _value(efficiency.max() / efficiency[0]),
        "moesd/last efficiency over best": _value(efficiency[-1] / efficiency.max()),
        **{
            f"moesd/plateau {k} over {2 * k}": _value(plateaus[k] / plateaus[2 * k])
            for k in (4, 8, 16)
        },
        "moesd/H800 over A800": _value(ridge["h800-sxm"] / ridge["a800-80gb-sxm"]),
    }


@lru_cache(maxsize=1)
def cascade() -> dict[str, Ours]:
    """Cascade's comparison on this project's step times."""
    study = paper_study(n_requests=N_REQUESTS)
    by_drafter = {
        drafter: summarise_study(rows_of(study.rows, drafter)) for drafter in ("ngram", "eagle")
    }
    found: dict[str, Ours] = {}
    for drafter, tail in (("ngram", ""), ("eagle", " eagle")):
        worst = by_drafter[drafter].worst_slowdown
        gains = by_drafter[drafter].gain_over_best_static.values()
        found |= {f"cascade/worst K {k}{tail}": _value(worst[f"static K={k}"]) for k in (1, 2, 3)}
        found[f"cascade/worst Cascade{tail}"] = _value(worst["Cascade"])
        found[f"cascade/least gain{tail}"], found[f"cascade/largest gain{tail}"] = (
            _value(min(gains)),
            _value(max(gains)),
        )
    mixtral = "mixtral-8x7b int4 / ngram"
    cost = study.costs[mixtral].round_time_s[0] / study.costs[mixtral].round_time_s[0, 0]
    bad = [item for item in study.always_bad if item.model.endswith("ngram")]
    found |= {
        "cascade/round at 3": _value(cost[3]),
        "cascade/round at 7": _value(cost[K_MAX]),
        "cascade/speedup of 3.2 tokens": _value(3.2 / cost[K_MAX]),
        "cascade/always bad": _value(max(item.slowdown for item in bad)),
        "cascade/tests": _value(np.mean([item.test_iterations_without_back_off for item in bad])),
        "cascade/tests with back-off": _value(np.mean([item.test_iterations for item in bad])),
        "cascade/best K by model": _value(len(set(by_drafter["ngram"].best_static_k.values()))),
        **_varying(study, mixtral),
    }
    return found


def _varying(study: PaperStudy, model: str) -> dict[str, Ours]:
    """How many K are the best static one of some workload of a model, and what knowing every round
    would gain."""
    rows = [row for row in study.rows if row.model == model]
    static = [row for row in rows if row.policy.startswith("static")]
    works = {row.workload for row in rows}
    best = {
        max((r for r in static if r.workload == work), key=lambda r: r.speedup).policy
        for work in works
    }
    mean = {
        name: np.mean([r.speedup for r in rows if r.policy == name])
        for name in {r.policy for r in rows}
    }
    oracle = next(name for name in mean if name.lower().startswith("oracle"))
    return {
        "cascade/best K by task": _value(len(best)),
        "cascade/oracle gain": _value(mean[oracle] / mean["Cascade"] - 1.0),
    }


def _value(value: float | np.floating[Any]) -> Ours:
    return Ours(value=float(value))


def _banded(curve: Curve, row: int) -> Ours:
    ends = (float(values[row, 0]) for values in (curve.speedup, curve.low, curve.high))
    return Ours(**dict(zip(("value", "low", "high"), ends, strict=True)))


def _part(parts: Mapping[str, Array], name: str, curve: Curve) -> Array:
    """A component of the round over batch, 0 where there is none. [s]"""
    return parts[name][:, 0] if name in parts else np.zeros(len(curve.batches))


def _largest_ratio(values: Array) -> float:
    return float((values[1:] / values[:-1]).max())


def found_now() -> dict[str, JudgedClaim]:
    """Every claim judged on what the library answers now."""
    answers = quantities()
    return {claim.id: judge(claim, answers) for claim in read_claims()}


def unexplained(
    claims: Sequence[Claim],
    before: Mapping[str, JudgedClaim],
    now: Mapping[str, JudgedClaim],
    notes: str,
) -> list[str]:
    """Changes of state that no decision note explains. `notes`: the text of all notes. A new claim
    is no change."""
    said = " ".join(notes.split())
    return [
        f"`{claim.id}`: {change}"
        for claim in claims
        if claim.id in before
        for change in lost(claim, before[claim.id], now[claim.id])
        if f"`{claim.id}`: {change}" not in said
    ]


def decision_notes(folder: Path = NOTES) -> str:
    """The text of all decision notes."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md")))


_HEAD = f"""# What the sources claim, and what comes out here

Written by `make documents` from profiles/validation/seeds.json; do not edit. `make seeds` computes every answer again
and fails where a claim left its state without a note in docs/decisions that says why; `make seeds WRITE=1` keeps what
it found.

A figure holds where ours lies within {TOLERANCE:.0%} of what is published; a direction (at least, at most) has no
tolerance, and *(differs)* marks a figure that does not hold. A claim is *reproduced* where all of its figures hold, *in
part* where some do, and *disagrees* where none does. Nothing is fitted to these figures, but for the overlaps named
below. Bands are 80 %."""  # noqa: E501


def _counts(findings: Mapping[str, JudgedClaim]) -> str:
    counts = Counter(found.state for found in findings.values())
    return f"{len(findings)} claims: {', '.join(f'{counts[state]} {state}' for state in STATES)}."


def page(claims: Sequence[Claim], findings: Mapping[str, JudgedClaim]) -> str:
    """docs/sources.md."""
    table = seeds_table(claims, findings)
    parts = [f"{_HEAD}\n\n{_counts(findings)}"]
    for citation in citations():
        rows = table[table["source"] == citation.id]
        own = [claim for claim in claims if claim.source == citation.id]
        if rows.empty:
            continue
        cells = [
            [str(cell).replace("|", "\\|") for cell in row[1:]]
            for row in rows.itertuples(index=False)
        ]
        remarks = "\n".join(f"- {claim.claim}: {claim.remark}" for claim in own if claim.remark)
        header = ("claim", "published", "ours", "80 % band", "state", "where on screen")
        parts.append(
            f"## {citation.title}\n\n{citation.text} "
            f"<{citation.url}>\n\n{markdown_table(header, cells)}\n\n{remarks}"
        )
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Print the table; with --write, keep it. 1 where a claim left its state unexplained."""
    claims = read_claims()
    now = found_now()
    before = read_findings() if FOUND.exists() else {}
    print(*(described(claim, now[claim.id]) for claim in claims), sep="\n")
    print(_counts(now))
    left = unexplained(claims, before, now, decision_notes())
    if left:
        print(
            "\nLeft their state; say why in a note of docs/decisions, in these words:",
            *left,
            sep="\n  ",
        )
        return 1
    if "--write" in sys.argv:
        write_findings(now)
        DOCUMENT.write_text(page(claims, read_findings()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
