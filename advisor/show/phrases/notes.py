"""The book of notes: what a reader must know before trusting an answer, by the kind of note."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from advisor.physics.notes import Note
from advisor.show.phrases.book import Book, Phrase
from advisor.show.phrases.schedule import CONTEXT_CHANGES

_UNSTATED = (
    *("engine", "version", "since", "reason", "rounded", "above", "beyond_k"),
    *("do", "like"),
)
_CASES = (
    *("pads", "of_rank", "reduces", "measured", "own", "slower"),
    *("every_larger_k", "baseline_too", "of_target", "recurrent", "settled"),
)
FLAGS: dict[str, tuple[str, str, Any]] = {
    **{name: (name, "known", None) for name in _UNSTATED},
    **{name: (name, "==", True) for name in _CASES},
    "captures_none": ("largest", "==", 0),
    **{effect: ("effect", "==", effect) for effect in ("safe", "harmful", "no_effect")},
    "above_largest": ("tokens", ">", "largest"),
    "jumps": ("jumps", "!=", ()),
}
PHRASES = (
    Phrase(
        "weights_too_large",
        "",
        "Does not fit: weights take {weights_gib:int} GiB per GPU, {usable_gib:int} GiB are "
        "usable. Use more GPUs (tensor parallel), a larger accelerator, or a smaller weight "
        "format.",
    ),
    Phrase(
        "sequence_too_large",
        "",
        "Does not fit: one sequence of {context_tokens:int} tokens takes {cache_gib:int} GiB of "
        "KV cache and the weights {weights_gib:int} GiB per GPU; {usable_gib:int} GiB are usable. "
        "Use a shorter context, an fp8 KV cache or more GPUs.",
    ),
    Phrase(
        "batch_too_large",
        "",
        "Batch {batch} does not fit: {needed_gib:int} GiB per GPU, {usable_gib:int} GiB are "
        "usable. The largest batch that fits at {context_tokens:int} tokens of context is "
        "{largest}.",
    ),
    Phrase("split_blocks", "", "{split_blocks_bare}."),
    Phrase(
        "split_blocks_bare",
        "",
        "{split_blocks_refusal}: {ranks} ranks cut experts {width:int} wide to {cut:int}, no "
        "multiple of the fp8 blocks of {block}. Spread whole experts over the {gpus} GPUs (--ep "
        "{gpus}), or take --tp {narrower}",
    ),
    Phrase("split_blocks_refusal", "pads", "{engine} may refuse to load this"),
    Phrase("split_blocks_refusal", "", "{engine} refuses to load this"),
    Phrase("split_blocks_short", "", "{split_blocks_refusal}: see the remarks."),
    Phrase(
        "graphs_unread",
        "",
        "What {unread_release} captures in CUDA graphs was not read{read_releases}: neither "
        "padding nor steps beyond the largest graph are charged. State the largest size or a list "
        "(graph_sizes) to have them charged.",
    ),
    Phrase("unread_release", "version engine", "{engine} {version}"),
    Phrase("unread_release", "version", "the engine {version}"),
    Phrase("unread_release", "engine", "this release of {engine}"),
    Phrase("unread_release", "", "this release of the engine"),
    Phrase("read_releases", "since", " (read: {since} to before {before})"),
    Phrase(
        "graphs_in_pieces",
        "",
        "Each round verifies outside full CUDA graphs: {wait_ms:1} ms more, and drafts without a "
        "graph.{pieces_avoided}",
    ),
    Phrase("pieces_avoided", "do", " {do} avoids both."),
    Phrase("pieces_avoided", "", ""),
    Phrase(
        "graph_mode_unknown",
        "",
        "K = {k} at batch {batch} gains {full:x2}x with full CUDA graphs, {in_pieces:x2}x with "
        "piecewise ones. {mode_unsure} may run piecewise: read cudagraph_mode in the engine's "
        "startup log and set --graph-mode.",
    ),
    Phrase("mode_unsure", "recurrent", "A model with recurrent layers"),
    Phrase("mode_unsure", "", "A server with a table of K"),
    Phrase(
        "graph_missing",
        "",
        "{tokens_of_k}, {largest_graph}: no CUDA graph, {speedup:x2}x{graphless_too}. Capture "
        "sizes up to {tokens:int} hold it.",
    ),
    Phrase("tokens_of_k", "of_rank", "K = {k} at batch {batch} of a rank is {tokens:int} tokens"),
    Phrase("tokens_of_k", "", "K = {k} at batch {batch} is {tokens:int} tokens"),
    Phrase("largest_graph", "captures_none", "and {release} captures none"),
    Phrase("largest_graph", "above_largest", "above the {largest:int} that {release} captures"),
    Phrase("largest_graph", "", "which none holds"),
    Phrase("graphless_too", "every_larger_k", " and so is every larger K{baseline_graphless}"),
    Phrase("graphless_too", "", "{baseline_graphless}"),
    Phrase("baseline_graphless", "baseline_too", "; the baseline has none there either"),
    Phrase(
        "graph_padding",
        "",
        "{tokens_of_k} and runs as {runs_as:int}, the next size that {release} captures: the rows "
        "between are computed for nothing.",
    ),
    Phrase("refit_forced", "", "Your refit was rejected by its checks and is forced all the same."),
    Phrase("sweep_of_other", "", "Your plain sweep is of {settings}: here it is not used."),
    Phrase("sweep", "", "Your plain sweep, batch {first:int} to {last:int}"),
    Phrase(
        "sweep_unsteady",
        "",
        "{sweep}, is not steady: its steps scatter by {scatter:pct} around the predicted ones "
        "({most:pct} at most), as queues and prompts make them. The model alone is used.",
    ),
    Phrase(
        "sweep_used",
        "",
        "{sweep}, lies {off:pct} {sweep_side} the predicted steps at the median; plain steps "
        "follow it, rounds of up to {last:int} tokens the mean of both{sweep_jumps}."
        "{sweep_beyond}",
    ),
    Phrase("sweep_side", "slower", "above"),
    Phrase("sweep_side", "", "below"),
    Phrase("sweep_jumps", "jumps", "; {jumps:jumps}"),
    Phrase(
        "sweep_beyond", "beyond_k", " At batch {batch:int} K = {beyond_k} and more run beyond it."
    ),
    Phrase("read", "", "{text}"),
    Phrase(
        "published_in_blocks",
        "",
        "Published in fp8 with scales for blocks of 128 x 128: {model} is costed so.",
    ),
    Phrase("parts_in_bf16", "", "As published in {dtype}, {model} keeps its {parts:list} in bf16."),
    Phrase(
        "copies",
        "",
        "{gpus} GPUs hold {copies} independent copies of the model; batch and speed are per copy.",
    ),
    Phrase(
        "context_too_long",
        "",
        "A context of {context_tokens:int} tokens exceeds the model's own {limit_tokens:int}; "
        "shorten it.",
    ),
    Phrase(
        "network_charged",
        "",
        "{ranks} expert-parallel ranks lie on nodes of {node}: the exchange of tokens holds the "
        "network, {gb_per_s:int} GB/s per GPU from a data sheet, without congestion; on AWS EFA "
        "exchanges took 1.4 to 2.9 times as long as charged (docs/expert-parallel.md).",
    ),
    Phrase(
        "network_unknown",
        "",
        "More than {node} GPUs: what joins nodes of {hardware} is not known, the exchange of "
        "tokens is that of one node and too low.",
    ),
    Phrase(
        "ranks_beyond_node",
        "",
        "Tensor parallelism beyond a node of {node}: links between nodes are not modeled, "
        "all-reduces are too low.",
    ),
    Phrase(
        "ranks_beyond_measured",
        "",
        "{operation} among {ranks} GPUs of {hardware} is charged as among {measured}, the most "
        "its constants are known for: probably too little.",
    ),
    Phrase("operation", "reduces", "An all-reduce"),
    Phrase("operation", "", "An exchange of tokens"),
    Phrase(
        "engines_immature",
        "",
        "Engines on {hardware} are immature: they may be slower than modeled.",
    ),
    Phrase(
        "format_converted",
        "",
        "{hardware} does not multiply in {dtype}: weights are kept in it and converted to bf16 by "
        "the kernels.",
    ),
    Phrase(
        "format_unlisted",
        "",
        "{engine} may not run {dtype} weights on {hardware}: not listed in {source}.",
    ),
    Phrase(
        "release_host_time",
        "",
        "{engine} {version} takes other host time for a round than today's {engine}: it is "
        "charged.",
    ),
    Phrase("same_chip", "", "Kernels were measured on {chip}, the same chip."),
    Phrase(
        "heads_apart",
        "",
        "Attention: {engine} on this chip reads the cache for each query head where it verifies; "
        "gains fall with batch and context.",
    ),
    Phrase(
        "kernels_borrowed",
        "",
        "{part:capital}: times of {borrowed} are used; {why_borrowed}.",
    ),
    Phrase("why_borrowed", "reason", "{reason}"),
    Phrase("why_borrowed", "", "not measured for {engine_chosen} here"),
    Phrase("engine_chosen", "engine", "{engine}"),
    Phrase("engine_chosen", "", "the chosen engine"),
    Phrase(
        "kernels_unmeasured",
        "",
        "{part:capital}: not measured on {hardware}; by the data sheet, wider 80% range.",
    ),
    Phrase(
        "cache_rate_assumed",
        "",
        "{cache_kernel}; the 16-bit kernel's rate at {cache} bytes is assumed, as {reached_by} "
        "reaches.",
    ),
    Phrase(
        "sparse_cache_in_16_bits",
        "",
        "Sparse attention may take a slow kernel over a 16-bit KV cache: on an H20 it made the "
        "baseline step 3.3 times as long (SGLang). That is not charged; an fp8 cache avoids it.",
    ),
    Phrase("cache_time_assumed", "", "{cache_kernel}; the 16-bit cache's time is assumed."),
    Phrase(
        "cache_kernel",
        "measured",
        "{part:capital}: {cache} KV cache: its kernel was measured no faster than the 16-bit one "
        "under {engine} {version}",
    ),
    Phrase(
        "cache_kernel",
        "",
        "{part:capital}: {cache} KV cache: its kernel was not measured under {engine} {version}",
    ),
    Phrase(
        "shape_untuned",
        "",
        "Experts: this shape was measured at {factor:2} times the kernel's fitted time "
        "({first_tokens:int} to {last_tokens:int} tokens), as if not tuned for it; the fit is "
        "assumed. Check on your own GPU.",
    ),
    Phrase(
        "layers_borrowed",
        "",
        "Attention layers: not measured for {engine_chosen}; those of {by_engine} {by_version} "
        "are used.",
    ),
    Phrase(
        "layers_with_gaps",
        "",
        "Attention layers: {engine} {version}'s were timed with launch gaps ({alone_us:int} us "
        "for one sequence, {quickest_us:int} under {by_engine}); those of {by_engine} "
        "{by_version} are used.",
    ),
    Phrase(
        "trace_dense",
        "",
        "{dense} of {layers} layers choose the same experts for every token: dense.",
    ),
    Phrase(
        "trace_too_short",
        "",
        "{sequences} sequences shorter than {tokens} tokens were left out.",
    ),
    Phrase(
        "trace_few_sequences",
        "",
        "Only {sequences} sequences: the load variation in particular is poorly known.",
    ),
    Phrase(
        "trace_never_chosen",
        "",
        "{share:pct} of the experts are never chosen: another model's ids, or those of one rank "
        "of several?",
    ),
    Phrase("length_carried", "", "{text}"),
    Phrase(
        "length_borrowed",
        "",
        "The accepted length is borrowed: {source}. Give your own for a narrower range.",
    ),
    Phrase(
        "loads_of_some_layers",
        "",
        "The loads are of {layers} of {routed_layers:g} routed layers; the others are taken "
        "to be like them.",
    ),
    Phrase(
        "experts_without_load",
        "",
        "{idle} of {experts} experts have no load in any layer; are the loads of this model?",
    ),
    Phrase(
        "trace_not_halved",
        "",
        "{sequences} sequences cannot be halved: placements are planned and judged on the same "
        "tokens, so what balancing brings is overstated.",
    ),
    Phrase(
        "trace_of_few",
        "",
        "A batch of {batch:int} is drawn from {sequences:int} sequences, each several times: its "
        "choices are more alike than those of as many users, so ranks look more uneven; give a "
        "trace of more requests.",
    ),
    Phrase(
        "copies_change_nothing",
        "",
        "On one expert-parallel rank copies of experts change nothing.",
    ),
    Phrase(
        "imbalance_assumed",
        "",
        "Expert-parallel imbalance follows an assumed formula; it has not been measured. Loads of "
        "your experts (--expert-loads, or a routing trace dropped on Measure) replace it by "
        "counts.",
    ),
    Phrase(
        "imbalance_counted",
        "own",
        "The slowest expert-parallel rank is counted on your loads of experts, taken to stay as "
        "they are; it has not been measured.",
    ),
    Phrase(
        "imbalance_counted",
        "",
        "The slowest expert-parallel rank is counted on loads with the routing preset's spread, "
        "which experts are hot drawn by chance; it has not been measured.",
    ),
    Phrase(
        "layout_planned",
        "",
        "The balanced layout{copies_rounded} is planned on the loads that it is judged with: real "
        "loads drift in between.",
    ),
    Phrase("copies_rounded", "rounded", " ({rounded} copies, to fill the ranks evenly)"),
    Phrase(
        "top_1_unmeasured",
        "",
        "No top-1 router has been measured; its routing correlation is a class default.",
    ),
    Phrase(
        "over_limit",
        "",
        "No K keeps {limit_ms:g} ms per output token; the fastest takes {fastest_ms:x2} ms. "
        "Lower the batch or add GPUs.",
    ),
    Phrase(
        "outside_data",
        "",
        "Outside the data: kernels are calibrated to 2,048 tokens per step; the 80% range "
        "is widened.",
    ),
    Phrase(
        "longest_k",
        "",
        "The best K is the longest considered ({k}); raise it to look further.",
    ),
    Phrase(
        "length_extrapolated",
        "above",
        "The accepted length at this K is extrapolated from those it is known at, above {above}, "
        "the longest here.",
    ),
    Phrase(
        "length_extrapolated",
        "",
        "The accepted length at this K is extrapolated from those it is known at.",
    ),
    Phrase(
        "kernel_cliff",
        "",
        "Avoid {first}-{last} sequences at K = {k}: a kernel switches above {switches_above} "
        "(measured), verification jumps from {before_ms:1} to {after_ms:1} ms, and the speedup "
        "falls from {before:x2}x to {least:x2}x before it rises again to {later:x2}x.",
    ),
    Phrase(
        "model_to_name", "", "write the path or Hugging Face repository of your model for {name}"
    ),
    Phrase("model_to_name_short", "", "put yours for {name}"),
    Phrase("drafter_to_name_short", "", "put yours for {name}"),
    Phrase("model_to_name_sentence", "", "{name}: the path or repository of your model."),
    Phrase("drafter_to_name_sentence", "", "{name}: your {drafter} checkpoint."),
    Phrase("drafter_to_name", "", "write the name or path of your draft checkpoint for {name}"),
    Phrase(
        "weights_to_name",
        "",
        "weights as {formats:list}: name a checkpoint in that format{like_checkpoint}",
    ),
    Phrase(
        "weights_to_name_sentence",
        "",
        "Weights as {formats:list}: name a checkpoint in that format{like_checkpoint}.",
    ),
    Phrase("like_checkpoint", "like", ", such as {like}"),
    Phrase(
        "schedule_ends",
        "",
        "the schedule ends at batch {last}; the engine runs its last K up to {limit}",
    ),
    Phrase("nothing_drafted", "", "K = 0 throughout: the engine is started without speculation"),
    Phrase(
        "experts_over_all_ranks",
        "",
        "vLLM spreads experts over all tensor x data parallel ranks ({ranks}), not over {not_over}",
    ),
    Phrase(
        "table_untested",
        "",
        "vLLM's documentation lists the table as tested with EAGLE, EAGLE-3 and DFlash, not "
        "{method}",
    ),
    Phrase(
        "fixed_k_of_method",
        "",
        "method {method} drafts a fixed K: K = {k} {k_of} is exported, not the schedule",
    ),
    Phrase(
        "fixed_k_of_ranks",
        "",
        "vLLM drops the table of K by batch under data parallelism: K = {k} {k_of} is exported, "
        "not the schedule",
    ),
    Phrase(
        "fixed_k_of_engine",
        "",
        "K = {k} {k_of} is exported, since SGLang would not vary it here",
    ),
    Phrase(
        "k_of_method_not_varied",
        "",
        "SGLang varies K for EAGLE and EAGLE-3 only; {method} runs K = {k} {k_of}",
    ),
    Phrase("k_of", "of_target", "of the target batch"),
    Phrase("k_of", "", "of the widest range"),
    Phrase("suffix_package", "", "suffix decoding needs the package arctic-inference with vLLM"),
    Phrase(
        "token_budget",
        "",
        "--max-num-batched-tokens {tokens} is written, since {requests} requests with their "
        "drafts need it",
    ),
    Phrase(
        "graphs_of_tokens",
        "",
        "CUDA graphs of up to {largest:int} tokens are captured, {captured_instead}",
    ),
    Phrase(
        "graphs_of_requests",
        "",
        "CUDA graphs of up to {largest:int} requests are captured, {captured_instead}",
    ),
    Phrase(
        "captured_instead",
        "settled",
        "{by_itself:int} by {release} itself: {gain:pct} more tokens/s from batch {first:int} on, "
        "for memory and time at the start",
    ),
    Phrase(
        "captured_instead",
        "",
        "{by_itself:int} by {release} itself: {gain:pct} more tokens/s from batch {first:int} on, "
        "for memory and time at the start; K by batch would need others, these are the fastest "
        "tried",
    ),
    Phrase(
        "batches_padded",
        "",
        "SGLang pads a batch to a captured graph size before it looks up the slot; limits move "
        "down to those sizes",
    ),
    Phrase("guard", "", "{guard_effect}: {guard_advice}"),
    Phrase("guard_void", "", "{guard_effect}: {guard_advice}"),
    Phrase("guard_safe", "", "{guard_effect}: {guard_advice}"),
    Phrase("guard_safe_labelled", "", "{guard_advice}"),
    Phrase("guard_advice", "do", "{says}; instead: {do} ({source})"),
    Phrase("guard_advice", "", "{says} ({source})"),
    Phrase("guard_effect", "safe", "note"),
    Phrase("guard_effect", "harmful", "can harm"),
    Phrase("guard_effect", "no_effect", "has no effect"),
    Phrase("guard_effect", "", "not known"),
    Phrase("k_by_context", "", CONTEXT_CHANGES),
    Phrase(
        "schedule_of_engine",
        "",
        "the schedule was computed with the kernels and overheads of {engine}, not {exported}",
    ),
    Phrase(
        "dspark_stages",
        "",
        "DSpark's stages are looked for in the target's checkpoint: serve a release of "
        "DeepSeek-V4 that has them",
    ),
    Phrase(
        "limit_passed",
        "",
        "beyond the limit on time per output token the schedule names the fastest K; cap the "
        "batch instead",
    ),
    Phrase("rules_checked", "version", "{rules_read}, for {engine} {version}"),
    Phrase("rules_checked", "", "{rules_read}"),
    Phrase("rules_read", "", "checked by the rules of {engine} {rules}, read {read}"),
)
_SLOTS = frozenset(phrase.slot for phrase in PHRASES)
FACTS = frozenset(
    {name for phrase in PHRASES for name, _ in phrase.braces} - _SLOTS
    | {name for name, _, _ in FLAGS.values()}
)
BOOK = Book(PHRASES, FACTS, FLAGS)


_SAID_SLOTS = frozenset(BOOK.slots)


def note_text(note: Note, form: str = "") -> str:
    """A note in words.

    form : `short`, `bare` (without a full stop), `labelled` (after a label of its rank) or
        `sentence`, where its kind has a phrase for it.
    """
    slot = f"{note.kind}_{form}"
    return BOOK.say(slot if slot in _SAID_SLOTS else note.kind, note.facts)


def note_texts(notes: Iterable[Note], form: str = "") -> list[str]:
    """Notes in words as `note_text` says them, in their order."""
    return [note_text(note, form) for note in notes]


def checked_by(notes: Iterable[Note]) -> list[str]:
    """The rules that an export was checked by, in words."""
    return note_texts(note for note in notes if note.kind == "rules_checked")
