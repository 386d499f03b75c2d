"""The library in a notebook: a scenario, its answer, own measurements, a refit, an export, a
grid."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.answers.advice import Advice
from advisor.answers.advice import advise as advise_scenario
from advisor.answers.best_k import range_values
from advisor.catalog.hardware import hardware_named
from advisor.physics.hardware import gpus_of_node, load_hardware
from advisor.predict.scenario import (
    Scenario,
    build_scenario,
    drafted,
    named_model,
    split_gpus,
    usual_tensor_parallel,
)
from advisor.prediction import AdvisorError
from advisor.profiles import read_file, unknown_id
from advisor.show.phrases.notes import checked_by, note_texts
from advisor.show.words.answer import short_answer

if TYPE_CHECKING:
    import pandas as pd

    from advisor.answers.engines.config import EngineExport
    from advisor.measured.ingest.rows import Measured
    from advisor.measured.refit_result import RefitResult


class ShownAnswer(Advice):
    """An answer that a notebook shows as a table and `print` as the terminal does."""

    @property
    def warnings(self) -> list[str]:
        """Sentences to know before trusting it, the heaviest first."""
        return note_texts(self.notes)

    def __str__(self) -> str:
        answer = short_answer(self)
        return "\n".join([*answer.head, *answer.table.lines(), *answer.tail])

    def _repr_html_(self) -> str:
        answer = short_answer(self)
        lines = [html.escape(line) for line in answer.head if line]
        cells = answer.table.frame.to_html(index=False, border=0)
        tail = html.escape("\n".join(answer.tail[1:]))
        return f"<b>{lines[0]}</b><br>{' '.join(lines[1:])}{cells}<pre>{tail}</pre>"


def _check(value: Any, kind: Any, expected: str) -> None:
    """Raise AdvisorError with what is expected for a value of another kind."""
    if not isinstance(value, kind):
        raise AdvisorError(f"{expected}; got {type(value).__name__}")


Answer = ShownAnswer
"""Its public name: a report's document has an Answer of its own."""


def scenario(model: str, gpus: str = "", **given: Any) -> Scenario:
    """A scenario from a model's id or Hugging Face name and GPUs as `8xH200`.

    given : the fields of Scenario. What is left open is taken as page and command line take it.
        Raises AdvisorError
    with what is wrong.
    """
    settings = given
    if gpus:
        _check(gpus, str, "gpus says how many of which kind, as in gpus='8xH200'")
        n_gpus, name = split_gpus(gpus)
        settings = {"n_gpus": n_gpus, "hardware_id": hardware_named(name)} | given
        if not {"tensor_parallel", "expert_parallel"} & settings.keys():
            node = gpus_of_node(load_hardware(str(settings["hardware_id"])))
            settings["tensor_parallel"] = usual_tensor_parallel(n_gpus, node)
    values = named_model(model) | settings
    return build_scenario(**drafted(values, []) | values)


def advise(question: Scenario | str, gpus: str = "", **given: Any) -> Answer:
    """The answer to a scenario, or to a model with its GPUs and the fields of `scenario`."""
    _check(question, str | Scenario, "advise takes a scenario, or a model's name with its GPUs")
    full_scenario = scenario(question, gpus, **given) if isinstance(question, str) else question
    advice = advise_scenario(full_scenario)
    return Answer(**{field.name: getattr(advice, field.name) for field in fields(advice)})


def schedule(answer: Advice) -> pd.DataFrame:
    """K by batch: one row for each range of batches."""
    import pandas as pd

    _check(answer, Advice, "schedule takes an answer, as in schedule(advise(scenario))")
    return pd.DataFrame([range_values(item) for item in answer.k_by_batch])


def export(
    answer: Advice, engine: str = "", folder: Path | str | None = None, **names: str
) -> EngineExport:
    """Configuration and launch line of the answer's schedule, written into `folder` where one is
    given.

    names : draft_model and served_model, where no profile knows them.
    """
    from advisor.answers.engines.export import export_scenario, write_export

    _check(answer, Advice, "export takes an answer, as in export(advise(scenario))")
    chosen = engine or answer.scenario.engine
    capture = answer.decided.capture
    engine_export = export_scenario(
        answer.setup,
        answer.to_serve,
        chosen,
        capture=capture,
        **names,  # type: ignore[arg-type]
    )
    if folder is not None:
        write_export(engine_export, Path(folder), checked_by(engine_export.notes))
    return engine_export


def ingest(path: Path | str, columns: dict[str, str] | None = None, **given: str) -> Measured:
    """A benchmark result as rows of canonical columns.

    columns : the file's own headers, {theirs: ours}. given : what the file leaves out, as in
        hardware_id="h200-sxm".
    """
    from advisor.measured.ingest.read import read_upload
    from advisor.measured.ingest.rows import resolve_names, with_given
    from advisor.measured.ingest.upload import MAX_BYTES

    file = Path(path)
    data = read_file(file, MAX_BYTES, "a benchmark result")
    rows = with_given(read_upload(file.name, data, columns=columns or {}), given)
    return resolve_names(rows).result


def fit(result: Measured, hardware_id: str | None = None, engine: str | None = None) -> RefitResult:
    """A refit to the rows of one accelerator and engine. `refit_text` of it is what a scenario
    takes as `refit`."""
    from advisor.measured.ingest.rows import Measured
    from advisor.measured.refit import refit_chosen, select_points

    _check(result, Measured, "fit takes what ingest has read, as in fit(ingest('file.csv'))")
    points, refused = select_points(
        result.frame, hardware_id=hardware_id, engine=engine, acceptance=None
    )
    return refit_chosen(points, refused, result.header_of)


def refit_sentence(result: RefitResult) -> str:
    """Sentence on what a refit changes and how well it fits."""
    from advisor.show.words.refit import sentence

    return sentence(result)


def refit_text(result: RefitResult) -> str:
    """The refit as a scenario carries it. Raises AdvisorError where the data speak against it."""
    from advisor.catalog.adjustment import write_adjustment
    from advisor.measured.refit import adjustment_of
    from advisor.measured.refit_result import RefitResult

    _check(result, RefitResult, "refit_text takes what fit gave")
    if result.reasons_against:
        raise AdvisorError(" ".join(result.reasons_against))
    return write_adjustment(adjustment_of(result))


def explore(base: Scenario, batches: Sequence[int] = (), **axes: Sequence[Any]) -> pd.DataFrame:
    """Predictions over every combination of fields, each batch and K.

    A row that cannot be has its reason alone.

    axes : values by field, as in tensor_parallel=[4, 8].
    """
    from advisor.answers.explore.cells import sweep_rows

    _check(base, Scenario, "explore takes a scenario")
    if unknown := [name for name in axes if name not in Scenario.model_fields]:
        raise unknown_id(
            unknown[0],
            "fields of a scenario",
            list(Scenario.model_fields),
            "docs/scenarios.md lists them",
        )
    fixed = base.model_dump(exclude={"batch_size", *axes}, exclude_none=True)
    combinations = [
        fixed | dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    return sweep_rows(combinations, list(batches) or [base.batch_size])
