"""What a handler decided; the server carries it out.

Either there is an answer now (`Reply`), or later (`Hold`), or never (`NoReply`), or a client has to be asked first
(`Relay`). What nobody's request asked for at this moment, such as the late answer to a held request, is a `Notice`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from regulus.wire.remoting_command import Buffer, RemotingCommand

Unsent = Callable[[int], None]
"""Called with the time of day where an answer reaches nobody: what it handed out is given back."""


class Reply:
    """One answer, and what must be so before it leaves. An answer that is bytes is a whole frame, encoded already.

    The server carries it out in this order, and each step waits for the one before it:

    1. Save: `change` counts the changes of topics and groups; until that many are saved, nothing else happens. When
       they cannot be saved, the asker gets SYSTEM_ERROR with the cause in place of the answer, `unsent` is called, and
       the steps below are left out. 0: there is nothing to save.
    2. Make durable: `durable_at` is a physical offset. The answer waits until the disk, and as many replicas as are
       configured, have the log up to there. When that takes too long, it leaves all the same, with the code of what is
       late, such as FLUSH_DISK_TIMEOUT. A firm answer (`is_firm`) leaves as it is: what it says is so in any case, and
       a refusal would do harm. A consumer whose pop were refused would get its messages again, and nobody would have
       seen them. 0: the log is not waited for.
    3. Send the answer.
    4. Give back: where the asker is gone by then, `unsent` is called in place of 3.

    Most answers wait for nothing and leave with all others of the same read, in one write. `unsent` is called once at
    most, and never for an answer that waits for nothing and whose asker is connected.
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
        """The frame of the answer as buffers to write one after the other."""
        return [self.answer] if isinstance(self.answer, bytes) else self.answer.encode_parts()


def plain_reply(answer: RemotingCommand | bytes, durable_at: int) -> Reply:
    """Reply(answer, durable_at), past the constructor, whose call costs more than the object."""
    reply = Reply.__new__(Reply)
    reply.answer = answer
    reply.durable_at = durable_at
    reply.change = 0
    reply.is_firm = False
    reply.unsent = None
    return reply


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


Outcome = Reply | Hold | NoReply | Relay

HOLD = Hold()
NO_REPLY = NoReply()


def when_saved(outcome: Outcome, change: int) -> Outcome:
    """The same outcome; an answer waits until that many changes are saved."""
    if not isinstance(outcome, Reply):
        return outcome
    return Reply(outcome.answer, outcome.durable_at, change, outcome.is_firm, outcome.unsent)


def refuse(request: RemotingCommand, code: int, remark: str, ext: dict[str, str] | None = None) -> Reply:
    """Answer that the request was not done; `remark` is what the operator or client gets to read."""
    return Reply(request.response(int(code), remark, ext))


class Notice:
    """What somebody must hear who asked nothing now: a one-way request to a client, or the late answer to a held
    request. `reply` is carried out as if the client on `channel` had just asked for it."""

    __slots__ = ("channel", "reply")

    def __init__(self, channel: int, reply: Reply) -> None:
        self.channel = channel
        self.reply = reply
