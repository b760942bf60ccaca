"""An event loop with simulated time: when nothing is ready, the time jumps to that of the next timer.

What a real loop leaves to chance is determined by the seed: how long a worker takes, when bytes arrive. The guarantees
of a real loop hold: callbacks of one moment run in the order in which they were scheduled.

Everything runs in the context of a `Node`, a process on its own machine. When a node dies, nothing that began in its
context continues: no task, no timer, no worker, no connection. Nothing of it is cleaned up either, as in reality.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from itertools import count
from random import Random
from typing import Any, Protocol, TypeVar

from regulus.server.workers import Line

T = TypeVar("T")

START_S = 1_000.0
"""The value of the steady clock at the beginning."""

_WORK_S = (0.000_05, 0.002)
_SLOW_WORK_S = 0.5
_SLOW_WORK = 0.01


class Node:
    """A process. After a restart it is another node, even on the same host."""

    def __init__(self, name: str, host: str, boot: int = 1) -> None:
        self.name = name
        self.host = host
        self.boot = boot
        """The number of starts of its machine."""
        self.clock_s = 0.0
        """How far its time of day is ahead."""
        self.is_alive = True
        self.is_closing = False
        """It ends on purpose: tasks that it cancels are not faults."""
        self.context = contextvars.copy_context()
        self.context.run(_current.set, self)

    def __repr__(self) -> str:
        return f"Node({self.name}, {self.host})"


_current: ContextVar[Node | None] = ContextVar("node", default=None)


def current_node() -> Node | None:
    return _current.get()


def current_name() -> str:
    """The name of the running node, for logs."""
    node = _current.get()
    return node.name if node is not None else "-"


TURNS_MAX = 200_000
"""The maximum number of turns of the loop in one moment: beyond it, a task runs in circles."""


class NoProgress(Exception):
    """All tasks wait, and none for the time; or the time does not advance, and none waits."""


_serials = count(1)


def begin_serials() -> None:
    """Start the serial numbers of a run again."""
    global _serials
    _serials = count(1)


class SimulatedTask(asyncio.Task[T]):
    """A task whose hash is its serial number, so that a set of tasks has the same order in each run."""

    _serial: int
    node: Node | None
    is_cancel_asked: bool

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "SimulatedTask[T]":
        task = super().__new__(cls)
        task._serial = next(_serials)
        task.node = None
        task.is_cancel_asked = False
        return task

    def __hash__(self) -> int:
        return self._serial

    def cancel(self, msg: Any | None = None) -> bool:
        self.is_cancel_asked = True
        return super().cancel(msg)


class SimulatedFuture(asyncio.Future[T]):
    """See `SimulatedTask`."""

    _serial: int

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "SimulatedFuture[T]":
        future = super().__new__(cls)
        future._serial = next(_serials)
        return future

    def __hash__(self) -> int:
        return self._serial


class Network(Protocol):
    """What a loop needs from the network."""

    sender: Node | None
    """The node whose bytes are being received."""

    async def connect(self, node: Node, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]: ...


class _Jump:
    """Replaces a selector: waiting advances the clock."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NoProgress("all tasks wait, and none of them for the time")
        self._turns += 1
        if timeout > 0:
            self._loop.now += timeout
            self._turns = 0
        elif self._turns > TURNS_MAX:
            raise NoProgress(f"the loop has turned {TURNS_MAX} times at one moment")
        return []

    def close(self) -> None:
        pass


class SimulatedLoop(asyncio.BaseEventLoop):
    """The loop. `on_ended` is called for each task that ended, `on_fault` for each unhandled error."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.now = START_S
        self.chance = chance
        self.network: Network
        self.tasks: list[SimulatedTask[Any]] = []
        self.on_ended: Callable[[SimulatedTask[Any]], None] = lambda task: None
        self._clock_resolution = 1e-6
        self._selector = _Jump(self)
        self._others = SimulatedWorkers(self)
        self.set_task_factory(self.make_task)   # type: ignore[arg-type]

    # --- time and turns ----------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any,     # type: ignore[override]
                  context: Context | None = None) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        return _dropped(handle, context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any,     # type: ignore[override]
                context: Context | None = None) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        return _dropped(handle, context)

    def _process_events(self, event_list: list[Any]) -> None:
        """Does nothing: outside events are timers."""

    def _write_to_self(self) -> None:
        """Does nothing: no thread sleeps that must be woken."""

    # --- tasks -------------------------------------------------------------------------------------------------------

    def create_future(self) -> "asyncio.Future[Any]":
        return SimulatedFuture(loop=self)

    def make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T],
                   **options: Any) -> SimulatedTask[T]:
        task: SimulatedTask[T] = SimulatedTask(coroutine, loop=loop, **options)
        context: Context | None = options.get("context")
        task.node = _current.get() if context is None else context.get(_current)
        self.tasks.append(task)
        task.add_done_callback(self.on_ended)
        return task

    def drop(self, node: Node) -> None:
        """Drop a dead node: nothing of it runs any more; its tasks stay suspended."""
        assert not node.is_alive
        for handle in (*self._ready, *self._scheduled):
            if _node_of(handle) is node:
                handle.cancel()

    # --- what blocks -------------------------------------------------------------------------------------------------

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T],   # type: ignore[override]
                        *args: Any) -> "asyncio.Future[T]":
        if executor is None or isinstance(executor, ThreadPoolExecutor):    # its threads do not use the simulated time
            executor = self._others.beside()
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def work_time(self) -> float:
        """How long a worker takes for one piece of work."""
        if self.chance.random() < _SLOW_WORK:
            return self.chance.uniform(0, _SLOW_WORK_S)
        return self.chance.uniform(*_WORK_S)

    # --- the network -------------------------------------------------------------------------------------------------

    async def create_connection(self, protocol_factory: Any, host: Any = None,
                                port: Any = None, **_options: Any) -> Any:
        node = current_node()
        assert node is not None
        return await self.network.connect(node, protocol_factory, str(host), int(port))

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None,
                            *, sock: Any = None, **_options: Any) -> Any:
        return sock.serve(protocol_factory)


def _node_of(handle: asyncio.Handle) -> Node | None:
    context: Context = handle._context      # type: ignore[attr-defined]
    return context.get(_current)


Handle = TypeVar("Handle", bound=asyncio.Handle)


def _dropped(handle: Handle, context: Context | None) -> Handle:
    """The handle, cancelled at once when its node is dead."""
    node = _current.get() if context is None else context.get(_current)
    if node is not None and not node.is_alive:
        handle.cancel()
    return handle


class _Line(Executor):
    """An executor that runs one piece of work after the other, each in one step of the loop at the end of its time."""

    def __init__(self, loop: SimulatedLoop, pace: Callable[[], float]) -> None:
        """`pace` returns a factor for the usual time of work."""
        self._loop = loop
        self._pace = pace
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        if len(self._waiting) == 1:
            self._loop.call_later(self._loop.work_time() * self._pace(), self._work)
        return future

    def finish(self) -> None:
        """Do the remaining work at once."""
        while self._waiting:
            self._do(*self._waiting.popleft())

    def _work(self) -> None:
        if not self._waiting:       # done by `finish`
            return
        self._do(*self._waiting.popleft())
        if self._waiting:
            self._loop.call_later(self._loop.work_time() * self._pace(), self._work)

    def _do(self, future: "Future[Any]", deed: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(deed())
        except Exception as error:
            future.set_exception(error)


class SimulatedWorkers:
    """Worker lines without threads: the loop does their work, some time later."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.slowness = 1.0
        self._loop = loop
        self._lines: dict[Line, _Line] = {}

    def line(self, line: Line) -> Executor:
        known = self._lines.get(line)
        if known is None:
            known = self._lines[line] = _Line(self._loop, lambda: self.slowness)
        return known

    def beside(self) -> Executor:
        """An executor without waiting, like one of many threads."""
        return _Line(self._loop, lambda: self.slowness)

    def shutdown(self) -> None:
        for line in self._lines.values():
            line.finish()
