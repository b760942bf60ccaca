"""Receives messages when the application asks for them, and acknowledges each when it says so.

A received message is nobody else's for its invisible time. What is not acknowledged within it is delivered again: there
is no other way to say that a message failed. To have it sooner, change its invisible time to a short one.

Source: SimpleConsumer of RocketMQ 5.
"""

import asyncio
from collections.abc import Iterable

from regulus.client.config import SimpleConsumerConfig
from regulus.client.connecting.client_instance import RequestHandler, now_ms, steady_ms
from regulus.client.consuming import consumer_start
from regulus.client.consuming.receiver import INVISIBLE_MS_MAX, Receive, Receiver
from regulus.client.consuming.receivers import simple_receiver
from regulus.client.core.message_check import check_group, check_topic
from regulus.client.received_message import ReceivedMessage
from regulus.client.started import Started
from regulus.client.tasks import Ending
from regulus.errors import ClientClosed, ConfigError, MessageIllegal
from regulus.wire.bodies import ConsumerData, SubscriptionData

MESSAGES_MAX = 32
"""Of one receive."""
INVISIBLE_MS_MIN = 10_000
NO_ROUTE_PAUSE_S = 1.0
"""Between two looks for brokers of a topic that has none yet, while a receive waits."""


class SimpleConsumer(Started):
    """A consumer of one group.

        async with SimpleConsumer("grpc://127.0.0.1:8081", "kitchen", {"orders": "*"}) as consumer:
            for message in await consumer.receive(16, 30_000):
                ...
                await consumer.ack(message)

    Members of a group share its messages, whatever protocol each of them speaks, as long as all receive so or pop: of
    one that pulls the broker does not know what it has. Any number of calls may be made at the same time.
    """

    def __init__(self, address: str, group: str, subscriptions: dict[str, str] | None = None,
                 config: SimpleConsumerConfig | None = None) -> None:
        """Connects to nothing yet. `address` is `grpc://host:port`, or that of name servers, `rocketmq://host:port`;
        `subscriptions` are tag expressions by their topics. Raises ConfigError, MessageIllegal, HeaderError."""
        check_group(group)
        self.group = group
        self.config = config or SimpleConsumerConfig()
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._receiver: Receiver | None = None
        self._made = simple_receiver(address, self, self.config, self._subscriptions.values)
        self._changing = asyncio.Lock()
        self._ending = Ending()
        self._turn = 0
        for topic, expression in (subscriptions or {}).items():
            self.subscribe(topic, expression)

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = consumer_start.TAG) -> None:
        """Receive the messages of a topic whose tag the expression names: `*`, `TagA`, `TagA || TagB`; with
        `expression_type` SQL92 those that meet a condition. Raises MessageIllegal, HeaderError."""
        check_topic(topic)
        self._subscriptions[topic] = SubscriptionData.compile(topic, expression, now_ms(), expression_type)
        if self._receiver is not None:
            self._receiver.subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Receive the topic no more. Unknown topics are fine."""
        self._subscriptions.pop(topic, None)
        if self._receiver is not None:
            self._receiver.subscriptions_changed()

    async def start(self) -> None:
        """Join the group. What is sent once it returned is received, unless a warning says which brokers did not
        answer within 5 s, or they are RocketMQ's, where the first receive decides where a new group begins.

        Raises ConfigError, NoNameServer, ConnectFailed; BrokerRefused for a bad SQL expression, or a user who may not.
        """
        self._ending.check()
        async with self._changing:
            await self._ending.over()
            if self._receiver is None:
                if not self._subscriptions:
                    raise ConfigError(f"consumer {self.group} has no subscription; call subscribe() first")
                self._ending.begins()
                try:
                    await self._made.start()
                    self._receiver = self._made
                finally:
                    if self._receiver is None:
                        self._ending.came_to_nothing()

    async def shutdown(self) -> None:
        """Leave the group. What was received and not acknowledged is delivered again when its time is over. Who cancels
        this does not wait; the consumer leaves nevertheless, and a second shutdown waits until it has left."""
        self._ending.check()
        async with self._changing:
            await self._ending.over()
            receiver, self._receiver = self._receiver, None
            if receiver is not None:
                await self._ending.carry_out(receiver.close, f"end of consumer {self.group}")

    @property
    def client_id(self) -> str:
        return self._running().client_id

    async def receive(self, max_message_num: int = MESSAGES_MAX, invisible_duration_ms: int = 60_000, *,
                      await_duration_ms: int | None = None) -> list[ReceivedMessage]:
        """Up to so many messages of one of the topics, each call's the next one; empty when none came within
        `await_duration`. A proxy of RocketMQ waits 5 s at least.

        Raises MessageIllegal for numbers that are not possible; ClientError, ClientClosed when this consumer is closed
        meanwhile. When it is cancelled, what was on its way is others' soon, and was not delivered; when it gets no
        answer, it comes when its invisible time is over.
        """
        if not 0 < max_message_num <= MESSAGES_MAX:
            raise MessageIllegal(f"max_message_num is {max_message_num}; 1 to {MESSAGES_MAX} are possible")
        if not INVISIBLE_MS_MIN <= invisible_duration_ms <= INVISIBLE_MS_MAX:
            raise MessageIllegal(f"invisible_duration_ms is {invisible_duration_ms}; {INVISIBLE_MS_MIN} to "
                                 f"{INVISIBLE_MS_MAX} are possible")
        await_ms = self.config.await_duration if await_duration_ms is None else await_duration_ms
        until_ms = steady_ms() + await_ms
        while True:
            receiver = self._running()
            subscription, broker = await self._next_place(receiver)
            left_ms = max(0, until_ms - steady_ms())
            if broker is not None:
                return await receiver.receive(Receive(subscription, broker, max_message_num, invisible_duration_ms,
                                                      left_ms))
            if left_ms == 0:
                return []
            await asyncio.sleep(min(NO_ROUTE_PAUSE_S, left_ms / 1000))

    async def ack(self, message: ReceivedMessage) -> None:
        """The message is done. Raises ReceiptInvalid when it is another's by now, or done already; ClientError, after
        which it may come again."""
        receiver = self._running()
        async with message.telling:
            message.check_ours(steady_ms())
            await receiver.ack(message)
            message.is_acknowledged = True

    async def change_invisible_duration(self, message: ReceivedMessage, invisible_duration_ms: int) -> None:
        """Let the message be invisible for so long from now on: longer, to work on it, or shorter, to have it delivered
        again soon. Its receipt becomes a new one. Raises as `ack`, and MessageIllegal."""
        if not 0 <= invisible_duration_ms <= INVISIBLE_MS_MAX:
            raise MessageIllegal(f"invisible_duration_ms is {invisible_duration_ms}; 0 to {INVISIBLE_MS_MAX} are "
                                 "possible")
        receiver = self._running()
        async with message.telling:
            message.check_ours(steady_ms())
            await receiver.change_invisible(message, invisible_duration_ms)

    async def _next_place(self, receiver: Receiver) -> tuple[SubscriptionData, str | None]:
        """A topic and one of its brokers, in turn; no broker where the topic has none."""
        self._turn += 1
        subscriptions = list(self._subscriptions.values())
        if not subscriptions:
            raise ConfigError(f"consumer {self.group} has no subscription; call subscribe() first")
        subscription = subscriptions[self._turn % len(subscriptions)]
        brokers = await receiver.brokers(subscription.topic)
        return subscription, brokers[self._turn // len(subscriptions) % len(brokers)] if brokers else None

    def _running(self) -> Receiver:
        if self._receiver is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._receiver

    # --- what a client instance asks of its members ------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        return ConsumerData(group_name=self.group, consume_type="CONSUME_POP",
                            consume_from_where=self.config.consume_from_where,
                            subscription_data_set=list(self._subscriptions.values()))

    def topics(self) -> Iterable[str]:
        return self._subscriptions

    def routes_changed(self) -> None:
        pass

    def request_handlers(self) -> dict[int, RequestHandler]:
        return {}


