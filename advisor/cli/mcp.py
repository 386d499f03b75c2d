"""`mcp`: `advise`, `explore` and `diagnose` as tools of an agent, over standard input and output or
over HTTP on this machine.

Of the Model Context Protocol by the standard library: the SDK brings more packages than an answer
needs. A request of revision 2026-07-28 states its revision; one that does not is of the revisions
that begin with `initialize`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from advisor import __version__
from advisor.cli import main, root
from advisor.cli import output as out
from advisor.cli.app import HOST
from advisor.cli.asked import TokenCount
from advisor.predict.scenario_fields import FIELDS
from advisor.prediction import AdvisorError
from advisor.profiles import confine, unknown_id
from advisor.text import read_json

TOOLS = ("advise", "explore", "diagnose")
STATELESS = "2026-07-28"
WITH_HANDSHAKE = ("2025-11-25", "2025-06-18", "2024-11-05")
"""Older revisions, the newest first. 2025-03-26 asks for batches of messages, which none other
has."""
_OF_TRANSPORT = (-32700, -32600, -32020, -32022)
"""Codes of what is no request, or not of this revision."""
MAX_BODY_BYTES = 1_000_000
_PLACE = "/mcp"
_META = "io.modelcontextprotocol/"
_LEFT_OUT = frozenset({"output", "csv_file", "workers", "dry_run", "dask"})
"""Options that write files, start processes or ask other machines."""
_TYPES = {
    "integer": "integer",
    "integer range": "integer",
    "float": "number",
    "boolean": "boolean",
    "N|NxGPU": ["integer", "string"],
}
"""Types of JSON by click's names; all else is text."""


class _Refusal(Exception):
    """An error of the protocol: its code, its message, and what the code asks for beside it."""

    def __init__(self, code: int, message: str, **data: Any) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})


@click.command()
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"Serve http://{HOST}:PORT{_PLACE} instead of standard input and output [0: a free port].",
)
@out.path_option(
    "--folder",
    help="Folder whose files the agent may name, by paths relative to it [default: no file].",
)
def mcp(port: int | None, folder: Path | None) -> None:
    """Serve `advise`, `explore` and `diagnose` to an agent as tools (Model Context Protocol).

    A tool takes the options of its command by their names and answers with the command's text, or
    with `json` its document. Nothing is written, and no other machine is contacted.

    Runs until its input ends or it is interrupted.
    """
    server = None if port is None else _server(port)
    if folder is not None:
        try:
            os.chdir(folder)
        except OSError as error:
            raise AdvisorError(f"--folder {folder}: {error.strerror}; give a folder") from error
    confine(*([] if folder is None else [Path()]))
    os.environ.pop("COLUMNS", None)  # of a terminal, which an agent has not
    if server is not None:
        click.echo(f"http://{HOST}:{server.server_port}{_PLACE}", err=True)
        server.serve_forever()
        return
    for line in sys.stdin.buffer:
        if (reply := reply_to(line)) is not None:
            click.echo(json.dumps(reply))


def reply_to(text: bytes, headers: Message | None = None) -> dict[str, Any] | None:
    """Reply to one message of JSON-RPC. None to a notification.

    headers : of the HTTP request that brings it; None without one.
    """
    reply: dict[str, Any] = {"jsonrpc": "2.0"}
    try:
        message = _message(text)
        if "id" not in message:
            return None
        reply["id"] = message["id"]
        reply["result"] = _result(message["method"], message.get("params", {}), headers)
    except _Refusal as refusal:
        reply["error"] = refusal.error
    return reply


def _message(text: bytes) -> dict[str, Any]:
    try:
        message = read_json(text)
    except ValueError as error:
        raise _Refusal(-32700, f"Parse error: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise _Refusal(-32600, "Invalid request: expected an object with a method")
    if type(message.get("id", 0)) not in (int, str):
        raise _Refusal(-32600, "Invalid request: id is a whole number or text")
    return message


def _result(method: str, params: Any, headers: Message | None) -> dict[str, Any]:
    """What a method gives, as the request's revision has it. Raises _Refusal."""
    meta = params.get("_meta", {}) if isinstance(params, dict) else None
    if not isinstance(meta, dict):
        raise _Refusal(-32602, "Invalid params: expected an object")
    revision = meta.get(f"{_META}protocolVersion")
    if headers is not None:
        _check_headers(headers, method, params, revision)
    if revision not in (None, STATELESS):
        raise _Refusal(
            -32022, "Unsupported protocol version", supported=_REVISIONS, requested=revision
        )
    if revision and not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
        raise _Refusal(-32602, f"Invalid params: _meta lacks {_META}clientCapabilities")
    if method not in _METHODS:
        raise _Refusal(-32601, f"Method not found: {method}")
    result = _METHODS[method](params)
    if revision:
        result |= {"resultType": "complete", "_meta": {f"{_META}serverInfo": _SERVER}}
    return result


def _initialized(params: Mapping[str, Any]) -> dict[str, Any]:
    revision = params.get("protocolVersion")
    revision = revision if revision in WITH_HANDSHAKE else WITH_HANDSHAKE[0]
    return {"protocolVersion": revision, "capabilities": _CAPABILITIES, "serverInfo": _SERVER}


def _call(params: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool: its text, then what was taken for the agent or why there is none."""
    name = params.get("name")
    arguments = params.get("arguments", {})
    if name not in TOOLS or not isinstance(arguments, dict):
        tools = ", ".join(TOOLS)
        raise _Refusal(
            -32602, f"Unknown tool {name!r}, or arguments that are no object; expected {tools}"
        )
    try:
        return _run([name, *_words(name, arguments)], str(arguments.get("text", "")))
    except AdvisorError as error:
        return _answer([str(error)], failed=True)
    except Exception as error:
        raise _Refusal(-32603, f"Internal error: {error!r}") from error


def _answer(texts: Sequence[str], failed: bool) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts if text]
    return {"content": content, "isError": failed}


_REVISIONS = [STATELESS, *WITH_HANDSHAKE]
_SERVER = {"name": "moe-sd-advisor", "version": __version__}
_CAPABILITIES: dict[str, Any] = {"tools": {}}
_CACHED = {"ttlMs": 3_600_000, "cacheScope": "public"}
"""For an hour: it changes with the server's version alone."""
_METHODS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "initialize": _initialized,
    "ping": lambda _: {},
    "server/discover": lambda _: (
        {"supportedVersions": _REVISIONS, "capabilities": _CAPABILITIES} | _CACHED
    ),
    "tools/list": lambda _: {"tools": list(map(_tool, TOOLS))} | _CACHED,
    "tools/call": _call,
}


def _run(words: list[str], text: str) -> dict[str, Any]:
    """What a command prints: its answer, and what stands on standard error.

    text : what it reads as standard input, which is the agent's own channel.
    """
    answer = io.StringIO()
    notes = io.StringIO()
    channel = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode(errors="replace")))
    try:
        with contextlib.redirect_stdout(answer), contextlib.redirect_stderr(notes):
            main(words)
    except SystemExit as end:
        if end.code not in (0, 2):
            raise  # the server is to end
        return _answer([answer.getvalue(), notes.getvalue()], failed=end.code == 2)
    finally:
        sys.stdin = channel


def _command(name: str) -> click.Command:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    return command


_TEXT = click.Option(["--text"], help="A log, launch line or result, read beside the files.")
"""Of a tool that reads files: what its command takes as standard input."""


def _params(command: click.Command) -> dict[str, click.Parameter]:
    """What of a command a tool takes, by the names of its options. Several models, which stand by
    their place, go before the option of one."""
    params = {
        max(param.opts, key=len).removeprefix("--"): param
        for param in sorted(command.params, key=lambda param: param.nargs == -1)
        if param.name not in _LEFT_OUT
    }
    return params | ({"text": _TEXT} if "paths" in params else {})


def _tool(name: str) -> dict[str, Any]:
    """A command as the protocol lists it, its options from the table of fields."""
    command = _command(name)
    context = click.Context(command)
    properties = {key: _schema(param, context) for key, param in _params(command).items()}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    text = " ".join((command.help or "").replace("\b", "").split())
    return {"name": name, "description": text, "inputSchema": schema}


def _schema(param: click.Parameter, context: click.Context) -> dict[str, Any]:
    """JSON Schema of one option."""
    row = FIELDS.get(param.name or "")
    schema: dict[str, Any] = {"type": _TYPES.get(param.type.name, "string")}
    if isinstance(param.type, TokenCount):
        schema["type"] = ["integer", "string"]
    if choices := row.choices if row is not None else getattr(param.type, "choices", ()):
        schema["enum"] = list(choices)
    if row is not None and row.range is not None:
        schema |= dict(zip(("minimum", "maximum"), row.range, strict=True))
    if param.multiple or param.nargs == -1:
        schema = {"type": "array", "items": schema}
    if isinstance(param, click.Argument) or (record := param.get_help_record(context)) is None:
        return schema
    return schema | {"description": " ".join(record[1].split())}


def _words(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """A tool's arguments as words of its command line. Raises AdvisorError for an unknown one, and
    for a value of another kind than it takes."""
    params = _params(_command(name))
    options: list[str] = []
    placed: list[str] = []
    for key, value in arguments.items():
        if key not in params:
            raise unknown_id(key, f"arguments of {name}", list(params), "tools/list has them")
        param = params[key]
        is_list = isinstance(value, list) and (param.multiple or param.nargs == -1)
        values = value if is_list else [value]
        is_flag = getattr(param, "is_flag", False)
        if not all(isinstance(each, bool if is_flag else str | int | float) for each in values):
            kind = "true or false" if is_flag else "text or a number"
            raise AdvisorError(f"{name}: {key} takes {kind}; got {value!r}")
        # JSON does not tell 16.0 from 16.
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
        if param is _TEXT:
            placed.append("-")
        elif isinstance(param, click.Argument):
            placed += map(str, values)
        elif is_flag:
            options += [f"--{key}"] if value else []
        else:
            options += [f"--{key}={each}" for each in values]
    return [*options, "--", *placed]


def _check_headers(headers: Message, method: str, params: Mapping[str, Any], revision: Any) -> None:
    """Raise _Refusal where headers that state what the body does state something else."""
    if revision is None and headers.get("MCP-Protocol-Version") in (None, *WITH_HANDSHAKE):
        return
    expected = {"MCP-Protocol-Version": revision, "Mcp-Method": method}
    expected |= {"Mcp-Name": params.get("name")} if method == "tools/call" else {}
    for name, value in expected.items():
        if headers.get(name) != value:
            raise _Refusal(
                -32020,
                f"Header mismatch: {name} is {headers.get(name)!r} and the body has {value!r}; "
                f"revisions: {', '.join(_REVISIONS)}",
            )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    one_at_a_time = threading.Lock()
    """A command prints to the process's own streams."""

    def handle_error(self, *_: Any) -> None:
        """Nothing, for an agent that has left: as of `log_message`."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 30.0
    """For a request to arrive. [s]"""

    def do_POST(self) -> None:
        """Answer one message."""
        refusal = self._refusal()
        if refusal is not None:
            self._send(*refusal)
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with _Server.one_at_a_time:
            reply = reply_to(body, self.headers)
        if reply is None:
            self._send(202)
            return
        code = reply.get("error", {}).get("code")
        status = {None: 200, -32601: 404}.get(code, 400)
        if code not in _OF_TRANSPORT and self.headers.get("MCP-Protocol-Version") in (
            None,
            *WITH_HANDSHAKE,
        ):
            status = 200  # there an error of JSON-RPC is a reply, and 404 the end of a session
        self._send(status, json.dumps(reply))

    def do_GET(self) -> None:
        """Refuse: nothing is sent unasked."""
        self._send(405, "POST one JSON-RPC message")

    do_DELETE = do_GET

    def _refusal(self) -> tuple[int, str] | None:
        """Status and text where a request is not of this machine's own agent, or no message."""
        hosts = [f"{name}:{self.connection.getsockname()[1]}" for name in (HOST, "localhost")]
        origin = self.headers.get("Origin")
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Host") not in hosts:
            return 403, f"Host is not {hosts[0]}"
        if origin is not None and origin not in [f"http://{host}" for host in hosts]:
            return 403, f"Origin is not http://{hosts[0]}"
        if self.path != _PLACE:
            return 404, f"nothing is here; POST to {_PLACE}"
        if self.headers.get_content_type() != "application/json":
            return 415, "Content-Type is not application/json"
        if not re.fullmatch(r"[0-9]{1,9}", length) or int(length) > MAX_BODY_BYTES:
            return 413, f"Content-Length is not a number up to {MAX_BODY_BYTES}"
        return None

    def _send(self, status: int, text: str = "") -> None:
        body = text.encode()
        with contextlib.suppress(ConnectionError):  # the agent has left
            self.send_response(status)
            kind = "application/json" if text.startswith("{") else "text/plain"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing: standard error may be the answer that is being written."""


def _server(port: int) -> _Server:
    """A server that listens on this machine. Raises AdvisorError for a port that cannot be had."""
    try:
        return _Server((HOST, port), _Handler)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise AdvisorError(
            f"cannot serve on {HOST}:{port}: {reason}; choose another port"
        ) from error
