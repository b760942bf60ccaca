"""The clients that are there: what they are set to, when they were heard of, and the stream on which they hear us.

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
"""At one more, a client of the user who has the most gives way to one of a user who has fewer."""
TOPICS_OF_CLIENT_MAX = 1_024
"""Topics of one client's settings."""
COMMANDS_MAX = 256
"""Commands that wait to leave on one stream; a client that reads none of them is cut off."""
COMMANDS_SIZE_MAX = 16 << 20
"""Bytes of them."""
LOOKED_MAX = 1_000
"""Clients that are looked at for one that can be asked; the next question goes on behind them."""
SENDERS_MAX = 1_000_000
"""Topics that clients send to, each counted for each client; at one more as with clients."""
GAVE_WAY = "clients gave way to those of users who have fewer, for no more can be known here"


class Stream:
    """One telemetry stream, with what waits to leave on it. `repeated` is a command that will be told again; `begun`
    are the topics of its settings in which the group of its client has its places."""

    def __init__(self) -> None:
        # One place more, for the None that says that it is finished.
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
        """It ends with this, and nothing of what waits leaves before."""
        self.refusal = refusal
        self.end()

    def send(self, command: messages.TelemetryCommand) -> bool:
        """False when the client reads too slowly, or is gone."""
        if not self.is_open:
            return False
        if self._commands.qsize() >= COMMANDS_MAX or self._size >= COMMANDS_SIZE_MAX:
            self.end()
            return False
        self._size += command.ByteSize()
        self._commands.put_nowait(command)
        return True

    def finish(self) -> bool:
        """What waits may still leave, and nothing after it; False when nothing leaves any more."""
        if not self.is_open:
            return False
        self._commands.put_nowait(None)
        self.end()
        return True

    async def next(self) -> messages.TelemetryCommand | None:
        """What leaves next; None when nothing will any more."""
        command = await self._commands.get()
        if command is not None:
            self._size -= command.ByteSize()
        return command


class Client:
    """One client of `user`. Another user who gives the same id is another client: nobody is kept out by a name that
    somebody else gave before him."""

    __slots__ = ("client_type", "group", "heard_ms", "host", "language", "stream", "topics", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.host = ""
        self.client_type = 0
        self.group = ""
        self.topics: dict[str, None] = {}      # that it sends to
        self.language = 0       # one of Language
        self.stream: Stream | None = None
        self.heard_ms = 0


class _Share:
    """What one user has of this place: his clients, and those of them that send, each heard of longest ago first; and
    the topics that they send to."""

    __slots__ = ("clients", "producers", "senders")

    def __init__(self) -> None:
        self.clients: OrderedDict[ClientKey, None] = OrderedDict()
        self.producers: OrderedDict[ClientKey, None] = OrderedDict()
        self.senders = 0


class Clients:
    """`steady_ms` is no time of day: a clock that is set anew must not let all clients be gone at once. `happenings`
    has who gave way."""

    def __init__(self, config: ProxyConfig, steady_ms: Callable[[], int]) -> None:
        self._config = config
        self._steady_ms = steady_ms
        self.happenings = Happenings()
        self._clients: dict[ClientKey, Client] = {}
        self._shares: dict[str, _Share] = {}        # by user who has clients
        # Topic -> clients. Ordered ones: to take the first of a dict again and again passes by all that were.
        self._producers: dict[str, OrderedDict[ClientKey, None]] = {}
        self._senders = 0

    def __len__(self) -> int:
        return len(self._clients)

    def heard(self, caller: Caller) -> Client:
        """The client, known from now on if it was not. Raises CallRefused when no more can be known."""
        client = self._clients.pop(caller.key, None)
        if client is None:
            if len(self._clients) >= CLIENTS_MAX and not self._gives_way(
                    caller.user, lambda each: len(each.clients), lambda each: each.clients):
                raise CallRefused(Code.TOO_MANY_REQUESTS, f"{CLIENTS_MAX} clients are known here, and no more can be")
            client = Client(caller.user)
            self._shares.setdefault(caller.user, _Share()).clients[caller.key] = None
        else:
            share = self._shares[client.user]
            share.clients.move_to_end(caller.key)
            if client.topics:
                share.producers.move_to_end(caller.key)
        self._clients[caller.key] = client       # in the order in which they were heard of
        client.heard_ms, client.host = self._steady_ms(), caller.host
        return client

    def knows(self, key: ClientKey) -> bool:
        return key in self._clients

    def get(self, key: ClientKey) -> Client | None:
        return self._clients.get(key)

    def sends_to(self, caller: Caller, topic: str) -> None:
        """The client may be asked for the outcome of transactions of this topic. Raises CallRefused."""
        client = self.heard(caller)
        if topic in client.topics:
            return
        if len(client.topics) >= TOPICS_OF_CLIENT_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"the client sends to {TOPICS_OF_CLIENT_MAX} topics already")
        if self._senders >= SENDERS_MAX and not self._gives_way(
                caller.user, lambda each: each.senders, lambda each: each.producers):
            raise CallRefused(Code.TOO_MANY_REQUESTS, f"clients send to {SENDERS_MAX} topics in all, and to no more "
                                                      "that can be known")
        self._senders += 1
        share = self._shares[client.user]
        share.senders += 1
        share.producers[caller.key] = None
        client.client_type = client.client_type or ClientType.PRODUCER
        client.topics[topic] = None
        self._producers.setdefault(topic, OrderedDict())[caller.key] = None

    def producer_topics(self) -> list[str]:
        """Topics that somebody who can be asked sends to."""
        return list(self._producers)

    def producer_stream(self, topic: str, may: Callable[[Client], bool] = lambda client: True) -> Stream | None:
        """Of any client that sends to the topic and `may`, another one each time. Whoever is passed over is behind all
        others the next time."""
        senders = self._producers.get(topic, OrderedDict())
        for _ in range(min(len(senders), LOOKED_MAX)):
            key = next(iter(senders))
            senders.move_to_end(key)
            client = self._clients[key]
            if client.stream is not None and client.stream.is_open and may(client):
                return client.stream
        return None

    def opened(self, caller: Caller, stream: Stream) -> None:
        """The latest stream of a client is the one on which it hears us. Raises CallRefused."""
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
        """Whether there is room for one more of this user: from him who has the most, goes who was heard of longest
        ago of those that count. Looks at all users, of whom there are as many as accounts."""
        most = max(self._shares, key=lambda each: count(self._shares[each]))
        own = self._shares.get(user)
        if (0 if own is None else count(own)) + 1 >= count(self._shares[most]):
            return False
        key = next(iter(counted(self._shares[most])))
        stream = self._clients[key].stream
        self.forget(key)
        self.happenings.note(GAVE_WAY, f"{key[1]} of {most or 'nobody'}")
        if stream is not None:
            stream.refuse(CallRefused(Code.TOO_MANY_REQUESTS, "no more clients can be known here, and this user has "
                                                              "the most of them"))
        return True

    def expired(self) -> list[ClientKey]:
        """Clients that were not heard of for too long and have no stream; costs those that are told, and one more."""
        limit = self._steady_ms() - self._config.channel_expired_timeout
        keys = []
        for key, client in self._clients.items():
            if client.heard_ms > limit:
                break
            if client.stream is None:
                keys.append(key)
        return keys
