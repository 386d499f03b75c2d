"""A conversation of an agent with `advisor mcp`, as JSON lines of a request and its reply:
`python -m tests.golden.mcp` records it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor import __version__

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "tests" / "cli" / "mcp.jsonl"
FOLDER = ROOT / "tests" / "fixtures" / "diagnosis"
STATED = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}
"""What a request of the stateless revision states."""


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    """A request of that id."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    """A request to run a tool."""
    return request(number, "tools/call", name=tool, arguments=arguments)


GPT_OSS = {"model": "gpt-oss-20b", "gpus": "1xH200"}
REQUESTS = (
    request(1, "initialize", protocolVersion="2025-06-18", capabilities={}),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    request(2, "ping"),
    request(3, "tools/list"),
    call(4, "advise", **GPT_OSS),
    call(5, "advise", **GPT_OSS, batch=0),
    call(6, "advise", **GPT_OSS, batches=4),
    call(7, "advise", **GPT_OSS, json="yes"),
    call(8, "advise", model="/etc/passwd", gpus="1xH200"),
    call(9, "advise", **GPT_OSS, scenario="../own/config.json"),
    call(10, "explore", model=["gpt-oss-20b", "--csv=out.csv"], gpus="1xH200"),
    call(11, "explore", model=["gpt-oss-20b", "gpt-oss-120b"], gpus="1xH200"),
    call(12, "explore", **GPT_OSS, vary="drafter", csv="out.csv"),
    call(13, "diagnose", **{"without": "52ms", "with": "61ms", "model": "deepseek-v3", "k": 3}),
    call(14, "diagnose", paths=["misconfigured.txt"], hardware="H200", tp=1),
    call(15, "diagnose", text="vllm serve deepseek-ai/DeepSeek-V3 -tp 8", gpus="8xH200"),
    call(16, "report", **GPT_OSS),
    request(17, "resources/list"),
    request(18, "initialize", protocolVersion="1999-01-01"),
    request(19, "server/discover", **STATED),
    request(20, "tools/call", name="advise", arguments={}, **STATED),
    request(21, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "1999-01-01"}),
    request(22, "tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"}),
    [request(23, "ping")],
    {"jsonrpc": "2.0", "id": None, "method": "ping"},
    {"jsonrpc": "2.0", "id": 24, "method": "ping", "params": [1]},
)


_INSTALLED = "from advisor.cli import main; main()"
"""The command under its own name, which its answers print, on any machine."""


def replies(requests: Sequence[Any]) -> list[Any]:
    """Replies of a server over standard input and output, in their order."""
    done = subprocess.run(
        [sys.executable, "-c", _INSTALLED, "mcp", "--folder", str(FOLDER)],
        cwd=ROOT,
        input="".join(f"{json.dumps(message)}\n" for message in requests),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not done.stderr, done.stderr
    return [masked(json.loads(line)) for line in done.stdout.splitlines()]


def masked(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without the version, and without the help of options, which docs/cli.md has."""
    text = json.dumps(reply).replace(f'"version": "{__version__}"', '"version": "VERSION"')
    reply = json.loads(text)
    for tool in reply.get("result", {}).get("tools", ()):
        for schema in tool["inputSchema"]["properties"].values():
            schema.pop("description", None)
    return reply


def conversation() -> str:
    """Each request with its reply below it, which a notification has not."""
    waiting = replies(REQUESTS)
    lines = []
    for message in REQUESTS:
        lines.append(message)
        if not isinstance(message, dict) or "id" in message:
            lines.append(waiting.pop(0))
    assert not waiting
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


if __name__ == "__main__":
    FILE.write_text(conversation(), encoding="utf-8")
