"""The accelerator's clock on a simulated device: what a launch costs the host must not lie in the
device's time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from advisor.profiling import device as clock_module
from advisor.profiling.device import LONGEST_SPIN_S, SPIN_S, Clock, Device
from advisor.profiling.timing import Case, Context, measure, row_of

CLOCK_RATE = 1.3e9


class Machine:
    """A host and a device with a time line each: a launch takes host time, its work begins when
    both are ready. [s]"""

    def __init__(self, *, can_spin: bool = True) -> None:
        self.host = self.ready = 0.0
        self.can_spin = can_spin
        self.spins: list[float] = []
        self.order: list[str] = []

    def launch(self, name: str, work_s: float, launch_s: float, *, waits: bool = False) -> None:
        self.host += launch_s
        self.ready = max(self.ready, self.host) + work_s
        self.host = self.ready if waits else self.host
        self.order.append(name)

    def call(self, name: str, work_s: float, launch_s: float, **how: bool) -> Callable[[], None]:
        return lambda: self.launch(name, work_s, launch_s, **how)

    def spin(self, cycles: int) -> None:
        if not self.can_spin:
            raise RuntimeError("no spin here")
        self.spins.append(cycles / CLOCK_RATE)
        self.launch("spin", cycles / CLOCK_RATE, 5e-6)

    def synchronize(self, _index: int = 0) -> None:
        self.host = self.ready = max(self.host, self.ready)

    def event(self, enable_timing: bool = False) -> SimpleNamespace:
        made = SimpleNamespace(at=0.0, timing=enable_timing)

        def record() -> None:
            made.at = max(self.host, self.ready)

        made.record = record
        made.elapsed_time = lambda other: max((other.at - made.at) * 1e3, 1e-9)
        return made


def clock_on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Clock:
    for name, value in {
        "synchronize": machine.synchronize,
        "Event": machine.event,
        "_sleep": machine.spin,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value, raising=False)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: machine.host))
    return Clock(Device("cuda", 0, "simulated", 2**33, 2**16, True, 1e11, "2.13.0", "9.0", 4))


def test_a_long_launch_does_not_land_in_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    sample = clock.sample(
        machine.call("graph", 200e-6, 900e-6), machine.call("control", 100e-6, 20e-6)
    )
    assert sample.queued_ahead
    assert sample.seconds == pytest.approx(200e-6)
    assert sample.control_s == pytest.approx(100e-6)


def test_without_a_spin_the_launch_lands_in_the_time_and_the_sample_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(can_spin=False)
    sample = clock_on(machine, monkeypatch).sample(machine.call("graph", 200e-6, 900e-6))
    assert not sample.queued_ahead
    assert sample.seconds > 800e-6


def test_the_second_call_is_timed_and_the_control_kernel_stands_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    costs = iter([9e-3, 1e-3])  # the first call uploads the graph
    sample = clock.sample(
        lambda: machine.launch("call", next(costs), 1e-6),
        machine.call("control", 1e-4, 1e-6),
        attempts=1,
    )
    assert machine.order == ["spin", "call", "control", "call"]
    assert sample.seconds == pytest.approx(1e-3)


def test_every_spin_lasts_a_millisecond_whatever_the_device_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for rate in (1.3e9, 1e8, 2.6e9):
        machine = Machine()
        clock = clock_on(machine, monkeypatch)
        monkeypatch.setattr(f"{__name__}.CLOCK_RATE", rate)
        clock.sample(machine.call("call", 1e-4, 1e-6))  # learns the rate
        clock.sample(machine.call("call", 1e-4, 1e-6))
        assert machine.spins[-1] == pytest.approx(
            SPIN_S, rel=0.005
        )  # the events also see its launch
        assert machine.spins[-1] > 1e-3


def test_the_spin_grows_until_a_graph_of_many_nodes_is_queued_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    clock.sample(machine.call("small", 1e-4, 1e-6))
    sample = clock.sample(machine.call("long", 1e-3, 8e-3))
    assert sample.queued_ahead
    assert sample.seconds == pytest.approx(1e-3)
    assert sample.spin_s > SPIN_S
    before = len(machine.spins)
    clock.sample(machine.call("long", 1e-3, 8e-3), spin_s=sample.spin_s)
    assert len(machine.spins) == before + 1, (
        "the next sample of the same call begins with the spin that sufficed"
    )


def test_a_call_that_waits_for_the_device_is_timed_once_and_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    device = clock.device
    context = Context(
        device, clock, 4, np.random.default_rng(0), control=machine.call("control", 1e-4, 1e-6)
    )
    case = Case({"op": "moe_layer"}, machine.call("loop", 1e-3, 1e-6, waits=True))
    measure([case], context)
    assert case.launches_inside == 4
    assert sum(spin > 0.9 * LONGEST_SPIN_S for spin in machine.spins) <= 1, (
        "a longer spin is tried in one sample only"
    )
    assert "launches lie in the time of 4 of 4 samples" in row_of(case, context)["notes"]


def test_the_control_ratio_of_a_row_is_that_of_its_own_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    slow = [False]

    def control() -> None:
        machine.launch("control", 3e-4 if slow[0] else 1e-4, 1e-6)

    def prepare_slow(_rng: Any) -> None:
        slow[0] = True  # the device is busy with something else whenever this case's turn comes

    def prepare_fast(_rng: Any) -> None:
        slow[0] = False

    context = Context(
        clock.device, clock, 5, np.random.default_rng(0), control=control, control_reference_s=1e-4
    )
    cases = [
        Case({"op": "gemm"}, machine.call("a", 1e-3, 1e-6), prepare_fast),
        Case({"op": "gemm"}, machine.call("b", 1e-3, 1e-6), prepare_slow),
    ]
    measure(cases, context)
    ratios = [row_of(case, context)["control_ratio"] for case in cases]
    assert ratios == pytest.approx([1.0, 3.0])


def test_a_host_timed_round_has_the_control_kernel_beside_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    clock = clock_on(machine, monkeypatch)
    sample = clock.sample(
        machine.call("round", 1e-3, 2e-4), machine.call("control", 1e-4, 1e-6), host_clock=True
    )
    assert sample.seconds == pytest.approx(1.2e-3), "a round's own launches are part of it"
    assert sample.control_s == pytest.approx(1e-4)
    assert machine.order.count("round") == 2
