"""Answers that take more than one step: what many queues, or a long chain of an index, make of one request.

A handler gives such an answer as a generator that yields after each step and returns the response. The first step is
done with the request, so that what is short is answered at once; the others are done by the ticks, one step of one
answer after the other, and between two ticks everybody else is served. A deed, such as the deletion of what has many
parts, is done so, too, and to its end even when its asker has gone.
"""

from collections import deque
from collections.abc import Generator

from regulus.broker.outcome import HOLD, Notice, Outcome, Reply, refuse
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import HeaderError, StoreDamaged
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

LONG_ANSWERS_MAX = 64
"""Under way at a time; one more is refused with SYSTEM_BUSY."""

Steps = Generator[None, None, RemotingCommand]


class _LongAnswer:
    __slots__ = ("change", "channel", "is_deed", "request", "steps")

    def __init__(self, channel: int, request: RemotingCommand, steps: Steps, is_deed: bool) -> None:
        self.channel = channel
        self.request = request
        self.steps = steps
        self.is_deed = is_deed
        self.change = 0         # of topics and groups, that its steps made or used


class LongAnswers:
    """`notices` takes the answers that are ready; `settings` says what of topics and groups they must wait for."""

    def __init__(self, notices: deque[Notice], settings: SettingsChanges, count_max: int = LONG_ANSWERS_MAX) -> None:
        self._notices = notices
        self._settings = settings
        self._count_max = count_max
        self._under_way: deque[_LongAnswer] = deque()

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, request: RemotingCommand, peer: Peer, steps: Steps, *, is_deed: bool = False) -> Outcome:
        """Do the first step; the whole answer when that was all. A deed that is one too many is not begun."""
        is_full = len(self._under_way) >= self._count_max
        answer = _LongAnswer(peer.channel, request, steps, is_deed)
        response = None if is_full and is_deed else _step(answer)
        if response is not None:
            return Reply(response)
        if is_full:
            return refuse(request, ResponseCode.SYSTEM_BUSY,
                          f"{self._count_max} long answers are under way already: ask again when one of them is done")
        answer.change = self._settings.awaited
        self._under_way.append(answer)
        return HOLD

    def tick(self) -> int | None:
        """Do one step; 0 when there are more to do, None when there are none."""
        if not self._under_way:
            return None
        answer = self._under_way.popleft()
        response: RemotingCommand | None = answer.request.response(
            ResponseCode.SYSTEM_ERROR, f"the server failed at request {answer.request.code}; see its log")
        self._settings.awaited = 0
        try:
            response = _step(answer)
        finally:
            answer.change = max(answer.change, self._settings.awaited)
            # Whatever went wrong, its asker hears so, and the others go on.
            if response is None:
                self._under_way.append(answer)
            elif not answer.request.is_oneway:
                self._notices.append(Notice(answer.channel, response, answer.change))
        return 0 if self._under_way else None

    def drop_channel(self, channel: int) -> None:
        """Give up what a closed connection asked to be told."""
        if self._under_way:
            self._under_way = deque(answer for answer in self._under_way
                                    if answer.is_deed or answer.channel != channel)


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
