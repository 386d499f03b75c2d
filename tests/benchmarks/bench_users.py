"""Ten simultaneous users of one server: time until all ten headlines changed, and the server's largest memory."""

from __future__ import annotations

import statistics

from tests.e2e.app_server import chromium_path
from tests.e2e.ten_users import LIMIT_BYTES, USERS, ten_users


def main() -> None:
    """Print the table."""
    if chromium_path() is None:
        print("users: no Chromium found, not measured")
        return
    load = ten_users()
    print(f"{USERS} users change the batch size at once: all {USERS} answers on screen after", end=" ")
    print(f"{statistics.median(load.round_s):.1f} s (median of {len(load.round_s)} rounds), {max(load.round_s):.1f} s")
    print("goal: 3.0 s at the median, on two idle cores")
    print(f"server's peak memory {load.peak_rss_bytes / 2**20:,.0f} MiB, limit {LIMIT_BYTES / 2**20:,.0f} MiB")
    print(f"errors on screen: {len(load.faults)}")


if __name__ == "__main__":
    main()
