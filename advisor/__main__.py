"""`python -m advisor`: the same API from a terminal."""

from advisor.cli import main

main()
