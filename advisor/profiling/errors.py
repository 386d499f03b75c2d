"""Errors of the profiler; this package imports nothing else of `advisor`, so it has its own."""

from __future__ import annotations


class ProfilingError(ValueError):
    """Bad input or a device that cannot be measured. The message is fit to be shown as it is."""


class DeviceLostError(RuntimeError):
    """The accelerator stopped answering inside this process. A new process can resume."""
