"""Ten users at once: nobody sees an error, and the server stays small."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.app_server import chromium_path
from tests.e2e.ten_users import LIMIT_BYTES, ten_users

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")
@pytest.mark.skipif(
    chromium_path() is None, reason="no Chromium found; tests/e2e/install_chromium.sh says how"
)
def test_ten_users_at_once_see_no_error_and_the_server_stays_below_a_gibibyte() -> None:
    with ThreadPoolExecutor(
        1
    ) as apart:  # the other browser tests of this process keep an event loop in the main thread
        load = apart.submit(ten_users).result()
    assert load.faults == ()
    assert load.peak_rss_bytes < LIMIT_BYTES
