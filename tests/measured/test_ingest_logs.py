"""Power logs of nvidia-smi and dcgmi: what they hold, what is left out, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.measured.ingest.logs import read_power_log
from advisor.prediction import AdvisorError

FIXTURES = Path(__file__).parents[1] / "fixtures/power"
HEAD = "timestamp, index, power.draw [W]\n"


def smi(*watts: object, head: str = HEAD) -> bytes:
    return (head + "".join(f"2026/03/14 09:26:53.589, 0, {each}\n" for each in watts)).encode()


@pytest.mark.parametrize("name", ["nvidia_smi_constructed.csv", "dcgmi_dmon_constructed.txt"])
def test_both_tools_give_the_power_while_the_gpus_worked(name: str) -> None:
    log = read_power_log(name, (FIXTURES / name).read_bytes())
    assert log.gpus == 2
    assert log.mean_w == pytest.approx(616.5, abs=3)  # 612 and 621 W while busy
    assert log.samples + log.idle_samples == 120
    assert log.idle_samples == 36  # 18 of 60 samples of each GPU lie before and after the run


def test_a_log_without_an_idle_part_keeps_every_sample() -> None:
    log = read_power_log("run.csv", smi("400.00 W", "410.00 W", "390.00 W"))
    assert (log.mean_w, log.samples, log.idle_samples) == (pytest.approx(400.0), 3, 0)


def test_units_are_read_from_the_cell_or_the_heading() -> None:
    assert read_power_log("a.csv", smi("400000 mW")).mean_w == pytest.approx(400.0)
    assert read_power_log("a.csv", smi(400, head="timestamp, index, power.draw.average [W]\n")).mean_w == 400.0
    assert read_power_log("a.csv", smi(400000, head="timestamp, index, power.draw [mW]\n")).mean_w == 400.0


def test_a_sample_without_a_value_is_left_out() -> None:
    log = read_power_log("a.csv", smi("[N/A]", "300.00 W", "[Not Supported]"))
    assert (log.samples, log.mean_w) == (1, 300.0)


def test_dcgm_columns_are_told_by_the_heading() -> None:
    text = "#Entity   GPUTL   POWER\n ID    %   W\nGPU 0   99   650.5\nGPU 1   98   649.5\n"
    log = read_power_log("d.txt", text.encode())
    assert (log.gpus, log.mean_w) == (2, pytest.approx(650.0))


def of_gpus(*levels: list[float]) -> bytes:
    """A log of GPUs 0, 1, ... with these samples each."""
    lines = [f"t, {gpu}, {watts:.2f} W\n" for gpu, each in enumerate(levels) for watts in each]
    return (HEAD + "".join(lines)).encode()


def test_a_gpu_that_stood_still_is_left_out_and_told() -> None:
    for idle in (70.0, 0.0):
        log = read_power_log("a.csv", of_gpus([600.0] * 50, [idle] * 50))
        assert (log.mean_w, log.at_work, log.idle_gpus) == (600.0, ("0",), ("1",))
        assert "50 samples of 1 GPU, 1 idle GPU left out" in log.text


def test_a_run_that_took_little_of_the_log_is_found() -> None:
    noise = np.random.default_rng(1).normal(0.0, 3.0, 1000)
    for share in (0.01, 0.04, 0.5, 0.97):
        busy = int(1000 * share)
        log = read_power_log("a.csv", of_gpus(list(np.r_[[75.0] * (1000 - busy), [600.0] * busy] + noise)))
        assert (log.samples, log.idle_samples) == (busy, 1000 - busy)
        assert log.mean_w == pytest.approx(600.0, abs=3)


def test_a_peak_within_a_steady_run_leaves_nothing_out() -> None:
    log = read_power_log("a.csv", of_gpus([400.0 + step % 7 for step in range(995)] + [700.0] * 4))
    assert (log.idle_samples, log.mean_w) == (0, pytest.approx(404.0, abs=1))
    with pytest.raises(AdvisorError, match="fewer than 5 samples"):
        read_power_log("a.csv", of_gpus([75.0] * 60 + [600.0] * 2))


def test_as_many_gpus_must_have_worked_as_an_instance_has() -> None:
    log = read_power_log("a.csv", of_gpus([600.0] * 9, [590.0] * 9, [70.0] * 9))
    log.check(2)
    with pytest.raises(AdvisorError, match=r"2 GPUs worked in it \(0, 1\) and the scenario's instance has 1; log"):
        log.check(1)


@pytest.mark.parametrize("head", ["#Entity   GPUTL   SMACT\n ID    %\n", "#Entity   GPUTL   TOTEC\n", ""])
def test_a_dcgm_log_without_a_column_of_power_is_refused(head: str) -> None:
    with pytest.raises(AdvisorError, match=r"no heading .* with a column POWER"):
        read_power_log("d.txt", f"{head}GPU 0   95   0.9\nGPU 0   96   0.9\n".encode())
