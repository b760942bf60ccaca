"""Free loopback ports for servers that must be told theirs."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    with ExitStack() as stack:
        return [_bound(stack, 0) for _ in range(count)]


def free_broker_port() -> int:
    """A port whose neighbours are free too: a Java broker takes its port - 2 (fast) and + 1 (replication) besides."""
    while True:
        with ExitStack() as stack:
            port = _bound(stack, 0)
            try:
                _bound(stack, port - 2)
                _bound(stack, port + 1)
            except OSError:
                continue
            return port


def _bound(stack: ExitStack, port: int) -> int:
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", port))
    bound: int = listener.getsockname()[1]
    return bound
