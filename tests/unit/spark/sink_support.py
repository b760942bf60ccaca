"""What a sink left in a topic."""

from typing import Protocol

from regulus.client.sync import Admin
from regulus.model.message import MessageExt

PULL_SIZE = 1024


class Server(Protocol):
    @property
    def name_server_address(self) -> str: ...


def messages_of(server: Server, topic: str, wait_for: int = 0) -> list[MessageExt]:
    """All messages of a topic, queue after queue; each queue is waited for until so many are there in all."""
    found: list[MessageExt] = []
    with Admin(server.name_server_address) as admin:
        for queue in admin.queues(topic):
            offset = 0
            while True:
                pulled = admin.pull(queue, offset, PULL_SIZE, suspend_ms=5000 if len(found) < wait_for else 0)
                found += pulled.messages
                if pulled.next_offset == offset:
                    break
                offset = pulled.next_offset
                if offset >= pulled.max_offset and len(found) >= wait_for:
                    break
    return found
