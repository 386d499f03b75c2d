"""The head of Share as a sheet: the answer to pass on, and its link."""

from __future__ import annotations

from urllib.parse import urlsplit

from advisor.answers.advice import Advice
from advisor.answers.outcome import outcome_of
from advisor.catalog.hardware import hardware_name
from advisor.show.live_answer import engine_label
from advisor.show.phrases.answer import BOOK as ANSWER
from advisor.show.phrases.report import BOOK
from advisor.show.sheet import Copy, GreyLine, Sheet
from advisor.text import printable

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def share_sheet(advice: Advice, link: str | None, decided: str) -> Sheet:
    """Headline, setup and link of an answer.

    link : None where it is too long. decided : what speedups of the user's own say of K, empty
        where none decide.
    """
    scenario = advice.scenario
    facts = {
        "headline": ANSWER.say("headline", outcome_of(advice).facts),
        "model_id": scenario.model_id,
        "gpus": scenario.n_gpus,
        "accelerator": printable(hardware_name(advice.setup.hardware)),
        "engine": engine_label(scenario.engine),
        "drafter_id": scenario.drafter_id,
        "context": scenario.context_tokens,
        "batch": scenario.batch_size,
        "is_local": link is not None and urlsplit(link).hostname in _LOCAL,
        "decided": decided,
    }
    copy = Copy(BOOK.say("link", facts), link or "")
    return Sheet(
        headline=BOOK.say("pass_on", facts),
        emphasis=BOOK.say("answer", facts),
        reason=BOOK.say("setup", facts),
        amber=BOOK.say("amber", facts),
        rows=((copy if link is not None else GreyLine(BOOK.say("no_link", facts)),),),
    )
