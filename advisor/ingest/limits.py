"""How big an upload may be. Checked again here because a browser's own limit is only a hint."""

from __future__ import annotations

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
