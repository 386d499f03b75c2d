"""From the bytes of an upload to text or a parsed document: decompression, encodings and JSON, all
bounded.

The limits are checked here although a browser has its own, because those are only a hint.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from advisor.measured.ingest.result import ReadNote, Reject, shorten, warned
from advisor.prediction import AdvisorError
from advisor.text import RepeatedKeyError, read_json

MIB = 1024 * 1024
MAX_BYTES = 256 * MIB
"""The file as sent, and again after decompression (a million canonical rows are about 200 MB)."""
MAX_JSON_BYTES = 64 * MIB
"""A JSON document in memory takes up to 20 times its size, so it is held shorter."""
MAX_TEXT_LOG_BYTES = 64 * MIB
MAX_ROWS = 2_000_000
MAX_COLUMNS = 1024
MAX_LINE_BYTES = 4 * MIB
MAX_JSON_RECORDS = 200_000
"""Runs in one JSON file; each is turned into a row by itself."""
MAX_REJECTS = 1_000_000
"""Refused rows that are listed one by one."""
SampleKind = Literal["json", "jsonl", "parquet", "text"]
_CHUNK = MIB
_OPEN_STRING = "Unterminated string"
_HEAD_BYTES = 256 * 1024
_LOG_LINE = re.compile(rb"\[(?:[0-9]{1,4}[/:-][0-9]|[0-9]+,[0-9]+\]<|[A-Z][A-Za-z ._-]*\])")
"""How a log begins that is no JSON list: `[07/22/2026-19:12:43]`, `[1,0]<stdout>` of mpirun,
`[TensorRT-LLM]`."""
_SAYS = re.compile("[0-9A-Za-z\u0080-\U0010ffff]")
"""What a line of separators alone lacks."""
_BARS = "\u2502\u2503\u2551"
_BORDER = re.compile(
    "(?m)^[ \t]*(?=[+|]?[-=\u2500-\u257f])[-=+| \u2500\u2501\u250c-\u2550\u2552-\u257f]+$"
)
"""A line of a box without a cell."""
_SUMMED = re.compile(
    rb"\n[ \"]*(?:total|sum|average|avg|mean)[ \"]*([,;\t|][^\n]*)?\s*\Z", re.IGNORECASE
)
"""A last line that sums up the rows above it."""
_FOREIGN: tuple[tuple[bytes | tuple[bytes, ...], str], ...] = (
    (
        b"\x93NUMPY",
        "it is a NumPy array; arrays are read as routing traces, not as benchmark results",
    ),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; compress it with gzip or send it as it is"),
    (b"BZh", "it is compressed with bzip2; compress it with gzip or send it as it is"),
    (b"\xfd7zXZ\x00", "it is compressed with xz; compress it with gzip or send it as it is"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive; send the file inside it"),
    (b"%PDF-", "it is a PDF; export the table as CSV"),
    (b"\xd0\xcf\x11\xe0", "it is an old Excel workbook; save the sheet as CSV"),
    (b"SQLite format 3\x00", "it is a database; export the table as CSV"),
    (b"\x89PNG", "it is an image; export the numbers as CSV"),
    (
        (b"\x80\x02", b"\x80\x04", b"\x80\x05"),
        "it is a Python pickle, which could run code when opened; save the numbers as CSV or JSON",
    ),
)


@dataclass(frozen=True)
class Sample:
    """An opened upload, as the readers see it.

    kind json: `records` holds the one document (or the items of a top-level list) and `document`
    the whole; jsonl: one object per line; text: `data` is UTF-8 without BOM, its lines end with
    `\\n`; parquet: `data` is the file.
    """

    name: str
    kind: SampleKind
    data: bytes
    document: Any = None
    records: tuple[Any, ...] = ()
    lines: tuple[int, ...] = ()
    rejects: tuple[Reject, ...] = ()
    notes: tuple[ReadNote, ...] = ()
    shown: Mapping[str, str] = field(
        default_factory=dict
    )  # where columns of a table made long stood, by new header
    origin: Mapping[int, tuple[int, Mapping[str, str]]] = field(default_factory=dict)
    """Of a table made long: the file's own line of each of its lines, and where of several columns
    its K stood."""

    @property
    def is_json(self) -> bool:
        """Whether `records` holds what the file says."""
        return self.kind in ("json", "jsonl")

    @property
    def text(self) -> str:
        """The whole file as text."""
        return self.data.decode("utf-8", errors="replace")

    @cached_property
    def head(self) -> str:
        """The first 256 KiB as text (empty for parquet)."""
        return (
            ""
            if self.kind == "parquet"
            else self.data[:_HEAD_BYTES].decode("utf-8", errors="replace")
        )

    @cached_property
    def delimiter(self) -> str:
        """Comma, semicolon, tab or bar, as the first line has most outside quotes. A comma where it
        has none."""
        outside = re.sub(r'"[^"]*("|$)', "", self.first_line)
        best = max(",;\t|", key=outside.count)
        return best if best in outside else ","

    @cached_property
    def first_line(self) -> str:
        """The first line that says something and is no `#` comment."""
        for line in self.head.split("\n"):  # str.splitlines would also split at U+0085 and others
            if _SAYS.search(line) and not line.startswith("#"):
                return line
        return ""

    @cached_property
    def header(self) -> tuple[str, ...]:
        """Cells of the first line, for text. Empty otherwise."""
        if self.kind != "text":
            return ()
        try:
            return tuple(
                next(csv.reader(io.StringIO(self.first_line), delimiter=self.delimiter), [])
            )
        except csv.Error:
            return ()

    @property
    def first(self) -> dict[str, Any]:
        """The first record when it is an object, else an empty one."""
        return self.records[0] if self.records and isinstance(self.records[0], dict) else {}


@contextmanager
def one_sentence(name: str) -> Iterator[None]:
    """Whatever goes wrong inside with the file `name` comes out as an AdvisorError. Its cause stays
    attached."""
    try:
        yield
    except AdvisorError:
        raise
    except (RecursionError, MemoryError) as error:
        raise AdvisorError(
            f"{name} is nested too deeply or too large to be read; send a smaller file"
        ) from error
    # Files come from outside, and the parsing libraries raise what they like on damaged ones.
    except Exception as error:
        raise AdvisorError(
            f"{name} could not be read ({type(error).__name__}): the file is damaged or the "
            "reader is at fault; please report it with the file"
        ) from error


def open_upload(name: str, data: bytes) -> Sample:
    """Decompress, decode and parse an upload far enough for detection. Raises AdvisorError with one
    sentence."""
    if not data:
        raise AdvisorError(f"{name} is empty; send a file with at least one measurement")
    _check_size(name, len(data), MAX_BYTES, "file")
    data = _unpack(name, data)
    for magic, why in _FOREIGN:
        if data.startswith(magic):
            raise AdvisorError(f"{name} cannot be read: {why}")
    if data.startswith(b"PAR1"):
        return Sample(name, "parquet", data)
    data, notes = _to_utf8(name, data)
    # Of Windows, and of progress bars, which write over their own line.
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    stripped = data[:_HEAD_BYTES].lstrip()
    if not stripped:
        raise AdvisorError(f"{name} holds only blanks; send a file with at least one measurement")
    if stripped.startswith((b"{", b"[")) and not _LOG_LINE.match(stripped):
        return _open_json(name, data, notes)
    data = _unboxed(data)
    if summed := _SUMMED.search(data):
        end = summed.start() + 1
        line = data.count(b"\n", 0, end) + 1
        notes = (*notes, warned("sums_up", line=line))
        data = data[:end]
    sample = Sample(name, "text", data, notes=notes)
    # Labels of metrics hold commas.
    if sample.first_line.count(sample.delimiter) >= MAX_COLUMNS and not data.startswith(b"vllm:"):
        raise AdvisorError(
            f"{name} has {len(sample.header):,} columns, more than the {MAX_COLUMNS:,} allowed; "
            "drop some"
        )
    return sample


def named_apart(names: Iterable[str]) -> list[str]:
    """The names in order, those that stood before numbered."""
    apart: list[str] = []
    for name in names:
        numbers = itertools.count(2)
        unique = name
        while unique in apart:
            unique = f"{name} ({next(numbers)})"
        apart.append(unique)
    return apart


def _unboxed(data: bytes) -> bytes:
    """A table that a terminal drew in a box as one with bars between its cells. Any other text as
    it is."""
    head = data[:_HEAD_BYTES].lstrip()
    if not (head.startswith(b"+") or any(bar.encode() in head for bar in _BARS)):
        return data
    text = _BORDER.sub("", data.decode("utf-8", errors="replace"))
    return text.translate(dict.fromkeys(map(ord, _BARS), "|")).encode()


def _check_size(name: str, size: int, limit: int, what: str) -> None:
    if size > limit:
        raise AdvisorError(
            f"{name} is {size / MIB:,.0f} MiB, more than the {limit // MIB} MiB allowed for a "
            f"{what}; split it"
        )


def _unpack(name: str, data: bytes) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        data = _gunzip(name, data)
    elif data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        data = _unzip(name, data)
    else:
        return data
    if data.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        raise AdvisorError(f"{name} is an archive inside an archive; send the inner file")
    if not data:
        raise AdvisorError(
            f"{name} contains an empty file; send a file with at least one measurement"
        )
    return data


def _read_bounded(name: str, read: Callable[[int], bytes]) -> bytes:
    """Read until the end, giving up as soon as more than MAX_BYTES came out."""
    parts: list[bytes] = []
    total = 0
    while chunk := read(_CHUNK):
        total += len(chunk)
        if total > MAX_BYTES:
            raise AdvisorError(
                f"{name} unpacks to more than {MAX_BYTES // MIB} MiB; send a smaller file"
            )
        parts.append(chunk)
    return b"".join(parts)


def _gunzip(name: str, data: bytes) -> bytes:
    source = io.BytesIO(data)
    engine = zlib.decompressobj(31)
    pending = b""

    def read(size: int) -> bytes:
        nonlocal engine, pending
        while True:
            if engine.eof:
                pending = engine.unused_data + source.read(_CHUNK)
                if not pending.startswith(
                    b"\x1f\x8b"
                ):  # end of the last member; padding is ignored as gzip does
                    return b""
                engine = zlib.decompressobj(31)
            elif not pending:
                pending = source.read(_CHUNK)
                if not pending:
                    raise AdvisorError(f"{name} is a gzip file that ends too early; send it again")
            out = engine.decompress(pending, size)
            pending = engine.unconsumed_tail
            if out:
                return out

    try:
        return _read_bounded(name, read)
    except zlib.error as error:
        raise AdvisorError(f"{name} is a damaged gzip file; send it again") from error


def _unzip(name: str, data: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [
                member
                for member in archive.infolist()
                if not member.is_dir() and "__MACOSX" not in member.filename
            ]
            if any(member.filename == "[Content_Types].xml" for member in members):
                raise AdvisorError(
                    f"{name} is an office document; save the sheet as CSV and send that"
                )
            if len(members) != 1:
                raise AdvisorError(
                    f"{name} is a zip with {len(members)} files; send one file at a time"
                )
            member = members[0]
            if member.flag_bits & 0x1:
                raise AdvisorError(f"{name} is an encrypted zip; send the file inside it")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise AdvisorError(
                    f"{name} is a zip with an unusual compression; send the file inside it"
                )
            with archive.open(member) as inner:
                return _read_bounded(name, inner.read)
    except AdvisorError:
        raise
    # zipfile raises many kinds on crafted archives (KeyError, struct.error and IndexError among
    # them).
    except Exception as error:
        raise AdvisorError(f"{name} is a damaged zip file; send the file inside it") from error


def _to_utf8(name: str, data: bytes) -> tuple[bytes, tuple[ReadNote, ...]]:
    """The text as UTF-8 bytes without BOM, and a warning when the encoding had to be guessed."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    for bom, encoding in (
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(bom):
            try:
                return data.decode(encoding).lstrip("\ufeff").encode(), ()
            except UnicodeError as error:
                raise AdvisorError(
                    f"{name} starts as {encoding} text but is damaged; save it as UTF-8"
                ) from error
    if b"\x00" in data:
        raise AdvisorError(
            f"{name} is a binary file of an unknown kind; send CSV, JSON, JSON lines or parquet"
        )
    try:
        data.decode("utf-8")
        return data, ()
    except UnicodeDecodeError as error:
        where = data.count(b"\n", 0, error.start) + 1
    head = data[:_HEAD_BYTES]
    control = sum(head.count(bytes([code])) for code in range(32) if code not in (9, 10, 12, 13))
    if control > len(head) / 100:
        raise AdvisorError(
            f"{name} is a binary file of an unknown kind; send CSV, JSON, JSON lines or parquet"
        )
    text = data.decode("cp1252", errors="replace")
    return text.encode(), (warned("not_utf8", line=where),)


def _open_json(name: str, data: bytes, notes: tuple[ReadNote, ...]) -> Sample:
    _check_size(name, len(data), MAX_JSON_BYTES, "JSON document")
    try:
        document = _parse(data)
    except RepeatedKeyError as error:
        raise AdvisorError(f"{name} cannot be read: {error}; remove one of them") from error
    except (ValueError, RecursionError) as error:
        problem: Exception = error
    else:
        records = document if isinstance(document, list) else [document]
        if len(records) > MAX_JSON_RECORDS:
            raise AdvisorError(
                f"{name} holds {len(records):,} records, more than the {MAX_JSON_RECORDS:,} "
                "allowed; split it"
            )
        if not records or not any(isinstance(record, dict) for record in records):
            raise AdvisorError(
                f"{name} is JSON without any object in it; expected what a benchmark tool writes"
            )
        return Sample(
            name,
            "json",
            data,
            document,
            tuple(records),
            tuple(range(1, len(records) + 1)),
            (),
            notes,
        )
    return _open_json_lines(name, data, notes, problem)


def _open_json_lines(
    name: str, data: bytes, notes: tuple[ReadNote, ...], problem: Exception
) -> Sample:
    records: list[Any] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        if len(records) + len(rejects) >= MAX_JSON_RECORDS:
            raise AdvisorError(
                f"{name} holds more than {MAX_JSON_RECORDS:,} lines of JSON; split it"
            )
        try:
            if len(line) > MAX_LINE_BYTES * 4:
                raise ValueError("the line is too long")
            record = _parse(line)
        except (ValueError, RecursionError) as error:
            line_text = shorten(line[:400].decode("utf-8", errors="replace"))
            rejects.append(Reject(number, "", line_text, f"not valid JSON: {_json_problem(error)}"))
            continue
        if isinstance(record, dict):
            records.append(record)
            lines.append(number)
        else:
            rejects.append(
                Reject(number, "", shorten(record), "expected a JSON object on this line")
            )
    if not records or len(rejects) > 10 * len(records):
        if _is_cut_off(problem):
            raise AdvisorError(
                f"{name} is cut off: its JSON {_end_of(problem)}; send the whole file"
            )
        raise AdvisorError(
            f"{name} starts like JSON but is not: {_json_problem(problem)}; send the file unedited"
        )
    return Sample(name, "jsonl", data, None, tuple(records), tuple(lines), tuple(rejects), notes)


def _parse(data: bytes) -> Any:
    return read_json(data.decode("utf-8"))


def _is_cut_off(error: Exception) -> bool:
    """Whether a text stopped being JSON at its very end, or within a string that has none."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith(_OPEN_STRING) or error.pos >= len(error.doc.rstrip())


def _end_of(error: Exception) -> str:
    """How a text that is cut off ends."""
    assert isinstance(error, json.JSONDecodeError)
    place = f"line {error.lineno}, column {error.colno}"
    return (
        f"ends within a text that begins at {place}"
        if error.msg.startswith(_OPEN_STRING)
        else f"ends at {place}"
    )


def _json_problem(error: Exception) -> str:
    if _is_cut_off(error):
        return f"cut off, it {_end_of(error)}"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number in it has too many digits" if "digits" in str(error) else str(error)[:100]
