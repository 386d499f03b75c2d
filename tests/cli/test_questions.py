"""Questions of the kind that is asked in public: one command answers each."""

from __future__ import annotations

from tests.golden import questions_page
from tests.golden.questions_page import GROUPS, PAGE


def test_the_page_of_questions_holds_what_the_commands_print() -> None:
    questions = [question for group in GROUPS.values() for question in group]
    assert len({question.text for question in questions}) == len(questions) >= 20
    text = questions_page.page()
    assert text == PAGE.read_text(encoding="utf-8"), (
        "python -m tests.golden.questions_page writes it"
    )
    for question in questions:
        answer = text.partition(f"advisor {question.command}\n\n")[2].partition("\n**")[0]
        assert answer.startswith("    "), question
