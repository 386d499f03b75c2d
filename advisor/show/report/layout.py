"""A report as a list of sections of plain blocks: what is said, once, for Markdown and PDF alike.

And its one page for whoever decides: what to do, what it gains, what it costs, what would change
it, what to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import itemgetter
from textwrap import shorten
from typing import Any, TypeVar

from advisor.answers.advice import Advice, component_times
from advisor.catalog.hardware import model_name
from advisor.catalog.models import stored_format
from advisor.measured.refit_result import Errors
from advisor.physics.bands import SIMULATED
from advisor.predict.curve import curve_rows
from advisor.show.live_answer import engine_label
from advisor.show.phrases.book import FORMS
from advisor.show.phrases.book import two_digits as digits
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.report import BOOK
from advisor.show.phrases.schedule import BOOK as SCHEDULE_BOOK
from advisor.show.phrases.schedule import CONTEXT, TEXTS
from advisor.show.report.basis import (
    LIMITS,
    constants_table,
    identity,
    link,
    references,
)
from advisor.show.report.blocks import (
    Block,
    Code,
    FigureBlock,
    Listing,
    Paragraph,
    Section,
    table_block,
    typeset_block,
)
from advisor.show.report.build import Report, check_blocks, engine_blocks
from advisor.show.report.sections import (
    cost_and_energy,
    derivation,
    design,
    diagnosed,
    other_models,
    over_context,
    ranks_blocks,
    sweep_blocks,
    try_next,
    works,
)
from advisor.show.table import Column, Table, matrix
from advisor.show.words.answer import (
    DRAFTS,
    TO_FILL,
    accepted_lengths,
    k_by_batch_table,
    k_by_context_table,
    paste_lines,
    place_text,
)
from advisor.show.words.basis import accepted_text, correction_text
from advisor.show.words.load import does_not_fit, spend_text
from advisor.text import MERITS, printable, tier_text

Answer = TypeVar("Answer")
Written = TypeVar("Written")


_Part = tuple[tuple[str, Iterable[Block] | None], ...]
"""Titles of sections, each with its blocks; None where the report has no such section."""


def key_figures(report: Report) -> tuple[tuple[str, str, str], ...]:
    """(label, value, note) of the numbers at the head of a report."""
    answer = report.advice.recommendation
    speedup = report.advice.recommendation.speedup
    ratio = MERITS["speedup"]
    tpot = MERITS["tpot"]
    rate = MERITS["tokens_per_s_per_gpu"]
    likely = f"80% range {_band(speedup.low, speedup.high)}"
    last = (
        rate.name,
        rate.text(answer.tokens_per_s_per_gpu),
        f"batch {report.scenario.batch_size:,}",
    )
    usd = report.spend and report.spend.chosen.usd_per_million
    plain = report.spend and report.spend.plain.usd_per_million
    if usd and plain:
        without = f", {digits(plain.value)} without drafts" if answer.n_draft else ""
        last = "Cost", f"{digits(usd.value)} USD", f"a million tokens{without}"
    first_token = "per user"
    if answer.ttft_s is not None:
        wait = MERITS["ttft"].text(answer.ttft_s)
        first_token = f"per user, the first after {wait} without queueing"
    first = "Draft length, predicted" if report.decided else "Draft length"
    return (
        (first, f"K = {answer.n_draft}", f"fastest in {answer.p_best:.0%} of cases"),
        (
            ratio.name,
            ratio.text(speedup.value),
            likely,
        ),
        (tpot.name, tpot.text(answer.tpot_s), first_token),
        last,
    )


def sections(report: Report) -> tuple[Section, ...]:
    """The body of a report, in reading order."""
    settings = matrix(("Setting", "Value"), list(report.settings.items()), "ll")
    lengths = table_block(
        accepted_lengths(report.advice.setup.acceptance, 1),
        "Accepted length, bonus token included.",
    )
    answer: _Part = (
        ("Question", (Paragraph(report.question), table_block(settings))),
        ("Answer", _answer(report)),
        ("Speedup by batch size", _curve(report)),
        ("Where the time goes", _components(report)),
        ("Experts on ranks", if_any(partial(ranks_blocks, report), report.ranks)),
    )
    exploration: _Part = (
        ("Over context", if_any(partial(over_context, report), report.over_context)),
        (
            "Other models at this load",
            if_any(partial(other_models, report.scenario.model_id), report.board),
        ),
        ("Try next", try_next(report)),
        ("Which design to train", if_any(design, report.standing)),
        ("A sweep of scenarios", if_any(sweep_blocks, report.swept)),
    )
    use: _Part = (
        ("K by batch size", _schedule(report)),
        ("Engine configuration", _engines(report)),
        ("Validation", _validation(report)),
        ("Check it yourself", check_blocks(report.checks)),
        ("A measured run, diagnosed", if_any(diagnosed, report.diagnosis)),
        ("Assumptions", (Listing(report.assumptions), lengths)),
    )
    reference: _Part = (
        ("Limits", (Listing(LIMITS),)),
        ("Cost and energy", cost_and_energy(report)),
        ("Constants of the accelerator", (constants_table(report.sources, report.constants),)),
        ("Derivation", derivation(report)),
        ("Works cited", (works(report),)),
        ("Sources", (Listing(references(report.sources, report.constants), numbered=True),)),
        ("This report", identity(report.scenario, report.date, report.versions, report.address)),
    )
    return tuple(
        Section(
            title,
            tuple(typeset_block(block) for block in blocks if getattr(block, "items", True)),
            is_reference,
        )
        for part, is_reference in (
            (answer + exploration + use, False),
            (reference, True),
        )
        for title, blocks in part
        if blocks is not None
    )


def if_any(write: Callable[[Answer], Written], answer: Answer | None) -> Written | None:
    """Write something of an answer. None without one."""
    return None if answer is None else write(answer)


def _answer(report: Report) -> tuple[Block, ...]:
    caption = (
        f"Each K at batch {report.scenario.batch_size:,}. Fastest in: of {SIMULATED}. Gains in: "
        "chance of a gain."
    )
    sure = report.say("share", "range", "assumed", "alternative", "pool", "pool_more")
    blocks: list[Block] = [
        Paragraph(report.say("bound", "tier_because")),
        Paragraph(sure),
        table_block(Table(DRAFTS, report.advice.drafts), caption),
    ]
    if report.validation:
        blocks.append(Paragraph(nearest_check(report.validation)))
    if report.warnings:
        blocks += [Paragraph("Note before use:"), Listing(report.warnings)]
    return tuple(blocks)


def nearest_check(by_group: Mapping[str, Errors]) -> str:
    """Comparison with the nearest published points, for readers who stop at the answer."""
    group, errors = next(iter(by_group.items()))
    facts = {
        "group": group,
        "n": errors.n,
        "median": errors.median_ape,
        "right": errors.sign_accuracy,
        "inside": errors.coverage,
    }
    return BOOK.say("nearest", facts)


def _curve(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    rows = [row for row in curve_rows(advice.curve) if row["n_draft"] == advice.curve_k]
    caption = (
        f"K = {advice.curve_k}. Experts: distinct routed experts that one layer loads in a step."
    )
    finding = report.say("peak", "range")
    return (
        Paragraph(finding),
        FigureBlock("speedup", finding),
        table_block(Table(_CURVE, rows), caption),
    )


_CURVE: tuple[Column[dict[str, Any]], ...] = (
    Column("Batch", itemgetter("batch_size"), "{:,}".format),
    Column("Speedup", itemgetter("speedup"), "{:.2f}x".format),
    Column("80% range", lambda row: _band(row["speedup_low"], row["speedup_high"])),
    Column("ms per token", itemgetter("tpot_ms"), "{:.2f}".format),
    Column("Verify / plain", itemgetter("verify_ratio"), "{:.2f}".format),
    Column("Experts, plain", itemgetter("touched_plain"), "{:.0f}".format),
    Column("Experts, verify", itemgetter("touched_verify"), "{:.0f}".format),
    Column("Tier", lambda row: tier_text(row["tier"], row["extrapolated"]), words=True),
)


def _components(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    times = component_times(report.advice)
    plain = sum(part.plain_ms for part in times)
    whole = sum(part.round_ms for part in times)
    parts = [*((part.label, part.plain_ms, part.round_ms) for part in times), ("Sum", plain, whole)]
    label = times[0].label
    finding = BOOK.say(
        "components",
        {
            "batch": report.scenario.batch_size,
            "baseline_ms": plain,
            "k": advice.curve_k,
            "round_ms": whole,
            "emitted": advice.setup.acceptance.accepted_length[advice.curve_k],
            "component": label.lower() if label[1].islower() else label,
            "component_ms": times[0].round_ms,
        },
    )
    columns: tuple[Column[tuple[str, float, float]], ...] = (
        Column("Component", itemgetter(0), words=True),
        Column("Plain step, ms", itemgetter(1), "{:.3f}".format),
        Column(f"Round with K = {report.advice.curve_k}, ms", itemgetter(2), "{:.3f}".format),
    )
    text = f"{finding} {correction_text(report.advice)}".rstrip()
    return Paragraph(text), FigureBlock("components", finding), table_block(Table(columns, parts))


def _engines(report: Report) -> tuple[Block, ...]:
    why = SCHEDULE_BOOK.say("without", report.advice.schedule.facts)
    reason_blocks = (Paragraph(why),) if why else ()
    return (
        *reason_blocks,
        *(block for engine in report.engines for block in engine_blocks(engine)),
    )


def _schedule(report: Report) -> tuple[Block, ...]:
    table = k_by_batch_table(report.advice.k_by_batch, report.scenario.max_tpot_ms is not None)
    text = " ".join(SCHEDULE_BOOK.says((*TEXTS, "rule"), report.advice.schedule.facts))
    blocks: list[Block] = [Paragraph(text), table_block(table)]
    at = report.k_by_context
    if at is not None:
        blocks.append(Paragraph(CONTEXT.say("context", at.facts)))
    if at is not None and at.matters:
        caption = "Recommended K by batch and tokens of context. A dash: does not fit in memory."
        blocks.append(table_block(k_by_context_table(at), caption))
    return tuple(blocks)


def _validation(report: Report) -> tuple[Block, ...]:
    by_group = report.validation or {}
    facts = {
        "looked_up": report.validation is not None,
        "compared": bool(by_group),
        "near": bool(by_group.keys() - {"all published points"}),
    }
    text = Paragraph(BOOK.say("validation", facts))
    return (text, table_block(Table(ERRORS, list(by_group.items())))) if by_group else (text,)


def _share(label: str, field: str, key: str) -> Column[tuple[str, Errors]]:
    return Column(label, lambda row: getattr(row[1], field), FORMS["share"], key)


ERRORS: tuple[Column[tuple[str, Errors]], ...] = (
    Column("Published speedups of", itemgetter(0), key="group", words=True),
    Column("Points", lambda row: row[1].n, key="n"),
    _share("Median error", "median_ape", "median_error"),
    _share("90th percentile", "p90_ape", "p90_error"),
    _share("Right side of 1x", "sign_accuracy", "sign_right"),
    _share("In the band", "coverage", "in_band"),
)
"""How far predictions were off on each group of published speedups."""


def _band(low: float, high: float) -> str:
    return f"{low:.2f}-{high:.2f}"


_LONGEST_COMMAND = 900
"""Characters of a launch line that fit the page; a longer one is in the full report. [-]"""
_LONGEST_LINK = 400
"""Characters of a link that fits it; a longer one is in the full report. [-]"""
_MOST_WARNINGS = 2
_ABOVE = ("split_blocks", "length_borrowed")
"""Kinds of notes that the page has above its doubts."""
_LONGEST_LINE = 300


def brief_title(report: Report) -> str:
    """The answer and the engine it holds for."""
    engine = engine_label(report.scenario.engine)
    return f"{model_name(report.scenario.model_id)}, {engine}: {report.say('headline')}"


def brief_sections(report: Report, *, linked: bool = True) -> tuple[Section, ...]:
    """The page's body, in reading order, with the link that opens the answer where there is a short
    one."""
    finding = report.say("peak", "range")
    setup = report.advice.setup
    cost = (
        does_not_fit(setup)
        if report.spend is None
        else printable(spend_text(report.spend, setup.hardware), 3000)
    )
    command = _command(report)
    has_link = linked and 0 < len(report.share_query) <= _LONGEST_LINK
    run = (*command, link(report.address, report.share_query)) if has_link else command
    page_sections = (
        Section("In short", (Paragraph(_in_short(report)),)),
        Section("Speedup by batch size", (Paragraph(finding), FigureBlock("speedup", finding))),
        Section("Cost", (Paragraph(cost),)),
        Section("What would change it", _doubts(report)),
        *((Section("What to run" if command else "The app", run),) if run else ()),
    )
    return tuple(
        Section(section.title, tuple(map(typeset_block, section.blocks)))
        for section in page_sections
    )


def _in_short(report: Report) -> str:
    advice = report.advice
    place = (
        f"{' '.join(place_text(advice))}, {_weights(advice)}, "
        f"{engine_label(report.scenario.engine)}."
    )
    do = BOOK.say("own", {"decided": report.decided})
    texts = (
        do if report.decided else report.say("do"),
        *note_texts(note for note in advice.notes if note.kind == "split_blocks"),
        place,
        report.say("range", "slow", "alternative", "published", "published_here", "bound"),
    )
    return " ".join(filter(None, texts))


def _weights(advice: Advice) -> str:
    """What the weights are served in, in words: those that are most of the model."""
    dtypes = advice.setup.architecture.dtypes
    stored = stored_format(advice.setup.architecture)
    part = "weights" if dtypes.attention == stored else "most weights"
    form = "fp8 (128 x 128 blocks)" if stored == "fp8_block" else stored
    return f"{part} in {form}"


def _doubts(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    runs = report.say("published_runs")
    lines = [accepted_text(advice), runs, report.say("change")]
    if (
        report.validation and not runs
    ):  # of these very runs, each at its own length: two counts of one thing
        lines.append(nearest_check(report.validation))
    refusals = [note for note in advice.notes if note.kind == "split_blocks"]
    rest = [note for note in advice.notes if note.kind not in _ABOVE]
    warnings = [*report.remarks, *note_texts(rest)]
    lines += warnings[: _MOST_WARNINGS - len(refusals)]
    return (
        Listing(
            tuple(
                shorten(printable(line), _LONGEST_LINE, placeholder=" ...")
                for line in lines
                if line
            )
        ),
    )


def _command(report: Report) -> tuple[Block, ...]:
    """The launch line of the scenario's engine, and its file. Empty without one."""
    asked_engine = report.scenario.engine
    engine = next((each for each in report.engines if each.engine == asked_engine), None)
    if engine is None or engine.problem:
        return ()
    name = engine_label(asked_engine)
    lines = "\n".join(paste_lines(engine, 100))
    if len(lines) > _LONGEST_COMMAND:
        return (Paragraph(BOOK.say("elsewhere", {"engine": name})),)
    remarks = note_texts((note for note in engine.notes if note.kind in TO_FILL), "bare")
    return (Code(lines, "; ".join((f"{name}, launch line", *remarks))),)
