"""`python -m tools.mutation`: mutates the modules of `plan.TARGETS`, runs their tests, prints and
keeps the score."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tools.mutation.generate import Mutant, mutants
from tools.mutation.plan import ALSO, NOT_OF_THE_BEHAVIOUR, ROOT, TARGETS, Target, missing
from tools.mutation.report import Outcome, is_equivalent, score_lines, write_scores
from tools.mutation.runner import LEAST_LIMIT_S, UNIMPORTABLE, Baseline, Failures, baseline, failing

FOUND = ROOT / "test-artifacts" / "mutation"


class Pass:
    """A plugin that runs mutants where pytest would run the collected tests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.failures = Failures()
        self.known: dict[pytest.Item, Baseline] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for target in chosen_targets(self.options.only):
            outcomes = self.run(target, session.items)
            keep(target, outcomes)
            print("\n".join(score_lines({target.module: outcomes})), flush=True)
        return True

    def run(self, target: Target, items: Sequence[pytest.Item]) -> list[Outcome]:
        """What became of each mutant of a module."""
        start = time.perf_counter()
        file = str(ROOT / target.path)
        own = [item for item in items if belongs(item, target.tests)]
        also = [item for item in items if belongs(item, ALSO)]
        made = chosen(mutants(target.module, Path(file).read_text(encoding="utf-8")), self.options)
        before = (
            {one.name: one for one in kept().get(target.module, [])} if self.options.again else {}
        )
        outcomes = []
        for number, (mutant, of) in enumerate(made):
            if before and (mutant.name not in before or is_settled(before[mutant.name], mutant)):
                outcomes += [before[mutant.name]] if mutant.name in before else []
                continue
            killer = self.first(mutant, own, file)
            if killer == UNIMPORTABLE:
                continue
            equivalent = killer is None and is_equivalent(mutant)
            apart = (
                None
                if killer or equivalent or self.options.quick
                else self.first(mutant, also, file)
            )
            outcomes.append(Outcome(mutant.name, mutant.kind, of, killer, apart, equivalent))
            if not number % 50:
                print(
                    (
                        f"{target.module}: {number} of {len(made)}, "
                        f"{time.perf_counter() - start:.0f} s"
                    ),
                    flush=True,
                )
            if killer and is_equivalent(mutant):
                print(f"  noticed, though the table calls it equivalent: {mutant.name}", flush=True)
            if killer is None and not equivalent:
                print(
                    f"  survives{f', seen by {apart}' if apart else ''}: {mutant.name}", flush=True
                )
        return without_unimportable(outcomes, made)

    def first(self, mutant: Mutant, items: Sequence[pytest.Item], file: str) -> str | None:
        """The first test that notices a mutant, of those that run its line, quick ones first."""
        known = {item: self.unchanged(item) for item in items}
        reached = {item for item in items if known[item].lines[file].intersection(mutant.lines)}
        able = [item for item in items if not mutant.in_body or item in reached]
        able.sort(key=lambda item: known[item].seconds)
        limit_s = LEAST_LIMIT_S + 10.0 * sum(known[item].seconds for item in able)
        return failing(mutant, able, limit_s, self.failures) if able else None

    def unchanged(self, item: pytest.Item) -> Baseline:
        """What a test does to the unchanged source, which it has to pass."""
        if item not in self.known:
            self.known[item] = baseline(
                item, [str(ROOT / one.path) for one in TARGETS], self.failures
            )
            if not self.known[item].passed:
                raise SystemExit(f"{item.nodeid} fails on the unchanged source")
        return self.known[item]


def belongs(item: pytest.Item, places: Sequence[str]) -> bool:
    """Whether a test lies in one of the files and looks at behaviour."""
    if any(words in item.name for words in NOT_OF_THE_BEHAVIOUR):
        return False
    for place in places:
        path, _, name = place.partition("::")
        if item.path.is_relative_to(ROOT / path) and item.name.startswith(name):
            return True
    return False


def chosen_targets(only: Sequence[str]) -> list[Target]:
    """Those asked for by a part of their names, else all."""
    return [one for one in TARGETS if not only or any(part in one.module for part in only)]


def chosen(made: Sequence[Mutant], options: argparse.Namespace) -> list[tuple[Mutant, int]]:
    """The mutants to run, each with how many of its kind there are; a seeded sample of a kind with
    more than asked."""
    rng = random.Random(options.seed)
    found = []
    for kind, most in (("value", options.values), ("plumbing", options.plumbing)):
        of_kind = [one for one in made if one.kind == kind]
        taken = of_kind if len(of_kind) <= most else rng.sample(of_kind, most)
        found += [(one, len(of_kind)) for one in sorted(taken, key=lambda one: one.line)]
    return found


def is_settled(outcome: Outcome, mutant: Mutant) -> bool:
    """Whether more tests change nothing: it was noticed, or is in the table of equivalents."""
    return outcome.killer is not None or (outcome.equivalent and is_equivalent(mutant))


def without_unimportable(
    outcomes: Sequence[Outcome], made: Sequence[tuple[Mutant, int]]
) -> list[Outcome]:
    """The outcomes, of as many mutants as there are without those that no module could be imported
    with."""
    run = collections.Counter(mutant.kind for mutant, _ in made)
    of = {mutant.kind: of for mutant, of in made}
    left = collections.Counter(one.kind for one in outcomes)
    return [
        dataclasses.replace(one, of=round(of[one.kind] * left[one.kind] / run[one.kind]))
        for one in outcomes
    ]


def keep(target: Target, outcomes: Sequence[Outcome]) -> None:
    """Leaves the outcomes for `--report`."""
    FOUND.mkdir(parents=True, exist_ok=True)
    text = json.dumps([vars(one) for one in outcomes], indent=1, ensure_ascii=False)
    (FOUND / f"{target.module}.json").write_text(text, encoding="utf-8")


def kept() -> dict[str, list[Outcome]]:
    """The outcomes of all modules that were run."""
    files = {one.module: FOUND / f"{one.module}.json" for one in TARGETS}
    return {
        name: [Outcome(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
        for name, file in files.items()
        if file.exists()
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of module names; default: all of plan.py")
    parser.add_argument(
        "--values", type=int, default=400, help="most mutants of values in a module"
    )
    parser.add_argument(
        "--plumbing",
        type=int,
        default=60,
        help="most mutants of arguments and assignments in a module",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=3,
        help="of the samples; those of 1 and 2 were used to write tests",
    )
    parser.add_argument(
        "--quick", action="store_true", help="survivors are not tried on goldens and explain"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="write the last outcomes into docs/test-results.md, run nothing",
    )
    parser.add_argument(
        "--again", action="store_true", help="only what survived last time, after tests were added"
    )
    options = parser.parse_args()
    if gone := missing():
        raise SystemExit("tools/mutation/plan.py names what is not there:\n" + "\n".join(gone))
    if unknown := [part for part in options.only if not any(part in one.module for one in TARGETS)]:
        raise SystemExit(f"no module of the plan is named {', '.join(unknown)}")
    if options.report:
        write_scores(ROOT / "docs" / "test-results.md", kept())
        return 0
    settings.register_profile(
        "mutation",
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("mutation")
    files = {
        place.partition("::")[0]
        for one in chosen_targets(options.only)
        for place in (*one.tests, *ALSO)
    }
    with tempfile.TemporaryDirectory() as folder:
        one_pass = Pass(options)
        quiet = [
            "-q",
            "-s",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            f"--basetemp={folder}/pytest",
        ]
        there = sorted(str(ROOT / place) for place in files)
        return int(pytest.main([*quiet, *there], plugins=[one_pass, one_pass.failures]))


if __name__ == "__main__":
    sys.exit(main())
