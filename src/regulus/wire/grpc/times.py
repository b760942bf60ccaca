"""Converts durations and timestamps of protobuf from and to ms."""

from regulus.wire.grpc import messages


def set_ms(target: messages.Duration | messages.Timestamp, ms: int) -> None:
    """Set a duration, or a timestamp since 1970, to a number of ms, which may be negative."""
    target.seconds, rest = divmod(ms, 1000)
    target.nanos = rest * 1_000_000


def get_ms(value: messages.Duration | messages.Timestamp) -> int:
    return value.seconds * 1000 + value.nanos // 1_000_000
