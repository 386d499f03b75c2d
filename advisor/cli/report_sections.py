"""Sections of a report that need frames, fonts and the answers of other questions: the live file
has none."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from advisor.answers.advice import Advice
from advisor.answers.diagnosis.diagnose import diagnose
from advisor.answers.diagnosis.runs import UserFile
from advisor.answers.explore.cells import context_map
from advisor.answers.explore.changes import next_steps
from advisor.answers.explore.entrants import ModelFilter, question_of
from advisor.answers.explore.leaderboard import leaderboard
from advisor.answers.explore.questions import view_of as sweep_view
from advisor.answers.explore.sweep_files import read_sweep_files
from advisor.cli.advise import spend_asked
from advisor.cli.data import counted_ranks
from advisor.cli.measured_files import read_bytes
from advisor.measured.published import published_ids
from advisor.measured.refit_result import Errors
from advisor.predict.scenario import Scenario
from advisor.prediction import AdvisorError
from advisor.show.report.build import Report, applicable_errors, build_report
from advisor.show.words.diagnosis import DiagnosisView, view_of


def report_of(advice: Advice, day: dt.date, asked: Mapping[str, Any]) -> Report:
    """The report on an advice, with the sections that the command's options ask for."""
    ranks = counted_ranks(advice.scenario) if asked["ranks"] else None
    spend = spend_asked(advice, *(asked[name] for name in ("usd_per_hour", "power_log", "power_k")))
    return build_report(advice, day, spend=spend, ranks=ranks, **_sections(advice, asked))


def _sections(advice: Advice, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that options add or leave out, and the names for the launch lines."""
    scenario = advice.scenario
    sections = {name: asked[name] for name in ("served_model", "draft_model")}
    if not asked["no_checks"]:
        sections["validation"] = _known_errors(advice)
    if not asked["brief"]:
        sections |= {
            "steps": next_steps(advice),
            "over_context": context_map(scenario),
            "k_by_context": advice.decided.at_contexts,
        }
    if asked["models"]:
        wanted = ModelFilter(min_total_params=asked["min_total_params"])
        sections["board"] = leaderboard(
            replace(question_of(scenario, asked["usd_per_hour"]), wanted=wanted)
        )
    if asked["measured"]:
        sections["diagnosis"] = _diagnosis(asked["measured"], scenario)
    if asked["swept"]:
        sections["swept"] = sweep_view(
            read_sweep_files(asked["swept"]), scenario.max_tpot_ms, scenario.model_dump()
        )
    return sections


def _diagnosis(files: Sequence[Path], scenario: Scenario) -> DiagnosisView:
    """The files of a measured run, diagnosed; the scenario says what they leave out of place, model
    and drafter."""
    values = {
        "hardware_id": scenario.hardware_id,
        "model_id": scenario.model_id,
        "gpu_count": str(
            max(scenario.tensor_parallel, scenario.expert_parallel)
        ),  # batch and speed are per copy
        "tensor_parallel": str(scenario.tensor_parallel),
        "expert_parallel": str(scenario.expert_parallel),
        "drafter": scenario.drafter_id,
    }
    config = scenario.model_config_json
    configs = {scenario.model_id: config} if config is not None else {}
    return view_of(
        diagnose(
            [UserFile(path.name, read_bytes(path)) for path in files],
            configs=configs,
            otherwise=values,
        )
    )


def _known_errors(advice: Advice) -> Mapping[str, Errors] | None:
    """Errors on published points; None without the shipped rows, which the report then says."""
    try:
        return applicable_errors(
            *published_ids(advice.scenario), advice.recommendation.speedup.tier
        )
    except AdvisorError as error:
        click.echo(f"note: no published measurements in this report: {error}", err=True)
        return None
