"""Times of protobuf and ms since 1970, both ways."""

from typing import Any

from regulus.errors import CallRefused
from regulus.wire.grpc.codes import Code

_SECONDS_MAX = 315_576_000_000
"""About 10,000 years: what a protobuf duration may have."""


def ms_of(value: Any) -> int:
    """Of a duration or a timestamp. Raises CallRefused for what is none."""
    if not -_SECONDS_MAX <= value.seconds <= _SECONDS_MAX or not -999_999_999 <= value.nanos <= 999_999_999:
        raise CallRefused(Code.BAD_REQUEST, f"{value.seconds} s and {value.nanos} ns are no time")
    return int(value.seconds * 1000 + value.nanos // 1_000_000)


def set_ms(target: Any, ms: int) -> None:
    """Let a duration or a timestamp be so many ms."""
    target.seconds, rest = divmod(ms, 1000)
    target.nanos = rest * 1_000_000
