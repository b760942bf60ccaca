"""What a sink left in a topic."""

import time
from collections.abc import Sequence
from typing import Protocol

from regulus.client.sync import Admin
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

PULL_SIZE = 1024
WAIT_MAX_S = 60


class Server(Protocol):
    @property
    def name_server_address(self) -> str: ...


def messages_of(server: Server, topic: str, wait_for: int = 0,
                queues: Sequence[MessageQueue] = ()) -> list[MessageExt]:
    """All messages of a topic, queue after queue; with `wait_for` once so many are there in all.

    Of topics that have no route, `queues` are named.
    """
    found: dict[MessageQueue, list[MessageExt]] = {}
    until = time.monotonic() + WAIT_MAX_S
    with Admin(server.name_server_address) as admin:
        queues = queues or admin.queues(topic)
        while True:
            for queue in queues:
                take_all(admin, queue, found.setdefault(queue, []))
            count = sum(len(messages) for messages in found.values())
            if count >= wait_for or time.monotonic() > until:
                return [message for queue in queues for message in found[queue]]
            # One queue is waited at; the broker answers as soon as something comes in there.
            admin.pull(queues[0], len(found[queues[0]]), 1, suspend_ms=200)


def take_all(admin: Admin, queue: MessageQueue, messages: list[MessageExt]) -> None:
    """Add what the queue has behind the messages taken before."""
    while True:
        pulled = admin.pull(queue, len(messages), PULL_SIZE)
        messages += pulled.messages
        if not pulled.messages:
            return
