"""The quantities that rules test, each with what it needs, so that a rule says what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from advisor.catalog import Build, engine_ids, load_engine
from advisor.diagnosis.arms import differences
from advisor.diagnosis.facts import FACTS, Run, unit_of
from advisor.diagnosis.physics import Comparison, token_time_s
from advisor.hardware import hardware_ids, load_hardware
from advisor.ingest import COLUMNS

Value = float | bool | str | None

DEFAULT_ADMITTED = 48
"""Requests that SGLang admits with speculation where nothing is said (profiles/engines/sglang.yaml). [1]"""
TRAINED = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark", "p-eagle", "draft_model"})
"""Drafters that learnt from text, so that text of no kind is nothing they can foresee."""


@dataclass(frozen=True)
class Quantity:
    """What a rule tests: words, unit, what it is made of, and how."""

    words: str
    unit: str
    needs: tuple[str, ...]
    """Facts, `a|b` where either does, `plain:NAME` of the plain run, `prediction`."""
    of: Callable[[Run], Value]


def quantity(name: str) -> Quantity:
    """A quantity by name: one of QUANTITIES, or a fact or column as it is. Raises KeyError for any other."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name.rpartition(":")[2] not in {*FACTS, *COLUMNS["points"]}:
        raise KeyError(name)
    return _as_it_is(name)


@lru_cache(maxsize=256)
def _as_it_is(name: str) -> Quantity:
    return Quantity(name.replace("plain:", "plain run's "), unit_of(name), (name,), lambda run: _cell(run, name))


def _cell(run: Run, name: str) -> Value:
    value = run.value(name)
    if isinstance(value, bool):
        return value
    number = run.number(name)
    return number if number is not None else run.text(name) or None


def _numbers(*names: str) -> Callable[[Callable[..., float | None]], Callable[[Run], float | None]]:
    """A quantity from facts that are numbers; None where one of them is unknown or a division fails."""

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


def _predicted(formula: Callable[[Comparison], float | None]) -> Callable[[Run], Value]:
    return lambda run: None if run.comparison is None else formula(run.comparison)


def _ratio(name: str) -> Callable[[Run], Value]:
    """Measured over predicted of one row, where the prediction rests on measured kernels and a known engine."""
    return _predicted(lambda found: found.ratio(name) if found.supported else None)


def _speedup_ratio(run: Run) -> float | None:
    found = run.comparison
    if found is None or not (found.supported and found.same_run_length):
        return None
    return found.ratio("speedup")


def _round_ratio(run: Run) -> float | None:
    found = run.comparison
    if found is None or not (found.supported and (found.same_run_length or run.has("step_time_s"))):
        return None
    return found.ratio("round")


def _length_below(run: Run) -> float | None:
    """Accepted length over the lowest end of what is published for this model and drafter."""
    row = run.comparison.row("length") if run.comparison is not None else None
    return None if row is None or row.measured is None else row.measured / row.low


def _over_least(run: Run) -> float | None:
    """The measured round (or step) over the shortest conceivable one."""
    found, time_s = run.comparison, token_time_s(run.facts)
    if found is None or time_s is None:
        return None
    if not found.n_draft:
        return time_s / found.least_plain_s
    length = run.number("accepted_length") if found.same_run_length else found.n_draft + 1.0
    step = run.number("step_time_s")
    return (step if step is not None else time_s * (length or found.n_draft + 1.0)) / found.least_round_s


def _decoding(run: Run, side: str = "") -> float | None:
    """Requests that decode at a time: rate x time per token."""
    rate, token = run.number(f"{side}output_tok_per_s"), run.number(f"{side}tpot_s")
    return None if rate is None or token is None else rate * token


def _decoding_ratio(run: Run) -> float | None:
    mine, plain = _decoding(run), _decoding(run, "plain:")
    return None if mine is None or not plain else mine / plain


def _kind_of_build(run: Run) -> Value:
    """Kind of the engine's build by its version: `synchronous`, `rocm` ...; `today` for today's."""
    engine, version = run.text("engine"), run.text("engine_version")
    if engine not in engine_ids() or not version:
        return None
    chip = run.text("hardware_id")
    vendor = load_hardware(chip).vendor if chip in hardware_ids() else ""
    found = load_engine(engine).class_of(Build(version=version, vendor=vendor))
    return "today" if found == engine else found.removeprefix(f"{engine}-")


def _in_flight_times_gpus(run: Run) -> float | None:
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


def _lowered(run: Run) -> Value:
    mode = run.text("graph_mode")
    return None if not mode else mode in ("PIECEWISE", "NONE")


def _guards(run: Run) -> Value:
    """Ids of the engine's guards that concern the table of this run, separated by blanks."""
    engine, table = run.text("engine"), run.text("k_table")
    if not table:
        return "none" if run.value("launch_line") else None
    if engine not in engine_ids() or not run.text("engine_version"):
        return None
    method = run.text("drafter")
    tags = {"speculation", "table"}
    tags |= {"data_parallel"} if (run.number("data_parallel") or 1) > 1 else set()
    tags |= {"zero_in_table"} if 0 in _table_drafts(table) else set()
    tags |= {"own_forward"} if method in TRAINED - {"dspark", "p-eagle"} else set()
    tags |= {"older_runner"} if method in ("suffix", "p-eagle") else set()
    found = load_engine(engine).warned_of(tags, run.text("engine_version"))
    return " ".join(guard.id for guard in found) or "none"


def _table_drafts(table: str) -> dict[int, tuple[int, int]]:
    """First and last batch of each K in `1-4:2 5-512:0`."""
    out = {}
    for piece in table.split():
        batches, _, k = piece.partition(":")
        first, _, last = batches.partition("-")
        out[int(k)] = (int(first), int(last or first))
    return out


def _table_k(run: Run) -> float | None:
    """K that the table gives at this batch; without a table the configured one."""
    batch = run.number("batch_size")
    if not run.text("k_table"):
        return run.number("draft_tokens_k") if run.value("launch_line") and run.drafts else None
    if batch is None:
        return None
    drafts = _table_drafts(run.text("k_table"))
    return next((float(k) for k, (first, last) in drafts.items() if first <= batch <= last), None)


def _by_default(run: Run) -> float | None:
    """Requests that SGLang admits because nothing is said; None where something is, or the line is not known."""
    if run.number("max_running_requests") is not None or not run.value("launch_line") or not run.drafts:
        return None
    return None if "deepseek-v4" in run.text("model_id").lower() else float(DEFAULT_ADMITTED)


def _graph_excess(run: Run) -> float | None:
    """Tokens of a round, or its requests, over the largest captured graph."""
    batch, k = run.number("batch_size"), run.number("draft_tokens_k")
    tokens, requests = run.number("largest_graph"), run.number("largest_graph_batch")
    if batch is None or k is None:
        return None
    admitted = min(batch, run.number("max_num_seqs") or run.number("max_running_requests") or batch)
    if tokens:
        return admitted * (k + 1) / tokens
    return admitted / requests if requests else None


def _budget_excess(run: Run) -> float | None:
    batch, k = run.number("batch_size"), run.number("draft_tokens_k")
    budget = run.number("max_num_batched_tokens")
    if batch is None or k is None or not budget:
        return None
    return min(batch, run.number("max_num_seqs") or batch) * (k + 1) / budget


def _accepted_drafts(run: Run) -> float | None:
    length, k = run.number("accepted_length"), run.number("draft_tokens_k")
    return None if length is None or not k or run.text("drafter") not in TRAINED else length - 1.0


def _random_prompts(run: Run) -> Value:
    name = run.text("dataset").lower()
    if not name or not run.text("drafter"):
        return None
    return name.startswith("random") and run.text("drafter") in TRAINED


def _prefill_in_token(run: Run) -> float | None:
    """Time per token over latency / tokens, where leaving the first token out would make a difference."""
    latency, first, tokens = (run.number(name) for name in ("request_latency_s", "ttft_s", "output_tokens"))
    token = run.number("tpot_s")
    if latency is None or first is None or token is None or not tokens or tokens <= 1:
        return None
    spread, decode = latency / tokens, (latency - first) / (tokens - 1.0)
    return token / spread if abs(spread / decode - 1.0) > 0.3 else 0.0


def _open_loop(run: Run) -> float | None:
    rate = run.number("request_rate")
    return 0.0 if rate is None or run.number("batch_size") is not None else rate


def _gain_of_another_k(run: Run) -> float | None:
    """Only where acceptance is known by position: from one length alone, that at other K is a guess."""
    found = run.comparison
    return found.best_gain if found is not None and run.has("acceptance_by_position") else None


def _first_token(run: Run) -> float | None:
    found, first = run.comparison, run.number("ttft_s")
    return None if found is None or first is None or not found.first_token_s else first / found.first_token_s


QUANTITIES: dict[str, Quantity] = {
    "token_time_over_rate": Quantity(
        "time per token x rate / batch", "1", ("tpot_s", "output_tok_per_s", "batch_size"),
        _numbers("tpot_s", "output_tok_per_s", "batch_size")(lambda t, r, b: t * r / b)),
    "in_flight_times_gpus": Quantity(
        "requests in flight by Little's law x GPUs / batch", "1",
        ("output_tok_per_s", "output_tokens", "request_latency_s|ttft_s", "tpot_s", "batch_size", "gpu_count"),
        _in_flight_times_gpus),
    "retokenized_share": Quantity(
        "tokens counted again over tokens generated", "1", ("tokens_retokenized", "tokens_generated"),
        _numbers("tokens_retokenized", "tokens_generated")(lambda again, first: again / first)),
    "peak_over_mean": Quantity(
        "peak output rate over its mean", "1", ("peak_tok_per_s", "output_tok_per_s"),
        _numbers("peak_tok_per_s", "output_tok_per_s")(lambda peak, mean: peak / mean)),
    "prefill_in_token_time": Quantity(
        "time per token over latency / tokens", "1", ("tpot_s", "request_latency_s", "ttft_s", "output_tokens"),
        _prefill_in_token),
    "concurrency_share": Quantity(
        "mean concurrency over the concurrency asked for", "1", ("mean_concurrency", "batch_size"),
        _numbers("mean_concurrency", "batch_size")(lambda mean, asked: mean / asked)),
    "waiting_share": Quantity(
        "requests that wait over all", "1", ("waiting_requests", "running_requests"),
        _numbers("waiting_requests", "running_requests")(lambda wait, run: wait / (wait + run))),
    "requests_per_slot": Quantity(
        "completed requests per concurrent request", "1", ("requests_completed", "batch_size"),
        _numbers("requests_completed", "batch_size")(lambda done, batch: done / batch)),
    "missing_share": Quantity(
        "requests that did not end well", "1", ("requests_completed", "requests_asked"),
        _numbers("requests_completed", "requests_asked")(lambda done, asked: 1.0 - done / asked)),
    "first_run_over_later": Quantity(
        "first run's time per token over the later ones'", "1", ("first_tpot_s", "later_tpot_s"),
        _numbers("first_tpot_s", "later_tpot_s")(lambda first, later: first / later)),
    "accepted_share": Quantity(
        "share of drafts that are accepted", "1", ("accepted_length", "draft_tokens_k"),
        _numbers("accepted_length", "draft_tokens_k")(lambda length, k: (length - 1.0) / k)),
    "open_loop_rate": Quantity("requests sent in a second", "1/s", ("request_rate",), _open_loop),
    "random_prompts": Quantity("random prompts with a trained drafter", "1", ("dataset", "drafter"), _random_prompts),
    "differences_of_arms": Quantity(
        "settings in which the two runs differ", "1", ("plain:tpot_s|plain:output_tok_per_s|plain:step_time_s",),
        lambda run: float(len(differences(run.facts, run.plain))) if run.plain else None),
    "decoding_over_plain": Quantity(
        "requests decoding at a time over those of the plain run", "1",
        ("tpot_s", "output_tok_per_s", "plain:tpot_s", "plain:output_tok_per_s"), _decoding_ratio),
    "time_over_least": Quantity(
        "round (or plain step) over reading the weights it touches", "1",
        ("prediction", "tpot_s|step_time_s|output_tok_per_s"), _over_least),
    "admitted": Quantity(
        "requests that the server admits", "1", ("max_num_seqs|max_running_requests",),
        lambda run: run.number("max_num_seqs") or run.number("max_running_requests")),
    "admitted_by_default": Quantity(
        "requests that the server admits because no flag says otherwise", "1", ("launch_line",), _by_default),
    "tokens_over_graph": Quantity(
        "round over the largest captured graph", "1",
        ("batch_size", "draft_tokens_k", "largest_graph|largest_graph_batch"), _graph_excess),
    "lowered_graphs": Quantity("graphs are piecewise, or none", "1", ("graph_mode",), _lowered),
    "tokens_over_budget": Quantity(
        "tokens of a round over the budget of a step", "1",
        ("batch_size", "draft_tokens_k", "max_num_batched_tokens"), _budget_excess),
    "guards": Quantity(
        "what this version does with the table", "1", ("k_table|launch_line", "engine_version|launch_line"), _guards),
    "table_k": Quantity(
        "K that the table gives at this batch", "tokens", ("k_table|launch_line", "batch_size"), _table_k),
    "kind_of_build": Quantity("kind of the engine's build", "1", ("engine_version",), _kind_of_build),
    "cache_over_pool": Quantity(
        "tokens in the cache over its size", "1", ("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens"),
        _numbers("batch_size", "input_tokens", "output_tokens", "kv_pool_tokens")(
            lambda batch, prompt, output, pool: batch * (prompt + output / 2.0) / pool)),
    "accepted_drafts": Quantity(
        "drafts accepted in a round, of a trained drafter", "tokens",
        ("accepted_length", "draft_tokens_k", "drafter"), _accepted_drafts),
    "gain_of_another_k": Quantity(
        "predicted speedup at the best K up to this one, over that at this one", "1",
        ("prediction", "acceptance_by_position"),
        _gain_of_another_k),
    "verification_ratio": Quantity(
        "verification pass over plain step", "1", ("verify_time_s", "plain:step_time_s|plain:tpot_s"),
        lambda run: _over(run.number("verify_time_s"), token_time_s(run.plain) if run.plain else None)),
    "positions": Quantity(
        "tokens of a round, K + 1", "tokens", ("draft_tokens_k",), _numbers("draft_tokens_k")(lambda k: k + 1.0)),
    "plain_over_predicted": Quantity(
        "plain step, measured over predicted", "1", ("prediction", "plain:tpot_s|plain:output_tok_per_s|tpot_s"),
        _ratio("plain")),
    "round_over_predicted": Quantity(
        "round, measured over predicted", "1", ("prediction", "tpot_s|step_time_s|output_tok_per_s", "accepted_length"),
        _round_ratio),
    "draft_over_predicted": Quantity(
        "drafting, measured over predicted", "1", ("prediction", "draft_time_s"), _ratio("draft")),
    "speedup_over_predicted": Quantity(
        "speedup, measured over predicted", "1", ("prediction", "accepted_length", "plain:tpot_s|speedup"),
        _speedup_ratio),
    "length_over_published": Quantity(
        "accepted length over the lowest published for this model and drafter", "1",
        ("prediction", "accepted_length"), _length_below),
    "prefill_share": Quantity(
        "predicted share of the time per token that goes to prompts", "1",
        ("prediction",), _predicted(lambda found: found.prefill_share)),
    "first_token_over_predicted": Quantity(
        "time to first token, measured over predicted without a queue", "1",
        ("prediction", "ttft_s", "input_tokens", "output_tokens"), _first_token),
}  # fmt: skip
"""By the name that a rule calls it."""


def _over(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None
