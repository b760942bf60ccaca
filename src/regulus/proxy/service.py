"""The methods as gRPC calls them: bytes in, bytes out, limits kept, every refusal a status of the response.

All that is said in a business sense is said in a response; gRPC's own status is for what is no call of ours, and for
the end of a telemetry stream.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from google.protobuf.message import DecodeError

from regulus.access.decision import Rules
from regulus.errors import CallRefused, GrpcRefused, HeaderError, MessageIllegal
from regulus.proxy.access import CallAccess
from regulus.proxy.caller import Caller, ClientKey, caller_of, check_client_id
from regulus.proxy.calls import Calls
from regulus.proxy.clients import Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receive_call import ReceiveCall
from regulus.proxy.request_sizes import check_size, unpacked_size_max
from regulus.proxy.status import status
from regulus.proxy.telemetry import Telemetry
from regulus.proxy.telemetry_streams import TelemetryStreams
from regulus.transport.http2.grpc_call import Conversation, GrpcCall, ManyAnswers, Method, OneAnswer
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.http2.grpc_messages import Message, Packed

_log = logging.getLogger(__name__)

UNARY = {
    "QueryRoute": "query_route", "Heartbeat": "heartbeat", "SendMessage": "send_message",
    "QueryAssignment": "query_assignment", "AckMessage": "ack_message",
    "ForwardMessageToDeadLetterQueue": "forward_to_dead_letters", "EndTransaction": "end_transaction",
    "NotifyClientTermination": "notify_client_termination", "ChangeInvisibleDuration": "change_invisible_duration",
    "RecallMessage": "recall_message", "SyncLiteSubscription": "sync_lite_subscription"}
"""Methods with one answer. PullMessage and those of offsets stay UNIMPLEMENTED in gRPC's sense, as in RocketMQ's proxy:
no client calls them."""

Call = Callable[[Any, Caller], Awaitable[Any]]


CHECKED_A_STEP = 128
"""Receives that wait and are decided anew in one step; each costs a signature."""


class _Receiving:
    """A receive under way, which ends with `refusal` where there is one."""

    def __init__(self, request: Any, caller: Caller, task: "asyncio.Task[Any] | None",
                 rules: Rules | None = None) -> None:
        self.request = request
        self.caller = caller
        self.rules = rules      # that let it in
        self.refusal: CallRefused | None = None
        self._task = task

    def refuse(self, refusal: CallRefused) -> None:
        if self.refusal is None and self._task is not None:
            self.refusal = refusal
            self._task.cancel()

    def is_refused(self) -> bool:
        """Of a cancellation that came: whether it was that of `refuse`, and nobody else's besides."""
        return self._task is None or self._task.uncancel() <= 0


class Service:
    """`methods` has them by their paths; `let_go` forgets a client, and what it has in hand."""

    def __init__(self, calls: Calls, receive: ReceiveCall, telemetry: Telemetry, clients: Clients,
                 access: CallAccess | None, config: ProxyConfig, now_ms: Callable[[], int],
                 let_go: Callable[[ClientKey], None]) -> None:
        self._calls = calls
        self._receive = receive
        self._clients = clients
        self._access = access
        self._config = config
        self._now_ms = now_ms
        self._streams = TelemetryStreams(telemetry, clients, config, self._checked, let_go)
        self._under_way = 0
        self._receiving: dict[_Receiving, None] = {}
        self.methods = self._make_methods()

    def end_streams(self) -> None:
        """Let all telemetry streams end: the server stops."""
        self._streams.end()

    def _make_methods(self) -> dict[str, Method]:
        types = messages.method_types()
        methods: dict[str, Method] = {f"/{messages.SERVICE}/{name}": OneAnswer(self._unary(name, *types[name]))
                                      for name in UNARY}
        methods[f"/{messages.SERVICE}/ReceiveMessage"] = ManyAnswers(self._receive_message)
        methods[f"/{messages.SERVICE}/Telemetry"] = Conversation(self._telemetry_stream)
        return methods

    # --- calls with one answer ---------------------------------------------------------------------------------------

    def _unary(self, method: str, request_type: Any,
               response_type: Any) -> Callable[[Message, GrpcCall], Awaitable[bytes]]:
        call: Call = getattr(self._calls, UNARY[method])

        async def answer(packed: Message, grpc_call: GrpcCall) -> bytes:
            request = None
            self._under_way += 1
            try:
                self._check_room()
                caller = self._caller(grpc_call)
                data = await self._unpacked(method, packed, caller, grpc_call)
                request = request_type.FromString(data)
                response = await call(request, self._checked(method, request, caller))
            except (CallRefused, DecodeError, HeaderError, MessageIllegal) as error:
                response = response_type(status=_status_of(error))
            except GrpcRefused:
                raise
            except Exception:       # one broken call must not end others
                _log.exception("%s failed", method)
                response = response_type(status=status(Code.INTERNAL_SERVER_ERROR, "the server failed; see its log"))
            finally:
                self._under_way -= 1
            if method == "ChangeInvisibleDuration" and request is not None and not response.receipt_handle:
                response.receipt_handle = request.receipt_handle    # clients take it over even from a refusal
            return bytes(response.SerializeToString())
        return answer

    async def _unpacked(self, method: str, packed: Message, caller: Caller, grpc_call: GrpcCall) -> bytes:
        """The request as it may be parsed. What is compressed is looked at for nobody who has not signed. Raises
        CallRefused, DecodeError, GrpcRefused."""
        if isinstance(packed, Packed) and self._access is not None:
            self._access.check_signature(method, caller)
        data = await grpc_call.unpacked(packed, unpacked_size_max(method, self._config.max_message_size))
        check_size(method, data)
        return data

    def _check_room(self) -> None:
        """Raises CallRefused when as much is under way as may be."""
        if self._under_way > self._config.calls_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.calls_max} calls are under way (callsMax)")

    def _caller(self, grpc_call: GrpcCall) -> Caller:
        left_s = grpc_call.time_left_s()
        deadline = None if left_s is None else self._now_ms() + int(left_s * 1000)
        return caller_of(grpc_call.metadata, grpc_call.peer, grpc_call.authority, deadline, grpc_call.origin)

    def _checked(self, method: str, request: Any, caller: Caller) -> Caller:
        """The caller, with the user who signed. Raises CallRefused."""
        if self._access is not None:
            caller = replace(caller, user=self._access.check(method, request, caller))
        check_client_id(caller)
        return caller

    # --- streams -----------------------------------------------------------------------------------------------------

    async def _receive_message(self, packed: Message, grpc_call: GrpcCall) -> None:
        try:
            caller = self._caller(grpc_call)
            data = await self._unpacked("ReceiveMessage", packed, caller, grpc_call)
            request = messages.ReceiveMessageRequest.FromString(data)
            caller = self._checked("ReceiveMessage", request, caller)
            self._check_room_to_receive()
            await self._serve_receive(request, caller, grpc_call)
        except CallRefused as error:
            await grpc_call.send((await self._receive.refusal(error)).SerializeToString())
        except (DecodeError, HeaderError) as error:
            await grpc_call.send(messages.ReceiveMessageResponse(status=_status_of(error)).SerializeToString())
        except GrpcRefused:
            raise
        except Exception:
            _log.exception("ReceiveMessage failed")
            refusal = status(Code.INTERNAL_SERVER_ERROR, "the server failed; see its log")
            await grpc_call.send(messages.ReceiveMessageResponse(status=refusal).SerializeToString())

    async def _serve_receive(self, request: Any, caller: Caller, grpc_call: GrpcCall) -> None:
        rules = None if self._access is None else self._access.rules
        receiving = _Receiving(request, caller, asyncio.current_task(), rules)
        self._receiving[receiving] = None
        try:
            async with aclosing(self._receive.receive(request, caller)) as elements:
                async for element in elements:
                    self._check_anew(receiving)     # the next look at all may be a second away
                    await grpc_call.send(element.SerializeToString())
        except asyncio.CancelledError:
            if receiving.refusal is None or not receiving.is_refused():
                raise
            raise receiving.refusal from None
        finally:
            del self._receiving[receiving]

    async def decide_anew(self) -> None:
        """Accounts, users or policies have changed: who may no longer receive waits for nothing more, and
        the telemetry streams of who may no longer have one end."""
        for number, receiving in enumerate(list(self._receiving), 1):
            try:
                if receiving in self._receiving:    # it may have ended while others had a turn
                    self._check_anew(receiving)
            except CallRefused as error:
                receiving.refuse(error)
            if number % CHECKED_A_STEP == 0:
                await asyncio.sleep(0)
        await self._streams.decide_anew()

    def _check_anew(self, receiving: _Receiving) -> None:
        """By the rules of now, where they are others than those that let it in. Raises CallRefused."""
        if self._access is not None and self._access.rules is not receiving.rules:
            self._access.check("ReceiveMessage", receiving.request, receiving.caller)
            receiving.rules = self._access.rules

    def _check_room_to_receive(self) -> None:
        """A poll stays at its broker though its client has gone away, and would open another one each time. Raises
        CallRefused."""
        if len(self._receiving) + self._receive.left_behind >= self._config.receive_streams_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.receive_streams_max} receives are under way "
                                                      "(receiveStreamsMax)")

    async def _telemetry_stream(self, grpc_call: GrpcCall) -> None:
        grpc_call.begin_answer()        # some clients wait for it before they say anything
        await self._streams.serve(grpc_call, self._caller(grpc_call))


def _status_of(error: Exception) -> Any:
    if isinstance(error, CallRefused):
        return status(error.code, str(error))
    if isinstance(error, DecodeError):
        return status(Code.BAD_REQUEST, "the request is no message of its kind")
    return status(Code.INTERNAL_SERVER_ERROR, str(error))
