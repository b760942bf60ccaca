"""Answers that take more than one step: what many queues, or a long chain of an index, make of one request.

A handler gives such an answer as a generator that yields after each step and returns the response. The first step is
done with the request, so that what is short is answered at once; the others are done by the ticks, one step of one
answer after the other, and between two ticks everybody else is served. A deed, such as the deletion of what has many
parts, is done so, too, and to its end even when its asker has gone.

Requests that undo each other, such as those of one client that comes and goes, form a line: of a line only the first
is worked at, and the next one begins when that is done. So they count in the order in which they came.
"""

from collections import deque
from collections.abc import Generator, Hashable

from regulus.broker.outcome import HOLD, Notice, Outcome, Reply, refuse
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import HeaderError, StoreDamaged
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

LONG_ANSWERS_MAX = 64
"""Under way at a time; one more is refused with SYSTEM_BUSY, or where it has a line, done at once."""
BODIES_SIZE_MAX = 1 << 26
"""Bytes of the bodies of all requests under way; beyond, the same."""

Steps = Generator[None, None, RemotingCommand]


class _LongAnswer:
    __slots__ = ("change", "channel", "is_deed", "line", "request", "steps")

    def __init__(self, channel: int, request: RemotingCommand, steps: Steps, is_deed: bool,
                 line: Hashable | None) -> None:
        self.channel = channel
        self.request = request
        self.steps = steps
        self.is_deed = is_deed
        self.line = line
        self.change = 0         # of topics and groups, that its steps made or used


class LongAnswers:
    """`notices` takes the answers that are ready; `settings` says what of topics and groups they must wait for."""

    def __init__(self, notices: deque[Notice], settings: SettingsChanges, count_max: int = LONG_ANSWERS_MAX,
                 bodies_size_max: int = BODIES_SIZE_MAX) -> None:
        self._notices = notices
        self._settings = settings
        self._count_max = count_max
        self._bodies_size_max = bodies_size_max
        self._bodies_size = 0
        self._under_way: dict[_LongAnswer, None] = {}
        self._turns: deque[_LongAnswer] = deque()       # those worked at, whose turn is next first
        self._lines: dict[Hashable, deque[_LongAnswer]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, request: RemotingCommand, peer: Peer, steps: Steps, *, is_deed: bool = False,
              line: Hashable | None = None) -> Outcome:
        """Do the first step; the whole answer when that was all. A deed that is one too many is not begun.

        What has a `line` waits until those before it there are done. It is never refused: where there is no room, they
        are done at once, the first ones first, and when that makes none, it is.
        """
        while line in self._lines and self._is_full(request):
            self._go_on(self._lines[line][0])
        is_full = self._is_full(request)
        answer = _LongAnswer(peer.channel, request, steps, is_deed, line)
        if line not in self._lines and (line is not None or not is_full or not is_deed):
            response = _step(answer)
            while response is None and is_full and line is not None:
                response = _step(answer)
            if response is not None:
                return Reply(response)
        if is_full:
            return refuse(request, ResponseCode.SYSTEM_BUSY,
                          f"{len(self._under_way)} long answers are under way already: ask again when one of them is "
                          "done")
        answer.change = self._settings.awaited
        self._enter(answer)
        return HOLD

    def tick(self) -> int | None:
        """Do one step; 0 when there are more to do, None when there are none."""
        if not self._turns:
            return None
        answer = self._turns[0]
        self._turns.rotate(-1)
        self._go_on(answer)
        return 0 if self._turns else None

    def drop_channel(self, channel: int) -> None:
        """Give up what a closed connection asked to be told."""
        for answer in [answer for answer in self._under_way if answer.channel == channel and not answer.is_deed]:
            self._leave(answer)

    def _is_full(self, request: RemotingCommand) -> bool:
        return (len(self._under_way) >= self._count_max
                or (bool(self._under_way) and self._bodies_size + len(request.body) > self._bodies_size_max))

    def _enter(self, answer: _LongAnswer) -> None:
        self._under_way[answer] = None
        self._bodies_size += len(answer.request.body)
        if answer.line is None or answer.line not in self._lines:
            self._turns.append(answer)
        if answer.line is not None:
            self._lines.setdefault(answer.line, deque()).append(answer)

    def _leave(self, answer: _LongAnswer) -> None:
        """The next one of its line has its turn now."""
        del self._under_way[answer]
        self._bodies_size -= len(answer.request.body)
        if answer.line is None:
            self._turns.remove(answer)
            return
        line = self._lines[answer.line]
        was_first = line[0] is answer
        line.remove(answer)
        if was_first:
            self._turns.remove(answer)
        if not line:
            del self._lines[answer.line]
        elif was_first:
            self._turns.append(line[0])

    def _go_on(self, answer: _LongAnswer) -> None:
        """Do its next step, while another request may be handled, whose `awaited` stays as it is."""
        response: RemotingCommand | None = answer.request.response(
            ResponseCode.SYSTEM_ERROR, f"the server failed at request {answer.request.code}; see its log")
        awaited, self._settings.awaited = self._settings.awaited, 0
        try:
            response = _step(answer)
        finally:
            answer.change = max(answer.change, self._settings.awaited)
            self._settings.awaited = awaited
            # Whatever went wrong, its asker hears so, and the others go on.
            if response is not None:
                self._leave(answer)
                if not answer.request.is_oneway:
                    self._notices.append(Notice(answer.channel, response, answer.change))


def _step(answer: _LongAnswer) -> RemotingCommand | None:
    """The response when this was the last step."""
    try:
        next(answer.steps)
    except StopIteration as end:
        response: RemotingCommand = end.value
        return response
    except (HeaderError, StoreDamaged) as error:
        return answer.request.response(ResponseCode.SYSTEM_ERROR, str(error))
    return None
