"""Durations and timestamps of protobuf, in ms."""

from regulus.wire.grpc import messages


def set_ms(target: messages.Duration | messages.Timestamp, ms: int) -> None:
    """Let a duration or a timestamp be so many ms."""
    target.seconds, rest = divmod(ms, 1000)
    target.nanos = rest * 1_000_000


def get_ms(value: messages.Duration | messages.Timestamp) -> int:
    return value.seconds * 1000 + value.nanos // 1_000_000
