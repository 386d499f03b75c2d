"""`make bench-peer`: AIConfigurator and the advisor on the same points of plain decode, errors and
speeds.

The tool runs in an environment of its own, .peer-venv; its answers are kept, with version and date,
for docs/validation.md.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from advisor.measured.store import default_store_path, open_store, plain_decode_points
from advisor.physics.hardware import load_hardware
from advisor.profiles import data_root
from studies.validation.plain import PEER, PeerRun, believed, peer_section, plain_decode, write_peer

INTERPRETER = data_root() / ".peer-venv" / "bin" / "python"
PREDICT = Path(__file__).parent / "peer_predict.py"
HOW = (
    "aggregated serving, its newest tables, the batch of the point; first by its configuration of "
    "the checkpoint, or first by the formats that the points name, with the cache in fp8 for "
    "quantised releases on TensorRT-LLM, and the other way where it has no answer"
)


def main() -> None:
    """Ask the tool, keep its answers, print both tools' errors."""
    with open_store(default_store_path()) as opened:
        frame = plain_decode_points(opened)
    started = time.perf_counter()
    rows = plain_decode(frame, as_named=True)
    own_s = (time.perf_counter() - started) / len(rows)
    asked = frame[frame["point_id"].isin(rows["point_id"])]
    with tempfile.TemporaryDirectory() as folder:
        points = Path(folder) / "points.csv"
        found = Path(folder) / "answers.csv"
        questions(asked).to_csv(points, index=False)
        subprocess.run([INTERPRETER, PREDICT, points, found], check=True)
        answers = pd.read_csv(found)
    run = PeerRun(
        version=str(answers["version"].iloc[0]),
        date=datetime.date.today().isoformat(),
        asked=len(asked),
        seconds_per_point=round(float(answers["seconds"].median()), 4),
        own_seconds_per_point=round(own_s, 5),
        how=HOW,
    )
    write_peer(answers, run)
    refused = answers[answers["tpot_s"].isna()]["asked"].str.split(":").str[0].value_counts()
    sys.stdout.write(
        f"{peer_section(believed(rows))}\n\nNot answered:\n{refused.to_string()}\n\n{PEER} "
        "written\n"
    )


def questions(frame: pd.DataFrame) -> pd.DataFrame:
    """Points of the store as the tool's words have them: its name of the accelerator, gaps
    filled."""
    systems = {
        name: load_hardware(name).kernel_table_device for name in frame["hardware_id"].unique()
    }
    return frame.assign(
        system=frame["hardware_id"].map(systems),
        attention_data_parallel=frame["attention_data_parallel"].fillna(1),
        weight_dtype=frame["weight_dtype"].fillna("bf16"),
    )


if __name__ == "__main__":
    main()
