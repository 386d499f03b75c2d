"""The quantities that rules test, each with what it needs, so that a rule says what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from advisor.diagnosis import readings
from advisor.diagnosis.arms import differences
from advisor.diagnosis.facts import FACTS, Run, unit_of
from advisor.diagnosis.physics import token_time_s
from advisor.diagnosis.readings import Value
from advisor.ingest import COLUMNS


@dataclass(frozen=True)
class RunQuantity:
    """Quantity that a rule tests: words, unit, what it is made of, and how."""

    words: str
    unit: str
    needs: tuple[str, ...]
    """Facts, `a|b` where either does, `plain:NAME` of the plain run, `prediction`."""
    of: Callable[[Run], Value]


def quantity(name: str) -> RunQuantity:
    """A quantity by name: one of QUANTITIES, or a fact or column as it is. Raises KeyError for any other."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name.rpartition(":")[2] not in {*FACTS, *COLUMNS["points"]}:
        raise KeyError(name)
    return _as_it_is(name)


@lru_cache(maxsize=256)
def _as_it_is(name: str) -> RunQuantity:
    return RunQuantity(
        name.replace("plain:", "plain run's "), unit_of(name), (name,), lambda run: readings.cell(run, name)
    )


QUANTITIES: dict[str, RunQuantity] = {
    "token_time_over_rate": RunQuantity(
        "time per token x rate / batch",
        "1",
        ("tpot_s", "output_tok_per_s", "batch_size"),
        readings.numbers("tpot_s", "output_tok_per_s", "batch_size")(lambda t, r, b: t * r / b),
    ),
    "in_flight_times_gpus": RunQuantity(
        "requests in flight by Little's law x GPUs / batch",
        "1",
        ("output_tok_per_s", "output_tokens", "request_latency_s|ttft_s", "tpot_s", "batch_size", "gpu_count"),
        readings.in_flight_times_gpus,
    ),
    "retokenized_share": RunQuantity(
        "tokens counted again over tokens generated",
        "1",
        ("tokens_retokenized", "tokens_generated"),
        readings.numbers("tokens_retokenized", "tokens_generated")(lambda again, first: again / first),
    ),
    "peak_over_mean": RunQuantity(
        "peak output rate over its mean",
        "1",
        ("peak_tok_per_s", "output_tok_per_s"),
        readings.numbers("peak_tok_per_s", "output_tok_per_s")(lambda peak, mean: peak / mean),
    ),
    "prefill_in_token_time": RunQuantity(
        "time per token over latency / tokens",
        "1",
        ("tpot_s", "request_latency_s", "ttft_s", "output_tokens"),
        readings.prefill_in_token,
    ),
    "concurrency_share": RunQuantity(
        "mean concurrency over the concurrency asked for",
        "1",
        ("mean_concurrency", "batch_size"),
        readings.numbers("mean_concurrency", "batch_size")(lambda mean, asked: mean / asked),
    ),
    "waiting_share": RunQuantity(
        "requests that wait over all",
        "1",
        ("waiting_requests", "running_requests"),
        readings.numbers("waiting_requests", "running_requests")(lambda wait, run: wait / (wait + run)),
    ),
    "requests_per_slot": RunQuantity(
        "completed requests per concurrent request",
        "1",
        ("requests_completed", "batch_size"),
        readings.numbers("requests_completed", "batch_size")(lambda done, batch: done / batch),
    ),
    "missing_share": RunQuantity(
        "requests that did not end well",
        "1",
        ("requests_completed", "requests_asked"),
        readings.numbers("requests_completed", "requests_asked")(lambda done, asked: 1.0 - done / asked),
    ),
    "first_run_over_later": RunQuantity(
        "first run's time per token over the later ones'",
        "1",
        ("first_tpot_s", "later_tpot_s"),
        readings.numbers("first_tpot_s", "later_tpot_s")(lambda first, later: first / later),
    ),
    "accepted_share": RunQuantity(
        "share of drafts that are accepted",
        "1",
        ("accepted_length", "draft_tokens_k"),
        readings.numbers("accepted_length", "draft_tokens_k")(lambda length, k: (length - 1.0) / k),
    ),
    "open_loop_rate": RunQuantity("requests sent in a second", "1/s", ("request_rate",), readings.open_loop),
    "random_prompts": RunQuantity(
        "random prompts with a trained drafter", "1", ("dataset", "drafter"), readings.random_prompts
    ),
    "differences_of_arms": RunQuantity(
        "settings in which the two runs differ",
        "1",
        ("plain:tpot_s|plain:output_tok_per_s|plain:step_time_s",),
        lambda run: float(len(differences(run.facts, run.plain))) if run.plain else None,
    ),
    "decoding_over_plain": RunQuantity(
        "requests decoding at a time over those of the plain run",
        "1",
        ("tpot_s", "output_tok_per_s", "plain:tpot_s", "plain:output_tok_per_s"),
        readings.decoding_ratio,
    ),
    "time_over_least": RunQuantity(
        "round (or plain step) over reading the weights it touches",
        "1",
        ("prediction", "tpot_s|step_time_s|output_tok_per_s"),
        readings.over_least,
    ),
    "admitted": RunQuantity(
        "requests that the server admits",
        "1",
        ("max_num_seqs|max_running_requests",),
        lambda run: run.number("max_num_seqs") or run.number("max_running_requests"),
    ),
    "admitted_by_default": RunQuantity(
        "requests that the server admits because no flag says otherwise", "1", ("launch_line",), readings.by_default
    ),
    "tokens_over_graph": RunQuantity(
        "round over the largest captured graph",
        "1",
        ("batch_size", "draft_tokens_k", "largest_graph|largest_graph_batch"),
        readings.graph_excess,
    ),
    "lowered_graphs": RunQuantity("graphs are piecewise, or none", "1", ("graph_mode",), readings.lowered),
    "tokens_over_budget": RunQuantity(
        "tokens of a round over the budget of a step",
        "1",
        ("batch_size", "draft_tokens_k", "max_num_batched_tokens"),
        readings.budget_excess,
    ),
    "guards": RunQuantity(
        "what this version does with the table",
        "1",
        ("k_table|launch_line", "engine_version|launch_line"),
        readings.guards,
    ),
    "table_k": RunQuantity(
        "K that the table gives at this batch", "tokens", ("k_table|launch_line", "batch_size"), readings.table_k
    ),
    "kind_of_build": RunQuantity("kind of the engine's build", "1", ("engine_version",), readings.kind_of_build),
    "round_over_todays": RunQuantity(
        "predicted round on this release over that on today's",
        "1",
        ("prediction",),
        readings.predicted(lambda found: found.build_share if found.known_class else None),
    ),
    "cache_over_pool": RunQuantity(
        "tokens in the cache over its size",
        "1",
        ("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens"),
        readings.numbers("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens")(
            lambda batch, prompt, output, pool: batch * (prompt + output / 2.0) / pool
        ),
    ),
    "accepted_drafts": RunQuantity(
        "drafts accepted in a round, of a trained drafter",
        "tokens",
        ("accepted_length", "draft_tokens_k", "drafter"),
        readings.accepted_drafts,
    ),
    "gain_of_another_k": RunQuantity(
        "predicted speedup at the best smaller K above 0, over that at this one",
        "1",
        ("prediction", "acceptance_by_position"),
        readings.gain_of_another_k,
    ),
    "verification_ratio": RunQuantity(
        "verification pass over plain step",
        "1",
        ("verify_time_s", "plain:step_time_s|plain:tpot_s"),
        lambda run: readings.over(run.number("verify_time_s"), token_time_s(run.plain) if run.plain else None),
    ),
    "positions": RunQuantity(
        "tokens of a round, K + 1", "tokens", ("draft_tokens_k",), readings.numbers("draft_tokens_k")(lambda k: k + 1.0)
    ),
    "plain_over_predicted": RunQuantity(
        "plain step, measured over predicted",
        "1",
        ("prediction", "plain:tpot_s|plain:output_tok_per_s|tpot_s"),
        readings.ratio("plain"),
    ),
    "round_over_predicted": RunQuantity(
        "round, measured over predicted",
        "1",
        ("prediction", "tpot_s|step_time_s|output_tok_per_s", "accepted_length"),
        readings.round_ratio,
    ),
    "draft_over_predicted": RunQuantity(
        "drafting, measured over predicted", "1", ("prediction", "draft_time_s"), readings.ratio("draft")
    ),
    "length_over_published": RunQuantity(
        "accepted length over the lowest published for this model and drafter",
        "1",
        ("prediction", "accepted_length"),
        readings.length_below,
    ),
    "prefill_share": RunQuantity(
        "predicted share of the time per token that goes to prompts",
        "1",
        ("prediction",),
        readings.predicted(lambda found: found.prefill_share),
    ),
    "first_token_over_predicted": RunQuantity(
        "time to first token over the prompts of all requests at once, one after the other",
        "1",
        ("prediction", "ttft_s", "input_tokens", "output_tokens", "batch_size"),
        readings.first_token,
    ),
    "predicted_speedup": RunQuantity(
        "predicted speedup at this K", "x", ("prediction",), readings.supported(readings.predicted_speedup)
    ),
    "known_speedup": RunQuantity(
        "speedup of the run, predicted where no plain run stands beside it",
        "x",
        ("prediction",),
        readings.supported(readings.known_speedup),
    ),
    "as_predicted": RunQuantity(
        "the run lies in the band of its prediction", "1", ("prediction",), readings.supported(readings.as_predicted)
    ),
    "recommended_k": RunQuantity(
        "K recommended at this batch",
        "tokens",
        ("prediction",),
        readings.supported(lambda found: float(found.recommended.n_draft)),
    ),
}
"""By the name that a rule calls it."""
