"""A serving engine measured step by step, with a design's config and made-up weights: `advisor profile --engine vllm`.

Needs the engine's own Python and numpy; columns and limits stand in docs/profiling.md. `make_plan` says what is
measured, `run` measures it in child processes and writes a folder that `advisor ingest` reads.
"""

from __future__ import annotations
