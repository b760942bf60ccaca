"""Asks a name server: sticks with one that answers, goes on to the next when it does not."""

import random
import time

from regulus.client.connecting.connections import Connections
from regulus.client.core.addresses import Protocol, split_protocol
from regulus.client.core.resend import SendBudget
from regulus.errors import (
    ClientClosed,
    ClientError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    HostUnknown,
    NoNameServer,
    RequestTimeout,
    WrongNameServer,
)
from regulus.transport.connector import split_address
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

_KNOWN_TO_ALL = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO,
                 RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
"""What every name server answers: a server that does not know these is none."""

_CLOSES = ("; where it does so each time, it takes TLS only, wants a certificate of its clients, or is no name server, "
           "such as the port of RocketMQ 5 clients (grpc://host:port)")

KNOWS_BETTER_WAIT_MS = 500
"""How long another name server may take to tell a route that one does not know."""

SILENT_S = 30
"""For so long one that did not answer in that time is not asked again what another does not know."""


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses of `host:port;host:port`, with or without `rocketmq://` before them. Raises ConfigError."""
    protocol, rest = split_protocol(text)
    if protocol is not Protocol.REMOTING:
        raise ConfigError(f"{text} asks for {protocol}, which producers and consumers speak; what is asked for here "
                          f"needs the name servers, {Protocol.REMOTING}://host:port;host:port")
    addresses = tuple(part.strip() for part in rest.replace(",", ";").split(";") if part.strip())
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
        self._silent_until: dict[str, float] = {}
        self._connections = connections

    @property
    def current(self) -> str:
        """The address of the one that answered last."""
        return self._order[self._current]

    async def request(self, command: RemotingCommand, timeout_ms: int, *, doubts: int = 0) -> RemotingCommand:
        """The answer of the first name server that gives one. Raises NoNameServer when none does,
        WrongNameServer when none ever will.

        Each is asked once, the one that answered last first; those that are left share the time that is left. With
        `doubts`, how often what was answered has led nowhere, the first one is another each time. That a topic is not
        there is believed when nobody who answers soon knows better.
        """
        until = time.monotonic() + timeout_ms / 1000
        budget = SendBudget(attempts=len(self._order))
        first = self._current if doubts == 0 else doubts
        failures: list[str] = []
        are_wrong = True
        unknown: RemotingCommand | None = None
        for attempt in range(1, budget.attempts + 1):
            place = (first + attempt - 1) % budget.attempts
            address = self._order[place]
            if unknown is not None and self._silent_until.get(address, 0) > time.monotonic():
                continue
            left_ms = max(1, int((until - time.monotonic()) * 1000))
            wait_ms = budget.attempt_timeout_ms(attempt, left_ms)
            try:
                answer = await self._connections.request(
                    address, command, wait_ms if unknown is None else min(wait_ms, KNOWS_BETTER_WAIT_MS))
            except ClientClosed:
                raise
            except (ConnectFailed, ConnectionLost, RequestTimeout) as error:
                failures.append(f"{error}{_CLOSES}" if isinstance(error, ConnectionLost) else str(error))
                are_wrong = are_wrong and isinstance(error, HostUnknown)
                if isinstance(error, RequestTimeout):
                    self._silent_until[address] = time.monotonic() + SILENT_S
                continue
            self._silent_until.pop(address, None)
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and command.code in _KNOWN_TO_ALL:
                failures.append(f"{address} is no name server, and a broker most likely: give the address "
                                f"of the name server, whose port is 9876 unless it was set otherwise")
                continue
            is_known = answer.code != ResponseCode.TOPIC_NOT_EXIST or command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC
            if is_known or unknown is None:
                self._current = place
            if is_known:
                return answer
            unknown = unknown or answer
        if unknown is not None:
            return unknown
        refusal = WrongNameServer if are_wrong else NoNameServer
        raise refusal("no name server answers: " + "; ".join(failures))

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
