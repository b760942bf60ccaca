"""The page of metrics of a process, and its probes: `/metrics`, `/healthz`, `/readyz`.

A page is made in steps, with turns of the event loop between them, and one page at a time.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from socket import socket
from time import perf_counter

from regulus.model.metrics_config import MetricsConfig
from regulus.server.ports import Bind
from regulus.server.watchdog import Watchdog
from regulus.transport.http_page import JSON, HttpPages, PageAnswer, PageRequest
from regulus.wire.metrics_text import OPENMETRICS_TYPE, TEXT_TYPE, MetricsPage

_log = logging.getLogger(__name__)

STEP_S = 0.002
"""Longest time that a page takes before others have a turn."""

Fill = Callable[[MetricsPage], Iterator[None]]
"""Adds families to a page, a step at a time."""
Reasons = Callable[[], Sequence[str]]
"""Why a server does not serve; empty when it does."""


def bind_page(bind: Bind, config: MetricsConfig, address: str) -> socket:
    """Take the port of the page, at the configured host or else at this address. Raises OSError."""
    try:
        return bind(config.metrics_prom_exporter_host or address, config.metrics_prom_exporter_port)
    except OSError as error:
        raise OSError(error.errno, "the page of metrics (metricsPromExporterHost, metricsPromExporterPort): "
                                   f"{error.strerror}") from error


class MetricsPageServer:
    """`sources` fill the page and `reasons` say whether each server of the process serves; both may grow before the
    page is asked for."""

    def __init__(self, config: MetricsConfig, bound: socket, watchdog: Watchdog) -> None:
        self.sources: list[Fill] = []
        self.reasons: list[Reasons] = []
        self._config = config
        self._watchdog = watchdog
        self._turn = asyncio.Lock()
        self._host: str = bound.getsockname()[0]
        self._pages = HttpPages(bound, self._answer, config.metrics_connections_max,
                                config.metrics_request_timeout_millis / 1000)

    @property
    def port(self) -> int:
        return self._pages.port

    async def start(self) -> None:
        """Raises OSError."""
        await self._pages.accept()
        host = f"[{self._host}]" if ":" in self._host else self._host
        _log.info("metrics and probes are at http://%s:%d/metrics, /healthz and /readyz", host, self.port)

    async def stop(self) -> None:
        await self._pages.stop()

    async def _answer(self, request: PageRequest) -> PageAnswer:
        match request.path:
            case "/metrics":
                return await self._metrics(request)
            case "/healthz":
                return PageAnswer([b"ok\n"])
            case "/readyz":
                return self._ready()
            case _:
                return PageAnswer([b"/metrics, /healthz and /readyz are here\n"], status=HTTPStatus.NOT_FOUND)

    def _ready(self) -> PageAnswer:
        reasons = [reason for each in self.reasons for reason in each()]
        text = json.dumps({"ready": not reasons, "reasons": reasons}) + "\n"
        return PageAnswer([text.encode()], JSON, HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK)

    async def _metrics(self, request: PageRequest) -> PageAnswer:
        is_openmetrics = "application/openmetrics-text" in request.accept
        page = MetricsPage(self._config.metrics_otel_cardinality_limit, request.query.get("name[]", ()))
        async with self._turn:
            for source in list(self.sources):
                await self._in_turns(source(page))
            parts: list[bytes] = []
            await self._in_turns(_written(page, is_openmetrics, parts))
        return PageAnswer(parts, OPENMETRICS_TYPE if is_openmetrics else TEXT_TYPE)

    async def _in_turns(self, steps: Iterator[None]) -> None:
        began = perf_counter()
        for _ in steps:
            took = perf_counter() - began
            if took > STEP_S:
                self._watchdog.note("page of metrics", took)
                await asyncio.sleep(0)
                began = perf_counter()


def _written(page: MetricsPage, is_openmetrics: bool, parts: list[bytes]) -> Iterator[None]:
    """Write the page into `parts`, one in each step."""
    for part in page.parts(is_openmetrics=is_openmetrics):
        parts.append(part)
        yield
