"""The service grpc.health.v1: whether the proxy serves. Unsigned calls are answered as well.

The proxy serves while it can ask at least one broker, until it begins to stop. Two names are known: the empty one for
the whole proxy, and the service of RocketMQ's clients. Both always have the same status.

Source: GRPC Health Checking Protocol.
"""

import asyncio
from collections.abc import Callable

from regulus.errors import GrpcRefused
from regulus.proxy import small_requests
from regulus.transport.http2.grpc_call import GrpcCall, ManyAnswers, Method, OneAnswer
from regulus.wire.grpc import definitions
from regulus.wire.grpc.health_messages import Health as HealthService
from regulus.wire.grpc.health_messages import HealthCheckRequest, HealthCheckResponse, HealthListResponse
from regulus.wire.http2.grpc_messages import GrpcStatus, Message

WATCHES_MAX = 1_000
"""Watches that may be open, each a stream that lasts as long as its client likes. The next one is refused."""
_NAMES = ("", definitions.SERVICE)
_SERVING, _NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
_SERVICE_UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


class Health:
    """Serves health checks. `is_ready` returns whether a broker can be asked; `methods` has the methods by path."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self._has_stopped = False
        self._watches = 0
        self._change: asyncio.Future[None] | None = None    # set while a client watches
        self._known = _NOT_SERVING
        self.methods: dict[str, Method] = {
            HealthService.Check.path: OneAnswer(self._check), HealthService.List.path: OneAnswer(self._list_all),
            HealthService.Watch.path: ManyAnswers(self._watch)}

    def look(self) -> None:
        """Notify the watching clients if the status has changed. To be called again and again."""
        status = self._status()
        if status != self._known:
            self._known = status
            self._wake()

    def stop(self) -> None:
        """Send NOT_SERVING to all watching clients and end their streams, because the server stops."""
        self._has_stopped = True
        self._known = _NOT_SERVING
        self._wake()

    def _status(self) -> int:
        return _NOT_SERVING if self._has_stopped or not self._is_ready() else _SERVING

    async def _check(self, message: Message, call: GrpcCall) -> bytes:
        request = await small_requests.read(HealthCheckRequest, message, call)
        if request.service not in _NAMES:
            raise GrpcRefused(GrpcStatus.NOT_FOUND, "this server has no such service")
        return _told(self._status())

    async def _list_all(self, message: Message, call: GrpcCall) -> bytes:
        status = self._status()
        statuses = {name: HealthCheckResponse(status=status) for name in _NAMES}
        return HealthListResponse(statuses=statuses).SerializeToString()

    async def _watch(self, message: Message, call: GrpcCall) -> None:
        """Send the status and each change of it. For an unknown name it sends SERVICE_UNKNOWN and stays open, as the
        protocol asks: the service may exist later."""
        request = await small_requests.read(HealthCheckRequest, message, call)
        if self._watches >= WATCHES_MAX:
            raise GrpcRefused(GrpcStatus.RESOURCE_EXHAUSTED, f"{WATCHES_MAX} watches are under way")
        self._watches += 1
        try:
            self.look()
            await self._tell_changes(call, is_known=request.service in _NAMES)
        finally:
            self._watches -= 1

    async def _tell_changes(self, call: GrpcCall, *, is_known: bool) -> None:
        told = 0
        while True:
            status = self._known if is_known else _SERVICE_UNKNOWN
            if status != told:
                told = status
                await call.send(_told(status))
            if self._has_stopped:
                return
            if status in (_SERVICE_UNKNOWN, self._known):
                await self._changed()

    async def _changed(self) -> None:
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._change)      # shielded, as others wait for the same future

    def _wake(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.set_result(None)


def _told(status: int) -> bytes:
    return HealthCheckResponse(status=status).SerializeToString()
