"""The session of one client with servers of RocketMQ 5: connections, signatures, settings, heartbeats.

The configured address is the access point. Routes may name other addresses, but usually name the same one. Each server
gets the client's settings over a telemetry stream, and sends its questions to the client over the same stream.

Source: ClientImpl, ClientSessionImpl, RpcClientImpl, Signature of rocketmq-clients.
"""

import asyncio
import hmac
import logging
import os
import platform
import random
import socket
import ssl
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import grpc

from regulus.client import unique_key
from regulus.client.config import ClientConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.core.addresses import grpc_targets
from regulus.client.tasks import HomeLoop, SharedTasks, TaskGroup, is_being_cancelled
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    NoRoute,
    ReceiptInvalid,
    RequestTimeout,
    TooManyRequests,
)
from regulus.transport.tls import TlsConfig, client_context
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code
from regulus.wire.grpc.definitions import Rpc
from regulus.wire.grpc.times import set_ms

_log = logging.getLogger(__name__)

HEARTBEAT_S = 10.0
SETTINGS_S = 300.0
"""Seconds after which the settings are sent again."""
STREAM_PAUSE_S = 1.0
"""Seconds until a broken telemetry stream is opened again."""
SETTINGS_WITHIN_S = 10.0
ROUTES_S = 30.0
"""Seconds after which a route is fetched again."""
ROUTE_PAUSE_S = 5.0
"""Seconds until the next attempt when no server answered; meanwhile the old route is used."""
CHANNELS_MAX = 256
"""The most addresses that routes may name."""
QUESTIONS_MAX = 32
"""Questions of servers that are being answered at the same time; further ones are dropped."""
ANSWERS_MAX = 64
"""Answers that wait to be written to one stream; the oldest ones beyond that are dropped."""
RECONNECT_MS_MIN, RECONNECT_MS_MAX = 100, 1_000
"""Pauses between attempts to connect. With gRPC's own maximum of 2 minutes a client might stay disconnected that long
after an outage."""
_SILENT = "it says nothing"
MESSAGE_SIZE_MAX = 130 << 20
_PYTHON = 6
_numbers = count(1)

OnCommand = Callable[[messages.TelemetryCommand, str], Awaitable[messages.TelemetryCommand | None]]
"""(question of a server over the stream, its address) -> the answer, or None to send none."""
# In quotes, because these types take no parameters at run time.
_Receive: TypeAlias = ("grpc.aio.UnaryStreamMultiCallable[messages.ReceiveMessageRequest, "
                       "messages.ReceiveMessageResponse]")
_Converse: TypeAlias = "grpc.aio.StreamStreamMultiCallable[messages.TelemetryCommand, messages.TelemetryCommand]"


class _Sent(Protocol):
    def SerializeToString(self) -> bytes: ...


class _Answer(Protocol):
    """An answer whose status says whether the request succeeded."""

    @property
    def status(self) -> messages.Status: ...

    @classmethod
    def FromString(cls, s: bytes, /) -> Self: ...


_Request = TypeVar("_Request", bound=_Sent)
_Response = TypeVar("_Response", bound=_Answer)


class QueueEndpoint:
    """A queue of a broker as in a route, and the address at which the broker is reached."""

    __slots__ = ("broker", "is_readable", "is_writable", "queue", "target")

    def __init__(self, queue: messages.MessageQueue, target: str) -> None:
        self.queue = queue
        self.broker = queue.broker.name
        self.is_readable = queue.permission in (2, 4)
        self.is_writable = queue.permission in (3, 4)
        self.target = target


class _Stream:
    """Data to be written to a server: the settings when they changed, and answers to its questions."""

    __slots__ = ("answers", "has_news", "task", "tells_settings")

    def __init__(self) -> None:
        self.answers: deque[messages.TelemetryCommand] = deque(maxlen=ANSWERS_MAX)
        self.tells_settings = True
        self.has_news = asyncio.Event()
        self.has_news.set()
        self.task: asyncio.Task[None] | None = None

    def tell_settings(self) -> None:
        self.tells_settings = True
        self.has_news.set()

    def answer(self, answer: messages.TelemetryCommand) -> None:
        self.answers.append(answer)
        self.has_news.set()


class Session:
    """A session with all servers. `settings` makes the settings to send; `on_command` answers servers' questions."""

    def __init__(self, address: str, config: ClientConfig, kind: ClientType,
                 settings: Callable[[], messages.Settings], on_command: OnCommand, request_timeout_ms: int,
                 heartbeat_group: str = "") -> None:
        """Connects to nothing yet. Raises ConfigError for an address or a setting that gRPC does not support."""
        self.targets = grpc_targets(address)
        self.client_id = _client_id(config)
        self.told = messages.Settings()     # the server's settings for this client; empty before they came
        self.timeout_ms = request_timeout_ms
        self._config = config
        self._kind = kind
        self._settings = settings
        self._on_command = on_command
        self._heartbeat_group = heartbeat_group
        self._credentials = _credentials(config.tls)
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._calls: dict[tuple[str, str], Any] = {}
        self._streams: dict[str, _Stream] = {}
        self._routes: dict[str, tuple[int, tuple[QueueEndpoint, ...]]] = {}
        self._is_told = asyncio.Event()
        self._refusal: ClientError | None = None
        self._broke = _SILENT
        self._tasks = TaskGroup()
        self._questions = TaskGroup()
        self._asking: SharedTasks[tuple[QueueEndpoint, ...]] = SharedTasks()
        self._is_open = False
        self._home: HomeLoop | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect, and wait until a server has sent its settings. Raises ConnectFailed, BrokerRefused."""
        self._is_open = True
        self._home = HomeLoop()
        self._is_told.clear()
        self._refusal = None
        is_started = False
        try:
            self._tasks.supervise(self._heartbeats, f"heartbeats of {self.client_id}")
            self._greet(self.targets[0])
            await self._until_told()
            is_started = True
        finally:
            if not is_started:
                await self.close()

    async def _until_told(self) -> None:
        """Wait for the settings from any of the access points."""
        deadline = steady_ms() + int(SETTINGS_WITHIN_S * 1000)
        for target in self.targets * 2:
            self._greet(target)
            left_s = (deadline - steady_ms()) / 1000
            share_s = max(0.1, left_s / len(self.targets) / 2)
            try:
                async with asyncio.timeout(share_s):
                    await self._is_told.wait()
                break
            except TimeoutError:
                continue
        if self._refusal is not None:
            raise self._refusal
        if not self._is_told.is_set():
            raise ConnectFailed(f"no RocketMQ 5 server answers at {', '.join(self.targets)} ({self._broke}): "
                                + _mend(self._broke, self._config.tls))

    def _check_loop(self) -> None:
        if self._home is not None:
            self._home.check()

    async def close(self) -> None:
        """End the session. Raises ClientError in another event loop than that of `start`."""
        self._check_loop()
        was_told = self._is_open and self._is_told.is_set()
        self._is_open = False
        try:
            if was_told:
                await asyncio.gather(*map(self._say_goodbye, self._streams))
        finally:
            self._asking.cancel()
            channels = list(self._channels.values())
            for known in (self._channels, self._calls, self._streams, self._routes):
                known.clear()
            await self._tasks.cancel()
            await self._questions.cancel()
            await asyncio.gather(*(channel.close() for channel in channels))

    async def _say_goodbye(self, target: str) -> None:
        request = messages.NotifyClientTerminationRequest()
        if self._heartbeat_group:
            request.group.name = self._heartbeat_group
        try:
            method = self._method(messages.MessagingService.NotifyClientTermination, target)
            await self._unary(method, request, target, self.timeout_ms)
        except ClientError as error:
            _log.info("%s could not be notified that this client ends: %s", target, error)

    @property
    def streams(self) -> set[str]:
        """The addresses with a telemetry stream."""
        return set(self._streams)

    # --- calls -------------------------------------------------------------------------------------------------------

    async def call(self, rpc: Rpc[_Request, _Response], request: _Request, target: str,
                   timeout_ms: int | None = None) -> _Response:
        """The answer, if its status is OK. Raises BrokerRefused, ReceiptInvalid, TooManyRequests, and what the
        connection may."""
        answer = await self.ask(rpc, request, target, self.timeout_ms if timeout_ms is None else timeout_ms)
        check_status(answer.status, target)
        return answer

    async def ask(self, rpc: Rpc[_Request, _Response], request: _Request, target: str, timeout_ms: int) -> _Response:
        """The answer, whatever its status. Raises what the connection may."""
        self._check_open()
        return await self._unary(self._method(rpc, target), request, target, timeout_ms)

    async def _unary(self, call: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]", request: _Request,
                     target: str, timeout_ms: int) -> _Response:
        try:
            return await call(request, timeout=timeout_ms / 1000, metadata=self._metadata())
        except grpc.aio.AioRpcError as error:
            raise _failure(error, target, timeout_ms) from error
        except asyncio.CancelledError as error:
            raise self._cut_off(error, target) from None

    def receive(self, request: messages.ReceiveMessageRequest, target: str,
                timeout_ms: int) -> AsyncGenerator[messages.ReceiveMessageResponse, None]:
        """The parts of the answer. Closing the generator cancels the call at the server."""
        self._check_open()
        return self._stream_of(self._receive_method(target), request, target, timeout_ms)

    async def _stream_of(self, call: _Receive, request: messages.ReceiveMessageRequest, target: str,
                         timeout_ms: int) -> AsyncGenerator[messages.ReceiveMessageResponse, None]:
        under_way = call(request, timeout=timeout_ms / 1000, metadata=self._metadata())
        try:
            async for part in under_way:
                yield part
        except grpc.aio.AioRpcError as error:
            raise _failure(error, target, timeout_ms) from error
        except asyncio.CancelledError as error:
            raise self._cut_off(error, target) from None
        finally:
            under_way.cancel()

    def _cut_off(self, error: asyncio.CancelledError, target: str) -> BaseException:
        """The error for a cancelled call: ClientClosed if it ended with its channel, as its caller was not cancelled
        then."""
        if self._is_open or is_being_cancelled(error):
            return error
        return ClientClosed(f"the client was shut down before {target} answered")

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientClosed("the client is not running; use `async with` or call start() first")
        self._check_loop()

    def _method(self, rpc: Rpc[_Request, _Response],
                target: str) -> "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]":
        made: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response] | None = self._calls.get((target, rpc.path))
        if made is None:
            made = self._calls[target, rpc.path] = self._channel(target).unary_unary(
                rpc.path, request_serializer=rpc.request.SerializeToString,
                response_deserializer=rpc.response.FromString)
        return made

    def _receive_method(self, target: str) -> _Receive:
        rpc = messages.MessagingService.ReceiveMessage
        made: _Receive | None = self._calls.get((target, rpc.path))
        if made is None:
            made = self._calls[target, rpc.path] = self._channel(target).unary_stream(
                rpc.path, request_serializer=rpc.request.SerializeToString,
                response_deserializer=rpc.response.FromString)
        return made

    def _channel(self, target: str) -> grpc.aio.Channel:
        channel = self._channels.get(target)
        if channel is None:
            if len(self._channels) >= CHANNELS_MAX:
                raise ClientError(f"routes name more than {CHANNELS_MAX} addresses; {target} is one too many")
            options = (("grpc.max_receive_message_length", MESSAGE_SIZE_MAX), ("grpc.max_send_message_length", -1),
                       ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
                       ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS_MIN),
                       ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX))
            if self._credentials is None:
                channel = grpc.aio.insecure_channel(target, options=options)
            else:
                channel = grpc.aio.secure_channel(target, self._credentials, options=options)
            self._channels[target] = channel
        return channel

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        told = (("x-mq-client-id", self.client_id), ("x-mq-language", "PYTHON"), ("x-mq-client-version", "5.2.0"),
                ("x-mq-protocol", "v2"), ("x-mq-request-id", str(uuid.uuid4())), ("x-mq-date-time", moment),
                ("x-mq-namespace", ""))
        config = self._config
        if not config.access_key:
            return told
        signature = hmac.digest(config.secret_key.encode(), moment.encode(), "sha1").hex().upper()
        authorization = (f"MQv2-HMAC-SHA1 Credential={config.access_key}, SignedHeaders=x-mq-date-time, "
                         f"Signature={signature}")
        return (*told, ("authorization", authorization))

    # --- routes ------------------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> tuple[QueueEndpoint, ...]:
        """The route of the topic. One older than `ROUTES_S` is fetched again, and still used when no server answers.
        Raises NoRoute, ClientError."""
        self._check_loop()
        known = self._routes.get(topic)
        if known is not None and steady_ms() < known[0]:
            return known[1]
        return await self._asking.result(topic, lambda: self._new_route(topic), f"route of {topic}")

    async def _new_route(self, topic: str) -> tuple[QueueEndpoint, ...]:
        known = self._routes.get(topic)
        try:
            places = await self._ask_route(topic)
        except NoRoute:
            self._routes.pop(topic, None)
            raise
        except ClientError:
            if known is None:
                raise
            self._routes[topic] = steady_ms() + int(ROUTE_PAUSE_S * 1000), known[1]
            return known[1]
        self._routes[topic] = steady_ms() + int(ROUTES_S * 1000), places
        if known is None or {place.target for place in known[1]} != {place.target for place in places}:
            self._let_go()
        for place in places:
            self._greet(place.target)
        return places

    def _let_go(self) -> None:
        """Close streams and channels to addresses that no route names any more."""
        named = {place.target for _, places in self._routes.values() for place in places}.union(self.targets)
        for target in self._streams.keys() - named:
            task = self._streams.pop(target).task
            if task is not None:
                task.cancel()
        for key in [key for key in self._calls if key[0] not in named]:
            del self._calls[key]
        gone = [self._channels.pop(target) for target in self._channels.keys() - named]
        if gone:
            # Calls that are under way may still end.
            self._tasks.spawn(_close_late(gone, self.timeout_ms), "channels that no route names any more")

    def forget_route(self, topic: str) -> None:
        """Fetch the route again at the next call, because it led to no server. If that fails, too, it is still used."""
        if topic in self._routes:
            self._routes[topic] = 0, self._routes[topic][1]

    async def _ask_route(self, topic: str) -> tuple[QueueEndpoint, ...]:
        request = messages.QueryRouteRequest()
        request.topic.name = topic
        failure: ClientError = NoRoute(f"no server answers for topic {topic!r}")
        for target in self.targets:
            _set_endpoints(request.endpoints, target)
            try:
                answer = await self.call(messages.MessagingService.QueryRoute, request, target)
            except BrokerRefused as error:
                if error.code == Code.TOPIC_NOT_FOUND:
                    raise NoRoute(f"topic {topic!r} does not exist: create it with `regulus topic create {topic}`"
                                  ) from error
                raise
            except ClientError as error:
                failure = error
                continue
            return tuple(QueueEndpoint(queue, _target_of(queue.broker.endpoints, target))
                         for queue in answer.message_queues)
        raise failure

    # --- settings, heartbeats, questions -----------------------------------------------------------------------------

    def settings_changed(self) -> None:
        """Send the new settings to all servers soon."""
        for stream in self._streams.values():
            stream.tell_settings()

    def _telling(self) -> messages.TelemetryCommand:
        command = messages.TelemetryCommand()
        settings = command.settings
        settings.CopyFrom(self._settings())
        settings.client_type = int(self._kind)
        _set_endpoints(settings.access_point, self.targets[0])
        set_ms(settings.request_timeout, self.timeout_ms)
        settings.user_agent.language = _PYTHON
        settings.user_agent.version = "5.2.0"
        settings.user_agent.platform = platform.platform()
        settings.user_agent.hostname = socket.gethostname()
        return command

    def _greet(self, target: str) -> None:
        """Open a telemetry stream to a server if there is none yet."""
        if target not in self._streams and self._is_open and len(self._streams) < CHANNELS_MAX:
            stream = self._streams[target] = _Stream()
            stream.task = self._tasks.supervise(lambda: self._telemetry(target, stream), f"telemetry of {target}")

    async def _telemetry(self, target: str, stream: _Stream) -> None:
        while True:
            try:
                await self._one_stream(target, stream)
            except (ClientError, grpc.aio.AioRpcError) as error:
                self._broke = _words(error)
                _log.info("the telemetry stream to %s broke, and is opened again: %s", target, self._broke)
            await asyncio.sleep(STREAM_PAUSE_S)

    async def _one_stream(self, target: str, stream: _Stream) -> None:
        rpc = messages.MessagingService.Telemetry
        method: _Converse = self._channel(target).stream_stream(
            rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.response.FromString)
        call = method(metadata=self._metadata())
        stream.answers.clear()      # they were for the stream that broke
        stream.tell_settings()
        writing = self._tasks.spawn(self._write(stream, call), f"telemetry to {target}")
        try:
            while isinstance(command := await call.read(), messages.TelemetryCommand):      # EOF is another type
                self._take(target, command, stream)
        finally:
            writing.cancel()
            call.cancel()

    async def _write(self, stream: _Stream,
                     call: "grpc.aio.StreamStreamCall[messages.TelemetryCommand, messages.TelemetryCommand]") -> None:
        while True:
            await stream.has_news.wait()
            stream.has_news.clear()
            try:
                if stream.tells_settings:
                    stream.tells_settings = False
                    await call.write(self._telling())
                while stream.answers:
                    await call.write(stream.answers.popleft())
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return      # the task that reads the stream gets the reason

    def _take(self, target: str, command: messages.TelemetryCommand, stream: _Stream) -> None:
        if command.HasField("status") and command.status.code not in (0, Code.OK):
            self._refusal = BrokerRefused(command.status.code, command.status.message, target)
            if self._is_told.is_set():
                _log.warning("%s refuses the settings of this client: %s", target, self._refusal)
            self._is_told.set()
            return
        if command.WhichOneof("command") == "settings":
            self.told = command.settings
            self._refusal = None
            self._is_told.set()
        elif len(self._questions.all()) < QUESTIONS_MAX:
            self._questions.spawn(self._answer(command, target, stream), f"question of {target}")
        else:
            _log.warning("%s has more than %d questions at once; one is not answered", target, QUESTIONS_MAX)

    async def _answer(self, command: messages.TelemetryCommand, target: str, stream: _Stream) -> None:
        answer = await self._on_command(command, target)
        if answer is not None:
            stream.answer(answer)

    async def _heartbeats(self) -> None:
        settings_due = steady_ms() + int(SETTINGS_S * 1000)
        while True:
            await asyncio.sleep(HEARTBEAT_S * random.uniform(0.9, 1.0))
            request = messages.HeartbeatRequest(client_type=int(self._kind))
            if self._heartbeat_group:
                request.group.name = self._heartbeat_group
            await asyncio.gather(*(self._heartbeat(request, target) for target in list(self._streams)))
            if steady_ms() >= settings_due:
                self.settings_changed()
                settings_due = steady_ms() + int(SETTINGS_S * 1000)

    async def _heartbeat(self, request: messages.HeartbeatRequest, target: str) -> None:
        try:
            await self.call(messages.MessagingService.Heartbeat, request, target)
        except ClientError as error:
            _log.warning("heartbeat to %s failed: %s", target, error)


async def _close_late(channels: Sequence[grpc.aio.Channel], grace_ms: int) -> None:
    await asyncio.gather(*(channel.close(grace_ms / 1000) for channel in channels))


def check_status(status: messages.Status, target: str) -> None:
    """Raises BrokerRefused, ReceiptInvalid or TooManyRequests for a status that is not OK."""
    code = status.code
    if code == Code.OK:
        return
    if code == Code.INVALID_RECEIPT_HANDLE:
        raise ReceiptInvalid(f"{target}: {status.message or 'the receipt handle is not valid'}", code)
    if code == Code.TOO_MANY_REQUESTS:
        raise TooManyRequests(f"{target} asks for fewer requests: {status.message}", code)
    raise BrokerRefused(code, status.message, target)


def _failure(error: grpc.aio.AioRpcError, target: str, timeout_ms: int) -> ClientError:
    code = error.code()
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RequestTimeout(f"{target} gave no answer within {timeout_ms} ms")
    if code is grpc.StatusCode.UNAVAILABLE:
        words = _words(error)
        return (ConnectRefused if _was_not_reached(words) else ConnectionLost)(f"{target}: {words}")
    if code is grpc.StatusCode.CANCELLED:
        return ConnectionLost(f"{target}: the call was ended: {_words(error)}")
    return ClientError(f"{target} answered {code.name}: {_words(error)}")


def _was_not_reached(words: str) -> bool:
    """Whether no connection was made. A connection that was lost has other words, such as "Stream removed
    (recvmsg:Connection reset by peer (104))"."""
    return "failed to connect" in words.lower() or "resolution" in words.lower()


def _mend(words: str, tls: TlsConfig) -> str:
    """Advice for an operator when a server closes the connection with these words before it has sent anything."""
    if "CERTIFICATE_VERIFY_FAILED" in words:
        return "set tls_client_trust_cert_path to the server's certificate, or its authority's"
    if "Hostname Verification Check failed" in words:
        return "use an address that the certificate names"
    if "Socket closed" in words or "handshake failed" in words:
        if tls.tls_enable:
            return "that port does not use TLS, or requires client certificates; the server's log says which"
        return ("that port takes TLS only (tls_enable), or is not the port of RocketMQ 5 clients, which is 8081 unless "
                "it was set otherwise")
    if words == _SILENT or _was_not_reached(words):
        return "start one with `regulus up` or `regulus proxy`, or correct the address (grpc://host:port)"
    return "see its log for the reason"


def _words(error: BaseException) -> str:
    return error.details() or "no reason given" if isinstance(error, grpc.aio.AioRpcError) else str(error)


def _client_id(config: ClientConfig) -> str:
    host = config.client_ip or unique_key.local_address()
    name = f"{host}@{os.getpid()}@{next(_numbers)}@{time.monotonic_ns():x}"
    return f"{name}@{config.unit_name}" if config.unit_name else name


def _set_endpoints(endpoints: messages.Endpoints, target: str) -> None:
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    endpoints.Clear()
    endpoints.scheme = _scheme(host)
    address = endpoints.addresses.add()
    address.host, address.port = host, int(port)


def _scheme(host: str) -> int:
    for scheme, family in ((1, socket.AF_INET), (2, socket.AF_INET6)):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return scheme
    return 3


def _target_of(endpoints: messages.Endpoints, asked: str) -> str:
    """One of a broker's addresses; the one that answered if it is among them."""
    targets = [f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
               for each in endpoints.addresses]
    return asked if asked in targets or not targets else targets[0]


def _credentials(tls: TlsConfig) -> grpc.ChannelCredentials | None:
    """The credentials for a channel; None without TLS. Raises ConfigError for settings that gRPC does not support."""
    if not tls.tls_enable:
        return None
    if not tls.tls_client_auth_server:
        raise ConfigError("tls_client_auth_server is False, but gRPC always checks the server's certificate: set "
                          "tls_client_trust_cert_path to that certificate, or its authority's")
    if not tls.tls_client_check_host:
        raise ConfigError("tls_client_check_host is False, but gRPC always checks the name in the certificate: use an "
                          "address that the certificate names")
    if tls.tls_client_key_password:
        raise ConfigError("tls_client_key_password is set, but gRPC cannot read an encrypted key: give it a key that "
                          "is not encrypted")
    roots, cert, key = (_read(path, name) for path, name in (
        (tls.tls_client_trust_cert_path, "tls_client_trust_cert_path"),
        (tls.tls_client_cert_path, "tls_client_cert_path"), (tls.tls_client_key_path, "tls_client_key_path")))
    client_context(tls)     # raises for a bad file, because gRPC does not say what is wrong with one
    if roots is None:
        # gRPC has roots of its own; use the system's, like all other connections.
        paths = ssl.get_default_verify_paths()
        roots = _read(paths.cafile or "", "the system's certificates")
    return grpc.ssl_channel_credentials(roots, key, cert)


def _read(path: str, name: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror or error}") from error
