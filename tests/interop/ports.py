"""Free loopback ports for servers that must be told theirs, below those that the system gives to connections."""

import random
import socket
from contextlib import ExitStack

_LOWEST, _HIGHEST = 15_000, 30_000      # Linux gives 32768 and above to outgoing connections
_given: set[int] = set()                # each once, with its neighbours: its server may start later, or be down a while


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    return [_free_with_neighbours(()) for _ in range(count)]


def free_broker_port() -> int:
    """A port whose neighbours are free too: a Java broker takes its port - 2 (fast) and + 1 (replication) besides."""
    return _free_with_neighbours((-2, 1))


def _free_with_neighbours(neighbours: tuple[int, ...]) -> int:
    while True:
        port = random.randrange(_LOWEST, _HIGHEST)
        taken = {port, *(port + distance for distance in neighbours)}
        if taken & _given:
            continue
        with ExitStack() as stack:
            try:
                for each in taken:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", each))
            except OSError:
                continue
            _given.update(taken)
            return port
