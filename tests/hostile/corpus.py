"""SYNTHETIC hostile files, made by code from one seed: every kind that a command or an uploader
takes, damaged or bent.

Text and JSON of each tool are cut, doubled, nested and filled with what a cell or key must not
hold; archives are bombs, truncated or nested; arrays claim shapes that they do not have;
configurations have absurd sizes.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from advisor.answers.explore.cells import COLUMNS as SWEPT
from tests.hostile.wrong_units import right

SEED = 1717
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "ingest"
CELLS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "0",
    "1e-320",
    "0x10",
    "1_000",
    "1,234",
    "1,5",
    "true",
    "=1+1",
    "@SUM(A1)",
    "+cmd|'/c calc'!A0",
    "\N{FULLWIDTH DIGIT SEVEN}",
    "\N{ARABIC-INDIC DIGIT FOUR}",
    "\x00",
    "\u202e16",
    "9" * 400,
    "h" * 100_000,
    "<script>alert(1)</script>",
    "{{7*7}}",
    "'; DROP TABLE uploads; --",
    "../../etc/passwd",
    "\N{SNOWMAN}",
    "12 ms",
    "1e5e5",
)
COLUMNS = (
    "hardware_id",
    "model_id",
    "engine",
    "batch_size",
    "draft_tokens_k",
    "accepted_length",
    "tpot_s",
    "drafter",
)
JSON_VALUES: tuple[object, ...] = (
    None,
    True,
    [],
    {},
    "x",
    "",
    -1,
    0,
    1e308,
    -1e308,
    10**400,
    "NaN",
    [[[[]]]],
    {"a": {"b": 1}},
    0.5,
    2**63,
    ["0.5", None],
    "\ud800",
    [1] * 1000,
    {"key": "\x1b[31m"},
)
CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "torch_dtype": "bfloat16",
}
SCENARIO = {"schema_version": 1, "scenario": {"acceptance": "2.4@3", "batch_size": 16}}
HARDWARE = {
    "name": "Pod",
    "memory_bytes": 1.41e11,
    "bandwidth_bytes_per_s": 4.8e12,
    "peak_flops_per_s": {"bf16": 9.89e14},
    "date": "2026-11-20",
}
METRICS = (
    'vllm:spec_decode_num_drafts_total{model_name="m"} 100\n'
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="0"} 70\n'
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",position="1"} 40\n'
)


def corpus() -> dict[str, bytes]:
    """All files by name; the same on every call."""
    rng = np.random.default_rng(SEED)
    made = {}
    for source in (
        _tables(),
        _json(rng),
        _archives(),
        _bytes(rng),
        _arrays(),
        _documents(),
        _tools(rng),
        _parquets(),
    ):
        for name, data in source:
            assert name not in made, name
            made[name] = data
    return made


def _template() -> str:
    frame = right()
    few = frame["batch_size"].isin([1, 8, 64]) & frame["draft_tokens_k"].isin([1, 3])
    columns = [*COLUMNS, "gpu_count", "tensor_parallel", "accepted_length_same_run", "speedup"]
    return str(frame.loc[few, columns].to_csv(index=False))


def _tables() -> Iterator[tuple[str, bytes]]:
    text = _template()
    head, *rows = text.splitlines()
    place = {name: i for i, name in enumerate(head.split(","))}
    for number, cell in enumerate(CELLS):
        for column in ("batch_size", "tpot_s") if number % 2 else ("model_id", "accepted_length"):
            bent = rows[0].split(",")
            bent[place[column]] = f'"{cell}"' if "," in cell else cell
            yield (
                f"cell-{number:02d}-{column}.csv",
                "\n".join([head, ",".join(bent), *rows[1:], ""]).encode(),
            )
    yield "only-header.csv", head.encode()
    yield "header-twice.csv", f"{head}\n{text}".encode()
    yield (
        "same-column-twice.csv",
        "\n".join(f"{row},{row.split(',')[3]}9" for row in (f"{head}", *rows)).encode(),
    )
    yield "extra-cells.csv", "\n".join([head, *(f"{row},1,2" for row in rows)]).encode()
    yield "short-cells.csv", "\n".join([head, *(row.rsplit(",", 2)[0] for row in rows)]).encode()
    yield "open-quote.csv", (head + '\n"' + "\n".join(rows)).encode()
    yield "quote-in-header.csv", ('"' + text).encode()
    yield "many-columns.csv", (",".join(f"c{i}" for i in range(300_000)) + "\n").encode()
    yield "long-line.csv", (head + "\n" + "a" * 5_000_000).encode()
    yield "blank-lines.csv", ("\n" * 100_000 + text + "\n" * 100_000).encode()
    yield "only-commas.csv", (b"," * 10 + b"\n") * 1000
    yield "carriage-returns.csv", text.replace("\n", "\r").encode()
    yield "mixed-ends.csv", text.replace("\n", "\r\n", 3).encode()
    yield "utf16.csv", text.encode("utf-16")
    yield "utf32-cut.csv", text.encode("utf-32")[:-3]
    yield "latin1.csv", text.replace("qwen3-30b-a3b", "Modèle").encode("latin-1")
    yield "wrong-bom.csv", b"\xff\xfe" + text.encode()
    yield "nul-bytes.csv", text.replace(",", "\x00,").encode()
    yield "tabs-and-commas.csv", text.replace(",", "\t", 40).encode()
    yield "semicolons-decimal-commas.csv", text.replace(",", ";").replace(".", ",").encode()
    yield "comment-only.csv", b"# nothing\n# at all\n"
    yield "bidi.csv", text.replace("vllm", "\u202evllm\u2066").encode()
    yield "all-equal-rows.csv", "\n".join([head, *([rows[3]] * 100)]).encode()


def _json(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    for path in sorted(FIXTURES.glob("*.json*")):
        if path.stat().st_size > 200_000:
            continue
        text = path.read_text(encoding="utf-8")
        yield f"cut-{path.name}", text[: int(len(text) * rng.uniform(0.2, 0.9))].encode()
        first = text.splitlines()[0] if path.suffix == ".jsonl" else text
        document = json.loads(first)
        record = document[0] if isinstance(document, list) else document
        for _ in range(2):
            bent = dict(record)
            for key in rng.choice(list(record), size=min(4, len(record)), replace=False):
                bent[str(key)] = JSON_VALUES[int(rng.integers(len(JSON_VALUES)))]
            yield f"bent-{rng.integers(10**6):06d}-{path.name}", json.dumps(bent).encode()
    yield "deep-list.json", b"[" * 200_000
    yield "deep-object.json", b'{"a":' * 5000 + b"1" + b"}" * 5000
    yield "deep-inside.json", json.dumps(SCENARIO).replace("16", "[" * 900 + "]" * 900).encode()
    yield "key-twice.json", b'{"a": 1, "a": 2}'
    yield "key-twice-inside.jsonl", b'{"x": {"a": 1, "a": 2}}\n{"x": 1}\n'
    yield "huge-number.json", b'{"a": ' + b"9" * 10_000 + b"}"
    yield "nan.json", b'{"a": NaN, "b": Infinity}'
    yield "lone-surrogate.json", b'{"a": "\\ud800"}'
    yield "scalar.json", b"42"
    yield "null.json", b"null"
    yield "strings.json", json.dumps(["a"] * 1000).encode()
    yield "empty-objects.jsonl", b"{}\n" * 1000
    yield "half-lines.jsonl", b'{"batch_size": 1\n' * 100


def _zip(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(
                zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED
            )  # without the time of day
    return out.getvalue()


def _parquets() -> Iterator[tuple[str, bytes]]:
    """Tables of other kinds and bent sweeps, as Parquet."""

    def parquet(frame: pd.DataFrame) -> bytes:
        out = io.BytesIO()
        frame.to_parquet(out, index=False)
        return out.getvalue()

    row = {name: ["x" if kind == "string" else 1] for name, kind in SWEPT.items()}
    whole = parquet(pd.DataFrame(row))
    yield "foreign.parquet", parquet(pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    yield "empty.parquet", parquet(pd.DataFrame({name: [] for name in SWEPT}))
    yield "all-text.parquet", parquet(pd.DataFrame({name: ["x"] for name in SWEPT}))
    yield "nested.parquet", parquet(pd.DataFrame({name: [[[1, 2]]] for name in SWEPT}))
    yield "nothing-set.parquet", parquet(pd.DataFrame({name: [None] for name in SWEPT}))
    yield "impossible.parquet", whole
    yield "long-text.parquet", parquet(pd.DataFrame(row | {"model_id": ["x" * 3_000_000]}))
    yield (
        "infinite.parquet",
        parquet(pd.DataFrame(row | {"speedup": [float("inf")], "reason": [""]})),
    )
    yield "cut.parquet", whole[: len(whole) // 2]
    yield "two-heads.parquet", whole + whole
    yield "only-a-mark.parquet", b"PAR1" * 3


def _archives() -> Iterator[tuple[str, bytes]]:
    text = _template().encode()
    bomb = b"0," * (130 * 1024 * 1024)  # 260 MiB, just above the limit
    packed = gzip.compress(bomb, 1, mtime=0)
    yield "bomb.csv.gz", packed
    yield "bomb-cut.csv.gz", packed[:-10]
    yield "bomb.zip", _zip(("x.csv", bomb))
    yield "cut.gz", gzip.compress(text, mtime=0)[:-12]
    yield "wrong-sum.gz", gzip.compress(text, mtime=0)[:-8] + b"\0" * 8
    yield "twice.gz", gzip.compress(gzip.compress(text, mtime=0), mtime=0)
    yield "junk-after.gz", gzip.compress(text, mtime=0) + b"junk" * 100
    yield "two-members.gz", gzip.compress(text, mtime=0) + gzip.compress(text, mtime=0)
    yield "cut.zip", _zip(("x.csv", text))[:80]
    yield "no-directory.zip", _zip(("x.csv", text))[:-22]
    yield "two-files.zip", _zip(("a.csv", text), ("b.csv", text))
    yield "path.zip", _zip(("../../../etc/cron.d/x", text))
    yield "office.zip", _zip(("[Content_Types].xml", b"<x/>"))
    yield (
        "wrong-size.zip",
        _zip(("x.csv", text)).replace(len(text).to_bytes(4, "little"), b"\xff\xff\xff\x7f"),
    )
    yield "bz2.csv", bz2.compress(text)
    yield "xz.csv", lzma.compress(text)


def _bytes(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "blank", b" \n\t\r\n" * 50
    yield "zeros", b"\x00" * 100_000
    yield "pickle.pkl", pickle.dumps({"a": [1, 2, 3]})
    yield "png", b"\x89PNG\r\n\x1a\n" + rng.bytes(500)
    yield "pdf", b"%PDF-1.7\n" + rng.bytes(500)
    yield "elf", b"\x7fELF" + rng.bytes(500)
    yield "sqlite", b"SQLite format 3\x00" + rng.bytes(500)
    yield "gguf", b"GGUF" + rng.bytes(500)
    yield "html", b"<!doctype html><script>alert(1)</script>"
    yield "yaml-bomb.yaml", b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
    yield "prose.txt", b"just some words\nand more of them\n" * 100
    for size in (1, 7, 100, 5000):
        yield f"noise-{size}", rng.bytes(size)
    text = bytearray(_template().encode())
    for number in range(6):
        bent = bytearray(text)
        for place in rng.integers(0, len(bent), 40):
            bent[place] = int(rng.integers(256))
        yield f"flipped-{number}.csv", bytes(bent)


def npy(array: np.ndarray, **pickled: bool) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **pickled)  # type: ignore[arg-type]
    return out.getvalue()


def _arrays() -> Iterator[tuple[str, bytes]]:
    ids = np.arange(20 * 4 * 2).reshape(20, 4, 2) % 8
    good = npy(ids.astype(np.int32))
    yield "cut.npy", good[:-40]
    yield "longer.npy", good + b"1234"
    yield "header.npy", good[:60]
    yield "objects.npy", npy(np.array([{"a": 1}], dtype=object), allow_pickle=True)
    yield "floats.npy", npy(ids / 3.0)
    yield "negative.npy", npy(-ids.astype(np.int64) - 1)
    yield "beyond.npy", npy(ids.astype(np.int64) + 10**6)
    yield "flat.npy", npy(ids.ravel())
    yield "no-tokens.npy", npy(np.zeros((0, 4, 2), np.int32))
    yield "no-experts.npy", npy(np.zeros((20, 4, 0), np.int32))
    yield "huge-claim.npy", good.replace(b"(20, 4, 2)", b"(2000000000000, 4, 2)"[:10].ljust(10))
    yield "one-token.npy", npy(ids[:1].astype(np.int32))
    yield "same-expert.npy", npy(np.zeros((64, 4, 2), np.int32))
    yield "object.npz", _zip(("a.npy", npy(np.array([{}], dtype=object), allow_pickle=True)))
    yield "mixed.npz", _zip(("a.npy", npy(ids)), ("b.npy", npy(ids[0])))
    yield "text.npz", _zip(("a.npy", b"hello"))


def _documents() -> Iterator[tuple[str, bytes]]:
    """Configurations, scenarios, accelerators, refits and metrics that cannot be."""
    changes: tuple[dict[str, object], ...] = (
        {"num_hidden_layers": 10**9},
        {"num_experts": 10**12},
        {"hidden_size": 0},
        {"hidden_size": True},
        {"num_experts_per_tok": 500},
        {"vocab_size": -5},
        {"moe_intermediate_size": None},
        {"head_dim": "128"},
        {"num_hidden_layers": 2.5},
        {"model_type": ["x"]},
        {"model_type": "x" * 10_000},
        {"num_key_value_heads": 7},
        {"quantization_config": "fp8"},
        {"layer_types": ["full"] * 3},
        {"text_config": []},
        {"torch_dtype": 16},
    )
    for number, change in enumerate(changes):
        yield f"config-{number:02d}.json", json.dumps(CONFIG | change).encode()
    for key in ("num_hidden_layers", "hidden_size", "num_experts_per_tok", "vocab_size"):
        yield (
            f"config-without-{key}.json",
            json.dumps({k: v for k, v in CONFIG.items() if k != key}).encode(),
        )
    settings: tuple[dict[str, object], ...] = (
        {"batch_size": True},
        {"batch_size": 10**12},
        {"batch_size": "1e3"},
        {"k_max": 10**6},
        {"n_gpus": 0},
        {"acceptance": "9" * 5000},
        {"acceptance": "nan@3"},
        {"model_id": "/etc/passwd"},
        {"hardware_id": "../x"},
        {"refit": "on=x"},
        {"unknown": 1},
        {"model_config_json": "[" * 5000},
        {"hardware_json": "{" * 5000},
        {"context_tokens": -1},
        {"routing": "load_cv/nan/nan"},
        {"acceptance": None},
    )
    for number, setting in enumerate(settings):
        document = {**SCENARIO, "scenario": {"acceptance": "2.4@3", **setting}}
        yield f"scenario-{number:02d}.json", json.dumps(document).encode()
    yield (
        "scenario-version.json",
        json.dumps(SCENARIO | {"schema_version": {"a": [1] * 999}}).encode(),
    )
    yield "scenario-date.json", json.dumps(SCENARIO | {"date": "31-31-31"}).encode()
    figures: tuple[dict[str, object], ...] = (
        {"memory_bytes": 1},
        {"memory_bytes": "1e400"},
        {"bandwidth_bytes_per_s": True},
        {"name": "<b>x</b>"},
        {"peak_flops_per_s": {"fp8": 1e15}},
        {"peak_flops_per_s": []},
        {"same_chip_as": "h200-sxm"},
        {"extra": 1},
        {"date": "yesterday"},
        {"name": ""},
    )
    for number, figure in enumerate(figures):
        yield f"hardware-{number:02d}.json", json.dumps(HARDWARE | figure).encode()
    refit = "on=h200-sxm/vllm/vllm;n=5;data=0123456789ab;routed=1.1/0.05;corr=0/0/0/0/0/0/0/0/0/0"
    for number, (old, new) in enumerate(
        (
            ("1.1", "nan"),
            ("1.1", "1e300"),
            ("n=5", "n=-5"),
            ("h200-sxm", "../../x"),
            ("routed", "magic"),
            (";", "\n"),
        )
    ):
        yield f"bent-{number}.refit", refit.replace(old, new).encode()
    yield "long.refit", (refit + ";" * 10_000).encode()
    for number, (old, new) in enumerate(
        (
            (" 100", " nan"),
            (" 100", " -5"),
            (" 70", " 1e309"),
            ('position="0"', 'position="x"'),
            (" 40", " 90"),
            ("drafts_total", "drafts"),
            ('model_name="m"', 'model_name="m'),
        )
    ):
        yield f"metrics-{number}.txt", METRICS.replace(old, new, 1).encode()
    yield "metrics-many.txt", (METRICS * 2000).encode()


def _tools(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Text that other tools write, with bytes cut out and doubled."""
    for path in sorted(FIXTURES.glob("*")):
        if path.suffix in (".csv", ".txt", ".log") and path.stat().st_size < 200_000:
            data = path.read_bytes()
            a, b = sorted(int(x) for x in rng.integers(0, len(data), 2))
            yield f"without-middle-{path.name}", data[:a] + data[b:]
            yield f"doubled-{path.name}", data[:b] + data[a:]
