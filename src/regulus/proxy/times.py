"""Reads times that a client sends, in ms."""


from regulus.errors import CallRefused
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.grpc.times import get_ms

_SECONDS_MAX = 315_576_000_000
"""Largest number of seconds in a protobuf duration, about 10,000 years."""


def ms_of(value: messages.Duration | messages.Timestamp) -> int:
    """The ms of a duration or a timestamp. Raises CallRefused if its fields are out of range."""
    if not -_SECONDS_MAX <= value.seconds <= _SECONDS_MAX or not -999_999_999 <= value.nanos <= 999_999_999:
        raise CallRefused(Code.BAD_REQUEST, f"{value.seconds} s and {value.nanos} ns are not a valid time")
    return get_ms(value)
