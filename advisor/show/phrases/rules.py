"""The book of the doctor's rules: what is wrong, why, what to do by engine, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.answers.diagnosis.diagnose import Evidence
from advisor.answers.diagnosis.physics import NEAR, TestName
from advisor.answers.diagnosis.quantities import Value
from advisor.answers.flags import Flags
from advisor.measured.ingest.columns import COLUMNS
from advisor.show.phrases.book import Book, phrases_of
from advisor.text import with_prefix

FLAGS: Flags = {
    "vllm": ("engine", "==", "vllm"),
    "sglang": ("engine", "==", "sglang"),
    "off": ("recommended_k", "==", 0),
    "holds": ("holds", "==", True),
    "fails": ("holds", "==", False),
    "of_quantity": ("of", "known", None),
    "explained": ("words", "known", None),
    "of_plain": ("side", "==", "plain"),
    "of_told": ("side", "==", "told"),
    "forecast": ("fact", "==", "prediction"),
}


RULES: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "token_time_is_chunk_time": (
        "The time per token is the time of a streamed chunk of several tokens.",
        "A server streams all tokens of a round as one chunk, so a client that counts"
        " chunks reports a time per token that is too long by the accepted length.",
        {
            "": (
                "Compare mean TPOT, (latency - TTFT) / (tokens - 1), never ITL: vllm bench "
                "serve --percentile-metrics ttft,tpot,e2el"
            )
        },
    ),
    "rate_is_per_gpu": (
        "The output rate is per GPU, not of all GPUs.",
        "Requests that end in a second times the time of one are the requests in "
        "flight (Little's law), and that holds for the stated rate times the number "
        "of GPUs.",
        {"": "Multiply output_tok_per_s by the GPUs that served the run, in both arms"},
    ),
    "tokens_lost_in_retokenizing": (
        "The client counts fewer tokens than the server generated.",
        "Times per token rest on the client's count; a parser that holds text back, "
        "or another tokenizer, changes it.",
        {
            "sglang": (
                "Start the server without --tool-call-parser and --reasoning-parser for the "
                "benchmark, and give bench_serving the server's --tokenizer"
            ),
            "": ("Benchmark without output parsers and with the server's tokenizer (--tokenizer)"),
        },
    ),
    "peak_counts_chunks": (
        "The peak of the output rate counts chunks, and is below the mean.",
        "No peak is below its mean: each chunk of several tokens was counted as a single token.",
        {"": "Leave the peak out of the comparison; use output throughput and mean TPOT"},
    ),
    "prefill_in_token_time": (
        "The time per token includes the prefill and the queue.",
        "Latency over tokens spreads the time to the first token over all of them, "
        "and no drafter makes that shorter.",
        {
            "": (
                "Use (latency - TTFT) / (tokens - 1): guidellm's inter-token latency, vLLM's "
                "and SGLang's mean TPOT"
            )
        },
    ),
    "arrivals_set_the_batch": (
        "Requests arrive at a fixed rate, so no batch belongs to the measured time.",
        "Below saturation both arms serve what arrives, and the faster arm does so at"
        " a smaller batch: the ratio of the two is a speedup neither at one batch nor"
        " of throughput.",
        {"": "--request-rate inf --max-concurrency N, the same N in both arms"},
    ),
    "concurrency_not_reached": (
        "Far fewer requests were in flight than the concurrency asked for.",
        "The batch that a time belongs to is what ran, not what was asked for: the "
        "client was the limit.",
        {
            "": (
                "Raise the client's limit of connections, or start several clients; "
                "--num-prompts at least 5 x --max-concurrency"
            )
        },
    ),
    "too_few_requests": (
        "The run is so short that filling and draining the batch is part of it.",
        "With one or two waves of requests the batch is full for part of the time "
        "only, and the arm that ends sooner drains for longer.",
        {"": "--num-prompts at least 5 x --max-concurrency"},
    ),
    "requests_missing": (
        "Requests failed, and the rate counts only the others.",
        "What failed took time of the run and no tokens, and the requests that fail "
        "are seldom like the others.",
        {
            "": (
                "Look for the errors in the client's output, then repeat the run until all "
                "requests end"
            )
        },
    ),
    "first_run_cold": (
        "The first of several equal runs is slower: it includes compiling and filling caches.",
        "Kernels of a shape are compiled when it first occurs, and drafters bring "
        "shapes that a warm-up does not.",
        {
            "vllm": "--num-warmups 10 (vllm bench serve), and leave the first run out",
            "": "Send a run of the same shape first and leave it out",
        },
    ),
    "random_prompts": (
        "A trained drafter was measured on random tokens.",
        "The accepted length of random text holds for no other text: it can be far "
        "too high (a loop of two tokens) and far too low.",
        {
            "vllm": (
                "--dataset-name hf --dataset-path philschmid/mt-bench, or your prompts with "
                "--dataset-name custom"
            ),
            "": "Benchmark with prompts of the kind you serve (ShareGPT, MT-Bench, your logs)",
        },
    ),
    "nearly_all_accepted": (
        "Nearly every draft is accepted: the text repeats itself, or acceptance is "
        "set and not measured.",
        "Loops are easy to foresee; a synthetic or relaxed acceptance is not "
        "lossless, and neither says what users will see.",
        {
            "vllm": (
                "Leave rejection_sample_method and synthetic_acceptance_rates out of "
                "--speculative-config; read a few replies"
            ),
            "sglang": (
                "Leave --speculative-accept-threshold-single and SGLANG_SIMULATE_ACC_LEN out;"
                " read a few replies"
            ),
            "": "Read a few replies, and measure with prompts of the kind you serve",
        },
    ),
    "prompts_in_the_prefix_cache": (
        "The prompts were in the prefix cache, so prefills were left out.",
        "Repeated prompts make whichever arm runs second look faster, in time to "
        "first token and in throughput.",
        {
            "vllm": (
                "--no-enable-prefix-caching for both arms, or POST /reset_prefix_cache between runs"
            ),
            "sglang": "--disable-radix-cache for both arms, or bench_serving --flush-cache",
            "": "Switch the prefix cache off for both arms",
        },
    ),
    "arms_differ": (
        "The two runs differ in more than speculation.",
        "A ratio of two runs tells of everything in which they differ.",
        {
            "": (
                "Run both arms on one build with the same flags and client, with and without "
                "the speculative configuration"
            )
        },
    ),
    "arms_run_other_batches": (
        "The speculative run decodes far fewer requests at a time than the baseline.",
        "Its time per token is that of a smaller batch, and the requests that wait "
        "pay for it before their first token.",
        {
            "sglang": (
                "--max-running-requests and --mem-fraction-static such that both arms admit "
                "the same requests (the drafter takes memory from the cache)"
            ),
            "vllm": (
                "--max-num-seqs and --gpu-memory-utilization such that both arms admit the "
                "same requests"
            ),
            "": "Give both servers the same number of running requests",
        },
    ),
    "faster_than_its_weights": (
        "A step is shorter than reading the weights it touches.",
        "No accelerator reads faster than its memory: batch, GPUs, weight format or "
        "the unit of the time is another than stated.",
        {"": "Check batch, GPUs, weight format, accepted length and the unit of the time"},
    ),
    "graphs_off": (
        "CUDA graphs are switched off.",
        "A round launches every kernel of the target and of each drafting pass; "
        "without graphs the device waits for the host.",
        {"vllm": "Leave --enforce-eager out", "sglang": "Leave --disable-cuda-graph out"},
    ),
    "decodes_without_graph": (
        "Decode batches run without a CUDA graph although graphs are on.",
        "The batch is larger than the largest captured batch, or the mode of this "
        "step was not captured.",
        {"": "--cuda-graph-max-bs {captured_requests:requests}"},
    ),
    "round_not_captured": (
        "A round is larger than the largest captured CUDA graph.",
        "A round verifies batch x (K + 1) tokens; beyond the captured sizes it is "
        "launched kernel by kernel.",
        {
            "vllm": "--compilation-config '{..., \"cudagraph_capture_sizes\": {captured_tokens}}'",
            "sglang": "--cuda-graph-max-bs {captured_requests:requests}",
        },
    ),
    "graphs_lowered": (
        "The engine replaced full CUDA graphs by piecewise ones, or by none.",
        "Attention then runs between graphs, launched by the host in every layer of "
        "every round; FLASH_ATTN captures verification.",
        {"": "--attention-backend FLASH_ATTN"},
    ),
    "drafter_without_graphs": (
        "The drafter runs without CUDA graphs.",
        (
            "Each of the K passes is a handful of small kernels, so their launches are "
            "most of its time."
        ),
        {"": 'Leave "enforce_eager" out of --speculative-config'},
    ),
    "round_above_token_budget": (
        "The requests' rounds do not fit into the tokens of a step.",
        "vLLM counts K + 1 tokens for each running request against the budget; the "
        "others wait for the next step.",
        {"": "--max-num-batched-tokens {step_tokens}"},
    ),
    "sglang_admits_48": (
        "SGLang admits 48 requests, because speculation is on and no flag says otherwise.",
        "The others wait before their first token, and the batch is 48 whatever the client sends.",
        {"": "--max-running-requests {batch_size:requests}"},
    ),
    "admits_too_few": (
        "The server admits fewer requests than the client sends at a time.",
        "The batch is what the server admits; the rest of the concurrency is a queue,"
        " which the time to first token holds.",
        {
            "vllm": "--max-num-seqs {batch_size:requests}",
            "sglang": "--max-running-requests {batch_size:requests}",
        },
    ),
    "requests_wait": (
        "Requests wait in the server's queue while others decode.",
        "The batch that decodes is smaller than the concurrency, and speculation "
        "competes with a queue it does not shorten.",
        {
            "vllm": (
                "--max-num-seqs, --gpu-memory-utilization, or a smaller --max-concurrency "
                "of the client"
            ),
            "sglang": (
                "--max-running-requests, --mem-fraction-static, or a smaller "
                "--max-concurrency of the client"
            ),
            "": "Admit more requests, or send fewer at a time",
        },
    ),
    "cache_too_small": (
        "The KV cache does not hold the requests that are to run together.",
        "Requests are preempted and their prompts computed again; the drafter's "
        "weights and cache make the pool smaller than in the baseline.",
        {
            "vllm": (
                "--gpu-memory-utilization 0.95, --kv-cache-dtype fp8, or a smaller --max-num-seqs"
            ),
            "sglang": (
                "--mem-fraction-static 0.9, --kv-cache-dtype fp8_e4m3, or a smaller "
                "--max-running-requests"
            ),
            "": "Give the cache more memory, or run fewer requests",
        },
    ),
    "table_ignored_by_version": (
        "This release drafts the largest K whatever the table says.",
        "Model Runner V2 of these releases reads the table and does not use it.",
        {"": "VLLM_USE_V2_MODEL_RUNNER=0, or vLLM 0.33"},
    ),
    "table_not_known_to_version": (
        "This release does not know a table of K by batch size.",
        "num_speculative_tokens_per_batch_size came with 0.24.",
        {"": ("vLLM 0.33, or one K: --speculative-config '{..., \"num_speculative_tokens\": K}'")},
    ),
    "table_dropped_in_parallel": (
        "Under data parallelism the table is dropped and the largest K runs.",
        "Ranks could choose different K, so vLLM drops the table.",
        {
            "": (
                "One K for the batch of a rank: --speculative-config '{..., "
                '"num_speculative_tokens": K}\''
            )
        },
    ),
    "table_lowers_graphs": (
        "With a table this release replaces full CUDA graphs by piecewise ones.",
        "Model Runner V1 cannot capture several K with full graphs.",
        {"": "VLLM_USE_V2_MODEL_RUNNER=1 with vLLM 0.33, or one K"},
    ),
    "zero_still_drafts": (
        "The table says K = 0 at this batch, and the drafter still runs in every step.",
        "Engines run the drafter once a step to keep its cache, and keep the larger "
        "buffers: this is not the speed of a server without speculation.",
        {
            "vllm": (
                "Where the server mostly runs at such batches, start it without "
                "--speculative-config"
            ),
            "sglang": (
                "Where the server mostly runs at such batches, start it without "
                "--speculative-algorithm"
            ),
        },
    ),
    "rounds_not_overlapped": (
        "The host does not prepare a round while another runs.",
        "Scheduling, sampling and detokenizing then stand between two rounds, and a "
        "round has more of them than a baseline step.",
        {
            "vllm": "Leave --no-async-scheduling out",
            "sglang": "Leave --disable-overlap-schedule out",
        },
    ),
    "release_does_not_overlap": (
        "This release cannot overlap the host's work with rounds.",
        "Overlapped rounds are the default from vLLM 0.14 and SGLang 0.5.13 on; "
        "before, the baseline overlaps and the speculative run does not.",
        {
            "vllm": "vLLM 0.14 or later",
            "sglang": (
                "SGLang 0.5.13 or later with --speculative-eagle-topk 1, or "
                "SGLANG_ENABLE_SPEC_V2=1 before"
            ),
        },
    ),
    "tree_at_batch": (
        "A draft tree is verified at a batch where a chain would do.",
        "A tree verifies many nodes a request for a few accepted ones, and SGLang "
        "overlaps rounds of chains only.",
        {"": "--speculative-eagle-topk 1 --speculative-num-draft-tokens {verified_tokens}"},
    ),
    "drafter_hardly_accepted": (
        "Hardly any draft is accepted: drafter and target do not belong together.",
        "A drafter trained for another checkpoint, quantization, chat template or "
        "modality guesses; its rounds cost as much as good ones.",
        {
            "vllm": (
                "Give --speculative-config the drafter of exactly this checkpoint, and test "
                "it alone at --max-concurrency 1"
            ),
            "sglang": (
                "Give --speculative-draft-model-path the drafter of exactly this checkpoint, "
                "and test it alone"
            ),
            "": "Use the drafter of exactly this checkpoint and chat template",
        },
    ),
    "k_too_long": (
        "Drafts of the last positions are rarely accepted and cost more than they bring.",
        "Each position is drafted and verified in every round, and only the rounds "
        "that accept all before it gain from it.",
        {
            "vllm": 'A smaller "num_speculative_tokens": advisor advise --acceptance ... names it',
            "sglang": "A smaller --speculative-num-steps: advisor advise --acceptance ... names it",
            "": "A smaller K: advisor advise --acceptance ... names it",
        },
    ),
    "plain_step_slow": (
        "The baseline step alone takes more than five times what its kernels and host explain.",
        "What slows every step has nothing to do with drafts: clocks, a shared GPU, "
        "another kernel, another weight format or batch than stated.",
        {
            "": (
                "Measure the baseline step alone: vllm bench forward or "
                "sglang.bench_one_batch, and compare with advisor explain"
            )
        },
    ),
    "round_slow": (
        "The round takes more than twice what its kernels and host explain, and the "
        "baseline step does not.",
        "Drafting, verification or the host's part of a round is slower than measured"
        " kernels: a profile of one round tells which.",
        {
            "vllm": (
                "vllm bench forward --exclude-drafter for the verification pass alone; the "
                "rest of the round is drafting and host"
            ),
            "": (
                "Time one verification pass and one drafting pass apart; the rest of the "
                "round is the host"
            ),
        },
    ),
    "verification_serial": (
        "Verifying K + 1 tokens takes as long as K + 1 baseline steps.",
        "A pass over a few tokens reads the weights once; a pass that takes K + 1 "
        "times as long runs another kernel, or the tokens in sequence.",
        {
            "vllm": (
                "Look for the kernel of the verification pass (vllm bench forward "
                "--exclude-drafter, nsys), and try another --attention-backend and MoE "
                "backend"
            ),
            "sglang": "Try another --attention-backend and --moe-runner-backend",
            "": "Try other attention and MoE kernels for passes of few tokens",
        },
    ),
    "drafting_slow": (
        "Drafting takes more than twice what its passes explain.",
        "Each pass of a drafter is short, so that the host's time for launching, "
        "sampling and attention metadata is most of it.",
        {
            "vllm": (
                "See that the drafter's passes replay CUDA graphs (no enforce_eager in "
                "--speculative-config); method dflash, dspark or parallel drafting needs one "
                "pass"
            ),
            "sglang": (
                "See that cuda graph: True stands in the decode log; fewer --speculative-num-steps"
            ),
            "": "See that the drafter's passes replay CUDA graphs; draft fewer tokens",
        },
    ),
    "accepted_length_below_published": (
        "Fewer tokens are accepted than anybody published for this model and drafter.",
        "Another checkpoint, quantization, temperature, language or chat template "
        "than the drafter learnt.",
        {
            "": (
                "Measure the accepted length on the drafter's benchmark first (MT-Bench, "
                "GSM8K at temperature 0); then find what differs"
            )
        },
    ),
    "time_is_mostly_prefill": (
        "Most of the time per token is other requests' prefill, which no drafter makes shorter.",
        "With long prompts and short answers the steps of running requests carry "
        "chunks of prompts; speculation speeds up the rest only.",
        {
            "vllm": (
                "For decoding alone: longer answers (--random-output-len 1024 and more), or "
                "separate prefill nodes; a smaller --max-num-batched-tokens shares the pain"
            ),
            "": "For decoding alone: longer answers, or separate prefill nodes",
        },
    ),
    "k_loses_as_predicted": (
        "The model predicts a loss at this K and batch, and recommends drafting less.",
        "A round verifies K + 1 tokens of every request; at a batch that fills the "
        "device each of them costs, and what is accepted does not pay for it.",
        {
            "off vllm": "vllm serve ... without --speculative-config",
            "off sglang": "python -m sglang.launch_server ... without --speculative-algorithm",
            "off": "Start the server without speculation",
            "vllm": "--speculative-config '{..., \"num_speculative_tokens\": {recommended_k}}'",
            "sglang": (
                "--speculative-num-steps {recommended_k} --speculative-eagle-topk 1 "
                "--speculative-num-draft-tokens {recommended_tokens}"
            ),
            "": "Draft {recommended_k} tokens a round",
        },
    ),
    "first_token_waits": (
        (
            "The first token takes more than five times as long as the prompts of all "
            "requests at once."
        ),
        "In a burst the last request waits for the prompts of all; the rest is a "
        "longer queue or a compilation, and tells nothing about either arm's speed.",
        {
            "": (
                "A smaller --max-concurrency, more admitted requests, or a warm-up of the "
                "same shape"
            )
        },
    ),
}
"""What a rule finds, why it matters, and what to do by engine."""
_OF_EVIDENCE = {
    "evidence": {
        "holds": "{words}: yes",
        "fails": "{words}: no",
        "of_quantity": "{words} {value}, {test} {limit} ({of})",
        "": "{words} {value}, {test} {limit}",
    },
    "need": {
        "forecast": "a prediction (accelerator, model, engine, batch and K)",
        "of_told": "a run with {words}",
        "of_plain": "{fact} of the baseline ({words})",
        "explained": "{fact} ({words})",
        "": "{fact}",
    },
}
PHRASES = phrases_of(
    {
        **_OF_EVIDENCE,
        **{name: {"": wrong} for name, (wrong, _, _) in RULES.items()},
        **{f"{name}_why": {"": why} for name, (_, why, _) in RULES.items()},
        **{f"{name}_do": remedies for name, (_, _, remedies) in RULES.items()},
    }
)
FACTS = frozenset(
    (
        *("engine", "recommended_k", "recommended_tokens", "batch_size", "verified_tokens"),
        *("step_tokens", "captured_requests", "captured_tokens"),
        *("words", "value", "test", "limit", "of", "holds", "fact", "side"),
    )
)
BOOK = Book(PHRASES, FACTS, FLAGS)

_OF_RUNS = {
    "token_time_over_rate": "time per token x rate / batch",
    "retokenized_share": "tokens counted again over tokens generated",
    "peak_over_mean": "peak output rate over its mean",
    "concurrency_share": "mean concurrency over the concurrency asked for",
    "requests_per_slot": "completed requests per concurrent request",
    "first_run_over_later": "first run's time per token over the later runs'",
    "waiting_share": "requests that wait over all",
    "missing_share": "requests that did not end well",
    "accepted_share": "share of drafts that are accepted",
    "decoding_over_plain": "requests decoding at a time over those of the baseline",
    "cache_over_pool": "tokens in the cache over its size",
    "positions": "tokens of a round, K + 1",
    "in_flight_times_gpus": "requests in flight by Little's law x GPUs / batch",
    "prefill_in_token_time": "time per token over latency / tokens",
    "open_loop_rate": "requests sent in a second",
    "random_prompts": "random prompts with a trained drafter",
    "differences_of_arms": "settings in which the two runs differ",
    "admitted": "requests that the server admits",
    "admitted_by_default": "requests that the server admits because no flag says otherwise",
    "lowered_graphs": "graphs are piecewise, or none",
    "tokens_over_budget": "tokens of a round over the budget of a step",
    "guards": "what this version does with the table",
    "table_k": "K that the table gives at this batch",
    "kind_of_build": "kind of the engine's build",
    "accepted_drafts": "drafts accepted in a round, of a trained drafter",
    "verification_ratio": "verification pass over baseline step",
    "decoding_requests": "requests that decode at a time",
    "requests_in_graphs": "requests whose rounds fit in the largest CUDA graph",
}
_OF_PREDICTIONS = {
    "time_over_least": "round (or baseline step) over reading the weights it touches",
    "gain_of_another_k": "predicted speedup at the best smaller K above 0, over that at this K",
    "round_over_predicted": "round, measured over predicted",
    "first_token_over_predicted": (
        "time to first token over the prompts of all requests at once, in sequence"
    ),
    "round_over_todays": "predicted round on this release over that on today's",
    "plain_over_predicted": "time without drafts, measured over predicted",
    "draft_over_predicted": "drafting, measured over predicted",
    "length_over_published": "accepted length over the lowest published for this model and drafter",
    "prefill_share": "share of the time per token predicted for prompts",
    "stated_prefill_share": "share of the time per token predicted for prompts",
    "predicted_speedup": "predicted speedup at this K",
    "known_speedup": "speedup of the run, predicted where no baseline stands beside it",
    "as_predicted": "the run lies in the 80% range of its prediction",
    "recommended_k": "K recommended at this batch",
}
_OF_SERVERS = {
    "launch_line": "the server's arguments are known",
    "speculation_on": "the server was started with speculation",
    "max_num_seqs": "requests that the server admits (vLLM --max-num-seqs)",
    "max_running_requests": "requests that the server admits (SGLang --max-running-requests)",
    "max_num_batched_tokens": "tokens of a step (vLLM --max-num-batched-tokens)",
    "graphs_off": "CUDA graphs are switched off (--enforce-eager, --disable-cuda-graph)",
    "graph_mode": "mode of CUDA graphs (cudagraph_mode)",
    "largest_graph": "tokens of the largest captured graph (cudagraph_capture_sizes)",
    "largest_graph_batch": "requests of the largest captured graph (SGLang --cuda-graph-max-bs)",
    "draft_graphs_off": "the drafter runs without CUDA graphs (enforce_eager of the drafter)",
    "asynchronous": (
        "the host prepares a round while another runs (--no-async-scheduling, "
        "--disable-overlap-schedule)"
    ),
    "k_table": "K by batch size (num_speculative_tokens_per_batch_size)",
    "data_parallel": "data-parallel ranks (--data-parallel-size, --dp-size)",
    "draft_topk": "branches of a draft tree at each depth (SGLang --speculative-eagle-topk)",
    "kv_pool_tokens": "tokens that the KV cache holds (GPU KV cache size, max_total_num_tokens)",
    "running_requests": "requests that decode, mean over the log",
    "waiting_requests": "requests that wait, mean over the log",
    "logged_tok_per_s": "output rate, median over the log",
    "prefix_hit_share": "prompt tokens found in the prefix cache (Prefix cache hit rate)",
    "decode_without_graph": "logged decode batches without a CUDA graph (cuda graph: False)",
}
_OF_CLIENTS = {
    "requests_completed": "requests that ended well",
    "requests_asked": "requests that were sent",
    "request_rate": "requests that the client sends in a second",
    "mean_concurrency": "requests in flight, mean over the run",
    "peak_tok_per_s": "peak of the output rate",
    "tokens_generated": "tokens that the server says it generated",
    "tokens_retokenized": "tokens of the text, counted again",
    "temperature": "temperature of sampling",
    "first_tpot_s": "time per token of the first of equal runs",
    "later_tpot_s": "median time per token of the runs after it",
}
WORDS: Mapping[str, str] = {**_OF_SERVERS, **_OF_CLIENTS, **_OF_RUNS, **_OF_PREDICTIONS}
"""Facts, with the flag or line that states each, and quantities that rules test."""
TESTS: Mapping[TestName, str] = {
    "above": "above",
    "at_least": "at least",
    "below": "below",
    "near": f"within {NEAR:.0%} of",
    "is": "is",
    "contains": "names",
}
_INPUTS = {
    "launch": "the server's launch line or printed arguments",
    "log": "the server's log while it decodes",
    "result": "the benchmark's result file",
    "repeats": "the same run, repeated three times",
    "accepted_length": (
        "the accepted length (SGLang's log line: accept len; vLLM's: Mean acceptance length)"
    ),
    "acceptance_by_position": "vLLM's log line Per-position acceptance rate",
}


def input_words(name: str) -> str:
    """An input that rules wait for: a source of FACTS or a column."""
    column = COLUMNS["points"].get(name)
    return _INPUTS.get(name) or (name if column is None else f"the {column.in_text}")


def quantity_words(name: str) -> str:
    """A quantity that a rule tests."""
    fact = name.rpartition(":")[2]
    column = COLUMNS["points"].get(fact)
    return WORDS.get(fact) or (fact if column is None else column.in_text)


def need_words(need: str) -> str:
    """A fact that a rule lacks, `a|b` where either does, and where it is found."""
    return " or ".join(_need(name) for name in need.split("|"))


def _need(name: str) -> str:
    side, _, fact = name.rpartition(":")
    words = WORDS.get(fact) or quantity_words(fact)
    facts = {"fact": fact, "words": None if words == fact else words, "side": side}
    return BOOK.say("need", facts)


def evidence_text(evidence: Evidence) -> str:
    """One test of a rule: what was measured, and what it was held against."""
    test = evidence.test
    against = test.limit.of
    facts = {
        "words": quantity_words(test.quantity),
        "value": _value(evidence.value, evidence.unit),
        "test": TESTS[test.test],
        "limit": _value(evidence.limit, evidence.unit),
        "of": None if against is None else quantity_words(against),
        "holds": evidence.value if isinstance(evidence.limit, bool) else None,
    }
    return BOOK.say("evidence", facts)


def _value(value: Value, unit: str) -> str:
    if isinstance(value, bool | str) or value is None:
        return str(value)
    if unit == "s":
        return with_prefix(float(value), unit)
    return f"{value:,.4g}" + ("" if unit == "1" else "×" if unit == "x" else f" {unit}")
