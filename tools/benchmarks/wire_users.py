"""Users without a browser: sessions over the app's WebSocket, so that all that is measured is the
server's.

A browser takes several times the processor time of the server for one change of the page, and ten
of them on the server's own cores hide what the server does.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from tests.e2e.app_server import started_app
from tests.e2e.ten_users import cpu_s, peak_rss_bytes

BATCH = "Batch"
MODEL = "Model"
"""Labels of the widgets that are changed."""
ANSWER = "bidi_component"
FAULT = "exception"
LIMIT_S = 120.0


@dataclass
class Session:
    """One user: what the server sent on the last run of the page, and the names of its widgets by
    label."""

    socket: ClientConnection
    query: str
    elements: list[Any] = field(default_factory=list)
    widgets: dict[str, str] = field(default_factory=dict)

    def open(self) -> None:
        """Ask for the page and take it in."""
        self._run(BackMsg())
        kinds = [(one.number_input, one.selectbox) for one in self.elements]
        self.widgets = {
            drawn.label: drawn.id
            for pair in kinds
            for drawn in pair
            if drawn.label in (BATCH, MODEL)
        }

    def change(self, label: str, value: float | str) -> float:
        """Another batch size or model; how long the page took to be sent whole. [s]"""
        message = BackMsg()
        widget = message.rerun_script.widget_states.widgets.add()
        widget.id = self.widgets[label]
        if isinstance(value, str):
            widget.string_value = value
        else:
            widget.double_value = value
        start = time.perf_counter()
        self._run(message)
        return time.perf_counter() - start

    def answers(self, batch: float) -> bool:
        """Whether the answer of the last run is the one for this batch."""
        found = [
            json.loads(one.bidi_component.json)
            for one in self.elements
            if one.WhichOneof("type") == ANSWER
        ]
        return any(one["batch"] == batch for one in found)

    def faults(self) -> list[str]:
        """Exceptions on the page."""
        return [one.exception.message for one in self.elements if one.WhichOneof("type") == FAULT]

    def _run(self, message: BackMsg) -> None:
        """Send, and receive until the script has ended."""
        message.rerun_script.query_string = self.query
        self.socket.send(message.SerializeToString())
        self.elements.clear()
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(self.socket.recv(timeout=LIMIT_S))
            kind = answer.WhichOneof("type")
            if kind == "delta" and answer.delta.WhichOneof("type") == "new_element":
                self.elements.append(answer.delta.new_element)
            elif kind == "script_finished":
                return


@dataclass(frozen=True)
class WireLoad:
    """What the server took for users who change batch or model at once, each to one that nobody
    else asks for."""

    users: int
    faults: tuple[str, ...]
    settled_s: tuple[float, ...]
    """Of every user and round: until the last element of the page was sent. [s]"""
    all_settled_s: tuple[float, ...]
    """Of every round: until the last user's page was. [s]"""
    server_cpu_s: float
    """Processor time of the server for one change of one user, the mean over all. [s]"""
    first_cpu_s: float | None
    """The same for opening the page in a process that has drawn it once; None for a single user.
    [s]"""
    peak_rss_bytes: int

    def __str__(self) -> str:
        whole = statistics.median(self.all_settled_s)
        one = statistics.median(self.settled_s)
        rounds = len(self.all_settled_s)
        peak = self.peak_rss_bytes / 2**20
        first = (
            "" if self.first_cpu_s is None else f", {self.first_cpu_s * 1e3:.0f} ms a first page"
        )
        return (
            f"{self.users:>3} users: all pages settled after {whole:.2f} s, one user's after "
            f"{one:.2f} s (medians of {rounds} rounds); server {self.server_cpu_s * 1e3:.0f} ms "
            f"of processor time a change{first}; peak {peak:,.0f} MiB; errors: {len(self.faults)}"
        )


def wire_users(users: int, rounds: int, query: str, models: Sequence[str] = ()) -> WireLoad:
    """Open the page for `users` sessions, then change batch or model in all of them at once,
    `rounds` times.

    models : ids to change to; none: the batch is changed.
    """
    with (
        started_app() as (url, pid),
        ThreadPoolExecutor(users) as pool,
        contextlib.ExitStack() as open_sockets,
    ):
        stream = f"{url.replace('http', 'ws', 1)}/_stcore/stream"
        how = {"origin": url, "subprotocols": ["streamlit"], "max_size": None, "compression": None}
        sessions = [
            Session(open_sockets.enter_context(connect(stream, **how)), query) for _ in range(users)
        ]
        sessions[0].open()
        cpu = cpu_s(pid)
        list(pool.map(Session.open, sessions[1:]))
        first_cpu = (cpu_s(pid) - cpu) / (users - 1) if users > 1 else None
        faults = [text for one in sessions for text in one.faults()]
        settled = []
        whole = []
        cpu = cpu_s(pid)
        for number in range(rounds):
            turns = [users * number + user for user in range(users)]
            label, asked = (
                (MODEL, models)
                if models
                else (BATCH, [17.0 + 2.0 * turn for turn in range(users * rounds)])
            )
            gate = threading.Barrier(users)
            start = time.perf_counter()
            settled += pool.map(
                lambda one, value, gate=gate, label=label: (gate.wait(), one.change(label, value))[
                    1
                ],
                sessions,
                [asked[turn % len(asked)] for turn in turns],
            )
            whole.append(time.perf_counter() - start)
            for one, turn in zip(sessions, turns, strict=True):
                faults += one.faults()
                if not models and not one.answers(asked[turn]):
                    faults.append(f"the chart does not answer for batch {asked[turn]}")
        cpu = (cpu_s(pid) - cpu) / (users * rounds)
        peak = peak_rss_bytes(pid)
    return WireLoad(users, tuple(faults), tuple(settled), tuple(whole), cpu, first_cpu, peak)
