"""The door to the protocols: how messages are received for a time, whatever is spoken."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from regulus.client.received_message import ReceivedMessage
from regulus.model.message import MessageExt
from regulus.wire.bodies import SubscriptionData

INVISIBLE_MS_MAX = 12 * 3_600_000

ConsumeDirectly = Callable[[MessageExt], Awaitable[bool]]
"""Have the listener called once with a message, as an operator asked for: whether it succeeded."""


class ReceiveRules(NamedTuple):
    """What the server says of the group. `retry_delays_ms`: until the next delivery, by the number of deliveries that
    failed; the last one repeats."""

    is_orderly: bool
    deliveries_max: int
    retry_delays_ms: Sequence[int]

    def retry_delay_ms(self, delivery_attempt: int) -> int:
        return self.retry_delays_ms[max(1, min(delivery_attempt, len(self.retry_delays_ms))) - 1]


class Receive(NamedTuple):
    """`is_prolonged`: the message is to stay invisible until it is done; where the server sees to that, it does."""

    subscription: SubscriptionData
    broker: str
    messages_max: int
    invisible_ms: int
    await_ms: int
    is_prolonged: bool = False
    attempt_id: str = ""


class Receiver(Protocol):
    """All but `brokers` raise ClientError; ReceiptInvalid for a message that is not ours any more."""

    prolongs: bool
    """The server keeps invisible what was received so, until it is done."""
    consume_directly: "ConsumeDirectly | None"
    """For servers that ask for it."""

    @property
    def client_id(self) -> str: ...

    @property
    def rules(self) -> ReceiveRules:
        """Known once it was started."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def subscriptions_changed(self) -> None: ...

    async def brokers(self, topic: str) -> Sequence[str]:
        """The names of those that have messages of the topic; none where nobody knows it. Raises ClientError."""

    async def receive(self, asked: Receive) -> list[ReceivedMessage]:
        """Empty where none came in time. Those of which one tag alone was not asked for are done already."""

    async def ack(self, message: ReceivedMessage) -> None: ...

    async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """From now on; the message gets its new receipt."""

    async def dead_letter(self, message: ReceivedMessage, deliveries_max: int) -> None:
        """It is among the group's dead letters, and acknowledged."""
