"""Free loopback ports for servers that must be told theirs, below those that the system gives to connections."""

from regulus.testing.running_server import free_port, free_ports

__all__ = ["free_broker_port", "free_ports"]


def free_broker_port() -> int:
    """A port whose neighbours are free too: a Java broker takes its port - 2 (fast) and + 1 (replication) besides."""
    return free_port((-2, 1))
