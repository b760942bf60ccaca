"""The methods as gRPC calls them: bytes in, bytes out, limits kept, every refusal a status of the response.

All that is said in a business sense is said in a response; gRPC's own status is for what is no call of ours, and for
the end of a telemetry stream.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from regulus.errors import CallRefused, HeaderError, MessageIllegal
from regulus.proxy.access import CallAccess
from regulus.proxy.caller import Caller, caller_of, check_client_id
from regulus.proxy.calls import Calls
from regulus.proxy.clients import Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.receive_call import ReceiveCall
from regulus.proxy.status import status
from regulus.proxy.telemetry import Telemetry
from regulus.proxy.telemetry_streams import TelemetryStreams
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code

_log = logging.getLogger(__name__)

UNARY = {
    "QueryRoute": "query_route", "Heartbeat": "heartbeat", "SendMessage": "send_message",
    "QueryAssignment": "query_assignment", "AckMessage": "ack_message",
    "ForwardMessageToDeadLetterQueue": "forward_to_dead_letters", "EndTransaction": "end_transaction",
    "NotifyClientTermination": "notify_client_termination", "ChangeInvisibleDuration": "change_invisible_duration",
    "RecallMessage": "recall_message", "SyncLiteSubscription": "sync_lite_subscription"}
"""Methods with one answer. PullMessage and those of offsets stay UNIMPLEMENTED in gRPC's sense, as in RocketMQ's proxy:
no client calls them."""
DEADLINE_S_MAX = 86_400.0
"""A client may name a deadline in sixty years."""

Call = Callable[[Any, Caller], Awaitable[Any]]


class Service(grpc.GenericRpcHandler):
    """`peer_of` says who is behind a connection that gRPC knows by our own port; None: nobody of ours."""

    def __init__(self, calls: Calls, receive: ReceiveCall, telemetry: Telemetry, clients: Clients,
                 access: CallAccess | None, config: ProxyConfig, peer_of: Callable[[int], str | None],
                 now_ms: Callable[[], int]) -> None:
        self._calls = calls
        self._receive = receive
        self._clients = clients
        self._access = access
        self._config = config
        self._peer_of = peer_of
        self._now_ms = now_ms
        self._streams = TelemetryStreams(telemetry, clients, config, self._checked)
        self._under_way = self._size = self._receiving = 0
        self._handlers = self._make_handlers()

    def service(self, details: Any) -> Any:
        return self._handlers.get(details.method)

    def end_streams(self) -> None:
        """Let all telemetry streams end: the server stops."""
        self._streams.end()

    def _make_handlers(self) -> dict[str, Any]:
        types = messages.method_types()
        handlers: dict[str, Any] = {f"/{messages.SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(
            self._unary(name, *types[name])) for name in UNARY}
        handlers[f"/{messages.SERVICE}/ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(self._receive_message)
        handlers[f"/{messages.SERVICE}/Telemetry"] = grpc.stream_stream_rpc_method_handler(self._telemetry_stream)
        return handlers

    # --- calls with one answer ---------------------------------------------------------------------------------------

    def _unary(self, method: str, request_type: Any, response_type: Any) -> Callable[[bytes, Any], Awaitable[bytes]]:
        call: Call = getattr(self._calls, UNARY[method])

        async def answer(data: bytes, context: Any) -> bytes:
            request = None
            self._under_way += 1
            self._size += len(data)
            try:
                self._check_room()
                request = request_type.FromString(data)
                response = await call(request, await self._admitted(method, request, context))
            except (CallRefused, DecodeError, HeaderError, MessageIllegal) as error:
                response = response_type(status=_status_of(error))
            except Exception:       # one broken call must not end others
                _log.exception("%s failed", method)
                response = response_type(status=status(Code.INTERNAL_SERVER_ERROR, "the server failed; see its log"))
            finally:
                self._under_way -= 1
                self._size -= len(data)
            if method == "ChangeInvisibleDuration" and request is not None and not response.receipt_handle:
                response.receipt_handle = request.receipt_handle    # clients take it over even from a refusal
            return bytes(response.SerializeToString())
        return answer

    async def _admitted(self, method: str, request: Any, context: Any) -> Caller:
        """Who calls, when all may go on. Raises CallRefused."""
        return self._checked(method, request, await self._caller(context))

    def _check_room(self) -> None:
        """Raises CallRefused when as much is under way as may be."""
        if self._under_way > self._config.calls_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.calls_max} calls are under way (callsMax)")
        self._check_size()

    def _check_size(self) -> None:
        if self._size > self._config.calls_size_max:
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.calls_size_max} bytes of calls are under way "
                                                      "(callsSizeMax)")

    async def _caller(self, context: Any) -> Caller:
        port = context.peer().rpartition(":")[2]
        peer = self._peer_of(int(port)) if port.isdecimal() else None
        if peer is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this port is not for clients")
        left_s = context.time_remaining()
        deadline = None if left_s is None or left_s > DEADLINE_S_MAX else self._now_ms() + int(left_s * 1000)
        return caller_of(context.invocation_metadata() or (), peer or "", deadline)

    def _checked(self, method: str, request: Any, caller: Caller) -> Caller:
        """The caller, with the user who signed. Raises CallRefused."""
        if self._access is not None:
            caller = replace(caller, user=self._access.check(method, request, caller))
        check_client_id(caller)
        self._clients.check_user(caller)
        return caller

    # --- streams -----------------------------------------------------------------------------------------------------

    async def _receive_message(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        self._receiving += 1
        self._size += len(data)
        try:
            self._check_size()
            request = messages.ReceiveMessageRequest.FromString(data)
            caller = self._checked("ReceiveMessage", request, await self._caller(context))
            if self._receiving > self._config.receive_streams_max:
                raise CallRefused(Code.TOO_MANY_REQUESTS, f"{self._config.receive_streams_max} receives are under way "
                                                          "(receiveStreamsMax)")
            async for element in self._receive.receive(request, caller):
                yield element.SerializeToString()
        except (CallRefused, DecodeError, HeaderError) as error:
            yield messages.ReceiveMessageResponse(status=_status_of(error)).SerializeToString()
        except Exception:
            _log.exception("ReceiveMessage failed")
            refusal = status(Code.INTERNAL_SERVER_ERROR, "the server failed; see its log")
            yield messages.ReceiveMessageResponse(status=refusal).SerializeToString()
        finally:
            self._receiving -= 1
            self._size -= len(data)

    async def _telemetry_stream(self, requests: AsyncIterator[bytes], context: Any) -> None:
        caller = await self._caller(context)
        await context.send_initial_metadata(())     # some clients wait for it before they say anything
        await self._streams.serve(requests, context, caller)


def _status_of(error: Exception) -> Any:
    if isinstance(error, CallRefused):
        return status(error.code, str(error))
    if isinstance(error, DecodeError):
        return status(Code.BAD_REQUEST, "the request is no message of its kind")
    return status(Code.INTERNAL_SERVER_ERROR, str(error))
