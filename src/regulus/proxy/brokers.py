"""The brokers and the name server behind the front: all that the front asks goes through this door.

Two of them: `local_broker`, in the broker's own process, and `cluster_brokers`, over connections.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from regulus.model.peer import Origin
from regulus.proxy.status import checked
from regulus.wire.bodies import ClusterInfo
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

NAME_SERVER = ""
"""In the place of a broker's name."""

OnRequest = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""A broker of this name asks its client; None: there is no answer to it."""


class Brokers(Protocol):
    """Answers are returned whatever their code."""

    on_request: OnRequest | None

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int,
                  origin: Origin | None = None) -> RemotingCommand:
        """What is stored for it is born at the `origin`; a broker in another process takes the front for that, as no
        request says more, but the property `__BORNHOST`.

        Raises CallRefused: PROXY_TIMEOUT when nothing answers in time, or no name server knows such a master;
        BAD_REQUEST for another broker than the one in this process."""

    def withdraw(self, broker: str, command: RemotingCommand) -> None:
        """Nobody waits any more for the answer to this one, which is asked: a broker that holds it and can be told lets
        it go, and its answer says that there is nothing. An answer that comes all the same is the asker's to take."""

    def is_ready(self) -> bool:
        """Whether there is one that can be asked, as far as is known."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def masters_of(brokers: Brokers, timeout_ms: int) -> list[str]:
    """Names of the brokers that have one, in their order. Raises CallRefused, HeaderError."""
    answer = await brokers.ask(NAME_SERVER, RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), timeout_ms)
    table = ClusterInfo.decode(checked(answer).body).broker_addr_table
    return sorted(name for name, data in table.items() if 0 in data.broker_addrs)
