"""A server on loopback that gives recorded pages, as vLLM and SGLang do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep

PAGES = Path(__file__).parent / "fixtures/servers"
VLLM = {"/v1/models": "vllm_models.json", "/version": "vllm_version.json"}
SGLANG = {"/server_info": "sglang_server_info.json"}


def recorded(name: str) -> bytes:
    """A page of tests/fixtures/servers."""
    return (PAGES / name).read_bytes()


@dataclass
class Answer:
    """What a path is answered with: pages in turn (the last one again), or a status."""

    pages: tuple[bytes, ...] = ()
    status: int = 200
    location: str = ""
    stated_bytes: int | None = None
    """Content-Length that is stated; None: the true one."""
    drips: bool = False
    """Whether its head comes a line at a time, over a second."""


@dataclass
class FakeServer:
    """Its address, and the requests it had."""

    url: str
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(method, path, Authorization) of each."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves before the end is no fault."""


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Iterator[FakeServer]:
    """A server that answers these paths, 404 all others."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            fake.requests.append((self.command, self.path, self.headers.get("Authorization")))
            answer = answers.get(self.path, Answer(status=404))
            turn = sum(path == self.path for _, path, _ in fake.requests) - 1
            body = answer.pages[min(turn, len(answer.pages) - 1)] if answer.pages else b""
            self.send_response(answer.status)
            for line in range(20 if answer.drips else 0):
                self.send_header(f"X-{line}", "")
                self.flush_headers()
                sleep(0.05)
            if answer.location:
                self.send_header("Location", answer.location)
            stated = len(body) if answer.stated_bytes is None else answer.stated_bytes
            self.send_header("Content-Length", str(stated))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    fake = FakeServer(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()


def engine(*metrics: str, more: Mapping[str, str] = VLLM) -> dict[str, Answer]:
    """Answers of an engine: its metrics page in turn, and other pages by path."""
    others = {path: Answer((recorded(name),)) for path, name in more.items()}
    return {"/metrics": Answer(tuple(map(recorded, metrics))), **others}
