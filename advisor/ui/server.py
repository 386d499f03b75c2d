"""The guard before the app: the hosts it answers to, and the headers that go with every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names by which this machine alone reaches the app."""
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


def allowed_hosts() -> list[str]:
    """Hosts that a request may name: loopback, server.allowedHosts, and server.address where it names a host.

    A page of another site whose name is made to resolve to this machine (DNS rebinding) names none of them.
    """
    address = st.get_option("server.address") or ""
    named = [*LOOPBACK, *st.get_option("server.allowedHosts"), *([] if address in EVERY_ADDRESS else [address])]
    return [f"[{host}]" if ":" in host else host for host in dict.fromkeys(named)]  # as a request writes IPv6


def guards() -> list[Middleware]:
    """What stands before the app, outermost first; HTTP and WebSocket alike."""
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=allowed_hosts(), www_redirect=False)
    return [Middleware(AnswerHeaders), hosts]
