"""The book of Trust and of Measure's first screen: how right predictions were, what is missed and
why, and runs beside the model."""

from __future__ import annotations

from advisor.answers.track_record import FLAGS
from advisor.show.phrases.book import Book, phrases_of

BOOK = Book.of(
    *phrases_of(
        {
            "headline": {
                "": (
                    "{rows:int} runs of {laboratories:int} laboratories scored before use: "
                    "{emphasis}, 80% range held {range_held:pct}"
                )
            },
            "emphasis": {"": "error {error:pct}"},
            "reason": {
                "": (
                    "{left_n:int} earlier runs, by constants fitted without their laboratory: "
                    "error {left_error:pct}, range held {left_held:pct}. {nearest}"
                )
            },
            "nearest": {
                "near": (
                    "Nearest to this setup ({near_group}): {near_n:int} runs of "
                    "{near_laboratories:labs}, median error {near_error:pct}, range held "
                    "{near_held:pct}."
                )
            },
            "amber": {
                "": (
                    "Slowdowns are the weak spot: {slow_foreseen:pct} of {slow_n:int} are foreseen "
                    "(mean over laboratories), {foreseen:int} of {slowdowns:int} before use."
                )
            },
            "others": {
                "rest": (
                    "{rest_laboratories:int} more laboratories, {rest_n:int} runs: median error "
                    "{rest_error:pct}."
                )
            },
            "predicted": {"": "Predicted against measured speedup, earlier runs"},
            "predicted_label": {
                "": (
                    "Predicted against measured speedup of {n:int} published runs: "
                    "{within:pct} lie within {near:pct}."
                )
            },
            "corridor": {"": "within {near:pct}"},
            "of_kernels": {"": "measured kernels"},
            "of_sheet": {"": "data sheet only"},
            "not_foreseen": {"": "slowdown not foreseen"},
            "run": {
                "": (
                    "predicted {predicted:x}, measured {measured:x}: {model_id:model} on "
                    "{accelerator}, batch {batch:batch}, K = {k:g}"
                )
            },
            "by_laboratory": {"": "Error by laboratory, earlier runs"},
            "dashed": {"": "dashed: {near:pct}"},
            "immature": {"": "engine in development"},
            "missed": {"": "What is missed"},
            "chances": {"": "Is a stated chance kept?"},
            "chances_label": {
                "": (
                    "Furthest from the stated chance of a gain are {n:int} runs at {stated:pct}, "
                    "of which {happened:pct} gained."
                )
            },
            "kept": {
                "": (
                    "stated {least:pct} to {most:pct}: {happened:pct} of {n:runs} of "
                    "{laboratories:labs} gained"
                )
            },
            "runs_named": {"": "{n:int} runs"},
            "stated_axis": {"": "stated chance of a gain"},
            "gained_axis": {"": "gained"},
            "calibrated": {"": "as stated"},
            "empty": {"": "Compare {empty_part} with the model"},
            "empty_part": {"": "your server"},
            "empty_reason": {"": "What your runs gain, what they should, and what to change."},
            "grid_title": {"": "A benchmark"},
            "grid_text": {
                "": (
                    "Runs with and without drafts become **your K by batch, as a launch command**."
                )
            },
            "grid_button": {"": "Try a sample: Qwen3-30B-A3B on GB200"},
            "grid_file": {"": "sample of published runs.csv"},
            "two_title": {"": "Slower with drafts?"},
            "two_text": {
                "": ("A launch line, log or two numbers become **the cause and what to change**.")
            },
            "two_button": {"": "Try a sample: {without:int} to {with_drafts:int} tokens/s"},
            "two_file": {"": "sample of two numbers"},
            "also_title": {"": "It also reads"},
            "also_text": {"": ("config.json, /metrics, routing traces, expert loads, power logs.")},
            "rests_on": {
                "": (
                    "Diagnosis: findings {findings:int}, checks passed {clean:int}, not judged "
                    "{not_judged:int}"
                )
            },
            "plate": {
                "of_speedup decides": "Your runs against the model: {kept_low:x} to "
                "{kept_high:x} at your K (filled)",
                "of_speedup": "Your runs against the model",
                "of_round": "Time per round, ms: your runs against the model",
                "": "Time per token without drafts, ms: your runs against the model",
            },
            "plate_label": {
                "": "Measured lies {gap:signed_pct} from predicted on average, runs: {n_runs:int}."
            },
            "plate_batch": {"": "batch"},
            "plate_model": {"decides": "model, your K", "": "model, {n_draft:k}"},
            "plate_own": {"": "at your accepted length"},
            "plate_strip": {"": "your K"},
            "plate_yours": {"": "yours"},
            "plate_run": {
                "of_speedup": "K = {k} at batch {batch:batch}: {measured:x}",
                "": "K = {k} at batch {batch:batch}: {measured:3} ms",
            },
            "wanted": {"at_most": "≤ {limit:pct3}", "": "≥ {limit:pct3}"},
            "goal_range": {"": "80% range held before use"},
            "goal_same_run": {"": "Error, same run's accepted length"},
            "goal_same_run_p90": {"": "90% of these within"},
            "goal_borrowed": {"": "Error, borrowed accepted length"},
            "goal_unknown": {"": "Error, unknown engine or data-sheet GPU"},
            "goal_shape": {"": "Error over batch, each source scaled"},
            "goal_sign": {"": "On the right side of 1×"},
            "goal_slowdowns": {"": "Slowdowns foreseen"},
            "goal_rounds": {"": "Cost of a round, {set}"},
            "goal_rounds_possible": {"": "Cost of a round, {set}, possible ones"},
            "goal_best_k_mean": {"": "Loss at the recommended K, worst set"},
            "goal_best_k_worst": {"": "Loss at the recommended K, worst grid"},
            "goal_plain": {"": "Time per token without drafts"},
            "why_range": {
                "": (
                    "{field:pct3} without the collection chosen because the model lacks its "
                    "causes. More collections, scored before use, would tell."
                )
            },
            "why_unknown": {
                "": (
                    "No kernel or engine of these was measured; {mature:pct3} without stacks in "
                    "development. A sweep or a refit of your own closes it."
                )
            },
            "why_shape": {
                "": (
                    "{share:pct} of the runs are of {laboratory}. Runs at three batches from more "
                    "laboratories would tell whose batches are off."
                )
            },
            "why_sign": {
                "": (
                    "Of {wrong:int} misses {near:pct} lie within 10% of 1×, {below:pct} are "
                    "slowdowns. Runs of your own decide K."
                )
            },
            "why_slowdowns": {
                "": (
                    "{of_rows:pct} of the runs; a laboratory with three weighs as much as any. "
                    "Missing inputs: their servers' graphs and cache pressure."
                )
            },
            "why_rounds": {"": "{unstated}"},
            "why_rounds_possible": {"": "{unstated}"},
            "unstated": {
                "": (
                    "Its rows state neither GPU nor host; both are assumed. Runs on a stated "
                    "server would tell."
                )
            },
            "why_best_k_mean": {"": "{overpriced}"},
            "why_best_k_worst": {"": "{overpriced}"},
            "overpriced": {
                "": (
                    "{set}: its rounds cost less than predicted, on a server that is not stated. "
                    "Two K measured by you decide instead."
                )
            },
        }
    ),
    flags={
        **FLAGS,
        "decides": ("decides", "==", True),
        "of_speedup": ("quantity", "==", "speedup"),
        "of_round": ("quantity", "==", "round"),
    },
)
"""The record as a whole (`TrackRecord.facts`), its tables and charts; of a gate (its fields and
`Gate.facts`) goal, wanted, why it is missed and what would close it; Measure before anything was
given, and a picture of runs."""
