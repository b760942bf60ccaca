"""Asks a name server: sticks with one that answers, goes on to the next when it does not."""

import logging
import random

from regulus.client.connections import Connections
from regulus.errors import (
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    NoNameServer,
    RequestTimeout,
)
from regulus.transport.connector import split_address
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses of `host:port;host:port`. Raises ConfigError."""
    addresses = tuple(part.strip() for part in text.replace(",", ";").split(";") if part.strip())
    if not addresses:
        raise ConfigError("the name server address is empty; write host:port;host:port")
    for address in addresses:
        try:
            split_address(address)
        except ValueError as error:
            raise ConfigError(f"name server {error}") from error
    return addresses


class NameServers:
    """Name servers do not know each other, so any of them may be asked and some calls go to all."""

    def __init__(self, addresses: tuple[str, ...], connections: Connections) -> None:
        self.addresses = addresses
        self._order = random.sample(addresses, len(addresses))
        self._current = 0
        self._connections = connections

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The answer of the first name server that gives one. Raises NoNameServer when none does."""
        failures: list[str] = []
        for _ in self._order:
            address = self._order[self._current]
            try:
                return await self._connections.request(address, command, timeout_ms)
            except ClientClosed:
                raise
            except (ConnectFailed, ConnectionLost, RequestTimeout) as error:
                failures.append(str(error))
                self._current = (self._current + 1) % len(self._order)
        raise NoNameServer("no name server answers: " + "; ".join(failures))

    async def request_all(self, command: RemotingCommand, timeout_ms: int) -> list[RemotingCommand]:
        """The answers of all name servers. Raises the first ClientError, after all have been asked."""
        answers: list[RemotingCommand] = []
        failure: ClientError | None = None
        for address in self.addresses:
            try:
                answers.append(await self._connections.request(address, command, timeout_ms))
            except ClientError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return answers
