"""What stands at a place of a queue: when it was stored, and under which id.

A log that lost its end, as after a power failure, goes on from where it was cut: the same numbers, other messages. Two
marks of one place tell that; numbers alone do not.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.timestamps import dated


class Mark(NamedTuple):
    """`store_time` in ms; `id` is the client's unique key, or the broker's id of a message that has none."""

    store_time: int
    id: str

    def __str__(self) -> str:
        """As errors say it."""
        stored = datetime.fromtimestamp(self.store_time / 1000, UTC).isoformat(timespec="milliseconds")
        return f"{self.id}, stored at {stored}"


def mark_of(message: MessageExt) -> Mark:
    return Mark(dated(message.store_timestamp),
                message.message_id or offset_message_id(message.store_host, message.physical_offset))
