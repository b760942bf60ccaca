"""Whom notices and relays reach: a client behind a connection, or behind a stream of another kind."""

from typing import Protocol

from regulus.model.peer import Peer
from regulus.wire.remoting_command import RemotingCommand


class Channel(Protocol):
    @property
    def peer(self) -> Peer: ...

    def send_soon(self, command: RemotingCommand) -> None:
        """Send without waiting for anything. Does nothing once the client is gone."""

    def write(self, data: bytes | memoryview) -> None:
        """The same of frames that are made already."""

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The client's answer. Raises RequestTimeout, ConnectionLost."""
