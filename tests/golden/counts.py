"""`python -m tests.golden.counts` writes how many there are of each thing where a sentence says so; a test compares.

A sentence is known by its words: `{}` in it stands for the number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path

from advisor.catalog.models import model_ids
from advisor.catalog.routing_presets import load_routing_preset, routing_preset_ids
from advisor.measured.readers import FORMATS
from advisor.measured.store_build import StoreStatus, status
from advisor.physics.draft import drafter_ids
from advisor.physics.hardware import hardware_ids
from advisor.show.report.formats import FORMATS as REPORT_FORMATS

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
KERNELS = "aiconfigurator-core"


@dataclass(frozen=True)
class Count:
    """A number in `file`, where `sentence` stands with `{}` for it. `stored`: only a built store knows it."""

    file: str
    sentence: str
    now: Callable[[], str]
    stored: bool = False

    def place(self, text: str) -> re.Match[str]:
        """Where the number stands in `text`, as group 1; lines may be broken anywhere in the sentence.

        Raises LookupError where the sentence is not there exactly once.
        """
        before, after = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in self.sentence.split("{}"))
        found = list(re.finditer(rf"{before}(\w[\w,.]*){after}", text))
        if len(found) != 1:
            raise LookupError(f"{self.file} has {self.sentence!r} {len(found)} times, once is wanted")
        return found[0]

    def rewritten(self, text: str) -> str:
        """`text` with the number as it is now."""
        start, end = self.place(text).span(1)
        return text[:start] + self.now() + text[end:]


@lru_cache(maxsize=1)
def store_status() -> StoreStatus:
    """The state of the default store."""
    return status()


def store_is_usable() -> bool:
    """Whether the default store holds what the installed kernel tables and measurements/ hold now."""
    now = store_status()
    return now.exists and not now.problem and not now.stale and bool(now.kernel_package_version)


def _rows(table: str) -> str:
    counted = store_status().rows_by_table
    assert counted is not None
    return f"{counted[table]:,}"


def _measured_models() -> str:
    return str(sum(load_routing_preset(name).kind == "measured_model" for name in routing_preset_ids()))


def _copies() -> int:
    copies = store_status().copies
    assert copies is not None
    return len(copies)


def _rows_in_copies() -> int:
    copies = store_status().copies
    assert copies is not None
    return int(copies["rows_read"].sum())


_TABLES = {
    "moe": "`moe_perf`",
    "gemm": "`gemm_perf`",
    "attention": "`generation_attention_perf`",
    "mla": "`msa_generation_module_perf`",
    "all_reduce": "`oneccl_perf`",
    "all_to_all": "`trtllm_alltoall_perf`",
    "plain_decode": "`silicon_sample.csv`",
}
"""The cell before the number, by table of the store."""

COUNTS = (
    Count("README.md", "**A benchmark**: {} formats", lambda: str(len(FORMATS))),
    Count("README.md", "| profiles/ | {} accelerators,", lambda: str(len(hardware_ids()))),
    Count("README.md", "accelerators, {} models,", lambda: str(len(model_ids()))),
    Count("README.md", "models, {} drafters,", lambda: str(len(drafter_ids()))),
    Count("README.md", "drafters, {} routing presets,", lambda: str(len(routing_preset_ids()))),
    Count("docs/model.md", "measured preset of the model ({} models)", _measured_models),
    Count("docs/report-schema.md", "the same report in {} formats", lambda: WORDS[len(REPORT_FORMATS)]),
    Count("docs/measured-tables.md", "`aiconfigurator-core` {} (project", lambda: version(KERNELS), stored=True),
    Count("docs/measured-tables.md", "computed on package version {}.", lambda: version(KERNELS), stored=True),
    Count("docs/measured-tables.md", "Version {} has", lambda: version(KERNELS), stored=True),
    Count("docs/measured-tables.md", "has {} such files", lambda: WORDS[_copies()], stored=True),
    Count("docs/measured-tables.md", "such files ({} rows)", lambda: str(_rows_in_copies()), stored=True),
    *(
        Count("docs/measured-tables.md", f"{cell} | {{}} |", partial(_rows, table), stored=True)
        for table, cell in _TABLES.items()
    ),
)


def main() -> None:
    """Rewrite every count that can be known here."""
    for count in COUNTS:
        if count.stored and not store_is_usable():
            print(f"left as it is, the store is missing or old (make store): {count.file}: {count.sentence}")
            continue
        path = ROOT / count.file
        path.write_text(count.rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
