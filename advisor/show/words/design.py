"""A design for training: the answer as flat rows, tables and one document, and values of its dials as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from operator import itemgetter
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from advisor.answers.design.answer import DesignAnswer
from advisor.answers.design.candidates import Band, Candidate, own_design, short_words
from advisor.answers.design.dials import Costed, Dial
from advisor.answers.design.space import DesignSpace
from advisor.answers.design.start import time_in_serve
from advisor.show.table import Column, Table


def candidate_rows(answer: DesignAnswer) -> list[dict[str, Any]]:
    """One flat row for each distinct candidate, best first."""
    rows = []
    for rank, item in enumerate(answer.top, 1):
        row: dict[str, Any] = {"rank": rank}
        for field in fields(Candidate):
            value = getattr(item, field.name)
            if field.name in ("objective_gain", "speedup_gain", "tpot_gain"):
                row |= {
                    f"{field.name}{end}": getattr(value, name)
                    for end, name in (("", "value"), ("_low", "low"), ("_high", "high"), ("_chance", "chance"))
                }
            elif field.name == "quality":
                for law in value:
                    row |= {
                        f"quality_{law.law}{end}": x
                        for end, x in (("", law.ratio), ("_low", law.low), ("_high", law.high))
                    }
            elif field.name == "corners":
                row["corners"] = "; ".join(value)
            elif isinstance(value, tuple):
                batches = answer.space.question.batches
                row |= {f"{field.name}_b{batch:g}": x for batch, x in zip(batches, value, strict=True)}
            else:
                row[field.name] = str(value) if field.name == "tier" else value
        rows.append(row)
    return rows


_TOLD = (
    "headline",
    *("clear", "recommended", "one_law", "infeasible", "top", "binding", "binding_text"),
    *("sensitivity", "dials", "rule", "limits", "warnings"),
)


def answer_document(answer: DesignAnswer) -> dict[str, Any]:
    """The answer as one JSON-able document, whose keys are part of the public contract."""
    space = answer.space
    question = space.question
    return {
        "scenario": space.setup.scenario,
        "scenario_hash": space.setup.scenario.hash,
        **{name: getattr(question, name) for name in ("objective", "batches", "batch_weights")},
        **{name: getattr(question, name) for name in ("quality_eps", "training_tokens")},
        "n_designs": len(space),
        "n_feasible": len(space.candidates),
        "verdict": answer.verdict,
        "baseline": _baseline(space),
        **{name: getattr(answer, name) for name in _TOLD},
        "pareto": [
            {
                "design": space.describe(int(i)),
                "quality": space.quality[:, i],
                "objective": question.value(float(space.score[i])),
            }
            for i in answer.pareto
        ],
    }


def below_headline(answer: DesignAnswer, own_name: str = "today") -> str:
    """The line under the headline: time, quality and weights beside the baseline's, called `own_name`."""
    best, space = answer.recommended, answer.space
    if best is None:
        return answer.verdict.removeprefix(f"{answer.headline}. ")
    own, width = space.baseline, f"{best.expert_width:,}, {_k_text(dict.fromkeys(best.n_draft))}"
    start = f"Width {width} · {_time(space, best.index, best.tpot_s, ' ms per token')}"
    if own_design(space, best):
        return f"{start} · none of {len(space):,} designs of equal quality is faster"
    if space.baseline_problem:
        return f"{start} · {space.baseline_problem}"
    quality, size = f"quality {quality_text(best.quality_range)} by three laws", best.total_params / 1e9
    own_size, own_time, own_k = own.total_params / 1e9, own.served.tpot_s[:, 0], own.served.n_draft[:, 0]
    if answer.clear:
        today = _time(space, None, own_time)
        return f"{start}, {own_name} {today} · {quality} · {size:,.0f}\u00a0B, {own_name} {own_size:,.0f}"
    return (
        f"{_k_text(dict.fromkeys(own_k.tolist()))} · {_time(space, None, own_time, ' ms per token')} · "
        f"{own_size:,.0f}\u00a0B. Alternative: {short_words(space, best)}, width {width} · "
        f"{_time(space, best.index, best.tpot_s, ' ms')} · {quality} · {size:,.0f}\u00a0B"
    )


def _time(space: DesignSpace, index: int | None, tpot_s: ArrayLike, unit: str = "") -> str:
    """A design's time, and what Serve reads where that is another: `7.75 ms per token (Serve: 7.92)`."""
    times = (space.question.mean_tpot_s(tpot_s), time_in_serve(space, index))
    here, there = (f"{1e3 * time_s:.2f}" for time_s in times)
    return f"{here}{unit}" + ("" if there in (here, "nan") else f" (Serve: {there})")


def _k_text(drafts: Iterable[int]) -> str:
    return f"K = {'/'.join(map(str, drafts))}"


def quality_text(ends: tuple[float, float]) -> str:
    """Quality by the lowest and the highest law as `85–104%`."""
    low, high = (f"{share:.0%}" if share <= 2.0 else ">200%" for share in ends)
    return low if low == high else f"{low} to {high}" if high[0] == ">" else f"{low.rstrip('%')}–{high}"


_Line = tuple[str, Callable[[Costed], str]]


def _said(line: _Line, *, of: Costed) -> str:
    return line[1](of)


def dial_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial: `8 of 256`, `1 : 8` or `2,048`."""
    one = dial.designs[at]
    if dial.name == "ratio":
        return f"{one.n_active} of {one.n_experts}"
    return f"{one.n_shared:.3g} : {one.n_active}" if dial.name == "shared" else f"{one.expert_width:,}"


def loss_text(loss: float) -> str:
    """Time lost as a mark says it: `+0%`, `+4%`, or `no design` where nothing keeps the limits."""
    if np.isnan(loss):
        return "no design"
    return "+0%" if loss < 5e-4 else f"+{loss:.1%}" if loss < 0.0095 else f"+{loss:.0%}"


def held_value(dial: Dial, at: SupportsIndex) -> str:
    """One value of a dial where the rest is solved again: k/N of whatever pair, shared experts or width."""
    if dial.name == "ratio":
        return f"1/{1.0 / dial.position[at]:.3g}"
    return f"{dial.position[at]:,.3g}" if dial.name == "shared" else f"{dial.position[at]:,.0f}"


HELD = {"ratio": "k/N", "shared": "shared experts", "width": "expert width"}
"""What each dial holds."""
_MOST_VALUES = 9


def losses_text(dial: Dial) -> str:
    """Time lost at each value of a dial that some design keeps, the baseline's marked."""
    known = np.flatnonzero(~np.isnan(dial.loss))
    index = known[np.linspace(0, len(known) - 1, min(len(known), _MOST_VALUES)).round().astype(int)]
    shown = sorted({*index.tolist(), dial.own, *([] if dial.best is None else [dial.best])})
    values = (
        f"{held_value(dial, at)} {loss_text(float(dial.loss[at]))}{' (baseline)' if at == dial.own else ''}"
        for at in shown
    )
    return f"{HELD[dial.name]}: {', '.join(values)}"


def beside_table(today: Costed, own: Costed, best: Costed | None, own_name: str = "today") -> Table[_Line]:
    """The baseline, called `own_name`, the user's design and the best one, a line for each quantity."""
    lines: tuple[_Line, ...] = (
        ("Experts", lambda one: f"{one.experts.n_active} of {one.experts.n_experts}"),
        ("Shared", lambda one: f"{one.experts.n_shared:.3g}"),
        ("Width", lambda one: f"{one.experts.expert_width:,}"),
        ("K", lambda one: "/".join(map(str, one.n_draft))),
        ("ms/token", lambda one: f"{one.tpot_s * 1e3:.2f}" if one.fits else "does not fit"),
        (f"Speed, {own_name} = 1", lambda one: f"{today.tpot_s / one.tpot_s:.2f}×" if one.fits else ""),
        ("Quality, 3 scaling laws", lambda one: quality_text(one.quality)),
        ("Total, B", lambda one: f"{one.total_params / 1e9:,.1f}"),
        ("Active, B", lambda one: f"{one.active_params / 1e9:.2f}"),
    )
    named = {own_name: today, "mine": own} | ({} if best is None else {"best": best})
    columns = [Column[_Line]("design", itemgetter(0), words=True)]
    columns += [Column[_Line](name, partial(_said, of=one)) for name, one in named.items()]
    return Table(tuple(columns), lines)


def mine_text(today: Costed, own: Costed, own_name: str = "today") -> str:
    """Sentence on what the user's design loses or gains against the baseline. Empty for the baseline itself."""
    if own.experts == today.experts or not own.fits:
        return ""
    gain, mix = today.tpot_s / own.tpot_s - 1.0, own.experts
    speed = f"{abs(gain):.1%} {'faster' if gain >= 0.0 else 'slower'} than {own_name}"
    return (
        f"{mix.n_active} of {mix.n_experts}, width {mix.expert_width:,}: {speed}, quality {quality_text(own.quality)}."
    )


def _baseline(space: DesignSpace) -> dict[str, Any]:
    own = space.baseline
    return (
        {name: value for name, value in vars(own).items() if name not in ("activation", "shape", "served", "score")}
        | {name: values[:, 0] for name, values in vars(own.served).items()}
        | {"objective": space.question.value(own.score)}
    )


def band_text(value: Band) -> str:
    """A figure with its band, `1.50 (1.35-1.65)`."""
    return f"{value.value:.2f} ({value.low:.2f}-{value.high:.2f})"
