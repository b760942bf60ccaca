"""Types for offsets, because an `int` alone does not say what it counts."""

from typing import NewType

PhysicalOffset = NewType("PhysicalOffset", int)
"""Byte position in the whole commit log."""

QueueOffset = NewType("QueueOffset", int)
"""Message number in one queue."""

ConsumerOffset = NewType("ConsumerOffset", int)
"""Queue offset of the message that a group consumes next."""
