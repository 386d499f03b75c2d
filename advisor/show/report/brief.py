"""One page for whoever decides: what to do, what it gains, what it costs, what would change it, what to run."""

from __future__ import annotations

from advisor.answers.advice import gain_text
from advisor.answers.engines.config import one_option_a_line
from advisor.answers.summary import accepted_length_flips, accepted_text, flip_texts, gain_end_text, published_text
from advisor.catalog.engines import load_engine
from advisor.show.report.blocks import Block, Code, FigureBlock, Listing, Paragraph, Section, typeset_block
from advisor.show.report.build import Report
from advisor.show.report.layout import curve_finding, nearest_check
from advisor.show.words.load import does_not_fit, spend_text
from advisor.text import counted, printable

_LONGEST_COMMAND = 900
"""Characters of a launch line that fit the page; a longer one is in the full report. [-]"""
_MOST_WARNINGS = 3


def brief_sections(report: Report) -> tuple[Section, ...]:
    """The page's body, in reading order."""
    finding, setup = curve_finding(report), report.advice.setup
    cost = does_not_fit(setup) if report.spend is None else printable(spend_text(report.spend, setup.hardware), 3000)
    found = (
        Section("In short", (Paragraph(_in_short(report)),)),
        Section("Speedup by batch size", (Paragraph(finding), FigureBlock("speedup", finding, report))),
        Section("Cost", (Paragraph(cost),)),
        Section("What would change it", _doubts(report)),
        *((Section("What to run", (command,)),) if (command := _command(report)) is not None else ()),
    )
    return tuple(Section(one.title, tuple(map(typeset_block, one.blocks))) for one in found)


def _in_short(report: Report) -> str:
    answer, scenario = report.advice.recommendation, report.scenario
    at = f"{report.question} At {scenario.context_tokens:,} tokens of context"
    if answer.n_draft == 0:
        return f"{at}, no: drafting does not pay. {answer.bound_because}"
    faster = answer.speedup
    return (
        f"{at}, yes: {counted(answer.n_draft, 'drafted token')} a step make each user's tokens come "
        f"{faster.value:.2f} times as fast ({faster.low:.2f} to {faster.high:.2f} in 8 of 10 simulated cases). "
        f"{gain_text(faster.low, answer.p_gain, report.advice.gain_factor)} {answer.bound_because}"
    )


def _doubts(report: Report) -> tuple[Block, ...]:
    advice = report.advice
    length = float(advice.setup.acceptance.accepted_length[advice.curve_k])
    flips = flip_texts(accepted_length_flips(advice), advice.curve_k, length)
    lines = [accepted_text(advice), published_text(advice), *flips]
    lines.append(gain_end_text(advice))
    if report.validation:
        lines.append(nearest_check(*next(iter(report.validation.items()))))
    lines += list(report.warnings[:_MOST_WARNINGS])
    return (Listing(tuple(printable(line, 400) for line in lines if line)),)


def _command(report: Report) -> Code | None:
    """The launch line of the scenario's engine; None where it has none that fits the page."""
    own = next((one for one in report.engines if one.engine == report.scenario.engine and not one.problem), None)
    if own is None:
        return None
    lines = one_option_a_line(own.launch_line)
    return None if len(lines) > _LONGEST_COMMAND else Code(lines, f"{load_engine(own.engine).name}, launch line")
