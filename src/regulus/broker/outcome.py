"""What a handler decided; the server carries it out.

A request is answered now (`Reply`), later (`Hold`), never (`NoReply`), or after a client was asked (`Relay`). A message
that no current request asked for, such as the late answer to a held request, is a `Notice`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from regulus.wire.remoting_command import Buffer, RemotingCommand

Unsent = Callable[[int], None]
"""Called with the time of day when an answer cannot be delivered, to give back what it handed out."""


class Reply:
    """One answer, and its conditions before it is sent. An answer in bytes is a whole encoded frame.

    The server takes these steps in order, and each waits for the one before it:

      1. Save: `change` counts changes of topics and groups; the server waits until this many are saved. If they cannot
         be saved, the client gets SYSTEM_ERROR with the cause in place of the answer, `unsent` is called, and the steps
         below are left out. 0: there is nothing to save.
      2. Make durable: `durable_at` is a physical offset. The answer waits until the disk, and as many replicas as are
         configured, have the log up to there. After a timeout the answer is sent with the code of what is late, such as
         FLUSH_DISK_TIMEOUT. A firm answer (`is_firm`) is sent unchanged: its content is true in any case, and a refusal
         would do harm. A consumer whose pop is refused would get its messages again, and count one delivery too many.
         0: the answer does not wait for the log.
      3. Send the answer.
      4. Give back: if the client has disconnected by then, `unsent` is called instead of step 3.

    Most answers wait for nothing, and are sent with all others of the same read in one write. `unsent` is called at
    most once, and never for an answer without conditions whose client is connected.
    """

    __slots__ = ("answer", "change", "durable_at", "is_firm", "unsent")

    def __init__(self, answer: RemotingCommand | bytes, durable_at: int = 0, change: int = 0, is_firm: bool = False,
                 unsent: Unsent | None = None) -> None:
        self.answer = answer
        self.durable_at = durable_at
        self.change = change
        self.is_firm = is_firm
        self.unsent = unsent

    def encode_parts(self) -> list[Buffer]:
        """The frame of the answer, as buffers to write one after the other."""
        return [self.answer] if isinstance(self.answer, bytes) else self.answer.encode_parts()


def plain_reply(answer: RemotingCommand | bytes, durable_at: int) -> Reply:
    """Reply(answer, durable_at) without the constructor, whose call costs more than the object."""
    reply = Reply.__new__(Reply)
    reply.answer = answer
    reply.durable_at = durable_at
    reply.change = 0
    reply.is_firm = False
    reply.unsent = None
    return reply


class Hold:
    """No answer now: the broker keeps the request and answers with a notice."""

    __slots__ = ()


class NoReply:
    """No answer at all."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Ask the client on `channel` with `request`; `answer` makes our response from its answer, or from None on a
    timeout.

    `answer` may return another relay instead, to ask the next client.
    """

    channel: int
    request: RemotingCommand
    answer: Callable[[RemotingCommand | None], "RemotingCommand | Relay"]
    timeout_ms: int


Outcome = Reply | Hold | NoReply | Relay

HOLD = Hold()
NO_REPLY = NoReply()


def when_saved(outcome: Outcome, change: int) -> Outcome:
    """The outcome, except that an answer waits until this many changes are saved."""
    if not isinstance(outcome, Reply):
        return outcome
    return Reply(outcome.answer, outcome.durable_at, change, outcome.is_firm, outcome.unsent)


def refuse(request: RemotingCommand, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
    """Answer that the request was not done; `remark` is the reason that the operator or client reads."""
    return Reply(request.response(int(code), remark, ext))


class Notice:
    """A message that the client on `channel` did not just ask for: a one-way request, or the late answer to a held
    request. `reply` is carried out as if it answered a request of that client now."""

    __slots__ = ("channel", "reply")

    def __init__(self, channel: int, reply: Reply) -> None:
        self.channel = channel
        self.reply = reply
