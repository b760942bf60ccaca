"""The handle by which a waiting message is recalled: url-safe base64 of `v1 <topic> <brokerName> <timestamp> <unique
key>`.

Source: RecallMessageHandle.HandleV1.
"""

from base64 import b64decode
from binascii import b2a_base64
from typing import NamedTuple

from regulus.errors import HeaderError

HANDLE_SIZE_MAX = 1024
_VERSION = "v1"
_PARTS = 5
_TIMESTAMP_DIGITS_MAX = 18
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class RecallHandle(NamedTuple):
    topic: str
    broker_name: str
    timestamp: int
    """A time in ms within the tick in which the message is due."""
    unique_key: str


def encode(handle: RecallHandle) -> str:
    topic, broker_name, timestamp, unique_key = handle
    text = f"{_VERSION} {topic} {broker_name} {timestamp} {unique_key}"
    return b2a_base64(text.encode(), newline=False).translate(_URL_SAFE).decode()


def decode(text: str) -> RecallHandle:
    """Raises HeaderError for a malformed handle."""
    try:
        if len(text) > HANDLE_SIZE_MAX:
            raise ValueError
        parts = b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True).decode().split(" ")
        if len(parts) < _PARTS or parts[0] != _VERSION or not _is_timestamp(parts[3]):
            raise ValueError
    except ValueError:      # also if it is not base64, ASCII or UTF-8
        raise HeaderError("recall handle is invalid") from None
    return RecallHandle(parts[1], parts[2], int(parts[3]), parts[4])


def _is_timestamp(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _TIMESTAMP_DIGITS_MAX
