"""The scripts of a component are joined into one, so no name may be declared in two of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

UI = Path(__file__).resolve().parents[2] / "advisor/ui"
DECLARED = re.compile(
    r"^(?:export )?(?:default )?(?:async )?(?:function\*?|const|let|var|class) (\w+)", re.M
)


def test_no_name_is_declared_twice_at_the_top_level():
    declared = Counter(
        name
        for script in UI.glob("**/browser/*.js")
        for name in DECLARED.findall(script.read_text(encoding="utf-8"))
    )
    assert len(declared) > 50
    assert [name for name, times in declared.items() if times > 1] == []
