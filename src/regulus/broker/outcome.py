"""What a handler decided; the server carries it out."""

from collections.abc import Callable
from dataclasses import dataclass

from regulus.wire.remoting_command import RemotingCommand


class Reply:
    """Send `response` now."""

    __slots__ = ("response",)

    def __init__(self, response: RemotingCommand) -> None:
        self.response = response


class ReplyFrame:
    """Send `frame` now, a whole answer that is encoded already."""

    __slots__ = ("frame",)

    def __init__(self, frame: bytes) -> None:
        self.frame = frame


class ReplyFrameWhenDurable:
    """Send `frame`, a whole answer, once the log is on disk up to `end`; after the deadline the same answer, but with
    FLUSH_DISK_TIMEOUT."""

    __slots__ = ("end", "frame")

    def __init__(self, frame: bytes, end: int) -> None:
        self.frame = frame
        self.end = end


class ReplyWhenDurable:
    """The same of an answer that is not encoded yet."""

    __slots__ = ("end", "response")

    def __init__(self, response: RemotingCommand, end: int) -> None:
        self.response = response
        self.end = end


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


Outcome = Reply | ReplyFrame | ReplyFrameWhenDurable | ReplyWhenDurable | Hold | NoReply | Relay

HOLD = Hold()
NO_REPLY = NoReply()


def refuse(request: RemotingCommand, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
    """Answer that the request was not done; `remark` is what the operator or client gets to read."""
    return Reply(request.response(int(code), remark, ext))



@dataclass(frozen=True, slots=True)
class Notice:
    """Something others must hear: a one-way request to a client, or the late answer to a held request."""

    channel: int
    command: RemotingCommand
