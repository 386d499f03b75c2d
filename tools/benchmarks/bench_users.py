"""Users of one server who change the batch at once: as sessions without a browser, then ten in
Chromium.

The first tells what the server takes. In the second ten browsers share its cores, which real users
bring themselves.
"""

from __future__ import annotations

import statistics

from tests.e2e.app_server import chromium_path
from tests.e2e.ten_users import LIMIT_BYTES, USERS, ten_users
from tests.e2e.views import SCENARIO
from tools.benchmarks.wire_users import wire_users

LOADS = ((1, 10), (10, 4), (30, 2))
"""Users without a browser, and rounds."""


def main() -> None:
    """Print the table."""
    for users, rounds in LOADS:
        print(wire_users(users, rounds, SCENARIO))
    if chromium_path() is None:
        print("users: no Chromium found, not measured")
        return
    load = ten_users()
    print(f"{USERS} browsers on the server's cores: one user's answer on screen after", end=" ")
    print(
        (
            f"{statistics.median(load.user_s):.1f} s (median of users and rounds), the last of "
            f"all {USERS} after"
        ),
        end=" ",
    )
    print(
        f"{statistics.median(load.round_s):.1f} s (median of {len(load.round_s)} rounds), "
        f"{max(load.round_s):.1f} s"
    )
    print(f"processor time a change: server {load.server_cpu_s * 1e3:.0f} ms,", end=" ")
    print(f"one browser {load.browser_cpu_s * 1e3:.0f} ms")
    print("goal: 3.0 s for the median user, on two idle cores")
    print(
        f"server's peak memory {load.peak_rss_bytes / 2**20:,.0f} MiB, limit "
        f"{LIMIT_BYTES / 2**20:,.0f} MiB"
    )
    print(f"errors on screen: {len(load.faults)}")


if __name__ == "__main__":
    main()
