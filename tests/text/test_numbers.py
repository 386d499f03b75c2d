"""Words that go with a number."""

from __future__ import annotations

import pytest

from advisor.text import counted, token_count, with_prefix


def test_one_is_singular_and_thousands_are_parted() -> None:
    assert [counted(n, "row") for n in (0, 1, 2, 1200)] == ["0 rows", "1 row", "2 rows", "1,200 rows"]
    assert counted(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.5625, "B", "0.5625 B"),
        (1.0, "B", "1 B"),
        (1536.0, "B", "1.536 kB"),
        (0.25, "FLOP", "0.25 FLOP"),
        (0.02, "B/s", "0.02 B/s"),
        (0.002, "s", "2 ms"),
    ],
)
def test_bytes_and_operations_never_go_below_one_with_a_prefix(value: float, unit: str, shown: str) -> None:
    assert with_prefix(value, unit) == shown


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("131072", 131_072),
        (" 131,072 ", 131_072),
        ("128k", 128_000),
        ("128 K", 131_072),
        ("25.6k", 25_600),
        ("1M", 2**20),
        ("1m", 10**6),
        ("0.5M", 2**19),
    ],
)
def test_tokens_are_read_as_people_and_vllm_write_them(text: str, count: int) -> None:
    assert token_count(text) == count


@pytest.mark.parametrize("text", ["", "k", "1.5", "1.0001k", "-3", "1e5", "13,10", "2G", "nan"])
def test_what_is_no_number_of_tokens_is_refused_with_the_forms_it_may_have(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no number of tokens; type it as 4096, 128k \(128,000\)"):
        token_count(text)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 400 + "K", "1" + "0" * 15, "1000000000000k", "9" * 310 + ".5"])
def test_more_tokens_than_any_context_has_are_refused_in_words(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^'[0-9k]{1,20}(\.\.\.)?' is more tokens than any context has; type it as 4096"
    ):
        token_count(text)


def test_the_most_tokens_that_are_read_are_read_to_the_last_one() -> None:
    assert token_count("999,999,999,999,999") == 10**15 - 1
