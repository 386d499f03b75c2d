"""`advisor mcp`: the recorded conversation, who may ask over HTTP, which files an agent sees."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor.cli.mcp import MAX_BODY_BYTES
from tests.command_line import Run
from tests.golden import mcp

TEXT = "application/json"


def test_the_conversation_is_as_recorded() -> None:
    assert mcp.conversation() == mcp.FILE.read_text(encoding="utf-8"), (
        "run: python -m tests.golden.mcp"
    )


def test_a_tool_takes_every_option_of_its_command_that_writes_nothing(run: Run) -> None:
    (listed,) = mcp.replies([mcp.request(1, "tools/list")])
    for tool in listed["result"]["tools"]:
        _, page, _ = run(tool["name"], "--help")
        options = {word for word in page.split() if word.startswith("--")}
        offered = {f"--{name}" for name in tool["inputSchema"]["properties"]}
        assert not options & {"--output", "--csv"} & offered
        assert {"--gpus", "--engine", "--json", "--batch"} <= options & offered


def test_a_link_out_of_the_folder_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("vllm serve secret/model -tp 8\n", encoding="utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    leads_out = {"model_id": "../secret.json", "acceptance": "2.4@3"}
    (folder / "scenario.json").write_text(
        json.dumps({"schema_version": 1, "scenario": leads_out}), encoding="utf-8"
    )
    monkeypatch.setattr(mcp, "FOLDER", folder)
    calls = [
        mcp.call(1, "diagnose", paths=["link.txt"]),
        mcp.call(2, "diagnose", paths=[str(tmp_path / "secret.txt")]),
        mcp.call(3, "advise", scenario="scenario.json"),
    ]
    for reply in mcp.replies(calls):
        assert reply["result"]["isError"]
        (content,) = reply["result"]["content"]
        assert "only files below --folder are read" in content["text"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server over HTTP, without a folder."""
    words = [sys.executable, "-m", "advisor", "mcp", "--http", "0"]
    with subprocess.Popen(words, cwd=mcp.ROOT, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield int(server.stderr.readline().rpartition(":")[2].removesuffix("/mcp\n"))
        server.terminate()
        assert server.stderr.read() == ""


def posted(port: int, message: Any, path: str = "/mcp", **headers: str) -> tuple[int, str]:
    """Status and body of a request. headers : beside the usual ones, `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {"Content-Type": TEXT} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.request("POST", path, json.dumps(message), sent)
    response = connection.getresponse()
    return response.status, response.read().decode()


PING = mcp.request(1, "ping")


def test_a_reply_over_http_is_the_one_over_standard_output(port: int) -> None:
    messages = [mcp.REQUESTS[number] for number in (0, 2, 3, 5)]
    for message, reply in zip(messages, mcp.replies(messages), strict=True):
        status, body = posted(port, message, Origin=f"http://localhost:{port}")
        assert status == 200
        assert mcp.masked(json.loads(body)) == reply
    assert posted(port, {"jsonrpc": "2.0", "method": "notifications/initialized"}) == (202, "")
    unknown = mcp.request(1, "resources/list")
    assert posted(port, unknown)[0] == 200, "404 meant the end of a session before 2026-07-28"
    call = mcp.request(1, "tools/call", name="advice", arguments={})
    status, body = posted(port, call)
    assert (status, json.loads(body)["error"]["code"]) == (200, -32602)
    assert "'advice'" in body


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"Host": "advisor.example"}),
        (403, {"Host": "127.0.0.1"}),
        (403, {"Origin": "http://advisor.example"}),
        (403, {"Origin": "null"}),
        (404, {"path": "/"}),
        (415, {"Content_Type": "text/plain"}),
        (413, {"Content_Length": str(MAX_BODY_BYTES + 1)}),
        (413, {"Content_Length": "-1"}),
        (413, {"Content_Length": "1" * 5000}),
        (400, {"MCP_Protocol_Version": "1999-01-01"}),
    ],
)
def test_who_may_not_ask_is_refused(port: int, status: int, headers: dict[str, str]) -> None:
    refused, body = posted(port, PING, **headers)
    assert refused == status
    assert "result" not in body


def test_only_messages_are_taken(port: int) -> None:
    for method in ("GET", "DELETE"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, "/mcp")
        assert connection.getresponse().status == 405


@pytest.mark.parametrize(
    ("status", "method", "headers"),
    [
        (200, "server/discover", {}),
        (400, "server/discover", {"Mcp_Method": "tools/list"}),
        (400, "server/discover", {"MCP_Protocol_Version": "2025-11-25"}),
        (404, "resources/list", {}),
        (200, "tools/call", {"Mcp_Name": "advise"}),
        (400, "tools/call", {"Mcp_Name": "explore"}),
        (400, "tools/call", {}),
    ],
)
def test_headers_state_what_the_body_does(
    port: int, status: int, method: str, headers: dict[str, str]
) -> None:
    message = mcp.request(1, method, name="advise", arguments={}, **mcp.STATED)
    stated = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method} | headers
    answered, body = posted(port, message, **stated)
    assert answered == status
    assert ("error" in json.loads(body)) == (status != 200)


def test_no_file_is_read_without_a_folder(port: int) -> None:
    _, body = posted(port, mcp.call(1, "diagnose", paths=["README.md"]))
    assert json.loads(body)["result"]["isError"]


def test_a_port_in_use_and_a_folder_that_is_none_are_refused(port: int, run: Run) -> None:
    code, _, err = run("mcp", "--folder", mcp.FILE)
    assert code == 2
    assert str(mcp.FILE) in err
    code, _, err = run("mcp", "--http", port)
    assert code == 2
    assert str(port) in err
