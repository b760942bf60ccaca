"""The type of an answer that may take many steps: it yields after each step but the last."""

from collections.abc import Generator

from regulus.wire.remoting_command import RemotingCommand

Steps = Generator[None, None, RemotingCommand]
