"""The known clients: their settings, the time of their last call, and the stream on which commands reach them.

Source: GrpcClientSettingsManager, GrpcChannelManager, ProducerManager.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from regulus.errors import CallRefused
from regulus.model.happenings import Happenings
from regulus.proxy.caller import Caller, ClientKey
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code

CLIENTS_MAX = 100_000
"""Known clients. At one more, the user with the most clients loses one. If the user of the new client would then have
as many as that one, the new client is refused instead."""
TOPICS_OF_CLIENT_MAX = 1_024
"""Topics in the settings of one client, and topics that it may send to; more are refused."""
COMMANDS_MAX = 256
"""Commands that wait on one stream. At one more the stream is closed, because its client does not read."""
COMMANDS_SIZE_MAX = 16 << 20
"""Bytes of the commands that wait on one stream; handled like COMMANDS_MAX."""
LOOKED_MAX = 1_000
"""Producers that are tried to find one that can be asked about a transaction; the next search continues after them."""
SENDERS_MAX = 1_000_000
"""Pairs of a client and a topic that it sends to. At one more, clients give way as at CLIENTS_MAX."""
GAVE_WAY = "clients were dropped to make room for those of users who have fewer"


class Stream:
    """One telemetry stream with the commands that wait on it.

    `repeated` is a command that is sent once more later. `begun` has the topics of the client's settings in which its
    group has got its first offsets.
    """

    def __init__(self) -> None:
        # One more place, for the None that marks the end.
        self._commands: asyncio.Queue[messages.TelemetryCommand | None] = asyncio.Queue(COMMANDS_MAX + 1)
        self._size = 0
        self.ended = asyncio.Event()
        self.refusal: CallRefused | None = None
        self.repeated: messages.TelemetryCommand | None = None
        self.has_repeats = False
        self.begun: set[tuple[str, str]] = set()        # by group and topic

    @property
    def is_open(self) -> bool:
        return not self.ended.is_set()

    def end(self) -> None:
        self.ended.set()

    def refuse(self, refusal: CallRefused) -> None:
        """End the stream with this refusal. Commands that wait are not sent."""
        self.refusal = refusal
        self.end()

    def send(self, command: messages.TelemetryCommand) -> bool:
        """Queue a command for the client. False if the stream has ended, or ends now because the client reads too
        slowly."""
        if not self.is_open:
            return False
        if self._commands.qsize() >= COMMANDS_MAX or self._size >= COMMANDS_SIZE_MAX:
            self.end()
            return False
        self._size += command.ByteSize()
        self._commands.put_nowait(command)
        return True

    def finish(self) -> bool:
        """End the stream after the commands that wait; false if it has already ended."""
        if not self.is_open:
            return False
        self._commands.put_nowait(None)
        self.end()
        return True

    async def next(self) -> messages.TelemetryCommand | None:
        """Wait for the next command to send; None when the stream is finished."""
        command = await self._commands.get()
        if command is not None:
            self._size -= command.ByteSize()
        return command


class Client:
    """One client of `user`. The same id given by another user is another client, so that no user can take an id away
    from others."""

    __slots__ = ("client_type", "group", "heard_ms", "host", "language", "stream", "topics", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.host = ""
        self.client_type = 0
        self.group = ""
        self.topics: dict[str, None] = {}      # topics that it sends to
        self.language = 0       # a value of Language
        self.stream: Stream | None = None
        self.heard_ms = 0


class _Share:
    """One user's share of the limits: the clients, those of them that send, and the number of topics that they send to.
    The client with the oldest last call is first."""

    __slots__ = ("clients", "producers", "senders")

    def __init__(self) -> None:
        self.clients: OrderedDict[ClientKey, None] = OrderedDict()
        self.producers: OrderedDict[ClientKey, None] = OrderedDict()
        self.senders = 0


class Clients:
    """All known clients. `happenings` collects the clients that were dropped for others.

    `steady_ms` returns a monotonic time: if the clock of the machine is set, not all clients may expire at once.
    """

    def __init__(self, config: ProxyConfig, steady_ms: Callable[[], int]) -> None:
        self._config = config
        self._steady_ms = steady_ms
        self.happenings = Happenings()
        self._clients: dict[ClientKey, Client] = {}
        self._shares: dict[str, _Share] = {}        # by user; only users with clients
        # Topic -> clients. To take the first key of a plain dict again and again passes over all deleted ones.
        self._producers: dict[str, OrderedDict[ClientKey, None]] = {}
        self._senders = 0

    def __len__(self) -> int:
        return len(self._clients)

    def heard(self, caller: Caller) -> Client:
        """The client of a call, which is known from now on. Raises CallRefused if there is no room for one more."""
        client = self._clients.pop(caller.key, None)
        if client is None:
            if len(self._clients) >= CLIENTS_MAX and not self._gives_way(
                    caller.user, lambda each: len(each.clients), lambda each: each.clients):
                raise CallRefused(Code.TOO_MANY_REQUESTS, f"{CLIENTS_MAX} clients are known here, which is the limit")
            client = Client(caller.user)
            self._shares.setdefault(caller.user, _Share()).clients[caller.key] = None
        else:
            share = self._shares[client.user]
            share.clients.move_to_end(caller.key)
            if client.topics:
                share.producers.move_to_end(caller.key)
        self._clients[caller.key] = client       # in the order of their last calls
        client.heard_ms, client.host = self._steady_ms(), caller.host
        return client

    def knows(self, key: ClientKey) -> bool:
        return key in self._clients

    def get(self, key: ClientKey) -> Client | None:
        return self._clients.get(key)

    def sends_to(self, caller: Caller, topic: str) -> None:
        """Note that the client sends to the topic, so that it can be asked about the topic's transactions. Raises
        CallRefused."""
        client = self.heard(caller)
        if topic in client.topics:
            return
        if len(client.topics) >= TOPICS_OF_CLIENT_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"the client sends to {TOPICS_OF_CLIENT_MAX} topics already")
        if self._senders >= SENDERS_MAX and not self._gives_way(
                caller.user, lambda each: each.senders, lambda each: each.producers):
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"clients send to {SENDERS_MAX} topics in all, which is the "
                                                      "limit")
        self._senders += 1
        share = self._shares[client.user]
        share.senders += 1
        share.producers[caller.key] = None
        client.client_type = client.client_type or ClientType.PRODUCER
        client.topics[topic] = None
        self._producers.setdefault(topic, OrderedDict())[caller.key] = None

    def producer_topics(self) -> list[str]:
        """Topics to which at least one known client sends."""
        return list(self._producers)

    def producer_stream(self, topic: str, may: Callable[[Client], bool] = lambda client: True) -> Stream | None:
        """The stream of a client that sends to the topic and for which `may` is true; None if there is none.

        Clients take turns: one that was tried moves to the end. A search tries at most LOOKED_MAX of them."""
        senders = self._producers.get(topic, OrderedDict())
        for _ in range(min(len(senders), LOOKED_MAX)):
            key = next(iter(senders))
            senders.move_to_end(key)
            client = self._clients[key]
            if client.stream is not None and client.stream.is_open and may(client):
                return client.stream
        return None

    def opened(self, caller: Caller, stream: Stream) -> None:
        """Use this stream for commands to the client from now on, in place of an earlier one. Raises CallRefused."""
        self.heard(caller).stream = stream

    def closed(self, key: ClientKey, stream: Stream) -> None:
        client = self._clients.get(key)
        if client is not None and client.stream is stream:
            client.stream = None

    def forget(self, key: ClientKey) -> bool:
        client = self._clients.pop(key, None)
        if client is None:
            return False
        self._senders -= len(client.topics)
        share = self._shares[client.user]
        share.senders -= len(client.topics)
        del share.clients[key]
        share.producers.pop(key, None)
        if not share.clients:
            del self._shares[client.user]
        for topic in client.topics:
            senders = self._producers[topic]
            del senders[key]
            if not senders:
                del self._producers[topic]
        return True

    def _gives_way(self, user: str, count: Callable[[_Share], int],
                   counted: Callable[[_Share], "OrderedDict[ClientKey, None]"]) -> bool:
        """Make room for one more client of this user; false if no user has clearly more than this one.

        The user with the most loses the client with the oldest last call among those that `counted` returns. Costs one
        step a user, and there are no more users than accounts."""
        most = max(self._shares, key=lambda each: count(self._shares[each]))
        own = self._shares.get(user)
        if (0 if own is None else count(own)) + 1 >= count(self._shares[most]):
            return False
        key = next(iter(counted(self._shares[most])))
        stream = self._clients[key].stream
        self.forget(key)
        self.happenings.note(GAVE_WAY, f"{key[1]} of {most or 'no user'}")
        if stream is not None:
            stream.refuse(CallRefused(Code.TOO_MANY_REQUESTS, "there is no room for more clients, and this user has "
                                                              "the most"))
        return True

    def expired(self) -> list[ClientKey]:
        """Clients without a stream whose last call is older than channelExpiredTimeout.

        Costs one step for each client with such a call, with or without a stream."""
        limit = self._steady_ms() - self._config.channel_expired_timeout
        keys = []
        for key, client in self._clients.items():
            if client.heard_ms > limit:
                break
            if client.stream is None:
                keys.append(key)
        return keys
