"""`python -m studies.blind --write docs/blind/DATE`, `--score FILE`: a prediction made before it is
measured.

vLLM issue 46295, comment of 22 September 2026, announces a measurement on one H200: an MoE model
with n-gram drafts, K = 0, 1, 2, 4, 8 by batch 1, 4, 16, 64, with distinct experts in a
verification, its latency, acceptance and tokens/s. `--write` predicts that grid and freezes it by
its hash; `--score` holds it against the numbers once they are there. `--absolute` prints plain and
speculative times of published rows beside their predictions: by the shipped overheads, so that it
shows where a time goes missing and is no score.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

import advisor
from advisor.catalog.fit_records import class_costs
from advisor.measured.observations import set_apart
from advisor.measured.points import measured_times, published_rows
from advisor.measured.published import COLLECTIONS
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup, with_costs
from advisor.predict.prefill import prefill_per_token_s
from advisor.predict.scenario import Scenario
from advisor.predict.setup import touched_in_pass
from advisor.prediction import AdvisorError
from advisor.profiles import data_root, read_file
from advisor.text import RENAMED, frame_csv, names_of_today
from studies.published import PublishedPoint, points_of

BLIND = data_root() / "docs" / "blind"
SOURCE = "https://github.com/vllm-project/vllm/issues/46295, comment of 2026-09-22"
BATCHES = (1, 4, 16, 64)
DRAFTS = (0, 1, 2, 4, 8)
NAMED = ("qwen3-30b-a3b", "mixtral-8x7b")
"""Of the families that the issue names, the members that one H200 holds in bf16."""
LIKELY = (
    "gpt-oss-20b",
    "gpt-oss-120b",
    "deepseek-v2-lite",
    "olmoe-1b-7b",
    "qwen3.5-35b-a3b",
    "phi-3.5-moe",
)
"""The measurement's own model is not named: others that one H200 holds, so that it may be among
them."""
TOO_LARGE = ("deepseek-v3", "kimi-k2")
"""Named in the issue, and larger than one H200."""
CONTEXT_TOKENS = 1024
"""Not stated; time per step depends on it little at these batches. [tokens]"""
ANY_LENGTH = "2.0@4"
"""An n-gram drafter's accepted length belongs to the prompts: it is taken from the measurement when
scored, and no column depends on it. [tokens per round]"""
KEYS = ["model_id", "batch_size", "n_draft"]
_MAX_BYTES = 1_000_000
COLUMNS = {
    "named": "yes: of a family that the issue names; no: a model that it may be instead",
    "touched_experts": (
        "distinct routed experts in one layer of a verification, mean over layers [1]"
    ),
    "touched_experts_low": (
        "the same at the end of the routing preset's 80 % range that touches fewer [1]"
    ),
    "touched_experts_high": "the same at the other end [1]",
    "plain_step_ms": "one plain decode step [ms]",
    "verify_step_ms": "one verification of K + 1 tokens a sequence, without drafting [ms]",
    "verify_ratio": "verification over plain step [1]",
    "round_ratio": (
        "one round, drafting and host included, over a plain step: the accepted length that "
        "breaks even [1]"
    ),
    "round_ratio_low": "lower end of its 80 % band [1]",
    "round_ratio_high": "upper end of its 80 % band [1]",
    "tier": "measured, interpolated, fitted or roofline",
}
JUDGED = {
    "touched_experts": ("touched_experts_low", "touched_experts_high"),
    "plain_step_ms": None,
    "verify_step_ms": None,
    "verify_ratio": None,
    "round_ratio": ("round_ratio_low", "round_ratio_high"),
}
"""Quantities that are scored, with the columns of their band."""


def scenario_of(model_id: str) -> Scenario:
    """Scenario of the announced run, on one model."""
    return Scenario(
        hardware_id="h200-sxm",
        model_id=model_id,
        drafter_id="ngram",
        acceptance=ANY_LENGTH,
        engine="vllm",
        context_tokens=CONTEXT_TOKENS,
        k_max=max(DRAFTS),
    )


def predicted(models: Sequence[str] = (*NAMED, *LIKELY)) -> pd.DataFrame:
    """The grid: one row a model, batch and K, with KEYS and COLUMNS."""
    return pd.concat([_of_model(model_id) for model_id in models], ignore_index=True)


def _of_model(model_id: str) -> pd.DataFrame:
    setup = load_setup(scenario_of(model_id), borrowed_acceptance=False)
    length = setup.acceptance.accepted_length
    known = dataclasses.replace(
        setup.acceptance, low=length, high=length
    )  # the band of the round alone
    setup = dataclasses.replace(setup, acceptance=known)
    curve = curve_for(setup, BATCHES, DRAFTS)
    column = curve.batches[:, None]
    verified = curve.drafts + 1.0
    values = {
        "batch_size": np.broadcast_to(column, curve.round_s.shape).astype(int),
        "n_draft": np.broadcast_to(curve.drafts, curve.round_s.shape),
        "touched_experts": curve.touched_verify,
        "touched_experts_low": touched_in_pass(setup, column, verified, "low"),
        "touched_experts_high": touched_in_pass(setup, column, verified, "high"),
        "plain_step_ms": np.broadcast_to(curve.plain_step_s[:, None], curve.round_s.shape) * 1e3,
        "verify_step_ms": curve.verify_step_s * 1e3,
        "verify_ratio": curve.verify_ratio,
        "round_ratio": curve.accepted_length / curve.speedup,
        "round_ratio_low": curve.accepted_length / curve.high,
        "round_ratio_high": curve.accepted_length / curve.low,
        "tier": curve.tier,
    }
    frame = pd.DataFrame({name: np.asarray(value).ravel() for name, value in values.items()})
    frame.insert(0, "model_id", model_id)
    frame.insert(3, "named", "yes" if model_id in NAMED else "no")
    return frame[[*KEYS, *COLUMNS]]


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def freeze(folder: Path, grid: pd.DataFrame) -> str:
    """Write grid.csv and meta.yaml into a new folder and its hash into the list beside it. The
    hash.

    Raises AdvisorError where the folder holds a prediction already: a frozen one is not written
    again.
    """
    path = folder / "grid.csv"
    if path.exists():
        raise AdvisorError(f"{path} is frozen; write a later prediction into a folder of its own")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(frame_csv(grid, float_format="%.5g"), encoding="utf-8", newline="\n")
    digest = sha256_of(path)
    meta = {
        "date": folder.name,
        "announced": SOURCE,
        "advisor_version": advisor.__version__,
        "sha256": digest,
        "run": "one H200, vLLM, n-gram drafts, bf16 or the release's own format, "
        f"{CONTEXT_TOKENS} tokens of context (not stated)",
        "not_predicted": dict.fromkeys(TOO_LARGE, "larger than one H200")
        | {"accepted_length": "a property of the prompts; taken from the measurement when scored"},
        "columns": COLUMNS,
    }
    (folder / "meta.yaml").write_text(
        yaml.safe_dump(meta, sort_keys=False, width=120), encoding="utf-8"
    )
    with (folder.parent / "README.md").open("a", encoding="utf-8") as listed:
        listed.write(f"| {folder.name} | {advisor.__version__} | {digest} |\n")
    return digest


def frozen(folder: Path) -> pd.DataFrame:
    """A frozen grid. Raises AdvisorError where its hash is not the one it was frozen with."""
    path = folder / "grid.csv"
    meta = yaml.safe_load((folder / "meta.yaml").read_text(encoding="utf-8"))
    if sha256_of(path) != meta["sha256"]:
        raise AdvisorError(
            f"{path} is not what was frozen on {meta['date']}: its hash differs; restore the file"
        )
    return pd.read_csv(path).rename(columns=RENAMED)  # a frozen file is never written again


def latest() -> Path:
    """The folder of the last frozen prediction. Raises AdvisorError where there is none."""
    folders = sorted(path.parent for path in BLIND.glob("*/grid.csv"))
    if not folders:
        raise AdvisorError(
            f"{BLIND} holds no frozen prediction; write one with --write docs/blind/DATE"
        )
    return folders[-1]


def with_measured(grid: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Rows of both, the measured columns named `*_measured`. What a run leaves to be worked out is.

    A verification at K = 0 is the plain step; a ratio is one of times; accepted length over speedup
    is the round. Raises AdvisorError where a key is lacking or stands twice, or no row has a
    prediction.
    """
    lacking = [name for name in KEYS if name not in measured]
    if lacking:
        raise AdvisorError(
            f"the measurement has no column {', '.join(lacking)}; needed are {', '.join(KEYS)}"
        )
    if measured.duplicated(KEYS).any():
        raise AdvisorError("a model, batch and K stands twice in the measurement; give their mean")
    given = measured.copy()
    if "plain_step_ms" not in given and "verify_step_ms" in given:
        plain = given[given["n_draft"] == 0][["model_id", "batch_size", "verify_step_ms"]]
        given = given.merge(plain.rename(columns={"verify_step_ms": "plain_step_ms"}), how="left")
    if "verify_ratio" not in given and {"verify_step_ms", "plain_step_ms"} <= set(given):
        given["verify_ratio"] = given["verify_step_ms"] / given["plain_step_ms"]
    if "round_ratio" not in given and {"accepted_length", "speedup"} <= set(given):
        given["round_ratio"] = given["accepted_length"] / given["speedup"]
    both = grid.merge(given, on=KEYS, suffixes=("", "_measured"))
    if both.empty:
        raise AdvisorError(
            f"no row has a prediction; predicted are {', '.join(grid['model_id'].unique())}"
        )
    return both


def score_lines(both: pd.DataFrame) -> Iterator[str]:
    """One line a model and quantity: rows, mean error, bias, share within the band. Then the regret
    of K."""
    yield f"{'model':22}{'quantity':18}{'n':>4}{'mean error':>12}{'bias':>8}{'in band':>9}"
    for model_id, rows in both.groupby("model_id"):
        for name, band in JUDGED.items():
            if f"{name}_measured" not in rows:
                continue
            known = rows[
                rows[f"{name}_measured"].notna()
                & ((rows["n_draft"] > 0) | (name == "plain_step_ms"))
            ]
            known = (
                known[known["n_draft"] == known["n_draft"].min()]
                if name == "plain_step_ms"
                else known
            )
            if known.empty:
                continue
            error = known[name] / known[f"{name}_measured"] - 1.0
            inside = (
                f"{known[f'{name}_measured'].between(known[band[0]], known[band[1]]).mean():.0%}"
                if band
                else ""
            )
            yield f"{model_id:22}{name:18}{len(known):4}{error.abs().mean():12.1%}{error.mean():+8.1%}{inside:>9}"  # noqa: E501
    if {"speedup", "accepted_length"} <= set(both):
        for model_id, rows in both.groupby("model_id"):
            regrets = [_regret(group) for _, group in rows.groupby("batch_size")]
            yield (
                f"{model_id:22}K by the prediction: regret {np.mean(regrets):.1%} mean, "
                f"{max(regrets):.1%} worst"
            )


def _regret(rows: pd.DataFrame) -> float:
    """What K of the highest predicted speedup, at the measured accepted lengths, loses against the
    best measured."""
    chosen = (rows["accepted_length"] / rows["round_ratio"]).idxmax()
    return float(rows["speedup"].max() / rows.loc[chosen, "speedup"] - 1.0)


def _measured(path: Path) -> pd.DataFrame:
    """The measurement of a CSV, its columns under today's names. Raises AdvisorError for a file
    that is none."""
    data = read_file(path, _MAX_BYTES, "a measurement")
    try:
        given = pd.read_csv(io.BytesIO(data), encoding_errors="replace")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise AdvisorError(
            f"{path.name} is no CSV with a header line ({str(error)[:100]})"
        ) from error
    old, remark = names_of_today(given.columns)
    if remark:
        print(remark)
    return given.rename(columns=old)


def main(arguments: Sequence[str]) -> None:
    """Freeze a prediction, or score the last one. `--write FOLDER`, `--score FILE`. Raises
    AdvisorError for neither."""
    match list(arguments):
        case ["--write", folder]:
            print(freeze(Path(folder), predicted()))
        case ["--score", file]:
            last = latest()
            print(f"{last.name}, frozen as {sha256_of(last / 'grid.csv')}")
            print("\n".join(score_lines(with_measured(frozen(last), _measured(Path(file))))))
        case _:
            raise AdvisorError("give --write docs/blind/DATE or --score FILE")


LEAST_BATCHES = 3
"""Different batch sizes from which on a laboratory's slope over batch is printed. [-]"""


def predicted_times(point: PublishedPoint) -> tuple[float, float]:
    """Seconds for a token of one sequence without and with speculation.

    They hold the prefill that the row's metric holds.
    """
    setup = with_costs(point.setup, **class_costs(point.engine_class))
    curve = point.curve(setup)
    prefill_s = float(prefill_per_token_s(setup, np.array([point.batch_size]))[0])
    return float(curve.plain_step_s[0]) + prefill_s, float(
        curve.round_s[0, 0]
    ) / point.accepted_length + prefill_s


def ratios(points: Sequence[PublishedPoint]) -> pd.DataFrame:
    """Log errors of rows that print a time, one line each.

    Laboratory, hardware_id, batch_size, and log predicted over measured of the plain and of the
    speculative time of a token, and of their ratio, the speedup.
    """
    rows = []
    for point in points:
        laboratory = point.laboratory
        measured = np.array(measured_times(point.row))
        if set_apart(laboratory) or not np.isfinite(measured).any():
            continue
        plain, speculative = np.log(np.array(predicted_times(point)) / measured)
        rows.append(
            (
                laboratory,
                point.scenario.hardware_id,
                point.batch_size,
                plain,
                speculative,
                plain - speculative,
            )
        )
    return pd.DataFrame(
        rows, columns=["laboratory", "hardware_id", "batch_size", "plain", "speculative", "speedup"]
    )


def table(judged: pd.DataFrame) -> str:
    """Median predicted over measured by laboratory and accelerator, and its slope over the batch.

    The slope is that of its log per doubling.
    """
    kinds = ("plain", "speculative", "speedup")
    lines = [
        f"{'laboratory, accelerator':48}{'n':>5}"
        + "".join(f"{kind:>13}{'slope':>8}" for kind in kinds)
    ]
    for (laboratory, hardware), group in judged.groupby(["laboratory", "hardware_id"]):
        doublings = np.log2(group["batch_size"])
        line = f"{f'{laboratory}, {hardware}'[:47]:48}{len(group):5}"
        for kind in kinds:
            known = group[kind].notna()
            middle = f"{np.exp(group[kind].median()):.2f}" if known.any() else ""
            steep = (
                np.polyfit(doublings[known], group[kind][known], 1)[0]
                if _varied(doublings[known])
                else np.nan
            )
            line += f"{middle:>13}" + (f"{steep:+8.3f}" if np.isfinite(steep) else " " * 8)
        lines.append(line)
    return "\n".join(lines)


def _varied(doublings: pd.Series) -> bool:
    return doublings.nunique() >= LEAST_BATCHES


def main_absolute() -> None:
    """Print the table of all collections."""
    points, _ = points_of(published_rows(*COLLECTIONS), other_models=True)
    print(table(ratios(points)))


if __name__ == "__main__":
    try:
        main_absolute() if sys.argv[1:] == ["--absolute"] else main(sys.argv[1:])
    except AdvisorError as error:
        sys.exit(f"error: {error}")
