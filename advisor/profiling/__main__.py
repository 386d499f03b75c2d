"""`python -m advisor.profiling`."""

from advisor.profiling.command import main

if __name__ == "__main__":
    raise SystemExit(main())
