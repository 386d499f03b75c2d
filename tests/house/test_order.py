"""The order of the suite: the long files begin first, and there are such files."""

from __future__ import annotations

from tests.conftest import LONGEST_FIRST, TESTS, pytest_collection_modifyitems


def test_every_long_file_exists_once() -> None:
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)
    assert all((TESTS / name).is_file() for name in LONGEST_FIRST)


def test_long_files_come_first_and_the_rest_keeps_its_order() -> None:
    class Item:
        def __init__(self, name: str) -> None:
            self.path = TESTS / name

    names = ["a.py", LONGEST_FIRST[1], "b.py", LONGEST_FIRST[0], "a.py"]
    items = [Item(name) for name in names]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    expected = [LONGEST_FIRST[0], LONGEST_FIRST[1], "a.py", "b.py", "a.py"]
    assert [item.path for item in items] == [TESTS / name for name in expected]
