"""The answer to one scenario in thirty lines: verdict, every K, launch command, what would flip it,
how sure.

Its tables too: each K at the target batch, K by batch, K by batch and context, accepted lengths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.answers.advice import Advice, advice_on, answer_values
from advisor.answers.best_k import DraftRow, KRange
from advisor.answers.by_context import KByContext
from advisor.answers.engines.config import (
    DRAFT_MODEL_PLACEHOLDER,
    EngineExport,
    option_texts,
)
from advisor.answers.engines.export import (
    default_served_model,
    export_scenario,
    needs_draft_model,
)
from advisor.answers.outcome import Outcome, outcome_of
from advisor.catalog.hardware import drafter_name, hardware_name, model_name, shape_label
from advisor.physics.acceptance import Acceptance
from advisor.physics.notes import Note, Rank, ranked
from advisor.predict.scenario import carried_text
from advisor.predict.setup import Setup
from advisor.prediction import AdvisorError
from advisor.show.phrases.answer import BOOK
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.schedule import CONTEXT
from advisor.show.table import Column, Table, matrix
from advisor.text import counted, printable, wrapped

if TYPE_CHECKING:  # an answer needs no design search
    from advisor.answers.design.space import DesignSpace

DRAFTS: tuple[Column[DraftRow], ...] = (
    Column("K", attrgetter("n_draft")),
    Column("", lambda row: "recommended" if row.recommended else "", words=True),
    Column("speedup", attrgetter("speedup"), "{:.2f}".format),
    Column("80% range", lambda row: f"{row.speedup_low:.2f}-{row.speedup_high:.2f}"),
    Column("ms/token", lambda row: row.tpot_s * 1e3, "{:.2f}".format),
    Column("fastest in", attrgetter("p_best"), "{:.0%}".format),
    Column("gains in", lambda row: f"{row.p_gain:.0%}" if row.n_draft else ""),
    Column("expected loss", attrgetter("expected_loss"), "{:.1%}".format),
)
"""Every K at the target batch."""


def k_by_batch_table(ranges: Sequence[KRange], limited: bool) -> Table[KRange]:
    """Ranges of batches, each with its K. `limited` adds whether the limit on time per output token
    is kept.

    Where one server for all batches runs another K than the schedule's, a column has it.
    """
    columns: list[Column[KRange]] = [
        Column("batch", lambda row: f"{row.batch_start:,} to {row.batch_end:,}"),
        Column("K", attrgetter("n_draft")),
        Column("mean speedup", attrgetter("speedup"), "{:.2f}x".format),
        Column("largest expected loss", attrgetter("regret"), "{:.1%}".format),
    ]
    if limited:
        columns.append(
            Column("meets the limit", lambda row: "yes" if row.meets_limit else "no", words=True)
        )
    if any(row.k_running != row.n_draft for row in ranges):
        columns.append(Column("K in one server", attrgetter("k_running")))
    return Table(tuple(columns), ranges)


def k_by_context_table(found: KByContext) -> Table[Sequence[Any]]:
    """The recommended K by batch and context, a dash where it does not fit."""
    header = ("batch", *(f"{context:,}" for context in found.contexts))
    rows = [
        (f"{found.batches[at]:,}", *("-" if k < 0 else str(k) for k in found.k[:, at]))
        for at in found.shown
    ]
    return matrix(header, rows, "r" * len(header))


def context_values(result: KByContext) -> dict[str, object]:
    """Recommended K by context for JSON and reports, [nB] each. None where a batch does not fit."""
    return {
        "says": CONTEXT.say("context", result.facts),
        "matters": result.matters,
        "batches": result.batches.tolist(),
        "contexts": [
            {
                "context_tokens": context,
                "n_draft": [None if k < 0 else int(k) for k in result.k[row]],
                "schedule_loss": result.loss[row].tolist(),
            }
            for row, context in enumerate(result.contexts)
        ],
    }


def answer_document(advice: Advice, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The recommendation as JSON carries it, with the reasons for its tier and its bound."""
    reasons = {"because": BOOK.say("because", facts), "bound_because": BOOK.say("bound", facts)}
    return answer_values(advice) | reasons


def accepted_lengths(acceptance: Acceptance, shortest: int = 0) -> Table[int]:
    """Tokens per round by K from `shortest` on, the bonus token included."""
    columns: tuple[Column[int], ...] = (
        Column("K", int, key="n_draft"),
        Column(
            "tokens per round",
            lambda k: acceptance.accepted_length[k],
            "{:.2f}".format,
            "accepted_length",
        ),
        Column("80% range", lambda k: f"{acceptance.low[k]:.2f}-{acceptance.high[k]:.2f}"),
        Column(None, lambda k: acceptance.low[k], key="low"),
        Column(None, lambda k: acceptance.high[k], key="high"),
        Column(
            "extrapolated",
            lambda k: acceptance.extrapolated[k],
            lambda extrapolated: "yes" if extrapolated else "no",
            "extrapolated",
            True,
        ),
    )
    return Table(columns, range(shortest, acceptance.accepted_length.size))


def accepted_length_text(setup: Setup) -> str:
    """Origin of a scenario's accepted lengths, and the K at which they are carried rather than
    known."""
    origin = f"Accepted length: {setup.acceptance.source.rstrip('.')}."
    carried = carried_text(
        setup.acceptance.extrapolated, np.arange(setup.acceptance.accepted_length.size)
    )
    return f"{origin} {carried}".rstrip()


LINES = 30
WIDTH = 100
"""The most that a short answer takes. [lines, characters]"""
_COLUMNS = tuple(column for column in DRAFTS if column.label != "gains in")
_SHORTEN = (
    (99, 99, 99, 99),
    (99, 2, 99, 99),
    (7, 2, 99, 99),
    (7, 2, 3, 99),
    (5, 2, 3, 99),
    (5, 1, 3, 99),
    (5, 1, 1, 99),
    (3, 1, 1, 99),
    (2, 1, 1, 99),
    (2, 1, 1, 0),
    (2, 0, 1, 0),
)
"""What is kept, tried until an answer is short enough: rows of K, warnings, sentences on K by batch
(beyond its own, on adaptive verification), lines after it."""


@dataclass(frozen=True)
class ShortAnswer:
    """Lines above the table of K, the table, and the lines below it."""

    head: list[str]
    table: Table[DraftRow]
    tail: list[str]
    left_out: str
    """K and warnings that it leaves out, as `K = 1, 6-8, 2 more warnings`; empty where it has
    all."""
    after: list[str]
    """Lines that end it, where there is room."""


def short_answer(
    advice: Advice,
    width: int = WIDTH,
    after: Sequence[str] = (),
    most: float = LINES,
    outcome: Outcome | None = None,
) -> ShortAnswer:
    """The answer in at most so many lines of `width` characters.

    after : lines that end it. outcome : the record of the answer, where it is at hand.
    """
    facts = (outcome_of(advice) if outcome is None else outcome).facts
    head = [line for text in _verdict(advice, facts) for line in wrapped(text, width)]
    launch = launch_lines(advice, facts, width)
    best = advice.recommendation.n_draft
    nearest = sorted(
        advice.drafts, key=lambda row: (row.n_draft != 0, abs(row.n_draft - best))
    )  # plain decoding first
    for rows, n_warnings, n_texts, n_after in _SHORTEN:
        table = Table(_COLUMNS, sorted(nearest[:rows], key=lambda row: row.n_draft))
        # What does not start is no answer, and one that may change is never left unsaid.
        heavy = sum(note.rank <= Rank.CHANGES for note in advice.notes)
        notes = advice.notes[: max(n_warnings, min(heavy, 1))]
        left = len(advice.notes) - len(notes)
        warning_texts = [f"warning: {text}" for text in note_texts(notes)]
        below = (
            line
            for text in (*_reasons(facts, n_texts), *warning_texts)
            for line in wrapped(text, width)
        )
        tail = ["", *launch, "", *below]
        end = list(after[:n_after])
        if (
            len(head) + len(table.rows) + 3 + len(tail) + len(end) <= most
        ):  # a blank line, the heading, the line on -v
            break
    drafts_in_table = {row.n_draft for row in table.rows}
    drafts = runs_text([row.n_draft for row in advice.drafts if row.n_draft not in drafts_in_table])
    left_out = []
    if drafts:
        left_out.append(f"K = {drafts}")
    if left:
        left_out.append(counted(left, "more warning"))
    return ShortAnswer([*head, ""], table, tail, ", ".join(left_out), end)


def runs_text(numbers: Sequence[int]) -> str:
    """Whole numbers, neighbours as a range: `1, 4-8`."""
    runs = [
        [n for _, n in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


VERDICT = (
    *("headline", "memory", "cause", "range_and_time", "alternative", "slow", "pool"),
    *("published", "other_gained", "borrowed"),
)
"""Slots above the table of K, a line each."""
BY_BATCH = ("schedule", "pays", "admit")


def place_text(answer: Advice | DesignSpace) -> tuple[str, str]:
    """Line on what is served and how it drafts, where and at which batch."""
    setup = answer.setup
    scenario = setup.scenario
    model = model_name(scenario.model_id)
    if scenario.served_checkpoint is not None:
        served = scenario.served_checkpoint.rpartition("/")[2]
        model = f"{served} (as {model}: the same architecture)"
    if scenario.model_config_json is not None:  # the shape shows a misread configuration
        model = f"{scenario.model_id} ({shape_label(setup.architecture)})"
    batches = (
        [scenario.batch_size] if isinstance(answer, Advice) else answer.question.batches.tolist()
    )
    loads = ", ".join(f"{batch:,.0f}" for batch in batches)
    is_forced = setup.adjustment is not None and setup.adjustment.forced
    forced = ", refit forced" if is_forced else ""
    return (
        model if setup.drafter.kind == "none" else f"{model} + {drafter_name(setup.drafter)}",
        f"on {setup.placement.gpus} × {hardware_name(setup.hardware)}, batch {loads}, context "
        f"{scenario.context_tokens:,}{forced}",
    )


def _verdict(advice: Advice, facts: Mapping[str, Any]) -> list[str]:
    place = filter(None, [" ".join(place_text(advice)), facts["engine_name"]])
    return [", ".join(place), *BOOK.says(VERDICT, facts)]


def _reasons(facts: Mapping[str, Any], n_texts: int) -> list[str]:
    """K by batch with so many of its sentences, what would change K, and how sure it is."""
    by_batch = " ".join(BOOK.says(BY_BATCH, facts)[:n_texts])
    sure = " ".join(BOOK.says(("basis", "narrow"), facts))
    adaptive = BOOK.say("adaptive", facts) if n_texts > len(BY_BATCH) else ""
    return list(filter(None, [by_batch, BOOK.say("change", facts), adaptive, sure]))


def launch_lines(advice: Advice, facts: Mapping[str, Any], width: int) -> list[str]:
    """The command that starts the engine with this schedule, or why there is none.

    Where the engine reads the schedule from a file, the same paste writes it.

    facts : of `outcome_of`.
    """
    if why_none := BOOK.say("launch", facts):
        return wrapped(why_none, width)
    setup = engine_setup(advice, advice.scenario.engine)
    if setup.problem:
        return wrapped(f"No launch command: {setup.problem}", width)
    fills = note_texts((note for note in setup.notes if note.kind in TO_FILL), "short")
    fill = f" ({'; '.join(fills)})" if fills else ""
    return [f"Launch{fill}:", *paste_lines(setup, width)]


def paste_lines(setup: EngineExport, width: int) -> list[str]:
    """Lines of at most `width` to paste into a shell, indented.

    They write the engine's file, where it has one, and start it.
    """
    writes = " ".join(setup.file_command.split()) if setup.file_name else ""
    written = [f"  {line}" for line in _broken_json(writes, width - 4) if line]
    return [*written, *shell_lines(setup.launch_line, width)]


TO_FILL = ("model_to_name", "drafter_to_name", "weights_to_name")
"""Notes on what the reader writes on the launch line."""


def shell_lines(command: str, width: int) -> list[str]:
    """A shell command on indented lines of at most `width`, several options a line. A shell reads
    the same values.

    A JSON object too long for a line is broken after commas, where a line break means nothing to
    it.
    """
    lines = [""]
    for text in option_texts(command):
        fits = len(lines[-1]) + 1 + len(text) <= width - 4
        if lines[-1] and not fits:
            lines[-1] += " \\"
            lines.append("")
        lines[-1] = f"{lines[-1]} {text}".strip()
        if len(lines[-1]) > width - 4 and "'{" in text:
            lines[-1:] = _broken_json(lines[-1], width - 4)
    return [f"  {line}" for line in lines]


def _broken_json(text: str, width: int) -> list[str]:
    lines = [""]
    for piece in re.split(r"(?<=,)", text):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def engine_setup(
    advice: Advice,
    engine: str,
    served_model: str | None = None,
    draft_model: str | None = None,
    contexts: KByContext | None = None,
) -> EngineExport:
    """Command and files with which one engine runs the schedule, or the reason it cannot.

    served_model, draft_model : as of `engine_setups`.
    """
    served_model = printable(served_model or name_to_serve(advice))
    try:
        draft = draft_to_name(advice, engine, draft_model)
        engine_advice = advice_on(advice, engine)
        export = export_scenario(
            engine_advice.setup,
            engine_advice.to_serve,
            engine,
            served_model=served_model,
            draft_model=draft,
            contexts=contexts,
            capture=engine_advice.decided.capture,
        )
    except AdvisorError as error:
        return EngineExport(engine, problem=printable(str(error)))
    to_name = []
    if not _known_model(advice) and served_model == printable(advice.scenario.model_id):
        to_name.append(Note.of("model_to_name", name=served_model))
    drafts = any(part.k_running for part in engine_advice.to_serve)
    if drafts and draft == DRAFT_MODEL_PLACEHOLDER:
        drafter = drafter_name(advice.setup.drafter)
        to_name.append(Note.of("drafter_to_name", name=draft, drafter=drafter))
    return replace(export, notes=ranked([*to_name, *export.notes]))


def _known_model(advice: Advice) -> str:
    """The model's Hugging Face repository; empty for the user's own, whose path nobody else
    knows."""
    try:
        return default_served_model(advice.setup)
    except AdvisorError:
        return ""


def name_to_serve(advice: Advice) -> str:
    """Name of the served model on a launch line."""
    return _known_model(advice) or advice.scenario.model_id


def draft_to_name(advice: Advice, engine: str, stated: str | None) -> str | None:
    """The name given, else a placeholder where the method needs one that no profile knows, else
    None."""
    if stated:
        return printable(stated)
    return DRAFT_MODEL_PLACEHOLDER if needs_draft_model(advice.setup, engine) else None
