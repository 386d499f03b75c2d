"""The guards before the app: a foreign Host is refused, no other site may frame a page.

Turns of users who share one process, and the garbage collector's view of it.

The session's slots: typed, empty until something is put there, dropped again; no value lies beside
a slot.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from advisor.prediction import AdvisorError
from advisor.ui import server
from advisor.ui.serve import panels
from advisor.ui.server import element
from advisor.ui.session import Kept
from tests.e2e.app_server import free_port, wait_until_up
from tests.e2e.ten_users import LIMIT_BYTES
from tests.e2e.views import SCENARIO
from tests.pages.app_page import opened
from tools.benchmarks.wire_users import wire_users

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The app as `advisor app` serves it; it ends by itself on SIGTERM."""
    found = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(found)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_until_up(f"http://127.0.0.1:{found}")
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)


def answer_to(port: int, path: str, host: str) -> tuple[int, Any]:
    """Status and headers of an answer to a request that names `host`."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def handshake(port: int, host: str, origin: str) -> bytes:
    """First line of the answer to a WebSocket handshake."""
    lines = (
        "GET /_stcore/stream HTTP/1.1",
        f"Host: {host}",
        f"Origin: {origin}",
        "Upgrade: websocket",
    )
    more = (
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "",
        "",
    )
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, *more]).encode())
        return connection.recv(200).split(b"\r\n")[0]


@pytest.mark.parametrize("path", ["/", "/_stcore/health", "/no-such-page"])
def test_every_answer_forbids_frames_of_other_sites_and_guessed_types(port: int, path: str) -> None:
    _, headers = answer_to(port, path, f"127.0.0.1:{port}")
    assert headers["Content-Security-Policy"] == "frame-ancestors 'self'"
    assert headers["X-Frame-Options"] == "SAMEORIGIN"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/", "/design"])
def test_the_page_comes_with_the_app_s_style_and_is_whole(port: int, path: str) -> None:
    wanted = {"Host": f"127.0.0.1:{port}", "Accept": "text/html", "Accept-Encoding": "gzip"}
    with urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=wanted)
    ) as answer:
        body = answer.read()
        headers = answer.headers
    assert body.count(element().encode()) == 1
    assert body.index(element().encode()) < body.index(b"</head>")
    assert body.rstrip().endswith(b"</html>")
    assert body.count(b'id="shell"') == 1
    assert b"Command A+ on H200 SXM" in body
    assert int(headers["Content-Length"]) == len(body)
    assert "ETag" not in headers, (
        "that of the file without the style would keep an old page in a browser"
    )


def test_the_shell_repeats_no_name_that_is_not_shipped() -> None:
    assert "DeepSeek-V3 on H200 SXM" in server.shell(
        {"model_id": "deepseek-v3", "hardware_id": "h200-sxm"}
    )
    for asked in ({"model_id": "<script>"}, {"hardware_id": "own-pod"}):
        assert "batches …" in server.shell(asked)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_answered_by_each_of_its_names(port: int, host: str) -> None:
    assert answer_to(port, "/", f"{host}:{port}")[0] == 200
    assert (
        handshake(port, f"{host}:{port}", f"http://{host}:{port}")
        == b"HTTP/1.1 101 Switching Protocols"
    )


@pytest.mark.parametrize(
    "host",
    ["rebound.example", "127.0.0.1.rebound.example", "localhost@rebound.example", "10.0.0.7"],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(port: int, host: str) -> None:
    status, headers = answer_to(port, "/", f"{host}:{port}")
    assert status == 400
    assert headers["X-Content-Type-Options"] == "nosniff", "a refusal has the headers too"
    assert b" 400 " in handshake(port, f"{host}:{port}", f"http://{host}:{port}") + b" "


def test_a_plain_streamlit_run_refuses_foreign_hosts_on_the_socket_too() -> None:
    """Without the guards Streamlit itself still holds the configured list, for the channel that
    carries the data."""
    assert set(st.get_option("server.allowedHosts")) == set(server.LOOPBACK)


@pytest.mark.parametrize(
    ("address", "configured", "more"),
    [
        ("127.0.0.1", [], []),
        ("0.0.0.0", [], []),
        (None, ["advisor.example.com", "*.example.org"], ["advisor.example.com", "*.example.org"]),
        ("10.1.2.3", [], ["10.1.2.3"]),
        ("fd00::7", [], ["[fd00::7]"]),
    ],
)
def test_what_is_configured_is_allowed_beside_loopback(
    monkeypatch: pytest.MonkeyPatch, address: str | None, configured: list[str], more: list[str]
) -> None:
    options = {"server.address": address, "server.allowedHosts": configured}
    monkeypatch.setattr(server.st, "get_option", options.__getitem__)
    assert server.allowed_hosts() == ["127.0.0.1", "localhost", "[::1]", *more]


def test_headers_of_an_answer_are_replaced_not_doubled() -> None:
    """Streamlit sets nosniff itself on some files."""
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"x-content-type-options", b"other")],
            }
        )

    async def send(message: Any) -> None:
        sent.append(message)

    # In a thread of its own: a browser test before it may have left its event loop running in this
    # one.
    answer = server.AnswerHeaders(app)({"type": "http"}, None, send)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, answer).result()
    values = [value for name, value in sent[0]["headers"] if name == b"x-content-type-options"]
    assert values == [b"nosniff"]


def test_elements_that_wait_for_their_run_are_not_faded_frame_by_frame() -> None:
    """Streamlit marks them so; once it does otherwise, the rule is dead and ten waiting browsers
    draw all the time."""
    scripts = (Path(st.__file__).parent / "static" / "static" / "js").glob("index.*.js")
    assert "#root [data-stale=true] { transition: opacity 0s 0.3s !important; }" in element()
    assert any('"data-stale":' in script.read_text(encoding="utf-8") for script in scripts)


def test_what_a_page_has_loaded_is_collected_over_once_and_not_after_every_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streamlit collects after each run; the time of that is the number of objects it looks at."""
    monkeypatch.setattr(server, "_settled", set())
    gc.unfreeze()
    loaded = len(gc.get_objects())
    try:
        server.settle("serve")
        assert len(gc.get_objects()) < loaded / 20
        frozen = gc.get_freeze_count()
        later = [[] for _ in range(100)]
        server.settle("serve")
        assert gc.get_freeze_count() <= frozen, (
            "a page is settled once: what users make stays collectable"
        )
        server.settle("design")
        assert gc.get_freeze_count() > frozen + len(later) / 2
    finally:
        gc.unfreeze()


def test_a_page_that_ends_early_gives_its_turn_back() -> None:
    with pytest.raises(RuntimeError), server.in_turn():
        raise RuntimeError("st.stop and st.rerun leave by an exception too")
    assert server._turn.acquire(blocking=False)
    server._turn.release()


class Counted(threading.Semaphore):
    """A turn that notes how long each one who asked for it was ready to wait. [s]"""

    def __init__(self) -> None:
        super().__init__(1)
        self.asked: list[float | None] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        if blocking:
            self.asked.append(timeout)
        return super().acquire(blocking, timeout)


def test_a_part_within_a_part_goes_on_with_the_turn_and_gives_it_back_at_its_own_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_turn", turn := Counted())
    with server.in_turn():
        with server.in_turn():
            assert len(turn.asked) == 1, "the part within waits for nothing"
            assert not turn.acquire(blocking=False)
        assert turn.acquire(blocking=False), "what follows in the page holds up nobody"
        turn.release()
    assert turn.acquire(blocking=False)
    assert not turn.acquire(blocking=False), "it is given back once"


def test_nobody_waits_long_for_a_run_that_keeps_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever went ahead without the turn gives none back, so that two never hold it later."""
    monkeypatch.setattr(server, "LONGEST_WAIT_S", 0.05)
    monkeypatch.setattr(server, "_turn", turn := Counted())
    drawn = []

    def other_user() -> None:
        with server.in_turn():
            drawn.append(True)

    with server.in_turn():
        other = threading.Thread(target=other_user)
        other.start()
        other.join()
        assert drawn == [True]
        assert turn.asked == [0.05, 0.05]
        assert not turn.acquire(blocking=False)
    assert turn.acquire(blocking=False)
    assert not turn.acquire(blocking=False)


def test_the_first_screen_is_drawn_in_turn_and_what_may_take_long_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free: dict[str, bool] = {}

    def looks(name: str) -> Callable[..., None]:
        def draw(*_: Any) -> None:
            free[name] = server._turn.acquire(blocking=False)
            if free[name]:
                server._turn.release()

        return draw

    monkeypatch.setattr(panels, "draw_live", looks("first screen"))
    monkeypatch.setattr(panels, "draw_check", looks("tab"))
    opened("serve", "Command check")
    assert free == {"first screen": False, "tab": True}


@pytest.mark.parametrize("page", ["serve", "trust"])
def test_a_page_is_drawn_in_one_turn(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar and the first screen leave together: a browser draws the page anew for each piece
    that comes."""
    monkeypatch.setattr(server, "_turn", turn := Counted())
    opened(page)
    assert len(turn.asked) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")
def test_thirty_users_each_get_their_own_answer_and_the_server_stays_below_a_gibibyte() -> None:
    load = wire_users(users=30, rounds=1, query=SCENARIO)
    assert load.faults == ()
    assert load.peak_rss_bytes < LIMIT_BYTES


UI = Path(__file__).resolve().parents[2] / "advisor" / "ui"


def test_what_is_kept_is_empty_until_put_and_once_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(st, "session_state", {})
    notes: Kept[list[str]] = Kept("_notes", list)
    assert notes.result == []
    notes.result.append("lost: an empty value is not held")
    assert notes.result == []
    notes.put(["kept"])
    assert notes.pop() == ["kept"]
    assert notes.result == []
    assert Kept("_none").result is None
    given: Kept[int | None] = Kept("_given")
    assert given.take(int, "3")
    assert not given.take(as_refused, "no number")
    assert (given.result, given.problem) == (3, "no number")
    assert given.take(int, "4")
    assert (given.result, given.problem) == (4, "")
    given.refuse("gone")
    given.forget()
    assert (given.result, given.problem) == (None, "")
    with pytest.raises(ValueError, match="invalid literal"):
        given.take(int, "a fault, not bad input, is no problem to keep")


def as_refused(text: str) -> int:
    raise AdvisorError(text)


def test_every_kept_thing_has_a_key_of_its_own_that_no_widget_could_have() -> None:
    keys = [
        str(node.args[0].value)
        for path in UI.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Kept"
        if isinstance(node.args[0], ast.Constant)
    ]
    assert len(keys) > 20
    assert len(keys) == len(set(keys))
    assert not {f"{key}_problem" for key in keys} & set(keys)
    assert all(key.startswith("_") for key in keys)
