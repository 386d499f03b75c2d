"""What the best design is called: whether it deserves the title, what it gives and costs, how safe its quality is."""

from __future__ import annotations

import numpy as np

from advisor.design.candidates import Candidate
from advisor.design.space import MAX_MEASURED_GAP, DesignSpace
from advisor.text import MERITS


def is_clear(space: DesignSpace, item: Candidate) -> bool:
    """Whether a design may have the title.

    Its gain is above 1 throughout the band, and it is no slower per token.

    None has where the baseline's own measured rows lie further from the fit than MAX_MEASURED_GAP.
    """
    if abs(space.measured_gap) > MAX_MEASURED_GAP:
        return False
    return item.objective_gain.low > 1.0 and item.tpot_gain.value >= 1.0


def _is_baseline(space: DesignSpace, item: Candidate) -> bool:
    own = space.baseline
    counts = (float(item.n_experts), float(item.n_active), float(item.n_shared))
    return bool(np.allclose(counts, own.counts)) and (item.expert_width, item.body) == (own.expert_width, 0)


def design_words(space: DesignSpace, item: Candidate) -> str:
    """A design in the words of an answer: `Top-8 of 120, no shared expert, width 896, K = 4`."""
    shared = f"{item.n_shared:.3g} shared" if item.n_shared else "no shared expert"
    k = "/".join(map(str, dict.fromkeys(item.n_draft)))
    drafts = "" if space.setup.drafter.kind == "none" else f", K = {k}"
    body = f", {space.bodies[item.body].architecture.name}" if item.body else ""
    return f"Top-{item.n_active} of {item.n_experts}, {shared}, width {item.expert_width}{body}{drafts}"


def title(space: DesignSpace, chosen: Candidate) -> str:
    """Sentences with the design and what it gives, what it costs to train, and its quality by each law."""
    question, own = space.question, space.baseline
    words = design_words(space, chosen)
    batches = ", ".join(f"{batch:g}" for batch in question.batches)
    place = f"at batch {batches} on {space.setup.place}"
    if space.baseline_problem:
        start = (
            f"{space.baseline_problem} Of the designs that do serve, the best is {words[0].lower()}{words[1:]} {place}"
        )
    elif abs(space.measured_gap) > MAX_MEASURED_GAP:
        start = (
            f"No design is held against top-{own.n_active} of {own.n_experts}: a plain step by its own measured "
            f"kernels differs by {space.measured_gap:+.0%} from the fit that costs all designs. By the fit the best "
            f"{place} is {words[0].lower()}{words[1:]}"
        )
    elif is_clear(space, chosen):
        start = f"{words} instead of top-{own.n_active} of {own.n_experts} {place}"
    elif _is_baseline(space, chosen):
        return f"No design is better {place} than the baseline itself, {words[0].lower()}{words[1:]}."
    else:
        start = (
            f"No design is clearly better than top-{own.n_active} of {own.n_experts} {place}; the best guess is "
            f"{words[0].lower()}{words[1:]}"
        )
    return f"{start}: {_merits(space, chosen)}. {price_words(space, chosen)}"


def _merits(space: DesignSpace, chosen: Candidate) -> str:
    """The objective against the baseline's with its band; of a speedup, the speed per token in the same line."""
    question, own, gain = space.question, space.baseline, chosen.objective_gain
    merit = MERITS[question.objective]
    told = (
        f"{merit.text(chosen.objective)} {merit.words if question.objective != 'tpot' else 'per output token'} against "
        f"{merit.text(question.value(own.score))}, {gain.value:.2f} times {merit.gain_of} "
        f"({gain.low:.2f}-{gain.high:.2f})"
    )
    if question.objective != "sd_speedup":
        return told
    time = chosen.tpot_gain
    caveat = "faster" if time.value >= 1.0 else "slower"
    factor = time.value if time.value >= 1.0 else 1.0 / time.value
    return (
        f"{told}; a ratio to its own plain decoding, not a speed: per token it is {factor:.2f} times {caveat} than the "
        "baseline"
    )


def price_words(space: DesignSpace, chosen: Candidate) -> str:
    """Sizes, training cost at equal tokens, and quality by each law."""
    own = space.baseline
    flop = "" if chosen.training_flop is None else f" ({chosen.training_flop:.2g} FLOP)"
    laws = ", ".join(item.text for item in chosen.quality)
    return (
        f"{chosen.total_params / 1e9:.1f} B weights ({chosen.total_params / own.total_params:.2f} times the "
        f"baseline's), {chosen.active_params / 1e9:.2f} B active without embeddings; training takes "
        f"{chosen.training_cost:.2f} times the compute at equal tokens{flop}. Quality as dense-equivalent size: {laws}."
    )
