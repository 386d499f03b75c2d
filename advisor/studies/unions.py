"""`python -m advisor.studies.unions`: the routing law held against measured unions of experts.

Three questions, each printed: does the three-parameter form follow a measured router (fitted to each prompt set, and
fitted to short lengths to judge long ones); do the shipped presets, and one set of parameters for a domain nobody has
fitted; and how far single layers are from the mean over layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from advisor.arrays import Array
from advisor.profiles import MEASUREMENTS
from advisor.routing import load_routing_preset, touched_experts

UNIONS = MEASUREMENTS / "union_experts" / "data.csv"
MIXED = "all"
"""The prompt set that holds every category: mixed traffic. All others are one domain each."""
SHORT = 8
"""Lengths up to which the form is fitted where longer ones judge it. [tokens]"""
_START, _BOUNDS = (0.9, 0.08, 0.3), ((0.01, 1e-4, 1e-4), (5.0, 0.9, 0.9))


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
        return np.stack([touched_experts(1.0, self.tokens, *shape), touched_experts(self.tokens, 1.0, *shape)])

    def errors(self, parameters: Sequence[float]) -> Array:
        """Predicted over measured mean, less one, [2, lengths]."""
        return self.predicted(parameters) / self.mean - 1.0

    def layer_errors(self, parameters: Sequence[float]) -> Array:
        """Distance of each layer from the prediction of all, as a share, [2, layers, lengths]."""
        return np.abs(self.predicted(parameters)[:, None, :] / self.by_layer - 1.0)


def measured_unions() -> dict[str, Unions]:
    """The shipped unions by prompt set."""
    frame = pd.read_csv(UNIONS, dtype={"layer": str})
    frame = frame[frame["tokens"] > 1]
    columns = ["experts_one_sequence", "experts_n_sequences"]
    found = {}
    for name, rows in frame.groupby("prompt_set", sort=True):
        mean, layers = rows[rows["layer"] == "mean"], rows[rows["layer"] != "mean"]
        tokens = mean["tokens"].to_numpy(float)
        by_layer = layers[columns].to_numpy().reshape(-1, len(tokens), len(columns)).transpose(2, 0, 1)
        shape = float(rows["n_experts"].iloc[0]), float(rows["n_active"].iloc[0])
        found[str(name)] = Unions(str(name), *shape, tokens, mean[columns].to_numpy().T, by_layer)
    return found


def fitted(unions: Sequence[Unions], longest: float = np.inf) -> tuple[float, float, float]:
    """Fit load_cv, affinity and stickiness to several prompt sets at once, by least squares of logarithms.

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

    Its own parameters, the largest error in the mean, that beyond SHORT tokens where the fit ends there, and the median
    distance of a layer, over all lengths and at the longest run of one sequence.
    """
    head = ("cv", "phi", "rho", "largest", f"beyond {SHORT}", "layer", "layer, long")
    lines = [f"{'prompt set':15}" + "".join(f"{name:>12}" for name in head)]
    for name, one in unions.items():
        own = fitted([one])
        beyond = np.abs(one.errors(fitted([one], SHORT)))[:, one.tokens > SHORT].max()
        layers = one.layer_errors(own)
        errors = (np.abs(one.errors(own)).max(), beyond, np.median(layers), np.median(layers[0, :, -1]))
        lines.append(
            f"{name:15}" + "".join(f"{value:12.3f}" for value in own) + "".join(f"{error:12.1%}" for error in errors)
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
            cells.append(f"{np.abs(errors).max():.1%} (run {errors[0, -1]:+.1%}, width {errors[1, -1]:+.1%})")
        lines.append(f"{name:15}" + "".join(f"{cell:>46}" for cell in cells))
    return "\n".join(lines)


def held_out_domains(unions: dict[str, Unions]) -> dict[str, Array]:
    """Errors on each single domain of parameters fitted to the other domains, [2, lengths]."""
    domains = [one for name, one in unions.items() if name != MIXED]
    return {one.prompt_set: one.errors(fitted([each for each in domains if each is not one])) for one in domains}


def main() -> None:
    """Print the tables."""
    unions = measured_unions()
    presets = ("class-fine-one-shared", "class-fine-one-shared-one-domain", "qwen3.6-35b-a3b")
    print(f"The form, fitted to each prompt set\n{form_table(unions)}\n")
    print(f"Shipped presets\n{preset_table(unions, presets)}\n")
    print("One domain, predicted from the other domains: largest error in the mean")
    for name, errors in held_out_domains(unions).items():
        print(f"{name:15}{np.abs(errors).max():8.1%} (run {errors[0, -1]:+.1%}, width {errors[1, -1]:+.1%})")


if __name__ == "__main__":
    main()
