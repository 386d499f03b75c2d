"""Places where a text is tested, cut or sliced by a word, each reviewed.

`theirs` reads what a user, an engine or a package wrote (a file's name, a metric, an error of
DuckDB or click), or keys and rows that are no sentence; `ours` reads a sentence of this program
back, and has to go.
"""

from __future__ import annotations

from typing import Literal

REVIEWED: dict[str, Literal["theirs", "ours"]] = {
    "answers/diagnosis/physics.py: 'acceptance' in unsaid": "theirs",
    "catalog/hf/layers.py: fields.text('model_type').startswith('interns2_mobius')": "theirs",
    "catalog/models.py: 'models--' in text": "theirs",
    "cli/asked.py: 'range' in error.message": "theirs",
    "cli/measured_files.py: text.endswith('.json')": "theirs",
    "cli/own.py: text.endswith('.json')": "theirs",
    "measured/ingest/acceptance.py: 'sglang:spec_' in text": "theirs",
    "measured/ingest/acceptance.py: 'vllm:spec_decode_' not in text": "theirs",
    "measured/profiler_runs.py: read.rejects['reason'][:1]": "theirs",
    "measured/profiler_runs.py: reason.removeprefix('error: ')": "ours",
    "measured/store.py: 'disk full' in text": "theirs",
    "measured/store.py: 'no space' in text": "theirs",
    "measured/store.py: 'permission' in text": "theirs",
    "measured/store.py: 'read only' in text": "theirs",
    "measured/store.py: 'read-only' in text": "theirs",
    "prediction.py: problem['msg'].removeprefix('Value error, ')": "theirs",
    "profiling/device.py: 'unrecognized' in message": "theirs",
    "show/explain/steps.py: '{layers}' in title.title": "theirs",
    "ui/measure/session.py: 'weight_dtype' in told": "theirs",
    "ui/state.py: 'acceptance' not in texts": "theirs",
}
