"""One K, one chance, one speedup and one time per token in every medium, over scenarios drawn at
random."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from advisor.answers import outcome as outcome_module
from advisor.answers.advice import Advice, advise
from advisor.answers.best_k import k_running_at
from advisor.answers.engines.export import export_scenario
from advisor.answers.explore.cells import sweep_rows
from advisor.answers.explore.entrants import ModelFilter, RankQuestion, one_load
from advisor.answers.explore.leaderboard import leaderboard
from advisor.answers.outcome import Outcome, outcome_of
from advisor.answers.own_gap import as_measured, own_schedule
from advisor.catalog.hardware import hardware_ids
from advisor.catalog.models import model_ids
from advisor.cli.advise import advice_document
from advisor.physics.draft import drafter_ids
from advisor.predict.load import load_setup
from advisor.predict.scenario import Scenario, nearest_acceptance, usual_drafter
from advisor.prediction import AdvisorError
from advisor.show.live_answer import launch
from advisor.show.report.blocks import Listing, Paragraph
from advisor.show.report.build import build_report
from advisor.show.report.formats import render
from advisor.show.report.layout import brief_sections, brief_title, key_figures
from advisor.show.words.answer import short_answer

DATE = dt.date(2026, 1, 1)
CHUNKS = 10
GPUS = (1, 1, 2, 4, 8, 8, 16)
ENGINES = ("vllm", "vllm", "sglang", "sglang", "trtllm", "other")
PLACEHOLDERS = {"served_model": "MODEL", "draft_model": "DRAFT"}


@dataclass(frozen=True)
class Drawn:
    """A question, its answer and its record."""

    advice: Advice
    outcome: Outcome


def drawn(seed: int, n: int) -> Iterator[Drawn]:
    """Answers to `n` scenarios drawn over all that is shipped; those that cannot be are redrawn."""
    rng = np.random.default_rng(seed)
    left = n
    while left:
        scenario = _scenario(rng)
        has_own = rng.random() < 0.2 and scenario.drafter_id != "none"
        own = _own(rng, scenario) if has_own else None
        may_be_too_large = rng.random() < 0.15
        try:
            setup = load_setup(scenario)
            if setup.memory.largest_batch < scenario.batch_size and not may_be_too_large:
                continue
            answer = advise(scenario)
        except AdvisorError:
            continue
        left -= 1
        schedule = own_schedule(own)
        advice = as_measured(answer, schedule)
        runs = (
            []
            if own is None
            else list(own[["batch_size", "n_draft", "speedup"]].itertuples(index=False, name=None))
        )
        yield Drawn(advice, outcome_of(advice, runs, follows_own=bool(schedule)))


def _scenario(rng: np.random.Generator) -> Scenario:
    model_id = str(rng.choice(model_ids()))
    usual = usual_drafter(model_id)
    drafter_id = str(rng.choice([usual, usual, usual, usual, *drafter_ids()]))
    gpus = int(rng.choice(GPUS))
    k = int(rng.integers(1, 6))
    length = 1.0 + k * rng.uniform(0.05, 0.95)
    is_measured = rng.random() < 0.3
    limit_ms = round(float(np.exp(rng.uniform(np.log(3), np.log(80)))), 1)
    return Scenario(
        model_id=model_id,
        hardware_id=str(rng.choice(hardware_ids())),
        n_gpus=gpus,
        tensor_parallel=min(gpus, 8),
        drafter_id=drafter_id,
        engine=str(rng.choice(ENGINES)),
        acceptance=nearest_acceptance(model_id, drafter_id) if is_measured else f"{length:.2f}@{k}",
        batch_size=int(np.exp(rng.uniform(0, np.log(1500)))),
        context_tokens=int(np.exp(rng.uniform(np.log(256), np.log(32768)))),
        k_max=max(k, int(rng.choice([4, 8]))),
        max_tpot_ms=limit_ms if rng.random() < 0.3 else None,
    )


def _own(rng: np.random.Generator, scenario: Scenario) -> pd.DataFrame:
    """Measured speedups of two K at two batches, the batch asked about among them."""
    batches = (scenario.batch_size, 4 * scenario.batch_size)
    cells = [(batch, k, rng.uniform(0.7, 1.9)) for batch in batches for k in (1, 3)]
    frame = pd.DataFrame(cells, columns=["batch_size", "n_draft", "speedup"])
    return frame.assign(drafter="", source="", decides=True)


NUMBER = r"([\d,]+(?:\.\d+)?)"
TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"(?<!Your runs: )[Dd]raft (\d+) tokens?: {NUMBER}×", ("k", "speedup")),
    (r"Your runs: draft (\d+) token", ("k",)),
    (rf"Hardly worth it: {NUMBER}× with (\d+) token", ("speedup", "k")),
    (rf"Turn speculation off at batch [\d,]+: (?:a gain \()?{NUMBER}×", ("speedup",)),
    (rf"With (\d+) tokens?: 80% range {NUMBER}–{NUMBER}×", ("tried", "low", "high")),
    (rf"80% range {NUMBER}–{NUMBER}×", ("low", "high")),
    (r"(\d+)% chance of a gain", ("chance",)),
    (rf"{NUMBER} instead of {NUMBER} ms per token", ("tpot_ms", "plain_ms")),
    (rf"(?:^|\. ){NUMBER} ms per token\.", ("tpot_ms",)),
    (r"as fast at this batch; K = (\d+)", ("k",)),
    (r"faster at this batch; K = (\d+)", ("k",)),
    (r"K = (\d+) everywhere", ("k",)),
    (r"K = (\d+) is best at every batch", ("k",)),
    (r"Turn on K = (\d+) with", ("k",)),
    (r"command below \(K = (\d+) at batch", ("k",)),
    (rf"With K = (\d+) the speedup is {NUMBER}× at batch", ("k", "speedup")),
    (rf"With K by batch the speedup is {NUMBER}× at batch", ("speedup",)),
    (rf"With (\d+) tokens? the speedup is {NUMBER}× at batch", ("tried", "speedup")),
    (r"K = (\d+) is the fastest in (\d+)%", ("tried", "best_share")),
    (r"Launch on [\w -]+: K = (\d+) at this batch", ("k",)),
    (r"Launch on [\w -]+ with K = (\d+)", ("k",)),
    (rf"predicted {NUMBER}×", ("speedup",)),
    (rf"Predicted {NUMBER}×", ("speedup",)),
)
"""Sentences that carry a figure of the answer, and which."""
SHARES = ("chance", "best_share")


def read(text: str) -> list[tuple[str, str]]:
    """(quantity, digits) of each figure that a text states of the answer."""
    whole = " ".join(text.split())
    return [
        (name, digits)
        for pattern, names in TEXTS
        for match in re.finditer(pattern, whole)
        for name, digits in zip(names, match.groups(), strict=True)
    ]


def agrees(name: str, digits: str | float, value: Any) -> bool:
    """Whether a figure is the record's, at the digits that are printed; one of a table, at six."""
    if not isinstance(digits, str):
        return bool(np.isclose(digits, value, rtol=1e-6))
    plain = digits.replace(",", "")
    decimals = len(plain.partition(".")[2])
    number = 100.0 * value if name in SHARES else value
    return plain == f"{number:.{decimals}f}"


def command_k(command: str, adaptive: str, batch: int, groups: int) -> int:
    """K that a launch command runs at a batch of the instance, K = 0 without speculation.

    adaptive : the file of SGLang. groups : attention groups, each of which has a table of its own.
    """
    words = shlex.split(command.replace("\\\n", " "))
    per_group = max(1, batch // groups)
    if "--speculative-config" in words:
        config = json.loads(words[words.index("--speculative-config") + 1])
        table = config.get("num_speculative_tokens_per_batch_size")
        if table is None:
            return int(config["num_speculative_tokens"])
        return int([k for first, _, k in table if first <= per_group][-1])
    if "--speculative-adaptive-config" in words:
        slots = sorted((int(first), slot) for first, slot in json.loads(adaptive).items())
        return int([slot for first, slot in slots if first <= per_group][-1]["candidate_steps"][0])
    for option, extra in (
        ("--speculative-num-draft-tokens", 1),
        ("--speculative-dspark-block-size", 0),
    ):
        if option in words:
            return int(words[words.index(option) + 1]) - extra
    return 0


def terminal(answer: Drawn) -> tuple[list[tuple[str, str]], str]:
    """Figures of the answer at 100 columns, and its launch command."""
    short = short_answer(answer.advice, outcome=answer.outcome)
    figures = read("\n".join(short.head))
    for line in short.tail:
        figures += read(line)
    header = short.table.header
    (cells,) = (
        dict(zip(header, row, strict=True)) for row in short.table.cells if "recommended" in row
    )
    figures += row_figures(cells)
    text = "\n".join(short.tail)
    at = re.search(r"^Launch.*:\n((?:  .*\n?)+)", text, re.MULTILINE)
    return figures, at[1] if at else ""


def row_figures(cells: dict[str, str]) -> list[tuple[str, str]]:
    """Figures of the recommended row of a table of K. Of K = 0 the time alone."""
    figures = [("k", cells["K"]), ("tpot_ms", cells["ms/token"])]
    if cells["K"] != "0":
        figures.append(("speedup", cells["speedup"]))
        figures += zip(("low", "high"), cells["80% range"].split("-"), strict=True)
        figures.append(("best_share", cells["fastest in"].rstrip("%")))
        if "gains in" in cells:
            figures.append(("chance", cells["gains in"].rstrip("%")))
    return figures


def document(answer: Drawn) -> list[tuple[str, str]]:
    """Figures of the JSON document, its sentences among them."""
    values = json.loads(json.dumps(advice_document(answer.advice, answer.outcome), default=plain))
    recommended = values["recommendation"]
    (row,) = (row for row in values["k_at_batch"] if row["recommended"])
    k = answer.outcome.k
    served = {
        "k": recommended["n_draft"],
        "tpot_ms": recommended["tpot_ms"],
        "chance": 100.0 * recommended["p_gain"],
    }
    figures = [(name, repr_of(value)) for name, value in served.items()]
    figures.append(("k", repr_of(row["n_draft"])))
    if k:
        for name in ("speedup", "speedup_low", "speedup_high"):
            short_name = name.removeprefix("speedup_")
            figures.append((short_name, repr_of(recommended[name])))
            figures.append((short_name, repr_of(row[name])))
    for text in (recommended["verdict"], *values["says"].values()):
        figures += read(text)
    return figures


def plain(value: Any) -> Any:
    """A record or array as plain values for JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return value.tolist() if hasattr(value, "tolist") else vars(value)


def repr_of(value: float) -> str:
    """A number with six decimals, a whole one with none."""
    return str(value) if isinstance(value, int) else f"{value:.6f}"


def on_paper(answer: Drawn, *, whole: bool) -> list[tuple[str, str]]:
    """Figures of the one page, and of the whole report as Markdown."""
    decided = "These runs decide." if answer.outcome.k_from == "own" else ""
    report = replace(
        build_report(answer.advice, DATE, served_model="MODEL", outcome=answer.outcome),
        decided=decided,
    )
    figures = read(brief_title(report))
    for section in brief_sections(report, linked=False):
        for block in section.blocks:
            if isinstance(block, Paragraph):
                figures += read(block.text)
            elif isinstance(block, Listing):
                figures += [figure for item in block.items for figure in read(item)]
    by_label = {label: (value, note) for label, value, note in key_figures(report)}
    (k_text, cases), (_, likely) = list(by_label.values())[:2]
    figures.append(("k", k_text.removeprefix("K = ")))
    if answer.outcome.k:
        figures.append(("best_share", re.sub(r"\D", "", cases)))
        figures += zip(("low", "high"), likely.removeprefix("80% range ").split("-"), strict=True)
    if whole:
        markdown = render(report, "md").decode()
        figures += [figure for line in markdown.splitlines() for figure in read(line)]
    return figures


def page(answer: Drawn) -> tuple[list[tuple[str, str]], int | None]:
    """Figures in what the page says of the command, and the K of that command."""
    command = launch(answer.advice, answer.outcome)
    figures = read(f"{command['title']}.") + read(command["note"])
    if not command["text"]:
        return figures, None
    echo = re.match(r"echo '(.*?)' > \S+\n(.*)", command["text"], re.DOTALL)
    adaptive, text = echo.groups() if echo else ("", command["text"])
    return figures, command_k(text, adaptive, answer.outcome.batch, groups_of(answer))


def groups_of(answer: Drawn) -> int:
    """Attention groups of an instance."""
    return answer.advice.setup.placement.attention_groups


def in_sweep(answer: Drawn) -> list[tuple[str, float]]:
    """Figures of the recommended row of a sweep of the one scenario. The gain of drafts alone."""
    settings = answer.advice.scenario.model_dump(exclude={"batch_size"}, exclude_none=True)
    rows = sweep_rows([settings], (answer.outcome.batch,))
    (row,) = rows[rows["recommended"]].to_dict("records")
    figures = {"k": row["n_draft"], "tpot_ms": row["tpot_ms"]}
    if answer.outcome.k:
        figures |= {"speedup": row["speedup"], "chance": row["p_gain"]}
        figures |= {"low": row["speedup_low"], "high": row["speedup_high"]}
    return list(figures.items())


def on_board(answer: Drawn) -> list[tuple[str, float]]:
    """Figures of the scenario's model on a leaderboard of it alone; none where it stands there on
    another placement or with another drafter."""
    scenario = answer.advice.scenario
    question = RankQuestion(
        scenario.model_copy(update={"n_gpus": answer.advice.setup.placement.gpus}),
        one_load(scenario.batch_size),
        "throughput",
        drafter=(scenario.drafter_id, scenario.acceptance),
        whole_machine=True,
        wanted=ModelFilter((scenario.model_id,)),
    )
    try:
        standings = leaderboard(question).standings
    except AdvisorError:
        return []
    same = (scenario.tensor_parallel, scenario.expert_parallel, 1, scenario.drafter_id)
    for row in standings:
        if (row.tensor_parallel, row.expert_parallel, row.copies, row.drafter) == same:
            figures = {"k": row.drafts[0], "tpot_ms": row.tpot_s.value * 1e3}
            if answer.outcome.k:
                speedup = row.speedup
                figures |= {"speedup": speedup.value, "low": speedup.low, "high": speedup.high}
            return list(figures.items())
    return []


def contradictions(
    answer: Drawn, counts: Counter[str], *, whole: bool, board: bool = False
) -> list[str]:
    """What some medium states of an answer otherwise than its record does."""
    advice = answer.advice
    outcome = answer.outcome
    facts = outcome.facts
    fits = outcome.batch <= outcome.largest
    wrong = []
    if fits and outcome.k != int(k_running_at(advice.to_serve, outcome.batch)):
        wrong.append(f"record: K = {outcome.k}, served {outcome.served}")
    in_terminal, line = terminal(answer)
    on_page, page_k = page(answer)
    media: dict[str, Any] = {
        "terminal": in_terminal,
        "page": on_page,
        "paper": on_paper(answer, whole=whole),
    }
    if outcome.k_from == "model":
        media["json"] = document(answer)
        media["sweep"] = in_sweep(answer)
        media["board"] = on_board(answer) if fits and board else []
    for medium, figures in media.items():
        for name, digits in figures:
            counts[f"{medium} {name}"] += 1
            if not agrees(name, digits, facts[name]):
                wrong.append(f"{medium}: {name} = {digits}, not {facts[name]}")
    if line and fits:
        adaptive = ""
        if "--speculative-adaptive-config" in line:
            export = export_scenario(advice.setup, advice.to_serve, outcome.engine, **PLACEHOLDERS)
            adaptive = export.config_json
        line_k = command_k(line, adaptive, outcome.batch, groups_of(answer))
        counts["terminal command"] += 1
        if line_k != outcome.k:
            wrong.append(f"terminal: the command runs K = {line_k}, not {outcome.k}")
    if page_k is not None and fits:
        counts["page command"] += 1
        if page_k != outcome.k:
            wrong.append(f"page: the command runs K = {page_k}, not {outcome.k}")
    return [f"{text} ({advice.scenario.to_query()})" for text in wrong]


@pytest.fixture
def without_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out other accepted lengths, which take most of the time and are of another K."""
    monkeypatch.setattr(outcome_module, "length_flips", lambda _: (None, None, None))


@pytest.mark.usefixtures("without_flips")
@pytest.mark.parametrize("seed", range(CHUNKS))
def test_every_medium_states_one_answer(seed: int) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for place, answer in enumerate(drawn(seed, 20)):
        wrong += contradictions(answer, counts, whole=place % 10 == 0, board=place % 4 == 0)
    assert wrong == []
    assert {"terminal k", "json k", "paper k", "page command", "json chance"} <= counts.keys()
    assert {"sweep k", "sweep chance"} <= counts.keys()


STATED = {
    *(f"terminal {name}" for name in ("k", "speedup", "low", "high", "chance", "best_share")),
    *(f"terminal {name}" for name in ("tpot_ms", "plain_ms", "tried", "command")),
    *(f"json {name}" for name in ("k", "speedup", "low", "high", "chance")),
    *(f"json {name}" for name in ("tpot_ms", "plain_ms", "tried")),
    *(f"paper {name}" for name in ("k", "speedup", "low", "high", "chance", "best_share", "tried")),
    *("page k", "page command"),
}
"""What each medium states in a hundred scenarios: a sentence that is worded anew and no longer read
is missed here."""


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 120))
def test_every_medium_states_one_answer_over_two_thousand_scenarios(seed: int) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for place, answer in enumerate(drawn(seed, 100)):
        wrong += contradictions(answer, counts, whole=place % 10 == 0, board=place % 4 == 0)
    assert wrong == []
    boards = {name for name in counts if name.startswith(("board", "sweep"))}
    assert counts.keys() - boards == STATED
    assert counts["board k"] > 5


def test_a_figure_of_another_k_is_a_contradiction() -> None:
    """What the tests above look for, put there by hand."""
    (answer,) = drawn(3, 1)
    other = replace(answer.outcome, speedup=answer.outcome.speedup + 0.02)
    assert contradictions(answer, Counter(), whole=False) == []
    assert contradictions(replace(answer, outcome=other), Counter(), whole=False)
