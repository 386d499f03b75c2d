"""The book of the main answer: every sentence on which K to draft, how much it gains, how sure that
is, and where it ends."""

from __future__ import annotations

from advisor.answers.outcome import FACTS, FLAGS
from advisor.show.phrases.book import Book, Phrase

NOTHING_FITS = "Does not fit in memory"
TOO_LARGE = "Does not fit in memory: {largest:int} sequences at most"
OVER_LIMIT = "No draft length keeps {limit_ms:g} ms per token: {fastest_ms:3} ms at best"
PHRASES = (
    Phrase("headline", "!fits nothing_fits", NOTHING_FITS),
    Phrase("headline", "!fits", TOO_LARGE),
    Phrase("headline", "undrafted", "Baseline without a drafter: *{plain_ms:3} ms* per token"),
    Phrase("headline", "all_over_limit", OVER_LIMIT),
    Phrase("headline", "own off", "Your runs: turn speculation off at batch {batch:int}"),
    Phrase("headline", "own", "Your runs: draft *{k:tokens}* at batch {batch:int}"),
    Phrase(
        "headline", "off loss", "Turn speculation off at batch {batch:int}: *{speedup:x}* at best"
    ),
    Phrase(
        "headline",
        "off tried_over_limit",
        "Turn speculation off at batch {batch:int}: *{speedup:x}* misses the limit",
    ),
    Phrase(
        "headline",
        "off",
        "Turn speculation off at batch {batch:int}: a gain (*{speedup:x}*) is too uncertain",
    ),
    Phrase(
        "headline", "loss", "Draft *{k:tokens}*: *{speedup:x}* at batch {batch:int}, a slowdown"
    ),
    Phrase("headline", "hardly", "Hardly worth it: *{speedup:x}* with *{k:tokens}*"),
    Phrase("headline", "", "Draft *{k:tokens}*: *{speedup:x}* faster at batch {batch:int}"),
    Phrase("range", "undrafted", ""),
    Phrase("range", "!fits", ""),
    Phrase(
        "range",
        "off",
        "With {tried:tokens}: 80% range {low:1}–{high:1}×, {chance:chance} chance of a gain.",
    ),
    Phrase(
        "range",
        "own own_here",
        "You measured {own_here:x} here; predicted {speedup:x}, 80% range {low:1}–{high:1}×.",
    ),
    Phrase("range", "own", "Predicted {speedup:x}, 80% range {low:1}–{high:1}×."),
    Phrase(
        "range",
        "may_lose",
        "80% range {low:1}–{high:1}×; it may lose: {chance:chance} chance of a gain.",
    ),
    Phrase("range", "", "80% range {low:1}–{high:1}×; {chance:chance} chance of a gain."),
    Phrase("cause", "!fits", ""),
    Phrase("cause", "undrafted", ""),
    Phrase("cause", "all_over_limit", ""),
    Phrase(
        "cause",
        "few",
        "Loading experts takes {experts_time:pct} of a step; the rest is paid once a round.",
    ),
    Phrase(
        "cause",
        "new before_peak !off",
        "A step loads {experts_loaded:pct} of the experts, checking {tried:drafts} "
        "{experts_more:pct} more. The gain peaks at {peak:x} near batch {peak_batch:int}.",
    ),
    Phrase(
        "cause",
        "new",
        "A step loads {experts_loaded:pct} of the experts, checking {tried:drafts} "
        "{experts_more:pct} more.",
    ),
    Phrase(
        "cause",
        "sweet",
        "A step already loads {experts_loaded:pct} of the experts, so {tried:drafts} add few: the "
        "sweet spot.",
    ),
    Phrase(
        "cause",
        "arithmetic mixture",
        "A step loads {experts_loaded:pct} of the experts; now arithmetic limits it, and every "
        "draft costs time.",
    ),
    Phrase(
        "cause", "arithmetic", "Arithmetic limits a step at this batch: every draft costs time."
    ),
    Phrase(
        "cause",
        "free",
        "A step is spent reading weights, so checking {tried:drafts} is nearly free.",
    ),
    Phrase("assumed", "undrafted", ""),
    Phrase("assumed", "!fits", ""),
    Phrase(
        "assumed",
        "",
        "Assumed: full CUDA graphs, a cache pool that holds the batch, tuned kernels.",
    ),
    Phrase("time", "undrafted", ""),
    Phrase("time", "!fits", ""),
    Phrase("time", "off", "{plain_ms:3} ms per token."),
    Phrase("time", "", "{tpot_ms:3} instead of {plain_ms:3} ms per token."),
    Phrase("range_and_time", "", "{range} {time}"),
    Phrase(
        "slow",
        "fits limited over_limit_slow !all_over_limit !off",
        (
            "At the slow end of the range a token takes {slow_ms:3} ms, over the limit of "
            "{limit_ms:g}."
        ),
    ),
    Phrase(
        "alternative",
        "fits kept kept_slower !own",
        "K = {best_alone} is {alone_gain:pct1} faster at this batch; K = {k} changes less with "
        "the batch.",
    ),
    Phrase(
        "alternative",
        "fits kept !own",
        "K = {best_alone} is as fast at this batch; K = {k} changes less with the batch.",
    ),
    Phrase(
        "borrowed",
        "borrowed of_family !undrafted",
        "The accepted length is borrowed from {borrowed}, of the same family.",
    ),
    Phrase(
        "borrowed",
        "borrowed of_drafter !undrafted",
        "The accepted length is borrowed from {borrowed}, of another family.",
    ),
    Phrase(
        "borrowed",
        "borrowed of_kind !undrafted",
        "The accepted length is borrowed from {borrowed}, another drafter of this kind.",
    ),
    Phrase("borrowed", "borrowed !undrafted", "The accepted length is borrowed from {borrowed}."),
    Phrase("amber", "!fits", ""),
    Phrase("amber", "undrafted", ""),
    Phrase(
        "amber", "mostly_below tell_length", "{published} [Use their {runs_length:x2}](runs_length)"
    ),
    Phrase("amber", "mostly_below", "{published}"),
    Phrase("amber", "other_drafter", "{other_gained} [Compare drafters](drafters)"),
    Phrase("amber", "cancels drafts_full", "{pool_cancels}"),
    Phrase(
        "amber", "borrowed", "The accepted length is borrowed from {borrowed}. [Use mine](mine)"
    ),
    Phrase(
        "other_gained",
        "fits other_drafter",
        "{other_n:runs} with {other_drafter} gained more: {other_low:x2}–{other_high:x}.",
    ),
    Phrase("length_range", "undrafted", ""),
    Phrase(
        "length_range",
        "",
        "{length_place_text} A round emits at most {length_ceiling:tokens} at K = {accepted_k}.",
    ),
    Phrase(
        "length_place_text",
        "!lengths",
        "No accepted length of this model and drafter is published at K = {accepted_k}.",
    ),
    Phrase(
        "length_place_text",
        "placed",
        "Your accepted length of {accepted_length:x2} is {length_side} {length_span}.",
    ),
    Phrase(
        "length_place_text",
        "lengths_one",
        "An accepted length of {length_low:x2} is published{length_on}.",
    ),
    Phrase(
        "length_place_text",
        "",
        "Accepted lengths of {length_low:x2}–{length_high:x2} are published "
        "({length_n} measurements{length_on}).",
    ),
    Phrase("length_side", "length_below", "below"),
    Phrase("length_side", "length_above", "above"),
    Phrase("length_side", "", "within"),
    Phrase("length_span", "!placed", ""),
    Phrase("length_span", "lengths_one", "the only published {length_low:x2}{length_on}"),
    Phrase(
        "length_span",
        "",
        "the published range {length_low:x2}–{length_high:x2} ({length_n} measurements{length_on})",
    ),
    Phrase("length_on", "lengths_of_task", " on {length_task:spaced}"),
    Phrase("published", "!published", ""),
    Phrase(
        "published",
        "all_below random",
        "All {published_n:runs} gained less: their prompts were random tokens.",
    ),
    Phrase(
        "published",
        "some_below random",
        "{published_below} of {published_n:runs} gained less: their prompts were random tokens.",
    ),
    Phrase("published", "published_one some_below", "The one published run gained less."),
    Phrase("published", "published_one some_above", "The one published run gained more."),
    Phrase("published", "published_one", "The one published run lies in the 80% range."),
    Phrase(
        "published",
        "some_below some_above",
        "Of {published_n:runs}, {published_below} gained less and {published_above} more than the "
        "80% range.",
    ),
    Phrase(
        "published",
        "some_below",
        "{published_below} of {published_n:runs} gained less than the 80% range.",
    ),
    Phrase(
        "published",
        "some_above",
        "{published_above} of {published_n:runs} gained more than the 80% range.",
    ),
    Phrase("published", "", "{published_n:runs} lie in the 80% range."),
    Phrase("published_here", "!here", ""),
    Phrase("published_here", "here_one", "At this batch: {here_low:x}."),
    Phrase("published_here", "", "At this batch: {here_low:x2}–{here_high:x}."),
    Phrase("published_runs", "!published", ""),
    Phrase(
        "published_runs",
        "published_one",
        "{published_n:runs} of this setup: {published_low:x} at batch {published_batch_low:int}.",
    ),
    Phrase(
        "published_runs",
        "",
        "{published_n:runs} of this setup: {published_low:x2}–{published_high:x} at batch "
        "{published_batch_low:int} to {published_batch_high:int}. {published_here}",
    ),
    Phrase("memory", "fits", ""),
    Phrase("memory", "", "{memory_need} {memory_fix}"),
    Phrase(
        "memory_need",
        "",
        "Needs {needed_gib:int} GiB per GPU; {usable_gib:int} are usable.",
    ),
    Phrase("memory_fix", "wider", "It fits on {wider_gpus:gpus}."),
    Phrase(
        "memory_fix",
        "weights_fill",
        "The weights alone are too large: use more GPUs or a smaller weight format.",
    ),
    Phrase(
        "memory_fix",
        "nothing_fits",
        "One sequence is too large at this context: shorten the context, use more GPUs or a "
        "smaller format.",
    ),
    Phrase(
        "memory_fix",
        "",
        "Lower the batch to {largest:int}, shorten the context or use more GPUs.",
    ),
    Phrase("pool", "undrafted", ""),
    Phrase("pool", "never_drafts fits", ""),
    Phrase("pool", "roomy", ""),
    Phrase(
        "pool",
        "prefix nothing_fits plain_fits",
        "The shared prefix of {prefix_tokens:int} tokens no longer fits with the drafter. "
        "{pool_left}",
    ),
    Phrase("pool", "fewer", "{pool_left}"),
    Phrase(
        "pool_left",
        "fewer",
        "The drafter leaves {pool_tokens:int} of {plain_pool_tokens:int} KV tokens: {largest:int} "
        "requests instead of {plain_largest:int} at this context.",
    ),
    Phrase(
        "pool_left",
        "less",
        "The drafter leaves {pool_tokens:int} of {plain_pool_tokens:int} KV tokens: {largest:int} "
        "requests at this context either way.",
    ),
    Phrase("pool_line", "undrafted", ""),
    Phrase("pool_line", "nothing_fits", ""),
    Phrase(
        "pool_line",
        "fewer",
        "Memory: {largest:int} requests ({plain_largest:int} without the drafter).",
    ),
    Phrase("pool_line", "", "Memory: {largest:int} requests."),
    Phrase("uncounted", "nothing_fits", ""),
    Phrase("uncounted", "pool_stated", ""),
    Phrase(
        "uncounted",
        "",
        "CUDA graphs, workspaces, block rounding of hybrid caches, prefix-cache misses. "
        "{pool_basis}",
    ),
    Phrase("pool_more", "undrafted", "{pool_fits} {pool_prefix}"),
    Phrase("pool_more", "never_drafts fits", "{pool_fits} {pool_prefix}"),
    Phrase(
        "pool_more", "less", "{pool_once} {pool_weights} {pool_full} {pool_prefix} {pool_basis}"
    ),
    Phrase("pool_more", "", "{pool_fits} {pool_prefix}"),
    Phrase("pool_once", "fewer !roomy", ""),
    Phrase("pool_once", "", "{pool_left}"),
    Phrase("pool_fits", "", "The largest batch that fits in memory is {largest:int}."),
    Phrase("pool_weights", "has_weights", "Its weights take {drafter_gib:3} GiB per GPU."),
    Phrase(
        "pool_full",
        "fewer filled",
        "At equal requests the speedup is {speedup:x}, of two full servers {full_speedup:x}. "
        "{pool_cancels}",
    ),
    Phrase(
        "pool_cancels",
        "cancels",
        "From {cancels_from:int} requests on, the server without a drafter gives as much.",
    ),
    Phrase(
        "pool_prefix",
        "prefix",
        "Requests share {prefix_tokens:int} tokens, cached once: {prefix_hit:pct} of a prompt is "
        "found there.",
    ),
    Phrase("pool_basis", "pool_stated", "KV tokens are as the engine logs them."),
    Phrase(
        "pool_basis",
        "",
        "KV tokens are modeled; startup logs of vLLM have 3 to 9 GiB per GPU less for them.",
    ),
    Phrase("schedule", "!fits", ""),
    Phrase("schedule", "undrafted", ""),
    Phrase("schedule", "switches", "K by batch: {served:ranges}."),
    Phrase("schedule", "off varies", ""),
    Phrase("schedule", "off", "No draft length pays at any batch."),
    Phrase(
        "schedule",
        "varies single_k_costs",
        "K = {k} everywhere is within {single_k_cost:pct1} of switching K by batch.",
    ),
    Phrase("schedule", "varies", "K = {k} everywhere is as fast as switching K by batch."),
    Phrase("schedule", "", "K = {k} is best at every batch up to {end_batch:int}."),
    Phrase("pays", "!fits", ""),
    Phrase("pays", "never_drafts", ""),
    Phrase("pays", "pays_nowhere", ""),
    Phrase(
        "pays", "loses_always", "Faster on average up to batch {pays_end}; some workloads lose."
    ),
    Phrase(
        "pays",
        "loses",
        "Faster on average up to batch {pays_end}; from {loses_from:int} some workloads lose.",
    ),
    Phrase("pays", "stops_paying", "Faster up to batch {pays_end}, off above."),
    Phrase("pays", "memory_end", "Faster at every batch that fits (up to {end_batch:int})."),
    Phrase("pays", "", "Faster up to batch {end_batch:int} and beyond."),
    Phrase("pays_end", "stops_paying", "{pays_to:int}"),
    Phrase("pays_end", "", "{end_batch:int}"),
    Phrase("admit", "!fits", ""),
    Phrase("admit", "!admits", ""),
    Phrase("admit", "all_over_limit", ""),
    Phrase(
        "admit",
        "vllm",
        "Above batch {kept_to:int} no K keeps {limit_ms:g} ms: set --max-num-seqs {admit}.",
    ),
    Phrase(
        "admit",
        "sglang",
        "Above batch {kept_to:int} no K keeps {limit_ms:g} ms: set --max-running-requests {admit}.",
    ),
    Phrase("change", "!fits", ""),
    Phrase("change", "!below !above", ""),
    Phrase(
        "change",
        "",
        "Change K when the accepted length (now {accepted_length:x2} at K = {accepted_k}) is "
        "{change_below}{change_off}{change_above}.",
    ),
    Phrase("change_below", "below", "below {below_length:x2} ({below_k:k})"),
    Phrase("change_off", "off_later", ", below {off_length:x2} (no drafts)"),
    Phrase("change_above", "above below", " or above {above_length:x2} (K = {above_k})"),
    Phrase("change_above", "above", "above {above_length:x2} (K = {above_k})"),
    Phrase(
        "adaptive",
        "adaptive",
        "{adaptive_release} can choose at each step what it verifies ({adaptive_key}): "
        "{adaptive_low:signed_pct} to {adaptive_high:signed_pct} over the best fixed K. K = "
        "{adaptive_k} at most then serves every batch (export --adaptive).",
    ),
    Phrase("peak", "undrafted", "Without a drafter the speedup is 1 at every batch."),
    Phrase(
        "peak",
        "off",
        "With {tried:tokens} the speedup is {speedup:x} at batch {batch:int} and at most "
        "{peak:x}, at batch {peak_batch:int}.",
    ),
    Phrase(
        "peak",
        "switches",
        "With K by batch the speedup is {speedup:x} at batch {batch:int} and at most {peak:x}, at "
        "batch {peak_batch:int}. {pays}",
    ),
    Phrase(
        "peak",
        "",
        "With K = {k} the speedup is {speedup:x} at batch {batch:int} and at most {peak:x}, at "
        "batch {peak_batch:int}. {pays}",
    ),
    Phrase("do", "!fits", "{memory}"),
    Phrase(
        "do",
        "all_over_limit",
        "No draft length keeps {limit_ms:g} ms per token: lower the batch or use more GPUs.",
    ),
    Phrase("do", "undrafted", "There is no drafter: nothing is drafted."),
    Phrase("do", "off", "Leave speculation off at batch {batch:int}."),
    Phrase(
        "do",
        "hardly",
        "Leave speculation off unless your own measurement shows a gain with {k:tokens}.",
    ),
    Phrase(
        "do",
        "switches",
        "Turn on K by batch with the command below (K = {k} at batch {batch:int}) and measure a "
        "day of traffic.",
    ),
    Phrase("do", "", "Turn on K = {k} with the command below and measure a day of traffic."),
    Phrase("share", "undrafted", ""),
    Phrase(
        "share",
        "",
        "K = {tried} is the fastest in {best_share:pct} of 256 simulated cases, which differ in "
        "the uncertain constants, and gives away {loss:pct1} on average against the best K of "
        "each.",
    ),
    Phrase("basis", "refitted", "Times are refitted to {refit_points} of your points."),
    Phrase("basis", "measured", "Times were measured at this very point."),
    Phrase(
        "basis",
        "same_chip",
        "Times are modeled from kernels measured on {kernels_of}, the same chip.",
    ),
    Phrase("basis", "interpolated", "Times are read between measured kernels of this GPU."),
    Phrase("basis", "fitted", "Times are modeled from measured kernels of this GPU."),
    Phrase("basis", "", "Times are from the data sheet: no kernel of this GPU was measured."),
    Phrase("tier_because", "", "The speedup is {tier}: {because}."),
    Phrase(
        "because",
        "roofline",
        "datasheet peaks and assumed fractions for a component that takes a tenth of the time or "
        "more{because_refit}",
    ),
    Phrase(
        "because",
        "fitted",
        "kernel times fitted on measurements of {because_chip}{because_experts}{because_refit}",
    ),
    Phrase(
        "because",
        "",
        "kernel times read off measurements of {because_chip}{because_experts}{because_refit}",
    ),
    Phrase("because_chip", "same_chip", "{kernels_of}, the same chip"),
    Phrase("because_chip", "", "this accelerator"),
    Phrase("because_experts", "moe", "; experts: {experts_kernels}"),
    Phrase("because_refit", "refitted", ", refitted to {refit_points} of your points"),
    Phrase("bound", "", "{bound_share_of} of a baseline step, which is {bound}-bound."),
    Phrase("bound_share_of", "launch_bound", "Host and kernel launches take {bound_share:pct}"),
    Phrase(
        "bound_share_of",
        "communication_bound",
        "Communication between GPUs takes {bound_share:pct}",
    ),
    Phrase(
        "bound_share_of",
        "compute_bound",
        "Arithmetic on {bound_component:loads} takes {bound_share:pct}",
    ),
    Phrase("bound_share_of", "", "Loading {bound_component:loads} takes {bound_share:pct}"),
    Phrase(
        "narrow",
        "fits narrows",
        "After {own_rows} benchmark runs of your own the 80% range is about "
        "±{half_width_after:pct}, not ±{half_width:pct}.",
    ),
    Phrase("launch", "!fits nothing_fits", "No launch command: nothing fits in memory."),
    Phrase(
        "launch",
        "!fits",
        "No launch command: batch {batch:int} does not fit. For at most {largest:int} at once: "
        "--batch {largest}.",
    ),
    Phrase("launch", "undrafted", "Launch the engine without speculation."),
    Phrase(
        "launch",
        "off varies",
        "At batch {batch:int} no drafting is recommended: the engine starts without speculation; "
        "export --by-batch writes K by batch.",
    ),
    Phrase("launch", "off", "Launch the engine without speculation."),
    Phrase("launch_title", "unnamed_engine off", "Launch without drafts"),
    Phrase("launch_title", "unnamed_engine", "Launch with K = {k}"),
    Phrase("launch_title", "off", "Launch on {engine_name} without drafts"),
    Phrase("launch_title", "switches", "Launch on {engine_name}: K = {k} at this batch"),
    Phrase("launch_title", "", "Launch on {engine_name} with K = {k}"),
)
BOOK = Book(PHRASES, FACTS, FLAGS)
ZONE_NAMES = {
    "few": ("few experts loaded", "few experts", "few"),
    "new": ("drafts load new experts", "new experts", "new"),
    "sweet": ("sweet spot: experts loaded anyway", "sweet spot", "sweet"),
    "arithmetic": ("arithmetic limits", "arithmetic"),
    "free": ("drafts are nearly free", "nearly free", "free"),
}
"""Names of the zones of a chart, the longest first."""
TEXT_NAMES = {
    None: "measured",
    "coding": "code",
    "chat": "chat",
    "math": "math",
    "long_document": "long documents",
    "random": "random tokens",
}
"""Names of kinds of text."""
TEXT_ORIGIN = Book.of(
    Phrase("origin", "carried", "{accepted_length:x2} tokens a round, carried from other text"),
    Phrase(
        "origin",
        "published",
        "{accepted_length:x2} tokens a round, read back from published runs on random tokens",
    ),
    Phrase("origin", "", "{accepted_length:x2} tokens a round, measured on such text"),
    flags={name: ("origin", "==", name) for name in ("carried", "published")},
)
"""Where the accepted length of a kind of text is from (`OnText`)."""
RUNS = Book.of(
    Phrase("group", "own", "yours"),
    Phrase("group", "random", "published, {drafter}, random tokens"),
    Phrase("group", "", "published, {drafter}"),
)
"""Names of groups of measured speedups in the chart."""
PIN = Book.of(
    Phrase("refused", "private", "A setup with your own documents or runs cannot be pinned."),
    Phrase("refused", "again", "This setup is pinned."),
    Phrase("refused", "full", "{most} setups are pinned: unpin one first."),
)
"""Reason why a setup cannot be pinned."""
SLOTS = (
    *("headline", "range", "assumed", "time", "slow", "alternative", "memory"),
    *("published", "published_runs", "other_gained", "borrowed"),
    *("pool", "schedule", "pays", "admit", "change", "adaptive", "basis"),
    *("narrow", "launch"),
)
"""Slots that a medium may show on a line of their own, in reading order."""
