"""How far the price of an expert exchange between nodes is from published ones: prints the tables of the decision.

`python -m advisor.studies.node_exchange`, over measurements/expert_exchange. Two questions: the law alone, put on each
library's own time inside one node; and what the advisor charges, whose price inside a node is another kernel's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor import laws
from advisor.calibration import NETWORK_FRACTION
from advisor.hardware import load_hardware
from advisor.profiles import MEASUREMENTS
from advisor.scenario import Scenario
from advisor.setup import load_setup
from advisor.step_cost import MoeShape, Placement, exchanges
from advisor.text import counted

EXCHANGES = MEASUREMENTS / "expert_exchange" / "data.csv"
UNSTATED = "h200-sxm"
"""Stands for an accelerator that a source does not name: a Hopper with links of 450 GB/s."""
MODEL = "deepseek-v3"
"""Whose hidden state and experts every row has."""
MANY_RANKS = 256
FORMS = {
    "moved, 0.92 of the card": (NETWORK_FRACTION, True),
    "moved, all of the card": (1.0, True),
    "added, 0.92 of the card": (NETWORK_FRACTION, False),
    "added, all of the card": (1.0, False),
}
"""Share of the card's rate, and whether what leaves the node is taken off the links inside. The first is the law."""


@dataclass(frozen=True)
class Published:
    """Exchange as its source has it, its time the mean of dispatch and combine."""

    library: str
    hardware_id: str
    network: str
    network_bytes_per_s: float
    ranks: int
    ranks_per_node: int
    tokens: int
    hidden_size: int
    n_active: int
    eight_bits: bool
    time_s: float
    each_expert: bool
    before: bool
    """Whether it was seen before the form was settled."""

    @property
    def accelerator(self) -> str:
        """Id of the profile that stands for its accelerator."""
        return UNSTATED if self.hardware_id == "not-stated" else self.hardware_id

    @property
    def group(self) -> str:
        """Rows that are judged together."""
        if "EFA" in self.network:
            return "AWS EFA"
        if not self.each_expert:
            return "a token once to each node"
        return f"{self.library}, {self.hardware_id}, {counted(self.tokens, 'token')}"

    def wait_s(self, share_of_card: float = NETWORK_FRACTION, moved: bool = True) -> float:
        """Time that nodes add to that inside one, by a form of the law. [s]"""
        link = load_hardware(self.accelerator).link_bytes_per_s
        assert link is not None
        message = laws.message_bytes(self.tokens, self.hidden_size)
        out = laws.fp8_messages(self.tokens, self.hidden_size) if self.eight_bits else message
        share = laws.other_nodes(self.ranks_per_node, self.ranks)
        rates = {"BW_net": share_of_card * self.network_bytes_per_s, "BW_link": link.value if moved else np.inf}
        return float(laws.network_wait(laws.wire_bytes(out, message, self.n_active), share, **rates))


def published() -> tuple[Published, ...]:
    """The shipped rows, in their order."""
    return tuple(_read(row) for row in pd.read_csv(EXCHANGES).to_dict("records"))


def _read(row: dict[str, object]) -> Published:
    number = {name: float(str(row[name])) for name in ("network_gbit_per_s", "dispatch_us", "combine_us")}
    whole = {
        "ranks": "ranks",
        "ranks_per_node": "ranks_per_node",
        "tokens": "tokens_per_rank",
        "hidden_size": "hidden_size",
        "n_active": "n_active",
    }
    return Published(
        library=str(row["library"]),
        hardware_id=str(row["hardware_id"]),
        network=str(row["network"]),
        network_bytes_per_s=number["network_gbit_per_s"] * 1e9 / 8.0,
        **{name: int(str(row[column])) for name, column in whole.items()},
        eight_bits=row["dispatch_bits"] == 8,
        time_s=(number["dispatch_us"] + number["combine_us"]) / 2.0 * 1e-6,
        each_expert=row["travels"] == "each expert",
        before=row["seen"] == "before",
    )


def inside(row: Published, rows: Sequence[Published]) -> float | None:
    """Time of the same library on one node of the same machines. None where none is published. [s]"""
    same = [
        one.time_s
        for one in rows
        if one.ranks <= one.ranks_per_node
        and (one.library, one.hardware_id, one.network, one.tokens)
        == (row.library, row.hardware_id, row.network, row.tokens)
    ]
    return same[0] if same else None


def priced(row: Published) -> tuple[float, float]:
    """Times that the advisor charges a direction, with and without the network. [s]

    By SGLang's records, the same rows on each rank.
    """
    fixed = {"engine": "sglang", "model_id": MODEL, "drafter_id": "mtp", "acceptance": "deepseek-r1-mtp-internal"}
    # Libraries tried rank counts that do not divide the model's experts: constants of many nodes, placed as published.
    placed = {"n_gpus": MANY_RANKS, "expert_parallel": MANY_RANKS, "batch_size": MANY_RANKS}
    weights = {} if row.eight_bits else {"weight_dtype": "bf16"}
    setup = load_setup(Scenario.model_validate({"hardware_id": row.accelerator, **fixed, **placed, **weights}))
    shape = MoeShape.of(setup.architecture)
    place = Placement(expert_parallel=row.ranks)
    (found,) = exchanges(setup.architecture, setup.costs, place, np.asarray(float(row.tokens)), shape)
    directions = 2.0 * float(np.asarray(found.symbols["L"]))
    alone = float(found.law(**{**found.symbols, "s": 0.0}))
    return float(found.time_s) / directions, alone / directions


def rows_of(found: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the long table: published times, the law on the library's own node, and the price."""
    for row in found:
        if row.ranks <= row.ranks_per_node:
            continue
        own = inside(row, found)
        now, without = priced(row)
        yield (
            row.library,
            row.hardware_id,
            row.network,
            str(row.tokens),
            str(row.ranks),
            f"{row.time_s * 1e6:.0f}",
            "-" if own is None else _beside(own + row.wait_s(), row.time_s),
            _beside(without, row.time_s),
            _beside(now, row.time_s),
        )


def _beside(predicted_s: float, measured_s: float) -> str:
    return f"{predicted_s * 1e6:.0f} ({predicted_s / measured_s - 1.0:+.0%})"


def form_rows(found: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of forms: mean error and mean absolute error of each on the libraries' own nodes."""
    groups = dict.fromkeys(row.group for row in found)
    for group in groups:
        rows = [row for row in found if row.group == group and row.ranks > row.ranks_per_node]
        based = [(row, own) for row in rows if (own := inside(row, found)) is not None]
        if based:
            errors = {
                name: np.array([(own + row.wait_s(*form)) / row.time_s - 1.0 for row, own in based])
                for name, form in FORMS.items()
            }
            when = "before" if based[0][0].before else "after"
            cells = (f"{one.mean():+.1%} ({np.abs(one).mean():.1%})" for one in errors.values())
            yield (group, str(len(based)), when, *cells)


def main() -> None:
    """Print both tables in Markdown."""
    found, out = published(), sys.stdout
    names = (
        "library",
        "accelerator",
        "network",
        "ranks",
        "published us",
        "law on its own node",
        "before",
        "charged now",
    )
    out.write(f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n")
    out.writelines(f"| {' | '.join(row)} |\n" for row in rows_of(found))
    heads = ("rows", "n", "seen", *FORMS)
    out.write(f"\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
    out.writelines(f"| {' | '.join(row)} |\n" for row in form_rows(found))


if __name__ == "__main__":
    main()
