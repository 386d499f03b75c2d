"""Quantities that rules test, read off a run; None where a run does not tell them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from advisor.answers.diagnosis.facts import FACTS, UserRun, unit_of
from advisor.answers.diagnosis.physics import Comparison, token_time_s
from advisor.answers.diagnosis.runs import DEFAULT_ADMITTED, differences, is_mean_batch
from advisor.catalog.engines import Build, GraphServer, captured_sizes, engine_ids, load_engine
from advisor.measured.ingest.columns import COLUMNS
from advisor.physics.hardware import hardware_ids, load_hardware

Value = float | bool | str | None
_Reading = Callable[[UserRun], Value]
_TRAINED = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark", "p-eagle", "draft_model"})
"""Drafters that learnt from text, so that text of no kind is nothing they can foresee."""


@dataclass(frozen=True)
class RunQuantity:
    """Quantity that a rule tests: its unit, the facts it needs, and how it is read off a run."""

    unit: str
    needs: tuple[str, ...]
    """Facts, `a|b` where either does, `plain:NAME` of the plain run, `prediction`."""
    of: _Reading


QUANTITIES: dict[str, RunQuantity] = {}
"""By the name that a rule calls it."""


def quantity(name: str) -> RunQuantity:
    """A quantity by name: one of QUANTITIES, or a fact or column as it is. Raises KeyError for any
    other."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    if name.rpartition(":")[2] not in {*FACTS, *COLUMNS["points"]}:
        raise KeyError(name)

    def as_it_is(run: UserRun) -> Value:
        value = run.value(name)
        number = run.number(name)
        return (
            value
            if isinstance(value, bool)
            else number
            if number is not None
            else run.text(name) or None
        )

    return RunQuantity(unit_of(name), (name,), as_it_is)


def _quantity(needs: str, unit: str = "1") -> Callable[[_Reading], _Reading]:
    """Enter the function below among the QUANTITIES, by its own name."""

    def enter(reading: _Reading) -> _Reading:
        name = reading.__name__.lstrip("_")
        QUANTITIES[name] = RunQuantity(unit, tuple(needs.split()), reading)
        return reading

    return enter


def _known(run: UserRun, names: str) -> list[float] | None:
    """Facts as numbers. None where one of them is unknown."""
    numbers = [run.number(name) for name in names.split()]
    known = [value for value in numbers if value is not None]
    return known if len(known) == len(numbers) else None


def _formula(name: str, needs: str, formula: Callable[..., float], unit: str = "1") -> None:
    """Enter a formula of facts that are numbers. It has no value where one is unknown or a division
    fails."""

    def reading(run: UserRun) -> float | None:
        values = _known(run, needs)
        try:
            return None if values is None else formula(*values)
        except ZeroDivisionError:
            return None

    QUANTITIES[name] = RunQuantity(unit, tuple(needs.split()), reading)


def _compared(
    name: str,
    formula: Callable[[Comparison], Value],
    more: str = "",
    unit: str = "1",
    drafts: bool = False,
) -> None:
    """Enter a compared quantity. drafts : of speculative runs on measured kernels and a known
    engine alone."""

    def reading(run: UserRun) -> Value:
        compared = run.comparison
        if compared is None or (drafts and not (compared.supported and compared.n_draft)):
            return None
        return formula(compared)

    QUANTITIES[name] = RunQuantity(unit, ("prediction", *more.split()), reading)


_TIMES = "tpot_s|step_time_s|output_tok_per_s"
_formula(
    "token_time_over_rate",
    "tpot_s output_tok_per_s batch_size",
    lambda t, r, b: t * r / b,
)
_OVER = {
    "retokenized_share": "tokens_retokenized tokens_generated",
    "peak_over_mean": "peak_tok_per_s output_tok_per_s",
    "concurrency_share": "mean_concurrency batch_size",
    "requests_per_slot": "requests_completed batch_size",
    "first_run_over_later": "first_tpot_s later_tpot_s",
}
"""Ratios of the first fact to the second."""
for _name, _needs in _OVER.items():
    _formula(_name, _needs, lambda first, second: first / second)
_formula(
    "waiting_share",
    "waiting_requests running_requests",
    lambda wait, run: wait / (wait + run),
)
_formula(
    "missing_share",
    "requests_completed requests_asked",
    lambda done, asked: 1.0 - done / asked,
)
_formula(
    "accepted_share",
    "accepted_length draft_tokens_k",
    lambda length, k: (length - 1.0) / k,
)
_formula(
    "decoding_over_plain",
    "tpot_s output_tok_per_s plain:tpot_s plain:output_tok_per_s",
    lambda token_s, rate, plain_token_s, plain_rate: rate * token_s / (plain_rate * plain_token_s),
)
_formula(
    "cache_over_pool",
    "batch_size input_tokens output_tokens kv_pool_tokens",
    lambda batch, prompt, output, pool: batch * (prompt + output / 2.0) / pool,
)
_formula("positions", "draft_tokens_k", lambda k: k + 1.0, "tokens")


@_quantity(
    "output_tok_per_s output_tokens request_latency_s|ttft_s tpot_s batch_size gpu_count",
)
def _in_flight_times_gpus(run: UserRun) -> Value:
    # As if the rate were that of one of more than two GPUs.
    known = _known(run, "output_tok_per_s output_tokens batch_size gpu_count")
    latency = run.number("request_latency_s")
    first = run.number("ttft_s")
    token_s = run.number("tpot_s")
    if known is None or not known[1] or not known[2]:
        return None
    rate, tokens, batch, gpus = known
    if latency is None and first is not None and token_s is not None:
        latency = first + token_s * (tokens - 1.0)
    if latency is None:
        return None
    return rate / tokens * latency / batch * gpus if gpus > 2 else 0.0


@_quantity("tpot_s request_latency_s ttft_s output_tokens")
def _prefill_in_token_time(run: UserRun) -> Value:
    known = _known(run, "tpot_s request_latency_s ttft_s output_tokens")
    if known is None or known[3] <= 1:
        return None
    token, latency, first, tokens = known
    spread = latency / tokens
    decode = (latency - first) / (tokens - 1.0)
    # Only where leaving the first token out would make a difference.
    return token / spread if abs(spread / decode - 1.0) > 0.3 else 0.0


@_quantity("request_rate", "1/s")
def _open_loop_rate(run: UserRun) -> Value:
    # 0 for a client that keeps a number of requests in flight; unknown where nobody says how
    # requests came.
    if (
        run.has("batch_kind")
        and run.number("batch_size") is not None
        and not is_mean_batch(run.facts)
    ):
        return 0.0
    return run.number("request_rate")


@_quantity("dataset drafter")
def _random_prompts(run: UserRun) -> Value:
    name = run.text("dataset").lower()
    drafter = run.text("drafter")
    return name.startswith("random") and drafter in _TRAINED if name and drafter else None


@_quantity("plain:tpot_s|plain:output_tok_per_s|plain:step_time_s")
def _differences_of_arms(run: UserRun) -> Value:
    return float(len(differences(run.facts, run.plain))) if run.plain else None


@_quantity(f"prediction {_TIMES}")
def _time_over_least(run: UserRun) -> Value:
    compared = run.comparison
    time_s = token_time_s(run.facts)
    if compared is None or time_s is None:
        return None
    if not compared.n_draft:
        return time_s / compared.least_plain_s
    length = run.number("accepted_length") if compared.same_run_length else compared.n_draft + 1.0
    step = run.number("step_time_s")
    return (
        step if step is not None else time_s * (length or compared.n_draft + 1.0)
    ) / compared.least_round_s


@_quantity("max_num_seqs|max_running_requests")
def _admitted(run: UserRun) -> Value:
    return run.number("max_num_seqs") or run.number("max_running_requests")


@_quantity("launch_line")
def _admitted_by_default(run: UserRun) -> Value:
    # SGLang's; none where a flag says otherwise, or the line is not known.
    return _unless_told(run) if run.value("launch_line") else None


def _unless_told(run: UserRun) -> float | None:
    if run.number("max_running_requests") is not None or not run.drafts:
        return None
    return None if "deepseek-v4" in run.text("model_id").lower() else float(DEFAULT_ADMITTED)


def suspected_limit(run: UserRun) -> float | None:
    """Requests that SGLang admits of a larger batch by default, where no launch line says how many.
    None where nothing is suspected. [-]

    Those that are not admitted wait before their first token: it lowers a rate, and no time per
    token becomes longer.
    """
    admitted = _unless_told(run)
    if run.text("engine") != "sglang" or run.value("launch_line") or admitted is None:
        return None
    waits = (run.number("batch_size") or 0.0) > admitted and run.number("tpot_s") is None
    return admitted if waits else None


@_quantity("batch_size", "requests")
def _decoding_requests(run: UserRun) -> Value:
    batch = run.number("batch_size")
    admitted = run.number("max_num_seqs") or run.number("max_running_requests")
    return batch if batch is None or admitted is None else min(batch, admitted)


@_quantity(
    "draft_tokens_k largest_graph|largest_graph_batch|engine_version|launch_line", "requests"
)
def _requests_in_graphs(run: UserRun) -> Value:
    # In tokens or in requests, as stated or logged; else by the release.
    k = run.number("draft_tokens_k")
    tokens = run.number("largest_graph")
    requests = run.number("largest_graph_batch")
    if k is None:
        return None
    if tokens is None and requests is None:
        tokens = _captured_by_release(run, int(k) + 1)
    return requests if tokens is None else float(tokens // (k + 1))


def _captured_by_release(run: UserRun, q: int) -> float | None:
    """Largest graph that the run's release captures, the newest where it states none, a request
    verifying q. None where that is not known. [tokens]"""
    engine = run.text("engine")
    hardware_id = run.text("hardware_id")
    is_known = run.has("engine_version|launch_line")
    if engine not in engine_ids() or hardware_id not in hardware_ids() or not is_known:
        return None
    profile = load_engine(engine)
    newest = "" if profile.reviewed is None else profile.reviewed.version
    rule = profile.graph_rule(run.text("engine_version") or newest)
    if rule is None:
        return None
    gpus = int(run.number("gpu_count") or run.number("tensor_parallel") or 1)
    server = GraphServer.of(load_hardware(hardware_id), gpus)
    if admitted := run.number("max_num_seqs"):
        server = replace(server, admitted=int(admitted))
    return float(captured_sizes(rule, server, q)[-1])


@_quantity("graph_mode")
def _lowered_graphs(run: UserRun) -> Value:
    mode = run.text("graph_mode")
    return mode in ("PIECEWISE", "NONE") if mode else None


@_quantity(
    "batch_size draft_tokens_k max_num_batched_tokens",
)
def _tokens_over_budget(run: UserRun) -> Value:
    known = _known(run, "batch_size draft_tokens_k max_num_batched_tokens")
    if known is None or not known[2]:
        return None
    batch, k, budget = known
    return min(batch, run.number("max_num_seqs") or batch) * (k + 1) / budget


@_quantity("k_table|launch_line engine_version|launch_line")
def _guards(run: UserRun) -> Value:
    # Ids of the engine's guards that concern the table of this run, separated by blanks.
    engine = run.text("engine")
    table = run.text("k_table")
    version = run.text("engine_version")
    if not table:
        return "none" if run.value("launch_line") else None
    if engine not in engine_ids() or not version:
        return None
    method = run.text("drafter")
    held = {
        "data_parallel": (run.number("data_parallel") or 1) > 1,
        "zero_in_table": 0 in _table_drafts(table),
        "own_forward": method in _TRAINED - {"dspark", "p-eagle"},
        "older_runner": method in ("suffix", "p-eagle"),
    }
    tags = {"speculation", "table", *(tag for tag, holds in held.items() if holds)}
    return " ".join(guard.id for guard in load_engine(engine).warned_of(tags, version)) or "none"


def _table_drafts(table: str) -> dict[int, tuple[int, int]]:
    """First and last batch of each K in `1-4:2 5-512:0`."""
    out = {}
    for piece in table.split():
        batches, _, k = piece.partition(":")
        first, _, last = batches.partition("-")
        out[int(k)] = (int(first), int(last or first))
    return out


@_quantity("k_table|launch_line batch_size", "tokens")
def _table_k(run: UserRun) -> Value:
    # Without a table the configured one.
    batch = run.number("batch_size")
    table = run.text("k_table")
    if not table:
        return run.number("draft_tokens_k") if run.value("launch_line") and run.drafts else None
    if batch is None:
        return None
    return next(
        (float(k) for k, (first, last) in _table_drafts(table).items() if first <= batch <= last),
        None,
    )


@_quantity("engine_version")
def _kind_of_build(run: UserRun) -> Value:
    # By its version: `synchronous`, `rocm` ...; `today` for today's.
    engine = run.text("engine")
    version = run.text("engine_version")
    name = run.text("hardware_id")
    if engine not in engine_ids() or not version:
        return None
    hardware = load_hardware(name) if name in hardware_ids() else None
    vendor, chip = (hardware.vendor, hardware.generation) if hardware is not None else ("", "")
    engine_class = load_engine(engine).class_of(Build(version=version, vendor=vendor, chip=chip))
    return "today" if engine_class == engine else engine_class.removeprefix(f"{engine}-")


@_quantity(
    "accepted_length draft_tokens_k drafter",
    "tokens",
)
def _accepted_drafts(run: UserRun) -> Value:
    known = _known(run, "accepted_length draft_tokens_k")
    return (
        None
        if known is None or not known[1] or run.text("drafter") not in _TRAINED
        else known[0] - 1.0
    )


@_quantity(
    "prediction acceptance_by_position",
)
def _gain_of_another_k(run: UserRun) -> Value:
    # Only where acceptance is known by position: from one length alone, that at other K is a guess.
    compared = run.comparison
    return (
        compared.best_gain if compared is not None and run.has("acceptance_by_position") else None
    )


@_quantity("verify_time_s plain:step_time_s|plain:tpot_s")
def _verification_ratio(run: UserRun) -> Value:
    verify_s = run.number("verify_time_s")
    plain_s = token_time_s(run.plain) if run.plain else None
    return verify_s / plain_s if verify_s is not None and plain_s else None


@_quantity(f"prediction {_TIMES} accepted_length")
def _round_over_predicted(run: UserRun) -> Value:
    # With the run's own accepted length or round.
    compared = run.comparison
    if compared is None or not (
        compared.supported and (compared.same_run_length or run.has("step_time_s"))
    ):
        return None
    return compared.ratio("round")


@_quantity(
    "prediction ttft_s input_tokens output_tokens batch_size",
)
def _first_token_over_predicted(run: UserRun) -> Value:
    # In a burst the last one waits for them all.
    compared = run.comparison
    known = _known(run, "ttft_s batch_size")
    if compared is None or known is None or not compared.first_token_s or is_mean_batch(run.facts):
        return None
    return known[0] / (compared.first_token_s * max(known[1], 1.0))


def _ratio(name: str) -> Callable[[Comparison], Value]:
    """Measured over predicted of one row, if the prediction rests on measured kernels and a known
    engine."""
    return lambda compared: compared.ratio(name) if compared.supported else None


def _length_over_published(compared: Comparison) -> Value:
    row = compared.row("length")
    return None if row is None or row.measured is None else row.measured / row.low


def _predicted_speedup(compared: Comparison) -> Value:
    row = compared.row("speedup")
    return None if row is None else row.predicted


def _known_speedup(compared: Comparison) -> Value:
    row = compared.row("speedup")
    return None if row is None else row.predicted if row.measured is None else row.measured


@_quantity("prediction engine_version")
def _round_over_todays(run: UserRun) -> Value:
    compared = run.comparison
    return (
        compared.build_share
        if compared and compared.known_class and run.has("engine_version")
        else None
    )


_compared(
    "plain_over_predicted",
    _ratio("plain"),
    "plain:tpot_s|plain:output_tok_per_s|tpot_s",
)
_compared("draft_over_predicted", _ratio("draft"), "draft_time_s")
_compared(
    "length_over_published",
    _length_over_published,
    "accepted_length",
)
_compared(
    "prefill_share",
    lambda compared: compared.prefill_share,
)
_compared(
    "stated_prefill_share",
    lambda compared: None if compared.first_token_s is None else compared.prefill_share,
    "input_tokens output_tokens",
)
_compared(
    "predicted_speedup",
    _predicted_speedup,
    unit="x",
    drafts=True,
)
_compared(
    "known_speedup",
    _known_speedup,
    unit="x",
    drafts=True,
)
_compared(
    "as_predicted",
    lambda compared: None if compared.judged is None else compared.judged.inside,
    drafts=True,
)
_compared(
    "recommended_k",
    lambda compared: float(compared.recommended.n_draft),
    unit="tokens",
    drafts=True,
)
