"""What every document ends with: assumptions, limits, constants, sources, versions."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence

from advisor import __version__
from advisor.physics.memory import USABLE_SHARE
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.predict.tiers import CALIBRATED_TOKENS
from advisor.prediction import Constant
from advisor.show.phrases.report import BOOK
from advisor.show.report.blocks import Block, Code, Paragraph, TableBlock, table_block
from advisor.show.table import Column, Table
from advisor.show.words.explain import NAMED
from advisor.text import printable

APP_ADDRESS = "http://127.0.0.1:8501/"
"""Where `advisor app` serves unless told otherwise."""
LIMITS = (
    (
        "The headline speedup is for decoding, per user. Prefill is charged only when prompt and "
        "output tokens are given."
    ),
    "All sequences of a batch have the same context length and draft the same K in every round.",
    (
        "A round drafts, verifies K + 1 tokens per sequence, then accepts or rejects; the three "
        "do not overlap."
    ),
    f"Kernels are calibrated on steps of up to {CALIBRATED_TOKENS:,} tokens; beyond, results are "
    "marked as outside the data and their band is widened.",
    "The recommended K has the least expected loss against the best K in each simulated case, K = "
    "0 included; within the noise the smaller K.",
    f"Memory counts weights, drafter and KV cache against {USABLE_SHARE:.0%} of each GPU.",
    (
        "The slowest expert-parallel rank follows an assumed formula, or counts on given loads; "
        "neither is measured."
    ),
    "Draft trees and a second model on the same GPU are outside the model.",
    "Tiers, best first: measured, interpolated, fitted, roofline. An answer has the lowest tier "
    "among the parts that take a tenth of the time or more.",
)
MAX_QUERY_CHARACTERS = 8_000
"""Longest share query printed: servers and mail programs cut longer addresses. The JSON report has
the scenario."""
_PACKAGES = ("numpy", "pydantic", "matplotlib", "typst", "aiconfigurator-core")


def assumption_texts(setup: Setup) -> tuple[str, ...]:
    """Sentences on what an answer takes for granted: accepted length, routing, cache, notes."""
    source = setup.acceptance.source
    lines = [
        source[:1].upper() + source[1:]
        if source.startswith("accepted length")
        else f"Accepted length: {source}"
    ]
    lines += [f"Routing: {setup.routing_because}", setup.cache.sentence]
    lines += [f"{setup.drafter.name}: {note}" for note in setup.drafter.notes]
    lines += [f"{setup.hardware.name}: {note}" for note in setup.hardware.notes]
    return tuple(printable(line).rstrip(".") + "." for line in lines)


def constants_of(setup: Setup) -> dict[str, Constant]:
    """The accelerator's memory, link and peaks of the formats in use."""
    hardware = setup.hardware
    used = {
        setup.architecture.dtypes.attention,
        setup.architecture.dtypes.dense,
        setup.architecture.dtypes.routed,
    }
    by_name: dict[str, Constant | None] = {
        "Memory": hardware.memory_bytes,
        "Memory bandwidth": hardware.bandwidth_bytes_per_s,
    }
    if setup.placement.gpus > 1:
        by_name["Link"] = hardware.link_bytes_per_s
    if setup.costs.network is not None:
        by_name["Network between nodes"] = hardware.network_bytes_per_s
    by_name |= {
        f"Peak, {dtype}": peak
        for dtype, peak in hardware.peak_flops_per_s.items()
        if dtype in {*used, "bf16"}
    }
    return {
        name: constant.model_copy(update={"source": printable(constant.source)})
        for name, constant in by_name.items()
        if constant is not None
    }


def versions() -> dict[str, str]:
    """Versions of the advisor, of Python and of the packages that numbers and files depend on.

    Absent packages are left out.
    """
    by_name = {"advisor": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_name


def constants_table(sources: Sequence[str], constants: Mapping[str, Constant]) -> TableBlock:
    """Constants with the number of each one's source among `references`."""
    known = references(sources, constants)
    number = Column[tuple[str, Constant]](
        "Source no.",
        lambda row: 1 + next(i for i, source in enumerate(known) if source.endswith(row[1].source)),
    )
    columns = (*(column for column in NAMED if column.label != "Source"), number)
    return table_block(Table(columns, list(constants.items())))


def references(sources: Sequence[str], constants: Mapping[str, Constant]) -> tuple[str, ...]:
    """All sources: those of the answer, then those of the constants that are not among them."""
    known = list(sources)
    for constant in constants.values():
        if not any(text.endswith(constant.source) for text in known):
            known.append(constant.source)
    return tuple(known)


def identity(
    scenario: Scenario, date: dt.date, packages: Mapping[str, str], address: str = APP_ADDRESS
) -> tuple[Block, ...]:
    """Scenario, date and versions of packages, and the link that opens the answer at an address."""
    names = ", ".join(f"{name} {version}" for name, version in packages.items())
    facts = {"hash": scenario.hash, "date": date.isoformat(), "versions": names}
    query = share_query(scenario)
    link_block = link(address, query) if query else Paragraph(BOOK.say("opens_not", {}))
    return Paragraph(BOOK.say("identity", facts)), link_block


def share_query(scenario: Scenario) -> str:
    """URL query that restores a scenario. Empty when its configuration is too large for an
    address."""
    query = scenario.to_query()
    return query if len(query) <= MAX_QUERY_CHARACTERS else ""


def link(address: str, query: str) -> Code:
    """The address of an answer in an app."""
    host = address.split("/")[2]
    is_local = host.startswith(("127.0.0.1", "localhost"))
    caption = BOOK.say("opens", {"host": host, "is_local": is_local})
    return Code(f"{address}?{query}", caption)
