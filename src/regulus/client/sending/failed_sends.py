"""What becomes of a send that failed for good: a hook of the producer may take its messages over."""

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
    """`batches`: what would have been a request each; a plain send is one batch of one message. Each message has its
    unique key. `queue`: the one that the application chose."""

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
"""Called once a send has failed for good. True: the messages are taken over, and the send raises SendKept.

A ClientError of its own is raised in place of the failure; what else it raises is logged. A coroutine function runs in
the event loop, any other function in a thread.
"""

SendAgain = Callable[[Sequence[Message], MessageQueue | None], Awaitable[SendResult]]
"""A producer's way to send what was kept, which calls no hook."""


class SendKeeper(ABC):
    """A hook that lives with its producer, and sends again through it."""

    @abstractmethod
    async def start(self, send: SendAgain) -> None: ...

    @abstractmethod
    async def shutdown(self) -> None: ...

    @abstractmethod
    async def __call__(self, failed: FailedSend) -> bool: ...


async def hand_over(hook: OnSendFailed, failed: FailedSend) -> ClientError | MessageIllegal:
    """Let the hook have the messages; what the caller of the send is told."""
    answer, raised = await call_anywhere(hook, failed)
    if isinstance(raised, ClientError | MessageIllegal):
        return raised
    if raised is not None:
        _log.error("on_send_failed raised for a send to %s, which stays failed", failed.topic, exc_info=raised)
    if answer is not True:
        return failed.error
    return SendKept(f"the send to {failed.topic} failed, and is kept to be sent again: {failed.error}",
                    failed.error.code)
