"""Which modules are mutated, and which tests are to notice: those of the behaviour, that mirror the
module."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALSO = (
    "tests/predict/test_predictions_pinned.py::test_pinned_predictions_have_not_moved_unnoticed",
    "tests/show/test_explain_steps.py",
)
"""Tried on what survives: pinned predictions, and the derivation that `explain` shows. Counted
apart from the score."""

NOT_OF_THE_BEHAVIOUR = (
    "in_a_law_s_docstring",
    "law_s_docstring_names",
    "left_out_of_what_is_shown",
    "what_is_shown_has",
    "a_law_in_latex",
    "model_page",
    "arithmetic_stands_outside",
    "a_planted_breach",
    "processes_give_what_one_gives",
)
"""Parts of the names of tests that may not kill: they read text or source, run the command line, or
take seconds."""


@dataclass(frozen=True)
class Target:
    """One module and the files or folders of tests that own its behaviour."""

    module: str
    tests: tuple[str, ...]

    @property
    def path(self) -> str:
        """Where its source lies, from the top of the checkout."""
        return f"{self.module.replace('.', '/')}.py"


TARGETS = (
    Target(
        "advisor.physics.touched_experts",
        ("tests/physics/test_touched_experts.py", "tests/catalog/test_routing_presets.py"),
    ),
    Target(
        "advisor.physics.routing_trace",
        (
            "tests/physics/test_touched_experts.py",
            "tests/measured/test_ingest_traces.py",
            "tests/hostile/test_traces.py::test_experts_that",
        ),
    ),
    Target("advisor.physics.laws.kernels", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.laws.attention", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.laws.rounds", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.laws.links", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.step", ("tests/physics/test_step.py",)),
    Target("advisor.physics.acceptance", ("tests/physics/test_acceptance.py",)),
    Target(
        "advisor.physics.bands",
        (
            "tests/physics/test_bands.py",
            "tests/answers/test_explore_entrants.py",
            "tests/answers/test_explore_leaderboard.py",
        ),
    ),
    Target(
        "advisor.predict.curve",
        (
            "tests/predict/test_curve.py",
            "tests/predict/test_tiers.py",
            "tests/answers/test_best_k.py",
        ),
    ),
    Target("advisor.answers.best_k", ("tests/answers/test_best_k.py",)),
    Target(
        "advisor.answers.schedule",
        (
            "tests/answers/test_schedule.py",
            "tests/answers/test_by_batch.py",
            "tests/answers/test_explore_changes.py::test_a_change_that_gains_less_than_a_fiftieth",
        ),
    ),
    Target(
        "advisor.answers.advice",
        (
            "tests/answers/test_advice.py",
            "tests/show/test_explain_steps.py::test_the_parts_of_a_band",
        ),
    ),
    Target("advisor.answers.by_batch", ("tests/answers/test_by_batch.py",)),
    Target(
        "advisor.physics.expert_ranks",
        ("tests/physics/test_expert_ranks.py", "tests/answers/test_expert_ranks.py"),
    ),
    Target(
        "advisor.physics.expert_loads",
        (
            "tests/physics/test_expert_loads.py",
            "tests/physics/test_expert_ranks.py",
            "tests/answers/test_expert_ranks.py",
        ),
    ),
    Target("advisor.predict.spend", ("tests/predict/test_spend.py",)),
    Target("advisor.predict.plain_sweep", ("tests/predict/test_plain_sweep.py",)),
    Target("advisor.predict.prefill", ("tests/predict/test_prefill.py",)),
    Target(
        "advisor.answers.explore.cells",
        (
            "tests/answers/test_explore_cells.py",
            "tests/answers/test_explore_context.py",
            "tests/answers/test_explore_questions.py",
            "tests/show/test_live_answer.py",
        ),
    ),
    Target(
        "advisor.answers.explore.leaderboard",
        ("tests/answers/test_explore_leaderboard.py", "tests/answers/test_explore_entrants.py"),
    ),
    Target("advisor.answers.own_gap", ("tests/answers/test_own_gap.py",)),
    Target(
        "advisor.measured.ingest.derived",
        (
            "tests/measured/test_ingest_derived.py",
            "tests/measured/test_ingest_read.py",
            "tests/measured/test_ingest_side_by_side.py",
        ),
    ),
    Target(
        "advisor.measured.ingest.side_by_side",
        (
            "tests/measured/test_ingest_side_by_side.py",
            "tests/measured/test_ingest_remap.py",
            "tests/measured/test_ingest_derived.py",
        ),
    ),
    Target(
        "advisor.show.report.paper",
        (
            "tests/show/test_report_paper.py",
            "tests/show/test_report_document.py::test_every_table_cell",
            "tests/show/test_report_document.py::test_the_pdf_is_tagged",
            "tests/show/test_report_formats.py::test_pdf_shows_the_payload_as_text",
            "tests/show/test_figures.py",
        ),
    ),
    Target(
        "advisor.show.charts.maps", ("tests/show/test_charts_maps.py", "tests/show/test_figures.py")
    ),
)


def missing(targets: tuple[Target, ...] = TARGETS) -> list[str]:
    """What the plan names and the checkout does not have: a module that was merged away, a file of
    tests."""
    named = [(one.module, place) for one in targets for place in (one.path, *one.tests)]
    named += [("ALSO", place) for place in ALSO]
    return [
        f"{name}: no {place}"
        for name, place in named
        if not (ROOT / place.partition("::")[0]).exists()
    ]
