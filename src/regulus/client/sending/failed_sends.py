"""Hands sends that failed for good to a hook of the producer, which may take their messages over."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from regulus.client.foreign_calls import call_anywhere
from regulus.client.send_result import SendResult
from regulus.errors import ClientError, MessageIllegal, SendKept
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue

_log = logging.getLogger(__name__)


class FailedSend(NamedTuple):
    """`batches`: the messages of each request; a plain send is one batch of one message. Each message has its unique
    key. `queue`: the queue if the application chose one."""

    batches: Sequence[Sequence[Message]]
    queue: MessageQueue | None
    error: ClientError

    @property
    def messages(self) -> list[Message]:
        return [message for batch in self.batches for message in batch]

    @property
    def topic(self) -> str:
        return self.batches[0][0].topic


OnSendFailed = Callable[[FailedSend], Awaitable[bool | None] | bool | None]
"""Called when a send has failed for good. True: the messages are taken over, and the send raises SendKept.

If the hook raises a ClientError, the send raises that instead of its failure; any other exception is logged. A
coroutine function runs in the event loop, any other function in a thread.
"""

SendAgain = Callable[[Sequence[Message], MessageQueue | None], Awaitable[SendResult]]
"""A producer's function for sending kept messages again, which does not call the hook."""


class SendKeeper(ABC):
    """A hook that its producer starts and shuts down, and that sends again through the producer."""

    @abstractmethod
    async def start(self, send: SendAgain) -> None: ...

    @abstractmethod
    async def shutdown(self) -> None: ...

    @abstractmethod
    async def __call__(self, failed: FailedSend) -> bool: ...


async def hand_over(hook: OnSendFailed, failed: FailedSend) -> ClientError | MessageIllegal:
    """Offer the messages to the hook; returns the error that the send raises."""
    answer, raised = await call_anywhere(hook, failed)
    if isinstance(raised, ClientError | MessageIllegal):
        return raised
    if raised is not None:
        _log.error("on_send_failed raised for a send to %s, which stays failed", failed.topic, exc_info=raised)
    if answer is not True:
        return failed.error
    return SendKept(f"the send to {failed.topic} failed, and is kept to be sent again: {failed.error}",
                    failed.error.code)
