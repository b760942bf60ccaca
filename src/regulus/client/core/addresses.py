"""Parses the address of a client: `rocketmq://host:port;host:port` or `grpc://host:port`.

An address without a protocol is the address of name servers, as in RocketMQ's clients.
"""

from enum import StrEnum

from regulus.errors import ConfigError

_MARK = "://"


class Protocol(StrEnum):
    REMOTING = "rocketmq"
    """RocketMQ's own protocol; the address names name servers."""
    GRPC = "grpc"
    """The protocol of RocketMQ 5's clients; the address names a proxy, or a broker with a gRPC port."""


def split_protocol(address: str) -> tuple[Protocol, str]:
    """The protocol of an address, and the rest. Raises ConfigError."""
    if not isinstance(address, str):
        raise ConfigError(f"the name server address is {address!r}; write a text, host:port;host:port, or "
                          "grpc://host:port")
    protocol, mark, rest = address.strip().partition(_MARK)
    if not mark:
        return Protocol.REMOTING, address
    if protocol not in list(Protocol):
        raise ConfigError(f"the address {address} begins with {protocol}{_MARK}; write "
                          f"{' or '.join(each + _MARK for each in Protocol)}")
    return Protocol(protocol), rest


def grpc_targets(address: str) -> tuple[str, ...]:
    """The `host:port` parts of an address without its protocol; each of them may be used. Raises ConfigError."""
    targets = tuple(part.strip() for part in address.replace(",", ";").split(";") if part.strip())
    for target in targets:
        host, colon, port = target.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= 0xFFFF):
            raise ConfigError(f"the address {target!r} is not host:port")
    if not targets:
        raise ConfigError("the address is empty; write grpc://host:port")
    return targets
