"""Answers that take more than one step, such as one about many queues or a long chain of an index.

A handler returns such an answer as a generator, which yields after each step and returns the response. The first step
runs with the request, so that a short answer is sent at once. Ticks run the other steps, one step of one answer at a
time, and all other requests are served in between. An effect with many parts, such as a deletion, also runs in steps
(`is_deed`), and to its end even if its client has disconnected.

Requests that undo each other, such as registrations of one client, form a line. Only the first of a line runs, and the
next one begins when it is done, so that they take effect in the order in which they came.

A request that exceeds the limits is refused with SYSTEM_BUSY; RocketMQ's brokers and clients then register or send
their heartbeat again within 30 s. If one user has more answers under way than the sender of a new request, that user's
latest request is refused in its place. No user can keep others out with many requests, over any number of connections.
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
"""Answers without a line that are under way at a time; each may hold most of its response in memory already."""
LINED_MAX = 1_024
"""Answers with a line that are under way at a time."""
BODIES_SIZE_MAX = 1 << 26
"""Bytes of the bodies of all requests under way. A single request may be larger."""
SETTINGS_LINE = "settings"
"""Line of requests that create, change or delete topics and groups, which take effect in the order in which they
came."""
SHARE = 2
"""One connection gets at most one part in SHARE of each limit."""

_Key = TypeVar("_Key", int, str)


def client_line(peer: Peer) -> Hashable:
    """Line of what a client says about itself over one connection."""
    return "client", peer.channel


Steps = Generator[None, None, RemotingCommand]


class Fault(NamedTuple):
    """An answer that failed after its first step: the code of its request, its client, and the cause."""

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
        self.change = 0         # of topics and groups, that its steps made or used; the answer waits until it is saved


class _Load:
    """Load of all answers under way, or of those of one connection or user."""

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
    """Finished answers go to `notices`. `settings` says which change of topics and groups an answer waits for. `faults`
    has the failed ones; the owner logs them."""

    def __init__(self, notices: deque[Notice], settings: SettingsChanges, count_max: int = LONG_ANSWERS_MAX,
                 lined_max: int = LINED_MAX, bodies_size_max: int = BODIES_SIZE_MAX) -> None:
        self.faults: deque[Fault] = deque()
        self._notices = notices
        self._settings = settings
        self._count_max = count_max
        self._lined_max = lined_max
        self._bodies_size_max = bodies_size_max
        self._load = _Load()
        self._loads: dict[int, _Load] = {}              # by channel, for those with answers under way
        self._users: dict[str, _Load] = {}              # by user
        self._under_way: dict[_LongAnswer, None] = {}
        self._turns: deque[_LongAnswer] = deque()       # answers that run, the next one first
        self._lines: dict[Hashable, deque[_LongAnswer]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def bodies_size(self) -> int:
        """Bytes of the bodies of all requests under way."""
        return self._load.bodies_size

    def begin(self, request: RemotingCommand, peer: Peer, steps: Steps, *, is_deed: bool = False,
              line: Hashable | None = None) -> Outcome:
        """Run the first step; returns the response if that was all.

        Beyond the limits the request is refused, with `is_deed` before its first step. A request with a `line` waits
        until those before it in the line are done. Only with `is_deed` may steps before the last one change anything.
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
        """Run one step. Returns 0 when there are more, None when there are none."""
        if not self._turns:
            return None
        answer = self._turns[0]
        self._turns.rotate(-1)
        self._go_on(answer)
        return 0 if self._turns else None

    def end_deed(self) -> bool:
        """Run a step of an answer with `is_deed`, or of the one before it in its line; False when there is none left.

        For the end of the broker: there are no more ticks, and an effect must not stay half done.
        """
        deed = next((answer for answer in self._under_way if answer.is_deed), None)
        if deed is None:
            return False
        self._go_on(deed if deed.line is None else self._lines[deed.line][0])
        return True

    def drop_channel(self, channel: int) -> None:
        """Drop the answers of a closed connection."""
        if channel not in self._loads:
            return
        for answer in [each for each in self._under_way if each.peer.channel == channel and not each.is_deed]:
            self._leave(answer)

    def _refusal(self, answer: _LongAnswer) -> str:
        """Why there is no room for the answer; empty when there is room, or room was made."""
        own = self._loads.get(answer.peer.channel)
        if own is not None and self._is_full(own, answer, SHARE):
            return (f"{own.lined + own.unlined} requests of this connection alone wait for long answers already: ask "
                    "again when one of them is answered")
        while self._is_full(self._load, answer, 1):
            if not self._gives_way(answer):
                return f"{len(self._under_way)} long answers are under way already: ask again when one of them is done"
        return ""

    def _gives_way(self, answer: _LongAnswer) -> bool:
        """Make room by dropping the latest answer of the user that has the most; False if that user would not have more
        than the new answer's user.

        An effect that has begun is never dropped. Looks at all answers under way.
        """
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
        """Remove the answer; the next one of its line can run."""
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
        """Run the next step. An error there is answered to this client only, and the other answers continue."""
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
    """Run one step; returns the response if it was the last."""
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
