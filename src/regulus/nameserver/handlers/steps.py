"""An answer that may take many steps: yields after each but the last."""

from collections.abc import Generator

from regulus.wire.remoting_command import RemotingCommand

Steps = Generator[None, None, RemotingCommand]
