"""Which modules are mutated, and which tests are to notice: those of the behaviour, that mirror the module."""

from __future__ import annotations

from dataclasses import dataclass

ALSO = (
    "tests/predict/test_predictions_pinned.py::test_pinned_predictions_have_not_moved_unnoticed",
    "tests/show/test_explain_steps.py",
)
"""Tried on what survives: pinned predictions, and the derivation that `explain` shows. Counted apart from the score."""

NOT_OF_THE_BEHAVIOUR = (
    "in_a_law_s_docstring",
    "law_s_docstring_names",
    "left_out_of_what_is_shown",
    "what_is_shown_has",
    "a_law_in_latex",
    "model_page",
    "arithmetic_stands_outside",
    "planted",
    "the_command_prints",
    "recognised_by_its_content",
    "intervals_hold_the_truth",
)
"""Parts of the names of tests that may not kill: they read text or source, run the command line, or take seconds."""


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
    Target("advisor.physics.touched_experts", ("tests/physics/test_touched_experts.py",)),
    Target(
        "advisor.physics.routing_trace",
        ("tests/physics/test_touched_experts.py", "tests/measured/test_ingest_traces.py"),
    ),
    Target("advisor.physics.laws.kernels", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.laws.attention", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.laws.rounds", ("tests/physics/test_laws.py",)),
    Target("advisor.physics.step", ("tests/physics/test_step.py",)),
    Target("advisor.physics.acceptance", ("tests/physics/test_acceptance.py",)),
    Target("advisor.physics.bands", ("tests/physics/test_bands.py",)),
    Target("advisor.predict.curve", ("tests/predict/test_curve.py", "tests/answers/test_best_k.py")),
    Target("advisor.answers.best_k", ("tests/answers/test_best_k.py",)),
    Target(
        "advisor.answers.schedule",
        (
            "tests/answers/test_schedule.py",
            "tests/answers/test_explore_changes.py::test_a_change_that_gains_less_than_a_fiftieth",
        ),
    ),
    Target("advisor.answers.advice", ("tests/answers/test_advice.py",)),
)
