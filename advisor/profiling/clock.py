"""Times one call on one device: the host's clock on a CPU, events around a second, fully queued call on an accelerator.

On an accelerator a sample is queued as: spin, call, control kernel, call. The first call pays what only a first one
pays (uploading a graph, waking the clocks), the control kernel tells how fast the device is right now and pushes the
first call's data out of the cache, and the second call is the one that is timed. The sample counts as clean when the
host had queued all of it before the device came to the timed call: then no launch can lie in the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from advisor.profiling.device import Device
from advisor.profiling.errors import DeviceLostError

SPIN_S = 1.5e-3
"""Time the device is kept busy while the host queues a sample: at least 1 ms, more than a graph of a few hundred nodes
takes to launch. [s]"""
LONGEST_SPIN_S = 0.05
"""Spin beyond which a call is timed as it is, launches included, with a note: it waits for the device by itself. [s]"""
FIRST_CYCLES_PER_S = 2e9
"""Clock taken for the first spin; every spin is timed, so the next one knows better. [1/s]"""
ATTEMPTS = 4
"""Samples taken, each behind a longer spin, before a call counts as one that cannot be queued ahead. [-]"""


@dataclass(frozen=True)
class Sample:
    """One timed call. control_s: the control kernel just before it. queued_ahead: no launch lies in the time.

    spin_s: the spin it took to queue all of it ahead, a good start for the next sample of the same call. [s]
    """

    seconds: float
    control_s: float | None
    queued_ahead: bool = True
    spin_s: float = SPIN_S


class Clock:
    """Times calls on one device. The spin's length adapts to the device's clock and to the host's pace."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.accelerator = device.backend != "cpu"
        self._spin = getattr(torch.cuda, "_sleep", None) if self.accelerator else None
        self._cycles_per_s = FIRST_CYCLES_PER_S

    def synchronize(self) -> None:
        """Wait for the device. Raises DeviceLostError when it no longer answers."""
        if not self.accelerator:
            return
        try:
            torch.cuda.synchronize(self.device.index)
        except RuntimeError as error:
            raise DeviceLostError(str(error).splitlines()[0]) from error

    def sample(
        self,
        call: Callable[[], Any],
        control: Callable[[], Any] | None = None,
        *,
        host_clock: bool = False,
        spin_s: float = SPIN_S,
        attempts: int = ATTEMPTS,
    ) -> Sample:
        """One sample of `call`, with the control kernel beside it where one is given. [s]

        host_clock: the time includes the host's own work up to a synchronise. spin_s: spin of the first attempt.
        attempts: see ATTEMPTS.
        """
        if not self.accelerator:
            return Sample(self._host_seconds(call), self._host_seconds(control) if control else None)
        if host_clock:
            beside = self._queued(call, control, spin_s, call_again=False)
            return Sample(self._host_seconds(call), beside.control_s)
        for _ in range(attempts):
            found = self._queued(call, control, spin_s)
            if found.queued_ahead or spin_s >= LONGEST_SPIN_S:
                break
            spin_s = min(4 * spin_s, LONGEST_SPIN_S)
        return found

    def _host_seconds(self, call: Callable[[], Any]) -> float:
        self.synchronize()
        start = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - start

    def _queued(
        self, call: Callable[[], Any], control: Callable[[], Any] | None, spin_s: float, *, call_again: bool = True
    ) -> Sample:
        """Spin, call, control kernel, call, with events between. See the module's text."""
        spin, spun, warm, timed, last = (torch.cuda.Event(enable_timing=True) for _ in range(5))
        self.synchronize()
        start = time.perf_counter()
        spin.record()
        cycles = self._spin_for(spin_s)
        spun.record()
        call()
        warm.record()
        if control:
            control()
        timed.record()
        if call_again:
            call()
        last.record()
        host_s = time.perf_counter() - start
        self.synchronize()
        spun_s = spin.elapsed_time(spun) * 1e-3
        if cycles and spun_s > 0:  # the unit of a cycle differs between devices
            self._cycles_per_s = cycles / spun_s
        ahead_s = spin.elapsed_time(timed) * 1e-3
        control_s = warm.elapsed_time(timed) * 1e-3 if control else None
        return Sample(timed.elapsed_time(last) * 1e-3, control_s, host_s <= ahead_s, spin_s)

    def _spin_for(self, seconds: float) -> int:
        """Keep the device busy. Returns the cycles asked for, 0 where this torch cannot spin."""
        if self._spin is None:
            return 0
        cycles = int(min(max(seconds * self._cycles_per_s, 1e3), 1e9))
        try:
            self._spin(cycles)
        except (RuntimeError, TypeError):
            self._spin = None
            return 0
        return cycles
