"""The books of a design: how it stands against the start, what drafting gains along its counts,
what limits and doubts it."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.answers.design.candidates import LAW_NAMES
from advisor.answers.design.standing import FACTS, FLAGS
from advisor.answers.design.start import START_FACTS, START_FLAGS
from advisor.answers.flags import Flags
from advisor.physics.quality import TOKENS_PER_PARAMETER_WARNING
from advisor.show.phrases.book import Book, Phrase

_HEADLINE = (
    Phrase("headline", "!feasible", "No design keeps every limit"),
    Phrase("headline", "problem", "Build {best:of}: {the_start} cannot serve this"),
    Phrase(
        "headline",
        "gap_large",
        "Measure first: the cost model is off by {gap:pct} for {start:of}, too much to compare "
        "designs",
    ),
    Phrase("headline", "clear by_tpot", "Build {best:of}: {gain:x} faster at equal quality"),
    Phrase("headline", "clear", "Build {best:of}: {gain:x} the {merit} at equal quality"),
    Phrase("headline", "same", "{keep} {start:of}: nothing of equal quality is {better}"),
    Phrase(
        "headline",
        "slower surely_better",
        "{keep} {start:of}: the best of equal quality by {merit} is slower per token",
    ),
    Phrase("headline", "", "{keep} {start:of}: nothing of equal quality is clearly {better}"),
)
_EMPHASIS = (
    Phrase("emphasis", "!feasible", ""),
    Phrase("emphasis", "problem", "{best:of}"),
    Phrase("emphasis", "gap_large", "{gap:pct}"),
    Phrase("emphasis", "clear", "{gain:x}"),
    Phrase("emphasis", "", "{start:of}"),
)
_HEADLINE_PARTS = (
    Phrase("keep", "from_nothing", "Build"),
    Phrase("keep", "", "Keep"),
    Phrase("the_start", "from_nothing", "the start"),
    Phrase("the_start", "", "today's design"),
    Phrase("better", "by_tpot", "faster"),
    Phrase("better", "", "better by {merit}"),
    Phrase("range", "", "80% range {gain_low:x2}–{gain_high:x}"),
    Phrase("best_drafts", "drafts", ", K = {best_k:by_batch}"),
)
_MERITS = (
    Phrase("merit", "by_tpot", "speed"),
    Phrase("merit", "by_sd_speedup", "speculative speedup"),
    Phrase("merit", "by_tokens_per_s_per_gpu", "tokens/s per GPU"),
    Phrase("merit", "", "tokens per USD"),
    Phrase("gained", "!above_even !below_even by_tpot", "no faster ({range})"),
    Phrase("gained", "by_tpot", "{gain:x} as fast ({range})"),
    Phrase("gained", "", "{gain:x} the {merit} ({range})"),
)
_WHY = (
    Phrase(
        "why",
        "memory nothing_fits",
        "The baseline does not fit in memory at batch {target_batch:int}: its weights alone do "
        "not.",
    ),
    Phrase(
        "why",
        "memory",
        "The baseline does not fit in memory at batch {target_batch:int}: at most batch "
        "{start_largest:int} does.",
    ),
    Phrase(
        "why",
        "problem",
        "The baseline takes {start_slowest_ms:1} ms per output token, over the limit of "
        "{limit_ms:g} ms.",
    ),
)
_BELOW = (
    Phrase("best_name", "problem", "Best"),
    Phrase("best_name", "", "Best of equal quality"),
    Phrase("no_room", "", "does not fit"),
    Phrase("width", "", "width {best:width}"),
    Phrase("alternative", "problem", "{why}"),
    Phrase("alternative", "same", ""),
    Phrase("alternative", "clear", "{range}."),
    Phrase("alternative", "", "Best of equal quality: {best:of}, {gained}."),
)
_VERDICT = (
    Phrase("verdict", "same !problem", "{headline}. {at} it is {design}."),
    Phrase(
        "verdict",
        "clear",
        "{headline} ({range}). {at}, {design} instead of {start:mix}: {merits}. {price}",
    ),
    Phrase(
        "verdict",
        "problem",
        "{headline}. {at}, {design} instead of {start:mix}: {merits}. {why} {price}",
    ),
    Phrase(
        "verdict",
        "",
        "{headline}. {at}, the best alternative, {gained}, is {design} instead of {start:mix}: "
        "{merits}. {price}",
    ),
)
_PARTS = (
    Phrase("at", "", "At batch {batches:numbers} on {place}"),
    Phrase("design", "body", "{best:experts}, {best_body}{best_drafts}"),
    Phrase("design", "", "{best:experts}{best_drafts}"),
    Phrase("merits", "by_tpot", "{best_ms:x2} ms per output token against {start_ms:x2}"),
    Phrase(
        "merits",
        "by_sd_speedup slower",
        "speculative speedup {best_value:x} against {start_value:x}; per token it is "
        "{tpot_factor:x} slower",
    ),
    Phrase(
        "merits",
        "by_sd_speedup",
        "speculative speedup {best_value:x} against {start_value:x}; per token it is "
        "{tpot_factor:x} faster",
    ),
    Phrase(
        "merits",
        "by_tokens_per_s_per_gpu",
        "{best_value:int} tokens/s per GPU against {start_value:int}",
    ),
    Phrase("merits", "", "{best_value:3} USD per million tokens against {start_value:3}"),
    Phrase(
        "price",
        "",
        "{best_total:billions1} weights ({growth:x} the baseline's), {best_active:billions2} "
        "active without embeddings; training takes {training_cost:x} the compute at equal "
        "tokens{flop}. Dense-equivalent size over the baseline's: {quality:laws}.",
    ),
    Phrase("flop", "flop", " ({training_flop:2} FLOP)"),
)
DESIGN = Book(
    (*_HEADLINE, *_EMPHASIS, *_HEADLINE_PARTS, *_MERITS, *_WHY, *_BELOW, *_VERDICT, *_PARTS),
    FACTS,
    FLAGS,
)

_CHANGES = {
    "acceptance": "accepted length at the {end} end of its band",
    "correlation": "affinity and stickiness at the {end} end of their band",
    "bandwidth": "memory bandwidth x {end}",
    "overheads": "host and launch times x {end}",
}
_CORNERS = {
    "most_n_experts": "{value:g} experts, the most tried",
    "fewest_n_experts": "{value:g} experts, the fewest tried",
    "most_n_active": "{value:g} active experts, the most tried",
    "fewest_n_active": "{value:g} active experts, the fewest tried",
    "most_n_shared": "{value:g} shared experts, the most tried",
    "fewest_n_shared": "{value:g} shared experts, the fewest tried",
    "law_active": "{value:g} active experts, the fewest that the laws know",
    "law_activation": "activation ratio {value:pct1}, the least behind the law",
    "law_shared": "shared share {value:pct}, the most allowed",
    "law_coarsest": "width {value:g}, the coarsest experts that the law knows",
    "law_finest": "width {value:g}, the finest experts that the law knows",
}
_AXES = {
    "n_experts": "experts",
    "n_active": "active experts",
    "n_shared": "shared experts",
}


def _cases(slot: str, texts: Mapping[str, str]) -> tuple[Phrase, ...]:
    return tuple(Phrase(slot, f"{slot}_{case}", text) for case, text in texts.items())


def _case_flags(slot: str, texts: Mapping[str, str]) -> Flags:
    return {f"{slot}_{case}": (slot, "==", case) for case in texts}


CORNERS = Book(
    _cases("corner", _CORNERS), frozenset(("corner", "value")), _case_flags("corner", _CORNERS)
)
_CHANGE_FLAGS: Flags = {
    **_case_flags("assumption", _CHANGES),
    "assumption_skew": ("assumption", "==", "skew"),
    "low": ("end", "==", "low"),
    "no_flip": ("flips", "==", 0),
}
CHANGES = Book(
    (
        Phrase("assumption", "assumption_skew low", "expert load at the uneven end of its band"),
        Phrase("assumption", "assumption_skew", "expert load at the even end of its band"),
        *_cases("assumption", _CHANGES),
        Phrase("assumption", "", "equal quality by {law} alone"),
        Phrase("flips", "no_flip", "Under each of {n} changed assumptions, {within}"),
        Phrase(
            "flips",
            "",
            "Under {flips} of {n} changed assumptions, the recommended design is over "
            "{flip_regret:pct} behind the best, or no longer allowed.",
        ),
        Phrase("within", "", "the recommended design stays within {flip_regret:pct} of the best."),
        Phrase("law", "", LAW_NAMES["leverage"]),
    ),
    frozenset(("assumption", "end", "flips", "n", "flip_regret")),
    _CHANGE_FLAGS,
)
_LIMIT_FLAGS: Flags = {
    **{f"remedy_{name}": ("remedy", "==", name) for name in ("memory", "tpot", "quality")},
    "remedy_limit": ("remedy", "==", "limit"),
    "binds": ("binding", "known", None),
    "some_fit": ("largest", ">", 0),
    "mostly_memory": ("mostly_memory", "==", True),
}
_LIMIT_FACTS = frozenset(
    (
        *("binding", "design", "gain", "most", "most_n", "n_designs", "breaks", "beyond"),
        *("remedy", "broken", "largest", "mostly_memory"),
    )
)
LIMITS = Book(
    (
        Phrase(
            "binding",
            "binds",
            "Of the limits besides equal quality, {binding:constraint} costs most: without it, "
            "{design:experts} would be {gain:pct1} better.",
        ),
        Phrase(
            "binding",
            "",
            "Equal quality alone limits the objective: no other limit costs anything.",
        ),
        Phrase(
            "infeasible",
            "",
            "No design keeps every limit. {most:constraint_start} rules out {most_n:int} of "
            "{n_designs:int}. Nearest: {design:experts}; it breaks only {breaks:constraints}, by "
            "{beyond:pct}. {fix}",
        ),
        Phrase(
            "fix",
            "remedy_memory some_fit",
            "Use more GPUs, a smaller weight format, a shorter context or a batch of at most "
            "{largest:int}.",
        ),
        Phrase(
            "fix",
            "remedy_memory",
            "Use more GPUs, a smaller weight format, a shorter context or a smaller batch.",
        ),
        Phrase(
            "fix",
            "remedy_tpot",
            "Raise the limit on time per output token, lower the batch, or add tensor-parallel "
            "GPUs.",
        ),
        Phrase("fix", "remedy_limit", "Raise {broken:constraint}."),
        Phrase(
            "fix",
            "remedy_quality mostly_memory",
            "Designs that fit in memory are too weak: use more GPUs or a smaller weight format.",
        ),
        Phrase(
            "fix",
            "remedy_quality",
            "Widen the grid (more experts or wider ones) or raise quality_eps.",
        ),
        Phrase("fix", "", "Widen the grid."),
    ),
    _LIMIT_FACTS,
    _LIMIT_FLAGS,
)

_REMARK_FACTS = frozenset(
    (
        *("one_law", "one_law_gain", "one_law_quality", "tokens_per_parameter", "corners"),
        *("compared", "gain_low", "tpot_gain", "slower", "price_usd", "extrapolated"),
        *("training_tokens", "measured", "start_ms", "fit_ms"),
    )
)
_REMARK_FLAGS: Flags = {
    "no_tokens": ("training_tokens", "unknown", None),
    "measured": ("measured", "==", True),
    "one_law": ("one_law", "known", None),
    "few_tokens": ("tokens_per_parameter", "<", TOKENS_PER_PARAMETER_WARNING),
    "cornered": ("corners", "!=", ()),
    "compared": ("compared", "==", True),
    "surely_better": ("gain_low", ">", 1.0),
    "slower": ("tpot_gain", "<", 1.0),
    "priced": ("price_usd", "known", None),
    "extrapolated": ("extrapolated", "==", True),
}
_OF_SEARCH = (
    Phrase(
        "training",
        "no_tokens",
        "Training tokens not given: the quality law is evaluated at its largest compute, "
        "1e22 FLOP.",
    ),
    Phrase(
        "measured",
        "measured",
        "Designs are compared by fitted kernels, by which the baseline takes {fit_ms:x2} ms. All "
        "times are scaled so that it takes the {start_ms:x2} ms of its measured kernels, as on "
        "Serve, where a design without measured kernels takes the time of the fit.",
    ),
)
REMARKS = Book(
    (
        *_OF_SEARCH,
        Phrase(
            "one_law",
            "one_law",
            "By {law} alone {one_law:experts} would gain {one_law_gain:x}; its quality may be "
            "only {one_law_quality:pct}: train a small pair before you trust it.",
        ),
        Phrase(
            "tokens",
            "few_tokens",
            "{tokens_per_parameter:int} training tokens per parameter: below about 20, reasoning "
            "is reported to suffer from sparsity (arXiv:2508.18672).",
        ),
        Phrase(
            "corner",
            "cornered",
            "At a corner of the search: {corner_texts}. A better design may lie beyond it.",
        ),
        Phrase(
            "even",
            "compared !surely_better",
            "The 80% range of the gain includes 1: the baseline may be as good.",
        ),
        Phrase("even", "compared slower", "It is {slower:x} slower per token than the baseline."),
        Phrase(
            "cost",
            "priced",
            "Cost at {price_usd:g} USD per GPU-hour; it ranks designs as tokens/s per GPU.",
        ),
        Phrase(
            "outside",
            "extrapolated",
            "Outside the data: kernels are calibrated to 2048 tokens a step.",
        ),
        Phrase("law", "", "efficiency leverage"),
        Phrase("corner_texts", "", ""),
    ),
    _REMARK_FACTS,
    _REMARK_FLAGS,
)
OF_SEARCH = ("training", "measured")
"""Slots on the search as a whole."""
OF_BEST = ("one_law", "tokens", "corner", "even", "cost", "outside")
"""Slots on the best design."""
WISHES = Book(
    (
        Phrase("wish", "", "No design with {value} {name} is feasible: {why}."),
        Phrase("why", "ruled_out", "{constraint:constraint} rules out most of {n_designs:int}"),
        Phrase(
            "why",
            "",
            "no such design can be placed (k <= N, N divisible by the expert-parallel ranks)",
        ),
        *(Phrase("name", axis, text) for axis, text in _AXES.items()),
    ),
    frozenset(("axis", "value", "constraint", "n_designs")),
    {
        "ruled_out": ("constraint", "known", None),
        **{axis: ("axis", "==", axis) for axis in _AXES},
    },
)
ROUTING_NOTE = (
    "Routing moves with the design: skew, affinity and stickiness follow the measured class "
    "presets along the shared share and the number of experts (interpolated between classes that "
    "were measured alike), scaled to the baseline's own preset. The further a design is from the "
    "baseline, the wider its band. Opened in Serve, a design keeps that routing, and has its own "
    "measured kernels where there are any, not the fitted ones."
)
_STARTED = (
    Phrase("start", "", "{whence} {more}"),
    Phrase("whence", "typed", "Start: {shape}."),
    Phrase(
        "whence", "", "Start: layers of {near} ({layers:layers}); equal quality: as good as it."
    ),
    Phrase("more", "typed", "{assumed}"),
    Phrase(
        "more",
        "",
        "{why} Its {depth} layers are not scaled (hidden size {hidden_size:int}); "
        "{design:experts} ({total:billions1} total, {active:billions2} active; the width is a "
        "multiple of {multiple}).",
    ),
    Phrase("why", "newest", "The newest shipped model near {targets:targets}."),
    Phrase("why", "nearest", "The shipped model nearest to {targets:targets}."),
)
_ASSUMED = (
    Phrase("assumed", "heads_assumed vocabulary_assumed", "Assumed: {of_heads}; {of_words}."),
    Phrase("assumed", "heads_assumed", "Assumed: {of_heads}."),
    Phrase("assumed", "vocabulary_assumed", "Assumed: {of_words}."),
    Phrase(
        "of_heads",
        "",
        "{query_heads} attention heads of {head_dim}, {kv_heads} with keys and values",
    ),
    Phrase("of_words", "", "a vocabulary of {vocabulary:int}"),
)
STARTED = Book((*_STARTED, *_ASSUMED), START_FACTS, START_FLAGS)


_DRAFTING = (
    Phrase("drafting", "!drafted", ""),
    Phrase(
        "drafting",
        "one_batch",
        "Drafting gains most with {large:active} active at batch {large_batch:int}.",
    ),
    Phrase(
        "drafting",
        "",
        "Drafting gains most with {small:active} active at batch {small_batch:int}, with "
        "{large:active} at batch {large_batch:int}{trend}.",
    ),
    Phrase("trend", "sparser", "; between them, the larger the batch, the sparser"),
    Phrase("trend", "", ""),
)
_LABELS = (
    Phrase(
        "label", "", "{what} by {axis}: {at_batches:semicolons}. Quality: {quality:semicolons}."
    ),
    Phrase("at_batch", "of_gain", "at most {value:x} at batch {batch:int}, with {place}"),
    Phrase(
        "at_batch",
        "",
        "at batch {batch:int} from {first:x2} with {first_place} to {last:x2} with {last_place}",
    ),
    Phrase("standing", "", "{zone} from {first_place} to {last_place}"),
)
_TITLES = (
    Phrase("gain_title", "some_over", "Gain from drafting (dashed: does not fit in memory)"),
    Phrase("gain_title", "", "Gain from drafting"),
    Phrase("time_title", "", "Time per token, {start_name} = 1 (lower is faster)"),
    Phrase("near", "", "within {near:pct} of the most"),
    Phrase("table", "", "Side by side at {batches}"),
    Phrase("batches", "one_target", "batch {targets:batches}"),
    Phrase("batches", "", "batches {targets:batches}"),
    Phrase("borrowed", "lent", "Accepted length is borrowed from {lender}."),
)
ALONG = Book.of(*_DRAFTING, *_LABELS, *_TITLES)
"""The start along one of its counts, and the table beside it."""
PARETO = Book.of(
    Phrase("title", "", "Quality by the lowest of three laws against speed"),
    Phrase("speed", "", "speed per token, {start_name} = 1"),
    Phrase(
        "label",
        "",
        "Quality by the most cautious of three scaling laws against speed per token, {start_name} "
        "= 1: {designs:semicolons}. Up and right is better.",
    ),
    Phrase("held_title", "", "Time lost with {what} held, the rest solved again"),
    Phrase(
        "held_label",
        "",
        "Time lost at equal quality with {what} held and the rest solved again: least at {least}, "
        "{first:pct1} at {first_place} and {last:pct1} at {last_place}.",
    ),
)
"""Quality against speed, and what is lost with one count held."""
ALONG_AXES = {
    "ratio": "k/N: experts active of all, same total size",
    "shared": "shared experts s",
}
ZONES = {
    2: ("worse by all three laws", "worse by all", "worse"),
    1: ("the laws disagree", "disagree"),
    0: ("as good by all three laws", "as good by all", "as good"),
}
"""Names of how designs stand (`Along.zones`), the longest first."""
DESIGN_COLUMNS = (
    *("Design", "k/N", "Total / active", "K", "Drafting gains", "ms/token", "Speed"),
    *("Quality by three laws", "Each"),
)
"""Heads of the table of designs."""
HELD = {"ratio": "k/N", "shared": "shared experts"}
"""What each dial holds."""
