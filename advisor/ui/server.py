"""The guard before the app: hosts, the headers of every answer, and the style in the page itself.

Many users of one process share one interpreter: whose turn it is to be drawn, what the garbage
collector leaves out.

The style that Streamlit's themes do not offer, and charts in the colours of the page's theme: the
browser replaces placeholder colours by the theme's own in a figure drawn with `theme="streamlit"`
(its config's `chartCategoricalColors`, its greys). Streamlit 1.67 does not document them; a test
holds them.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import html
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import plotly.graph_objects as go
import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from advisor.catalog.hardware import hardware_called, model_name
from advisor.catalog.models import model_ids
from advisor.physics.hardware import hardware_ids
from advisor.predict.curve import SCHEDULE_BATCHES
from advisor.show.charts.figure import NEUTRAL, SERIES
from advisor.ui.own_data import START

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which this machine alone reaches the app."""
_HEAD_ENDS = b"</head>"
_BODY_ENDS = b"</body>"
EVERY_ADDRESS = ("0.0.0.0", "::", "")
"""Values of server.address that name no host."""
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""On every answer: no other site shows the app in a frame, no browser guesses a type, and no link
hands on the scenario that the address holds."""


class AnswerHeaders:
    """ASGI middleware that sets HEADERS on every HTTP answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class EarlyStyle:
    """ASGI middleware that puts style and shell into the page itself.

    Streamlit draws elements in whatever order their code arrives, the one with the style last:
    until then the bar is unfolded and paddings are Streamlit's, and everything jumps when it comes
    (layout shift 0.1-0.8 at first load).
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[Message] = []

        async def send_styled(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                held.append(message)
            elif not held or message["type"] != "http.response.body":
                await send(message)
            else:
                held.append(message)
                if not message.get("more_body"):
                    for styled_message in _styled(held, shell(_asked(scope)) + ahead()):
                        await send(styled_message)

        if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
            # The page must come as it is, not compressed; scripts and styles, which are large,
            # still are.
            plain = [
                (name, value) for name, value in scope["headers"] if name != b"accept-encoding"
            ]
            await self.app({**scope, "headers": plain}, receive, send_styled)
        else:
            await self.app(scope, receive, send)


@functools.cache
def _charts_script() -> str:
    """Address of the script that draws Plotly's charts; empty where Streamlit has none of that
    name."""
    folder = Path(st.__file__).parent / "static"
    scripts = sorted(folder.glob("static/js/PlotlyChart.*.js"))
    return f"./{scripts[0].relative_to(folder).as_posix()}" if scripts else ""


def ahead() -> str:
    """Markup by which an idle browser fetches the charts' 5 MB: no first screen has one."""
    return f'<link rel="prefetch" href="{_charts_script()}">' if _charts_script() else ""


def _is_page(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    is_plain_success = start["status"] == 200 and "content-encoding" not in headers
    return is_plain_success and headers.get("content-type", "").startswith("text/html")


def _asked(scope: Scope) -> dict[str, str]:
    """Parameters of the page's address."""
    return dict(parse_qsl(scope.get("query_string", b"").decode("utf-8", "replace")))


def _styled(held: list[Message], drawn_first: str = "") -> list[Message]:
    """The messages of an answer with the style at the end of its head; of an answer without a head,
    as they are.

    drawn_first : what stands on the page until the app has drawn its bar.
    """
    start = held[0]
    body = b"".join(message.get("body", b"") for message in held[1:])
    if _HEAD_ENDS not in body:
        return held
    head = f"{element()}<script>{_beside('page.js')}</script>".encode()
    body = body.replace(_HEAD_ENDS, head + _HEAD_ENDS, 1)
    before, end, after = body.rpartition(_BODY_ENDS)
    body = before + drawn_first.encode() + end + after if end else body
    headers = MutableHeaders(scope=start)
    headers["content-length"] = str(len(body))
    for of_the_file in ("etag", "last-modified", "accept-ranges"):
        del headers[of_the_file]
    return [start, {"type": "http.response.body", "body": body}]


def allowed_hosts() -> list[str]:
    """Hosts that a request may name. A site whose name is made to lead here (DNS rebinding) is none
    of them."""
    address = st.get_option("server.address") or ""
    hosts = [
        *LOOPBACK,
        *st.get_option("server.allowedHosts"),
        *([] if address in EVERY_ADDRESS else [address]),
    ]
    return [
        f"[{host}]" if ":" in host else host for host in dict.fromkeys(hosts)
    ]  # as a request writes IPv6


def guards() -> list[Middleware]:
    """Middleware before the app, outermost first, for HTTP and WebSocket alike."""
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(), www_redirect=False)
    return [Middleware(AnswerHeaders), hosts, Middleware(EarlyStyle)]


_M_ARENA_MAX = -8
"""Of mallopt(3) in glibc. [-]"""


def share_freed_memory() -> None:
    """Keep freed memory in two pools instead of one for each of many threads.

    Thirty users at once then take 0.5 GiB instead of 0.6 (tools/benchmarks/wire_users.py). Does
    nothing where the C library has no such setting.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


LONGEST_WAIT_S = 2.0
"""Choice of this project: a user waits for the turn no longer than this, then runs beside whoever
has it, as soon as there is a place. [s]"""
MOST_BESIDE = 4
"""Choice of this project: runs at most beside the one that has the turn. On a busy machine thirty
users took 1.1 GiB all beside one another and take 0.5 so, in the same time. [-]"""
_turn = threading.Semaphore(1)
_crowd = threading.Semaphore(MOST_BESIDE)
_mine = threading.local()
_settled: set[str] = set()


@contextlib.contextmanager
def in_turn() -> Iterator[None]:
    """Draw a part of a page that takes a moment while nobody else draws one.

    One after the other, half of the runs end in half the time (docs/decisions/history.md). A
    part within a part goes on with the turn that is held and gives it back at its own end: so bar
    and first screen leave in one piece.
    """
    if _held() is None:
        if _turn.acquire(timeout=LONGEST_WAIT_S):
            _mine.place = _turn
        else:
            _crowd.acquire()
            _mine.place = _crowd
    try:
        yield
    finally:
        if (place := _held()) is not None:
            _mine.place = None
            place.release()


def _held() -> threading.Semaphore | None:
    """What this thread runs by: the turn, or a place beside it."""
    return getattr(_mine, "place", None)


def settle(page: str) -> None:
    """Take all that is loaded by now out of the garbage collector's sight, once for each page.

    Streamlit collects after every run of the script, and holds up all users while it does: 0.11 s
    over the modules and tables that a process keeps to its end, 1 ms over what the runs since have
    made. A page that is opened for the first time loads more of them.

    What other users' runs hold in circles at that moment stays until the process ends: once a page,
    so it is bounded.
    """
    if page not in _settled:
        _settled.add(page)
        gc.collect()
        gc.freeze()
        atexit.register(gc.unfreeze)  # else libraries complain at the end of what is still there


@functools.cache
def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def element() -> str:
    """The style as HTML. `server.EarlyStyle` puts it into the page, so that nothing jumps later."""
    return f"<style>{_beside('page.css')}</style>"


def shell(asked: Mapping[str, str]) -> str:
    """Markup that a browser draws before the app's scripts have come: what is computed, and where.

    asked : parameters of the address; only names that are shipped are repeated.
    """
    model = asked.get("model_id", START["model_id"])
    place = asked.get("hardware_id", START["hardware_id"])
    known = model in model_ids() and place in hardware_ids()
    what = f": {model_name(model)} on {hardware_called(place, None)}" if known else ""
    progress_text = html.escape(
        f"Computing every draft length at {len(SCHEDULE_BATCHES)} batches{what} …"
    )
    name = "<p><b>MoE speculation advisor</b></p>"
    blocks = (
        '<div style="height:60px"></div>',
        '<div style="height:38px;width:min(420px,80%)"></div>',
    )
    return (
        f'<style>{_beside("shell.css")}</style><div id="shell" '
        f'role="status">{name}{blocks[0]}<p>{progress_text}</p>{blocks[1]}'
        "<section><div></div><div></div></section></div>"
    )


def use() -> None:
    """Draw the style, for an app that runs without its server's guards (`streamlit run app.py`)."""
    st.html(element())


_CATEGORICAL = {color: f"#{number:06d}" for number, color in enumerate(SERIES, start=1)}
_GREY = "#000036"
PLACEHOLDERS = {**_CATEGORICAL, NEUTRAL: _GREY}
"""Colour of a chart: what stands for it on a page."""


def themed(figure: go.Figure) -> go.Figure:
    """A figure whose colours follow the theme."""
    text = figure.to_json()
    for color, placeholder in PLACEHOLDERS.items():
        text = text.replace(color, placeholder)
    return go.Figure(json.loads(text), _validate=False)
