"""Profiling is tested only where torch is installed (requirements.txt has it)."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_[!e]*.py"]
