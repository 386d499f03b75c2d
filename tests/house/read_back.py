"""Places where a text is tested, cut or sliced by a word, each reviewed.

`theirs` reads what a user, an engine or a package wrote; `ours` reads a sentence of this program
back, and has to go.
"""

from __future__ import annotations

REVIEWED: dict[str, str] = {}
