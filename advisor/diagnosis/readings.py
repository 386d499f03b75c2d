"""How each quantity that a rule tests is read off a run; None where it is not known."""

from __future__ import annotations

from collections.abc import Callable

from advisor.catalog import Build, engine_ids, load_engine
from advisor.diagnosis.facts import Run
from advisor.diagnosis.physics import Comparison, token_time_s
from advisor.hardware import hardware_ids, load_hardware

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
    return predicted(lambda found: found.ratio(name) if found.supported else None)


def round_ratio(run: Run) -> float | None:
    """Round, measured over predicted, with the run's own accepted length or round."""
    found = run.comparison
    if found is None or not (found.supported and (found.same_run_length or run.has("step_time_s"))):
        return None
    return found.ratio("round")


def length_below(run: Run) -> float | None:
    """Accepted length over the lowest end of what is published for this model and drafter."""
    row = run.comparison.row("length") if run.comparison is not None else None
    return None if row is None or row.measured is None else row.measured / row.low


def over_least(run: Run) -> float | None:
    """The measured round (or step) over the shortest conceivable one."""
    found, time_s = run.comparison, token_time_s(run.facts)
    if found is None or time_s is None:
        return None
    if not found.n_draft:
        return time_s / found.least_plain_s
    length = run.number("accepted_length") if found.same_run_length else found.n_draft + 1.0
    step = run.number("step_time_s")
    return (step if step is not None else time_s * (length or found.n_draft + 1.0)) / found.least_round_s


def decoding(run: Run, side: str = "") -> float | None:
    """Requests that decode at a time: rate x time per token."""
    rate, token = run.number(f"{side}output_tok_per_s"), run.number(f"{side}tpot_s")
    return None if rate is None or token is None else rate * token


def decoding_ratio(run: Run) -> float | None:
    """Requests that decode at a time, over those of the plain run."""
    here, plain = decoding(run), decoding(run, "plain:")
    return None if here is None or not plain else here / plain


def kind_of_build(run: Run) -> Value:
    """Kind of the engine's build by its version: `synchronous`, `rocm` .... `today` for today's."""
    engine, version = run.text("engine"), run.text("engine_version")
    if engine not in engine_ids() or not version:
        return None
    name = run.text("hardware_id")
    hardware = load_hardware(name) if name in hardware_ids() else None
    vendor, chip = (hardware.vendor, hardware.generation) if hardware is not None else ("", "")
    found = load_engine(engine).class_of(Build(version=version, vendor=vendor, chip=chip))
    return "today" if found == engine else found.removeprefix(f"{engine}-")


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
    found = load_engine(engine).warned_of(tags, run.text("engine_version"))
    return " ".join(guard.id for guard in found) or "none"


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
    """Tokens of a round, or its requests, over the largest captured graph."""
    batch, k = run.number("batch_size"), run.number("draft_tokens_k")
    tokens, requests = run.number("largest_graph"), run.number("largest_graph_batch")
    if batch is None or k is None:
        return None
    admitted = min(batch, run.number("max_num_seqs") or run.number("max_running_requests") or batch)
    if tokens:
        return admitted * (k + 1) / tokens
    return admitted / requests if requests else None


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
    return 0.0 if rate is None or run.number("batch_size") is not None else rate


def gain_of_another_k(run: Run) -> float | None:
    """Only where acceptance is known by position: from one length alone, that at other K is a guess."""
    found = run.comparison
    return found.best_gain if found is not None and run.has("acceptance_by_position") else None


def first_token(run: Run) -> float | None:
    """Time to first token over the prompts of all requests at once. In a burst the last one waits for them all."""
    found, first, batch = run.comparison, run.number("ttft_s"), run.number("batch_size")
    if found is None or first is None or batch is None or not found.first_token_s:
        return None
    return first / (found.first_token_s * max(batch, 1.0))


def supported(formula: Callable[[Comparison], Value]) -> Callable[[Run], Value]:
    """A quantity of a comparison of a speculative run. None where it rests on no measured kernels or known engine."""

    def of(run: Run) -> Value:
        found = run.comparison
        return formula(found) if found is not None and found.supported and found.n_draft else None

    return of


def predicted_speedup(found: Comparison) -> float | None:
    """Predicted speedup at the run's own K."""
    row = found.row("speedup")
    return None if row is None else row.predicted


def known_speedup(found: Comparison) -> float | None:
    """Speedup of the run: measured, or predicted where no plain run stands beside it."""
    row = found.row("speedup")
    return None if row is None else row.predicted if row.measured is None else row.measured


def as_predicted(found: Comparison) -> bool | None:
    """Whether what the run is judged by lies in its band."""
    return None if found.judged is None else found.judged.inside


def over(value: float | None, by: float | None) -> float | None:
    """A ratio. None where either is unknown."""
    return value / by if value is not None and by else None
