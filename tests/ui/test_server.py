"""The guards before the app: a foreign Host is refused, no other site may frame a page."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from advisor.ui import server
from advisor.ui.server import element
from tests.e2e.app_server import free_port, wait_until_up

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The app as `advisor app` serves it; it ends by itself on SIGTERM."""
    found = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(found)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
    lines = ("GET /_stcore/stream HTTP/1.1", f"Host: {host}", f"Origin: {origin}", "Upgrade: websocket")
    more = ("Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", "")
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
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=wanted)) as answer:
        body, headers = answer.read(), answer.headers
    assert body.count(element().encode()) == 1
    assert body.index(element().encode()) < body.index(b"</head>")
    assert body.rstrip().endswith(b"</html>")
    assert int(headers["Content-Length"]) == len(body)
    assert "ETag" not in headers, "that of the file without the style would keep an old page in a browser"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_answered_by_each_of_its_names(port: int, host: str) -> None:
    assert answer_to(port, "/", f"{host}:{port}")[0] == 200
    assert handshake(port, f"{host}:{port}", f"http://{host}:{port}") == b"HTTP/1.1 101 Switching Protocols"


@pytest.mark.parametrize(
    "host", ["rebound.example", "127.0.0.1.rebound.example", "localhost@rebound.example", "10.0.0.7"]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(port: int, host: str) -> None:
    status, headers = answer_to(port, "/", f"{host}:{port}")
    assert status == 400
    assert headers["X-Content-Type-Options"] == "nosniff", "a refusal has the headers too"
    assert b" 400 " in handshake(port, f"{host}:{port}", f"http://{host}:{port}") + b" "


def test_a_plain_streamlit_run_refuses_foreign_hosts_on_the_socket_too() -> None:
    """Without the guards Streamlit itself still holds the configured list, for the channel that carries the data."""
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
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-content-type-options", b"other")]})

    async def send(message: Any) -> None:
        sent.append(message)

    # In a thread of its own: a browser test before it may have left its event loop running in this one.
    answer = server.AnswerHeaders(app)({"type": "http"}, None, send)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, answer).result()
    values = [value for name, value in sent[0]["headers"] if name == b"x-content-type-options"]
    assert values == [b"nosniff"]


def test_elements_that_wait_for_their_run_are_not_faded_frame_by_frame() -> None:
    """Streamlit marks them so; once it does otherwise, the rule is dead and ten waiting browsers draw all the time."""
    scripts = (Path(st.__file__).parent / "static" / "static" / "js").glob("index.*.js")
    assert "#root [data-stale=true] { transition: opacity 0s 1s !important; }" in element()
    assert any('"data-stale":' in script.read_text(encoding="utf-8") for script in scripts)
