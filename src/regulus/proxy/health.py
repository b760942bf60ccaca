"""grpc.health.v1: whether the front serves, for whoever asks, signed or not.

A front serves while a broker can be asked behind it, and does not any more from the moment it stops. Its clients' calls
are one service beside the front as a whole, which is called by no name; both are as the other is.

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
"""Under way; each is a stream that lasts as long as its client likes."""
_NAMES = ("", definitions.SERVICE)
_SERVING, _NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
_SERVICE_UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


class Health:
    """`is_ready`: whether there is a broker that can be asked. `methods` by their paths."""

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self._is_ready = is_ready
        self._has_stopped = False
        self._watches = 0
        self._change: asyncio.Future[None] | None = None    # while somebody watches
        self._known = _NOT_SERVING
        self.methods: dict[str, Method] = {
            HealthService.Check.path: OneAnswer(self._check), HealthService.List.path: OneAnswer(self._list_all),
            HealthService.Watch.path: ManyAnswers(self._watch)}

    def look(self) -> None:
        """Tell those who watch what has changed: now and then."""
        status = self._status()
        if status != self._known:
            self._known = status
            self._wake()

    def stop(self) -> None:
        """The server stops: all watches hear so and end."""
        self._has_stopped = True
        self._known = _NOT_SERVING
        self._wake()

    def _status(self) -> int:
        return _NOT_SERVING if self._has_stopped or not self._is_ready() else _SERVING

    async def _check(self, message: Message, call: GrpcCall) -> bytes:
        request = await small_requests.read(HealthCheckRequest, message, call)
        if request.service not in _NAMES:
            raise GrpcRefused(GrpcStatus.NOT_FOUND, "no such service is here")
        return _told(self._status())

    async def _list_all(self, message: Message, call: GrpcCall) -> bytes:
        status = self._status()
        statuses = {name: HealthCheckResponse(status=status) for name in _NAMES}
        return HealthListResponse(statuses=statuses).SerializeToString()

    async def _watch(self, message: Message, call: GrpcCall) -> None:
        """Of a name that is none it says so, and lasts: it may be one some day, as far as its client knows."""
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
        await asyncio.shield(self._change)      # one who goes away does not take it from the others

    def _wake(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            change.set_result(None)


def _told(status: int) -> bytes:
    return HealthCheckResponse(status=status).SerializeToString()
