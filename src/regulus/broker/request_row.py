"""What a row of the request table says: all facts of one request, each written once.

There is no default: whoever adds a request decides about each fact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from regulus.access.needs import Decoded, HeaderClass, Names, Read
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

Handler = Callable[[RemotingCommand, Peer, BrokerState, int], Outcome]


class Where(Enum):
    """Which brokers answer a request."""

    ANYWHERE = "anywhere"
    """Also a slave whose log parted from its master's: nothing of the answer comes from the log, and nothing that the
    request does changes the log. When in doubt, a request is SOUND_LOG."""
    SOUND_LOG = "sound log"
    """A master, and a slave whose log is its master's."""
    MASTER = "master"
    """A master alone: a slave has messages, settings and places from its master."""


class SavedFirst(Enum):
    """What must be saved before a yes leaves."""

    EVERY_CHANGE = "every change"
    """All that changed before: a yes means that the setting is so and saved, also where it had been so already."""
    WHAT_IT_USED = "what it used"
    """The topics and groups that the handler made, changed or used."""
    BY_ITSELF = "by itself"
    """The handler sees to it, or says nothing that would need to be saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that a handler answers. `header` reads its ext fields; None where it has none."""

    code: RequestCode
    header: HeaderClass | None
    handler: Handler
    needs: Names | Decoded | Read
    where: Where | Callable[[RemotingCommand], Where]
    saved_first: SavedFirst


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that is refused by name, whoever asks; `reason` is what its asker reads."""

    code: RequestCode
    needs: Read
    reason: str


Row = Answered | Refused
