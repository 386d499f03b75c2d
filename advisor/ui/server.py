"""The guard before the app: hosts, the headers of every answer, and the style in the page itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from advisor.ui.shared import style

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which this machine alone reaches the app."""
_HEAD_ENDS = b"</head>"
EVERY_ADDRESS = ("0.0.0.0", "::", "")
"""Values of server.address that name no host."""
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""On every answer: no other site shows the app in a frame, no browser guesses a type, and no link hands on the scenario
that the address holds."""


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
    """ASGI middleware that puts the app's style into the page itself.

    Streamlit draws elements in whatever order their code arrives, the one with the style last: until then the bar is
    unfolded and paddings are Streamlit's, and everything jumps when it comes (layout shift 0.1-0.8 at first load).
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
                    for one in _styled(held):
                        await send(one)

        if scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", ""):
            # The page must come as it is, not compressed; scripts and styles, which are large, still are.
            plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
            await self.app({**scope, "headers": plain}, receive, send_styled)
        else:
            await self.app(scope, receive, send)


def _is_page(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    whole = start["status"] == 200 and "content-encoding" not in headers
    return whole and headers.get("content-type", "").startswith("text/html")


def _styled(held: list[Message]) -> list[Message]:
    """The messages of an answer with the style at the end of its head; of an answer without a head, as they are."""
    start, body = held[0], b"".join(message.get("body", b"") for message in held[1:])
    if _HEAD_ENDS not in body:
        return held
    body = body.replace(_HEAD_ENDS, style.element().encode() + _HEAD_ENDS, 1)
    headers = MutableHeaders(scope=start)
    headers["content-length"] = str(len(body))
    for of_the_file in ("etag", "last-modified", "accept-ranges"):
        del headers[of_the_file]
    return [start, {"type": "http.response.body", "body": body}]


def allowed_hosts() -> list[str]:
    """Hosts that a request may name.

    Loopback, server.allowedHosts, and server.address where it names a host.

    A page of another site whose name is made to resolve to this machine (DNS rebinding) names none of them.
    """
    address = st.get_option("server.address") or ""
    named = [*LOOPBACK, *st.get_option("server.allowedHosts"), *([] if address in EVERY_ADDRESS else [address])]
    return [f"[{host}]" if ":" in host else host for host in dict.fromkeys(named)]  # as a request writes IPv6


def guards() -> list[Middleware]:
    """Middleware before the app, outermost first, for HTTP and WebSocket alike."""
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(), www_redirect=False)
    return [Middleware(AnswerHeaders), hosts, Middleware(EarlyStyle)]
