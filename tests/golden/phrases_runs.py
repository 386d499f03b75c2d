"""What is said of measured runs in records put together by hand:
`python -m tests.golden.phrases_runs` writes what a test compares.

A state prints the sentences that no state before it has said, so that every phrase stands once.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from advisor.answers.diagnosis.runs import ReadFile
from advisor.answers.diagnosis.verdict import ReadAs, Unfit, Verdict
from advisor.answers.own_gap import Border, Decision, Mismatch, Span
from advisor.predict.scenario import Scenario
from advisor.show.phrases.runs import BOOK, decision_text, verdict_facts, verdict_texts

FILE = Path(__file__).parents[1] / "show" / "phrases_runs.txt"
KEEP = Span(3, (1.0, 8.0, 32.0), "up_to", 1.72, 1.14)
SHORT = Span(1, (16.0, 64.0), "range", 1.14, 1.04)
OFF = Span(0, (128.0,), "each", 0.86, 0.86)
CLOSE = Span(0, (96.0, 256.0), "each", 0.9, 0.8, (1, 2))
NEAR = Span(0, (256.0,), "each", 0.93, 0.93, (1,))
NAMED: dict[str, Any] = {
    "place": "2 x NVIDIA H100 SXM",
    "k": 3,
    "batch": 64.0,
    "quantity": "speedup",
    "predicted": 1.31,
    "low": 0.86,
    "high": 1.7,
    "length": 2.4,
    "length_from": "run",
    "better_k": 2,
    "better": 1.35,
    "better_low": 0.89,
    "better_high": 1.75,
    "n_runs": 1,
}
RUN = NAMED | {
    "measured": 0.72,
    "loss": 0.28,
    "token_s": 0.0258,
    "baseline_token_s": 0.0186,
    "n_runs": 6,
}
LOSS = RUN | {"predicted": 0.88, "low": 0.58, "high": 1.14, "is_foreseen": True}
BASELINE = {
    "baseline_batch": 1.0,
    "baseline_s": 0.0051,
    "baseline_predicted_s": 0.0103,
    "baseline_low_s": 0.0071,
    "baseline_high_s": 0.0149,
}
OVER_K = {
    "draft_s": 0.0237,
    "draft_predicted_s": 0.0025,
    "fixed_s": 0.0224,
    "fixed_predicted_s": 0.0249,
}
STEPS = {"steps": 5.33, "steps_predicted": 1.87, "round_s": 0.0936, "round_predicted_s": 0.0324}
FIXED = {"fixed_k": 2, "fixed": 1.38, "fixed_low": 0.91, "fixed_high": 1.8}
UNFIT = Unfit("bf16", 100.0, 72.0, ("fp8_block", "fp8"), Scenario(acceptance="2.4@3"))
SERVER = ReadAs("Qwen3-30B-A3B", "1 x NVIDIA H200", "given", "given")


def decided(*spans: Span, all_gain: bool = False) -> dict[str, Decision]:
    """What some measured batches decide, as a verdict holds it."""
    return {"decision": Decision(spans, all_gain)}


def verdicts() -> dict[str, Verdict]:
    """Verdicts by what they are of."""
    states: dict[str, tuple[str, dict[str, Any]]] = {
        "contradicted": ("contradicted", {"first_place": "a.txt, line 2", "first_length": 2.14}),
        "does not fit": ("does_not_fit", {"unfit": UNFIT}),
        "fits in no format": (
            "does_not_fit",
            {"unfit": replace(UNFIT, needed_gib=None, formats=())},
        ),
        "no row can be used": ("unusable", {"refusal": "a.csv, line 4: 4.7 tokens at K = 3"}),
        "mismeasured": ("mismeasured", RUN | {"faults": ("too_few_requests", "random_prompts")}),
        "few accepted": ("few_accepted", NAMED | FIXED | {"faults": ("k_too_long",)}),
        "misconfigured": (
            "misconfigured",
            LOSS | FIXED | decided(KEEP, OFF) | {"faults": ("graphs_off",)},
        ),
        "misconfigured, no K to change": (
            "misconfigured",
            RUN | decided(KEEP, OFF) | {"faults": ("graphs_off",), "measured": 1.2},
        ),
        "misconfigured, all lose": (
            "misconfigured",
            RUN | decided(OFF) | {"faults": ("graphs_off",), "low": 0.6},
        ),
        "misconfigured, gains": (
            "misconfigured",
            RUN | decided(KEEP) | {"faults": ("graphs_off",), "measured": 0.95, "high": 1.2},
        ),
        "misconfigured, nothing measured": (
            "misconfigured",
            NAMED | FIXED | {"faults": ("round_not_captured",), "first_batch": 1.0, "first": 2.0},
        ),
        "misconfigured, unsaid": (
            "misconfigured",
            {"faults": ("graphs_off",), "unsaid": ("drafter",), "measured": 0.9},
        ),
        "misconfigured, refused": (
            "misconfigured",
            {"faults": ("graphs_off",), "refusal": "this model has no MTP module"},
        ),
        "physics": ("physics", RUN | {"faults": ("round_slow",)}),
        "predicted to gain": (
            "forecast",
            NAMED | {"first_batch": 1.0, "first": 2.03, "near": (64.0, 448.0)},
        ),
        "predicted to lose": (
            "forecast",
            NAMED | {"predicted": 0.9, "better_k": 0},
        ),
        "unsaid": ("not_stated", {"unsaid": ("hardware_id", "drafter")}),
        "unsaid, measured": (
            "not_stated",
            {"unsaid": ("drafter",), "measured": 0.85, "batch": 128.0, "k": 3},
        ),
        "not predicted": ("not_predicted", {"refusal": "this model has no MTP module"}),
        "nothing": ("nothing", {}),
        "baseline": ("baseline", RUN | BASELINE | decided(KEEP, SHORT, all_gain=True)),
        "baseline, gains more": ("baseline", RUN | BASELINE | {"measured": 2.1}),
        "baseline, inside": ("baseline", RUN | BASELINE | {"measured": 1.03}),
        "baseline slow": (
            "baseline",
            RUN | BASELINE | {"baseline_s": 0.02, "quantity": "plain", "k": 0, "measured": 0.02},
        ),
        "few tokens": (
            "slower",
            RUN
            | decided(CLOSE)
            | {"cause": "few_tokens", "least_length": 1.32, "times": 1.82, "length_from": "bar"}
            | {"untried": True, "published_n": 1, "published_low": 1.1, "published_high": 1.1}
            | {"published_first": 32.0, "published_last": 32.0},
        ),
        "few tokens, published": (
            "slower",
            RUN
            | decided(NEAR)
            | {"cause": "few_tokens", "least_length": 1.3, "times": 1.8, "length_from": "published"}
            | {"published_n": 4, "published_low": 0.97, "published_high": 1.15}
            | {"published_first": 32.0, "published_last": 64.0},
        ),
        "few tokens, other models": (
            "slower",
            RUN
            | {"cause": "few_tokens", "least_length": 1.3, "times": 1.8}
            | {"length_from": "other_models"},
        ),
        "few tokens, of the run": (
            "slower",
            RUN | {"cause": "few_tokens", "least_length": 1.3, "times": 1.8, "measured": 0.8},
        ),
        "drafter eager": ("slower", RUN | OVER_K | {"cause": "drafter"}),
        "drafter slow": ("slower", RUN | OVER_K | {"cause": "drafter", "draft_s": 0.009}),
        "verification": ("slower", RUN | OVER_K | {"cause": "verification"}),
        "host": ("slower", RUN | OVER_K | {"cause": "host"}),
        "round in steps": ("slower", RUN | STEPS | {"cause": "round", "times": 1.8}),
        "round": ("slower", RUN | {"cause": "round", "times": 1.8, "measured": 1.02, "low": 1.1}),
        "too long": ("slower", RUN | {"cause": "too_long", "slow": 0.4}),
        "too long here": (
            "slower",
            RUN | {"cause": "too_long", "slow": 0.4, "gained": 2.2, "gained_batch": 1.0},
        ),
        "admission": ("slower", RUN | {"cause": "admission", "admitted": 48.0}),
        "round slow": (
            "slower",
            RUN | {"quantity": "round", "measured": 0.09, "predicted": 0.03, "computed": True},
        ),
        "foreseen": ("foreseen", LOSS | {"carried": True, "faults": ("first_token_waits",)}),
        "foreseen, off": ("foreseen", LOSS | {"better_k": 0, "high": 0.97}),
        "foreseen, not measured": ("foreseen", NAMED | {"predicted": 0.9, "is_foreseen": True}),
        "foreseen, turned off": ("foreseen", LOSS | decided(KEEP, OFF) | {"untried": True}),
        "foreseen, off and carried": (
            "foreseen",
            LOSS | decided(OFF) | {"untried": True, "carried": True},
        ),
        "faster": ("faster", RUN | {"measured": 2.1}),
        "loses less": ("faster", RUN | {"measured": 0.9, "predicted": 0.7, "high": 0.8}),
        "round fast": ("faster", RUN | {"quantity": "round", "measured": 0.01, "predicted": 0.03}),
        "own length": ("own_length", RUN | {"measured": 1.2, "stated_length": 2.9}),
        "agrees": ("agrees", RUN | {"measured": 0.9, "predicted": 0.97}),
        "agrees, one": ("agrees", RUN | {"measured": 1.2, "n_runs": 1}),
        "agrees, baseline": (
            "agrees",
            RUN | {"measured": 0.02, "quantity": "plain", "k": 0, "n_runs": 1},
        ),
        "read as given": (
            "nothing",
            {"read_as": (SERVER, replace(SERVER, accelerator="bar", number="bar"))},
        ),
        "read from": (
            "nothing",
            {
                "read_as": (
                    replace(SERVER, number=""),
                    replace(SERVER, accelerator=""),
                    replace(SERVER, accelerator="scenario", number="given"),
                    replace(SERVER, accelerator="given", number="scenario"),
                    replace(SERVER, accelerator="", number="bar"),
                )
            },
        ),
        "all gain": ("agrees", RUN | decided(KEEP, SHORT, all_gain=True) | {"measured": 1.2}),
        "missing": (
            "nothing",
            {"missing": (("launch", 12), ("accepted_length", 1), ("engine_version", 5))},
        ),
    }
    return {name: Verdict(case, **facts) for name, (case, facts) in states.items()}  # type: ignore[arg-type]


def others() -> dict[str, tuple[str, dict[str, Any]]]:
    """Slot and facts of what is no verdict, by what it is of."""
    missed = {"model": "Qwen3-30B-A3B", "gpus": 2, "accelerator": "H200", "drafter_id": "eagle3"}
    answers = {"place": "1 x H200", "accepted_length": 2.4, "n_draft": 3, "length_from": "run"}
    return {
        "launch lines": ("read", vars(ReadFile("launch", "a.sh", 2))),
        "a log": ("read", vars(ReadFile("log", "a.log"))),
        "a table": ("read", vars(ReadFile("table", "a.csv", of="vLLM bench serve JSON"))),
        "a baseline": ("read", vars(ReadFile("baseline", "a.txt", of="b.txt, line 3"))),
        "another setup": ("mismatch", vars(Mismatch("setup")) | missed),
        "another drafter": ("mismatch", vars(Mismatch("drafter", ("mtp",))) | missed),
        "between": ("border", vars(Border(24, "between", 8.0, 32.0))),
        "the model's": ("border", vars(Border(3, "models"))),
        "falling on": ("border", vars(Border(82, "falls", 64.0))),
        "corrected": ("corrected", {"n_draft": 2, "fixed_too": True}),
        "corrected, same K": ("corrected", {"n_draft": None, "fixed_too": True}),
        "with K": ("corrected", {"n_draft": 2, "fixed_too": False}),
        "without drafts": ("corrected", {"n_draft": 0, "fixed_too": False}),
        "one K": ("one_k", {}),
        "one length": ("forecast", answers | {"n_lengths": 1}),
        "several lengths": ("forecast", answers | {"n_lengths": 2}),
        "a sample": ("unpredicted", {"unpredicted": "sampled"}),
        "nothing measured": ("unpredicted", {"unpredicted": "nothing_measured"}),
        "too large": ("unpredicted", {"unpredicted": "too_large", "batch": 512.0}),
        "refused": ("unpredicted", {"unpredicted": "refused", "refusal": "no MTP module"}),
    }


def sentences() -> str:
    """The file: each sentence that is new, below its state and behind its slot."""
    seen: set[str] = set()
    lines = []
    for name, verdict in verdicts().items():
        new = {
            slot: text for slot, text in verdict_texts(verdict).items() if text and text not in seen
        }
        seen |= set(new.values())
        lines += [f"# {name}", *(f"{slot}: {text}" for slot, text in new.items())]
    decision = Decision((KEEP, SHORT), all_gain=True)
    lines += ["# decision without speedups", decision_text(decision, measured=False)]
    for name, (slot, facts) in others().items():
        lines += [f"# {name}", BOOK.say(slot, facts)]
    return "\n".join(lines) + "\n"


def reached() -> set[tuple[str, str]]:
    """(slot, when) of each phrase that some state says."""
    reached_phrases = set()
    records = [verdict_facts(verdict) for verdict in verdicts().values()]
    for verdict in verdicts().values():
        records += [vars(server) for server in verdict.read_as]
        for span in verdict.decision.spans:
            records.append(vars(span) | {"from_batch": 1.0, "to_batch": 2.0})
    records.append({"input": "the log", "rules_waiting": 2})
    for facts in [*records, *(facts for _, facts in others().values())]:
        for slot in BOOK.slots:
            try:
                phrase = BOOK.phrase(slot, facts)
            except KeyError:  # a slot of another record
                continue
            if phrase is not None:
                reached_phrases.add((phrase.slot, phrase.when))
    return reached_phrases


if __name__ == "__main__":
    FILE.write_text(sentences(), encoding="utf-8")
