"""The brokers and the name server behind the proxy. The proxy sends all its requests through `Brokers`.

There are two implementations: `local_brokers` calls the broker in its own process, and `cluster_brokers` uses
connections.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from regulus.model.peer import Origin
from regulus.proxy.status import checked
from regulus.wire.bodies import ClusterInfo
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

NAME_SERVER = ""
"""Passed instead of a broker's name, it sends the request to the name server."""

OnRequest = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""Handles a request from the broker of this name. None means that the request gets no answer."""


class Brokers(Protocol):
    """The way to brokers and name servers. `ask` returns the answer whatever its response code."""

    on_request: OnRequest | None

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int,
                  origin: Origin | None = None) -> RemotingCommand:
        """Send a request and return the answer. Messages that it stores get `origin` as their born host. A broker in
        another process writes the proxy's address instead, and only the property `__BORNHOST` names the client.

        Raises CallRefused: PROXY_TIMEOUT if no answer comes in time or no name server knows a master of this name;
        BAD_REQUEST if the proxy serves only the broker in its own process, and another one is named."""

    def withdraw(self, broker: str, command: RemotingCommand) -> None:
        """Stop waiting for the answer to a request that was sent. A broker that holds the request and can be notified
        answers at once that it has found nothing. If another answer comes anyway, the caller of `ask` gets it."""

    def is_ready(self) -> bool:
        """Whether at least one broker can be asked, as far as is known."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def masters_of(brokers: Brokers, timeout_ms: int) -> list[str]:
    """Names of the brokers that have a master, sorted. Raises CallRefused, HeaderError."""
    answer = await brokers.ask(NAME_SERVER, RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), timeout_ms)
    table = ClusterInfo.decode(checked(answer).body).broker_addr_table
    return sorted(name for name, data in table.items() if 0 in data.broker_addrs)
