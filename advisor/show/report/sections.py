"""Sections of a report beyond the answer itself, each as blocks for readers and as values of the
JSON report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pandas as pd

from advisor.answers.advice import Advice
from advisor.answers.design.candidates import LAW_NAMES, Band, Candidate
from advisor.answers.expert_ranks import RanksAnswer
from advisor.answers.explore.cells import SETTINGS, ContextMap
from advisor.answers.explore.changes import (
    GOALS,
    DesignStanding,
    Effect,
    Goal,
    NextSteps,
    best_effects,
)
from advisor.answers.explore.leaderboard import Leaderboard
from advisor.answers.explore.questions import (
    SweepMap,
    SweepView,
    fastest_within,
    one_k_for_all,
    setting_text,
    where_drafting_pays,
)
from advisor.predict.scenario import Scenario
from advisor.show.explain.round import cited, derive
from advisor.show.explain.steps import Step, step_text
from advisor.show.phrases.book import ratio_text
from advisor.show.phrases.notes import note_texts
from advisor.show.report.blocks import Block, Code, Listing, Paragraph, paragraph, said, table_block
from advisor.show.report.build import Report
from advisor.show.table import Column, Table, matrix
from advisor.show.words.compare import CHANGES
from advisor.show.words.compare import note_texts as change_notes
from advisor.show.words.design import (
    band_text,
    binding_text,
    experts_text,
    space_notes,
    standing_text,
)
from advisor.show.words.diagnosis import DiagnosisView
from advisor.show.words.expert_ranks import (
    document,
    exchange_table,
    exchange_text,
    layout_table,
    notes,
    rank_table,
    verdict,
    warning_notes,
)
from advisor.show.words.leaderboard import by_size, missed_texts, own_place, quality_text, table
from advisor.show.words.leaderboard import notes as board_notes
from advisor.show.words.leaderboard import verdict as board_verdict
from advisor.show.words.load import (
    acceptance_texts,
    does_not_fit,
    power_text,
    share_table,
    spend_text,
    turn_texts,
)
from advisor.show.words.load import map_table as context_map_table
from advisor.show.words.load import verdict as context_verdict
from advisor.show.words.sweep import (
    fastest_table,
    fastest_text,
    map_cells,
    map_table,
    map_text,
    one_k_table,
    one_k_text,
    pays_table,
    pays_text,
    settings_texts,
    sweep_notes,
    swept_text,
    values_by_setting,
)
from advisor.text import counted, printable

_ORIGINS = {
    "trace": "counted on a routing trace",
    "loads": "drawn from given loads by layer",
    "preset": "drawn from the routing preset's spread, hot experts placed by chance: assumed",
}
"""Where the choices of experts come from, by kind."""
_PLACED = ("layout", "experts read", "rows, fullest/mean", "K", "copies/GPU")
_TIMES = (
    "layout",
    "baseline step ms",
    "K",
    "round ms",
    "speedup",
    "80% range",
    "time per token ms",
    "tier",
)
"""Columns of the layouts that fit the width of a page, in two tables."""
_SHOWN = 40
"""Rows of a table on paper; JSON has all. [-]"""
_MAP_COLUMNS = 10
"""Columns of a table that fit a page. [-]"""
_CELL = ("n_draft", "speedup", "speedup_low", "speedup_high", "tier", "fits", "p_gain")
"""Figures of a map's cell in JSON."""
_SHOWN_RUNS = 4
_SHOWN_STEPS = ("experts", "weights", "routed", "total", "kernels", "host", "round_host")
"""Endings of the steps that a report prints beside the answer's own; `explain` prints all."""
_LOAD_SHOWN = 12
"""Models in a report's table; JSON has all. [-]"""
_PLACEMENT = ("rank", "likely rank", "model", "placement", "drafter", "accepted", "K", "memory")
_MERITS = ("rank", "model", "USD/M tokens", "ms/token", "tokens/s/GPU", "J/token", "keeps limit")
"""Columns of the leaderboard that fit the width of a page, in two tables."""


def ranks_blocks(report: Report, answer: RanksAnswer) -> tuple[Block, ...]:
    """Verdict and origin, then layouts, rows by K and exchange."""
    kind = answer.traffic.kind
    band = "80% ranges"
    of_counts = f"Origin of the counts: {kind}."
    exchange = table_block(
        exchange_table(answer), f"Bytes of one layer at the rank that receives most. {of_counts}"
    )
    # Sentences that the answer carries already are not told again.
    new_notes = [note for note in warning_notes(answer) if note not in report.advice.notes]
    new_warnings = tuple(map(said, note_texts(new_notes)))
    routing_text = _routing_text(report, answer)
    origin = f"{of_counts} Choices of experts are {_ORIGINS[kind]}. {routing_text}"
    layouts = layout_table(answer)
    placed = table_block(
        layouts.only(*_PLACED),
        "Layouts of the experts, each at its recommended K. The first row is what predictions "
        f"assume without counts; copies are extra weights on each GPU. {of_counts}",
    )
    times = table_block(
        layouts.only(*_TIMES), f"What the same layouts cost; {band} of the speedup. {of_counts}"
    )
    by_k = table_block(
        rank_table(answer),
        f"Experts in order, by K: counted, and what is assumed without counts. {of_counts}",
    )
    blocks: list[Block] = [
        paragraph(verdict(answer)),
        Paragraph(origin.rstrip()),
        placed,
        times,
        by_k,
        paragraph(exchange_text(answer)),
    ]
    if answer.moved:
        blocks.append(exchange)
    blocks.append(Listing(tuple(map(said, notes(answer)))))
    if new_warnings:
        blocks += [Paragraph("Note before use:"), Listing(new_warnings)]
    return tuple(blocks)


def _routing_text(report: Report, answer: RanksAnswer) -> str:
    """Sentence on a routing that a trace gives this section and the rest of the report does not
    have."""
    routing = answer.setup.scenario.routing
    scenario_routing = report.scenario.routing
    if routing == scenario_routing:
        return ""
    return (
        f"This section takes the trace's routing, {printable(routing)}, and not the "
        f"{printable(scenario_routing)} of the rest: with it in the scenario, the whole report "
        "has it."
    )


def ranks_values(answer: RanksAnswer) -> dict[str, Any]:
    """The section as the JSON report carries it."""
    return {"verdict": verdict(answer), **document(answer)}


def printed(value: Any) -> Any:
    """A document with every text in it as it is printed, all else as it is."""
    if isinstance(value, str):
        return said(value)
    if isinstance(value, dict):
        return {name: printed(item) for name, item in value.items()}
    return [printed(item) for item in value] if isinstance(value, list | tuple) else value


def sweep_blocks(view: SweepView) -> tuple[Block, ...]:
    """Blocks of the section: what was swept, each question with its table, the map as a table."""
    frame = view.sweep.frame
    pays = where_drafting_pays(frame)
    fastest = fastest_within(frame, view.max_tpot_ms)
    pays_blocks = _sweep_table(
        pays_table(pays),
        "The largest batch at which the recommended K pays, and its figures there.",
    )
    fastest_blocks = _sweep_table(
        fastest_table(fastest), "The most tokens/s per GPU of each model, with 80% ranges."
    )
    one_k_blocks = _sweep_table(
        one_k_table(frame),
        "One K at every point that fits and has it, against the best K of each simulated case.",
    )
    return (
        paragraph(" ".join((swept_text(view.sweep), *sweep_notes(view.sweep)))),
        Listing(tuple(said(text) for text in settings_texts(frame))),
        paragraph(pays_text(pays)),
        *pays_blocks,
        paragraph(fastest_text(fastest, view.max_tpot_ms)),
        *fastest_blocks,
        paragraph(one_k_text(frame)),
        *one_k_blocks,
        *_map(view.map),
    )


def _map(sweep_map: SweepMap | None) -> tuple[Block, ...]:
    if sweep_map is None:
        return ()
    cells = map_table(sweep_map)
    text = map_text(sweep_map)
    if len(cells.columns) > _MAP_COLUMNS:
        return (paragraph(f"{text} It is wider than a page; the JSON report has every cell."),)
    return paragraph(text), *_sweep_table(cells, "A dash: not in the grid, or does not fit.")


def _sweep_table(table: Table[Any], caption: str) -> tuple[Block, ...]:
    """A table of at most _SHOWN rows; nothing where it has none."""
    if not table.rows:
        return ()
    more = (
        ""
        if len(table.rows) <= _SHOWN
        else f" {counted(len(table.rows) - _SHOWN, 'more row')} in the JSON report."
    )
    return (table_block(replace(table, rows=table.rows[:_SHOWN]), caption + more),)


def sweep_values(view: SweepView) -> dict[str, Any]:
    """The section as the JSON report carries it."""
    frame = view.sweep.frame
    pays = where_drafting_pays(frame)
    fastest = fastest_within(frame, view.max_tpot_ms)
    sentences = (
        swept_text(view.sweep),
        pays_text(pays),
        fastest_text(fastest, view.max_tpot_ms),
        one_k_text(frame),
    )
    settings = [
        {"setting": name, "values": texts} for name, texts in values_by_setting(frame).items()
    ]
    maker = view.sweep.maker
    cells = None if view.map is None else _cells(view.map)
    return {
        "says": [*sentences, *sweep_notes(view.sweep)],
        "release": maker.get("release"),
        "constants": maker.get("constants"),
        "max_tpot_ms": view.max_tpot_ms,
        "varied": settings,
        "pays": [_row(row) for row in pays.to_dict("records")],
        "fastest": [_row(row) for row in fastest.to_dict("records")],
        "one_k": one_k_for_all(frame).to_dict("records"),
        "map": cells,
    }


def _row(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Figures of a row, None where it has none, and its further settings as texts."""
    further = [
        name
        for name in row
        if name in SETTINGS and name not in ("model_id", "hardware_id", "batch_size")
    ]
    values = {
        name: None if pd.isna(cell) else cell
        for name, cell in row.items()
        if name not in (*further, "row")
    }
    return values | {
        "settings": {
            name: setting_text(name, row[name]) for name in further if not pd.isna(row["row"])
        }
    }


def _cells(sweep_map: SweepMap) -> dict[str, Any]:
    cells = [
        {"x": x, "y": y} | {name: cell[name] for name in _CELL}
        for x, y, cell in map_cells(sweep_map)
    ]
    return {"says": map_text(sweep_map), "x": sweep_map.x, "y": sweep_map.y, "cells": cells}


def diagnosed(view: DiagnosisView) -> tuple[Block, ...]:
    """Verdict, findings with evidence and remedy, runs beside their prediction, what to collect."""
    blocks: list[Block] = [Paragraph(f"{view.sentence} {view.until}".rstrip())]
    blocks += [Code(view.command["text"], view.command["title"])] if view.command else []
    for finding in view.findings:
        lines = [
            f"Found in {finding.where}: {'; '.join(finding.evidence)}.",
            *(f"Differs: {text}." for text in finding.differs),
            f"Why: {finding.because}.",
            f"Instead: {finding.fix}",
            f"Published case: {finding.source}.",
        ]
        blocks += [
            Paragraph(f"{finding.title[0].upper()}{finding.title[1:]}."),
            Listing(tuple(lines)),
        ]
    if view.remedy is not None:
        blocks.append(table_block(view.remedy.table, view.remedy.title))
    blocks += [table_block(table, title) for title, table in view.comparisons[:_SHOWN_RUNS]]
    return tuple(blocks)


def tried(steps: NextSteps) -> list[tuple[Goal, Effect]]:
    """The three changes that help most by each goal."""
    return [(goal, effect) for goal in GOALS for effect in best_effects(steps, goal)]


def what_binds(standing: DesignStanding) -> str:
    """The limit that holds designs back most."""
    return printable(binding_text(standing.space))


def shown_steps(advice: Advice) -> list[Step]:
    """The formulas of the speedup at the target batch that a report prints."""
    formulas = derive(advice.setup, advice.scenario.batch_size, advice.curve_k)
    return [
        step
        for step in formulas.steps
        if step.group == "Answer" or step.id.split(".")[-1] in _SHOWN_STEPS
    ]


def try_next(report: Report) -> tuple[Block, ...]:
    """The single changes that help most, by goal."""
    if report.steps is None:
        return (Paragraph("Not looked up: this report was made without trying single changes."),)
    changes = tried(report.steps)
    if not changes:
        return (Paragraph("No single change that was tried helps beyond noise."),)
    text = (
        "Single changes beyond noise, the best of each kind, 80% ranges; before and after, "
        "each at its own best K."
    )
    notes = tuple(
        dict.fromkeys(note for _, effect in changes for note in change_notes(effect.change))
    )
    return Paragraph(text), table_block(Table(CHANGES, changes)), Listing(notes)


def design_table(standing: DesignStanding) -> Table[tuple[str, Candidate, Band]]:
    """The best designs at equal quality beside the scenario's own."""
    columns: tuple[Column[tuple[str, Candidate, Band]], ...] = (
        Column("Best for", itemgetter(0), key="goal", words=True),
        Column(
            "Design",
            lambda row: printable(experts_text(standing.space, row[1].index)),
            key="design",
            words=True,
        ),
        *(
            _shape(name)
            for name in ("n_experts", "n_active", "n_shared", "expert_width", "shared_share")
        ),
        *(_shape(name) for name in ("total_params", "active_params")),
        Column("Training", lambda row: row[1].training_cost, "{:.2f}x".format, "training_cost"),
        Column(None, lambda row: row[1].n_draft[0], key="n_draft"),
        Column("Speedup", lambda row: row[1].speedup[0], "{:.2f}x".format, "speedup"),
        Column("ms per token", lambda row: row[1].tpot_s[0] * 1e3, "{:.2f}".format, "tpot_ms"),
        Column("Gain", itemgetter(2), band_text, "gain", band=True),
        Column(
            "Quality by law",
            lambda row: " / ".join(ratio_text(law.ratio) for law in row[1].quality),
        ),
        Column(None, lambda row: row[1].quality[0].ratio, key="quality"),
        Column(None, lambda row: row[1].quality_range[0], key="quality_pessimistic"),
        Column("Tier", lambda row: row[1].tier, key="tier", words=True),
    )
    best = standing.best
    fastest = standing.fastest
    gains = [
        ("speedup", best, best.speedup_gain),
        ("time per output token", fastest, fastest.tpot_gain),
    ]
    return Table(columns, gains)


def _shape(name: str) -> Column[tuple[str, Candidate, Band]]:
    return Column(None, lambda row: getattr(row[1], name), key=name)


def design(standing: DesignStanding) -> tuple[Block, ...]:
    """The best designs at equal quality beside the scenario's own."""
    caption = (
        "Gain over the scenario's own design. Training: compute at equal tokens over its own. "
        f"Quality: dense equivalent over its own, by {', '.join(LAW_NAMES.values())}."
    )
    return (
        Paragraph(printable(standing_text(standing))),
        table_block(design_table(standing), caption),
        Paragraph(what_binds(standing)),
        Listing(tuple(printable(note) for note in space_notes(standing.space))),
    )


def derivation(report: Report) -> tuple[Block, ...]:
    """The formulas behind the speedup with their numbers."""
    rows = [(f"{step.group}: {step.title}", step_text(step)) for step in shown_steps(report.advice)]
    text = (
        f"Batch {report.scenario.batch_size:,}, K = {report.advice.curve_k}; four digits are "
        "shown. `explain` prints all steps with their constants."
    )
    return Paragraph(text), table_block(matrix(("Step", "Formula, numbers, result"), rows, "ll"))


def cited_works(report: Report) -> list[tuple[str, str, str]]:
    """The works behind the formulas and constants used: what, where, and what for."""
    works_used = cited(report.advice.setup, designs=report.standing is not None)
    return [
        (work.citation.text, work.citation.url, ", ".join(work.used_for)) for work in works_used
    ]


def works(report: Report) -> Listing:
    """Works behind formulas and constants, with what was taken from them."""
    return Listing(
        tuple(f"{text} {url} ({used})" for text, url, used in cited_works(report)), numbered=True
    )


def cost_and_energy(report: Report) -> tuple[Block, ...]:
    """Paragraph on the cost of a token with speculation and without. The JSON report has both arms
    in figures."""
    spend = report.spend
    setup = report.advice.setup
    if spend is None:
        return (Paragraph(does_not_fit(setup)),)
    text = f"{spend_text(spend, setup.hardware)} {power_text(spend)}".rstrip()
    return (Paragraph(said(text)),)


def over_context(report: Report, context_map: ContextMap) -> tuple[Block, ...]:
    """Speedup, K and attention's share over batch and context, and where speculation turns."""
    return (
        paragraph(" ".join(context_texts(report.scenario, context_map))),
        table_block(
            context_map_table(context_map), "Speedup and recommended K; a dash: it does not fit."
        ),
        table_block(share_table(context_map), "Attention's share of a baseline step."),
        *(paragraph(text) for text in acceptance_texts(context_map)),
    )


def context_texts(scenario: Scenario, context_map: ContextMap) -> tuple[str, ...]:
    """Whether drafting pays at the scenario's context, and where that turns."""
    return context_verdict(context_map, scenario.context_tokens, scenario.batch_size), *turn_texts(
        context_map
    )


def other_models(own_id: str, leaderboard: Leaderboard) -> tuple[Block, ...]:
    """The best models at this load on this machine, with the doubt in their ranks."""
    ranked = table(leaderboard, _LOAD_SHOWN)
    more = len(leaderboard.standings) - len(ranked.rows)
    caption = f"The best {len(ranked.rows)}; {more} more were ranked." if more > 0 else ""
    sentences = (
        board_verdict(leaderboard),
        quality_text(leaderboard),
        by_size(leaderboard),
        own_place(leaderboard, own_id),
    )
    blocks: list[Block] = [Paragraph(" ".join(filter(None, sentences)))]
    if ranked.rows:
        blocks.append(table_block(ranked.only(*_PLACEMENT), caption))
        blocks.append(table_block(ranked.only(*_MERITS), "The same models, with 80% ranges."))
    return (*blocks, Listing((*board_notes(leaderboard), *missed_texts(leaderboard))))
