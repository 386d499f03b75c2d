"""Result files that are right: twenty, ten of them rows that others measured and published, in the
forms people use.

CONSTRUCTED is the model's own predictions under constants drawn from their priors
(`wrong_readings.synthetic`), or how published rows are written down; REAL are published rows as
their authors would upload them: the largest file of each source, whatever is predicted for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache

import pandas as pd

from advisor.measured.points import judged_rows
from tests.hostile.wrong_readings import (
    DEPLOYMENTS,
    REAL,
    File,
    as_own_rows,
    file_of,
    published,
    synthetic,
)

STATES = (
    "hardware_id",
    "gpu_count",
    "tensor_parallel",
    "engine",
    "model_id",
    "drafter",
    "batch_size",
)
_NUMBERS = ("draft_tokens_k", "accepted_length", "tpot_s")
SOURCES = (
    "DSpark serving validation on A30 (vLLM 0.26)",
    "InferenceX application: benchmark fixtures, DeepSeek-R1",
    "ROCm/ATOM recipe for DeepSeek-V4",
    "TensorRT-LLM technical blog 1",
    "manojarulmurugan: factorial of quantisation, KV precision and EAGLE-3 on A100",
    "rtx6kpro wiki: GLM-5 on RTX PRO 6000",
    "rtx6kpro wiki: Qwen3.5-397B inference throughput, vLLM",
    "seonjinn/RL: dynamic speculation in synchronous rollouts, profile grid on GB200",
)
"""Sources with eight rows or more of one deployment, one of each laboratory or machine."""


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Rows as a benchmark's author would keep them: plain names, times in ms, nothing that is not
    stated."""
    return [
        {k: v for k, v in row.items() if pd.notna(v)}
        for row in frame[[*STATES, *_NUMBERS]].to_dict("records")
    ]


def _serve(frame: pd.DataFrame) -> bytes:
    """Lines of `vllm bench serve --save-result --append-result` with the run's settings as
    metadata."""
    lines = []
    for row in _rows(frame):
        batch = float(str(row["batch_size"]))
        tpot = float(str(row["tpot_s"]))
        lines.append(
            {
                "backend": "vllm",
                "model_id": "Qwen/Qwen3-30B-A3B",
                "gpu": row["hardware_id"],
                "num_gpus": row["gpu_count"],
                "tp": row["tensor_parallel"],
                "drafter": row["drafter"],
                "spec_k": row["draft_tokens_k"],
                "request_rate": "inf",
                "max_concurrency": batch,
                "mean_tpot_ms": 1e3 * tpot,
                "output_throughput": batch / tpot,
                "duration": 60.0,
                "completed": 100,
                "total_token_throughput": 6 * batch / tpot,
                "total_input_tokens": 100_000,
                "total_output_tokens": 20_000,
                "spec_decode_acceptance_length": row.get("accepted_length"),
            }
        )
    return "\n".join(map(json.dumps, lines)).encode()


def _nested(frame: pd.DataFrame) -> bytes:
    """A home-made document: what holds of all around the list, metrics within each run, units in
    the cells."""
    setup = {name: _rows(frame)[0][name] for name in STATES[:-1]}
    runs = [
        {
            "users": row["batch_size"],
            "K": row["draft_tokens_k"],
            "metrics": {
                "tpot": f"{1e3 * float(str(row['tpot_s'])):.6g} ms",
                "al": row.get("accepted_length"),
            },
        }
        for row in _rows(frame)
    ]
    return json.dumps({"setup": setup, "runs": runs}).replace('"users"', '"concurrency"').encode()


def _wide(frame: pd.DataFrame) -> bytes:
    """A row for each batch, the time without drafts beside the one with them."""
    cells = frame.get("_cell", frame["batch_size"].astype(str))
    plain = frame[frame["draft_tokens_k"] == 0].groupby(cells)["tpot_s"].first()
    rows = frame[frame["draft_tokens_k"] > 0].drop_duplicates(["batch_size", "accepted_length"])
    wide = rows[[*STATES, "draft_tokens_k", "accepted_length"]].assign(
        **{
            "TPOT (ms), no spec": 1e3 * cells.loc[rows.index].map(plain),
            "TPOT (ms), spec": 1e3 * rows["tpot_s"],
        }
    )
    return wide.to_csv(index=False).encode()


def _semicolons(frame: pd.DataFrame) -> bytes:
    """A spreadsheet's export where a comma marks decimals."""
    return pd.DataFrame(_rows(frame)).to_csv(index=False, sep=";", decimal=",").encode()


def _markdown(frame: pd.DataFrame) -> bytes:
    """A table as it is pasted into an issue."""
    table = pd.DataFrame(_rows(frame)).astype(object).where(lambda cells: cells.notna(), "")
    head = [list(table.columns), ["---"] * len(table.columns)]
    return "\n".join(
        f"| {' | '.join(map(str, row))} |" for row in [*head, *table.to_numpy().tolist()]
    ).encode()


def _gpu_and_k_in_words(frame: pd.DataFrame) -> bytes:
    """Plain names of the machine and the model, times in seconds."""
    table = pd.DataFrame(_rows(frame)).rename(
        columns={"hardware_id": "GPU", "draft_tokens_k": "num_speculative_tokens"}
    )
    return (
        table.assign(GPU="NVIDIA H200", model_id="Qwen/Qwen3-30B-A3B", batch_kind="batch")
        .to_csv(index=False)
        .encode()
    )


FORMS: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "vllm bench serve": _serve,
    "home-made JSON": _nested,
    "wide table": _wide,
    "semicolons and decimal commas": _semicolons,
    "Markdown table": _markdown,
    "plain names, seconds": _gpu_and_k_in_words,
}


@cache
def right_files() -> dict[str, File]:
    """All twenty, by name; those that are `real` are published rows."""
    found = {
        one.name: file_of(one.name, synthetic(one), synthetic(one), one.ratios)
        for one in DEPLOYMENTS
    }
    rows = synthetic(DEPLOYMENTS[0])
    for form, written in FORMS.items():
        name = f"{DEPLOYMENTS[0].name}, as a {form}"
        found[name] = File(name, written(rows), file_of(name, rows, rows).truth)
    found |= {name: file_of(name, published(*of), published(*of)) for name, of in REAL.items()}
    files = published_files()
    for source in SOURCES:
        name = max(
            (name for name in files if name.startswith(f"{source} / ")),
            key=lambda name: len(files[name].truth),
        )
        found[name] = files[name]
    return found


def is_real(name: str) -> bool:
    """Whether its rows were measured and published by others."""
    return name in REAL or name.split(" / ")[0] in SOURCES


@cache
def published_files() -> dict[str, File]:
    """Published rows by source and place, as their authors would upload them: taken as right. None
    set apart."""
    found = judged_rows()
    found = found[(found["defect"] == "") & (found["hardware_id"] != "not-stated")]
    keys = [
        "source_title",
        "hardware_id",
        "gpu_count",
        "engine",
        "model_id",
        "weight_dtype",
        "drafter",
        "dataset",
    ]
    named = ((" / ".join(map(str, key)), rows) for key, rows in found.groupby(keys, dropna=False))
    return {
        name: file_of(name, rows, rows)
        for name, rows in ((n, as_own_rows(r)) for n, r in named if len(r) >= 4)
    }
