"""A user's own measured rows beside the curve of the very model and accelerator that they were
measured on.

Those without drafts are a plain sweep, which a scenario can carry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from advisor.catalog.hardware import own_digest
from advisor.catalog.models import config_digest
from advisor.measured.ingest.columns import DOCUMENT_OF, Numbers, lacks_document, true_in
from advisor.measured.row_questions import copies_sharing
from advisor.predict.plain_sweep import LEAST_BATCHES, MOST_BATCHES, write_sweep
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError, Array
from advisor.text import counted

_ALIKE = (
    "batch_size",
    "tensor_parallel",
    "engine",
    "engine_version",
    "weight_dtype",
    "kv_dtype",
    "context_tokens",
)
_RAN_ALIKE = ("captured", "async_scheduling", "routing")
"""What a step and a round have in common when their times are compared; empty cells are a value of
their own."""

_CONTEXT_ALIKE = 1.5
"""Choice of this project: rows whose context lies further than this from the scenario's are said
to. [-]"""


def rows_of(frame: pd.DataFrame, scenario: Scenario) -> pd.DataFrame:
    """Rows of a points frame measured on a scenario's accelerators and model. The batch is that of
    one copy.

    A user's own models and accelerators are compared by their documents, whatever their names.
    Index as in `frame`.
    """
    mask = _same(frame, "hardware_id", own_digest, scenario) & _same(
        frame, "model_id", config_digest, scenario
    )
    rows = frame[mask].dropna(subset=["batch_size"])
    copies = copies_sharing(rows)  # the curve is that of one copy
    gpus = rows["gpu_count"].fillna(scenario.n_gpus)
    placed = true_in((gpus == scenario.n_gpus) | (gpus == copies * scenario.n_gpus))
    return rows.assign(batch_size=rows["batch_size"] / copies)[placed]


def _same(
    frame: pd.DataFrame, name: str, digest: Callable[[str], str], scenario: Scenario
) -> np.ndarray:
    document = DOCUMENT_OF[name]
    text = getattr(scenario, document)
    if text is None:
        mask = true_in(frame[name] == getattr(scenario, name))
        return mask & lacks_document(frame, name)
    own_digest_text = digest(text)
    alike = {
        each
        for each in frame[document].dropna().unique()
        if each and digest(each) == own_digest_text
    }
    return frame[document].isin(alike).to_numpy(dtype=bool)


def with_rounds(rows: pd.DataFrame, accepted_length: Array) -> pd.DataFrame:
    """Points with the speedup of rounds timed beside plain steps of the same batch, where none is
    stated.

    A timed round says what K costs and not what is accepted, so that its speedup is T_plain /
    T_round times the accepted length of the question, which stands in the row.

    accepted_length : of each K from 0. [tokens]
    """
    out = rows.copy(deep=False)
    keys = [name for name in (*_ALIKE, *_RAN_ALIKE) if name in rows]
    numbers = Numbers(rows)
    k = numbers["draft_tokens_k"]
    step_s = numbers["step_time_s"]
    plain = (
        rows.assign(plain_s=step_s)[(k == 0) & np.isfinite(step_s)]
        .groupby(keys, dropna=False)["plain_s"]
        .median()
    )
    if plain.empty:
        return out
    plain_s = rows[keys].merge(plain.reset_index(), on=keys, how="left")["plain_s"].to_numpy(float)
    length = np.array(
        [accepted_length[int(n)] if 0 < n < len(accepted_length) else np.nan for n in k]
    )
    ratio = plain_s / step_s * length
    timed = rows["speedup"].isna().to_numpy() & np.isfinite(ratio)
    out["speedup"] = rows["speedup"].astype(float).mask(timed, ratio)
    out["accepted_length"] = rows["accepted_length"].astype(float).mask(timed, length)
    return out


def unlike(rows: pd.DataFrame, scenario: Scenario) -> tuple[str, ...]:
    """Words on what rows ran with and a scenario does not: routing, engine, context, free
    drafts."""
    differences = []
    routed = sorted(
        {str(name) for name in rows["routing"].dropna()} - {"natural", scenario.routing}
    )
    if routed:
        differences.append(f"{', '.join(routed)} routing")
    differences += sorted({str(name) for name in rows["engine"].dropna()} - {scenario.engine})
    context = float(rows["context_tokens"].astype(float).median())
    if abs(np.log(context / scenario.context_tokens)) > np.log(_CONTEXT_ALIKE):
        differences.append(f"context {context:,.0f}")
    if (rows["drafter"] == "random").any() and scenario.drafter_id != "none":
        differences.append("drafts that cost no time")
    return *differences, *carried_from(rows["notes"])


def carried_from(notes: Iterable[object]) -> list[str]:
    """Words of notes on the depths of a model that rows were carried from."""
    matches = (_LINE.search(str(note)) for note in notes)
    return sorted({match[0] for match in matches if match})


_LINE = re.compile(r"line through the first \d+ and \d+ of \d+ layers")


def measured_cells(rows: pd.DataFrame) -> dict[tuple[float, int], dict[str, float]]:
    """Medians of `step_time_s` and `speedup` by batch and K of rows measured there. [s], [-]"""
    complete = rows.dropna(subset=["batch_size", "draft_tokens_k"])
    medians = complete.groupby(["batch_size", "draft_tokens_k"])[
        ["step_time_s", "speedup"]
    ].median()
    return {
        (float(batch), int(k)): {name: float(value) for name, value in cell.items()}
        for (batch, k), cell in medians.astype(float).iterrows()
    }


def plain_sweep_of(frame: pd.DataFrame, scenario: Scenario) -> str:
    """Sweep of plain decoding (K = 0) in a points frame, as a scenario carries it.

    Equal batches count by their median.

    Rows that do not say where they were measured count as the scenario's.
    Raises AdvisorError saying what was found where these are not enough batches.
    """
    rows = rows_of(_placed(frame, scenario), scenario)
    rows = rows[true_in(rows["draft_tokens_k"].eq(0))]
    context = rows["context_tokens"].fillna(scenario.context_tokens)
    same = rows["engine"].eq(scenario.engine) & np.isclose(
        context.astype(float), scenario.context_tokens, rtol=0.5
    )
    others = "".join(
        f"; there are rows at context {each:,.0f}"
        for each in context[~np.asarray(same, bool)].unique()
    )
    rows = rows[true_in(same)]
    times = rows["tpot_s"].fillna(rows["step_time_s"]).astype(float)
    steps = times.groupby(rows["batch_size"].astype(float)).median().dropna()
    if not LEAST_BATCHES <= len(steps) <= MOST_BATCHES:
        raise AdvisorError(
            f"{counted(len(steps), 'batch', 'batches')} of plain decoding (draft_tokens_k 0, with "
            f"tpot_s or step_time_s) were measured on {scenario.hardware_id} with "
            f"{scenario.model_id}, {scenario.engine}, {counted(scenario.n_gpus, 'GPU')} at about "
            f"{scenario.context_tokens:,} tokens of context; a plain sweep has {LEAST_BATCHES} to "
            f"{MOST_BATCHES}{others}"
        )
    return write_sweep(vars(scenario), steps.index.tolist(), steps.tolist())


def _placed(frame: pd.DataFrame, scenario: Scenario) -> pd.DataFrame:
    """Points whose rows without a place are the scenario's, and its own by name where they hold no
    document."""
    out = frame.assign(engine=frame["engine"].fillna(scenario.engine))
    for column, document in DOCUMENT_OF.items():
        out[column] = out[column].fillna(getattr(scenario, column))
        if (text := getattr(scenario, document)) is not None:
            meant = lacks_document(out, column) & out[column].eq(
                getattr(scenario, column)
            ).to_numpy(dtype=bool)
            documents = (
                out[document] if document in out else pd.Series(None, index=out.index, dtype=object)
            )
            out[document] = documents.astype(object).mask(meant, text)
    return out
