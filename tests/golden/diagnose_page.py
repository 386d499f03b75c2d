"""The table of rules in docs/diagnose.md, from profiles/diagnosis:
`python -m tests.golden.diagnose_page`."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.answers.diagnosis.physics import Condition, Rule, rule_sets
from advisor.answers.diagnosis.quantities import quantity
from advisor.show.phrases.rules import BOOK, PHRASES, TESTS, quantity_words

FILE = Path(__file__).parents[2] / "docs" / "diagnose.md"
_BLOCK = re.compile(r"(<!-- rules -->\n).*?(?=<!-- end -->)", re.DOTALL)
_HEAD = "| rule | what is wrong | test | needs | do | published case |\n|---|---|---|---|---|---|"


def rules_table() -> str:
    """Every rule under the question of its kind."""
    pieces = []
    for kind in rule_sets():
        rows = [_row(rule) for rule in kind.rules]
        pieces.append("\n".join([f"### {kind.question}", "", _HEAD, *rows]))
    return "\n\n".join(pieces) + "\n"


def _row(rule: Rule) -> str:
    engines = f" ({', '.join(rule.engines)})" if rule.engines else ""
    tests = "; ".join(_test(one) for one in rule.tests)
    needs = ", ".join(dict.fromkeys(need for one in rule.tests for need in _needs(one)))
    fixes = "<br>".join(
        f"{when.replace('off', 'where K = 0 is recommended').strip() or 'any'}: {text}"
        for when, text in (
            (phrase.when, phrase.say) for phrase in PHRASES if phrase.slot == f"{rule.id}_do"
        )
    )
    case = f"{rule.published.says} ({rule.published.source})"
    assumed = (
        f"; not stated there: {', '.join(rule.published.assumed)}" if rule.published.assumed else ""
    )
    cells = (
        f"`{rule.id}`{engines}",
        f"{BOOK.say(rule.id, {})} {BOOK.say(f'{rule.id}_why', {})}",
        tests,
        needs,
        fixes,
        case + assumed,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _test(one: Condition) -> str:
    words = quantity_words(one.quantity)
    limit = one.limit
    if limit.of is not None:
        factor = "" if limit.times == 1.0 else f"{limit.times:g} x "
        return f"{words} {TESTS[one.test]} {factor}{quantity_words(limit.of)}"
    if isinstance(limit.value, bool):
        return f"{words}: {'yes' if limit.value else 'no'} ({limit.source})"
    shown = limit.value if isinstance(limit.value, str) else f"{limit.value:g}"
    return (
        f"{words} {TESTS[one.test]} "
        f"{shown}{'' if limit.unit == '1' else f' {limit.unit}'} ({limit.source})"
    )


def _needs(one: Condition) -> tuple[str, ...]:
    found = quantity(one.quantity).needs
    return (*found, *quantity(one.limit.of).needs) if one.limit.of is not None else found


def with_rules(text: str) -> str:
    """The page with its table of rules written anew."""
    return _BLOCK.sub(lambda found: found[1] + rules_table(), text)


if __name__ == "__main__":
    FILE.write_text(with_rules(FILE.read_text(encoding="utf-8")), encoding="utf-8")
