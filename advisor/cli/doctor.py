"""`doctor`: a running server's own acceptance and load, the K that it should run, and the flags to
change."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import count
from typing import Any

import click

from advisor.answers.advice import advise as advise_scenario
from advisor.answers.diagnosis.facts import server_facts
from advisor.answers.flags import holds
from advisor.answers.running import FLAGS, flag_changes, running_facts
from advisor.catalog.engines import is_release, load_engine
from advisor.catalog.models import model_meant
from advisor.cli import asked
from advisor.cli import output as out
from advisor.cli.advise import advice_document
from advisor.cli.runtime import export_words
from advisor.measured.server import PAGES, ServerReading, read_server, server_at
from advisor.predict.scenario import Scenario, scenario_words
from advisor.predict.scenario_fields import FIELDS, MAX_DRAFT
from advisor.prediction import AdvisorError
from advisor.show.phrases.doctor import BOOK, SLOTS
from advisor.show.phrases.notes import note_texts
from advisor.show.phrases.reading import reading_texts
from advisor.show.phrases.schedule import BOOK as SCHEDULE_BOOK
from advisor.show.table import matrix
from advisor.show.words.answer import k_by_batch_table

HEADER_VARIABLE = "MOE_ADVISOR_HEADER"


class _DoctorCommand(asked.ScenarioCommand):
    """A scenario whose model, engine, acceptance and batch a running server states."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params[0] = click.Argument(["url"], metavar="URL")

    def prepare(self, ctx: click.Context) -> None:
        """Read the server, and put what it states where nothing is typed. Raises AdvisorError."""
        params = ctx.params
        gpus = getattr(params["n_gpus"], "hardware_id", params["hardware_id"])
        asked.refuse_missing(ctx, params | {"model_id": "the server's", "hardware_id": gpus})
        server = server_at(params.pop("url"), params.pop("header"))
        seconds = params.pop("seconds")
        reading = read_server(
            server,
            None if params.pop("since_start") else seconds,
            params.pop("k"),
            params.pop("served_model"),
        )
        typed = asked.typed_names(ctx)
        if "engine" in typed and params["engine"] != reading.engine:
            raise AdvisorError(
                f"--engine {params['engine']}, but {reading.url} is a server of "
                f"{load_engine(reading.engine).name}; leave --engine out"
            )
        for name, value in _stated(reading, typed):
            if name not in typed:
                asked.type_in(ctx, name, value)
        asked.place_gpus(ctx)
        scenario = asked.scenario_asked(ctx)
        if scenario.drafter_id == "none":
            raise AdvisorError(
                f"{reading.url} drafts K = {reading.k}, but no drafter is given; name the server's "
                "with --drafter"
            )
        longest = max(scenario.k_max, reading.k)
        params["scenario"] = scenario.model_copy(update={"k_max": longest})
        params["reading"] = reading


def _stated(reading: ServerReading, typed: set[str]) -> Iterator[tuple[str, Any]]:
    """Options that a server settles, by the names of their parameters."""
    facts = server_facts(reading.settings) if reading.engine == "sglang" else {}
    if "model_id" not in typed:
        model = model_meant(reading.model or "")
        if model is None:
            raise AdvisorError(
                f"{reading.url} serves {reading.model or 'a model without a name'}, which is none "
                "that is known; name it with --model"
            )
        yield "model_id", model
    yield "engine", reading.engine
    if is_release(reading.version or ""):
        yield "engine_version", reading.version
    if "drafter" in facts:
        yield "drafter_id", facts["drafter"]
    if facts.get("data_parallel", 1) == 1 and "tensor_parallel" in facts:
        placement = ("tensor_parallel", "expert_parallel")
        yield from ((name, facts[name]) for name in placement if name in facts)
    if facts.get("kv_dtype") in FIELDS["kv_dtype"].choices:
        yield "kv_dtype", facts["kv_dtype"]
    if not typed & set(asked.ACCEPTANCE):
        kind = "acceptance" if reading.rates.length is None else "accepted_length"
        yield kind, reading.rates.text
    if "batch_size" in typed:
        return
    running = reading.load.running
    if running is None:
        gauge = PAGES[reading.engine].running[0]
        raise AdvisorError(
            f"{reading.url}/metrics lacks {gauge}, so the load is not known; give --batch"
        )
    if round(running) < 1:
        raise AdvisorError(
            f"no request runs at {reading.url}, so the load is not known; ask while it serves, or "
            "give --batch"
        )
    yield "batch_size", round(running)


@click.command(cls=_DoctorCommand)
@click.option(
    "--seconds",
    type=click.IntRange(1, 3600),
    default=5,
    show_default=True,
    help="Time between the two scrapes.",
)
@click.option("--since-start", is_flag=True, help="Read once; use totals since the server started.")
@click.option(
    "--k",
    type=click.IntRange(1, MAX_DRAFT),
    help="K the server runs, if it does not report it.",
)
@click.option("--served-model", help="Which model to read when /metrics reports several.")
@click.option(
    "--header",
    envvar=HEADER_VARIABLE,
    help=f"Header to send, `Authorization: Bearer KEY` [default: ${HEADER_VARIABLE}].",
)
@out.json_option()
def doctor(scenario: Scenario, reading: ServerReading, as_json: bool) -> None:
    """Read a running server's acceptance and load, and recommend K.

    It reads /metrics twice, --seconds apart, and the settings that the server gives. Model, engine,
    acceptance and batch come from the server unless you give them; you must name the GPUs.
    """
    advice = advise_scenario(scenario)
    running = running_facts(advice, reading)
    facts = running.facts
    changes = flag_changes(advice, reading, running)
    lengths = reading.rates.accepted_lengths(len(reading.rates.conditional))
    warnings = reading_texts(reading.rates.warnings)
    if as_json:
        out.print_json(
            {
                "server": facts,
                "says": {slot: BOOK.say(slot, facts) for slot in SLOTS},
                "acceptance": reading.rates.text,
                "accepted_lengths": lengths.to_dict("records"),
                "change": changes,
                "warnings": warnings,
                "answer": advice_document(advice),
            }
        )
        return
    for slot in SLOTS[:2]:
        out.say(BOOK.say(slot, facts))
    if reading.rates.length is None:
        shares = map("{:.3f}".format, reading.rates.conditional)
        tokens = map("{:.2f}".format, lengths["accepted_length"][1:])
        rows = list(zip(count(1), shares, tokens, strict=False))
        out.print_table(matrix(("position", "accepted", "accepted length"), rows, "rrr"))
    out.print_labelled("warning", warnings)
    out.say(f"\n{BOOK.say('headline', facts)}\n")
    if not holds(FLAGS, "fits", facts):
        out.print_labelled("warning", note_texts(advice.notes))
        return
    out.print_table(k_by_batch_table(advice.k_by_batch, scenario.max_tpot_ms is not None))
    out.say(SCHEDULE_BOOK.say("enough", advice.schedule.facts))
    if changes:
        out.say(f"\n{BOOK.say('change', facts)}")
    for check in changes:
        flag = f"  {check.flag} {shlex.quote(check.wanted)}"
        click.echo(flag if check.wanted else f"  remove {check.flag}")
    out.print_labelled("warning", note_texts(advice.notes))
    words = export_words(advice.setup, scenario_words(scenario))
    out.print_next({"as the engine loads it": words})
