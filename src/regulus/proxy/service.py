"""Serves the methods of MessagingService over gRPC: parses requests, keeps limits, and answers every refusal.

A refusal is a status inside the response, and gRPC's own status is OK. Another gRPC status is only for telemetry
streams, and for calls whose request cannot be read at all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as ProtobufMessage

from regulus.access.decision import Rules
from regulus.errors import CallRefused, GrpcRefused, HeaderError, MessageIllegal
from regulus.proxy.access import CallAccess, ClientRequest
from regulus.proxy.caller import Caller, ClientKey, caller_of, check_client_id
from regulus.proxy.calls import UnaryCalls
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
from regulus.wire.grpc.definitions import Rpc
from regulus.wire.http2.grpc_messages import Message, Packed

_log = logging.getLogger(__name__)


class _Answer(Protocol):
    """Any response: each has a status, and can be a refusal."""

    def __init__(self, *, status: messages.Status) -> None: ...

    def SerializeToString(self) -> bytes: ...


_Parsed = TypeVar("_Parsed", bound=ProtobufMessage)
_Request = TypeVar("_Request", bound=ClientRequest)
_Response = TypeVar("_Response", bound=_Answer)

CHECKED_A_STEP = 128
"""Waiting receives whose access is checked again in one step. Each costs the check of a signature."""


class _Receiving:
    """A receive under way. If `refusal` is set, it ends with that."""

    def __init__(self, request: messages.ReceiveMessageRequest, caller: Caller, task: "asyncio.Task[Any] | None",
                 rules: Rules | None = None) -> None:
        self.request = request
        self.caller = caller
        self.rules = rules      # the rules that let it in
        self.refusal: CallRefused | None = None
        self._task = task

    def refuse(self, refusal: CallRefused) -> None:
        """End the receive with this refusal, by cancelling its task."""
        if self.refusal is None and self._task is not None:
            self.refusal = refusal
            self._task.cancel()

    def is_refused(self) -> bool:
        """Whether `refuse` alone cancelled the task; false if something else cancelled it as well."""
        return self._task is None or self._task.uncancel() <= 0


class Service:
    """The service; `methods` has its methods by path. `let_go` forgets a client and releases the messages it holds."""

    def __init__(self, calls: UnaryCalls, receive: ReceiveCall, telemetry: Telemetry, clients: Clients,
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

    @property
    def under_way(self) -> tuple[int, int, int]:
        """Calls, receives and telemetry streams."""
        return self._under_way, len(self._receiving), len(self._streams)

    def end_streams(self) -> None:
        """End all telemetry streams, because the server stops."""
        self._streams.end()

    def _make_methods(self) -> dict[str, Method]:
        """All methods by path. PullMessage and the methods of offsets have gRPC's status UNIMPLEMENTED, as in
        RocketMQ's proxy: no client calls them."""
        calls, rpcs = self._calls, messages.MessagingService
        return dict((
            self._unary(rpcs.QueryRoute, calls.query_route),
            self._unary(rpcs.Heartbeat, calls.heartbeat),
            self._unary(rpcs.SendMessage, calls.send_message),
            self._unary(rpcs.QueryAssignment, calls.query_assignment),
            self._unary(rpcs.AckMessage, calls.ack_message),
            self._unary(rpcs.ForwardMessageToDeadLetterQueue, calls.forward_to_dead_letters),
            self._unary(rpcs.EndTransaction, calls.end_transaction),
            self._unary(rpcs.NotifyClientTermination, calls.notify_client_termination),
            self._unary(rpcs.ChangeInvisibleDuration, calls.change_invisible_duration, _keep_receipt),
            self._unary(rpcs.RecallMessage, calls.recall_message),
            self._unary(rpcs.SyncLiteSubscription, calls.sync_lite_subscription),
            (rpcs.ReceiveMessage.path, ManyAnswers(self._receive_message)),
            (rpcs.Telemetry.path, Conversation(self._telemetry_stream)),
        ))

    # --- calls with one answer ---------------------------------------------------------------------------------------

    def _unary(self, rpc: Rpc[_Request, _Response], call: Callable[[_Request, Caller], Awaitable[_Response]],
               complete: Callable[[_Request, _Response], None] | None = None) -> tuple[str, Method]:
        """The path of a method with one answer, and the function that serves it. `complete` sets fields that a refusal
        needs as well."""
        method, parse, response_type = rpc.name, _parser(rpc.request), rpc.response

        async def answer(packed: Message, grpc_call: GrpcCall) -> bytes:
            request = None
            self._under_way += 1
            try:
                self._check_room()
                caller = self._caller(grpc_call)
                data = await self._unpacked(method, packed, caller, grpc_call)
                request = parse(data)
                response = await call(request, self._checked(method, request, caller))
            except (CallRefused, DecodeError, HeaderError, MessageIllegal) as error:
                response = response_type(status=_status_of(error))
            except GrpcRefused:
                raise
            except Exception:       # a fault in one call must not end others
                _log.exception("%s failed", method)
                response = response_type(status=status(Code.INTERNAL_SERVER_ERROR, "the server failed; see its log"))
            finally:
                self._under_way -= 1
            if complete is not None and request is not None:
                complete(request, response)
            return response.SerializeToString()
        return rpc.path, OneAnswer(answer)

    async def _unpacked(self, method: str, packed: Message, caller: Caller, grpc_call: GrpcCall) -> bytes:
        """The request as it can be parsed, decompressed if need be. Where calls must be signed, a compressed request is
        decompressed only if its signature is valid. Raises CallRefused, DecodeError, GrpcRefused."""
        if isinstance(packed, Packed) and self._access is not None:
            self._access.check_signature(method, caller)
        data = await grpc_call.unpacked(packed, unpacked_size_max(method, self._config.max_message_size))
        check_size(method, data)
        return data

    def _check_room(self) -> None:
        """Raises CallRefused if too many calls are under way (callsMax)."""
        if self._under_way > self._config.calls_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.calls_max} calls are under way (callsMax)")

    def _caller(self, grpc_call: GrpcCall) -> Caller:
        left_s = grpc_call.time_left_s()
        deadline = None if left_s is None else self._now_ms() + int(left_s * 1000)
        return caller_of(grpc_call.metadata, grpc_call.peer, grpc_call.authority, deadline, grpc_call.origin)

    def _checked(self, method: str, request: ClientRequest, caller: Caller) -> Caller:
        """Check that the caller may make this call, and return it with the user who signed. Raises CallRefused."""
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

    async def _serve_receive(self, request: messages.ReceiveMessageRequest, caller: Caller,
                             grpc_call: GrpcCall) -> None:
        rules = None if self._access is None else self._access.rules
        receiving = _Receiving(request, caller, asyncio.current_task(), rules)
        self._receiving[receiving] = None
        try:
            async with aclosing(self._receive.receive(request, caller)) as elements:
                async for element in elements:
                    self._check_anew(receiving)     # the next check of all receives may be a second away
                    await grpc_call.send(element.SerializeToString())
        except asyncio.CancelledError:
            if receiving.refusal is None or not receiving.is_refused():
                raise
            raise receiving.refusal from None
        finally:
            del self._receiving[receiving]

    async def decide_anew(self) -> None:
        """Check waiting receives and telemetry streams again after accounts, users or policies have changed. Those that
        are no longer allowed end with a refusal."""
        for number, receiving in enumerate(list(self._receiving), 1):
            try:
                if receiving in self._receiving:    # it may have ended in a pause of this loop
                    self._check_anew(receiving)
            except CallRefused as error:
                receiving.refuse(error)
            if number % CHECKED_A_STEP == 0:
                await asyncio.sleep(0)
        await self._streams.decide_anew()

    def _check_anew(self, receiving: _Receiving) -> None:
        """Check a receive again if the rules are not those that let it in. Raises CallRefused."""
        if self._access is not None and self._access.rules is not receiving.rules:
            self._access.check("ReceiveMessage", receiving.request, receiving.caller)
            receiving.rules = self._access.rules

    def _check_room_to_receive(self) -> None:
        """Raises CallRefused if too many receives are under way (receiveStreamsMax).

        Polls of clients that went away count as well: they stay at their brokers for some time, and a client could
        open more and more of them."""
        if len(self._receiving) + self._receive.left_behind >= self._config.receive_streams_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.receive_streams_max} receives are under way "
                                                      "(receiveStreamsMax)")

    async def _telemetry_stream(self, grpc_call: GrpcCall) -> None:
        grpc_call.begin_answer()        # some clients wait for the headers before they send a command
        await self._streams.serve(grpc_call, self._caller(grpc_call))


def _parser(kind: type[_Parsed]) -> Callable[[bytes], _Parsed]:
    """The function that parses one type of request. Used without this, FromString loses the type in mypy."""
    return kind.FromString


def _keep_receipt(request: messages.ChangeInvisibleDurationRequest,
                  response: messages.ChangeInvisibleDurationResponse) -> None:
    """Repeat the handle of the request in a response without one: clients use the handle even of a refusal."""
    if not response.receipt_handle:
        response.receipt_handle = request.receipt_handle


def _status_of(error: Exception) -> messages.Status:
    if isinstance(error, CallRefused):
        return status(error.code, str(error))
    if isinstance(error, DecodeError):
        return status(Code.BAD_REQUEST, "the request is not a valid protobuf message of its type")
    return status(Code.INTERNAL_SERVER_ERROR, str(error))
