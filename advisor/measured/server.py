"""What a running vLLM or SGLang server says of itself over HTTP: its metrics page and its settings.

GET alone, http or https alone, at most a few MiB and seconds a page, and no redirect to another
host, so that a header with a key goes nowhere else. Pages and names were read in vllm-project/vllm
(vllm/v1/metrics/loggers.py, vllm/engine/metrics.py of 0.8) and sgl-project/sglang
(python/sglang/srt/observability/metrics_collector.py, srt/metrics/collector.py,
srt/entrypoints/http_server.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, HTTPResponse
from math import fsum
from typing import IO, Any
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
from advisor.prediction import AdvisorError
from advisor.text import printable, read_json

TIMEOUT_S = 10.0
"""How long a page may take in all, and the server to answer. [s]"""
_HEADER = re.compile(r"([A-Za-z0-9-]{1,64}):[ \t]*([\x21-\x7e][\x20-\x7e]{0,4095})")
_MODEL = re.compile(r'[{,](?:model_name|name)="((?:[^"\\]|\\.)*)"')
_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of ranks that work on the same requests, each of which may report all of them."""


@dataclass(frozen=True)
class EnginePages:
    """Names of an engine's metrics and pages, those of the newest release first."""

    running: tuple[str, ...]
    """Gauge of the requests that decode."""
    generated: str
    """Counter of output tokens, `_total` left out."""
    rate: str | None
    """Gauge of output tokens per second; None where the counter moves with every step."""
    settings: tuple[str, ...]
    """JSON of the server's arguments."""
    version: str
    """JSON whose `version` is the release."""
    speculation: tuple[str, ...]
    """Beginnings of the metrics of speculation."""


PAGES: Mapping[str, EnginePages] = {
    "vllm": EnginePages(
        running=("vllm:num_requests_running",),
        generated="vllm:generation_tokens",
        rate=None,
        settings=("/v1/models",),
        version="/version",
        speculation=("vllm:spec_decode_num_",),
    ),
    "sglang": EnginePages(
        # num_requests_running before 0.4.
        running=("sglang:num_running_reqs", "sglang:num_requests_running"),
        generated="sglang:generation_tokens",
        # Its counter moves when a request ends.
        rate="sglang:gen_throughput",
        # get_server_info before 0.5.11.
        settings=("/server_info", "/get_server_info"),
        version="/server_info",
        speculation=("sglang:spec_",),
    ),
}


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
    running: float
    """Requests that decode, mean of the scrapes, over all engines of the page. [-]"""
    engines: int
    """Engines, or data-parallel ranks, of the page. [-]"""
    tok_per_s: float | None
    """Output tokens of all requests; None where one scrape does not tell. [tokens/s]"""
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
        deadline_s = time.monotonic() + TIMEOUT_S
        opener = build_opener(ProxyHandler({}), _SameHost())
        try:
            with opener.open(
                Request(address, headers=dict(self.headers)), timeout=TIMEOUT_S
            ) as answer:
                return _body(address, answer, deadline_s)
        except HTTPError as error:
            raise AdvisorError(_refusal(address, error.code)) from error
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", None) or error
            raise AdvisorError(
                f"{address} cannot be read ({printable(str(cause), 120) or type(cause).__name__}); "
                "is the server up, and is this its address?"
            ) from error

    def json(self, path: str) -> Mapping[str, Any]:
        """A page's JSON object. Empty where the server has no such page."""
        try:
            document = read_json(self.page(path).decode("utf-8", errors="replace"))
        except (AdvisorError, ValueError):
            return {}
        return document if isinstance(document, Mapping) else {}


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


def _body(address: str, answer: HTTPResponse, deadline_s: float) -> bytes:
    pieces: list[bytes] = []
    size_bytes = 0
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
        size_bytes += len(piece)
        if size_bytes > MAX_METRICS_BYTES:
            raise AdvisorError(
                f"{address} is larger than {MAX_METRICS_BYTES >> 20} MiB, which no metrics page is"
            )
        if time.monotonic() > deadline_s:
            raise AdvisorError(f"{address} took longer than {TIMEOUT_S:g} s; ask again")
    stated = answer.headers.get("Content-Length", "")
    if stated.isdigit() and int(stated) != size_bytes:
        raise AdvisorError(
            f"{address} broke off after {size_bytes:,} of {int(stated):,} bytes; ask again"
        )
    return b"".join(pieces)


def _refusal(address: str, status: int) -> str:
    if status in (401, 403):
        return (
            f"{address} asks for a key (HTTP {status}); give it with --header 'Authorization: "
            "Bearer KEY', or in MOE_ADVISOR_HEADER"
        )
    if status == 404:
        return (
            f"{address} is not there (HTTP 404); give the server's own address, and start SGLang "
            "with --enable-metrics"
        )
    return f"{address} answers HTTP {status}; is this the address of the server itself?"


def server_at(url: str, header: str | None = None) -> Server:
    """A server by its address, with a header to send along. Raises AdvisorError for another form.

    url : http://host:port, with or without /metrics.
    header : `Name: value`; never shown.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not re.fullmatch(r"[\x21-\x7e]+", url):
        raise AdvisorError(
            f"{printable(url, 80)!r} is no address of a server; give http://HOST:PORT, such as "
            "http://localhost:8000"
        )
    if parts.username is not None or parts.query or parts.fragment:
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
    models, or a round of another K.
    """
    address = f"{server.url}/metrics"
    first = _metrics(server, served)
    engine = _engine_of(address, first)
    pages = PAGES[engine]
    started_s = time.monotonic()
    last = first
    elapsed_s = None
    if seconds is not None:
        wait(seconds)
        last = _metrics(server, served)
        elapsed_s = time.monotonic() - started_s
    settings = _settings(server, pages)
    if "speculative_algorithm" in settings and not settings["speculative_algorithm"]:
        raise AdvisorError(_no_speculation(address))
    stated_k = _steps(settings) if k is None else k
    earlier = None if seconds is None else (f"{address} {seconds:g} s before", first.encode())
    rates = read_acceptance_file(address, last.encode(), earlier, k=stated_k)
    counted_k = len(rates.conditional)
    if k is not None and k > counted_k:
        raise AdvisorError(
            f"--k {k}, but {address} counts {counted_k} draft positions; leave --k out"
        )
    loads = [_load(address, text, pages) for text in (first, last)]
    generated = loads[1].generated - loads[0].generated
    rate = None if elapsed_s is None else generated / elapsed_s
    return ServerReading(
        url=server.url,
        engine=engine,
        version=_version(server, pages, settings),
        model=_model(settings) or next(iter(_models_of(last)), None),
        settings=settings,
        rates=rates,
        k=counted_k if k is None else k,
        running=fsum(load.running for load in loads) / 2.0,
        engines=loads[1].engines,
        tok_per_s=(loads[1].rate if pages.rate else rate) or None,
        seconds=seconds,
    )


@dataclass(frozen=True)
class _Load:
    running: float
    engines: int
    generated: float
    rate: float


def _metrics(server: Server, served: str | None) -> str:
    """The metrics page, of one model where it is named. Raises AdvisorError where it is cut off."""
    address = f"{server.url}/metrics"
    text = server.page("/metrics").decode("utf-8", errors="replace").replace("\r\n", "\n")
    if not text.endswith("\n"):
        raise AdvisorError(
            f"{address} {'is empty' if not text else 'ends in the middle of a line'}; ask again"
        )
    models = _models_of(text)
    if served is not None and served not in models:
        raise AdvisorError(
            f"{address} counts no model {printable(served, 60)!r}; it counts "
            f"{', '.join(printable(name, 60) for name in models) or 'none by name'}"
        )
    if served is None and len(models) > 1:
        names = ", ".join(printable(name, 60) for name in models[:6])
        raise AdvisorError(
            f"{address} counts {len(models)} models ({names}); say which with --served-model"
        )
    if served is None:
        return text
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if _model_in(line) in (None, served))


def _model_in(line: str) -> str | None:
    match = _MODEL.search(line) if line.startswith(("vllm:", "sglang:")) else None
    return None if match is None else match[1]


def _models_of(text: str) -> tuple[str, ...]:
    models = map(_model_in, text.split("\n"))
    return tuple(dict.fromkeys(model for model in models if model))


def _engine_of(address: str, text: str) -> str:
    engine = next((name for name in PAGES if re.search(rf"^{name}:", text, re.MULTILINE)), None)
    if engine is None:
        raise AdvisorError(
            f"{address} is no metrics page of vLLM or SGLang; give the address of the server itself"
        )
    beginnings = PAGES[engine].speculation
    if not re.search(rf"^(?:{'|'.join(beginnings)})", text, re.MULTILINE):
        raise AdvisorError(_no_speculation(address))
    return engine


def _no_speculation(address: str) -> str:
    return (
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


def _load(address: str, text: str, pages: EnginePages) -> _Load:
    """Requests and tokens of a page, over its engines."""
    names = [*pages.running, pages.generated, *([pages.rate] if pages.rate else [])]
    series = parse_metrics(address, text, names)
    by_name = {name: _by_engine(series, name) for name in names}
    running = next((by_name[name] for name in pages.running if by_name[name]), [])
    return _Load(
        running=fsum(running),
        engines=len(running),
        generated=fsum(by_name[pages.generated]),
        rate=fsum(by_name[pages.rate]) if pages.rate else 0.0,
    )


def _by_engine(series: Series, name: str) -> list[float]:
    """Values of a metric, one for each engine or data-parallel rank."""
    engines: dict[frozenset[tuple[str, str]], float] = {}
    for (metric, labels), value in series.items():
        if metric == name:
            engine = frozenset(label for label in labels if label[0] not in _RANKS)
            engines[engine] = max(value, engines.get(engine, 0.0))
    return list(engines.values())


def _settings(server: Server, pages: EnginePages) -> Mapping[str, Any]:
    documents = map(server.json, pages.settings)
    return next((document for document in documents if document), {})


def _model(settings: Mapping[str, Any]) -> str | None:
    """The checkpoint that SGLang's arguments or vLLM's list of models names."""
    listed = settings.get("data")
    first = listed[0] if isinstance(listed, list) and listed else settings
    names = first if isinstance(first, Mapping) else {}
    model = names.get("model_path") or names.get("root") or names.get("id")
    return model if isinstance(model, str) else None


def _version(server: Server, pages: EnginePages, settings: Mapping[str, Any]) -> str | None:
    version = settings.get("version") or server.json(pages.version).get("version")
    return version if isinstance(version, str) else None
