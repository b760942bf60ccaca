"""Answers that take more than one step: what many queues, or a long chain of an index, make of one request.

A handler gives such an answer as a generator that yields after each step and returns the response. The first step is
done with the request, so that what is short is answered at once; the others are done by the ticks, one step of one
answer after the other, and between two ticks everybody else is served. A deed, such as the deletion of what has many
parts, is done so, too, and to its end even when its asker has gone.

Requests that undo each other, such as those of one client that comes and goes, form a line: of a line only the first
is worked at, and the next one begins when that is done. So they count in the order in which they came.

What does not fit beside those under way is refused, and nobody else's step is done for it: RocketMQ's brokers and
clients know the answer SYSTEM_BUSY and register, or say that they are there, again within 30 s. What came last of the
user who has the most under way is refused in place of what comes from one who has less: nobody keeps the others out by
asking much, over however many connections.
"""

from collections import deque
from collections.abc import Generator, Hashable
from typing import NamedTuple, TypeVar

from regulus.broker.outcome import HOLD, Notice, Outcome, Reply, refuse
from regulus.broker.settings_changes import SettingsChanges
from regulus.errors import AccessDenied, HeaderError, StoreDamaged, StoreNotWritable
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

LONG_ANSWERS_MAX = 64
"""Under way at a time, of those without a line, each of which may have made much of its answer already."""
LINED_MAX = 1_024
"""The same of those that have one."""
BODIES_SIZE_MAX = 1 << 26
"""Bytes of the bodies of all requests under way, unless there is but one."""
SETTINGS_LINE = "settings"
"""The line of requests that make, change or delete topics and groups: each counts behind those that came before it."""
SHARE = 2
"""One connection has at most this part of each of them: a half."""

_Key = TypeVar("_Key", int, str)


def client_line(peer: Peer) -> Hashable:
    """The line of what a client says of itself over one connection."""
    return "client", peer.channel


Steps = Generator[None, None, RemotingCommand]


class Fault(NamedTuple):
    """An answer that failed behind its first step: the code of its request, who asked, and why."""

    code: int
    peer: Peer
    error: Exception


class _LongAnswer:
    __slots__ = ("change", "is_deed", "line", "peer", "request", "steps")

    def __init__(self, peer: Peer, request: RemotingCommand, steps: Steps, is_deed: bool,
                 line: Hashable | None) -> None:
        self.peer = peer
        self.request = request
        self.steps = steps
        self.is_deed = is_deed
        self.line = line
        self.change = 0         # of topics and groups, that its steps made or used


class _Load:
    """What those under way are: all of them, or those of one connection."""

    __slots__ = ("bodies_size", "lined", "unlined")

    def __init__(self) -> None:
        self.lined = 0
        self.unlined = 0
        self.bodies_size = 0

    def change(self, answer: _LongAnswer, by: int) -> None:
        if answer.line is None:
            self.unlined += by
        else:
            self.lined += by
        self.bodies_size += by * len(answer.request.body)


class LongAnswers:
    """`notices` takes the answers that are ready; `settings` says what of topics and groups they must wait for.
    `faults` has those that failed, for the owner to tell."""

    def __init__(self, notices: deque[Notice], settings: SettingsChanges, count_max: int = LONG_ANSWERS_MAX,
                 lined_max: int = LINED_MAX, bodies_size_max: int = BODIES_SIZE_MAX) -> None:
        self.faults: deque[Fault] = deque()
        self._notices = notices
        self._settings = settings
        self._count_max = count_max
        self._lined_max = lined_max
        self._bodies_size_max = bodies_size_max
        self._load = _Load()
        self._loads: dict[int, _Load] = {}              # by channel, of those that have something under way
        self._users: dict[str, _Load] = {}              # the same by user
        self._under_way: dict[_LongAnswer, None] = {}
        self._turns: deque[_LongAnswer] = deque()       # those worked at, whose turn is next first
        self._lines: dict[Hashable, deque[_LongAnswer]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def bodies_size(self) -> int:
        """Bytes of the bodies of all that are under way."""
        return self._load.bodies_size

    def begin(self, request: RemotingCommand, peer: Peer, steps: Steps, *, is_deed: bool = False,
              line: Hashable | None = None) -> Outcome:
        """Do the first step; the whole answer when that was all. One that is too many is refused, a deed before it
        began. What has a `line` waits until those before it there are done.

        So the steps of what is no deed change nothing before the last one.
        """
        answer = _LongAnswer(peer, request, steps, is_deed, line)
        fault = self._refusal(answer) if is_deed else ""
        if line not in self._lines and not fault:
            response = _step(answer)
            if response is not None:
                return Reply(response)
        if not is_deed:
            fault = self._refusal(answer)
        if fault:
            return refuse(request, ResponseCode.SYSTEM_BUSY, fault)
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

    def end_deed(self) -> bool:
        """Do a step of a deed, or of what stands before it in its line; False when there is no deed. For the end, when
        there are no ticks any more and what is begun must not stay half done."""
        deed = next((answer for answer in self._under_way if answer.is_deed), None)
        if deed is None:
            return False
        self._go_on(deed if deed.line is None else self._lines[deed.line][0])
        return True

    def drop_channel(self, channel: int) -> None:
        """Give up what a closed connection asked to be told."""
        if channel not in self._loads:
            return
        for answer in [each for each in self._under_way if each.peer.channel == channel and not each.is_deed]:
            self._leave(answer)

    def _refusal(self, answer: _LongAnswer) -> str:
        """Why there is no room for it; empty when there is, or was made."""
        own = self._loads.get(answer.peer.channel)
        if own is not None and self._is_full(own, answer, SHARE):
            return (f"{own.lined + own.unlined} requests of this connection alone wait for long answers already: ask "
                    "again when one of them is answered")
        while self._is_full(self._load, answer, 1):
            if not self._gives_way(answer):
                return f"{len(self._under_way)} long answers are under way already: ask again when one of them is done"
        return ""

    def _gives_way(self, answer: _LongAnswer) -> bool:
        """Whether the user who has the most, and more than this one would have, gave up what came last of his. A deed
        that is begun is done. Looks at all that are under way."""
        is_lined = answer.line is not None
        by_count = (self._load.lined >= self._lined_max) if is_lined else (self._load.unlined >= self._count_max)

        def amount(load: _Load) -> int:
            if not by_count:
                return load.bodies_size
            return load.lined if is_lined else load.unlined
        most = max(self._users, key=lambda user: amount(self._users[user]))
        own = self._users.get(answer.peer.user, _Load())
        if amount(own) + (1 if by_count else len(answer.request.body)) >= amount(self._users[most]):
            return False
        for each in reversed(self._under_way):
            counts = (each.line is not None) == is_lined if by_count else bool(each.request.body)
            if each.peer.user == most and counts and not self._is_begun_deed(each):
                self._leave(each)
                if not each.request.is_oneway:
                    self._notices.append(Notice(each.peer.channel, refuse(
                        each.request, ResponseCode.SYSTEM_BUSY,
                        "this user has the most long answers under way, and no more can be: ask again when one of them "
                        "is done")))
                return True
        return False

    def _is_begun_deed(self, answer: _LongAnswer) -> bool:
        return answer.is_deed and (answer.line is None or self._lines[answer.line][0] is answer)

    def _is_full(self, load: _Load, answer: _LongAnswer, share: int) -> bool:
        count, count_max = (load.unlined, self._count_max) if answer.line is None else (load.lined, self._lined_max)
        size = load.bodies_size + len(answer.request.body)
        return (count >= max(1, count_max // share)
                or (load.lined + load.unlined > 0 and size > self._bodies_size_max // share))

    def _enter(self, answer: _LongAnswer) -> None:
        self._under_way[answer] = None
        self._load.change(answer, 1)
        self._loads.setdefault(answer.peer.channel, _Load()).change(answer, 1)
        self._users.setdefault(answer.peer.user, _Load()).change(answer, 1)
        if answer.line is None or answer.line not in self._lines:
            self._turns.append(answer)
        if answer.line is not None:
            self._lines.setdefault(answer.line, deque()).append(answer)

    def _leave(self, answer: _LongAnswer) -> None:
        """The next one of its line has its turn now."""
        del self._under_way[answer]
        self._load.change(answer, -1)
        _take_off(self._loads, answer.peer.channel, answer)
        _take_off(self._users, answer.peer.user, answer)
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
        """Do its next step. Whatever goes wrong there, its asker hears so, and nobody else does."""
        self._settings.awaited = 0
        try:
            response = _step(answer)
        except Exception as error:
            self.faults.append(Fault(answer.request.code, answer.peer, error))
            response = answer.request.response(
                ResponseCode.SYSTEM_ERROR, f"the server failed at request {answer.request.code}; see its log")
        answer.change = max(answer.change, self._settings.awaited)
        if response is not None:
            self._leave(answer)
            if not answer.request.is_oneway:
                self._notices.append(Notice(answer.peer.channel, Reply(response, change=answer.change)))


def _take_off(loads: dict[_Key, _Load], key: _Key, answer: _LongAnswer) -> None:
    load = loads[key]
    load.change(answer, -1)
    if not load.lined + load.unlined:
        del loads[key]


def _step(answer: _LongAnswer) -> RemotingCommand | None:
    """The response when this was the last step."""
    try:
        next(answer.steps)
    except StopIteration as end:
        response: RemotingCommand = end.value
        return response
    except AccessDenied as denied:
        return answer.request.response(denied.code, str(denied))
    except (HeaderError, StoreDamaged, StoreNotWritable) as error:
        return answer.request.response(ResponseCode.SYSTEM_ERROR, str(error))
    return None
