"""The brokers and the name server behind the front: all that the front asks goes through this door.

Two of them: `local_broker`, in the broker's own process, and `cluster_brokers`, over connections.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from regulus.wire.remoting_command import RemotingCommand

NAME_SERVER = ""
"""In the place of a broker's name."""

OnRequest = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""A broker of this name asks its client; None: there is no answer to it."""


class Brokers(Protocol):
    """Answers are returned whatever their code."""

    on_request: OnRequest | None

    async def ask(self, broker: str, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Raises CallRefused: PROXY_TIMEOUT when nothing answers in time, BAD_REQUEST for a broker nobody knows."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...
