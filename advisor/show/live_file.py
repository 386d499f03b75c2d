"""The answer as one HTML file: Serve's scripts with their payload, and what the answer rests on.

Its policy lets it run and style what is in it, by hash, and load nothing.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import html
import json
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from advisor.answers.advice import Advice, advise, serving
from advisor.answers.by_length import at_length, length_now
from advisor.answers.outcome import outcome_of
from advisor.answers.own_gap import as_measured, own_schedule
from advisor.catalog.hardware import hardware_name
from advisor.predict.scenario import Scenario, scenario_words
from advisor.show.live_answer import engine_label, launch, live_answer, live_why
from advisor.show.phrases.answer import BOOK
from advisor.show.phrases.report import LIVE_FILE
from advisor.show.report.basis import (
    APP_ADDRESS,
    LIMITS,
    assumption_texts,
    constants_of,
    constants_table,
    identity,
    references,
    versions,
)
from advisor.show.report.blocks import (
    Block,
    Code,
    Listing,
    Paragraph,
    TableBlock,
    table_block,
    typeset_block,
)
from advisor.show.table import matrix
from advisor.show.words.answer import accepted_lengths, place_text
from advisor.show.words.compare import setting_lines
from advisor.text import printable

if TYPE_CHECKING:  # an answer without runs of the user's own needs no pandas
    import pandas as pd

_UI = Path(__file__).parents[1] / "ui"
_BROWSER = (_UI / "browser", _UI / "serve" / "browser")
_TEMPLATES = Path(__file__).parent / "report" / "templates"
_SHARED = ("svg", "phrases", "tables", "chart", "kept", "command")
_HIDDEN = (
    "button.how, .pin, .amber button, [class^=pin-] td button { display: none; } "
    "[class^=pin-] th button { pointer-events: none; text-decoration: none; }"
)
"""Questions that only a server answers."""
_COMPONENT = "export default function"


def browser_text(file_name: str) -> str:
    """A script or the styles that the browser gets, of all pages or of the live answer."""
    path = next(folder / file_name for folder in _BROWSER if (folder / file_name).exists())
    return path.read_text(encoding="utf-8")


def live_file(
    advice: Advice,
    date: dt.date,
    *,
    own: pd.DataFrame | None = None,
    usd_per_hour: float | None = None,
    beside: Sequence[Advice] = (),
    address: str = APP_ADDRESS,
    **model_names: str | None,
) -> str:
    """The answer as an HTML document that asks nobody anything.

    date : printed on it; the only date in it.
    own, usd_per_hour : as of `live_answer`; runs that decide are followed.
    beside : answers of setups that are drawn as pins.
    address : where the app that opens the answer is served.
    model_names : as of `launch`.
    """
    schedule = own_schedule(own)
    advice = as_measured(advice, schedule)
    outcome = outcome_of(advice, follows_own=bool(schedule))
    answer = live_answer(advice, own, usd_per_hour, beside)
    # Kinds of text and more GPUs are questions to a server.
    answer |= {"command": launch(advice, outcome, **model_names), "texts": [], "wider": None}
    payload = {
        "answer": answer,
        "why": live_why(advice),
        "commands": _commands(advice, answer, schedule, model_names),
        "other": _at_another_length(advice.scenario),
    }
    texts = {
        "title": BOOK.say("headline", answer["outcome"]),
        "reason": BOOK.say("range_and_time", answer["outcome"]),
        "place": LIVE_FILE.say("place", setup_facts(advice) | {"date": date.isoformat()}),
    }
    page = (_TEMPLATES / "live.css").read_text(encoding="utf-8")
    style = browser_text("tokens.css") + browser_text("live.css") + _HIDDEN
    script = _script()
    sections = (
        f"<details><summary>{title}</summary>{''.join(map(_block, map(typeset_block, blocks)))}"
        "</details>"
        for title, blocks in _sections(advice, date, address).items()
    )
    parts = {
        "page": page,
        "page_hash": _hash(page),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "payload": _packed(payload),
        "sections": "\n".join(sections),
    }
    written = {name: html.escape(printable(text)) for name, text in texts.items()}
    template = (_TEMPLATES / "live.html").read_text(encoding="utf-8")
    return Template(template).substitute(written | parts)


def setup_facts(advice: Advice) -> dict[str, Any]:
    """Names of the model, drafter, GPUs and engine of an answer, and its context."""
    return {
        "what": place_text(advice)[0],
        "gpus": advice.setup.placement.gpus,
        "accelerator": hardware_name(advice.setup.hardware),
        "engine": engine_label(advice.scenario.engine),
        "context": advice.scenario.context_tokens,
    }


def _packed(value: Any) -> str:
    """A value as JSON, deflated, in base64: a third of the file less, and no markup in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _script() -> str:
    """The scripts of the live answer as one: a component is put where its name says."""
    components = [
        browser_text(f"{name}.js").replace(_COMPONENT, f"roots.{name} = function")
        for name in ("answer", "why")
    ]
    shared = (browser_text(f"{name}.js") for name in _SHARED)
    return "\n".join(["const roots = {};", *shared, *components, browser_text("file.js")])


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _commands(
    advice: Advice,
    answer: Mapping[str, Any],
    schedule: tuple[tuple[int, int, int], ...],
    model_names: Mapping[str, str | None],
) -> list[tuple[int, dict[str, str]]]:
    """Last batch and command of each range of batches with a configuration of its own.

    answer : of `live_answer`, whose ranges they are. schedule : of the user's own runs.
    """
    at = at_length(advice, length_now(advice))
    place = answer["now_at"]
    runs = answer["own_served"] or [*answer["best"][place], *answer["schedule"][place]]
    commands: list[tuple[int, dict[str, str]]] = []
    first = 1
    for last in sorted({run[0] for run in runs}):
        # A batch of the curve where there is one: the answer to another lies between two of them.
        batch = max((each for each in answer["batches"] if first <= each <= last), default=last)
        here = advise(advice.scenario.model_copy(update={"batch_size": batch}))
        here = as_measured(here, schedule) if schedule else serving(here, at.to_serve(batch))
        outcome = outcome_of(here, follows_own=bool(schedule))
        commands.append((last, launch(here, outcome, **model_names)))
        first = last + 1
    return commands


def _at_another_length(scenario: Scenario) -> dict[str, str]:
    """The words that ask for the answer at another accepted length, but for batch and length."""
    facts = {"private": scenario.is_private}
    words = scenario_words(scenario, left_out=("batch_size", "acceptance"))
    return {
        "title": LIVE_FILE.say("other_title", facts),
        "note": LIVE_FILE.say("other_note", facts),
        "words": "" if scenario.is_private else shlex.join(["advisor", "advise", *words]),
    }


def _sections(advice: Advice, date: dt.date, address: str) -> dict[str, tuple[Block, ...]]:
    """What stands folded below the answer, by title."""
    setup = advice.setup
    sources = tuple(map(printable, setup.sources))
    constants = constants_of(setup)
    settings = matrix(("Setting", "Value"), list(setting_lines(setup).items()), "ll")
    lengths = accepted_lengths(setup.acceptance, 1)
    assumptions = Listing((*assumption_texts(setup), *LIMITS))
    numbered = Listing(references(sources, constants), numbered=True)
    return {
        "Setup": (table_block(settings),),
        "Assumptions": (
            assumptions,
            table_block(lengths, "Accepted length, bonus token included."),
        ),
        "Sources": (constants_table(sources, constants), numbered),
        "This file": identity(advice.scenario, date, versions(), address),
    }


def _block(block: Block) -> str:
    match block:
        case Listing(items, numbered):
            kind = "ol" if numbered else "ul"
            return f"<{kind}>{_elements('li', items)}</{kind}>"
        case TableBlock(columns, rows, _, caption):
            head = f"{_elements('caption', [caption])}<tr>{_elements('th', columns)}</tr>"
            lines = "\n".join(f"<tr>{_elements('td', row)}</tr>" for row in rows)
            return f'<div class="scroll" tabindex="0"><table>{head}\n{lines}</table></div>'
        case Code(text, caption):
            return _elements("p", [f"{caption}:"]) + _elements("pre", [text])
        case Paragraph(text):
            return _elements("p", [text])
    return ""


def _elements(name: str, texts: Iterable[str]) -> str:
    """An element of each text, as it stands."""
    return "".join(f"<{name}>{html.escape(text)}</{name}>" for text in texts)
