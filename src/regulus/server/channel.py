"""The receiver of notices and relayed requests: a client on a connection, or on a stream of another kind."""

from typing import Protocol

from regulus.model.peer import Peer
from regulus.wire.remoting_command import RemotingCommand


class Channel(Protocol):
    @property
    def peer(self) -> Peer: ...

    def send_soon(self, command: RemotingCommand) -> None:
        """Send without waiting for anything. Does nothing once the client has disconnected."""

    def write(self, data: bytes | memoryview) -> None:
        """Like `send_soon`, for frames that are already encoded."""

    async def request(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """The client's answer. Raises RequestTimeout, ConnectionLost."""
