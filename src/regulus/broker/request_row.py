"""A row of the request table: all facts about one request, each written once.

No fact has a default, so that adding a request means deciding each of them.
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
    """Brokers that answer a request."""

    ANYWHERE = "anywhere"
    """All brokers, including a slave whose log differs from its master's: the answer does not come from the log, and
    the request does not change the log. When in doubt, a request is SOUND_LOG."""
    SOUND_LOG = "sound log"
    """A master, and a slave whose log is a copy of its master's."""
    MASTER = "master"
    """Only a master: a slave gets messages, settings and offsets from its master."""


class SavedFirst(Enum):
    """What must be saved before a successful answer is sent."""

    EVERY_CHANGE = "every change"
    """All earlier changes: success means that the setting is saved, even if it had the value before."""
    WHAT_IT_USED = "what it used"
    """The topics and groups that the handler created, changed or used."""
    BY_ITSELF = "by itself"
    """Nothing: the handler waits by itself, or its answer does not depend on saved data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that a handler answers. `header` reads its ext fields; None if it has none."""

    code: RequestCode
    header: HeaderClass | None
    handler: Handler
    needs: Names | Decoded | Read
    where: Where | Callable[[RemotingCommand], Where]
    saved_first: SavedFirst


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that is always refused by name; `reason` is what the client reads."""

    code: RequestCode
    needs: Read
    reason: str


Row = Answered | Refused
