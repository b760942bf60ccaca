"""Identifies the message at a place of a queue by its store time and id.

A log that lost its end, as after a power failure, continues from where it was cut: with the same numbers, but other
messages. Comparing two marks of one place shows that; numbers alone do not.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id
from regulus.model.timestamps import dated


class Mark(NamedTuple):
    """Identifies a message. `store_time` is in ms; `id` is the client's unique key, or without one the broker's id."""

    store_time: int
    id: str

    def __str__(self) -> str:
        """The text for errors."""
        stored = datetime.fromtimestamp(self.store_time / 1000, UTC).isoformat(timespec="milliseconds")
        return f"{self.id}, stored at {stored}"


def mark_of(message: MessageExt) -> Mark:
    return Mark(dated(message.store_timestamp),
                message.message_id or offset_message_id(message.store_host, message.physical_offset))
