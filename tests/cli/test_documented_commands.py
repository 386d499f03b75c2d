"""Every `advisor ...` of README and docs is parsed; the quick ones are run on documented files."""

from __future__ import annotations

import glob
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from advisor.catalog.models import model_profile
from advisor.cli import main, root
from advisor.predict.curve import curve_for
from advisor.predict.load import load_setup
from advisor.predict.scenario import build_scenario, load_example, scenario_json
from advisor.profiling.command import parser as profiling_parser
from advisor.profiling.engine.command import parser as engine_parser
from tests.catalog.test_hardware import POD
from tests.command_line import QWEN, Run

TOP = Path(__file__).resolve().parents[2]
FIXTURES = TOP / "tests" / "fixtures"
PAGES = [
    TOP / "README.md",
    *(
        page
        for page in sorted((TOP / "docs").rglob("*.md"))
        if page.name not in ("cli.md", "questions.md")
    ),
]
"""docs/cli.md is written from the commands themselves, docs/questions.md with their answers."""
_BLOCK = re.compile(r"^ {4,}(\$ )?(?:python -m )?(advisor\S*) (.*)$")
_INLINE = re.compile(r"`python -m (advisor(?:\.profiling)?)((?: [^`\n]*)?)`")
BASE = dict(zip(QWEN[::2], QWEN[1::2], strict=True))
"""What `...` stands for: a scenario's own options."""
WIDE = {"--model": "deepseek-v3", "--ep": "8", "--batch": "64", "--drafter": "mtp"} | {
    "--hardware": "h200-sxm",
    "--acceptance-preset": "deepseek-r1-mtp-internal",
}
"""The same beside loads of experts."""
LONG = {
    "app": "starts a server",
    "mcp": "serves: tests/cli/test_mcp.py",
    "profile": "measures the device",
    "doctor": "asks a server: tests/cli/test_doctor.py",
    "store": "build: tests of the store",
    "validate": "without a file: tests of the validation",
    "design": "README's own example is run by tests/golden",
    "explore": "tests/cli/test_explore.py",
    "simulate": "tests/cli/test_runtime.py",
    "report": "tests/cli/test_report.py",
    "ingest": "run in tests/cli/test_measure.py",
}
"""Commands that are parsed here and run elsewhere, and where."""
PLACED = {"--expert-loads", "--trace"}


def documented() -> Iterator[tuple[str, str, str]]:
    """(page, module, arguments) of every command, continued lines joined and comments cut."""
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        for place, line in enumerate(lines):
            where = f"{page.relative_to(TOP)}:{place + 1}"
            if found := _BLOCK.match(line):
                text = found[3]
                at = place
                while re.split(r"\s+#", text)[0].rstrip().endswith("\\"):
                    at += 1
                    text = re.split(r"\s+#", text)[0].rstrip()[:-1] + " " + lines[at].strip()
                command = re.split(r"\s+#\s", text + " ")[0].strip()
                yield where, SHOWN if found[1] else found[2], command
            else:
                yield from ((where, module, text.strip()) for module, text in _INLINE.findall(line))


SHOWN = "advisor, with its output"
"""An example that tests/house/test_documents.py runs."""
COMMANDS = [
    (*command, where) for command, where in {each[1:]: each[0] for each in documented()}.items()
]


def words(text: str) -> list[str]:
    """The words of a command: optional parts left out, the first of several choices taken, `...`
    spelt out."""
    text = re.sub(r"\s\[[^\]]*\]", "", text)
    given = [re.sub(r"\|.*", "", word) for word in shlex.split(text)]
    if "..." not in given:
        return given
    base = WIDE if PLACED & set(given) else BASE
    spelt = [
        word for option, value in base.items() if option not in given for word in (option, value)
    ]
    return [given[0], *spelt, *(word for word in given[1:] if word != "...")]


def parsed(text: str) -> str:
    """Name of the command after its arguments were parsed as the command line does. Raises
    click.UsageError."""
    name, *arguments = words(text)
    above = click.Context(
        root, **root.context_settings
    )  # a command keeps the help option of its first context
    command = root.get_command(above, name)
    assert command is not None, name
    context = command.make_context(name, arguments, parent=above)
    if isinstance(command, click.Group):
        inner, _, rest = command.resolve_command(context, [*context.protected_args, *context.args])
        assert inner is not None
        command.commands[inner].make_context(inner, rest, parent=context)
    return name


def test_pages_hold_commands_and_the_reading_of_them_can_fail() -> None:
    assert len(COMMANDS) > 30
    assert len({where.partition(":")[0] for _, _, where in COMMANDS}) > 10
    for broken in ("advise --modell x", "predict", "no-such-command", "explore --users many"):
        with pytest.raises((click.UsageError, AssertionError)):
            parsed(broken)


@pytest.mark.parametrize(("module", "text", "where"), COMMANDS, ids=[each[2] for each in COMMANDS])
def test_a_documented_command_is_understood(module: str, text: str, where: str) -> None:  # noqa: ARG001
    if module == "advisor.profiling" and "--engine" in words(text):
        engine_parser().parse_args(words(text))
    elif module == "advisor.profiling":
        profiling_parser().parse_args(words(text))
    elif words(text):
        parsed(text)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that documented commands name, of the documented columns."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "results").mkdir()
    (folder / "path" / "to").mkdir(parents=True)
    _write_runs(folder)
    _write_acceptance(folder)
    _write_choices(folder)
    shutil.copy(FIXTURES / "ingest" / "vllm_serve_trimmed_constructed.json", folder / "run.json")
    log = (FIXTURES / "power" / "nvidia_smi_constructed.csv").read_text().splitlines()
    (folder / "power.csv").write_text("\n".join(line for line in log if ", 1, " not in line))
    (folder / "server.log").write_text(
        "vllm serve Qwen/Qwen3-30B-A3B --enforce-eager --max-num-seqs 64\n"
    )
    for name in ("scenario.json", "my-scenario.json"):
        (folder / name).write_text(scenario_json(load_example("mixtral").scenario))
    (folder / "path" / "to" / "config.json").write_text(
        json.dumps(dict(model_profile(BASE["--model"]).config))
    )
    (folder / "my-accelerator.json").write_text(json.dumps(POD))
    with pytest.raises(SystemExit):
        main(
            ["fit", str(folder / "my_points.csv"), "--force", "--output", str(folder / "my.refit")]
        )
    return folder


def _write_runs(folder: Path) -> None:
    """Runs whose steps take 2 ms more than predicted, as a table and as records that leave the
    accelerator out."""
    named = {
        "hardware_id": BASE["--hardware"],
        "model_id": BASE["--model"],
        "drafter": BASE["--drafter"],
    }
    named |= {
        "gpu_count": 1,
        "tensor_parallel": 1,
        "engine": "vllm",
        "draft_tokens_k": 3,
        "accepted_length": 2.4,
    }
    batches = [1, 2, 4, 8, 16, 32, 64, 128]
    asked = {
        "hardware_id": BASE["--hardware"],
        "model_id": BASE["--model"],
        "drafter_id": BASE["--drafter"],
    }
    curve = curve_for(
        load_setup(build_scenario(**asked, acceptance=BASE["--accepted-length"], engine="vllm")),
        batches,
        [0, 3],
    )
    rows = []
    for place, batch in enumerate(batches):
        plain = 1000.0 * (curve.plain_step_s[place] + 0.002)
        round_s = 1000.0 * (curve.round_s[place, 1] + 0.002)
        values = {"baseline_value": plain, "sd_value": round_s / 2.4, "metric": "tpot_ms"}
        rows.append(named | {"batch_size": batch} | values)
    table = [list(rows[0]), *(each.values() for each in rows)]
    (folder / "my_points.csv").write_text("\n".join(",".join(map(str, cells)) for cells in table))
    shutil.copy(folder / "my_points.csv", folder / "my_runs.csv")
    for name, k, time in (("plain.json", 0, "baseline_value"), ("mtp.json", 3, "sd_value")):
        alone = [
            {**named, "draft_tokens_k": k, "batch_size": row["batch_size"], "tpot_ms": row[time]}
            for row in rows
        ]
        (folder / name).write_text(json.dumps(alone))
    for name in ("my_run.json", "results/a.json"):
        (folder / name).write_text(
            json.dumps([{k: v for k, v in each.items() if k != "hardware_id"} for each in rows])
        )


def _write_acceptance(folder: Path) -> None:
    counted = {"num_drafts": 100, "num_draft_tokens": 300, "num_accepted_tokens": 140}
    names = {f"vllm:spec_decode_{what}_total": count for what, count in counted.items()}
    per_position = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    names |= {
        f'{per_position}{{position="{place}"}}': count for place, count in enumerate((70, 45, 25))
    }
    for file, scale in (("before.txt", 1), ("after.txt", 3)):
        (folder / file).write_text(
            "".join(f"{name} {count * scale}\n" for name, count in names.items())
        )


def _write_choices(folder: Path) -> None:
    """Choices of experts and loads of DeepSeek-V3, and in a folder of their own those of the small
    model."""
    draws = np.random.default_rng(0)
    (folder / "small").mkdir()
    for place, layers, experts in ((folder, 58, 256), (folder / "small", 48, 128)):
        for number in (1, 2):
            chosen = np.argsort(draws.random((48, layers, experts)), axis=-1)[..., :8].astype(
                np.int16
            )
            np.save(place / f"request-{number}.npy", chosen)
    counts = draws.integers(50, 150, (58, 256))
    table = "".join(
        f"{layer},{expert},{count}\n" for (layer, expert), count in np.ndenumerate(counts)
    )
    for name in ("loads.csv", "loads.txt"):
        (folder / name).write_text("layer,expert,tokens\n" + table)


def is_quick(text: str) -> bool:
    """Whether a command is run here: `expert-ranks` with files of its own alone, and nothing that
    reads what an engine measured."""
    given = words(text)
    if "my-design" in text:
        return False
    return given[0] not in LONG and (given[0] != "expert-ranks" or bool(PLACED & set(given)))


RUN = [
    (text, where)
    for module, text, where in COMMANDS
    if module == "advisor" and text and is_quick(text)
]


@pytest.mark.parametrize(("text", "where"), RUN, ids=[where for _, where in RUN])
def test_a_documented_command_runs(
    text: str, where: str, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    shutil.copytree(kept, tmp_path / "here")
    given = words(text)
    monkeypatch.chdir(
        tmp_path / "here" / ("small" if BASE["--model"] in given and given[0] == "trace" else "")
    )
    expanded = [
        name for word in given for name in (sorted(glob.glob(word)) if "*" in word else [word])
    ]
    status, _, said = run(*expanded)
    assert status == 0, (where, text, said)


def test_commands_that_the_package_names_are_today_s() -> None:
    """On screen, in errors and in docstrings; a command of the release before would answer with its
    new line."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((TOP / "advisor").rglob("*.py"))]
    texts = [re.sub(r'"\n\s+f?"', "", source) for source in sources]  # literals run on
    named = {
        name for text in texts for name in re.findall(r"python -m advisor ([a-z][a-z-]+)", text)
    }
    assert {"explore", "profile", "models"} <= named
    assert not named - set(root.list_commands(click.Context(root)))
