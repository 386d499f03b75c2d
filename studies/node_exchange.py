"""How far the price of an expert exchange between nodes is from published ones: prints the tables
of the decision.

`python -m studies.node_exchange`, over measurements/expert_exchange. The two constants of the
network are fitted on the rows of one table of measured kernels, and what the advisor then charges
is held against all others. The law of prompts, with the same constants, is held against kernels
that send a token once to each node.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from advisor.physics import laws
from advisor.physics.hardware import load_hardware
from advisor.physics.kernel_costs import KernelCosts, Network, StreamCost
from advisor.physics.step import MoeShape, Placement, exchanges
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario
from advisor.predict.setup import Setup
from advisor.prediction import Array
from advisor.profiles import MEASUREMENTS
from studies.published import read_numbers

EXCHANGES = MEASUREMENTS / "expert_exchange"
UNSTATED = "h200-sxm"
"""Stands for an accelerator that a source does not name: a Hopper with links of 450 GB/s."""
MODEL = "deepseek-v3"
"""Whose hidden state and experts every row has."""
MANY_RANKS = 256


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
    eight_bits: bool
    time_s: float
    each_expert: bool
    fitted_on: bool
    """Whether constants of the law were fitted on it."""
    is_normal: bool
    """Whether it is DeepEP's normal mode, which prompts take: `prompt_form_rows`, no other
    table."""
    notify_s: float
    """Mean time of the kernels before it in which ranks tell each other how much will come; 0 where
    not apart."""

    @property
    def accelerator(self) -> str:
        """Id of the profile that stands for its accelerator."""
        return UNSTATED if self.hardware_id == "not-stated" else self.hardware_id

    @property
    def group(self) -> str:
        """Rows that are judged together."""
        if self.is_normal:
            return "prompts"
        if "EFA" in self.network:
            return "AWS EFA"
        if not self.each_expert:
            return "a token once to each node"
        if self.library == "pplx-kernels":
            return "pplx-kernels, superseded"
        return "fitted on" if self.fitted_on else "today's kernels, a message for each expert"


def published() -> tuple[Published, ...]:
    """The shipped rows, in their order."""
    return tuple(_read(row) for row in read_numbers(EXCHANGES).to_dict("records"))


def _read(row: dict[object, object]) -> Published:
    return Published(
        library=str(row["library"]),
        hardware_id=str(row["hardware_id"]),
        network=str(row["network"]),
        network_bytes_per_s=_number(row, "network_gbit_per_s") * 1e9 / 8.0,
        ranks=int(str(row["ranks"])),
        ranks_per_node=int(str(row["ranks_per_node"])),
        tokens=int(str(row["tokens_per_rank"])),
        eight_bits=row["dispatch_bits"] == 8,
        time_s=(_number(row, "dispatch_us") + _number(row, "combine_us")) / 2.0 * 1e-6,
        each_expert=row["travels"] == "each expert",
        fitted_on=row["role"] == "fit",
        is_normal=row["kernel"] == "normal",
        notify_s=float(
            np.nan_to_num(
                (_number(row, "dispatch_notify_us") + _number(row, "combine_notify_us")) / 2e6
            )
        ),
    )


def _number(row: dict[object, object], name: str) -> float:
    return float(str(row[name]))


def beyond(rows: Sequence[Published]) -> tuple[Published, ...]:
    """Rows whose ranks lie on several nodes."""
    return tuple(row for row in rows if row.ranks > row.ranks_per_node)


@dataclass(frozen=True)
class NetworkFit:
    """Constants of `laws.network_wait` and of the line inside a node that they were fitted
    beside."""

    node: StreamCost
    t0_s: float
    share_of_card: float
    """Of the card's nominal rate. [-]"""


def fitted(rows: Sequence[Published]) -> NetworkFit:
    """Constants of least relative squares.

    rows : of one library and accelerator, on one and on several nodes.
    """
    setup = _setup(rows[0].accelerator, rows[0].eight_bits)
    outside = beyond(rows)
    inside = [row for row in rows if row not in outside]
    sent = [laws.sent_bytes(laws.message_bytes(row.tokens, _HIDDEN), _ACTIVE) for row in inside]
    t0_s, slope = _line(
        np.ones(len(inside)), np.array(sent, float), np.array([row.time_s for row in inside]), 0.0
    )
    share = np.array([_symbol(row, setup, "s") for row in outside])
    travels = np.array([_symbol(row, setup, "X_net") for row in outside])
    latency, wait = _line(share, share * travels, np.array([row.time_s for row in outside]), t0_s)
    node = replace(setup.costs.all_to_all[8], t0_s=t0_s, bandwidth_bytes_per_s=1.0 / slope)
    return NetworkFit(node, latency, 1.0 / wait / rows[0].network_bytes_per_s)


def _line(one: Array, many: Array, measured: Array, offset: float) -> tuple[float, float]:
    """Factors of two columns whose sum and `offset` come closest to `measured`, in relative
    terms."""
    columns = np.stack([one, many * 1e-6], axis=1) / measured[:, None]
    first, second = np.linalg.lstsq(columns, (measured - offset) / measured, rcond=None)[0]
    return float(first), float(second) * 1e-6


_HIDDEN = 7168.0
_ACTIVE = 8.0


@cache
def _setup(hardware_id: str, eight_bits: bool) -> Setup:
    """DeepSeek-V3 on many nodes by SGLang's records, whatever ranks a row has."""
    fixed = {
        "engine": "sglang",
        "model_id": MODEL,
        "drafter_id": "mtp",
        "acceptance": "deepseek-r1-mtp-internal",
    }
    placed = {"n_gpus": MANY_RANKS, "expert_parallel": MANY_RANKS, "batch_size": MANY_RANKS}
    weights = {} if eight_bits else {"weight_dtype": "bf16"}
    return load_setup(
        Scenario.model_validate({"hardware_id": hardware_id, **fixed, **placed, **weights})
    )


def _exchange(
    row: Published, setup: Setup, costs: KernelCosts, for_prompt: bool = False
) -> dict[str, float]:
    """The arguments of `laws.expert_exchange`, or of `laws.prompt_exchange`, for a row, by
    symbol."""
    shape = MoeShape.of(setup.architecture)
    place = Placement(expert_parallel=row.ranks)
    (found,) = exchanges(
        setup.architecture,
        costs,
        place,
        np.asarray(float(row.tokens)),
        shape,
        for_prompt=for_prompt,
    )
    return {name: float(np.asarray(value)) for name, value in found.symbols.items()}


def _symbol(row: Published, setup: Setup, name: str) -> float:
    return _exchange(row, setup, setup.costs)[name]


def charged_s(row: Published, fit: NetworkFit | None = None, network: bool = True) -> float:
    """Time that the advisor charges a direction, by SGLang's records and with as many rows on each
    rank. [s]

    fit : replaces the shipped constants, inside the node and between nodes. `network` False: as if
        there were no nodes.
    """
    setup = _setup(row.accelerator, row.eight_bits)
    costs = setup.costs
    if fit is not None:
        known = costs.network
        assert isinstance(known, Network)
        rate = fit.share_of_card * row.network_bytes_per_s
        costs = replace(
            costs,
            all_to_all={8: fit.node},
            network=replace(known, t0_s=fit.t0_s, bandwidth_bytes_per_s=rate),
        )
    values = _exchange(row, setup, costs if network else replace(costs, network=None))
    return float(laws.expert_exchange(**values)) / (2.0 * values["L"])


FORMS = {
    "side by side": "the law",
    "side by side, no latency": "t_net = 0",
    "one wire for the other": "t_node + s (X_net / BW_net - X_net / BW_link)",
    "added": "t_node + s X_net / 50 GB/s, the hypothesis",
}
"""Forms that were tried, each on the advisor's own price inside a node."""


def forms_s(row: Published) -> dict[str, float]:
    """Time of a direction by each of FORMS. [s]"""
    setup = _setup(row.accelerator, row.eight_bits)
    values = _exchange(row, setup, setup.costs)
    alone = charged_s(row, network=False)
    link = load_hardware(row.accelerator).link_bytes_per_s
    assert link is not None
    share = values["s"]
    travels = values["X_net"]
    rate = values["BW_net"]
    times = (
        charged_s(row),
        float(laws.expert_exchange(**{**values, "t_net": 0.0})) / (2.0 * values["L"]),
        alone + share * travels * (1.0 / rate - 1.0 / link.value),
        alone + share * travels / row.network_bytes_per_s,
    )
    return dict(zip(FORMS, times, strict=True))


def judged_rows(rows: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the long table: published times that took no part in the fit, and the prices."""
    for row in beyond(rows):
        if not (row.fitted_on or row.is_normal):
            yield (
                row.library,
                row.hardware_id,
                row.network,
                str(row.tokens),
                str(row.ranks),
                f"{row.time_s * 1e6:.0f}",
                _beside(charged_s(row, network=False), row.time_s),
                _beside(charged_s(row), row.time_s),
            )


def _beside(predicted_s: float, measured_s: float) -> str:
    return f"{predicted_s * 1e6:.0f} ({predicted_s / measured_s - 1.0:+.0%})"


def form_rows(rows: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of forms: mean error, and mean absolute error, of each by group."""
    for group in dict.fromkeys(row.group for row in rows if not row.is_normal):
        found = [row for row in beyond(rows) if row.group == group]
        errors = {
            name: np.array([forms_s(row)[name] / row.time_s - 1.0 for row in found])
            for name in FORMS
        }
        cells = (f"{one.mean():+.1%} ({np.abs(one).mean():.1%})" for one in errors.values())
        yield (group, str(len(found)), *cells)


PROMPT_FORMS = {
    "a message for each expert": "the law of decode, which prompts had",
    "none between nodes": "as if there were no nodes",
    "links carry what stays": "t0 + max((1 - s) X_k / BW, s t_net + h X / BW_net)",
    "once to each node": "the law: links carry what other nodes sent too",
}
"""Forms for kernels that send a token once to each node, with the constants of decode."""


def prompt_forms_s(row: Published) -> dict[str, float]:
    """Time of a direction by each of PROMPT_FORMS. [s]"""
    setup = _setup(row.accelerator, row.eight_bits)
    values = _exchange(row, setup, setup.costs, for_prompt=True)
    stays = {**values, "k": values["k"] * (1.0 - values["s"])}
    others = (float(laws.prompt_exchange(**each)) / (2.0 * values["L"]) for each in (stays, values))
    return dict(
        zip(PROMPT_FORMS, (charged_s(row), charged_s(row, network=False), *others), strict=True)
    )


_SIZES = ((128, "128"), (512, "256-512"), (8192, "1,024-8,192"), (131072, "16,384-131,072"))
"""Most tokens of a rank in a line of the table of prompts, and how the line says it. A chunk has
8,192 at most."""


def _size(row: Published) -> str:
    return next(name for most, name in _SIZES if row.tokens <= most)


def prompt_form_rows(rows: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of prompts: mean error, and mean absolute error, of each form.

    By library, accelerator, ranks and tokens.

    The last cell is the law's error where the kernels before it in which ranks tell each other what
    will come count.
    """
    once = [row for row in rows if not row.each_expert]
    for key in dict.fromkeys((row.library, row.accelerator, row.ranks, _size(row)) for row in once):
        found = [
            row for row in once if (row.library, row.accelerator, row.ranks, _size(row)) == key
        ]
        times = [prompt_forms_s(row) for row in found]
        errors = [
            np.array(
                [each[name] / row.time_s - 1.0 for each, row in zip(times, found, strict=True)]
            )
            for name in PROMPT_FORMS
        ]
        law = [each["once to each node"] for each in times]
        noted = np.array(
            [
                law_s / (row.time_s + row.notify_s) - 1.0
                for law_s, row in zip(law, found, strict=True)
            ]
        )
        cells = (f"{one.mean():+.0%} ({np.abs(one).mean():.0%})" for one in (*errors, noted))
        library, accelerator, ranks, tokens = key
        yield (library, accelerator, str(ranks), tokens, str(len(found)), *cells)


def left_out_rows(rows: Sequence[Published]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of the fit: errors on each number of ranks, fitted with it and without."""
    whole = fitted(rows)
    for ranks in dict.fromkeys(row.ranks for row in beyond(rows)):
        own = [row for row in rows if row.ranks == ranks]
        without = fitted([row for row in rows if row.ranks != ranks])
        errors = (
            np.array([charged_s(row, fit) / row.time_s - 1.0 for row in own])
            for fit in (whole, without)
        )
        cells = (
            f"{one.mean():+.1%} ({np.abs(one).mean():.1%}, at most {np.abs(one).max():.1%})"
            for one in errors
        )
        yield (str(ranks), str(len(own)), *cells, _us(without.t0_s), f"{without.share_of_card:.3f}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def main() -> None:
    """Print the tables in Markdown."""
    found = published()
    table = [row for row in found if row.fitted_on]
    fit = fitted(table)
    out = sys.stdout
    out.write(
        f"t_net {_us(fit.t0_s)}, {fit.share_of_card:.3f} of the card; t0 inside a node "
        f"{_us(fit.node.t0_s)}\n\n"
    )
    heads = (
        "ranks",
        "rows",
        "error, fitted with them",
        "fitted without",
        "then t_net",
        "of the card",
    )
    _print(heads, left_out_rows(table))
    names = (
        "library",
        "accelerator",
        "network",
        "tokens",
        "ranks",
        "published us",
        "before",
        "charged now",
    )
    _print(names, judged_rows(found))
    _print(("rows", "n", *FORMS), form_rows(found))
    _print(
        ("library", "accelerator", "ranks", "tokens", "n", *PROMPT_FORMS, "with notices"),
        prompt_form_rows(found),
    )


def _print(heads: Sequence[str], rows: Iterator[tuple[str, ...]]) -> None:
    out = sys.stdout
    out.write(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
    out.writelines(f"| {' | '.join(row)} |\n" for row in rows)
    out.write("\n")


if __name__ == "__main__":
    main()
