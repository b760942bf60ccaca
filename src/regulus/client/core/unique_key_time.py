"""Estimates when a unique key was made: the key has the ms since its month began, but not the month.

Source: MessageClientIDSetter.getNearlyTimeFromID.
"""

from datetime import datetime, timedelta

from regulus.model.message_id import unique_key_month_ms

_SLACK_MS = 1000


def search_from_ms(unique_key: str, now_ms: int) -> int:
    """A time just before the key was made, if it was made within the last month; 0 for a text that is not a unique
    key."""
    return max(0, made_ms(unique_key, now_ms) - _SLACK_MS)


def made_ms(unique_key: str, now_ms: int) -> int:
    """When the key was made, if it was made within the last month; 0 for a text that is not a unique key."""
    try:
        month_ms = unique_key_month_ms(unique_key)
    except ValueError:
        return 0
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    made = int(month.timestamp() * 1000) + month_ms
    if made > now_ms:
        month = (month - timedelta(days=1)).replace(day=1)
        made = int(month.timestamp() * 1000) + month_ms
    return max(0, made)
