"""`python -m studies.validation.report`: writes docs/validation.md with its tables and judged
rows."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.catalog.engines import OTHER_ENGINE
from advisor.catalog.fit_records import OVERHEAD_NAMES, load_overheads
from advisor.measured.points import judged_rows, published_rows
from advisor.measured.refit_result import errors_of
from advisor.measured.store import default_store_path, kernel_table, open_store
from advisor.measured.validation import JUDGED
from advisor.prediction import BAND_SIGMAS, AdvisorError
from advisor.profiles import MEASUREMENTS, PROFILES
from studies.fits.held_out import held_out, judge
from studies.fits.overheads import prior_overheads
from studies.fits.records import write_gates, write_judged
from studies.overheads import held_out_rows
from studies.published import COLLECTION_FILES, PublishedPoint, points_of, read_numbers
from studies.score import judged, opening_table, pooled, read_log
from studies.validation.bars import bars_of_rounds, range_gate
from studies.validation.kernels import bars_section, gates_section, measured_section
from studies.validation.outside import (
    BUNDLE,
    BUNDLE_BAR,
    bundle_errors,
    external_points,
    external_round_costs,
    external_section,
    moesd_cells,
    moesd_section,
    reproduction_section,
)
from studies.validation.own_runs import (
    best_k_gates,
    best_k_regrets,
    best_k_section,
    mature_points,
    own_run_rows,
    own_runs,
    own_runs_section,
    write_own_runs,
)
from studies.validation.plain import believed
from studies.validation.step_times import (
    Decode,
    judged_decode,
    step_time_sections,
    write_judged_ratios,
)
from studies.validation.tables import (
    GateLine,
    categories,
    figures,
    frame_table,
    markdown_table,
    percent,
    share,
    speedup_gates,
    summary,
    worst,
)
from studies.validation.unseen import (
    chances_section,
    held_out_section,
    rivals_section,
    steps_to_repair,
)

REPORT = PROFILES.parent / "docs" / "validation.md"
MOESD = MEASUREMENTS / "moesd_cells"
REASONS = {
    "SpecForge issue 339": "a user's report of a slowdown; its build is not stated",
    "ROCm/ATOM recipe for DeepSeek-V4": (
        "no measured kernels on this accelerator; accepted length of other text"
    ),
    "ROCm/ATOM recipe for DeepSeek-R1": "no measured kernels on this accelerator; accepted length "
    "borrowed, "
    "prompts random",
    "vLLM pull request 16937": (
        "accepted length of the same drafter on other models, not of this one"
    ),
    "vLLM blog: P-EAGLE, figures 4-6": "bar heights read from pixels (up to 8 %), accepted length "
    "from a "
    "separate table",
}
"""A checkable cause for sources among the worst; the others say unknown."""


def report(decode: Decode | None) -> tuple[str, list[GateLine]]:
    """The whole document, and its gates. `decode`: `judged_decode`. Needs the store for it and R19;
    says so where there is none."""
    frame = published_rows()
    points, refused = judged_points()
    rows = held_out(points)
    outside = external_points(frame)
    external = external_round_costs(outside)
    prior = prior_overheads(OTHER_ENGINE)
    as_prior = external_round_costs(outside, prior)
    moesd = moesd_cells(read_numbers(MOESD))
    own = own_run_rows(mature_points(points))
    regrets = best_k_regrets(rows, external, moesd)
    table, bars = _from_store()
    gates = gate_lines(rows, external, regrets, decode)
    sections = [
        _head(rows, refused),
        _gates(gates),
        bars_of_rounds(rows, regrets, decode),
        gates_section(),
        bars,
        measured_section(),
        _overheads(),
        _left_out(rows),
        held_out_section(rows),
        steps_to_repair(rows),
        chances_section(rows),
        own_runs_section(own),
        rivals_section(points, rows, outside, external),
        external_section(external, as_prior),
        best_k_section(regrets),
        *step_time_sections(decode),
        moesd_section(moesd),
        reproduction_section(table),
        _worst(rows),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n", gates


def judged_points() -> tuple[list[PublishedPoint], dict[str, int]]:
    """Published speedups that can be predicted, but for laboratories that judge. The others come
    with the reason why they cannot."""
    return points_of(judged_rows(), other_models=True)


def data_hash() -> str:
    """SHA-256, 16 digits, over the measured rows and the fit records that the document rests on."""
    digest = hashlib.sha256()
    for path in [
        *COLLECTION_FILES,
        MOESD / "data.csv",
        *sorted((PROFILES / "calibration").rglob("*.json")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def first_table(rows: pd.DataFrame) -> str:
    """The table that the document opens with. `rows` as `held_out` gives them."""
    return opening_table(read_log(), judged(rows, rows), rows["immature"])


def _head(rows: pd.DataFrame, refused: dict[str, int]) -> str:
    return f"""# Validation

{first_table(rows)}

Prospective rows were predicted by a release that nothing of them had reached; each collection is a line of
[scores.csv](scores.csv), which only grows. So far: two collections replayed, judged later by the code of then, and one whose rows
were chosen because each shows a cause that the model lacks. Left out: constants were fitted without the laboratory; formulas
were chosen with these rows in sight. Four constants: a AL^b B^c (K + 1)^d, by least squares of logarithms without the judged
laboratory; a bar that they meet is no bar. Every laboratory counts alike, but in counts and chances of a gain. Known: another
laboratory measured the engine, and the kernels are above the roofline tier.

Generated by `make validation`; do not edit. Data and fits {data_hash()}.

Speedups below: what surrounds the kernels of a round is refitted without the whole laboratory of a row; the range is the same
for all (docs/decisions/0043-one-range.md). {len(rows)} rows of {rows["source"].nunique()} laboratories can be predicted;
{sum(refused.values())} cannot, most because accelerator, draft length or placement is not stated. Errors are
|predicted / measured - 1|; in means and shares every laboratory counts alike, since one brought most of the rows. A gate on
fewer than 20 rows or 3 laboratories is not testable here, neither met nor missed; round cost of external sets is judged
alone, one laboratory each, and says so.

Run-time control of K is held against its paper in [runtime-k-validation.md](runtime-k-validation.md).

Disclosure: measurements/verify_cost_curve holds figure 2 of the vLLM post of 2026-08-14 (DeepSeek-V4-Flash). Another
grid of that post (DeepSeek-V4-Pro) is kept out of this project for outside validation; the publication is the same,
model and quantity are not. Nothing is fitted on that figure."""  # noqa: E501


def gate_lines(
    rows: pd.DataFrame, external: pd.DataFrame, regrets: pd.DataFrame, decode: Decode | None
) -> list[GateLine]:
    """Every gate. `rows`: `held_out`; the others as in `report`."""
    lines = speedup_gates(rows)
    for name, group in external.groupby("source"):
        bar = BUNDLE_BAR if name == BUNDLE else 0.09
        lines.append(
            GateLine(
                f"round cost, {name}",
                errors_of(group).mape,
                bar,
                len(group),
                1,
                needs_sources=False,
                key="rounds",
                facts={"set": name},
            )
        )
    rest, n_rest = bundle_errors(external)["possible"]
    lines.append(
        GateLine(
            f"round cost, {BUNDLE} without impossible rounds",
            rest,
            BUNDLE_BAR,
            n_rest,
            1,
            needs_sources=False,
            key="rounds_possible",
            facts={"set": BUNDLE},
        )
    )
    lines += best_k_gates(regrets)
    if decode is not None:
        once = believed(held_out_rows(decode.shipped))
        errors = errors_of(
            once.rename(columns={"predicted_s": "predicted", "measured_s": "measured"})
        )
        lines.append(
            GateLine(
                "plain decode, median error",
                errors.median_ape,
                0.20,
                errors.n,
                1,
                needs_sources=False,
                key="plain",
            )
        )
    return lines


def _gates(lines: list[GateLine]) -> str:
    body = [
        (
            line.what,
            percent(line.figure),
            ("<= " if line.at_most else ">= ") + share(line.limit),
            line.n,
            line.n_sources if line.needs_sources else "1, external",
            line.status + (f"; {line.note}" if line.note else ""),
        )
        for line in lines
    ]
    return "## Gates\n\n" + markdown_table(
        ("what", "figure", "gate", "n", "sources", "status"), body
    )


def _overheads() -> str:
    fit = load_overheads()
    body = []
    for record in fit.records:
        sds = np.sqrt(np.diag(record.log_covariance))
        values = [
            f"{record.value(n) * 1e3:.3g} x/÷ {np.exp(BAND_SIGMAS * sd):.1f}"
            if record.value(n)
            else "-"
            for n, sd in zip(OVERHEAD_NAMES, sds, strict=True)
        ]
        body.append((record.engine_class, *values, record.n_rows, record.n_sources, record.message))
    return (
        "## Overheads that kernels do not show\n\nMilliseconds, for the cache's second reading "
        "thousandths of the "
        "attention, for verified tokens thousandths for each token, with the factor of their 80 % "
        "range. "
        "`-synchronous`: sources from "
        "before the engine overlapped the host's work on a round with the device's, and SGLang's "
        "draft trees.\n\n"
        + markdown_table(
            (
                "class",
                "per layer",
                "per draft pass",
                "per round",
                "read again",
                "verified tokens",
                "rows",
                "laboratories",
                "note",
            ),
            body,
        )
    )


def _left_out(rows: pd.DataFrame) -> str:
    named = rows.assign(category="")
    for name, group in categories(rows).items():
        named.loc[group.index, "category"] = name
    marked = rows.assign(
        reading=np.where(
            rows["reading"] == "A", "A (table or label)", rows["reading"] + " (pixels, text)"
        )
    )
    parts = [
        ("by what is known", summary(named, "category")),
        ("by tier", summary(rows, "tier")),
        ("by engine class", summary(rows, "engine_class")),
        ("by grade of the reading", summary(marked, "reading")),
    ]
    text = "## Speedups, laboratory left out\n\nAll rows: " + ", ".join(
        f"{name} {value if name in ('n', 'sources') else percent(value)}"
        for name, value in figures(rows).items()
    )
    for title, table in parts:
        text += f"\n\n{title}:\n\n{frame_table(table)}"
    return text + (
        "\n\n`other model`: the row states no accepted length, so the median of its drafter on "
        "other models serves."
    )


def _worst(rows: pd.DataFrame) -> str:
    body = [
        (
            row["source"],
            row["model_id"],
            row["hardware_id"],
            row["batch_size"],
            row["n_draft"],
            f"{row['measured']:.2f}",
            f"{row['predicted']:.2f} ({row['low']:.2f}-{row['high']:.2f})",
            REASONS.get(row["title"], "unknown"),
        )
        for row in worst(rows).to_dict("records")
    ]
    header = ("source", "model", "accelerator", "B", "K", "measured", "predicted (band)", "reason")
    return "## Worst cases\n\n" + markdown_table(header, body)


def _from_store() -> tuple[pd.DataFrame | None, str]:
    """(the table of R19, the section on kernel bars). Without a store, None."""
    try:
        with open_store(default_store_path()) as opened:
            table = kernel_table(
                opened, "moe", "h200-sxm", "vllm", dtype="bf16", distribution="balanced", ep=1
            )
            bars = bars_section(opened)
    except AdvisorError:
        return None, bars_section(None)
    wanted = {
        "hidden_size": 2048,
        "inter_size": 768,
        "topk": 8,
        "num_experts": 128,
        "moe_tp_size": 1,
    }
    for name, value in wanted.items():
        table = table[table[name] == value]
    return table, bars


def main(path: Path = REPORT) -> None:
    """Write the document, and the data that pages, reports and comparisons read. Judged rows, own
    runs, ratios."""
    decode = judged_decode()
    text, gates = report(decode)
    path.write_text(text, encoding="utf-8")
    write_gates([line.shipped for line in (range_gate(), *gates)], data_hash())
    write_judged(judge(judged_rows()), data_hash(), pooled(read_log()))
    found = own_runs(own_run_rows(mature_points(judged_points()[0])))
    sys.stdout.write(f"{write_own_runs(found, data_hash())} written\n")
    sys.stdout.write(f"{path} and {JUDGED} written\n")
    if decode is not None:
        sys.stdout.write(f"{write_judged_ratios(decode)} written\n")


if __name__ == "__main__":
    main()
