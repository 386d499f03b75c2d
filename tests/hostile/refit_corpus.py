"""SYNTHETIC result files with a hidden truth, right ones and misread ones, and what a refit of each
does to predictions over a grid that is not in the file.

A world is a server: a deployment under constants off by up to a factor of 2, in a third of the
worlds of another form than the model's. Right files tell of it as it ran, in the forms that people
write; misread ones say something else. Everything follows from seeds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from advisor.measured.ingest.columns import COLUMNS
from advisor.measured.ingest.read import read_upload
from advisor.measured.multipliers import multiplier_prior
from advisor.measured.observations import LENGTH, NAMES, joined, log_predicted
from advisor.measured.points import Point, refit_points
from advisor.measured.refit import refit_chosen, select_points
from advisor.measured.refit_result import RefitResult
from advisor.prediction import AdvisorError

INPUT_TOKENS = 1000.0
OUTPUT_TOKENS = 200.0
MOST_OFF = np.log(2.0)
"""Farthest that a constant is from the shipped one; within that constants spread as the shipped
rooflines do, or twice as far as the shipped fits of measured kernels. [-]"""
GRID = np.array([1, 3, 6, 12, 20, 40, 72, 120])
"""Batches that predictions are judged at, without those of the file. [-]"""
GRIDS = ((1, 8, 64), (1, 4, 16, 64), (2, 8, 32, 128), (1, 2, 4, 8, 16, 32, 64, 128))
"""Batches that were run. [-]"""
DRAFTS = ((0, 1, 3), (0, 2, 4), (0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6, 7))
"""K that were run. With GRIDS 9 to 64 rows. [-]"""
NOISE = (0.01, 0.02, 0.03, 0.045, 0.06)
"""Log scatter of one time. [-]"""


@dataclass(frozen=True, eq=False)
class Deployment:
    """What rows of one server state, and what their owner might name by mistake."""

    name: str
    stated: Mapping[str, object]
    sibling: str
    sister: str


DEPLOYMENTS = (
    Deployment(
        "qwen3-30b on an H200",
        {"hardware_id": "h200-sxm", "gpu_count": 1, "model_id": "qwen3-30b-a3b"},
        "h100-sxm",
        "gpt-oss-20b",
    ),
    Deployment(
        "gpt-oss-120b on 4 H100",
        {"hardware_id": "h100-sxm", "gpu_count": 4, "model_id": "gpt-oss-120b"},
        "h200-sxm",
        "gpt-oss-20b",
    ),
    Deployment(
        "deepseek-v3 on 8 H200",
        {
            "hardware_id": "h200-sxm",
            "gpu_count": 8,
            "model_id": "deepseek-v3",
            "drafter": "mtp",
            "engine": "sglang",
        },
        "b200-sxm",
        "glm-4.5",
    ),
    Deployment(
        "qwen3-235b on 4 MI300X",
        {"hardware_id": "mi300x", "gpu_count": 4, "model_id": "qwen3-235b-a22b"},
        "mi325x",
        "qwen3-30b-a3b",
    ),
)


@dataclass(frozen=True, eq=False)
class World:
    """One server as it is: constants [names], form, accepted lengths; and what was run on it."""

    deployment: Deployment
    theta: np.ndarray
    form: str
    size: float
    """How strong another form is. [-]"""
    alpha: float
    """Chance that a draft is accepted. [-]"""
    batches: tuple[int, ...]
    drafts: tuple[int, ...]
    noise: float
    seed: int

    def length(self, k: object) -> np.ndarray:
        """Accepted length at each K. [tokens]"""
        drafts = np.asarray(k, float)
        return (1.0 - self.alpha ** (drafts + 1.0)) / (1.0 - self.alpha)


FORMS_OF_TRUTH = ("tokens", "staircase", "per sequence", "tilt")
"""Forms other than the model's: verified tokens that grow by another power, batches padded to
captured sizes, host time for each sequence, a drift over the batch."""


def world(number: int, deployment: Deployment, **changes: object) -> World:
    """The world of a number: every third is of another form than the model's."""
    rng = np.random.default_rng([number, zlib.crc32(deployment.name.encode())])
    points, _ = refit_points(_asked(deployment, 0.7, (1, 16), (0, 3)))
    spread = np.linalg.cholesky(multiplier_prior(points).covariance)
    if points[0].tier != "roofline":
        spread = 2.0 * spread
    theta = np.clip(spread @ rng.standard_normal(len(NAMES)), -MOST_OFF, MOST_OFF)
    theta[LENGTH] = 0.0
    form = str(rng.choice(FORMS_OF_TRUTH)) if number % 3 == 2 else ""
    return replace(
        World(
            deployment,
            theta,
            form,
            float(rng.uniform(0.5, 1.0)),
            float(rng.uniform(0.55, 0.85)),
            GRIDS[rng.integers(len(GRIDS))],
            DRAFTS[rng.integers(len(DRAFTS))],
            NOISE[rng.integers(len(NOISE))],
            number,
        ),
        **changes,
    )


def _asked(
    deployment: Deployment,
    alpha: float,
    batches: tuple[int, ...],
    drafts: tuple[int, ...],
    metric: str | None = None,
) -> pd.DataFrame:
    """Canonical rows of every batch and K, whose times are still to come."""
    rows = [
        {
            "engine": "vllm",
            "drafter": "eagle3",
            "input_tokens": INPUT_TOKENS,
            "output_tokens": OUTPUT_TOKENS,
            "tensor_parallel": deployment.stated["gpu_count"],
            "accepted_length_same_run": 1,
            "tpot_s": 1.0,
            "metric": metric,
            **deployment.stated,
            "batch_size": batch,
            "draft_tokens_k": k,
            "accepted_length": (1.0 - alpha ** (k + 1)) / (1.0 - alpha) if k else None,
        }
        for batch in batches
        for k in drafts
    ]
    return pd.DataFrame(rows, index=pd.RangeIndex(2, len(rows) + 2, name="line")).reindex(
        columns=COLUMNS["points"]
    )


_STAIRS = np.array([1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 256])


def _growing(point: Point, power: float) -> Point:
    """A row whose verified tokens add as much as shipped at 128, and grow by a further power."""
    verified = NAMES.index("verified")
    scaled = np.ones(len(NAMES) + 1)
    scaled[verified] = (point.batch_size * (point.n_draft + 1) / 128.0) ** power
    observed = point.observations
    sums = {name: getattr(observed, name) * scaled for name in ("upper", "lower")}
    return replace(point, observations=replace(observed, **sums))


def ran(one: World, metric: str | None = None, *, noisy: bool = True) -> pd.DataFrame:
    """Rows as they ran: time per token, round, speedup over the plain row, rate.

    `metric`: None for decoding alone, else one in which prompts are paid.
    """
    frame = _asked(one.deployment, one.alpha, one.batches, one.drafts, metric)
    batch = frame["batch_size"].to_numpy(float)
    asked = frame
    if one.form == "staircase":
        padded = _STAIRS[np.searchsorted(_STAIRS, batch)]
        asked = frame.assign(batch_size=padded)
    points, refused = refit_points(asked)
    assert not refused, refused
    if one.form == "tokens":
        points = [_growing(point, -0.5 if one.size < 0.7 else 0.5) for point in points]
    observed = joined(point.observations for point in points)
    times = np.exp(log_predicted(observed, one.theta))
    length = frame["accepted_length"].to_numpy(float, na_value=1.0)
    if one.form == "per sequence":
        times = times + one.size * 20e-6 * batch / length
    if one.form == "tilt":
        times = times * (batch / 8.0) ** (0.06 * (one.size - 0.75) / 0.25)
    if noisy:
        rng = np.random.default_rng([one.seed, 7])
        times = times * np.exp(one.noise * rng.standard_normal(len(times)))
    return with_what_follows(frame.assign(metric=None, tpot_s=times))


def with_what_follows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rounds, speedups over the plain row of the same batch, and rates, from the times."""
    tpot = frame["tpot_s"].astype(float)
    batch = frame["batch_size"].astype(float)
    plain = tpot.where(frame["draft_tokens_k"] == 0).groupby(batch).transform("first")
    return frame.assign(
        step_time_s=tpot * frame["accepted_length"].astype(float).fillna(1.0),
        speedup=np.where(frame["draft_tokens_k"] > 0, plain / tpot, np.nan),
        output_tok_per_s=batch / tpot,
    )


STATED = (
    *("hardware_id", "gpu_count", "tensor_parallel", "engine", "model_id", "drafter"),
    *("batch_size", "draft_tokens_k", "accepted_length", "accepted_length_same_run"),
    *("input_tokens", "output_tokens"),
)


def _csv(frame: pd.DataFrame, *measured: str, sep: str = ",", decimal: str = ".") -> bytes:
    columns = [name for name in (*STATED, "weight_dtype", *measured) if frame[name].notna().any()]
    return frame[columns].to_csv(index=False, sep=sep, decimal=decimal).encode()


def _in_ms(frame: pd.DataFrame) -> bytes:
    table = frame[[*STATED]].assign(**{"TPOT (ms)": 1e3 * frame["tpot_s"].astype(float)})
    return table.to_csv(index=False, sep=";", decimal=",").encode()


def _markdown(frame: pd.DataFrame) -> bytes:
    table = frame[[*STATED]].assign(**{"TPOT (ms)": (1e3 * frame["tpot_s"].astype(float)).round(4)})
    table = table.astype(object).where(table.notna(), "")
    lines = [list(table.columns), ["---"] * len(table.columns), *table.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in lines).encode()


def _json_lines(frame: pd.DataFrame) -> bytes:
    """Lines of `vllm bench serve --append-result` with the run's settings as metadata."""
    out = []
    for row in frame.to_dict("records"):
        document = {
            "backend": row["engine"],
            "model_id": row["model_id"],
            "gpu": row["hardware_id"],
            "num_gpus": row["gpu_count"],
            "tp": row["tensor_parallel"],
            "drafter": row["drafter"],
            "spec_k": row["draft_tokens_k"],
            "request_rate": "inf",
            "max_concurrency": row["batch_size"],
            "mean_tpot_ms": 1e3 * row["tpot_s"],
            "output_throughput": row["output_tok_per_s"],
            "duration": 60.0,
            "completed": 100,
            "total_token_throughput": row["output_tok_per_s"] * 6.0,
            "total_input_tokens": 100_000,
            "total_output_tokens": 20_000,
        }
        if row["draft_tokens_k"]:
            document["spec_decode_acceptance_length"] = row["accepted_length"]
        out.append(json.dumps(document))
    return "\n".join(out).encode()


def _nested(frame: pd.DataFrame) -> bytes:
    """A home-made document: what holds of all around the list, units in the cells."""
    rows = frame.to_dict("records")
    around = ("hardware_id", "gpu_count", "tensor_parallel", "engine", "model_id", "drafter")
    runs = []
    for row in rows:
        metrics = {"tpot": f"{1e3 * row['tpot_s']:.6g} ms"}
        if row["draft_tokens_k"]:
            metrics["al"] = row["accepted_length"]
        runs.append({"concurrency": row["batch_size"], "K": row["draft_tokens_k"], **metrics})
    return json.dumps({"setup": {name: rows[0][name] for name in around}, "runs": runs}).encode()


def _wide(frame: pd.DataFrame) -> bytes:
    """A row for each batch and K, the time without drafts beside the one with them."""
    drafting = frame["draft_tokens_k"] > 0
    plain = frame[~drafting].set_index("batch_size")["tpot_s"]
    rows = frame[drafting]
    return (
        rows[[*STATED]]
        .assign(
            **{
                "TPOT (ms), no spec": 1e3 * rows["batch_size"].map(plain),
                "TPOT (ms), spec": 1e3 * rows["tpot_s"],
            }
        )
        .to_csv(index=False)
        .encode()
    )


def _all_tokens(frame: pd.DataFrame) -> bytes:
    total = frame["output_tok_per_s"] * (INPUT_TOKENS + OUTPUT_TOKENS) / OUTPUT_TOKENS
    return _csv(frame.assign(total_tok_per_s=total), "total_tok_per_s")


@dataclass(frozen=True)
class Form:
    """How people write a file, and the metric in which prompts are paid in it. None: in none."""

    written: Callable[[pd.DataFrame], bytes]
    metric: str | None = None
    suffix: str = "csv"


FORMS: dict[str, Form] = {
    "times of decoding": Form(lambda f: _csv(f, "tpot_s")),
    "times with prompts": Form(lambda f: _csv(f, "tpot_s"), "tpot_ms"),
    "served rates": Form(lambda f: _csv(f, "output_tok_per_s"), "output_tok_per_s"),
    "rates of decoding": Form(lambda f: _csv(f, "output_tok_per_s")),
    "rates of all tokens": Form(_all_tokens, "output_tok_per_s"),
    "rounds": Form(lambda f: _csv(f, "step_time_s")),
    "times and speedups": Form(lambda f: _csv(f, "tpot_s", "speedup"), "tpot_ms"),
    "speedups alone": Form(lambda f: _csv(f[f["draft_tokens_k"] > 0], "speedup")),
    "decimal commas in ms": Form(_in_ms),
    "Markdown": Form(_markdown, "tpot_ms"),
    "vllm bench serve": Form(_json_lines, "tpot_ms", "jsonl"),
    "home-made JSON": Form(_nested, None, "json"),
    "wide table": Form(_wide, "tpot_ms"),
    "tabs": Form(lambda f: _csv(f, "tpot_s", sep="\t"), None, "tsv"),
}


@dataclass(frozen=True, eq=False)
class CorpusFile:
    """Uploaded bytes, and the world that predictions are held against."""

    name: str
    kind: str
    data: bytes
    suffix: str
    truth: World


def half(kind: str) -> int:
    """0 for the forms and kinds that thresholds may be chosen on, 1 for those that judge."""
    return zlib.crc32(kind.encode()) % 2


@cache
def right_files() -> tuple[CorpusFile, ...]:
    """Every form of every deployment, each of a world of its own."""
    out = []
    for i, (form_name, form) in enumerate(FORMS.items()):
        for j, deployment in enumerate(DEPLOYMENTS):
            one = world(i + 7 * j, deployment)
            name = f"{form_name}: {deployment.name}, {one.seed}"
            data = form.written(ran(one, form.metric))
            out.append(CorpusFile(name, form_name, data, form.suffix, one))
    return tuple(out)


Change = Callable[[World, pd.DataFrame], pd.DataFrame]


def _scaled(column: str, factor: float) -> Change:
    return lambda _, f: f.assign(**{column: f[column].astype(float) * factor})


def _drafting(f: pd.DataFrame, column: str, values: object) -> pd.DataFrame:
    """Other values where rows draft."""
    return f.assign(**{column: f[column].astype(float).mask(f["draft_tokens_k"] > 0, values)})


def _gpus(factor: float) -> Change:
    def change(_: World, f: pd.DataFrame) -> pd.DataFrame:
        gpus = np.maximum(f["gpu_count"].astype(float) * factor, 1.0).astype(int)
        return f.assign(gpu_count=gpus, tensor_parallel=gpus)

    return change


def _length(change: Callable[[pd.Series, pd.Series], pd.Series]) -> Change:
    def changed(_: World, f: pd.DataFrame) -> pd.DataFrame:
        k = f["draft_tokens_k"].astype(float)
        lengths = change(f["accepted_length"].astype(float), k).clip(1.0, k + 1.0)
        return _drafting(f, "accepted_length", lengths)

    return changed


def _k(change: Callable[[pd.Series], pd.Series]) -> Change:
    return lambda _, f: _drafting(
        f, "draft_tokens_k", change(f["draft_tokens_k"].astype(float)).clip(lower=1.0)
    )


def _eager(one: World, _: pd.DataFrame) -> pd.DataFrame:
    """Without graphs: launches cost five times as much, the host twice."""
    theta = one.theta.copy()
    theta[NAMES.index("launch")] += np.log(5.0)
    theta[NAMES.index("host")] += np.log(2.0)
    return ran(replace(one, theta=theta))


def _every_second(_: World, f: pd.DataFrame) -> pd.DataFrame:
    """Half of the batches by an engine twice as slow that the file does not name."""
    places = pd.factorize(f["batch_size"])[0]
    return f.assign(tpot_s=f["tpot_s"].where(places % 2 == 0, 1.9 * f["tpot_s"]))


def _warm_up(_: World, f: pd.DataFrame) -> pd.DataFrame:
    first = np.arange(len(f)) < len(f) / 3.0
    slower = np.linspace(3.0, 1.2, len(f))
    return f.assign(tpot_s=f["tpot_s"].where(~first, f["tpot_s"] * slower))


def _never_reached(one: World, f: pd.DataFrame) -> pd.DataFrame:
    """No more than the second batch ran together; the rest waited, outside the time of a token."""
    cap = sorted(one.batches)[1]
    at = f["batch_size"].clip(upper=cap)
    held = f.assign(at=at).groupby(["at", "draft_tokens_k"])["tpot_s"].transform("first")
    return f.assign(tpot_s=held)


def _switched_off(one: World, f: pd.DataFrame) -> pd.DataFrame:
    """The engine decodes without drafts from some batch on while rows still say K."""
    plain = f["tpot_s"].where(f["draft_tokens_k"] == 0).groupby(f["batch_size"]).transform("first")
    rng = np.random.default_rng([one.seed, 3])
    noisy = plain * np.exp(one.noise * rng.standard_normal(len(f)))
    off = (f["batch_size"] >= sorted(one.batches)[len(one.batches) // 2]) & (
        f["draft_tokens_k"] > 0
    )
    return f.assign(tpot_s=f["tpot_s"].mask(off, noisy))


def _round_as_token(_: World, f: pd.DataFrame) -> pd.DataFrame:
    return _drafting(f, "tpot_s", f["step_time_s"])


def _of_another(**changes: object) -> Change:
    """Rows that ran under other settings than they state."""

    def change(one: World, f: pd.DataFrame) -> pd.DataFrame:
        stated = {**one.deployment.stated, **changes}
        other = replace(one.deployment, stated=stated)
        return f.assign(tpot_s=ran(replace(one, deployment=other))["tpot_s"])

    return change


def _two_models(one: World, f: pd.DataFrame) -> pd.DataFrame:
    stated = {**one.deployment.stated, "model_id": one.deployment.sister}
    other = ran(replace(one, deployment=replace(one.deployment, stated=stated)))
    places = pd.factorize(f["batch_size"])[0]
    return f.assign(tpot_s=f["tpot_s"].where(places % 2 == 0, other["tpot_s"]))


def _own_prompt(one: World, f: pd.DataFrame) -> pd.DataFrame:
    """A whole request's time, its first token included, over its tokens."""
    served = ran(one, "output_tok_per_s")["tpot_s"]
    return f.assign(tpot_s=served + (0.05 + 0.003 * f["batch_size"]) / 20.0)


def _decode_rate_of_prompts(one: World, f: pd.DataFrame) -> pd.DataFrame:
    """A rate that holds prompts, which the file says were cached."""
    return f.assign(tpot_s=ran(one, "output_tok_per_s")["tpot_s"], prompts_cached=1)


def _slow_percentile(_: World, f: pd.DataFrame) -> pd.DataFrame:
    slower = 1.2 + 0.1 * np.log2(f["batch_size"].astype(float))
    return f.assign(tpot_s=f["tpot_s"] * slower)


def _slow_baseline(_: World, f: pd.DataFrame) -> pd.DataFrame:
    return f.assign(tpot_s=f["tpot_s"].where(f["draft_tokens_k"] > 0, 1.5 * f["tpot_s"]))


def _without_drafting(one: World, _: pd.DataFrame) -> pd.DataFrame:
    theta = one.theta.copy()
    theta[[NAMES.index("drafter"), NAMES.index("draft_host")]] = np.log(1e-6)
    return ran(replace(one, theta=theta))


def _input_counted(_: World, f: pd.DataFrame) -> pd.DataFrame:
    share = OUTPUT_TOKENS / (INPUT_TOKENS / 4.0 + OUTPUT_TOKENS)
    return f.assign(tpot_s=f["tpot_s"] * share)


def _throttled(_: World, f: pd.DataFrame) -> pd.DataFrame:
    """Clocks that fall over the run, from the smallest batch to the largest."""
    return f.assign(tpot_s=f["tpot_s"] * np.linspace(1.0, 1.6, len(f)))


KINDS: dict[str, Change] = {
    "half of the GPUs": _gpus(0.5),
    "twice the GPUs": _gpus(2.0),
    "prompts in rates that are called cached": _decode_rate_of_prompts,
    "first token in every token": _own_prompt,
    "K with the bonus token": _k(lambda k: k + 1.0),
    "K less one": _k(lambda k: k - 1.0),
    "largest K for all": _k(lambda k: k.where(k == 0, k.max())),
    "batch of 4 copies": _scaled("batch_size", 4.0),
    "batch of 2 copies": _scaled("batch_size", 2.0),
    "batch of one of 4 ranks": _scaled("batch_size", 0.25),
    "seconds for ms": _scaled("tpot_s", 1e-3),
    "two engines": _every_second,
    "speculation switched off": _switched_off,
    "fp8 called 16 bits": lambda one, f: _of_another(weight_dtype="fp8")(one, f).assign(
        weight_dtype="bf16"
    ),
    "16 bits called fp8": lambda one, f: _of_another(weight_dtype="bf16")(one, f).assign(
        weight_dtype="fp8"
    ),
    "warm-up rows": _warm_up,
    "concurrency never reached": _never_reached,
    "slowest percentile": _slow_percentile,
    "input tokens counted": _input_counted,
    "two models": _two_models,
    "another GPU's name": lambda one, f: f.assign(hardware_id=one.deployment.sibling),
    "another model's name": lambda one, f: f.assign(model_id=one.deployment.sister),
    "eager mode": _eager,
    "all times by 1.6": _scaled("tpot_s", 1.6),
    "half of all times": _scaled("tpot_s", 0.5),
    "round for token": _round_as_token,
    "accepted length without its bonus": _length(lambda a, _: a - 1.0),
    "accepted length of easier text": _length(lambda a, _: 1.0 + 1.4 * (a - 1.0)),
    "accepted length of harder text": _length(lambda a, _: 1.0 + 0.6 * (a - 1.0)),
    "slow baseline": _slow_baseline,
    "client's network": lambda _, f: f.assign(tpot_s=f["tpot_s"] + 0.004),
    "drafting left out": _without_drafting,
    "throttled clocks": _throttled,
}
"""What a file says wrongly, by name."""
_BY_RATES = ("prompts in rates that are called cached",)
_OF_16_BITS = ("fp8 called 16 bits", "16 bits called fp8")
"""Kinds of models whose checkpoint is in 16 bits."""


@cache
def harmful_files() -> tuple[CorpusFile, ...]:
    """Every kind of every deployment, each of a world of its own."""
    out = []
    for i, (kind, change) in enumerate(KINDS.items()):
        for j, deployment in enumerate(DEPLOYMENTS):
            if kind in _OF_16_BITS and not deployment.name.startswith("qwen3"):
                continue
            one = world(1000 + 5 * i + 11 * j, deployment)
            changed = with_rates(change(one, ran(one)))
            columns = ("prompts_cached", "output_tok_per_s") if kind in _BY_RATES else ("tpot_s",)
            truth = one
            if kind == "another GPU's name":
                stated = {**deployment.stated, "hardware_id": deployment.sibling}
                truth = replace(one, deployment=replace(deployment, stated=stated))
            name = f"{kind}: {deployment.name}, {one.seed}"
            out.append(CorpusFile(name, kind, _csv(changed, *columns), "csv", truth))
    return tuple(out)


def with_rates(frame: pd.DataFrame) -> pd.DataFrame:
    """Rates that follow from changed times."""
    return frame.assign(output_tok_per_s=frame["batch_size"].astype(float) / frame["tpot_s"])


@dataclass(frozen=True)
class Outcome:
    """What became of a file: whether its refit is written, and the mean error over the grid with
    the shipped constants and with the refit. NaN where no refit came of it. [-]"""

    file: CorpusFile
    written: bool
    before: float
    after: float
    reasons: tuple[str, ...]

    @property
    def rise(self) -> float:
        """Rise of the mean error. [-]"""
        return self.after - self.before

    @property
    def is_right(self) -> bool:
        """Whether the error falls or hardly rises."""
        return self.rise < 0.01

    @property
    def is_harmful(self) -> bool:
        """Whether the error rises clearly."""
        return self.rise > 0.02


def refit_of(file: CorpusFile) -> RefitResult:
    """The refit of a file, as an upload gets it. Raises AdvisorError."""
    frame = read_upload(f"mine.{file.suffix}", file.data).result.frame
    return refit_chosen(*select_points(frame))


def outcome(file: CorpusFile) -> Outcome:
    """A file read, refitted and held against its truth over batches and K that it does not hold."""
    try:
        result = refit_of(file)
    except AdvisorError as error:
        return Outcome(file, False, np.nan, np.nan, (str(error),))
    before, after = grid_errors(file.truth, result)
    return Outcome(file, not result.reasons_against, before, after, result.reasons_against)


def grid_errors(truth: World, result: RefitResult) -> tuple[float, float]:
    """Mean error of times per token and speedups over the grid, before and after a refit. [-]"""
    batches = tuple(b for b in GRID.tolist() if b not in truth.batches and b <= 128)
    grid = replace(truth, batches=batches, drafts=(0, 1, 2, 3, 5))
    true = ran(grid, noisy=False)
    points, refused = refit_points(
        true.assign(speedup=np.nan, step_time_s=np.nan, output_tok_per_s=np.nan)
    )
    assert not refused, refused
    factors = {item.name: item.factor for item in result.parameters}
    theta = np.log([factors.get(name, 1.0) for name in NAMES])
    theta[LENGTH] = 0.0  # a borrowed length stays the scenario's own
    errors = []
    observed = joined(point.observations for point in points)
    for at in (0.0 * theta, theta):
        times = np.exp(log_predicted(observed, at))
        predicted = with_what_follows(true.assign(tpot_s=times))
        off = [
            np.abs(predicted[name] / true[name] - 1.0).dropna().to_numpy(float)
            for name in ("tpot_s", "speedup")
        ]
        errors.append(float(np.concatenate(off).mean()))
    return errors[0], errors[1]


@dataclass(frozen=True)
class Shares:
    """How many files came out right or harmful, and how many of each are written."""

    right: int
    right_written: int
    harmful: int
    harmful_written: int

    @property
    def text(self) -> str:
        """Both figures side by side."""
        return (
            f"right files written: {self.right_written} of {self.right} "
            f"({self.right_written / max(self.right, 1):.0%}); harmful files written: "
            f"{self.harmful_written} of {self.harmful} "
            f"({self.harmful_written / max(self.harmful, 1):.0%})"
        )


def shares(outcomes: list[Outcome]) -> Shares:
    """Shares over files told as they ran and harmful ones of any kind. A right file whose refit
    fails counts as held back."""
    told = [o for o in outcomes if o.file.kind in FORMS and not (o.rise >= 0.01)]
    harmful = [o for o in outcomes if o.is_harmful]
    return Shares(
        len(told),
        sum(o.written for o in told),
        len(harmful),
        sum(o.written for o in harmful),
    )
