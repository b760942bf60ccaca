"""The interface to receive messages for an invisible time, independent of the protocol."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from regulus.client.received_message import ReceivedMessage
from regulus.model.failure_causes import Cause
from regulus.model.message import MessageExt
from regulus.wire.bodies import SubscriptionData

INVISIBLE_MS_MAX = 12 * 3_600_000

ConsumeDirectly = Callable[[MessageExt], Awaitable[bool]]
"""Calls the listener once with a message at the request of an operator; returns whether it succeeded."""


class ReceiveRules(NamedTuple):
    """The group's settings at the server. `retry_delays_ms`: the delays before the next delivery, by the number of
    failed deliveries; the last one repeats."""

    is_orderly: bool
    deliveries_max: int
    retry_delays_ms: Sequence[int]

    def retry_delay_ms(self, delivery_attempt: int) -> int:
        return self.retry_delays_ms[max(1, min(delivery_attempt, len(self.retry_delays_ms))) - 1]


class Receive(NamedTuple):
    """A request to receive. `is_prolonged`: the messages must stay invisible until they are done; the server prolongs
    their time if it can."""

    subscription: SubscriptionData
    broker: str
    messages_max: int
    invisible_ms: int
    await_ms: int
    is_prolonged: bool = False
    attempt_id: str = ""


class Receiver(Protocol):
    """Receives and acknowledges messages. The methods raise ClientError; those that take a message raise ReceiptInvalid
    if it is no longer ours."""

    prolongs: bool
    """Whether the server keeps messages invisible until they are done, if they were received with `is_prolonged`."""
    consume_directly: "ConsumeDirectly | None"
    """Called when a server asks for a direct call of the listener."""

    @property
    def client_id(self) -> str: ...

    @property
    def rules(self) -> ReceiveRules:
        """Known after the start."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def subscriptions_changed(self) -> None: ...

    async def brokers(self, topic: str) -> Sequence[str]:
        """Names of the brokers that have messages of the topic; empty when no broker has it. Raises ClientError."""

    async def receive(self, asked: Receive) -> list[ReceivedMessage]:
        """The received messages; empty when none came in time. Messages with a tag outside the subscription are left
        out, and acknowledged."""

    async def ack(self, message: ReceivedMessage) -> None: ...

    async def change_invisible(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """Let the message be invisible for this time from now on; it gets a new receipt."""

    async def dead_letter(self, message: ReceivedMessage, deliveries_max: int, cause: Cause) -> None:
        """Move the message to the group's dead letters, with the cause if the protocol has it, and acknowledge it."""
