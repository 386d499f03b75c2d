"""The answer in one line and the lines below it: which K, how much faster, what another K costs."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.advice import Advice, gain_text
from advisor.bands import BEST_K_OF_EACH, SIMULATED
from advisor.catalog import drafter_name, hardware_name, model_name, shape_label
from advisor.design import DesignSpace
from advisor.runtime import KRange
from advisor.summary.outcomes import Outcome
from advisor.summary.sure import borrowed_from

_HARDLY = 1.05
"""Choice of this project: a gain below this is called hardly worth it. [-]"""


def headline(advice: Advice, n_draft: int, outcomes: Sequence[Outcome]) -> str:
    """The verdict on one K, the recommended one or another that was picked."""
    if len(outcomes) == 1:
        return f"Plain decoding: {outcomes[0].tpot_s * 1e3:.3g} ms per token"
    limit_ms = advice.scenario.max_tpot_ms
    if not advice.recommendation.meets_limit and limit_ms is not None:
        fastest = min(one.tpot_s for one in outcomes) * 1e3
        return f"No draft keeps {limit_ms:g} ms: the fastest takes {fastest:.3g} ms"
    best = max(outcomes[1:], key=lambda one: one.speedup)
    if n_draft == 0:
        if best.speedup < 1.0:
            return f"Don’t speculate: {best.speedup:.2f}× at best"
        if not best.meets_limit:
            return f"Don’t speculate: {best.speedup:.2f}× misses the limit"
        chance = f"a gain in {advice.recommendation.p_gain:.0%} of {SIMULATED}"
        return f"Don’t speculate: {best.speedup:.2f}× at best, {chance}" if best.low < 1.0 else "No drafting: 1×"
    shown = outcomes[n_draft]
    borrowed = f", acceptance borrowed from {whose}" if (whose := borrowed_from(advice)) else ""
    if shown.speedup < 1.0:
        return f"{_tokens(n_draft)}: {shown.speedup:.2f}×, slower than plain{borrowed}"
    if shown.speedup < _HARDLY:
        loses = ", and it may lose" if shown.low < 1.0 else ""
        return f"Hardly worth it: {shown.speedup:.2f}×{loses}{borrowed}"
    return f"{_tokens(n_draft)}: {shown.speedup:.1f}× faster{borrowed}"


def _tokens(n_draft: int) -> str:
    return f"Draft {n_draft} token{'s' if n_draft > 1 else ''}"


def place_text(answer: Advice | DesignSpace) -> tuple[str, str]:
    """Line on what is served and how it drafts, where and at which batch."""
    setup = answer.setup
    scenario, hardware = setup.scenario, setup.hardware
    own = scenario.model_config_json is not None
    # What was read of a user's own configuration is told, so that a misreading is seen.
    what = f"{scenario.model_id} ({shape_label(setup.architecture)})" if own else model_name(scenario.model_id)
    drafts = setup.drafter.kind != "none"
    batches = answer.question.batches.tolist() if isinstance(answer, DesignSpace) else [scenario.batch_size]
    loads = ", ".join(f"{batch:,.0f}" for batch in batches)
    return (
        f"{what} + {drafter_name(setup.drafter)}" if drafts else what,
        f"on {setup.placement.gpus} × {hardware_name(hardware)}, batch {loads}, context {scenario.context_tokens:,}",
    )


def likely_text(advice: Advice, n_draft: int, outcomes: Sequence[Outcome]) -> str:
    """Likely range of one K, its chance of a gain, and the cost beside it or the next best K."""
    if len(outcomes) == 1:
        return "Nothing is drafted."
    shown, recommended = outcomes[n_draft], outcomes[advice.recommendation.n_draft]
    likely = (
        f"Likely {shown.low:.1f}–{shown.high:.1f}× (8 in 10). {gain_text(shown.low, shown.p_gain)}"
        f"{_limit_text(advice, shown)}"
        if n_draft
        else ""
    )
    if shown.n_draft != recommended.n_draft:
        return (
            f"{likely} You picked K = {n_draft}; on average it is {shown.regret:.1%} behind {BEST_K_OF_EACH}, "
            f"K = {recommended.n_draft} {recommended.regret:.1%}."
        ).strip()
    others = [one for one in outcomes if one.n_draft not in (n_draft, 0)]
    if not others:
        return likely
    return f"{likely} {advice.recommendation.equals}".strip()


def _limit_text(advice: Advice, shown: Outcome) -> str:
    """That the limit is missed at the slow end of the band though the central value keeps it; else empty."""
    limit_ms, slow_ms = advice.scenario.max_tpot_ms, shown.tpot_s * shown.speedup / shown.low * 1e3
    if limit_ms is None or not shown.meets_limit or slow_ms <= limit_ms:
        return ""
    return f" At the slow end a token takes {slow_ms:.3g} ms, over the limit of {limit_ms:g}."


def one_k_text(advice: Advice) -> str:
    """Gain of the schedule over one K, and its ranges of batch, in words."""
    ranges, said = advice.k_by_batch, " ".join(advice.schedule_texts)
    if len(ranges) == 1:
        return said
    ends = [one for one, after in zip(ranges, [*ranges[1:], None], strict=True) if not _goes_on(one, after)]
    steps = ", ".join(f"{one.n_draft} to batch {one.batch_end:,}" for one in ends[:3])
    missed = next((one.batch_start for one in ranges if not one.meets_limit), None)
    limit = "" if missed is None else _missed_text(advice, missed)
    return f"K by batch: {steps}{' and so on' if len(ends) > 3 else ''}. {limit}{said}".strip()


def _goes_on(one: KRange, after: KRange | None) -> bool:
    """Whether the next range runs the same K: it stands apart for its limit or its mean speedup alone."""
    return after is not None and after.n_draft == one.n_draft


def _missed_text(advice: Advice, batch: int) -> str:
    """From which batch on the limit is missed, and what keeps it; a sentence with a space behind."""
    cap = f": let at most {batch - 1:,} requests run at once" if batch > 1 else ""
    return f"From batch {batch:,} no K keeps {advice.scenario.max_tpot_ms:g} ms{cap}. "
