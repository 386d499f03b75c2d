"""Reports for the tests: one on a shipped model, one on a model whose name attacks every format."""

from __future__ import annotations

import datetime as dt
import functools
import html.parser

from advisor.answers.advice import advise
from advisor.answers.explore.changes import next_steps
from advisor.measured.refit_result import Errors
from advisor.predict.scenario import Scenario
from advisor.show.report.build import Report, build_report
from tests.own_model import CONFIG_JSON

DATE = dt.date(2026, 11, 21)
QWEN = Scenario(
    hardware_id="h200-sxm", model_id="qwen3-30b-a3b", drafter_id="eagle3", acceptance="2.4@3"
)
MIXED = QWEN.model_copy(
    update={
        "model_id": "command-a",
        "n_gpus": 4,
        "tensor_parallel": 4,
        "weight_dtype": "fp8",
        "acceptance": "2.73@3",
    }
)
"""A dense model with weights in more than one format."""
PAYLOADS = (
    '#read("/etc/passwd")',
    "<script>alert(1)</script>",
    '=HYPERLINK("http://evil.example/x","y")',
    "@SUM(A1)",
    "[l](javascript:alert(1))",
    "![i](http://evil.example/p.png)",
    "`a` *b* $x$ | c |",
    "\x1b[31m\u202e",
    "模型😀",
    "</script>{{7*7}}{% raw %}",
    "x" * 300,
)
CHECKED = {
    "this model, other accelerators": Errors(4, 0.2, 0.25, 0.4, 0.75, None, 0.5, 0.6),
    "all published points": Errors(40, 0.1, 0.15, 0.3, 0.9, 0.5, 0.8, 0.6),
}
"""Made up, to see them printed."""


@functools.cache
def report_on(scenario: Scenario = QWEN, checked: bool = True) -> Report:
    """A report; `checked` gives it validation errors."""
    advice = advise(scenario)
    return build_report(
        advice, DATE, steps=next_steps(advice), validation=CHECKED if checked else None
    )


def own_model(name: str) -> Scenario:
    """A scenario on a small model that a user named."""
    return QWEN.model_copy(update={"model_id": name, "model_config_json": CONFIG_JSON})


class Page(html.parser.HTMLParser):
    """Headings, start tags with the names of their attributes, words outside scripts, and every
    address of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.body: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(" ".join([tag, *(name for name, _ in attrs)]))
        self._open.append(tag)
        self.addresses += [
            f"{name}={value}"
            for name, value in attrs
            if name in ("src", "href", "srcset", "action")
        ]

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("h1", "h2"):
            self.headings.append(data)
        if "script" not in self._open and "style" not in self._open:
            self.body.append(data)
