"""What a running vLLM or SGLang server says of itself over HTTP: its metrics page and its settings.

GET alone, http or https alone, at most 32 MiB and ten seconds a page, and no redirect to another
host, so that a header with a key goes nowhere else. Pages and names were read in vllm-project/vllm
(vllm/v1/metrics/loggers.py, vllm/engine/metrics.py of 0.8) and sgl-project/sglang
(python/sglang/srt/observability/metrics_collector.py, srt/metrics/collector.py,
srt/entrypoints/http_server.py).
"""

from __future__ import annotations

import re
import time
from collections import ChainMap
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, HTTPResponse
from math import fsum
from threading import Thread
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from advisor.measured.ingest.acceptance import (
    MAX_METRICS_BYTES,
    AcceptanceRates,
    Series,
    parse_metrics,
    read_acceptance_file,
)
from advisor.predict.scenario_fields import MAX_DRAFT
from advisor.prediction import AdvisorError
from advisor.text import counted, printable, read_json

TIMEOUT_S = 10.0
"""How long a page may take in all, and the server to answer. [s]"""
_HEADER = re.compile(r"([A-Za-z0-9-]{1,64}):[ \t]*([\x21-\x7e][\x20-\x7e]{0,4095})")
_MODEL = re.compile(
    r'^(?:vllm|sglang):.*?[{,](?:model_name|name)="((?:[^"\\]|\\.)*)"', re.MULTILINE
)
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of ranks that work on the same requests, each of which may report all of them."""


class EnginePages(NamedTuple):
    """Names of an engine's metrics and pages, those of the newest release first."""

    running: tuple[str, ...]
    """Gauge of the requests that decode."""
    generated: str
    """Counter of output tokens, `_total` left out."""
    rate: str
    """Gauge of output tokens per second; empty where the counter moves with every step."""
    settings: tuple[str, ...]
    """JSON of what the server says of itself."""


PAGES: Mapping[str, EnginePages] = {
    "vllm": EnginePages(
        ("vllm:num_requests_running",), "vllm:generation_tokens", "", ("/v1/models", "/version")
    ),
    # num_requests_running before 0.4, get_server_info before 0.5.11; the counter moves when a
    # request ends.
    "sglang": EnginePages(
        ("sglang:num_running_reqs", "sglang:num_requests_running"),
        "sglang:generation_tokens",
        "sglang:gen_throughput",
        ("/server_info", "/get_server_info"),
    ),
}


class ServedLoad(NamedTuple):
    """Requests and tokens of a page, over its engines."""

    running: float | None
    """Requests that decode; None where the page lacks their gauge. [-]"""
    engines: int
    """Engines, or data-parallel ranks. [-]"""
    tokens: float
    """Output tokens counted since the start. [tokens]"""
    tok_per_s: float | None
    """Output of all requests; None where one scrape does not tell. [tokens/s]"""


@dataclass(frozen=True)
class ServerReading:
    """A running server at one time, or between two scrapes."""

    url: str
    engine: str
    version: str | None
    model: str | None
    """Path or name of its checkpoint, else the name it serves."""
    settings: Mapping[str, Any]
    """Arguments of the server by their own names; empty where it does not give them."""
    rates: AcceptanceRates
    k: int
    """Draft length: of --k, else the positions that it counts, or its steps. [tokens]"""
    load: ServedLoad
    """Mean of the scrapes."""
    seconds: float | None
    """Between the scrapes; None: counted since the server's start. [s]"""


@dataclass(frozen=True)
class Server:
    """A server by its address, and the headers to send along."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def page(self, path: str) -> bytes:
        """A page whole, as bytes. Raises AdvisorError with what to do."""
        address = self.url + path
        page: Future[bytes] = Future()
        request = Request(address, headers=dict(self.headers))
        # A socket's timeout starts again with every line that a slow server sends.
        Thread(target=_fetch, args=(request, page), daemon=True).start()
        try:
            return page.result(TIMEOUT_S)
        except TimeoutError as error:
            raise AdvisorError(f"{address} took longer than {TIMEOUT_S:g} s; ask again") from error
        except AdvisorError:
            raise
        except HTTPError as error:
            raise _refusal(address, error.code) from error
        except (OSError, HTTPException, ValueError) as error:
            cause = getattr(error, "reason", None) or error
            raise AdvisorError(
                f"{address} cannot be read ({printable(str(cause), 120) or type(cause).__name__}); "
                "is the server up, and is this its address?"
            ) from error

    def json(self, path: str) -> dict[str, Any]:
        """A page's JSON object. Empty where the server has no such page."""
        try:
            document = read_json(self.page(path).decode("utf-8", errors="replace"))
        except (AdvisorError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


class _SameHost(HTTPRedirectHandler):
    """Follows a redirect to the same scheme, host and port alone."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request. Raises AdvisorError where it would go elsewhere."""
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            raise AdvisorError(
                f"{req.full_url} redirects to another host ({printable(newurl, 120)}), which is "
                "not followed; give that address if it is the server's"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(request: Request, page: Future[bytes]) -> None:
    opener = build_opener(ProxyHandler({}), _SameHost())
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            page.set_result(_body(request.full_url, answer))
    except Exception as error:
        page.set_exception(error)  # raised where the page is waited for


def _body(address: str, answer: HTTPResponse) -> bytes:
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > MAX_METRICS_BYTES:
            raise AdvisorError(
                f"{address} is larger than {MAX_METRICS_BYTES >> 20} MiB, which no metrics page is"
            )
    stated = answer.headers.get("Content-Length", "")
    if stated.isdigit() and int(stated) != size_bytes:
        raise AdvisorError(
            f"{address} broke off after {size_bytes:,} of {int(stated):,} bytes; ask again"
        )
    return b"".join(pieces)


def _refusal(address: str, status: int) -> AdvisorError:
    remedy = {
        401: "give its key with --header 'Authorization: Bearer KEY', or in MOE_ADVISOR_HEADER",
        403: "give its key with --header 'Authorization: Bearer KEY', or in MOE_ADVISOR_HEADER",
        404: "give the server's own address, and start SGLang with --enable-metrics",
    }
    return AdvisorError(
        f"{address} answers HTTP {status}; {remedy.get(status, 'is this the server itself?')}"
    )


def server_at(url: str, header: str | None = None) -> Server:
    """A server by its address, with a header to send along. Raises AdvisorError for another form.

    url : http://host:port, with or without /metrics.
    header : `Name: value`; never shown.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")  # a label that is empty or too long
    except ValueError:
        is_address = False
    if not is_address or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise AdvisorError(
            f"{printable(url, 80)!r} is no address of a server; give http://HOST:PORT, such as "
            "http://localhost:8000"
        )
    if parts.username is not None or "?" in url or "#" in url:
        raise AdvisorError(
            "the address holds a user, a question mark or a hash; give http://HOST:PORT alone, and "
            "a key with --header"
        )
    match = _HEADER.fullmatch(header) if header else None
    if header and match is None:
        raise AdvisorError("the header is not of the form `Name: value`, in plain letters")
    headers = {} if match is None else {match[1]: match[2]}
    return Server(url.rstrip("/").removesuffix("/metrics"), headers)


def read_server(
    server: Server,
    seconds: float | None,
    k: int | None = None,
    served: str | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> ServerReading:
    """Read a server's acceptance, load and settings.

    seconds : between two scrapes; None: one scrape, counted since the start. [s]
    k : draft length, where the server does not state it. [tokens]
    served : name of one model, where the page counts several.

    Raises AdvisorError for a page that is none, is cut off, or counts no speculation, several
    models, a round of another K, or of one beyond those that are predicted.
    """
    address = f"{server.url}/metrics"
    first = _metrics(server, served)
    engine = _engine_of(address, first)
    pages = PAGES[engine]
    started_s = time.monotonic()
    last = first
    elapsed_s = 0.0
    if seconds is not None:
        wait(seconds)
        last = _metrics(server, served)
        elapsed_s = time.monotonic() - started_s
    settings = dict(ChainMap(*map(server.json, pages.settings)))
    if "speculative_algorithm" in settings and not settings["speculative_algorithm"]:
        raise _no_speculation(address)
    stated_k = _steps(settings) if k is None else k
    _check_k(server.url, stated_k or 1)
    earlier = None if seconds is None else (f"{address} {seconds:g} s before", first.encode())
    rates = read_acceptance_file(address, last.encode(), earlier, k=stated_k)
    counted_k = len(rates.conditional)
    if k is not None and k > counted_k:
        raise AdvisorError(
            f"--k {k}, but {address} counts {counted_k} draft positions; leave --k out"
        )
    k_now = counted_k if k is None else k
    _check_k(server.url, k_now)
    version = settings.get("version")
    before = _load(address, first, pages)
    now = _load(address, last, pages)
    rate = now.tok_per_s
    if elapsed_s > 0.0 and not pages.rate:
        rate = (now.tokens - before.tokens) / elapsed_s
    running = now.running
    if running is not None and before.running is not None:
        running = (before.running + running) / 2.0
    load = now._replace(running=running, tok_per_s=rate or None)
    return ServerReading(
        url=server.url,
        engine=engine,
        version=version if isinstance(version, str) else None,
        model=_model(settings) or next(iter(_MODEL.findall(last)), None),
        settings=settings,
        rates=rates,
        k=k_now,
        load=load,
        seconds=seconds,
    )


def _metrics(server: Server, served: str | None) -> str:
    """The metrics page, of one model where it is named. Raises AdvisorError where it is cut off."""
    address = f"{server.url}/metrics"
    text = server.page("/metrics").decode("utf-8", errors="replace").replace("\r\n", "\n")
    if not text.endswith("\n"):
        raise AdvisorError(
            f"{address} {'is empty' if not text else 'ends in the middle of a line'}; ask again"
        )
    models = list(dict.fromkeys(_MODEL.findall(text)))
    if served is None and len(models) <= 1:
        return text
    if served not in models:
        names = ", ".join(printable(name, 60) for name in models[:6])
        raise AdvisorError(
            f"{address} counts {counted(len(models), 'model')} ({names}); name one with "
            "--served-model"
        )
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if _MODEL.findall(line) in ([], [served]))


def _engine_of(address: str, text: str) -> str:
    engine = next((name for name in PAGES if re.search(rf"^{name}:", text, re.MULTILINE)), None)
    if engine is None:
        raise AdvisorError(
            f"{address} is no metrics page of vLLM or SGLang; give the address of the server itself"
        )
    if not re.search(rf"^{engine}:spec_", text, re.MULTILINE):
        raise _no_speculation(address)
    return engine


def _no_speculation(address: str) -> AdvisorError:
    return AdvisorError(
        f"{address} counts no speculation: the server drafts nothing, so there is no acceptance to "
        "read; `advisor advise MODEL --gpus 8xH200 --batch 32` says what it would gain"
    )


def _steps(settings: Mapping[str, Any]) -> int | None:
    """K of SGLang's arguments: its steps, else the verified tokens less the last emitted one."""
    steps = settings.get("speculative_num_steps")
    verified = settings.get("speculative_num_draft_tokens")
    if isinstance(steps, int) and steps > 0:
        return steps
    return verified - 1 if isinstance(verified, int) and verified > 1 else None


def _check_k(url: str, k: int) -> None:
    if k > MAX_DRAFT:
        raise AdvisorError(
            f"{url} drafts K = {k}; expected at most {MAX_DRAFT}, the longest draft that is "
            "predicted: ask a server with a shorter one"
        )


def _load(address: str, text: str, pages: EnginePages) -> ServedLoad:
    names = [*pages.running, pages.generated, *filter(None, [pages.rate])]
    series = parse_metrics(address, text, names)
    running = next(filter(None, (_by_engine(series, name) for name in pages.running)), [])
    generated = fsum(_by_engine(series, pages.generated))
    rate = fsum(_by_engine(series, pages.rate)) or None
    return ServedLoad(fsum(running) if running else None, len(running), generated, rate)


def _by_engine(series: Series, name: str) -> list[float]:
    """Values of a metric, one for each engine or data-parallel rank."""
    engines: dict[frozenset[tuple[str, str]], float] = {}
    for (metric, labels), value in series.items():
        if metric == name:
            engine = frozenset(label for label in labels if label[0] not in _RANKS)
            engines[engine] = max(value, engines.get(engine, 0.0))
    return list(engines.values())


def _model(settings: Mapping[str, Any]) -> str | None:
    """The checkpoint that SGLang's arguments or vLLM's list of models names."""
    listed = settings.get("data")
    names = listed[0] if isinstance(listed, list) and listed else settings
    if not isinstance(names, Mapping):
        return None
    model = names.get("model_path") or names.get("root") or names.get("id")
    return model if isinstance(model, str) else None
