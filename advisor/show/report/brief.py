"""One page for whoever decides: what to do, what it gains, what it costs, what would change it, what to run."""

from __future__ import annotations

import re

from advisor.answers.advice import gain_text
from advisor.answers.engines.config import one_option_a_line
from advisor.answers.summary import (
    accepted_length_flips,
    accepted_text,
    flip_texts,
    headline,
    place_text,
    published_text,
    unlaunched_text,
)
from advisor.show.live_answer import engine_of
from advisor.show.report.blocks import Block, Code, FigureBlock, Listing, Paragraph, Section, typeset_block
from advisor.show.report.build import Report
from advisor.show.report.layout import curve_finding, nearest_check
from advisor.show.words.load import does_not_fit, spend_text
from advisor.text import printable, wrapped

_LONGEST_COMMAND = 900
"""Characters of a launch line that fit the page, its lists folded; a longer one is in the full report. [-]"""
_LIST = re.compile(r"(\d+, ?\d+, ?)(?:\d+, ?){8,}")
"""A list of so many numbers is folded to its ends."""
_MOST_WARNINGS = 2
_LONGEST_LINE = 300


def brief_title(report: Report) -> str:
    """The answer and the engine it holds for."""
    return f"{headline(report.advice, report.advice.recommendation.n_draft)}, {engine_of(report.scenario.engine)[0]}"


def brief_sections(report: Report) -> tuple[Section, ...]:
    """The page's body, in reading order."""
    finding, setup = curve_finding(report), report.advice.setup
    cost = does_not_fit(setup) if report.spend is None else printable(spend_text(report.spend, setup.hardware), 3000)
    command = _command(report)
    found = (
        Section("In short", (Paragraph(_in_short(report)),)),
        Section("Speedup by batch size", (Paragraph(finding), FigureBlock("speedup", finding))),
        Section("Cost", (Paragraph(cost),)),
        Section("What would change it", _doubts(report)),
        *((Section("What to run", (command,)),) if command is not None else ()),
    )
    return tuple(Section(one.title, tuple(map(typeset_block, one.blocks))) for one in found)


def _in_short(report: Report) -> str:
    advice, answer = report.advice, report.advice.recommendation
    no_room = f" But {text}" if (text := unlaunched_text(advice)) else ""
    place = f"{' '.join(place_text(advice))}, {engine_of(report.scenario.engine)[0]}.{no_room}"
    if answer.n_draft == 0:
        return f"{place} Drafting does not pay. {answer.bound_because}"
    gain = gain_text(answer.speedup.low, answer.p_gain, advice.gain_factor, advice.counting)
    return f"{place} Likely range: 8 of 10 simulated cases. {gain} {answer.bound_because}"


def _doubts(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    length = float(advice.setup.acceptance.accepted_length[advice.curve_k])
    flips = flip_texts(accepted_length_flips(advice), advice.curve_k, length)
    lines = [accepted_text(advice), published_text(advice), *flips]
    if report.validation:
        lines.append(nearest_check(*next(iter(report.validation.items()))))
    lines += list(report.warnings[:_MOST_WARNINGS])
    return (Listing(tuple(printable(line, _LONGEST_LINE) for line in lines if line)),)


def _command(report: Report) -> Block | None:
    """The launch line of the scenario's engine, long lists folded to their ends; None where it has none."""
    own = next((one for one in report.engines if one.engine == report.scenario.engine and not one.problem), None)
    if own is None:
        return None
    whole = _packed(own.launch_line)
    lines = _packed(_LIST.sub(r"\1...,", own.launch_line))
    if len(lines) > _LONGEST_COMMAND:
        return Paragraph(f"The launch line on {engine_of(report.scenario.engine)[0]} is in the full report.")
    folded = "" if lines == whole else "; lists shortened (...), whole in the full report"
    beside = f"; {own.file_name} is in the full report" if own.file_name else ""
    return Code(lines, f"{engine_of(report.scenario.engine)[0]}, launch line{folded}{beside}")


def _packed(command: str) -> str:
    """A shell command with as many whole options on a line as fit. A shell reads the same words."""
    options = [one.replace(" ", "\0") for one in one_option_a_line(command).split(" \\\n  ")]
    return " \\\n  ".join(wrapped(" ".join(options), 96, "")).replace("\0", " ")
