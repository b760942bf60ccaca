"""Transaction ids, which say where the half message is stored, so that any proxy can end the transaction.

    <unique key>@<broker>@<offset in the half queue>@<physical offset>

Clients do not read them. The broker compares the message at that place with the request, and with access control its
unique key as well.
"""

import re
from typing import NamedTuple

from regulus.errors import CallRefused
from regulus.wire.grpc.codes import Code

_UNIQUE_KEY = r"[^@\x00-\x20]{1,128}"
_FORM = re.compile(rf"({_UNIQUE_KEY})@([^@\x00-\x20]{{1,255}})@(\d{{1,19}})@(\d{{1,19}})", re.ASCII)


class TransactionId(NamedTuple):
    """Where a half message is stored: its broker, its offset in the half queue, and its offset in the commit log."""

    unique_key: str
    broker: str
    half_offset: int
    physical_offset: int

    def text(self) -> str:
        return f"{self.unique_key}@{self.broker}@{self.half_offset}@{self.physical_offset}"


def may_be_unique_key(text: str) -> bool:
    """Whether `parse` can read a transaction id with this unique key."""
    return re.fullmatch(_UNIQUE_KEY, text) is not None


def parse(text: str) -> TransactionId:
    """Read an id that a client sent. Raises CallRefused INVALID_TRANSACTION_ID."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise CallRefused(Code.INVALID_TRANSACTION_ID, f"{text[:80]!r} is not a transaction id of this server")
    key, broker, half_offset, physical_offset = match.groups()
    return TransactionId(key, broker, int(half_offset), int(physical_offset))
