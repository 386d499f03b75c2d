"""The book of measured runs: the verdict on them, what they decide, and what they were read as."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from advisor.answers.diagnosis.runs import ReadFile
from advisor.answers.diagnosis.verdict import FLAGS, ReadAs, Unfit, Verdict
from advisor.answers.own_gap import Border, Decision, Mismatch, Span
from advisor.measured.ingest.columns import COLUMNS
from advisor.show.phrases import rules
from advisor.show.phrases.book import Book, phrases_of
from advisor.text import listed

PHRASES = phrases_of(
    {
        "title": {
            "contradicted": "The files contradict each other",
            "does_not_fit": "Does not fit in memory as {dtype}",
            "mismeasured": "Measure again before tuning",
            "unusable": "Measure again before tuning",
            "physics": "Slower than measured kernels explain",
            "few_accepted": "Few drafts are accepted",
            "misconfigured": "The engine is misconfigured",
            "not_stated": "Add what was served",
            "keeps offs": "Keep {keep_text}; turn speculation off {off_text}",
            "keeps": "Keep {keep_text}",
            "offs": "Turn speculation off {off_text}",
            "forecast predicted_loss": "Predicted to lose at batch {batch:batch}",
            "forecast": "Predicted to gain",
            "foreseen": "This loss is predicted",
            "baseline baseline_slow": "Your baseline is slower than predicted",
            "baseline": "Your baseline is faster than predicted",
            "slower": "Slower than predicted at batch {batch:batch}",
            "faster": "Faster than predicted at batch {batch:batch}",
            "own_length": "Your accepted length explains your runs",
            "agrees": "Your runs agree with the prediction",
            "": "Diagnosis",
        },
        "verdict": {
            "contradicted": (
                "The files contradict each other, so nothing is concluded: {contradiction}"
            ),
            "does_not_fit": (
                "As {dtype} the server {needs}which weight format does it run? {fits} All "
                "predictions rest on it."
            ),
            "unusable": "Measure again before tuning. No row can be used: {refusal}.",
            "mismeasured": "Measure again before tuning. {fault_text}",
            "few_accepted": "Few drafts are accepted. {fault_text}",
            "misconfigured": "The engine is misconfigured. {fault_text}",
            "physics": "Measurement and settings look right. {fault_text}",
            "not_stated": "{unpredicted_run}",
            "not_predicted": "{unpredicted_run}",
            "nothing": (
                "No fault found. Add a run with drafts and a baseline: their gap says where"
                " to look."
            ),
            "forecast predicted_loss": (
                "{run} on {place} is predicted to lose{ends}. There, {instead}."
            ),
            "forecast": (
                "{run} on {place} is predicted to gain{ends}. {near_text} Add what was "
                "measured with and without drafts."
            ),
            "baseline": "{baseline_text} {speedup_text}",
            "foreseen loses": "This loss is predicted for {run}: {figures}. {better_text}",
            "foreseen": "A loss is predicted for {run}: {figures}. {better_text}",
            "slower": "{speedup_text}",
            "faster of_speedup loses": "{run} loses less than predicted: {figures}.",
            "faster of_speedup": "{run} gains more than predicted: {figures}.",
            "faster": "{run} is faster than predicted: {figures}.",
            "own_length": (
                "Your accepted length explains your runs: {length:x2} tokens at K = {k}, not "
                "{stated_length:x2}. {run_capital} {figures}."
            ),
            "agrees several": (
                "All {n_runs} runs lie within their 80% ranges. Furthest from its prediction,"
                " {run} {figures}. {no_gain}"
            ),
            "agrees": "{run_capital} {figures}, within the 80% range. {no_gain}",
        },
        "short": {
            "mismeasured": "{fault_text}",
            "few_accepted": "{fault_text}",
            "misconfigured": "{fault_text}",
            "foreseen keeps": "A loss is predicted and measured for {run}: {figures}.",
        },
        "needs": {
            "sized": "needs {needed_gib:int} GiB per GPU, {usable_gib:int} are usable: ",
            "": "does not fit: ",
        },
        "fits": {"fits_as": "It fits as {formats:list}.", "": "It fits in no format that we know."},
        "contradiction": {
            "": (
                "{first_place} states an accepted length of {first_length:g} at K = 0, but a "
                "server without speculation accepts no drafts. Give each run the launch line "
                "it was served with."
            )
        },
        "unpredicted_run": {
            "measured unstated": (
                "Measured {measured:x}{at}{with_k}. Whether that is predicted depends on what"
                " is missing: {unsaid_text}."
            ),
            "unstated": "To predict the server, add {unsaid_text}.",
            "refused": "Not predicted: {refusal}.",
            "": (
                "No fault found. Add a run with drafts and a baseline: their gap says where"
                " to look."
            ),
        },
        "at": {"at_batch": " at batch {batch:batch}"},
        "with_k": {"with_k": " with K = {k}"},
        "run": {
            "of_gain": "K = {k} at batch {batch:batch}",
            "": "the baseline at batch {batch:batch}",
        },
        "run_capital": {"of_gain": "{run}", "": "The baseline at batch {batch:batch}"},
        "figures": {
            "measured": "{origin} {measured_text}{timing}, predicted {predicted_text}",
            "": "{predicted_text}",
        },
        "origin": {"computed": "computed", "": "measured"},
        "measured_text": {
            "of_speedup": "{measured:x}",
            "of_round": "a round of {measured:ms}",
            "": "{measured:ms} per token",
        },
        "predicted_text": {
            "of_speedup": "{predicted:x} ({low:x2}–{high:x2}×)",
            "": "{predicted:ms} ({low:ms} to {high:ms})",
        },
        "timing": {
            "of_speedup timed": " ({token_s:ms} per token, {baseline_token_s:ms} without drafts)"
        },
        "ends": {
            "ranged": (
                ": {first:x} at batch {first_batch:batch}, {predicted_text} at batch {batch:batch}"
            ),
            "": ": {predicted_text}",
        },
        "near_text": {"near": "A loss lies within the 80% range at batch {near:batches}."},
        "baseline_text": {
            "": (
                "Your baseline takes {baseline_s:ms} per token at batch "
                "{baseline_batch:batch}, {baseline_predicted_s:ms} predicted "
                "({baseline_low_s:ms} to {baseline_high_s:ms}): check model, GPUs, weight "
                "format and batch."
            )
        },
        "speedup_text": {
            "baseline !of_speedup": "",
            "loses of_speedup too_little": "{run} loses {loss:pct}: {figures}.",
            "of_speedup too_little": "{run} gains less than predicted: {figures}.",
            "of_speedup too_much": "{run} gains more than predicted: {figures}.",
            "of_speedup": "Its speedup is as predicted: {run} {figures}.",
            "": "{run} is slower than predicted: {figures}.",
        },
        "better_text": {
            "no_drafts": "Speculation does not pay there: {instead}. {reaching}",
            "offs": "{reaching}",
            "": "Instead, {instead}. {reaching}",
        },
        "instead": {
            "no_drafts": "draft nothing (1.00×)",
            "carried": (
                "draft K = {better_k}, predicted {better:x} "
                "({better_low:x2}–{better_high:x2}×; its accepted length is carried from K = "
                "{k})"
            ),
            "": ("draft K = {better_k}, predicted {better:x} ({better_low:x2}–{better_high:x2}×)"),
        },
        "reaching": {"may_gain": "The range reaches {high:x}: a gain is not ruled out."},
        "no_gain": {
            "of_speedup loses predicted_loss": (
                "Speculation does not pay at this batch on this hardware. {reaching}"
            ),
        },
        "also": {
            "faulty foreseen_too": (
                "The model also predicts a loss for {run} without that fault: "
                "{predicted_text}; {instead}."
            ),
            "faulty of_speedup measured too_little": "{speedup_text}",
            "faulty of_speedup measured": "The speedup of {run}: {figures}.",
            "faulty ranged": "Predicted for {run} on {place}{ends}.",
            "faulty unstated": "{unpredicted_run}",
            "faulty refused": "{unpredicted_run}",
            "!faulty noted": "Also found: {fault_text}",
        },
        "published": {
            "!published": "",
            "published_alike": (
                "{published_n:runs} of this setup, on any engine: {published_low:x} at batch "
                "{published_first:batch}."
            ),
            "": (
                "{published_n:runs} of this setup, on any engine: {published_low:x} to "
                "{published_high:x} at batch {published_first:batch} to "
                "{published_last:batch}."
            ),
        },
        "cause": {
            "by_admission": "{suspect}",
            "by_drafter whole_step": (
                "Likeliest cause: the drafter runs without CUDA graphs. {over_k} A draft that"
                " takes as long as a baseline step ({baseline_token_s:ms}) is launched kernel"
                " by kernel."
            ),
            "by_drafter": "Likeliest cause: the drafter is slow. {over_k}",
            "by_verification": (
                "Likeliest cause: verifying more tokens takes too long. {over_k} Look at "
                "attention and MoE kernels for passes of few tokens."
            ),
            "by_host": (
                "Likeliest cause: a fixed cost of each round, from the host or missing CUDA "
                "graphs. {over_k}"
            ),
            "by_round stepped": (
                "Likeliest cause: a round takes {steps:x2} baseline steps, "
                "{steps_predicted:x2} predicted ({round_s:ms}, {round_predicted_s:ms} "
                "predicted). Runs at another K tell drafting, verification and the host "
                "apart."
            ),
            "by_round": (
                "Likeliest cause: a round takes {times:x2} times as many baseline steps as "
                "predicted."
            ),
            "by_few_tokens": (
                "Either {least_length:x2} tokens are accepted per round, not {length:x2} "
                "({whose}), or a round takes {times:x2} times as long. The accepted length in"
                " the engine's log tells which."
            ),
            "by_too_long gained": (
                "Likeliest cause: a round is at least {slow:pct} too long. At batch "
                "{gained_batch:batch} this K gained {gained:x}, so it accepts at least that "
                "many tokens."
            ),
            "by_too_long": (
                "Likeliest cause: a round is at least {slow:pct} too long, whatever is "
                "accepted (no CUDA graphs, a slow drafter)."
            ),
        },
        "suspect": {
            "": (
                "First suspect: with speculation SGLang admits {admitted:int} requests unless"
                " --max-running-requests says more. Set it to {batch:batch}, or give your "
                "launch line."
            )
        },
        "over_k": {
            "": (
                "Each draft adds {draft_s:ms} to a round, {draft_predicted_s:ms} predicted; "
                "the rest takes {fixed_s:ms}, {fixed_predicted_s:ms} predicted."
            )
        },
        "whose": {
            "from_run": "of the run",
            "from_bar": "from the bar, since the run states none",
            "from_published": "as published; the run states none",
            "": "of this drafter on other models; none is published for this model",
        },
        "action": {
            "undecided": "",
            "misconfigured then keeps offs": (
                "{until_fixed}keep {keep_text} and turn speculation off {off_text}. {then_text}"
            ),
            "misconfigured keeps offs": (
                "{until_fixed}keep {keep_text} and turn speculation off {off_text}."
            ),
            "misconfigured offs": "{until_fixed}turn speculation off {off_text}. {then_text}",
            "then": "{then_text}",
            "misconfigured": "",
            "": "{decided} {untried_text}",
        },
        "below": {"faulty": "{action}", "unstated": "{action}", "": "{untried_text}"},
        "until_fixed": {"": "Until this is fixed, "},
        "then_text": {
            "few_accepted": (
                "Draft K = {fixed_k}, predicted {fixed:x} ({fixed_low:x2}–{fixed_high:x2}×)."
            ),
            "then": (
                "Once it is fixed, draft K = {fixed_k}, predicted {fixed:x} "
                "({fixed_low:x2}–{fixed_high:x2}×)."
            ),
        },
        "untried_text": {
            "foreseen !offs": "",
            "untried carried": (
                "Not tried there: K = {better_k}, predicted {better:x} "
                "({better_low:x2}–{better_high:x2}×; its accepted length is carried from K = {k})."
            ),
            "untried": (
                "Not tried there: K = {better_k}, predicted {better:x} "
                "({better_low:x2}–{better_high:x2}×)."
            ),
        },
        "decided": {
            "keeps offs": "Keep {keep_text}. Turn speculation off {off_text}.",
            "keeps all_gain": (
                "Keep {keep_text}: with this schedule every batch you measured gains."
            ),
            "keeps": "Keep {keep_text}.",
            "offs": "Turn speculation off {off_text}.",
        },
        "span": {"of_gain": "K = {k} {span_reach}", "": "{span_reach}"},
        "span_reach": {
            "up_to": "up to batch {to_batch:batch}",
            "range": "at batch {from_batch:batch} to {to_batch:batch}",
            "": "at batch {batches:batches}",
        },
        "span_measured": {
            "steady closest": " (measured {first:x} at best, K = {closest:or})",
            "steady": " (measured {first:x})",
            "closest": " (measured {first:x} to {last:x} at best, K = {closest:or})",
            "": " (measured {first:x} to {last:x})",
        },
        "read_as": {
            "same_word": "Read as {model} on {place}, {place_word}.",
            "place_known count_known": (
                "Read as {model} on {place}, the accelerator {place_word}, the number of GPUs"
                " {count_word}."
            ),
            "place_known": "Read as {model} on {place}, the accelerator {place_word}.",
            "": "Read as {model} on {place}, the number of GPUs {count_word}.",
        },
        "place_word": {
            "place_given": "as given",
            "place_bar": "from the bar",
            "": "from the scenario",
        },
        "count_word": {
            "count_given": "as given",
            "count_bar": "from the bar",
            "": "from the scenario",
        },
        "missing": {"missing": "To judge more, add {missing_text}."},
        "missing_input": {"": "{input} ({rules_waiting:checks})"},
        "read": {
            "launch": "{place}: {lines:lines} of a server",
            "log": "{place}: a server's log",
            "table": "{place}: {of}",
            "": (
                "{place}: taken as the run without speculation, since no accepted length is "
                "printed there and {of} prints it"
            ),
        },
        "unpredicted": {
            "sampled": "an even sample of the rows is predicted",
            "nothing_measured": "nothing that can be predicted was measured",
            "too_large": "batch {batch:batch} does not fit in memory",
            "": "{refusal}",
        },
        "mismatch": {
            "setup": "No row is of {model} on {gpus} × {accelerator}.",
            "": "The file's drafter is {drafters:list}, the scenario's is {drafter_id}.",
        },
        "corrected": {
            "fixed_too drafting": "Corrected launch command (K = {n_draft})",
            "fixed_too": "Corrected launch command",
            "drafting": "Your launch command with K = {n_draft}",
            "": "Your launch command without drafts",
        },
        "one_k": {"": "This command has one K for all batches."},
        "forecast": {
            "one_length": (
                "Predicted speedup on {place}, accepted length {accepted_length:x2} at K = "
                "{n_draft} ({whose})"
            ),
            "": "Predicted speedup on {place}, at the accepted length of each run",
        },
        "border": {
            "between": "{batch:int}: interpolated between your {below:batch} and {above:batch}.",
            "models": "{batch:int}: up to here the model decides.",
            "": ("{batch:int}: where your speedup, falling on beyond {below:batch}, reaches 1×."),
        },
    }
)
_RECORDS = (Verdict, Unfit, ReadAs, ReadFile, Span, Border, Mismatch)
_FILLED = (
    *("keeps", "offs", "all_gain", "keep_text", "off_text", "fault_text", "unsaid_text"),
    *("missing_text", "input", "rules_waiting", "from_batch", "to_batch"),
    *("unpredicted", "gpus", "drafter_id", "faulty", "undecided", "n_draft", "fixed_too"),
    *("accepted_length", "n_lengths"),
)
FACTS = frozenset(_FILLED) | {each.name for record in _RECORDS for each in fields(record)}
BOOK = Book(PHRASES, FACTS, FLAGS)
VERDICT = ("verdict", "also", "published", "cause")
"""Slots of the verdict, in reading order."""


def decision_facts(decision: Decision, measured: bool = True) -> dict[str, Any]:
    """Facts that phrases on a decision ask for. measured : whether speedups follow batches."""
    texts: dict[bool, list[str]] = {True: [], False: []}
    for span in decision.spans:
        facts = vars(span) | {"from_batch": span.batches[0], "to_batch": span.batches[-1]}
        slots = ("span", "span_measured") if measured else ("span",)
        texts[span.k > 0].append(" ".join(BOOK.says(slots, facts)))
    return {
        "keeps": tuple(texts[True]),
        "offs": tuple(texts[False]),
        "all_gain": decision.all_gain,
        "keep_text": listed(texts[True]) if texts[True] else "",
        "off_text": "".join(texts[False]),
    }


def decision_text(decision: Decision, measured: bool = True) -> str:
    """Sentence on which K to draft where. Empty where nothing decides."""
    return BOOK.say("decided", decision_facts(decision, measured))


def verdict_facts(verdict: Verdict) -> dict[str, Any]:
    """Facts of a verdict with the texts that its phrases hold."""
    unfit = dict.fromkeys(field.name for field in fields(Unfit))
    if verdict.unfit is not None:
        unfit = vars(verdict.unfit)
    waiting = [
        {"input": rules.input_words(name), "rules_waiting": n} for name, n in verdict.missing
    ]
    columns = [COLUMNS["points"][name].in_text for name in verdict.unsaid]
    texts = {
        "fault_text": " ".join(rules.BOOK.say(rule, {}) for rule in verdict.faults),
        "unsaid_text": listed(columns) if columns else "",
        "missing_text": listed([BOOK.say("missing_input", facts) for facts in waiting] or [""]),
    }
    return verdict.facts | unfit | texts | decision_facts(verdict.decision)


def verdict_texts(verdict: Verdict) -> dict[str, str]:
    """The sentences of a verdict by slot: title, VERDICT, action, `read_as` and `missing`."""
    facts = verdict_facts(verdict)
    title = BOOK.say("title", facts | decision_facts(verdict.decision, measured=False))
    slots = (*VERDICT, "action", "below", "short", "missing")
    texts = {"title": title} | {slot: BOOK.say(slot, facts) for slot in slots}
    read_as = [BOOK.say("read_as", vars(server)) for server in verdict.read_as]
    return texts | {"read_as": " ".join(read_as)}
