"""How far the assumed slowest rank is from counted ones, and the routing law from measured unions
of experts.

Routers of the first are SYNTHETIC: loads with the measured spread of each preset, hot experts
placed by chance, sequences correlated as measured. Whether neighbouring experts are hot together is
in no data that is shipped.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.catalog.routing_presets import load_routing_preset, routing_preset_ids
from advisor.physics.expert_ranks import (
    balanced,
    contiguous,
    drawn_choices,
    rank_counts,
    skewed_loads,
)
from advisor.physics.touched_experts import RoutingPreset, local_experts, touched_experts
from advisor.prediction import Array
from advisor.profiles import MEASUREMENTS
from studies.published import read_numbers

CELLS = ((16, 1, 12), (16, 4, 6), (256, 4, 1))
"""Sequences, tokens of each, and steps drawn."""
LAYERS = 16
LEAST_HELD = 2
"""Experts of a rank below which no more ranks are tried. [-]"""


def measured_presets() -> list[RoutingPreset]:
    """Presets of models whose spread of loads was measured and whose experts fill eight ranks
    evenly."""
    every = (load_routing_preset(name) for name in routing_preset_ids())
    return [one for one in every if one.model_id and _shared(one, 8)]


def _shared(preset: RoutingPreset, ranks: int) -> bool:
    """Whether so many ranks share the experts evenly, LEAST_HELD or more each."""
    experts = preset.n_experts or 0
    return experts >= LEAST_HELD * ranks and experts % ranks == 0


def preset_rows(presets: Sequence[RoutingPreset]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of routing presets: model, ranks, errors and rows for each of CELLS.

    The errors of the assumed experts read come first, then the rows of the fullest rank over the
    mean rank's, counted and (assumed); last those of a balanced layout in the largest step.
    """
    for preset in presets:
        n = int(preset.n_experts or 0)
        k = int(preset.n_active or 0)
        cv, phi, rho = (item.value for item in preset.parameters)
        loads = skewed_loads(n, k, cv, LAYERS, np.random.default_rng(0))
        for ranks in (size for size in (8, 32) if _shared(preset, size)):
            found = [_cell(loads, k, ranks, cell, (phi, rho)) for cell in CELLS]
            yield (
                f"{preset.model_id}, {k} of {n}, CV {cv:.2f}",
                str(ranks),
                *(f"{one.assumed / one.read - 1.0:+.1%}" for one in found),
                *(f"{one.rows:.2f} ({one.assumed_rows:.2f})" for one in found),
                f"{found[-1].balanced_rows:.2f}",
            )


@dataclass(frozen=True)
class Cell:
    """Means over steps and layers of what the slowest and the fullest rank do, counted and assumed.
    [-]

    Experts that the slowest rank reads, and rows of the fullest over the mean rank's; experts lie
    in order but for `balanced_rows`.
    """

    read: float
    assumed: float
    rows: float
    assumed_rows: float
    balanced_rows: float


def _cell(
    loads: Array, k: int, ranks: int, cell: tuple[int, int, int], correlation: tuple[float, float]
) -> Cell:
    n = loads.shape[1]
    (batch, tokens, draws) = cell
    read = 0.0
    touched = 0.0
    rows = np.zeros(2)
    for draw in range(draws):
        ids = drawn_choices(loads, k, batch, tokens, np.random.default_rng((1, draw)), *correlation)
        for at, layout in enumerate((contiguous(n, ranks), balanced(loads, ranks))):
            found = rank_counts(ids, layout, np.random.default_rng((2, draw)))
            rows[at] += (found.pairs[-1].max(axis=1) / found.pairs[-1].mean(axis=1)).mean() / draws
            if at == 0:
                read += found.touched[-1].max(axis=1).mean() / draws
                touched += found.touched_overall[-1].mean() / draws
    assumed = float(local_experts(touched, n, ranks))
    return Cell(read, assumed, float(rows[0]), assumed / (touched / ranks), float(rows[1]))


def layer_spreads(unions: Unions) -> Array:
    """Load variation of each layer, from the experts of one token each of most sequences that were
    counted. [-]

    The CV whose touched experts are those counted, by bisection: with one token each, correlation
    plays no part.
    """
    counted = unions.by_layer[1, :, -1]
    widest = float(unions.tokens[-1])
    low = np.zeros_like(counted)
    high = np.full_like(counted, np.sqrt(unions.n_experts / unions.n_active - 1.0))
    for _ in range(40):
        middle = 0.5 * (low + high)
        more = touched_experts(widest, 1.0, unions.n_experts, unions.n_active, middle) > counted
        low = np.where(more, middle, low)
        high = np.where(more, high, middle)
    return np.asarray(0.5 * (low + high))


def spread_rows() -> Iterator[tuple[str, ...]]:
    """Rows of the table of measured spreads: prompt set, CV by layer, fullest rank's rows over the
    mean's.

    CV as median (10 % - 90 %); rows of 8, then 32 ranks with experts in order, balanced, and
    balanced with 32 copies.
    """
    every = measured_unions()
    for prompts in ("all", "coding", "roleplay"):
        spreads = layer_spreads(every[prompts])
        rng = np.random.default_rng(0)
        loads = np.concatenate([skewed_loads(256, 8, float(cv), 1, rng) for cv in spreads])
        cells = []
        for ranks in (8, 32):
            for layout in (
                contiguous(256, ranks),
                balanced(loads, ranks),
                balanced(loads, ranks, 32),
            ):
                share = layout.rank_loads(loads) / (8.0 / ranks)
                cells.append(f"{share.max(axis=1).mean():.2f}")
        low, middle, high = np.quantile(spreads, [0.1, 0.5, 0.9])
        yield (prompts, f"{middle:.2f} ({low:.2f}-{high:.2f})", *cells)


def worse_with_copies(cases: int = 200) -> tuple[int, float]:
    """Number of cases where a copy for each rank makes the fullest rank fuller, and by how much at
    most. [-]

    The layouts are greedy (`balanced`), the cases random; the second is a share of the rank's load.
    """
    grown = []
    for case in range(cases):
        rng = np.random.default_rng(case)
        loads = skewed_loads(256, 8, float(rng.uniform(0.1, 1.5)), 1, rng)
        ranks = int(rng.choice([8, 16, 32, 64]))
        without = balanced(loads, ranks, 0).rank_loads(loads).max()
        with_copies = balanced(loads, ranks, ranks).rank_loads(loads).max()
        grown.append(with_copies / without - 1.0)
    worse = [one for one in grown if one > 1e-9]
    return len(worse), float(max(worse, default=0.0))


def main() -> None:
    """Print the tables in Markdown."""
    out = sys.stdout
    cells = [f"{batch} x {tokens}" for batch, tokens, _ in CELLS]
    names = [
        "model",
        "ranks",
        *(f"reads {cell}" for cell in cells),
        *(f"rows {cell}" for cell in cells),
        "balanced",
    ]
    out.write(f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n")
    for row in preset_rows(measured_presets()):
        out.write(f"| {' | '.join(row)} |\n")
    out.write(
        "\n| prompts | CV by layer | 8: in order | balanced | 32 copies | 32: in order | balanced "
        "| copies |\n"
    )
    out.write("|---|---|---|---|---|---|---|---|\n")
    for row in spread_rows():
        out.write(f"| {' | '.join(row)} |\n")
    count, most = worse_with_copies()
    out.write(
        f"\nfuller with a copy a rank than with none: {count} of 200 cases, by up to {most:.2%}\n"
    )


UNIONS = MEASUREMENTS / "union_experts"
MIXED = "all"
"""The prompt set that holds every category: mixed traffic. All others are one domain each."""
SHORT = 8
"""Lengths up to which the form is fitted where longer ones judge it. [tokens]"""
_START = (0.9, 0.08, 0.3)
_BOUNDS = ((0.01, 1e-4, 1e-4), (5.0, 0.9, 0.9))


@dataclass(frozen=True)
class Unions:
    """Measured distinct experts of one prompt set: [depth and width, lengths]."""

    prompt_set: str
    n_experts: float
    n_active: float
    tokens: Array
    """Consecutive tokens, or sequences of one token each, above one. [-]"""
    mean: Array
    """Over layers [2, lengths]."""
    by_layer: Array
    """[2, layers, lengths]."""

    def predicted(self, parameters: Sequence[float]) -> Array:
        """The law's unions for load_cv, affinity and stickiness, [2, lengths]."""
        cv, phi, rho = parameters
        shape = self.n_experts, self.n_active, cv, phi, rho
        return np.stack(
            [touched_experts(1.0, self.tokens, *shape), touched_experts(self.tokens, 1.0, *shape)]
        )

    def errors(self, parameters: Sequence[float]) -> Array:
        """Predicted over measured mean, less one, [2, lengths]."""
        return self.predicted(parameters) / self.mean - 1.0

    def layer_errors(self, parameters: Sequence[float]) -> Array:
        """Distance of each layer from the prediction of all, as a share, [2, layers, lengths]."""
        return np.abs(self.predicted(parameters)[:, None, :] / self.by_layer - 1.0)


def measured_unions() -> dict[str, Unions]:
    """The shipped unions by prompt set."""
    frame = read_numbers(UNIONS)
    frame = frame[frame["tokens"] > 1]
    columns = ["experts_one_sequence", "experts_n_sequences"]
    found = {}
    for name, rows in frame.groupby("prompt_set", sort=True):
        mean = rows[rows["layer"] == "mean"]
        layers = rows[rows["layer"] != "mean"]
        tokens = mean["tokens"].to_numpy(float)
        by_layer = (
            layers[columns].to_numpy().reshape(-1, len(tokens), len(columns)).transpose(2, 0, 1)
        )
        shape = float(rows["n_experts"].iloc[0]), float(rows["n_active"].iloc[0])
        found[str(name)] = Unions(str(name), *shape, tokens, mean[columns].to_numpy().T, by_layer)
    return found


def fitted(unions: Sequence[Unions], longest: float = np.inf) -> tuple[float, float, float]:
    """Fit load_cv, affinity and stickiness to several prompt sets at once, by least squares of
    logarithms.

    Only lengths up to `longest` count.
    """
    from scipy.optimize import least_squares

    def distance(parameters: Array) -> Array:
        errors = (one.errors(parameters.tolist())[:, one.tokens <= longest] for one in unions)
        return np.concatenate([np.log1p(each).ravel() for each in errors])

    cv, phi, rho = least_squares(distance, _START, bounds=_BOUNDS).x
    return float(cv), float(phi), float(rho)


def form_table(unions: dict[str, Unions]) -> str:
    """Errors of the form, one line a prompt set.

    Its own parameters, the largest error in the mean, that beyond SHORT tokens where the fit ends
    there, and the median distance of a layer, over all lengths and at the longest run of one
    sequence.
    """
    head = ("cv", "phi", "rho", "largest", f"beyond {SHORT}", "layer", "layer, long")
    lines = [f"{'prompt set':15}" + "".join(f"{name:>12}" for name in head)]
    for name, one in unions.items():
        own = fitted([one])
        beyond = np.abs(one.errors(fitted([one], SHORT)))[:, one.tokens > SHORT].max()
        layers = one.layer_errors(own)
        errors = (
            np.abs(one.errors(own)).max(),
            beyond,
            np.median(layers),
            np.median(layers[0, :, -1]),
        )
        lines.append(
            f"{name:15}"
            + "".join(f"{value:12.3f}" for value in own)
            + "".join(f"{error:12.1%}" for error in errors)
        )
    return "\n".join(lines)


def preset_table(unions: dict[str, Unions], presets: Sequence[str]) -> str:
    """Largest error of shipped presets on each prompt set.

    It is given in the mean, and at the longest run and most sequences.
    """
    lines = [f"{'prompt set':15}" + "".join(f"{name:>46}" for name in presets)]
    for name, one in unions.items():
        cells = []
        for preset in presets:
            errors = one.errors([each.value for each in load_routing_preset(preset).parameters])
            cells.append(
                f"{np.abs(errors).max():.1%} (run {errors[0, -1]:+.1%}, width {errors[1, -1]:+.1%})"
            )
        lines.append(f"{name:15}" + "".join(f"{cell:>46}" for cell in cells))
    return "\n".join(lines)


def held_out_domains(unions: dict[str, Unions]) -> dict[str, Array]:
    """Errors on each single domain of parameters fitted to the other domains, [2, lengths]."""
    domains = [one for name, one in unions.items() if name != MIXED]
    return {
        one.prompt_set: one.errors(fitted([each for each in domains if each is not one]))
        for one in domains
    }


def main_unions() -> None:
    """Print the tables."""
    unions = measured_unions()
    presets = ("class-fine-one-shared", "class-fine-one-shared-one-domain", "qwen3.6-35b-a3b")
    print(f"The form, fitted to each prompt set\n{form_table(unions)}\n")
    print(f"Shipped presets\n{preset_table(unions, presets)}\n")
    print("One domain, predicted from the other domains: largest error in the mean")
    for name, errors in held_out_domains(unions).items():
        print(
            f"{name:15}{np.abs(errors).max():8.1%} (run {errors[0, -1]:+.1%}, width "
            f"{errors[1, -1]:+.1%})"
        )


if __name__ == "__main__":
    main_unions() if sys.argv[1:] == ["--unions"] else main()
