"""Identity of a client process: its address, client ids, unique keys. Source: MessageClientIDSetter, ClientConfig."""

import os
import random
import socket
import time
from functools import cache
from itertools import count

from regulus.model.message import Message
from regulus.model.message_id import UniqueKeySource, host_bytes
from regulus.model.message_properties import UNIQUE_KEY

_instances = count(time.monotonic_ns())
_MONTH_ENDS_UNKNOWN = -1


@cache
def local_address() -> str:
    """The address of the interface that reaches other machines; 127.0.0.1 when there is none. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def new_instance_name() -> str:
    """`<process id>#<number>`, different for each call."""
    return f"{os.getpid()}#{next(_instances)}"


def client_id(address: str, instance_name: str, unit_name: str = "") -> str:
    return f"{address}@{instance_name}@{unit_name}" if unit_name else f"{address}@{instance_name}"


class UniqueKeys:
    """Makes the unique keys of messages. The counter starts at a random number and wraps at 16 bits."""

    def __init__(self, address: str) -> None:
        self._source = UniqueKeySource(host_bytes(address, 0)[:-4], os.getpid(), random.getrandbits(31))
        self._counter = random.getrandbits(16)
        self._month_start_ms = 0
        self._month_end_ms = _MONTH_ENDS_UNKNOWN

    def give(self, message: Message, now_ms: int) -> str:
        """The message's unique key; a new one is set unless it has one from an earlier send."""
        key = message.properties.get(UNIQUE_KEY)
        if key is None:
            key = message.properties[UNIQUE_KEY] = self.make(now_ms)
        return key

    def make(self, now_ms: int) -> str:
        if now_ms >= self._month_end_ms or now_ms < self._month_start_ms:
            self._month_start_ms, self._month_end_ms = _month_bounds_ms(now_ms)
        self._counter += 1
        return self._source.unique_key(now_ms - self._month_start_ms, self._counter)


def _month_bounds_ms(now_ms: int) -> tuple[int, int]:
    """Start and end of the month in local time."""
    now = time.localtime(now_ms / 1000)
    start = time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    end = time.mktime((now.tm_year, now.tm_mon + 1, 1, 0, 0, 0, 0, 0, -1))
    return int(start * 1000), int(end * 1000)
