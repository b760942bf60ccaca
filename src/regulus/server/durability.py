"""Delays answers until the messages that they confirm cannot be lost any more.

An answer waits for a position of the log. Each condition reports how far it is met: *flushed*, the disk has it;
*replicated*, enough slaves have it. An answer leaves when all conditions have reached its position, in the order of the
appends, as bytes that were encoded at the append; only an answer that must be changed is decoded again. When its time
is up, it leaves with the code of the condition that is not met, or unchanged if it is *firm*; its message is stored in
any case. When a condition can never be met, waiting answers become SERVICE_NOT_AVAILABLE.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from regulus.model.java_numbers import LONG_MAX
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FrameReader

_log = logging.getLogger(__name__)


class Writer(Protocol):
    """The destination of answers: a connection, or a stream of another kind."""

    def write(self, data: bytes) -> None: ...


class _Waiting(NamedTuple):
    """Answers to requests that arrived together."""

    end: int
    deadline: float
    writer: Writer
    frames: bytes
    is_firm: bool
    sent: Callable[[int], None] | None


class Condition:
    """One condition. `end`: up to where it is met. `late`: the code of answers that leave without it. `hasten` is
    called when an answer begins to wait."""

    def __init__(self, durability: "Durability", late: ResponseCode, hasten: Callable[[], None]) -> None:
        self.end = 0
        self.late = late
        self.hasten = hasten
        self._durability = durability

        self.absent: ResponseCode | None = None
        """The code of answers while nothing can meet the condition; they do not wait for it then."""

    def reached(self, end: int) -> None:
        """Note that the condition is met up to `end`."""
        self.absent = None
        self.end = end
        self._durability.release()

    def give_up(self, absent: ResponseCode) -> None:
        """Note that nothing can meet the condition: waiting and later answers get the code `absent`."""
        if self.absent is None:
            self.absent = absent
            self._durability.mark_behind(self.end, absent)
            self._durability.release()


class Durability:
    """Holds the waiting answers. `timeout`, in seconds, is how long an answer waits at most. `on_released` is called
    each time that answers left because their messages are durable."""

    def __init__(self, timeout: float, on_released: Callable[[], None]) -> None:
        self._timeout = timeout
        self._on_released = on_released
        self._conditions: list[Condition] = []
        self._waiting: deque[_Waiting] = deque()
        self._loop = asyncio.get_running_loop()
        self._deadline_timer: asyncio.TimerHandle | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether answers wait."""
        return bool(self._waiting)

    def is_awaited_behind(self, end: int) -> bool:
        """Whether an answer waits for a position after `end`."""
        return bool(self._waiting) and self._waiting[-1].end > end

    def require(self, late: ResponseCode, hasten: Callable[[], None]) -> Condition:
        """Add a condition, before the first answer waits."""
        condition = Condition(self, late, hasten)
        self._conditions.append(condition)
        return condition

    def stop(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()

    def answer_when_durable(self, end: int, writer: Writer, frames: bytes, is_firm: bool = False,
                            sent: Callable[[int], None] | None = None) -> None:
        """Send `frames`, whole answers, once the log is durable up to `end`. `sent` is called when they were written:
        with the code that they got for being late, or with 0."""
        deadline = self._loop.time() + self._timeout
        for condition in self._conditions:
            condition.hasten()
            if condition.absent is not None and not is_firm:
                frames = _refusals(frames, condition.absent, None)
        self._waiting.append(_Waiting(end, deadline, writer, frames, is_firm, sent))
        if self._reached() >= end:
            self.release()      # an answer that waited for something else before
        elif self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(deadline, self._expire)

    def mark_behind(self, end: int, code: ResponseCode) -> None:
        """Let answers that wait for a position after `end` leave with `code`."""
        for number, waiting in enumerate(self._waiting):
            if waiting.end > end and not waiting.is_firm:
                self._waiting[number] = waiting._replace(frames=_refusals(waiting.frames, code, None))

    def release(self) -> None:
        """Send the answers whose position all conditions have reached."""
        end = self._reached()
        count = 0
        for waiting in self._waiting:
            if waiting.end > end:
                break
            count += 1
        if count:
            self._send(count)
            self._on_released()

    def _reached(self) -> int:
        return min([condition.end for condition in self._conditions if condition.absent is None], default=LONG_MAX)

    def refuse(self, reason: str) -> None:
        """Refuse everything that waits, for this reason."""
        self._send(len(self._waiting), ResponseCode.SERVICE_NOT_AVAILABLE, reason)

    def _expire(self) -> None:
        """Send answers that have waited too long; deadlines are in order because all wait equally long."""
        now = self._loop.time()
        count = 0
        for waiting in self._waiting:
            if waiting.deadline > now:
                break
            count += 1
        if count:
            late = min([condition for condition in self._conditions if condition.absent is None],
                       key=lambda condition: condition.end).late
            _log.warning("answers waited more than %d ms and were sent with %s", self._timeout * 1000, late.name)
            self._send(count, late)
        self._deadline_timer = self._loop.call_at(self._waiting[0].deadline, self._expire) if self._waiting else None

    def _send(self, count: int, code: ResponseCode | None = None, remark: str | None = None) -> None:
        """Send the first `count` waiting answers, those of one writer in one write; with a `code`, as refusals."""
        by_writer: dict[Writer, list[bytes]] = {}
        told: list[tuple[Callable[[int], None], int]] = []
        for _ in range(count):
            _, _, writer, frames, is_firm, sent = self._waiting.popleft()
            is_late = code is not None and (not is_firm or code is ResponseCode.SERVICE_NOT_AVAILABLE)
            if is_late and code is not None:
                frames = _refusals(frames, code, remark)
            by_writer.setdefault(writer, []).append(frames)
            if sent is not None:
                told.append((sent, int(code) if is_late and code is not None else 0))
        for writer, parts in by_writer.items():
            writer.write(b"".join(parts))
        for sent, late in told:
            sent(late)


def _refusals(frames: bytes, code: ResponseCode, remark: str | None) -> bytes:
    """These answers, including the positions of their messages, with another code."""
    reader = FrameReader()
    reader.feed(frames)
    answers = reader.frames()
    for answer in answers:
        answer.code = int(code)
        answer.remark = remark
    return b"".join([answer.encode() for answer in answers])
