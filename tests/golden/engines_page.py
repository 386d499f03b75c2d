"""The tables of docs/engines.md, from profiles/engines: `python -m tests.golden.engines_page`."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.catalog.engines import Engine, Guard, engines, export_engines
from advisor.physics.hardware import ComputeDtype, compute_dtype, hardware_ids, load_hardware
from advisor.show.phrases.notes import BOOK

FILE = Path(__file__).parents[2] / "docs" / "engines.md"
_BLOCK = re.compile(
    r"(<!-- (guards|adaptive|mtp|platforms|formats) -->\n).*?(?=<!-- end -->)", re.DOTALL
)
WHEN = {
    "speculation": "speculation",
    "table": "a table",
    "zero_in_table": "K = 0 in it",
    "data_parallel": "data parallelism",
    "multi_layer_eagle": "multi-layer EAGLE",
    "own_forward": "a drafter that runs a model",
    "older_runner": "suffix, P-EAGLE",
    "dspark": "DSpark's drafter",
    "context_matters": "K that differs by context",
    "split_blocks": "experts split within fp8 blocks",
    "adaptive": "adaptive verification",
    "part_of_modules": "MTP, more drafts than modules",
}


def _range(guard: Guard) -> str:
    if guard.since and guard.before:
        return f"{guard.since} to before {guard.before}"
    return (
        f"from {guard.since}"
        if guard.since
        else f"before {guard.before}"
        if guard.before
        else "all that were read"
    )


def guards_table() -> str:
    """Every guard of every engine as a row."""
    lines = [
        "| engine | versions | with | effect | what happens | instead | source |",
        "|---|---|---|---|---|---|---|",
    ]
    for engine in export_engines():
        for guard in engine.guards:
            cells = (
                engine.name,
                _range(guard),
                ", ".join(WHEN[tag] for tag in guard.when),
                BOOK.say("guard_effect", {"effect": guard.effect}),
                guard.says,
                f"`{guard.do}`" if guard.do.startswith("--") else guard.do,
                f"{guard.source} ({guard.date})",
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def adaptive_table() -> str:
    """Every rule of adaptive verification as a row."""
    lines = [
        "| engine | versions | turned on by | drafters | chips | latent attention on | recurrent "
        "layers of | source |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for engine in engines():
        for rule in engine.adaptive:
            lists = (rule.methods, rule.chips, rule.latent_chips, rule.recurrent)
            cells = [engine.name, f"{rule.since} to before {rule.before}", f"`{rule.key}`"]
            cells += [", ".join(each) or "none" for each in lists]
            lines.append("| " + " | ".join([*cells, f"{rule.source} ({rule.date})"]) + " |")
    return "\n".join(lines) + "\n"


def _families(engine: Engine) -> dict[str, int]:
    return engine.mtp.models if engine.mtp is not None else {}


def mtp_table() -> str:
    """Which engine runs the MTP modules of which family."""
    exported = export_engines()
    families = sorted({family for engine in exported for family in _families(engine)})
    lines = [
        "| model_type | " + " | ".join(engine.name for engine in exported) + " |",
        "|---|" + "---|" * len(exported),
    ]
    for family in families:
        cells = [_says(engine, family) for engine in exported]
        lines.append(f"| {family} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _says(engine: Engine, family: str) -> str:
    modules = _families(engine).get(family)
    if modules is None or engine.mtp is None:
        return "no"
    layers = ", a worker per module" if family in engine.mtp.multi_layer else ""
    return (
        "yes" if modules == 0 else f"yes, {modules} where the configuration states none"
    ) + layers


def platforms_table() -> str:
    """Vendors that each engine runs on, and the weight formats that its documentation leaves
    open."""
    lines = [
        "| engine | runs on | weight formats not listed | source of these |",
        "|---|---|---|---|",
    ]
    for engine in engines():
        rules = [
            f"{', '.join(rule.formats)} on {', '.join(rule.generations)}"
            for rule in engine.unlisted
        ]
        sources = dict.fromkeys(rule.source for rule in engine.unlisted)
        lines.append(
            f"| {engine.name} | {', '.join(engine.vendors)} | {'; '.join(rules) or '-'} | "
            f"{'; '.join(sources) or '-'} |"
        )
    return "\n".join(lines) + "\n"


_FORMATS: tuple[ComputeDtype, ...] = ("fp8", "int8", "nvfp4", "mxfp4")


def formats_table() -> str:
    """Generations with arithmetic of their own in each narrow format, as profiles/hardware give
    peaks."""
    by_generation = {load_hardware(name).generation: load_hardware(name) for name in hardware_ids()}
    lines = ["| generation | " + " | ".join(_FORMATS) + " |", "|---|" + "---|" * len(_FORMATS)]
    for generation, hardware in sorted(by_generation.items()):
        cells = [
            "yes" if compute_dtype(hardware, dtype) == dtype else "widened to bf16"
            for dtype in _FORMATS
        ]
        lines.append(f"| {generation} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def with_tables(text: str) -> str:
    """The page with its tables written anew."""
    tables = {
        "guards": guards_table(),
        "adaptive": adaptive_table(),
        "mtp": mtp_table(),
        "platforms": platforms_table(),
        "formats": formats_table(),
    }
    return _BLOCK.sub(lambda found: found[1] + tables[found[2]], text)


if __name__ == "__main__":
    FILE.write_text(with_tables(FILE.read_text(encoding="utf-8")), encoding="utf-8")
