"""Timestamps of messages: ms since 1970. A damaged record or a foreign sender may contain any number."""

from datetime import UTC, datetime, timedelta

DATED_MAX_MS = 253_402_214_400_000
"""Midnight before the last day of the year 9999, UTC: the end of the calendar, less the difference between time
zones."""


def dated(timestamp_ms: int) -> int:
    """The nearest timestamp from 1970 on that has a date in every time zone."""
    return min(max(timestamp_ms, 0), DATED_MAX_MS)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def milliseconds_of(moment: datetime) -> int:
    """The ms that contains a moment with a time zone. Integers only: seconds in floating point are one ms too early for
    one time in 160."""
    return (moment - _EPOCH) // _MS


YEAR_2000_MS = 946_684_800_000


def may_be_ms(number: int) -> bool:
    """Whether a number can be ms since 1970, rather than seconds: seconds taken for ms give a date older than any
    message. 0 means the beginning."""
    return number <= 0 or number >= YEAR_2000_MS
