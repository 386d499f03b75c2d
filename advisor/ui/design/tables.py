"""Words and tables of the Design space page: an answer in, frames and sentences out. No Streamlit.

Pieces of the Design space page: the columns of its tables, the laws with their limits, what was ruled out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from advisor.answers.design.answer import DesignAnswer, loss_text, ruled_out, sensitivity_text
from advisor.answers.design.candidates import Candidate, design_words
from advisor.answers.design.grid import CONSTRAINT_TEXT, Objective
from advisor.answers.design.search import pareto_front
from advisor.answers.design.space import DesignSpace
from advisor.show.charts.design import Mark, pareto_chart
from advisor.text import MERITS, typeset
from advisor.ui.design.question import OBJECTIVE_NAMES
from advisor.ui.widgets import accepted_from, plain, show_chart


def headline(answer: DesignAnswer) -> str:
    """The verdict in one line."""
    best, space = answer.recommended, answer.space
    if best is None:
        return "No design keeps every limit"
    if space.baseline_problem:
        return f"Today’s design cannot serve this. {design_words(space, best)} can"
    words = design_words(space, best)
    if keeps_baseline(answer):
        return f"Keep {words[0].lower()}{words[1:]}: nothing searched beats it at equal quality"
    if not answer.clear:
        return f"No design is clearly better; the best guess is {words[0].lower()}{words[1:]}"
    return f"{words}: {_gain_text(answer, best)}"


def _gain_text(answer: DesignAnswer, best: Candidate) -> str:
    """Gain of a design's objective over the baseline's, with its band: `1.19× the baseline's speed (1.09–1.28)`."""
    gain, gain_of = best.objective_gain, MERITS[answer.space.question.objective].gain_of
    return f"{gain.value:.2f}× {gain_of} ({gain.low:.2f}–{gain.high:.2f})"


def below_headline(answer: DesignAnswer) -> str:
    """Gain and price of the headline's design, without the headline, else the whole verdict."""
    best, space = answer.recommended, answer.space
    guessed = answer.verdict.startswith("No design is clearly better than ")
    if best is None or space.baseline_problem or keeps_baseline(answer) or not (answer.clear or guessed):
        return answer.verdict
    own, tpot_s = space.baseline, space.question.mean_tpot_s
    laws = ", ".join(item.text for item in best.quality)
    gain = "" if answer.clear else f"{_gain_text(answer, best)}. "
    return (
        f"{gain}{tpot_s(best.tpot_s) * 1e3:.2f} ms per output token, the baseline "
        f"(top-{own.n_active} of {own.n_experts}) {tpot_s(own.served.tpot_s[:, 0]) * 1e3:.2f} ms. "
        f"{best.total_params / 1e9:.1f} B weights ({best.total_params / own.total_params:.2f}× the baseline's), "
        f"{best.active_params / 1e9:.2f} B active. Training takes {best.training_cost:.2f}× the compute at equal "
        f"tokens. Quality as dense-equivalent size: {laws}."
    )


def baseline_footing(answer: DesignAnswer) -> str:
    """Sentence saying that the baseline's figure is by the fit, and Serve's by measured kernels.

    Empty where none was measured.
    """
    space = answer.space
    if space.measured_tpot_s is None:
        return ""
    fitted_ms = space.question.mean_tpot_s(space.baseline.served.tpot_s[:, 0]) * 1e3
    return (
        f"The baseline’s {fitted_ms:.2f} ms is by the fitted kernels, as every design here; by its own measured ones, "
        f"as on Serve, it is {space.measured_tpot_s * 1e3:.2f} ms at the same K."
    )


def at_batch(answer: DesignAnswer, item: Candidate, batch: float) -> str:
    """Sentence on a design at one of the map's batches, against the baseline there.

    Empty for a batch that is not the map's.
    """
    found = answer.heat_map
    cells = np.argwhere((found.design == item.index) & (found.batches == batch))
    if not len(cells):
        return ""
    row, column = cells[0]
    time_s, own_s = float(found.tpot_s[row, column]), float(baseline_tpot_s(answer)[column])
    return (
        f"At batch {batch:g}, the cell's: {time_s * 1e3:.2f} ms per token, the baseline {own_s * 1e3:.2f} ms "
        f"({own_s / time_s:.2f}× as fast); drafting gains {found.speedup[row, column]:.2f}×."
    )


def keeps_baseline(answer: DesignAnswer) -> bool:
    """Whether the recommended design is the baseline itself."""
    own, best = answer.space.baseline, answer.recommended
    if best is None or best.body or best.expert_width != own.expert_width:
        return False
    same_mix = (best.n_experts, best.n_active) == (own.n_experts, own.n_active)
    return same_mix and bool(np.isclose(best.n_shared, own.n_shared, rtol=1e-5))


def cautious_sentence(answer: DesignAnswer) -> str:
    """Sentence on the design that keeps the quality by the pessimistic law too.

    Empty where it is the recommended one.
    """
    best, safe = answer.recommended, answer.cautious
    if best is None or (safe is not None and safe.index == best.index):
        return ""
    if safe is None:
        return "The quality laws disagree, and no design keeps the baseline's quality by both."
    gain, tpot_ms = safe.objective_gain, answer.space.question.mean_tpot_s(safe.tpot_s) * 1e3
    return (
        f"The quality laws disagree. To keep the quality by both, train {answer.space.describe(safe.index)}: "
        f"{gain.value:.2f}× ({gain.low:.2f}–{gain.high:.2f}) at {tpot_ms:.2f} ms per token."
    )


def compared(answer: DesignAnswer) -> pd.DataFrame:
    """The baseline beside the designs that stand out, where one design may hold several titles."""
    named = {"Recommended": answer.recommended, "Cautious": answer.cautious}
    named |= {MERITS[objective].best: item for objective, item in answer.by_objective.items()}
    rows = [_row(answer.space, item, title) for title, item in named.items() if item is not None]
    return pd.DataFrame([_baseline_row(answer.space), *rows])


def candidates(answer: DesignAnswer) -> pd.DataFrame:
    """The best designs that differ in kind, best first."""
    rows = [_row(answer.space, item, str(rank)) for rank, item in enumerate(answer.top, 1)]
    return pd.DataFrame(rows)


def tokens_per_s_per_gpu(space: DesignSpace, tpot_s: object) -> float:
    """Tokens per second and GPU over the question's batches. [1/s]"""
    question, gpus = space.question, space.setup.placement.gpus
    return float(1.0 / (question.batch_weights * np.asarray(tpot_s, float) * gpus / question.batches).sum())


def _row(space: DesignSpace, item: Candidate, title: str) -> dict[str, object]:
    gain = item.objective_gain
    return {
        "": title,
        "Design": space.describe(item.index),
        "Speedup": space.question.mean_speedup(item.speedup, item.tpot_s),
        "ms per token": space.question.mean_tpot_s(item.tpot_s) * 1e3,
        "Tokens/s per GPU": tokens_per_s_per_gpu(space, item.tpot_s),
        "Gain": gain.value,
        "Band": f"{gain.low:.2f} to {gain.high:.2f}",
        "Quality": item.quality_ratio * 100,
        "By both laws": item.quality_ratio_pessimistic * 100,
        "Total B": item.total_params / 1e9,
        "Active B": item.active_params / 1e9,
        "K": _k_text(item.n_draft),
        "Largest batch": float(item.largest_batch),
    }


def _baseline_row(space: DesignSpace) -> dict[str, object]:
    own = space.baseline
    speedup, tpot_s = own.served.speedup[:, 0], own.served.tpot_s[:, 0]
    return {
        "": "Baseline",
        "Design": own.words,
        "Speedup": space.question.mean_speedup(speedup, tpot_s),
        "ms per token": space.question.mean_tpot_s(tpot_s) * 1e3,
        "Tokens/s per GPU": tokens_per_s_per_gpu(space, tpot_s),
        "Gain": 1.0,
        "Band": "",
        "Quality": 100.0,
        "By both laws": 100.0,
        "Total B": own.total_params / 1e9,
        "Active B": own.active_params / 1e9,
        "K": _k_text(own.served.n_draft[:, 0]),
        "Largest batch": float(space.setup.memory.largest_batch),
    }


def _k_text(drafts: tuple[int, ...] | NDArray[np.int16]) -> str:
    low, high = min(map(int, drafts)), max(map(int, drafts))
    return str(low) if low == high else f"{low} to {high}"


def try_next(answer: DesignAnswer) -> pd.DataFrame:
    """Single changes to the baseline that help, ranked, with their effects in percent."""
    rows = [
        (typeset(item.what), *((gain - 1.0) * 100 for gain in (item.objective_gain, item.speedup_gain, item.tpot_gain)))
        for item in answer.try_next
    ]
    return pd.DataFrame(rows, columns=["Change", "Objective", "Speedup", "Speed per token"])


def sensitivity(answer: DesignAnswer) -> pd.DataFrame:
    """The recommendation under each changed assumption, those that flip it first, worst first."""
    rows = [
        (item.change, item.best_text, item.regret * 100, item.flips)
        for item in sorted(answer.sensitivity, key=lambda x: (not x.flips, -np.nan_to_num(x.regret, nan=np.inf)))
    ]
    return pd.DataFrame(rows, columns=["If", "Best is then", "Cost of keeping the recommended design", "Changes"])


def laws(answer: DesignAnswer, item: Candidate) -> pd.DataFrame:
    """Quality of a design by each law, with what limits the law."""
    eps = answer.space.question.quality_eps
    rows = [
        (
            "Default (arXiv:2507.17702)",
            f"{item.quality_ratio:.1%} of a dense model as good as the baseline; at least {1 - eps:.1%} is kept",
            "Its log bases are inferred. Trained designs differed by about 10%. It does not see shared experts.",
        ),
        (
            "Cautious: the lower of that and N_act x A^-0.30 (arXiv:2507.20534)",
            f"{item.quality_ratio_pessimistic:.1%}",
            "Three published points give exponents of 0.29, 0.30 and 0.34, for designs with 1/8 to 1/48 active.",
        ),
        (
            "Loss difference (arXiv:2509.23678)",
            loss_text(item).capitalize(),
            "Coefficients from secondary notes, no published uncertainty: a note on risk, not a limit of the search.",
        ),
    ]
    return pd.DataFrame(rows, columns=["Law", "This design", "What limits the law"])


def infeasible(answer: DesignAnswer) -> pd.DataFrame:
    """Number of designs that each limit rules out, most first.

    One design may break several.
    """
    counts, total = ruled_out(answer.space), len(answer.space)
    rows = [
        (CONSTRAINT_TEXT[name][0].upper() + CONSTRAINT_TEXT[name][1:], count, count / total * 100)
        for name, count in sorted(counts.items(), key=lambda pair: -pair[1])
    ]
    return pd.DataFrame(rows, columns=["Limit", "Designs ruled out", "Share"])


def under(space: DesignSpace, objective: Objective) -> DesignSpace:
    """The designs of a space ranked by another objective that needs nothing but their speeds."""
    if objective == space.question.objective:
        return space
    question = replace(space.question, objective=objective)
    speedup, tpot_s = (np.asarray(values, float) for values in (space.speedup, space.tpot_s))
    score = question.score(space.setup.placement.gpus, speedup, tpot_s)
    own = space.baseline.served
    own_score = float(question.score(space.setup.placement.gpus, own.speedup, own.tpot_s)[0])
    return replace(space, question=question, score=score, baseline=replace(space.baseline, score=own_score))


def pareto(answer: DesignAnswer, objective: Objective) -> pd.DataFrame:
    """Designs that no other beats in quality and an objective, in its own unit, for `charts.pareto_chart`."""
    space = under(answer.space, objective)
    index = answer.pareto if space is answer.space else pareto_front(space)
    mix = space.mix(index)
    return pd.DataFrame(
        {
            "design": [space.describe(int(i)) for i in index],
            "index": index,
            "quality_ratio": space.dense_equivalent[index] / space.baseline.dense_equivalent,
            "objective": [_shown(space, int(i)) for i in index],
            "n_experts": mix.n_experts,
            "n_active": mix.n_active,
            "n_shared": mix.n_shared,
            "expert_width": space.expert_width[index],
            "speedup": [space.question.mean_speedup(space.speedup[:, i], space.tpot_s[:, i]) for i in index],
            "tpot_ms": [space.question.mean_tpot_s(space.tpot_s[:, i]) * 1e3 for i in index],
        }
    )


def marks(answer: DesignAnswer, objective: Objective, picked: Candidate | None = None) -> list[Mark]:
    """The recommended, the cautious, the picked design and the baseline, each once."""
    space = under(answer.space, objective)
    best, safe = answer.recommended, answer.cautious
    found = [Mark("baseline", "baseline", 1.0, _in_unit(space, space.baseline.score), -1)]
    if best is not None:
        both = safe is not None and safe.index == best.index
        name = "recommended, cautious" if both else "recommended"
        found.append(Mark("recommended", name, best.quality_ratio, _shown(space, best.index), best.index))
    if safe is not None and best is not None and safe.index != best.index:
        found.append(Mark("cautious", "cautious", safe.quality_ratio, _shown(space, safe.index), safe.index))
    if picked is not None and picked.index not in {mark.index for mark in found}:
        found.append(Mark("picked", "picked", picked.quality_ratio, _shown(space, picked.index), picked.index))
    return found


def chart_objectives(answer: DesignAnswer) -> list[Objective]:
    """Objectives that quality is drawn against.

    The question's own first, then speedup and absolute speed.
    """
    return list(dict.fromkeys((answer.space.question.objective, "sd_speedup", "tpot")))


def _shown(space: DesignSpace, index: int) -> float:
    return _in_unit(space, float(space.score[index]))


def _in_unit(space: DesignSpace, score: float) -> float:
    return space.question.value(score) * MERITS[space.question.objective].scale


def line_batches(answer: DesignAnswer) -> tuple[list[int], list[int]]:
    """Batches that the sweeps can be drawn at, and those to begin with.

    The latter are the lowest, one near the target and a high one.
    """
    space, found = answer.space, answer.shared_sweep
    own = int(np.argmin(np.abs(found.mix.n_shared - space.baseline.n_shared)))
    fits = [int(b) for b in found.batches if space.setup.placement.attention_groups <= b <= found.largest_batch[own]]
    if not fits:
        return [int(b) for b in found.batches], []
    target = float(np.exp((space.question.batch_weights * np.log(space.question.batches)).sum()))
    near = min(fits, key=lambda batch: abs(np.log(batch / target)))
    return fits, sorted({fits[0], near, min(fits[-1], 256)})


def baseline_tpot_s(answer: DesignAnswer) -> NDArray[np.float64]:
    """The baseline's time per output token at each batch of the charts. [s]"""
    found = answer.shared_sweep
    own = int(np.argmin(np.abs(found.mix.n_shared - answer.space.baseline.n_shared)))
    return np.asarray(found.tpot_s[:, own], float)


_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn
COLUMNS: dict[str, Any] = {
    "Gain": _number(format="%.2fx", help="Objective divided by the baseline's. Above 1 is better."),
    "Band": _text(help="80% band of the gain."),
    "Speedup": _number(format="%.2fx", help="Over the design's own plain decoding."),
    "ms per token": _number(format="%.2f"),
    "Tokens/s per GPU": _number(format="%.0f"),
    "K": _text(help="Best draft length."),
    "Total B": _number(format="%.1f", help="Billions of parameters."),
    "Active B": _number(format="%.2f", help="Billions of parameters, without embeddings."),
    "Quality": _number(
        format="%.1f%%", help="Size of an equally good dense model, relative to the baseline's, by the default law."
    ),
    "By both laws": _number(format="%.1f%%", help="The lower of the default law and the cautious one."),
    "Largest batch": _number(format="%.0f", help="That fits in memory."),
}


def below_the_title(answer: DesignAnswer) -> None:
    """Gain and price of the recommended design against the baseline, and the cautious law's view."""
    if answer.recommended is None:
        return
    st.markdown(plain(below_headline(answer)))
    if footing := baseline_footing(answer):
        st.caption(plain(footing))
    if cautious := cautious_sentence(answer):
        st.caption(plain(cautious))


def remarks(answer: DesignAnswer) -> None:
    """Remarks on the answer: its accepted length, and its warnings."""
    said = [accepted_from(answer.space), *answer.warnings]
    with st.expander(f"{len(said)} remarks on this answer"):
        st.markdown("\n".join(f"- {plain(one)}" for one in said))


def infeasible_section(answer: DesignAnswer) -> None:
    """Reason that nothing is left, with the nearest design."""
    if answer.infeasible is not None:
        st.error(plain(answer.infeasible.message), icon=":material/block:")


def trade_offs(answer: DesignAnswer, item: Candidate | None, key: str) -> None:
    """Quality against the objective or another speed, where a click on a point picks its design."""
    names = {value: name for name, value in OBJECTIVE_NAMES.items()}
    options = [names[objective] for objective in chart_objectives(answer)]
    name = st.segmented_control("Quality against", options, default=options[0], required=True)
    objective = OBJECTIVE_NAMES[str(name)]
    front = pareto(answer, objective)
    if front.empty:
        return
    chart = pareto_chart(
        front,
        marks(answer, objective, item),
        objective=str(name),
        objective_unit=MERITS[objective].unit,
        quality_eps=answer.space.question.quality_eps,
    )
    show_chart(chart, "design_trade_offs", answer.space.setup.scenario, select_key=key)
    if objective == "sd_speedup":
        st.caption("Wider experts than equal quality needs can raise the ratio, since they slow plain decoding most.")


def next_steps(answer: DesignAnswer) -> None:
    """Single changes ranked by what they bring."""
    st.subheader("Try next: single changes that help", anchor=False)
    if answer.try_next:
        effects = dict.fromkeys(("Objective", "Speedup", "Speed per token"), _number(format="%+.1f%%"))
        st.dataframe(try_next(answer), hide_index=True, column_config=effects)
        st.caption("The expert width is solved again so that the quality stays.")
    else:
        st.info("No single change of experts, active experts or shared experts helps at equal quality.")


def what_would_change(answer: DesignAnswer) -> None:
    """The assumptions that would change the answer, those that do first."""
    if answer.recommended is None:
        return
    st.subheader("What would change the answer", anchor=False)
    st.markdown(plain(sensitivity_text(answer.sensitivity)))
    cost = _number(format="%.1f%%", help="Objective lost by keeping the design; empty: it is then not allowed.")
    st.dataframe(
        sensitivity(answer),
        hide_index=True,
        height=250,
        column_config={"Cost of keeping the recommended design": cost},
    )


def limits(answer: DesignAnswer, item: Candidate | None) -> None:
    """Quality of the picked design by each law, and the number of designs that each limit rules out."""
    st.subheader("Quality laws and their limits", anchor=False)
    if item is not None:
        st.caption(plain(f"For {answer.space.describe(item.index)}"))
        st.table(laws(answer, item).set_index("Law"))
    st.markdown("\n".join(f"- {plain(limit)}" for limit in answer.limits))
    st.subheader("Ruled out", anchor=False)
    total, left = len(answer.space), len(answer.space.candidates)
    st.markdown(f"{total:,} designs were costed; {left:,} keep the quality and meet every limit.")
    st.dataframe(
        infeasible(answer),
        hide_index=True,
        column_config={"Designs ruled out": _number(format="localized"), "Share": _number(format="%.0f%%")},
    )
