"""The book of reading: what was computed, taken or left out where measured files are read, and what
to check in them."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.answers.flags import Flags
from advisor.measured.ingest.checks import ABOVE_ROUND, QUICKEST_S, SHORTEST_PROMPT
from advisor.measured.ingest.derived import CHUNK_TOLERANCE
from advisor.measured.ingest.result import TIMES, ReadNote
from advisor.measured.ingest.rows import of_files
from advisor.measured.ingest.side_by_side import METRICS
from advisor.measured.ingest.upload import MAX_REJECTS
from advisor.physics.acceptance import SAME_RUN_LOG_SD
from advisor.show.phrases.book import Book, Phrase, phrases_of

_SHARED = {
    "medians": "{columns:commas}: the file gives no mean, so the median stands in",
    "model_from": "model_id taken from {field} ({name}): {stated:quoted} names no known model",
    "length_from_drafts": "accepted_length computed in {n:rows} as 1 + accepted tokens / drafts",
    "length_from_rounds": "accepted_length computed in {n:rows} as output tokens / rounds",
    "k_from_drafts": "draft_tokens_k taken in {n:rows} from draft tokens / drafts",
    "k_from_positions": "draft_tokens_k taken in {n:rows} from the number of draft positions "
    "reported",
    "k_from_rounds": "draft_tokens_k taken in {n:rows} from draft tokens / rounds",
    "k_from_steps": "draft_tokens_k taken in {n:rows} from draft tokens / steps",
    "k_varied": "draft length varied in {n:rows} (mean {mean:x2}); state K. Acceptance by position "
    "is left out: the later positions were not drafted in every round",
    "files": "lines are counted on through the files: {starts:starts}",
    "no_chunks": "draft_tokens_k 0 in {n:rows}: chunks of a single token (itl / tpot), where "
    "another run's hold several",
    "name_replaced": "{column} {stated:quoted}, which the file states in {n:rows}, read as "
    "{name:quoted}, as you say",
    "format_of_name": "weight_dtype {format} read from the name {stated:quoted} where none is "
    "given{format_remark}",
    "copies": "batch_size and rates in {n:rows} are shared by {copies} copies of the model: each "
    "decodes its part",
}
_OF_FORMATS = {
    "llama_benchy": "tpot_s is 1 / tokens per second of a request, its first token left out; the "
    "tool records neither the engine nor K: state both, with K = 0 for runs without drafts",
    "llama_benchy_json": "{llama_benchy}",
    "llama_benchy_csv": "{llama_benchy}",
    "trtllm_report": "batch_size is the mean number of requests in flight, including those in "
    "prefill",
    "trtllm_bench": "{trtllm_report}",
    "engine_steps": "steps of a real engine with random weights; docs/profiling.md says what its "
    "columns are",
    "profiler_sweep": "latency is the median over rounds; the meta.yaml in the same folder names "
    "the device",
    "benchmark_moe": "num_tokens is the printed batch size; the log states neither the layer's "
    "shape nor the GPU",
    "vllm_steps": "step times are medians of the engine's log; accepted drafts are not in these "
    "lines",
    "sglang_steps": "step times are batch x accepted length over the rate that the server's log "
    "gives",
    "vllm_latency": "the latency is of a whole batch and includes prefill, so it gives a rate but "
    "no step time",
    "vllm_throughput": "tokens_per_second counts prompt and generated tokens; the engine chose the "
    "batch",
    "vllm_forward": "verify_time_s is the timed forward pass itself (median); it contains no "
    "drafting and no sampling",
    "serving_console": "the block is rounded to two decimals; the result file is more exact",
    "aiperf_csv": "the CSV rounds to two decimals; the JSON of the same run is more exact",
    "inferencex_multiturn": "multi-turn run: turns share a prompt that the cache holds, so lengths "
    "are means of a wide spread",
    "sglang_speculative": "step_time_s is the tool's 20th percentile of a whole round: drafting "
    "and verification together; tpot_s is 1 / speed, and output_tok_per_s is speed x batch: the "
    "tool's speed is per request",
    "specforge": "drafter eagle3: the tool starts every server that drafts with EAGLE3; the tool's "
    "rate includes prefill, and its clients do not stream: it gives no time per token",
    "guidellm_json": "tpot_s is guidellm's inter-token latency; guidellm's time per output token "
    "includes the prefill; itl_s is inter-token latency x tokens per streamed iteration",
    "guidellm_csv": "{guidellm_json}",
}
"""What holds of all rows of a format, by its id."""
_OF_READERS = {
    "no_streaming": "without --streaming the report has no time per token: its rate includes "
    "prefill",
    "prompt_tests": "{left:count} left out: prompt processing and loading of a context",
    "pair": "{plain:quoted} is read as the value without drafts, {spec:quoted} as the value with "
    "them ({pair_counts}){pair_others}",
    "other_operations": "{n} rows of other operations were left out: only MoE layers become kernel "
    "rows",
    "latency_in_ms": "latency read as milliseconds, the unit of this table layout",
    "left_idle": "left out: {left:count} idle",
    "left_with_prompts": "left out: {left:count} with prompts",
    "left_of_unequal_k": "left out: {left:count} whose sequences differ in K",
    "left_after_a_prompt": "left out: {left:count} after a prompt or another batch",
    "of_one_rank": "requests are those of a single data-parallel rank: where the run had several, "
    "set batch_kind=requests_per_rank",
    "means_of_requests": "a single row of means over {n:int} requests; the file does not state the "
    "concurrency",
    "warm_up": "{left:count} of the warm-up left out",
    "precision": "precision bf16 left out: vLLM's performance CI writes it where its recipe names "
    "no format",
    "agentic": "agentic replay: many turns share a prompt that the cache holds, so lengths are "
    "means of a wide spread",
    "gpus_from_ranks": "gpu_count is tp x pp, and rates are per-GPU rates x gpu_count, where "
    "prefill and decode share the GPUs",
    "steady_rate": "output_tok_per_s is the steady rate per GPU x n_gpu, and tpot_s the steady "
    "time",
    "gpus_from_rates": "gpu_count is total_token_throughput / tput_per_gpu",
    "queued": "{left:count} queued: the batch is the mean of the requests that ran",
    "mtp_as_eagle": "drafter mtp: SGLang runs a model's MTP module as EAGLE (or NEXTN), and the "
    "file names no draft checkpoint but the model itself or a NextN copy",
    "time_from_latency": "tpot_s computed as (latency - first token) / (output length - 1), for a "
    "batch that runs to its end",
}
_COMPUTED = {
    "computed_accepted_length": "accepted_length computed in {n:rows} from chunk latency / token "
    "latency; true only if each chunk is a single step",
    "otherwise_accepted_length": "accepted_length and step_time_s left empty in {n:rows}: chunk "
    "latency / token latency exceeds K + 1, so chunks are not single steps or the client counted "
    "the tokens itself",
    "computed_step_time_s": "step_time_s computed in {n:rows} from latency between chunks, or "
    "token latency x accepted length; includes host time",
    "otherwise_step_time_s": "in {n:rows} chunks are not single steps (chunk latency differs from "
    f"token latency x accepted length by over {CHUNK_TOLERANCE:.0%}); the product was taken as "
    "step time",
    "otherwise_length_per_request": "accepted_length in {n:rows} is a mean over requests: rounds "
    "emit less (4.65 for the 5.34 of the DFlash 2 card of Qwen3.8-27B), so it counts as borrowed",
    "computed_context_tokens": "context_tokens computed in {n:rows} from prompt length + half the "
    "output length",
    "computed_output_tok_per_s": "output_tok_per_s computed in {n:rows} from total rate or "
    "whole-batch latency and the lengths; includes prefill",
    "computed_speedup": "speedup computed in {n:rows} from sd_value and baseline_value; for times "
    "the inverse ratio, for rounds x accepted length",
    "computed_tpot_s": "tpot_s computed in {n:rows} from sd_value, by its metric",
    "otherwise_tpot_s": "the latency between chunks is read as the time per token in {n:rows}: it "
    "is shorter with drafts than without, which no round is",
    "computed_batch_size": "batch_size computed in {n:rows} from output rate x time per token "
    "(Little's law): sequences that decoded together on average, without requests that waited or "
    "were prefilled",
}
_SPEEDUPS = {
    "speedup_stated": "speedup stated by the file in {n:rows}",
    "speedup_matched": "speedup computed in {n:rows} from a baseline row with K = 0 and otherwise "
    "the same",
    "baseline_unstated": "in {n:rows} of these the run or its baseline does not state all of it "
    "({names:commas}): taken as the same",
    "baseline_missing": "{no_baseline}: {add_baseline} to get their speedup",
    "baseline_no_figure": "{no_baseline}: line {plain_line} is the run without drafts of line "
    "{line}, but they state no figure of the same kind; give a time per output token, or a rate, "
    "of both",
    "baseline_several": "{no_baseline}: several runs without drafts fit line {line}; state lengths "
    "and prompts of each run",
    "baseline_differs": "{no_baseline}: the nearest run without drafts (line {plain_line}) differs "
    "from line {line} in {differences:differences}{more_differences}; fill in what is not stated, "
    "or {add_baseline}",
    "no_baseline": "no baseline found for {n:rows} with K > 0",
    "add_baseline": "add a run with speculation off (K = 0) on the same hardware, engine, model, "
    "batch and lengths",
    "metric_open": "no speedup follows in {n:rows} until metric says what baseline_value and "
    f"sd_value count: {', '.join(METRICS)}",
    "untimed": "neither a time per token nor a rate in {n:rows} with K > 0, so no speedup follows "
    "there",
    "k_unknown": "rows whose K is unknown get no speedup until it is filled in",
    "both_in_row": "the values without and with drafts stand in the same row in {n:rows}",
    "no_drafts": "no row has K > 0, so there is no speedup to compute",
}
_OF_COLUMNS = {
    "column_repeated": "column {column} repeats column {first} and was ignored",
    "old_names": "read under the names of before 0.2: {renamed:as}",
    "unit_unknown": "column {stated:quoted} was ignored because its unit is unknown; name it "
    f"{{name}}_ms or {{name}}_s, or say --map {TIMES}=ms",
    "not_known": "{left:count} not known and ignored: {names:commas}",
    "misplaced": "{first} holds words and {second} holds numbers: they look swapped; exchange the "
    "two headers",
    "exchanged": "{reason}",
    "several_k": "columns of several K side by side (K = {drafts:commas}{turned}): each row is "
    "read as one row for each K",
    "k_of_words": "{stated} is read as the draft length: {k_of_word:k_as}",
    "settings_around": "taken for every run from around the list: {names:commas}",
    "several_records": "a row stands for several records of this file, so the fields you named "
    "were not read",
    "name_unknown": "{column} {stated:quoted} fits no single known id: {usable} kept, but not "
    "predicted until you choose one",
}
"""Warnings of columns and names; `reason` is why rows were refused."""
_OF_LINES = {
    "sums_up": "line {line} is left out: it sums up the rows above it",
    "not_utf8": "line {line} is not UTF-8; the file was read as Windows-1252, so check names with "
    "accents",
    "decimal_commas": "commas in numbers were read as decimal points",
    "left_out": "line {line} is left out: {reason}",
    "more_left_out": "{left:count} left out for the same reasons",
    "repeated": "{n:rows} equal to another in every cell: counted once",
    "reasons_cut": f"only the first {MAX_REJECTS:,} of {{n:int}} reasons are listed",
    "failed": "{n:int} of {total:int} requests failed in {left:count}: times and rates are of "
    "those that did not, at a smaller batch than was asked for",
    "counts_differ": "the tool counted {client:g} output tokens per request, the server "
    "{server:g}: times per token, and an accepted length computed from them, rest on the tool's "
    "own tokenizer; run it with the model's tokenizer or with server token counts",
}
"""Warnings of lines, rows and runs."""
_ODD = {
    "places": "{n:rows} (line {lines:commas}{more_lines})",
    "rate_low": "{places}: the rate is only {share:g3} of batch_size / tpot_s; {rate_question}",
    "prefill_in_time": "{places}: tpot_s is request_latency_s / output_tokens, so the prefill is "
    "in it; leave the first token out",
    "round_as_token": "{places}: step_time_s equals tpot_s although a round gives several tokens; "
    "one of them is the other's",
    "round_apart": "{places}: step_time_s is not tpot_s x accepted_length; check units and headers",
    "all_accepted": "{places}: accepted_length is exactly K + 1: every draft token accepted in "
    "every round; is it a count or a setting?",
    "prompts_short": f"{{places}}: input_tokens is below {SHORTEST_PROMPT:g}: is it in thousands "
    "of tokens?",
    "time_too_short": f"{{places}}: {{name}} is below {QUICKEST_S * 1e3:g} ms: is it in seconds "
    "under a header in ms?",
    "speedup_inverse": "{places}: speedup is the inverse of what the baseline rows give: time with "
    "drafts over time without",
    "speedup_apart": "{places}: speedup is not what the baseline rows of this file give; is it a "
    "percentage or a gain?",
    "above_round": f"{{places}}: {ABOVE_ROUND}",
    "requests_queued": "{places}: requests queued: {waiting:2} waited for their first token or "
    "were prefilled for each one that decoded; their prefills also slow the decoding, so compare "
    "at a lower request rate",
}
"""What is odd in rows, with where they stand."""
_ACCEPTANCE = {
    "engines_summed": "{n} engines are summed",
    "k_mixed": "a round drafted {mean:x2} tokens on average, not {n}: tokens that were not drafted "
    "count as refused, so the rates hold for this mix of draft lengths",
    "positions_apart": "the positions add up to {n:int} accepted tokens, but {total:int} are "
    "counted in all",
    "few_rounds": "only {n:int} rounds: their sampling error of {error:pct1} is wider than the "
    f"{SAME_RUN_LOG_SD:.0%} that the band assumes; count more",
    "no_positions": "the server counts no positions: one probability stands for all, bent as "
    "measured curves are",
    "golden_curve": "from accepted lengths that were measured at each K apart; shares that rose "
    "with position were averaged",
}
"""What to know of acceptance by position."""
_BY_CASE = {
    "pair_counts": {
        "counted": "{counts}",
        "guessed": "{guess}, unless you state otherwise",
        "": "state what they count",
    },
    "pair_others": {
        "others": "; --prefer {others:or} reads that instead",
    },
    "times_read": {
        "in_ms": "times are milliseconds, as headers say: rate and batch of the rows tell",
        "": "times are seconds, whatever headers say: rate and batch of the rows tell",
    },
    "format_remark": {
        "remarked": " ({remark})",
    },
    "name_remark": {
        "checkpoint": "model_id {stated:quoted}: {remark}",
        "": "model_id {stated:quoted}: not known as a checkpoint; a profile's id that it begins "
        "with stands for it",
    },
    "own_document": {
        "named": "{column} {stated:quoted} in {n:rows} read as {name}, which you gave",
        "": "{column}, not stated, in {n:rows} read as {name}, which you gave",
    },
    "more_differences": {
        "more": " and {n_more} more",
    },
}
_WARNINGS_BY_CASE = {
    "more_lines": {
        "more": ", ...",
    },
    "turned": {
        "turned": ", from the rows {k_from}; batches from {batches_from}",
    },
    "usable": {
        "usable": "{places}",
        "": "no usable row",
    },
    "rate_question": {
        "per_gpu": "is output_tok_per_s per GPU? It has to be the total of all GPUs",
        "": "is tpot_s a time per token, was batch_size really running, is the rate the total of "
        "all GPUs?",
    },
}
_FLAGS: Flags = {
    "counted": ("counts", "known", None),
    "guessed": ("guess", "known", None),
    "others": ("others", "!=", ()),
    "remarked": ("remark", "!=", ""),
    "checkpoint": ("remark", "known", None),
    "named": ("stated", "known", None),
    "more": ("n_more", ">", 0),
    "turned": ("k_from", "known", None),
    "usable": ("n", ">", 0),
}
_ALWAYS = _SHARED | _OF_FORMATS | _OF_READERS | _COMPUTED | _SPEEDUPS
_ALWAYS |= _OF_COLUMNS | _OF_LINES | _ODD | _ACCEPTANCE
_PHRASES = [Phrase(slot, "", say) for slot, say in _ALWAYS.items()]
BOOK = Book.of(*_PHRASES, *phrases_of(_BY_CASE | _WARNINGS_BY_CASE), flags=_FLAGS)


def reading_texts(notes: Iterable[ReadNote]) -> list[str]:
    """Notes on what was read, in words and in their order, without those that say nothing."""
    texts = ((note.files, BOOK.say(note.kind, dict(note.facts))) for note in notes)
    return [f"{of_files(files)}{text}" for files, text in texts if text]
