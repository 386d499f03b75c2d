"""For all tests."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _components_are_looked_for_once() -> Iterator[None]:
    """Each AppTest reads the metadata of every installed package for components of Streamlit, 0.2 processor seconds;
    what is installed does not change while tests run. A run that has collected no page imports nothing here."""
    if "streamlit" not in sys.modules:
        yield
        return
    from streamlit.components.v2 import manifest_scanner

    with pytest.MonkeyPatch.context() as kept:
        kept.setattr(
            manifest_scanner,
            "scan_component_manifests",
            functools.cache(manifest_scanner.scan_component_manifests),
        )
        yield
