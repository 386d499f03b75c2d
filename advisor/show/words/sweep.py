"""What a sweep holds and answers, in sentences and in tables of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from advisor.answers.best_k import MAY_LOSE
from advisor.answers.explore.cells import SETTINGS
from advisor.answers.explore.questions import (
    SweepMap,
    loss_of_recommended,
    one_k_for_all,
    predicted,
    setting_text,
    values_of,
    varied,
    where,
)
from advisor.answers.explore.sweep_files import Sweep
from advisor.predict.scenario_fields import FIELDS
from advisor.show.phrases.reading import BOOK
from advisor.show.table import Column, Table, capital, matrix
from advisor.text import counted, listed

Cells = Mapping[Any, Any]
"""One row of an answer to a sweep, by column."""
_TIE = 0.01
"""Combinations within this share of the most tokens/s per GPU are named beside it. Own choice.
[-]"""
_NAMED = 12
"""Values of a setting that are listed. [-]"""


def label(name: str) -> str:
    """A setting's name as screen and report show it."""
    return FIELDS[name].screen_label if len(FIELDS[name].screen_label) < 25 else FIELDS[name].label


def swept_text(sweep: Sweep) -> str:
    """Size of a sweep, what of it cannot be or does not fit, and what it was computed by, in a
    sentence."""
    frame = sweep.frame
    points = frame[["n_draft", "fits", "recommended", "reason"]]
    known = predicted(points)
    best = known[known["recommended"]]
    impossible = int((points["n_draft"] < 0).sum())
    full = int((~best["fits"]).sum())
    parts = [counted(len(best) + impossible, "scenario")]
    if full:
        parts.append(f"{full:,} of them do not fit in memory")
    if impossible:
        parts.append(f"{impossible:,} cannot be")
    return f"{', '.join(parts)}; computed by {maker_text(sweep)}."


def maker_text(sweep: Sweep) -> str:
    """Release and constants by which a sweep was computed."""
    maker = sweep.maker
    if not maker:
        return "a release that is not named"
    return f"release {maker['release']}, constants {maker['constants']}"


def sweep_notes(sweep: Sweep) -> tuple[str, ...]:
    """Notes on the files: rows that stood there twice, an older release, names of before."""
    twice = counted(sweep.n_twice, "row")
    notes = [f"{twice} stood there twice and counted once."] if sweep.n_twice else []
    notes += ["Of an older release: times have no band."] if sweep.without_bands else []
    if sweep.renamed:
        notes.append(f"{capital(BOOK.say('old_names', vars(sweep)))}.")
    return tuple(notes)


def settings_texts(frame: pd.DataFrame) -> list[str]:
    """Settings that were varied, with their values, and what all rows have in common and is no
    default."""
    changing = varied(frame)
    texts = []
    for name, values in values_by_setting(frame).items():
        more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
        texts.append(f"{label(name)}: {', '.join(values[:_NAMED])}{more}")
    known = predicted(frame)
    common = [
        f"{label(name)} {setting_text(name, known[name].iloc[0])}"
        for name in SETTINGS
        if name not in changing and len(known) and not pd.isna(known[name].iloc[0])
        if FIELDS[name].is_required
        or FIELDS[name].needed
        or known[name].iloc[0] != FIELDS[name].default
    ]
    return [*texts, *([f"The same everywhere: {'; '.join(common)}"] if common else [])]


def values_by_setting(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Settings that were varied, each with its values as texts."""
    return {
        name: [setting_text(name, value) for value in values_of(predicted(frame), name)]
        for name in varied(frame)
    }


def reasons_texts(frame: pd.DataFrame) -> list[str]:
    """Reasons of combinations that cannot be, each with how often, the commonest first."""
    counts = frame.loc[frame["n_draft"] < 0, "reason"].value_counts()
    more = [f"and {counted(len(counts) - _NAMED, 'more reason')}"] if len(counts) > _NAMED else []
    return [*(f"{number:,}: {reason}" for reason, number in counts.head(_NAMED).items()), *more]


def pays_text(pays: pd.DataFrame) -> str:
    """Sentence on where drafting pays, of `where_drafting_pays`."""
    last_batches = pays["pays_up_to"].dropna()
    start = f"Drafting has a chance of a gain of at least {MAY_LOSE:.0%}"
    if not len(last_batches):
        return f"{start} nowhere in this sweep."
    ends = (
        f"up to batch {last_batches.min():,}"
        if last_batches.min() == last_batches.max()
        else f"up to batch {last_batches.min():,} to {last_batches.max():,}"
    )
    pairs = counted(len(pays), "pair")
    return f"{start} for {len(last_batches):,} of {pairs} of model and accelerator, {ends}."


def fastest_text(fastest: pd.DataFrame, max_tpot_ms: float | None) -> str:
    """Sentence on the fastest of all, of `fastest_within`."""
    within = "" if max_tpot_ms is None else f" within {max_tpot_ms:g} ms per token"
    fitting = fastest.dropna(subset=["row"])
    if not len(fitting):
        stays = f" and stays{within}" if within else ""
        return f"Nothing in this sweep fits in memory{stays}."
    best = fitting.loc[fitting["tokens_per_s_per_gpu"].idxmax()]
    n_unserved = len(fastest) - len(fitting)
    if within:
        mean_loss = "cannot keep that"
    else:
        mean_loss = "fits nowhere" if n_unserved == 1 else "fit nowhere"
    unserved_text = f" {counted(n_unserved, 'model')} {mean_loss}." if n_unserved else ""
    return (
        f"Most tokens/s per GPU{within}: {best['model_id']} on {best['hardware_id']} at batch "
        f"{best['batch_size']:,} with K = {best['n_draft']}, "
        f"{best['tokens_per_s_per_gpu']:,.0f}.{unserved_text}"
    )


def one_k_text(frame: pd.DataFrame) -> str:
    """Sentence on what the best K that all points have loses, and each point's own."""
    losses = one_k_for_all(frame)
    recommended_loss = loss_of_recommended(frame)
    if recommended_loss is None:
        return "Nothing in this sweep fits in memory."
    best = losses.iloc[0]
    text = (
        f"K = {best['n_draft']} for all loses {best['loss']:.1%} on average against the best K of "
        f"each simulated case, {best['worst']:.1%} at worst; each point's own K loses "
        f"{recommended_loss:.1%}."
    )
    few = losses[losses["points"] < losses["points"].max()]["n_draft"]
    return (
        text if few.empty else f"{text} Not every point has K = {', '.join(map(str, sorted(few)))}."
    )


_FORMS = {
    "speedup": ("speedup_low", "speedup_high", ".2f", "x"),
    "tpot_ms": ("tpot_low_ms", "tpot_high_ms", ".1f", ""),
    "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu_low", "tokens_per_s_per_gpu_high", ",.0f", ""),
}
"""Figures with a band: columns of its ends, format, unit."""
_FIGURES = {
    "Tokens/s per GPU": "tokens_per_s_per_gpu",
    "ms per token": "tpot_ms",
    "Speedup": "speedup",
}
"""Figures of a recommended row by heading."""


def _figure(cells: Cells, name: str) -> str:
    """A value with its band; the value alone where no band is known."""
    low, high, form, unit = _FORMS[name]
    text = f"{cells[name]:{form}}{unit}"
    ends = (cells[low], cells[high])
    return text if any(map(pd.isna, ends)) else f"{text} ({ends[0]:{form}}-{ends[1]:{form}})"


def pays_table(pays: pd.DataFrame) -> Table[Cells]:
    """Table of `where_drafting_pays`."""
    speedup = _if_known("pays_up_to", partial(_figure, name="speedup"))
    return _answers(
        pays,
        _name("Model", "model_id"),
        _name("Accelerator", "hardware_id"),
        Column("Pays up to batch", _pays_up_to),
        Column("K", _if_known("pays_up_to", itemgetter("n_draft"))),
        Column("Speedup", speedup),
        Column("Gains in", _if_known("pays_up_to", lambda cells: f"{cells['p_gain']:.0%}")),
        Column("Tier", _if_known("pays_up_to", itemgetter("tier")), words=True),
        known="pays_up_to",
    )


def _pays_up_to(cells: Cells) -> str:
    if pd.isna(cells["pays_up_to"]):
        return "nowhere" if cells["fits"] else "does not fit"
    return f"{cells['pays_up_to']:,}"


def fastest_table(fastest: pd.DataFrame) -> Table[Cells]:
    """Table of `fastest_within`."""
    figures = [
        Column(heading, _if_known("row", partial(_figure, name=name)))
        for heading, name in _FIGURES.items()
    ]
    return _answers(
        fastest,
        _name("Model", "model_id"),
        Column("Accelerator", _fastest_place, words=True),
        Column("Batch", _if_known("row", lambda cells: f"{cells['batch_size']:,}")),
        Column("K", _if_known("row", itemgetter("n_draft"))),
        *figures,
        Column("Tier", _if_known("row", itemgetter("tier")), words=True),
        known="row",
    )


def cells_table(rows: pd.DataFrame, free: Sequence[str]) -> Table[Cells]:
    """Table of recommended rows of a sweep: the settings that vary, batch, K and its figures."""
    settings = [
        Column(
            label(name), itemgetter(name), partial(_setting, name), words=FIELDS[name].range is None
        )
        for name in dict.fromkeys((*free, "batch_size"))
    ]
    figures = [Column(heading, partial(_figure, name=name)) for heading, name in _FIGURES.items()]
    columns: tuple[Column[Cells], ...] = (
        *settings,
        Column("K", itemgetter("n_draft")),
        *figures,
        Column("Gains in", itemgetter("p_gain"), "{:.0%}".format),
        Column("Tier", itemgetter("tier"), words=True),
        Column("Fits", lambda cells: "yes" if cells["fits"] else "no", words=True),
    )
    return Table(columns, rows.reset_index(names="row").to_dict("records"))


def _answers(frame: pd.DataFrame, *columns: Column[Cells], known: str) -> Table[Cells]:
    """An answer's columns, then the other settings of each row; a row is empty where `known` is
    missing."""
    others = (
        Column(label(name), _if_known(known, itemgetter(name)), partial(_setting, name))
        for name in frame.columns
        if name in SETTINGS and name not in ("model_id", "hardware_id", "batch_size")
    )
    return Table((*columns, *others), frame.to_dict("records"))


def _setting(name: str, value: Any) -> str:
    return "" if value is None else setting_text(name, value)


def _name(heading: str, field: str) -> Column[Cells]:
    return Column(heading, itemgetter(field), words=True)


def _if_known(field: str, value: Callable[[Cells], Any]) -> Callable[[Cells], Any]:
    """The value of a row, None where the row has no `field`."""
    return lambda cells: None if pd.isna(cells[field]) else value(cells)


def _fastest_place(cells: Cells) -> str:
    if not pd.isna(cells["row"]):
        return str(cells["hardware_id"])
    return (
        "fits nowhere"
        if pd.isna(cells["least_tpot_ms"])
        else f"{cells['least_tpot_ms']:.1f} ms at best"
    )


def one_k_table(frame: pd.DataFrame) -> Table[Cells]:
    """Table of `one_k_for_all`."""
    columns: tuple[Column[Cells], ...] = (
        Column("K for all", itemgetter("n_draft")),
        Column("Mean loss", itemgetter("loss"), "{:.1%}".format),
        Column("Worst loss", itemgetter("worst"), "{:.1%}".format),
        Column("Points", itemgetter("points"), "{:,}".format),
        Column("Lowest tier", itemgetter("tier"), words=True),
    )
    return Table(columns, one_k_for_all(frame).to_dict("records"))


def map_text(found: SweepMap) -> str:
    """Sentence on what a map shows, and what is fixed in it."""
    fixed = ", ".join(
        f"{label(name)} {setting_text(name, value)}" for name, value in found.fixed.items()
    )
    return (
        f"Speedup at the recommended K by {label(found.x)} and "
        f"{label(found.y)}{fixed and f', at {fixed}'}."
    )


def map_cells(found: SweepMap) -> list[tuple[str, str, pd.Series]]:
    """Values of both settings as texts, and the row, of each cell that the grid has."""
    return [
        (
            setting_text(found.x, across),
            setting_text(found.y, down),
            found.cells.loc[found.row[row, column]],
        )
        for row, down in enumerate(found.y_values)
        for column, across in enumerate(found.x_values)
        if found.has[row, column]
    ]


def map_table(found: SweepMap) -> Table[Sequence[Any]]:
    """The cells of a map as text: speedup and K, a dash where nothing is or fits."""
    speedup = found.values("speedup")
    drafts = found.values("n_draft")
    fits = found.fits
    rows = [
        (
            setting_text(found.y, value),
            *(
                f"{speedup[row, column]:.2f}x, K {drafts[row, column]:.0f}"
                if fits[row, column]
                else "-"
                for column in range(len(found.x_values))
            ),
        )
        for row, value in enumerate(found.y_values)
    ]
    return matrix(
        (label(found.y), *(setting_text(found.x, value) for value in found.x_values)), rows
    )


def best_rows(frame: pd.DataFrame, found: SweepMap) -> pd.DataFrame:
    """The recommended rows of a map's settings, one for each cell."""
    rows = where(predicted(frame), found.fixed)
    return rows[rows["recommended"]]


def fastest_of_each(best: pd.DataFrame, varied: Sequence[str]) -> str:
    """Combination of most tokens/s per GPU at each batch, with its ties, in a line. Empty for one
    combination."""
    batches_by_name: dict[str, list[str]] = {}
    for batch, rows in best.groupby("batch_size") if varied else ():
        rate = rows["tokens_per_s_per_gpu"]
        tied = rows[rate >= (1.0 - _TIE) * rate.max()].sort_values(
            "tokens_per_s_per_gpu", ascending=False
        )
        names = [_named(row, varied) for row in tied.to_dict("records")]
        ties = f" (within {_TIE:.0%}: {', '.join(names[1:])})" if names[1:] else ""
        batches_by_name.setdefault(names[0] + ties, []).append(f"{batch:,}")
    texts = list(batches_by_name)
    if len(batches_by_name) > 1:
        texts = [f"{name} at batch {listed(at)}" for name, at in batches_by_name.items()]
    everywhere = ", at every batch" if len(batches_by_name) == 1 else ""
    most = f"Most tokens/s per GPU: {'; '.join(texts)}{everywhere}." if batches_by_name else ""
    if not most or "usd" not in best or best["usd"].isna().all():
        return most
    cheapest = best.loc[best.groupby("batch_size")["usd"].idxmin()]
    least = {_named(row, varied) for row in cheapest.to_dict("records")}
    return (
        f"{most} Cheapest per token: {listed(sorted(least))}; prices by the profiles (hardware ID)."
    )


def _named(row: Mapping[Any, Any], fields: Sequence[str]) -> str:
    """A combination by its values; a number with the name of its option."""
    flags = {name: FIELDS[name].flags[0].name.removeprefix("--") for name in fields}
    return " ".join(
        str(row[name]) if isinstance(row[name], str) else f"{flags[name]} {row[name]}"
        for name in fields
    )
