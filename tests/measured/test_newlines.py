"""Lines end as they do on the machine that wrote them, and progress bars write over their own: a
file says the same."""

from __future__ import annotations

import pytest

from advisor.measured.ingest.read import read_upload
from tests.golden import readers

ENDINGS = {"windows": b"\r\n", "old mac": b"\r"}
BAR = b"".join(b"\r %d%%|####| %d/80 [00:02<00:10, 4.1it/s]" % (n, n) for n in range(0, 101, 10))
LOGS = [name for name in readers.names() if name.endswith(".log") or "console" in name]


def rows_of(data: bytes):
    result = read_upload("x", data).result
    cells = result.frame.reset_index(drop=True).astype(object)
    return (
        result.format_id,
        cells.where(cells.notna(), None).to_dict("records"),
        result.rejects[["column", "value", "reason"]].to_dict("records"),
    )


def text_of(name: str) -> bytes:
    return (readers.FIXTURES / name).read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", readers.names())
def test_a_reader_gives_the_same_rows_however_lines_end(name, ending):
    data = text_of(name) + b"\n"
    assert rows_of(data.replace(b"\n", ENDINGS[ending])) == rows_of(data)


@pytest.mark.parametrize("name", LOGS)
def test_a_reader_gives_the_same_rows_of_a_log_with_progress_bars(name):
    first, rest = text_of(name).split(b"\n", 1)
    with_bars = first + b"\n" + BAR + b"\n" + rest.replace(b"\n", BAR + b"\r\n")
    assert rows_of(with_bars) == rows_of(text_of(name))


def test_a_bar_and_a_row_of_a_log_may_share_a_line():
    data = text_of("sglang_steps_constructed.log")
    assert rows_of(data.replace(b"\n[", b"\n" + BAR + b"\r[")) == rows_of(data)


def test_a_table_may_end_its_lines_in_two_ways():
    data = text_of("vllm_sweep_constructed.csv")
    head, rest = data.split(b"\n", 1)
    assert rows_of(head + b"\r\n" + rest) == rows_of(data)
