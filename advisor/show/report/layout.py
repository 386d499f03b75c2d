"""A report as a list of sections of plain blocks: what is said, once, for Markdown, HTML and PDF alike."""

from __future__ import annotations

from advisor.answers.advice import component_times
from advisor.answers.round_costs import k_by_batch_table
from advisor.answers.schedule import plain_text, schedule_rule
from advisor.measured.refit_result import Errors
from advisor.physics.bands import SIMULATED
from advisor.predict.curve import curve_rows
from advisor.show.report.blocks import Block, Code, FigureBlock, Listing, Paragraph, Section, Table, typeset_block
from advisor.show.report.build import LIMITS, Report, check_blocks, engine_blocks
from advisor.show.report.sections import (
    cost_and_energy,
    derivation,
    design,
    diagnosed,
    other_models,
    over_context,
    ranks_blocks,
    regions_blocks,
    sweep_blocks,
    try_next,
    works,
)
from advisor.text import MERITS, printable, tier_text, with_prefix


def key_figures(report: Report) -> tuple[tuple[str, str, str], ...]:
    """(label, value, note) of the numbers at the head of a report."""
    answer, speedup = report.advice.recommendation, report.advice.recommendation.speedup
    ratio, tpot, rate = (MERITS[name] for name in ("speedup", "tpot", "tokens_per_s_per_gpu"))
    return (
        ("Draft length", f"K = {answer.n_draft}", f"chance of being best {answer.p_best:.0%}"),
        (ratio.name, ratio.text(speedup.value), f"{_band_name(report)} {_band(speedup.low, speedup.high)}"),
        (tpot.name, tpot.text(answer.tpot_s), answer.per_user),
        (rate.name, rate.text(answer.tokens_per_s_per_gpu), f"batch {report.scenario.batch_size:,}"),
    )


def sections(report: Report) -> tuple[Section, ...]:
    """The body of a report, in reading order."""
    found = [
        Section("Question", (Paragraph(report.question), _settings_table(report))),
        Section("Answer", _answer(report)),
        Section("Speedup by batch size", _curve(report)),
        Section("Where the time goes", _components(report)),
        *([Section("Experts on ranks", ranks_blocks(report, report.ranks))] if report.ranks is not None else []),
        *(
            [Section("Over context", over_context(report, report.over_context))]
            if report.over_context is not None
            else []
        ),
        *(
            [Section("Other models at this load", other_models(report.board, report.scenario.model_id))]
            if report.board is not None
            else []
        ),
        Section("Try next", try_next(report)),
        *([Section("Which design to train", design(report.standing))] if report.standing is not None else []),
        *(
            [Section("One design for several accelerators", regions_blocks(report.regions))]
            if report.regions is not None
            else []
        ),
        *([Section("A sweep of scenarios", sweep_blocks(report.swept))] if report.swept is not None else []),
        Section("K by batch size", _schedule(report)),
        Section("Engine configuration", _engines(report)),
        Section("How far this has been checked", _validation(report)),
        Section("Check it yourself", check_blocks(report.checks)),
        *([Section("A measured run, diagnosed", diagnosed(report.diagnosis))] if report.diagnosis is not None else []),
        Section("Assumptions", (Listing(report.assumptions), _accepted_lengths(report))),
        Section("Limits", (Listing(LIMITS),), reference=True),
        Section("Cost and energy", cost_and_energy(report), reference=True),
        Section("Constants of the accelerator", (_constants(report),), reference=True),
        Section("How the speedup was made", derivation(report), reference=True),
        Section("Works cited", (works(report),), reference=True),
        Section("Sources", (Listing(references(report), numbered=True),), reference=True),
        Section("This report", _identity(report), reference=True),
    ]
    return tuple(
        Section(section.title, tuple(map(typeset_block, section.blocks)), section.reference) for section in found
    )


def curve_finding(report: Report) -> str:
    """Sentences on what the speedup curve shows, with numbers."""
    advice, column = report.advice, report.advice.curve_column
    curve, row = report.drawn_curve, advice.batch_index
    batches, speedup = curve.batches, curve.speedup[:, column]
    slow = batches[speedup < 1.0]
    if not slow.size:
        fits = batches[batches <= advice.setup.memory.largest_batch]
        last, why = (fits[-1], ", the last shown that fits") if fits.size else (batches[-1], "")
        ending = f"It stays above 1x up to batch {last:,.0f}{why if last < batches[-1] else ''}."
    elif slow.size == batches.size:
        ending = "It is a slowdown at every batch."
    else:
        ending = f"It is a slowdown within batch {slow[0]:,.0f} to {slow[-1]:,.0f}."
    return (
        f"With K = {advice.curve_k}, the speedup at batch {batches[row]:,.0f} is {speedup[row]:.2f}x "
        f"({_band_name(report)} {_band(curve.low[row, column], curve.high[row, column])}); it is highest at batch "
        f"{batches[speedup.argmax()]:,.0f}, {speedup.max():.2f}x. {ending}"
    )


def components_finding(report: Report) -> str:
    """Sentences on where a round takes its time, with numbers."""
    advice, times = report.advice, component_times(report.advice)
    plain, whole = sum(part.plain_ms for part in times), sum(part.round_ms for part in times)
    label = times[0].label.lower() if times[0].label[1].islower() else times[0].label
    return (
        f"At batch {report.scenario.batch_size:,} a plain step takes {plain:.2f} ms and emits one token per sequence; "
        f"a round with K = {advice.curve_k} takes {whole:.2f} ms and emits "
        f"{advice.setup.acceptance.accepted_length[advice.curve_k]:.2f}. The largest part of the round is {label}: "
        f"{times[0].round_ms:.2f} ms."
    )


def _settings_table(report: Report) -> Table:
    rows = tuple((item.label, item.value) for item in report.settings)
    return Table(("Setting", "Value"), rows, "ll")


def _answer(report: Report) -> tuple[Block, ...]:
    answer = report.advice.recommendation
    why = f"{answer.bound_because} Plain decoding is {answer.bound}-bound."
    tier = f"The speedup is {answer.speedup.tier}: {printable(answer.speedup.because)}."
    gain = f" and faster than plain decoding in {answer.p_gain:.0%}" if answer.n_draft else ""
    loss = (
        f"Of {SIMULATED}, which differ in the uncertain constants, K = {answer.n_draft} is the fastest in "
        f"{answer.p_best:.0%}{gain}; on average it is {answer.regret:.1%} behind the best K in each, the least within "
        f"the noise. {answer.equals}"
    ).rstrip()
    fits = f"The largest batch that fits the memory is {report.advice.setup.memory.largest_batch:,}."
    blocks: list[Block] = [Paragraph(f"{why} {tier}"), Paragraph(f"{loss} {fits}"), _drafts(report)]
    if report.validation:
        blocks.append(Paragraph(_nearest_check(*next(iter(report.validation.items())))))
    if report.warnings:
        blocks += [Paragraph("Note before use:"), Listing(report.warnings)]
    return tuple(blocks)


def _drafts(report: Report) -> Table:
    """Every K at the target batch, with its odds."""
    rows = tuple(
        (
            f"{item.n_draft}{', recommended' if item.recommended else ''}",
            f"{item.speedup:.2f}x",
            _band(item.speedup_low, item.speedup_high),
            f"{item.tpot_s * 1e3:.2f}",
            f"{item.p_best:.0%}",
            f"{item.p_gain:.0%}" if item.n_draft else "",
            f"{item.expected_loss:.1%}",
        )
        for item in report.advice.drafts
    )
    columns = ("K", "Speedup", _band_name(report), "ms per token", "Best in", "Gains in", "Expected loss")
    caption = f"Each K at batch {report.scenario.batch_size:,}. Best in, gains in: of {SIMULATED}."
    return Table(columns, rows, "lrrrrrr", caption)


def _nearest_check(group: str, errors: Errors) -> str:
    """How the nearest published points compare, for readers who stop at the answer."""
    return (
        f"Against published speedups of {group} ({errors.n}), these predictions were off by "
        f"{_percent(errors.median_ape)} at the median, on the right side of 1x in {_percent(errors.sign_accuracy)} and "
        f"inside the band in {_percent(errors.coverage)}."
    )


def _curve(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    rows = tuple(
        (
            f"{row['batch_size']:,}",
            f"{row['speedup']:.2f}x",
            _band(row["speedup_low"], row["speedup_high"]),
            f"{row['tpot_ms']:.2f}",
            f"{row['verify_ratio']:.2f}",
            f"{row['touched_plain']:.0f}",
            f"{row['touched_verify']:.0f}",
            tier_text(row["tier"], row["extrapolated"]),
        )
        for row in curve_rows(advice.curve)
        if row["n_draft"] == advice.curve_k
    )
    columns = (
        "Batch",
        "Speedup",
        _band_name(report),
        "ms per token",
        "Verify / plain",
        "Experts, plain",
        "Experts, verify",
        "Tier",
    )
    ending = "" if advice.break_even_batch is None else f" It breaks even at batch {advice.break_even_batch:,.0f}."
    caption = f"K = {advice.curve_k}. Experts: distinct routed experts that one layer loads in a step."
    finding = curve_finding(report)
    return (
        Paragraph(finding + ending),
        FigureBlock("speedup", finding),
        Table(columns, rows, "rrrrrrrl", caption),
    )


def _components(report: Report) -> tuple[Block, ...]:
    times = component_times(report.advice)
    parts = [(part.label, part.plain_ms, part.round_ms) for part in times]
    parts.append(("Sum", sum(part.plain_ms for part in times), sum(part.round_ms for part in times)))
    rows = tuple((label, f"{plain:.3f}", f"{whole:.3f}") for label, plain, whole in parts)
    finding = components_finding(report)
    columns = ("Component", "Plain step, ms", f"Round with K = {report.advice.curve_k}, ms")
    return Paragraph(finding), FigureBlock("components", finding), Table(columns, rows, "lrr")


def _engines(report: Report) -> tuple[Block, ...]:
    why = plain_text(report.advice.k_by_batch, report.scenario.batch_size)
    said = (Paragraph(why),) if why else ()
    return (*said, *(block for engine in report.engines for block in engine_blocks(engine)))


def _schedule(report: Report) -> tuple[Block, ...]:
    columns, rows = k_by_batch_table(report.advice.k_by_batch, report.scenario.max_tpot_ms is not None)
    text = " ".join((*report.advice.schedule_texts, schedule_rule(report.scenario.max_tpot_ms)))
    kinds = {"Batch": "l", "Meets the limit": "l"}
    blocks: list[Block] = [Paragraph(text), Table(columns, rows, "".join(kinds.get(name, "r") for name in columns))]
    if (at := report.k_by_context) is not None and at.text:
        blocks.append(Paragraph(at.text))
    if at is not None and at.matters:
        heading, cells = at.table()
        caption = "Recommended K by batch and tokens of context. A dash: does not fit in memory."
        blocks.append(Table(heading, cells, "r" * len(heading), caption))
    return tuple(blocks)


def _validation(report: Report) -> tuple[Block, ...]:
    if report.validation is None:
        return (Paragraph("Not looked up: this report was made without comparing with published measurements."),)
    if not report.validation:
        return (Paragraph("No published measurement could be predicted and compared."),)
    rows = tuple(
        (
            group,
            str(errors.n),
            *map(_percent, (errors.median_ape, errors.p90_ape, errors.sign_accuracy, errors.coverage)),
        )
        for group, errors in report.validation.items()
    )
    columns = ("Published speedups of", "Points", "Median error", "90th percentile", "Right side of 1x", "In the band")
    near = report.validation.keys() - {"all published points"}
    text = "Errors of this advisor's predictions on speedups that others measured and published."
    if not near:
        text += " None of them is on this accelerator or of this model."
    return Paragraph(text), Table(columns, rows, "lrrrrr")


def _accepted_lengths(report: Report) -> Table:
    given = report.advice.setup.acceptance
    rows = tuple(
        (
            str(k),
            f"{given.accepted_length[k]:.2f}",
            _band(given.low[k], given.high[k]),
            "yes" if given.extrapolated[k] else "no",
        )
        for k in range(1, given.accepted_length.size)
    )
    columns = ("K", "Tokens per round", _band_name(report), "Extrapolated")
    return Table(columns, rows, "rrrl", "Accepted length, bonus token included.")


def _constants(report: Report) -> Table:
    known = references(report)
    rows = tuple(
        (
            name,
            with_prefix(constant.value, constant.unit),
            constant.kind,
            constant.confidence,
            constant.date.isoformat(),
            f"{1 + next(i for i, text in enumerate(known) if text.endswith(constant.source))}",
        )
        for name, constant in report.constants.items()
    )
    return Table(("Constant", "Value", "Kind", "Confidence", "Read on", "Source no."), rows, "lrlllr")


def references(report: Report) -> tuple[str, ...]:
    """All sources: those of the answer, then those of the constants shown that are not among them."""
    found = list(report.sources)
    for constant in report.constants.values():
        if not any(text.endswith(constant.source) for text in found):
            found.append(constant.source)
    return tuple(found)


def _identity(report: Report) -> tuple[Block, ...]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    blocks: list[Block] = [
        Paragraph(f"Scenario {report.scenario.hash}, {report.date.isoformat()}. Versions: {versions}."),
    ]
    if report.share_query:
        blocks.append(Code(f"?{report.share_query}", "Append to the app's address to open this scenario"))
    else:
        blocks.append(
            Paragraph(
                "The link is too long to print, for what it carries of your own; the JSON report restores the scenario."
            )
        )
    return tuple(blocks)


def _band(low: float, high: float) -> str:
    return f"{low:.2f}-{high:.2f}"


def _band_name(report: Report) -> str:
    return f"{report.advice.band_level:.0%} band"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
