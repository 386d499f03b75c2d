"""A report as a list of sections of plain blocks: what is said, once, for Markdown, HTML and PDF alike."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from advisor.catalog import load_engine
from advisor.report import further_layout as further
from advisor.report.blocks import Block, Code, FigureBlock, Listing, Paragraph, Table
from advisor.report.document import CurvePoint, EngineSetup, ErrorLine, Report
from advisor.runtime import DEFAULT_MARGIN, equals_text
from advisor.text import typeset, with_prefix


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]
    reference: bool = False
    """True for what is looked up rather than read: set smaller on paper."""


def key_figures(report: Report) -> tuple[tuple[str, str, str], ...]:
    """(label, value, note) of the numbers at the head of a report."""
    answer = report.answer
    return (
        ("Draft length", f"K = {answer.k_draft}", f"chance of being best {answer.p_best:.0%}"),
        ("Speedup", f"{answer.speedup:.2f}x", f"{_band_name(report)} {_band(answer.speedup_low, answer.speedup_high)}"),
        ("Time per output token", f"{answer.tpot_ms:.2f} ms", "per user"),
        ("Tokens/s per GPU", f"{answer.tokens_per_s_per_gpu:,.0f}", f"batch {report.scenario.batch_size:,}"),
    )


def sections(report: Report) -> tuple[Section, ...]:
    """The body of a report, in reading order."""
    found = [
        Section("Question", (Paragraph(report.question), _settings_table(report))),
        Section("Answer", _answer(report)),
        Section("Speedup by batch size", _curve(report)),
        Section("Where the time goes", _components(report)),
        Section("Try next", further.try_next(report)),
        *([Section("Which design to train", further.design(report))] if report.design is not None else []),
        Section("K by batch size", _schedule(report)),
        Section("Engine configuration", tuple(block for engine in report.engines for block in _engine(engine))),
        Section("How far this has been checked", _validation(report)),
        Section("Check it yourself", _check_commands(report)),
        Section("Assumptions", (Listing(report.assumptions), _accepted_lengths(report))),
        Section("Limits", (Listing(report.limits),), reference=True),
        Section("Constants of the accelerator", (_constants(report),), reference=True),
        Section("How the speedup was made", further.derivation(report), reference=True),
        Section("Works cited", (further.works(report),), reference=True),
        Section("Sources", (Listing(references(report), numbered=True),), reference=True),
        Section("This report", _identity(report), reference=True),
    ]
    return tuple(Section(section.title, tuple(map(_typeset, section.blocks)), section.reference) for section in found)


def _typeset(block: Block) -> Block:
    """A block with its prose and cells as a reader sees them; code and drawings stay as they are."""
    match block:
        case Paragraph(text):
            return Paragraph(typeset(text))
        case Listing(items, numbered):
            return Listing(tuple(map(typeset, items)), numbered)
        case Table(columns, rows, align, caption):
            cells = tuple(tuple(map(typeset, row)) for row in rows)
            return Table(tuple(map(typeset, columns)), cells, align, typeset(caption))
    return block


def shown_curve(report: Report) -> tuple[CurvePoint, ...]:
    """The points of the curve at `curve_k`, by batch."""
    return tuple(point for point in report.curve if point.k_draft == report.curve_k)


def curve_finding(report: Report) -> str:
    """What the speedup curve shows, in words and numbers."""
    points = shown_curve(report)
    peak = max(points, key=lambda point: point.speedup)
    here = next(point for point in points if point.batch_size == report.scenario.batch_size)
    slow = [point.batch_size for point in points if point.speedup < 1.0]
    if not slow:
        fits = [point.batch_size for point in points if point.batch_size <= report.answer.largest_batch_that_fits]
        last, why = (fits[-1], ", the last shown that fits") if fits else (points[-1].batch_size, "")
        ending = f"It stays above 1x up to batch {last:,}{why if last < points[-1].batch_size else ''}."
    elif len(slow) == len(points):
        ending = "It is a slowdown at every batch."
    else:
        ending = f"It is a slowdown within batch {slow[0]:,} to {slow[-1]:,}."
    return (
        f"With K = {report.curve_k}, the speedup at batch {here.batch_size:,} is {here.speedup:.2f}x "
        f"({_band_name(report)} {_band(here.speedup_low, here.speedup_high)}); it is highest at batch "
        f"{peak.batch_size:,}, {peak.speedup:.2f}x. {ending}"
    )


def components_finding(report: Report) -> str:
    """Where a round takes its time, in words and numbers."""
    plain, whole = (sum(getattr(item, name) for item in report.components) for name in ("plain_ms", "round_ms"))
    first = report.components[0]
    length = report.accepted_lengths[report.curve_k].accepted_length
    label = first.label.lower() if first.label[1].islower() else first.label
    return (
        f"At batch {report.scenario.batch_size:,} a plain step takes {plain:.2f} ms and emits one token per sequence; "
        f"a round with K = {report.curve_k} takes {whole:.2f} ms and emits {length:.2f}. The largest part of the round "
        f"is {label}: {first.round_ms:.2f} ms."
    )


def _settings_table(report: Report) -> Table:
    rows = tuple((item.label, item.value) for item in report.settings)
    return Table(("Setting", "Value"), rows, "ll")


def _answer(report: Report) -> tuple[Block, ...]:
    answer = report.answer
    why = f"{answer.bound_because} Plain decoding is {answer.bound}-bound."
    tier = f"The speedup is {answer.tier}: {answer.because}."
    loss = (
        f"Over the draws of the uncertain constants, K = {answer.k_draft} is the fastest in {answer.p_best:.0%}; it "
        f"loses {answer.regret:.1%} on average against each draw's fastest K. "
        f"{equals_text(answer.equal_drafts, answer.k_draft)}".rstrip()
    )
    fits = f"The largest batch that fits the memory is {answer.largest_batch_that_fits:,}."
    blocks: list[Block] = [Paragraph(f"{why} {tier}"), Paragraph(f"{loss} {fits}")]
    if report.validation:
        blocks.append(Paragraph(_nearest_check(report.validation[0])))
    if report.warnings:
        blocks += [Paragraph("Note before use:"), Listing(report.warnings)]
    return tuple(blocks)


def _nearest_check(line: ErrorLine) -> str:
    """How the nearest published points compare, for readers who stop at the answer."""
    return (
        f"Against published speedups of {line.group} ({line.n}), these predictions were off by "
        f"{_percent(line.median_error)} at the median, on the right side of 1x in {_percent(line.sign_right)} and "
        f"inside the band in {_percent(line.in_band)}."
    )


def _curve(report: Report) -> tuple[Block, ...]:
    rows = tuple(
        (
            f"{point.batch_size:,}",
            f"{point.speedup:.2f}x",
            _band(point.speedup_low, point.speedup_high),
            f"{point.tpot_ms:.2f}",
            f"{point.verify_ratio:.2f}",
            f"{point.distinct_experts_plain:.0f}",
            f"{point.distinct_experts_verify:.0f}",
            f"{point.tier}{', outside the data' if point.extrapolated else ''}",
        )
        for point in shown_curve(report)
    )
    columns = (
        "Batch", "Speedup", _band_name(report), "ms per token", "Verify / plain", "Experts, plain", "Experts, verify",
        "Tier",
    )  # fmt: skip
    ending = "" if report.break_even_batch is None else f" It breaks even at batch {report.break_even_batch:,.0f}."
    caption = f"K = {report.curve_k}. Experts: distinct routed experts that one layer loads in a step."
    finding = curve_finding(report)
    return (
        Paragraph(finding + ending),
        FigureBlock("speedup", finding),
        Table(columns, rows, "rrrrrrrl", caption),
    )


def _components(report: Report) -> tuple[Block, ...]:
    rows = [(item.label, f"{item.plain_ms:.3f}", f"{item.round_ms:.3f}") for item in report.components]
    plain, whole = (sum(getattr(item, name) for item in report.components) for name in ("plain_ms", "round_ms"))
    rows.append(("Sum", f"{plain:.3f}", f"{whole:.3f}"))
    finding = components_finding(report)
    columns = ("Component", "Plain step, ms", f"Round with K = {report.curve_k}, ms")
    return Paragraph(finding), FigureBlock("components", finding), Table(columns, tuple(rows), "lrr")


def _schedule(report: Report) -> tuple[Block, ...]:
    limited = report.scenario.max_tpot_ms is not None
    rows = tuple(
        (f"{item.batch_start:,} to {item.batch_end:,}", str(item.k_draft), f"{item.speedup:.2f}x", f"{item.regret:.1%}")
        + ((("yes" if item.meets_limit else "no"),) if limited else ())
        for item in report.schedule
    )
    columns = ("Batch", "K", "Mean speedup", "Largest loss") + (("Meets the limit",) if limited else ())
    text = (
        f"The fewest ranges in which no batch loses more than {DEFAULT_MARGIN:.0%} against its own best K. The "
        "recommended K is the one of the target batch."
    )
    return Paragraph(text), Table(columns, rows, "lrrrl"[: len(columns)])


def _engine(engine: EngineSetup) -> tuple[Block, ...]:
    name = load_engine(engine.engine).name
    if engine.problem:
        return (Paragraph(f"{name}: {engine.problem}."),)
    blocks: list[Block] = [Code(_one_option_a_line(engine.launch_line), f"{name}, launch line")]
    if engine.file_name:
        blocks.append(Code(_one_slot_a_line(engine.config_json), f"{name}, {engine.file_name}"))
    if engine.warnings:
        blocks.append(Listing(tuple(f"{name}: {warning}." for warning in engine.warnings)))
    return tuple(blocks)


def _check_commands(report: Report) -> tuple[Block, ...]:
    if not report.check_commands:
        return (Paragraph("No commands: K = 0 is recommended, or vLLM cannot run this drafter."),)
    intro = (
        "These vLLM commands measure what is predicted here, with the accepted length imposed, so that the cost model "
        "alone is tested. Upload their output on the Measurements page."
    )
    steps = (Code(_one_option_a_line(step.command), step.purpose) for step in report.check_commands)
    return (Paragraph(intro), *steps)


def _validation(report: Report) -> tuple[Block, ...]:
    if report.validation is None:
        return (Paragraph("Not looked up: this report was made without comparing with published measurements."),)
    if not report.validation:
        return (Paragraph("No published measurement could be predicted and compared."),)
    rows = tuple(
        (line.group, str(line.n), _percent(line.median_error), _percent(line.p90_error), _percent(line.sign_right),
         _percent(line.in_band))
        for line in report.validation
    )  # fmt: skip
    columns = ("Published speedups of", "Points", "Median error", "90th percentile", "Right side of 1x", "In the band")
    near = {line.group for line in report.validation} - {"all published points"}
    text = "Errors of this advisor's predictions on speedups that others measured and published."
    if not near:
        text += " None of them is on this accelerator or of this model."
    return Paragraph(text), Table(columns, rows, "lrrrrr")


def _accepted_lengths(report: Report) -> Table:
    rows = tuple(
        (
            str(item.k_draft),
            f"{item.accepted_length:.2f}",
            _band(item.low, item.high),
            "yes" if item.extrapolated else "no",
        )
        for item in report.accepted_lengths
        if item.k_draft > 0
    )
    columns = ("K", "Tokens per round", _band_name(report), "Extrapolated")
    return Table(columns, rows, "rrrl", "Accepted length, bonus token included.")


def _constants(report: Report) -> Table:
    known = references(report)
    rows = tuple(
        (
            item.name,
            with_prefix(item.value, item.unit),
            item.kind,
            item.confidence,
            item.date.isoformat(),
            f"{1 + next(i for i, text in enumerate(known) if text.endswith(item.source))}",
        )
        for item in report.constants
    )
    return Table(("Constant", "Value", "Kind", "Confidence", "Read on", "Source no."), rows, "lrlllr")


def references(report: Report) -> tuple[str, ...]:
    """All sources: those of the answer, then those of the constants shown that are not among them."""
    found = list(report.sources)
    for item in report.constants:
        if not any(text.endswith(item.source) for text in found):
            found.append(item.source)
    return tuple(found)


def _one_slot_a_line(text: str) -> str:
    """A JSON object with each of its own entries on one line."""
    entries = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in json.loads(text).items()]
    return "{\n" + ",\n".join(entries) + "\n}"


def _one_option_a_line(command: str) -> str:
    """A shell command with each option on its own line; a shell reads the same words."""
    lines: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("--"):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(shlex.join(words) for words in lines)


def _identity(report: Report) -> tuple[Block, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    blocks: list[Block] = [
        Paragraph(f"Scenario {report.scenario_hash}, {report.date.isoformat()}. Versions: {versions}."),
    ]
    if report.share_query:
        blocks.append(Code(f"?{report.share_query}", "Append to the app's address to open this scenario"))
    else:
        blocks.append(Paragraph("The model's configuration is too large for a link; the JSON report restores it."))
    return tuple(blocks)


def _band(low: float, high: float) -> str:
    return f"{low:.2f}-{high:.2f}"


def _band_name(report: Report) -> str:
    return f"{report.answer.band_level:.0%} band"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
