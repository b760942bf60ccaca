"""Times as messages have them: ms since 1970. A damaged record or a foreign sender may state any number."""

DATED_MAX_MS = 253_402_214_400_000
"""Midnight before the last day of the year 9999, UTC: the calendar's end, less what time zones differ."""


def dated(timestamp_ms: int) -> int:
    """The nearest time from 1970 on that has a date in every time zone."""
    return min(max(timestamp_ms, 0), DATED_MAX_MS)
