"""Where a client is to connect to, and what is spoken there: `rocketmq://host:port;host:port`, `grpc://host:port`.

An address without either is that of name servers, as RocketMQ's clients have it.
"""

from enum import StrEnum

from regulus.errors import ConfigError

_MARK = "://"


class Protocol(StrEnum):
    REMOTING = "rocketmq"
    """RocketMQ's own protocol; the address is that of name servers."""
    GRPC = "grpc"
    """That of RocketMQ 5's clients; the address is that of a proxy, or of a broker with a gRPC port."""


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
    """The `host:port` of an address without its protocol, any of which may be asked. Raises ConfigError."""
    targets = tuple(part.strip() for part in address.replace(",", ";").split(";") if part.strip())
    for target in targets:
        host, colon, port = target.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= 0xFFFF):
            raise ConfigError(f"the address {target!r} is no host:port")
    if not targets:
        raise ConfigError("the address is empty; write grpc://host:port")
    return targets
