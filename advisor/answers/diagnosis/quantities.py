"""How each quantity that a rule tests is read off a run; None where it is not known.

The quantities that rules test, each with what it needs, so that a rule says what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from advisor.answers.diagnosis.facts import FACTS, Run, unit_of
from advisor.answers.diagnosis.physics import Comparison, token_time_s
from advisor.answers.diagnosis.runs import differences
from advisor.catalog.engines import Build, engine_ids, load_engine
from advisor.catalog.graphs import GraphServer, captured_sizes
from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.derived import MEAN_RUNNING
from advisor.physics.hardware import hardware_ids, load_hardware

Value = float | bool | str | None
DEFAULT_ADMITTED = 48
"""Requests that SGLang admits with speculation where nothing is said (profiles/engines/sglang.yaml). [-]"""
TRAINED = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark", "p-eagle", "draft_model"})
"""Drafters that learnt from text, so that text of no kind is nothing they can foresee."""


def cell(run: Run, name: str) -> Value:
    """A fact as it is: a flag, a number, else its text."""
    value = run.value(name)
    if isinstance(value, bool):
        return value
    number = run.number(name)
    return number if number is not None else run.text(name) or None


def numbers(*names: str) -> Callable[[Callable[..., float | None]], Callable[[Run], float | None]]:
    """A quantity from facts that are numbers. None where one of them is unknown or a division fails."""

    def wrap(formula: Callable[..., float | None]) -> Callable[[Run], float | None]:
        def of(run: Run) -> float | None:
            values = [run.number(name) for name in names]
            if any(value is None for value in values):
                return None
            try:
                return formula(*values)
            except ZeroDivisionError:
                return None

        return of

    return wrap


def predicted(formula: Callable[[Comparison], float | None]) -> Callable[[Run], Value]:
    """A quantity of the comparison. None where the run is not predicted."""
    return lambda run: None if run.comparison is None else formula(run.comparison)


def ratio(name: str) -> Callable[[Run], Value]:
    """Measured over predicted of one row, if the prediction rests on measured kernels and a known engine."""
    return predicted(lambda compared: compared.ratio(name) if compared.supported else None)


def round_ratio(run: Run) -> float | None:
    """Round, measured over predicted, with the run's own accepted length or round."""
    compared = run.comparison
    if compared is None or not (compared.supported and (compared.same_run_length or run.has("step_time_s"))):
        return None
    return compared.ratio("round")


def length_below(run: Run) -> float | None:
    """Accepted length over the lowest end of what is published for this model and drafter."""
    row = run.comparison.row("length") if run.comparison is not None else None
    return None if row is None or row.measured is None else row.measured / row.low


def over_least(run: Run) -> float | None:
    """The measured round (or step) over the shortest conceivable one."""
    compared, time_s = run.comparison, token_time_s(run.facts)
    if compared is None or time_s is None:
        return None
    if not compared.n_draft:
        return time_s / compared.least_plain_s
    length = run.number("accepted_length") if compared.same_run_length else compared.n_draft + 1.0
    step = run.number("step_time_s")
    return (step if step is not None else time_s * (length or compared.n_draft + 1.0)) / compared.least_round_s


def decoding(run: Run, side: str = "") -> float | None:
    """Requests that decode at a time: rate x time per token."""
    rate, token = run.number(f"{side}output_tok_per_s"), run.number(f"{side}tpot_s")
    return None if rate is None or token is None else rate * token


def decoding_ratio(run: Run) -> float | None:
    """Requests that decode at a time, over those of the plain run."""
    own, plain = decoding(run), decoding(run, "plain:")
    return None if own is None or not plain else own / plain


def kind_of_build(run: Run) -> Value:
    """Kind of the engine's build by its version: `synchronous`, `rocm` .... `today` for today's."""
    engine, version = run.text("engine"), run.text("engine_version")
    if engine not in engine_ids() or not version:
        return None
    name = run.text("hardware_id")
    hardware = load_hardware(name) if name in hardware_ids() else None
    vendor, chip = (hardware.vendor, hardware.generation) if hardware is not None else ("", "")
    engine_class = load_engine(engine).class_of(Build(version=version, vendor=vendor, chip=chip))
    return "today" if engine_class == engine else engine_class.removeprefix(f"{engine}-")


def in_flight_times_gpus(run: Run) -> float | None:
    """Requests in flight over the batch, as if the rate were that of one of more than two GPUs."""
    names = ("output_tok_per_s", "output_tokens", "tpot_s", "batch_size", "gpu_count")
    rate, tokens, token_s, batch, gpus = (run.number(name) for name in names)
    latency, first = run.number("request_latency_s"), run.number("ttft_s")
    if rate is None or not tokens or not batch or gpus is None:
        return None
    if latency is None and first is not None and token_s is not None:
        latency = first + token_s * (tokens - 1.0)
    if latency is None:
        return None
    return rate / tokens * latency / batch * gpus if gpus > 2 else 0.0


def lowered(run: Run) -> Value:
    """Whether graphs are piecewise, or none."""
    mode = run.text("graph_mode")
    return None if not mode else mode in ("PIECEWISE", "NONE")


def guards(run: Run) -> Value:
    """Ids of the engine's guards that concern the table of this run, separated by blanks."""
    engine, table = run.text("engine"), run.text("k_table")
    if not table:
        return "none" if run.value("launch_line") else None
    if engine not in engine_ids() or not run.text("engine_version"):
        return None
    method = run.text("drafter")
    tags = {"speculation", "table"}
    tags |= {"data_parallel"} if (run.number("data_parallel") or 1) > 1 else set()
    tags |= {"zero_in_table"} if 0 in table_drafts(table) else set()
    tags |= {"own_forward"} if method in TRAINED - {"dspark", "p-eagle"} else set()
    tags |= {"older_runner"} if method in ("suffix", "p-eagle") else set()
    warned = load_engine(engine).warned_of(tags, run.text("engine_version"))
    return " ".join(guard.id for guard in warned) or "none"


def table_drafts(table: str) -> dict[int, tuple[int, int]]:
    """First and last batch of each K in `1-4:2 5-512:0`."""
    out = {}
    for piece in table.split():
        batches, _, k = piece.partition(":")
        first, _, last = batches.partition("-")
        out[int(k)] = (int(first), int(last or first))
    return out


def table_k(run: Run) -> float | None:
    """K that the table gives at this batch. Without a table the configured one."""
    batch = run.number("batch_size")
    if not run.text("k_table"):
        return run.number("draft_tokens_k") if run.value("launch_line") and run.drafts else None
    if batch is None:
        return None
    drafts = table_drafts(run.text("k_table"))
    return next((float(k) for k, (first, last) in drafts.items() if first <= batch <= last), None)


def by_default(run: Run) -> float | None:
    """Requests that SGLang admits because nothing is said. None where something is, or the line is not known."""
    if run.number("max_running_requests") is not None or not run.value("launch_line") or not run.drafts:
        return None
    return None if "deepseek-v4" in run.text("model_id").lower() else float(DEFAULT_ADMITTED)


def graph_excess(run: Run) -> float | None:
    """Tokens of a round, or its requests, over the largest captured graph.

    As stated or logged, else by the release.
    """
    batch, k = run.number("batch_size"), run.number("draft_tokens_k")
    tokens, requests = run.number("largest_graph"), run.number("largest_graph_batch")
    if batch is None or k is None:
        return None
    admitted = min(batch, run.number("max_num_seqs") or run.number("max_running_requests") or batch)
    if tokens is None and requests is None:
        tokens = captured_by_release(run, int(k) + 1)
    if tokens:
        return admitted * (k + 1) / tokens
    return admitted / requests if requests else None


def captured_by_release(run: Run, q: int) -> float | None:
    """Tokens of the largest graph that the run's release captures by itself.

    q: tokens that a request verifies. [-]
    None where the release was not read, or its accelerator is not known. [tokens]
    """
    engine, hardware_id = run.text("engine"), run.text("hardware_id")
    if engine not in engine_ids() or hardware_id not in hardware_ids() or not run.text("engine_version"):
        return None
    rule = load_engine(engine).graph_rule(run.text("engine_version"))
    if rule is None:
        return None
    gpus = int(run.number("gpu_count") or run.number("tensor_parallel") or 1)
    server = GraphServer.of(load_hardware(hardware_id), gpus)
    if admitted := run.number("max_num_seqs"):
        server = replace(server, admitted=int(admitted))
    return float(captured_sizes(rule, server, q)[-1])


def budget_excess(run: Run) -> float | None:
    """Tokens of a round of all requests over the tokens of a step."""
    batch, k = run.number("batch_size"), run.number("draft_tokens_k")
    budget = run.number("max_num_batched_tokens")
    if batch is None or k is None or not budget:
        return None
    return min(batch, run.number("max_num_seqs") or batch) * (k + 1) / budget


def accepted_drafts(run: Run) -> float | None:
    """Drafts accepted in a round, of a trained drafter."""
    length, k = run.number("accepted_length"), run.number("draft_tokens_k")
    return None if length is None or not k or run.text("drafter") not in TRAINED else length - 1.0


def random_prompts(run: Run) -> Value:
    """Whether a trained drafter was measured on random tokens."""
    name = run.text("dataset").lower()
    if not name or not run.text("drafter"):
        return None
    return name.startswith("random") and run.text("drafter") in TRAINED


def prefill_in_token(run: Run) -> float | None:
    """Time per token over latency / tokens, where leaving the first token out would make a difference."""
    latency, first, tokens = (run.number(name) for name in ("request_latency_s", "ttft_s", "output_tokens"))
    token = run.number("tpot_s")
    if latency is None or first is None or token is None or not tokens or tokens <= 1:
        return None
    spread, decode = latency / tokens, (latency - first) / (tokens - 1.0)
    return token / spread if abs(spread / decode - 1.0) > 0.3 else 0.0


def open_loop(run: Run) -> float | None:
    """Requests a second of a client that keeps no number of them in flight. 0 for one that does."""
    rate = run.number("request_rate")
    return 0.0 if rate is None or (run.number("batch_size") is not None and not _mean_batch(run)) else rate


def _mean_batch(run: Run) -> bool:
    """Whether the batch is what an open load came to, not what the client kept in flight."""
    return run.facts.get("batch_kind") == MEAN_RUNNING


def gain_of_another_k(run: Run) -> float | None:
    """Only where acceptance is known by position: from one length alone, that at other K is a guess."""
    compared = run.comparison
    return compared.best_gain if compared is not None and run.has("acceptance_by_position") else None


def first_token(run: Run) -> float | None:
    """Time to first token over the prompts of all requests at once. In a burst the last one waits for them all."""
    compared, first, batch = run.comparison, run.number("ttft_s"), run.number("batch_size")
    if compared is None or first is None or batch is None or not compared.first_token_s or _mean_batch(run):
        return None
    return first / (compared.first_token_s * max(batch, 1.0))


def supported(formula: Callable[[Comparison], Value]) -> Callable[[Run], Value]:
    """A quantity of a comparison of a speculative run. None where it rests on no measured kernels or known engine."""

    def of(run: Run) -> Value:
        compared = run.comparison
        return formula(compared) if compared is not None and compared.supported and compared.n_draft else None

    return of


def predicted_speedup(compared: Comparison) -> float | None:
    """Predicted speedup at the run's own K."""
    row = compared.row("speedup")
    return None if row is None else row.predicted


def known_speedup(compared: Comparison) -> float | None:
    """Speedup of the run: measured, or predicted where no plain run stands beside it."""
    row = compared.row("speedup")
    return None if row is None else row.predicted if row.measured is None else row.measured


def as_predicted(compared: Comparison) -> bool | None:
    """Whether what the run is judged by lies in its band."""
    return None if compared.judged is None else compared.judged.inside


def over(value: float | None, by: float | None) -> float | None:
    """A ratio. None where either is unknown."""
    return value / by if value is not None and by else None


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
    return RunQuantity(name.replace("plain:", "plain run's "), unit_of(name), (name,), lambda run: cell(run, name))


QUANTITIES: dict[str, RunQuantity] = {
    "token_time_over_rate": RunQuantity(
        "time per token x rate / batch",
        "1",
        ("tpot_s", "output_tok_per_s", "batch_size"),
        numbers("tpot_s", "output_tok_per_s", "batch_size")(lambda t, r, b: t * r / b),
    ),
    "in_flight_times_gpus": RunQuantity(
        "requests in flight by Little's law x GPUs / batch",
        "1",
        ("output_tok_per_s", "output_tokens", "request_latency_s|ttft_s", "tpot_s", "batch_size", "gpu_count"),
        in_flight_times_gpus,
    ),
    "retokenized_share": RunQuantity(
        "tokens counted again over tokens generated",
        "1",
        ("tokens_retokenized", "tokens_generated"),
        numbers("tokens_retokenized", "tokens_generated")(lambda again, first: again / first),
    ),
    "peak_over_mean": RunQuantity(
        "peak output rate over its mean",
        "1",
        ("peak_tok_per_s", "output_tok_per_s"),
        numbers("peak_tok_per_s", "output_tok_per_s")(lambda peak, mean: peak / mean),
    ),
    "prefill_in_token_time": RunQuantity(
        "time per token over latency / tokens",
        "1",
        ("tpot_s", "request_latency_s", "ttft_s", "output_tokens"),
        prefill_in_token,
    ),
    "concurrency_share": RunQuantity(
        "mean concurrency over the concurrency asked for",
        "1",
        ("mean_concurrency", "batch_size"),
        numbers("mean_concurrency", "batch_size")(lambda mean, asked: mean / asked),
    ),
    "waiting_share": RunQuantity(
        "requests that wait over all",
        "1",
        ("waiting_requests", "running_requests"),
        numbers("waiting_requests", "running_requests")(lambda wait, run: wait / (wait + run)),
    ),
    "requests_per_slot": RunQuantity(
        "completed requests per concurrent request",
        "1",
        ("requests_completed", "batch_size"),
        numbers("requests_completed", "batch_size")(lambda done, batch: done / batch),
    ),
    "missing_share": RunQuantity(
        "requests that did not end well",
        "1",
        ("requests_completed", "requests_asked"),
        numbers("requests_completed", "requests_asked")(lambda done, asked: 1.0 - done / asked),
    ),
    "first_run_over_later": RunQuantity(
        "first run's time per token over the later ones'",
        "1",
        ("first_tpot_s", "later_tpot_s"),
        numbers("first_tpot_s", "later_tpot_s")(lambda first, later: first / later),
    ),
    "accepted_share": RunQuantity(
        "share of drafts that are accepted",
        "1",
        ("accepted_length", "draft_tokens_k"),
        numbers("accepted_length", "draft_tokens_k")(lambda length, k: (length - 1.0) / k),
    ),
    "open_loop_rate": RunQuantity("requests sent in a second", "1/s", ("request_rate",), open_loop),
    "random_prompts": RunQuantity("random prompts with a trained drafter", "1", ("dataset", "drafter"), random_prompts),
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
        decoding_ratio,
    ),
    "time_over_least": RunQuantity(
        "round (or plain step) over reading the weights it touches",
        "1",
        ("prediction", "tpot_s|step_time_s|output_tok_per_s"),
        over_least,
    ),
    "admitted": RunQuantity(
        "requests that the server admits",
        "1",
        ("max_num_seqs|max_running_requests",),
        lambda run: run.number("max_num_seqs") or run.number("max_running_requests"),
    ),
    "admitted_by_default": RunQuantity(
        "requests that the server admits because no flag says otherwise", "1", ("launch_line",), by_default
    ),
    "tokens_over_graph": RunQuantity(
        "round over the largest captured graph",
        "1",
        ("batch_size", "draft_tokens_k", "largest_graph|largest_graph_batch|engine_version"),
        graph_excess,
    ),
    "lowered_graphs": RunQuantity("graphs are piecewise, or none", "1", ("graph_mode",), lowered),
    "tokens_over_budget": RunQuantity(
        "tokens of a round over the budget of a step",
        "1",
        ("batch_size", "draft_tokens_k", "max_num_batched_tokens"),
        budget_excess,
    ),
    "guards": RunQuantity(
        "what this version does with the table",
        "1",
        ("k_table|launch_line", "engine_version|launch_line"),
        guards,
    ),
    "table_k": RunQuantity(
        "K that the table gives at this batch", "tokens", ("k_table|launch_line", "batch_size"), table_k
    ),
    "kind_of_build": RunQuantity("kind of the engine's build", "1", ("engine_version",), kind_of_build),
    "round_over_todays": RunQuantity(
        "predicted round on this release over that on today's",
        "1",
        ("prediction",),
        predicted(lambda found: found.build_share if found.known_class else None),
    ),
    "cache_over_pool": RunQuantity(
        "tokens in the cache over its size",
        "1",
        ("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens"),
        numbers("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens")(
            lambda batch, prompt, output, pool: batch * (prompt + output / 2.0) / pool
        ),
    ),
    "accepted_drafts": RunQuantity(
        "drafts accepted in a round, of a trained drafter",
        "tokens",
        ("accepted_length", "draft_tokens_k", "drafter"),
        accepted_drafts,
    ),
    "gain_of_another_k": RunQuantity(
        "predicted speedup at the best smaller K above 0, over that at this one",
        "1",
        ("prediction", "acceptance_by_position"),
        gain_of_another_k,
    ),
    "verification_ratio": RunQuantity(
        "verification pass over plain step",
        "1",
        ("verify_time_s", "plain:step_time_s|plain:tpot_s"),
        lambda run: over(run.number("verify_time_s"), token_time_s(run.plain) if run.plain else None),
    ),
    "positions": RunQuantity(
        "tokens of a round, K + 1", "tokens", ("draft_tokens_k",), numbers("draft_tokens_k")(lambda k: k + 1.0)
    ),
    "plain_over_predicted": RunQuantity(
        "plain step, measured over predicted",
        "1",
        ("prediction", "plain:tpot_s|plain:output_tok_per_s|tpot_s"),
        ratio("plain"),
    ),
    "round_over_predicted": RunQuantity(
        "round, measured over predicted",
        "1",
        ("prediction", "tpot_s|step_time_s|output_tok_per_s", "accepted_length"),
        round_ratio,
    ),
    "draft_over_predicted": RunQuantity(
        "drafting, measured over predicted", "1", ("prediction", "draft_time_s"), ratio("draft")
    ),
    "length_over_published": RunQuantity(
        "accepted length over the lowest published for this model and drafter",
        "1",
        ("prediction", "accepted_length"),
        length_below,
    ),
    "prefill_share": RunQuantity(
        "predicted share of the time per token that goes to prompts",
        "1",
        ("prediction",),
        predicted(lambda found: found.prefill_share),
    ),
    "first_token_over_predicted": RunQuantity(
        "time to first token over the prompts of all requests at once, one after the other",
        "1",
        ("prediction", "ttft_s", "input_tokens", "output_tokens", "batch_size"),
        first_token,
    ),
    "predicted_speedup": RunQuantity("predicted speedup at this K", "x", ("prediction",), supported(predicted_speedup)),
    "known_speedup": RunQuantity(
        "speedup of the run, predicted where no plain run stands beside it",
        "x",
        ("prediction",),
        supported(known_speedup),
    ),
    "as_predicted": RunQuantity(
        "the run lies in the band of its prediction", "1", ("prediction",), supported(as_predicted)
    ),
    "recommended_k": RunQuantity(
        "K recommended at this batch",
        "tokens",
        ("prediction",),
        supported(lambda found: float(found.recommended.n_draft)),
    ),
}
"""By the name that a rule calls it."""
