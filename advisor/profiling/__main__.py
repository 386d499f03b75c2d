"""`python -m advisor.profiling`."""

from __future__ import annotations

from advisor.profiling.command import main

if __name__ == "__main__":
    raise SystemExit(main())
