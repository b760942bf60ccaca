"""A server of RocketMQ 5 whose answers a test writes, on a free port, in the test's own event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from regulus.wire.grpc import definitions, messages
from regulus.wire.grpc.codes import Code


class Script:
    """A server whose answers to sends are given; it notes all that it is told."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.sends: list[float] = []
        self.told: list[Any] = []
        self.ended_groups: list[str] = []
        self.routes = 0
        self.endpoints: list[tuple[str, int]] = []      # besides its own, as routes name them
        self.popped: list[Any] = []                     # parts of the answer to the next receives; then it holds them
        self.receives = 0
        self.time_left_s = 0.0
        self.break_off = False                          # ... and breaks the stream
        self.goes_on = False                            # ... or has more to come
        self.sent_parts = asyncio.Event()
        self.changed: list[Any] = []
        self.backoff: Any = None
        self.port = 0
        self.to_ask: asyncio.Queue[Any] = asyncio.Queue()
        self.hangs_up = asyncio.Event()

    def route(self, request: Any) -> Any:
        self.routes += 1
        answer = messages.QueryRouteResponse()
        answer.status.code = int(Code.OK)
        queue = answer.message_queues.add(permission=4)
        queue.topic.name, queue.broker.name = request.topic.name, "a"
        queue.broker.endpoints.scheme = 1
        queue.broker.endpoints.addresses.add(host="127.0.0.1", port=self.port)
        for number, (host, port) in enumerate(self.endpoints):
            queue = answer.message_queues.add(permission=4, id=number + 1)
            queue.topic.name, queue.broker.name = request.topic.name, f"b{number}"
            queue.broker.endpoints.scheme = 1
            queue.broker.endpoints.addresses.add(host=host, port=port)
        return answer

    def send(self, request: Any) -> Any:
        self.sends.append(time.monotonic())
        code = self.codes.pop(0) if self.codes else int(Code.OK)
        answer = messages.SendMessageResponse()
        answer.status.code, answer.status.message = code, "as the script says"
        if code == Code.OK:
            entry = answer.entries.add(message_id=request.messages[0].system_properties.message_id, offset=1)
            entry.status.code = code
        return answer

    def ended(self, request: Any) -> Any:
        self.ended_groups.append(request.group.name)
        answer = messages.NotifyClientTerminationResponse()
        answer.status.code = int(Code.OK)
        return answer

    async def receive(self, request: Any, context: Any) -> AsyncIterator[Any]:
        self.receives += 1
        self.time_left_s = context.time_remaining()
        for part in self.popped:
            yield part
        if self.break_off:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "as the script says")
        self.sent_parts.set()
        if not self.popped or self.goes_on:
            await asyncio.Event().wait()

    def change(self, request: Any) -> Any:
        self.changed.append(request)
        answer = messages.ChangeInvisibleDurationResponse(receipt_handle="changed")
        answer.status.code = int(Code.OK)
        return answer

    async def telemetry(self, requests: Any, context: Any) -> None:
        async def ask() -> None:
            while True:
                await context.write(await self.to_ask.get())
        async def hang_up() -> None:
            await self.hangs_up.wait()
            self.hangs_up.clear()
            listening.cancel()

        asking, hanging = asyncio.ensure_future(ask()), asyncio.ensure_future(hang_up())
        listening = asyncio.ensure_future(self._listen(requests, context))
        try:
            await asyncio.wait([listening])
        finally:
            for task in (asking, hanging, listening):
                task.cancel()

    async def _listen(self, requests: Any, context: Any) -> None:
        async for command in requests:
            self.told.append(command)
            if command.WhichOneof("command") == "settings":
                answer = messages.TelemetryCommand(settings=command.settings)
                answer.settings.backoff_policy.max_attempts = 5
                if self.backoff is not None:
                    answer.settings.backoff_policy.CopyFrom(self.backoff)
                await context.write(answer)


@asynccontextmanager
async def served(script: Script, port: int = 0) -> AsyncIterator[str]:
    """At that port, or a free one."""
    server = grpc.aio.server()
    rpcs = messages.MessagingService

    def unary(name: str, answer: Callable[[Any], Any]) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            return answer(request)
        rpc = getattr(rpcs, name)
        return grpc.unary_unary_rpc_method_handler(handle, rpc.request.FromString, rpc.response.SerializeToString)

    handlers = {"QueryRoute": unary("QueryRoute", script.route), "SendMessage": unary("SendMessage", script.send),
                "NotifyClientTermination": unary("NotifyClientTermination", script.ended),
                "ChangeInvisibleDuration": unary("ChangeInvisibleDuration", script.change),
                "ReceiveMessage": grpc.unary_stream_rpc_method_handler(
                    script.receive, rpcs.ReceiveMessage.request.FromString,
                    rpcs.ReceiveMessage.response.SerializeToString),
                "Telemetry": grpc.stream_stream_rpc_method_handler(
                    script.telemetry, rpcs.Telemetry.request.FromString, rpcs.Telemetry.response.SerializeToString)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(definitions.SERVICE, handlers),))
    script.port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"grpc://127.0.0.1:{script.port}"
    finally:
        await server.stop(None)
