"""Durations and timestamps of protobuf, in ms."""

from typing import Any


def set_ms(target: Any, ms: int) -> None:
    """Let a duration or a timestamp be so many ms."""
    target.seconds, rest = divmod(ms, 1000)
    target.nanos = rest * 1_000_000


def get_ms(value: Any) -> int:
    return int(value.seconds * 1000 + value.nanos // 1_000_000)
