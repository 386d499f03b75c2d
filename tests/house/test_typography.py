"""How texts of the core read on screen and in reports."""

import io

import pypdf
import pytest

from advisor.answers.explore.changes import best_effects
from advisor.show.report.blocks import TableBlock
from advisor.show.report.formats import render
from advisor.show.report.layout import sections
from advisor.show.words.next_steps import change_text
from advisor.text import screen_style, typeset, unbroken_ranges
from tests.show.report_fixtures import report_on


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("KV cache bf16 -> fp8", "KV cache bf16 \N{RIGHTWARDS ARROW} fp8"),
        ("within 25 % (at least 0.02)", "within 25% (at least 0.02)"),
        ("80% band, a - b", "80% band, a - b"),
    ],
)
def test_arrows_and_percents_are_set_as_on_screen(written: str, read: str) -> None:
    assert typeset(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1.92x (1.78-2.05)", "1.92x (1.78\N{NON-BREAKING HYPHEN}2.05)"),
        ("Qwen2.5-1.5B on 2026-11-22", "Qwen2.5-1.5B on 2026-11-22"),
    ],
)
def test_a_range_does_not_break_and_names_and_dates_stay(written: str, read: str) -> None:
    assert unbroken_ranges(written) == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1.92x (1.78-2.05), 12x at 98% (85%-113%)", "1.92× (1.78–2.05), 12× at 98% (85%–113%)"),
        ("mi300x, Qwen2.5-1.5B, 8x7b on 2026-11-22, arXiv:2507.17702-3, 0x1f", None),
    ],
)
def test_factors_and_ranges_have_one_style_on_screen_and_names_stay(written: str, read: str | None) -> None:
    assert screen_style(written) == (read or written)


def test_readable_reports_draw_arrows_and_the_json_keeps_what_it_had() -> None:
    report = report_on()
    assert report.steps is not None
    effect = best_effects(report.steps, "tokens_per_s_per_gpu")[0]
    what, arrow = change_text(effect, "speedup"), "\N{RIGHTWARDS ARROW}"
    assert "->" in what
    prose = "\n".join(
        cell for s in sections(report) for b in s.blocks if isinstance(b, TableBlock) for row in b.rows for cell in row
    )
    assert what.replace("->", arrow) in prose
    assert "->" not in prose
    assert what.encode() in render(report, "json")
    assert what.replace("->", arrow) in render(report, "html").decode()
    shown = "".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(render(report, "pdf"))).pages)
    assert arrow in shown
    assert "U+2192" not in shown, "a shipped font has the arrow"
