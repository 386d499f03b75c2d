"""docs/sources.md from profiles/validation/seeds.json: `python -m tests.golden.sources_page`."""

from __future__ import annotations

from advisor.measured.seeds import read_claims, read_findings
from studies.seeds import DOCUMENT, page

if __name__ == "__main__":
    DOCUMENT.write_text(page(read_claims(), read_findings()), encoding="utf-8")
