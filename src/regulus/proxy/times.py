"""Times that a client names, in ms."""


from regulus.errors import CallRefused
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code
from regulus.wire.grpc.times import get_ms

_SECONDS_MAX = 315_576_000_000
"""About 10,000 years: what a protobuf duration may have."""


def ms_of(value: messages.Duration | messages.Timestamp) -> int:
    """Of a duration or a timestamp. Raises CallRefused for what is none."""
    if not -_SECONDS_MAX <= value.seconds <= _SECONDS_MAX or not -999_999_999 <= value.nanos <= 999_999_999:
        raise CallRefused(Code.BAD_REQUEST, f"{value.seconds} s and {value.nanos} ns are no time")
    return get_ms(value)
