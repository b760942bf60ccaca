"""What a handler decided; the server carries it out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from regulus.wire.remoting_command import Buffer, RemotingCommand


class Answer(Protocol):
    """What a RemotingCommand and a Frame have in common."""

    def encode_parts(self) -> list[Buffer]:
        """The whole frame as buffers to write one after the other."""


class Frame:
    """A whole answer that is encoded already."""

    __slots__ = ("octets",)

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def encode_parts(self) -> list[Buffer]:
        return [self.octets]


class Reply:
    """Send `answer` once the log is durable up to `durable_at`, a physical offset; 0: now.

    When the disk takes too long, the same answer leaves with FLUSH_DISK_TIMEOUT.
    """

    __slots__ = ("answer", "durable_at")

    def __init__(self, answer: Answer, durable_at: int = 0) -> None:
        self.answer = answer
        self.durable_at = durable_at


def reply_frame(octets: bytes, durable_at: int) -> Reply:
    """Reply(Frame(octets), durable_at): past the constructors, whose calls cost more than both objects."""
    frame = Frame.__new__(Frame)
    frame.octets = octets
    reply = Reply.__new__(Reply)
    reply.answer = frame
    reply.durable_at = durable_at
    return reply


class ReplyWhenSaved:
    """`reply` once that many changes of topics and groups are saved; a refusal when they cannot be saved."""

    __slots__ = ("change", "reply")

    def __init__(self, reply: Reply, change: int) -> None:
        self.reply = reply
        self.change = change


class Hold:
    """Nothing now: the broker keeps the request and answers through its notices."""

    __slots__ = ()


class NoReply:
    """Nothing at all."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Ask the client on `channel` with `request`; `answer` makes our response of its answer, or of None on a timeout.

    `answer` may make another relay instead, to ask the next client.
    """

    channel: int
    request: RemotingCommand
    answer: Callable[[RemotingCommand | None], "RemotingCommand | Relay"]
    timeout_ms: int


Outcome = Reply | ReplyWhenSaved | Hold | NoReply | Relay

HOLD = Hold()
NO_REPLY = NoReply()


def when_saved(outcome: Outcome, change: int) -> Outcome:
    """The same, but no yes before that many changes are saved."""
    return ReplyWhenSaved(outcome, change) if isinstance(outcome, Reply) else outcome


def refuse(request: RemotingCommand, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
    """Answer that the request was not done; `remark` is what the operator or client gets to read."""
    return Reply(request.response(int(code), remark, ext))



@dataclass(frozen=True, slots=True)
class Notice:
    """Something others must hear: a one-way request to a client, or the late answer to a held request."""

    channel: int
    command: RemotingCommand
