"""`python -m advisor`: the same API from a terminal."""

from __future__ import annotations

from advisor.cli import main

main()
