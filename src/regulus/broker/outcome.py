"""What a handler decided; the server carries it out."""

from collections.abc import Callable
from dataclasses import dataclass

from regulus.wire.remoting_command import Buffer, RemotingCommand


class Reply:
    """Send `answer` once the log is durable up to `durable_at`, a physical offset; 0: now.

    An answer that is bytes is a whole frame, encoded already. When the disk takes too long, the same answer leaves with
    FLUSH_DISK_TIMEOUT.
    """

    __slots__ = ("answer", "durable_at")

    def __init__(self, answer: RemotingCommand | bytes, durable_at: int = 0) -> None:
        self.answer = answer
        self.durable_at = durable_at

    def encode_parts(self) -> list[Buffer]:
        """The frame of the answer as buffers to write one after the other."""
        return [self.answer] if isinstance(self.answer, bytes) else self.answer.encode_parts()


def reply_frame(frame: bytes, durable_at: int) -> Reply:
    """Reply(frame, durable_at), past the constructor, whose call costs more than the object."""
    reply = Reply.__new__(Reply)
    reply.answer = frame
    reply.durable_at = durable_at
    return reply


Unsent = Callable[[int], None]
"""Called with the time of day where an answer reaches nobody: what it handed out is given back."""


class FirmReply:
    """`reply`, which waits for the log, and leaves as it is where that takes too long: what it says is so in any case,
    and a refusal would do more harm. Of pops: their messages would come again, and nobody would have seen them."""

    __slots__ = ("reply", "unsent")

    def __init__(self, reply: Reply, unsent: Unsent | None = None) -> None:
        self.reply = reply
        self.unsent = unsent


class ReplyWhenSaved:
    """`reply` once that many changes of topics and groups are saved; a refusal when they cannot be saved. `is_firm`,
    `unsent`: it is that of a FirmReply."""

    __slots__ = ("change", "is_firm", "reply", "unsent")

    def __init__(self, reply: Reply, change: int, is_firm: bool = False, unsent: Unsent | None = None) -> None:
        self.reply = reply
        self.change = change
        self.is_firm = is_firm
        self.unsent = unsent


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


Outcome = Reply | FirmReply | ReplyWhenSaved | Hold | NoReply | Relay

HOLD = Hold()
NO_REPLY = NoReply()


def firm(answer: RemotingCommand, durable_at: int) -> Reply | FirmReply:
    """A FirmReply where it waits at all."""
    reply = Reply(answer, durable_at)
    return FirmReply(reply) if durable_at else reply


def when_saved(outcome: Outcome, change: int) -> Outcome:
    """The same, but no yes before that many changes are saved."""
    if isinstance(outcome, FirmReply):
        return ReplyWhenSaved(outcome.reply, change, is_firm=True, unsent=outcome.unsent)
    return ReplyWhenSaved(outcome, change) if isinstance(outcome, Reply) else outcome


def refuse(request: RemotingCommand, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
    """Answer that the request was not done; `remark` is what the operator or client gets to read."""
    return Reply(request.response(int(code), remark, ext))


@dataclass(frozen=True, slots=True)
class Notice:
    """Something others must hear: a one-way request to a client, or the late answer to a held request.

    With a `change` it is an answer that is no yes before that many changes of topics and groups are saved; with
    `durable_at` one that waits for the log as a FirmReply does. `unsent` as there.
    """

    channel: int
    command: RemotingCommand
    change: int = 0
    durable_at: int = 0
    unsent: Unsent | None = None
