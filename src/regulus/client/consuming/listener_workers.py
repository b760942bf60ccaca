"""Calls a listener for many batches of messages at once, with a fixed number of workers and no task per message.

A listener that is a coroutine function runs in worker tasks of the event loop. If it cancels its own task, the worker
ends; a keeper task, which no listener can reach, counts that as a failure of the listener and starts another worker.
Any other function runs in threads that are started when there is work for them. Their results are collected, so that
the event loop is woken once for several results.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import index
from queue import Empty
from typing import Protocol

from regulus.client import real_threads
from regulus.client.config import PushConsumerConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.core.listener_cause import LATER, cause_of
from regulus.client.core.token_bucket import TokenBucket
from regulus.client.foreign_calls import call, call_anywhere, call_from_thread, call_here, is_async
from regulus.client.listener import ConsumeContext, ConsumeStatus, MessageListener
from regulus.client.real_threads import SimpleQueue
from regulus.client.tasks import TaskGroup
from regulus.model.failure_causes import Cause
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

_log = logging.getLogger(__name__)

_YIELD_AFTER = 0.005
"""Seconds that workers may occupy the event loop when the listener never waits for anything."""

CANCELLED_WAIT_MS = 1_000
"""How long `close` waits for listener calls that it cancelled."""

_STATUSES = frozenset(ConsumeStatus)
_NUMBERS = ("ack_index", "delay_level_when_next_consume", "suspend_current_queue_time_millis")
"""Attributes of the context that a listener may set to numbers."""


class Source(Protocol):
    """The origin of messages: an owned queue, or messages that were popped together."""

    @property
    def queue(self) -> MessageQueue: ...

    @property
    def is_given_up(self) -> bool: ...

    @property
    def is_ordered(self) -> bool: ...

    def is_locked(self, now_ms: int) -> bool:
        """Whether this client alone may consume it; only ordered queues need that."""

    def call_withdrawn(self) -> None:
        """Its submitted call will not be made."""


class Work:
    """One call of the listener. `is_expiring`: it takes too long, and its messages are being sent back. `is_expired`:
    all of them have been sent back. `odd_answer`: describes an answer that is not a ConsumeStatus. `cause`: why the
    call failed, if it did."""

    __slots__ = ("cause", "context", "is_expired", "is_expiring", "messages", "odd_answer", "owned", "started_ms")

    def __init__(self, owned: Source, messages: Sequence[MessageExt], consumer_group: str = "") -> None:
        self.owned = owned
        self.messages = messages
        self.context = ConsumeContext(owned.queue, consumer_group, is_ordered=owned.is_ordered)
        self.started_ms = 0
        self.is_expiring = False
        self.is_expired = False
        self.odd_answer = ""
        self.cause = LATER

    def failed(self) -> list[int]:
        """Indexes of the messages that failed in a call that succeeded."""
        last, others = self.context.ack_index, self.context.failed_indexes
        return [number for number in range(len(self.messages)) if number > last or number in others]


Ended = tuple[ConsumeStatus, BaseException | None]
"""The status of a call, and its error, if any."""

OnResult = Callable[[Work, ConsumeStatus], None]


class ListenerWorkers:
    """The workers of one listener. `on_result` is called in the event loop, once for each submitted work, unless the
    work is withdrawn or `close` comes first. Works of queues that were given up are not begun, and end as
    RECONSUME_LATER.

    A listener may return nonsense, set nonsense in its context, and change its list; anything it raises counts as
    RECONSUME_LATER, including `sys.exit()` and cancellations from within. `restarts`: how often a worker died
    nevertheless. `bucket`: works wait here in order until it has tokens for them. Tokens are taken only when a worker
    is free: otherwise a listener that hung would later get everything at once.
    """

    def __init__(self, listener: MessageListener, count: int, on_result: OnResult,
                 bucket: TokenBucket | None = None) -> None:
        self.running: dict[Work, None] = {}     # an ordered set: the order in which they began
        self._listener = listener
        self._count = count
        self._tell = on_result
        self._on_result = on_result if bucket is None else self._freed
        self._bucket = bucket
        self._held: deque[Work] = deque()
        self._released = 0      # works that were held, have begun, and have no result yet
        self._release_timer: asyncio.TimerHandle | None = None
        self._ready: deque[Work] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._cut_off: deque[tuple[Work, BaseException]] = deque()
        self._gone: deque[int] = deque()
        self._worker_gone = asyncio.Event()
        self._tasks = TaskGroup()
        self._threads = 0
        self._handed: SimpleQueue[Work | None] = SimpleQueue()
        self._finished: deque[tuple[Work, ConsumeStatus]] = deque()
        self._is_drain_due = False
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self.is_async = is_async(listener)
        if self.is_async:
            for number in range(count):
                self._begin_worker(number)
            self._tasks.supervise(self._keep_workers, "keeper of the listener's workers")

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    def submit(self, works: list[Work]) -> None:
        """Have the listener called for each work, in no particular order; does nothing after `close`."""
        if self._is_closed:
            return
        if self._bucket is None:
            self._begin(works)
            return
        self._held.extend(works)
        if self._release_timer is None:
            self._release(self._bucket)

    def _begin(self, works: Sequence[Work]) -> None:
        if self.is_async:
            self._ready.extend(works)
            self._wake_one()
            return
        for work in works:
            self._hand_over(work)

    def _release(self, bucket: TokenBucket) -> None:
        """Begin held works in order, as far as there are tokens and workers. Given-up works need no tokens; works whose
        queue lost its lock meanwhile are withdrawn."""
        self._release_timer = None
        while self._held and self._released < self._count:
            work = self._held[0]
            now = steady_ms()
            if not (work.owned.is_given_up or work.owned.is_locked(now)):
                self.withdraw(work.owned)
                continue
            wait_ms = 0 if work.owned.is_given_up else bucket.take(len(work.messages), now)
            if wait_ms:
                self._release_timer = self._loop.call_later(wait_ms / 1000, self._release, bucket)
                return
            self._released += 1
            self._begin((self._held.popleft(),))

    def _freed(self, work: Work, status: ConsumeStatus) -> None:
        """Used instead of `on_result` when there is a bucket: passes the result on, and begins held works."""
        try:
            self._tell(work, status)
        finally:
            self._released -= 1
            if self._bucket is not None and self._release_timer is None:
                self._release(self._bucket)

    def withdraw(self, owned: Source) -> None:
        """Remove the queue's works that wait for tokens; they get no result."""
        kept = deque(work for work in self._held if work.owned is not owned)
        if len(kept) < len(self._held):
            self._held = kept
            owned.call_withdrawn()

    def waiting(self) -> int:
        """The number of works that were submitted and not begun."""
        return len(self._held) + (len(self._ready) if self.is_async else self._handed.qsize())

    async def close(self, wait_ms: int) -> None:
        """Begin no more works; let running calls end within `wait_ms`, then cancel them. Calls that ignore the
        cancellation are abandoned."""
        self._is_closed = True
        if self._release_timer is not None:
            self._release_timer.cancel()
        self._held.clear()
        self._ready.clear()
        with suppress(Empty):
            while True:
                self._handed.get_nowait()
        until = self._loop.time() + wait_ms / 1000
        while self.running and self._loop.time() < until:
            await asyncio.sleep(0.01)
        for _ in range(self._threads):
            self._handed.put(None)
        if not await self._tasks.cancel(CANCELLED_WAIT_MS):
            _log.warning("listener calls continue although they were cancelled; they are not waited for")

    async def call_directly(self, work: Work) -> Ended:
        """Call the listener once, outside the workers."""
        return self._ended(work, *await call_anywhere(self._listener, list(work.messages), work.context))

    def _judge(self, work: Work, said: object, error: BaseException | None) -> ConsumeStatus:
        """The status of a call; a failure is logged."""
        status, error = self._ended(work, said, error)
        _note_cause(work, error)
        return status

    def _ended(self, work: Work, said: object, error: BaseException | None) -> Ended:
        """The status and error of a call. Any failure, including a nonsensical answer or context, counts as
        RECONSUME_LATER."""
        status, unclear = call(_judged, work, said)
        if unclear is not None:
            work.context = ConsumeContext(work.owned.queue, work.context.consumer_group,
                                          is_ordered=work.owned.is_ordered)
        if error is None and unclear is None:
            return status, None  # type: ignore[return-value]
        work.odd_answer = ""    # the call failed, so there is no answer to describe
        return ConsumeStatus.RECONSUME_LATER, error or unclear

    # --- in the event loop -------------------------------------------------------------------------------------------

    def _begin_worker(self, number: int) -> None:
        worker = self._tasks.supervise(self._work, f"listener worker {number}")
        worker.add_done_callback(lambda _: self._note_gone(number))

    def _note_gone(self, number: int) -> None:
        self._gone.append(number)
        self._worker_gone.set()

    async def _keep_workers(self) -> None:
        """Replace workers that ended. `close` ends this task together with the workers, so a worker that ends while
        this runs was ended by the listener."""
        while True:
            await self._worker_gone.wait()
            self._worker_gone.clear()
            while self._gone:
                number = self._gone.popleft()
                if not self._is_closed:
                    self._begin_worker(number)
            while self._cut_off:
                work, error = self._cut_off.popleft()
                _note_cause(work, error)
                self._on_result(work, ConsumeStatus.RECONSUME_LATER)

    async def _work(self) -> None:
        ready = self._ready
        loop = self._loop
        yield_at = loop.time() + _YIELD_AFTER
        while not self._is_closed:
            if not ready:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                yield_at = loop.time() + _YIELD_AFTER
                continue
            work = ready.popleft()
            if work.owned.is_given_up:
                self._on_result(work, ConsumeStatus.RECONSUME_LATER)
                continue
            if ready:
                self._wake_one()
            work.started_ms = steady_ms()
            self.running[work] = None
            try:
                said = await call_here(self._listener, list(work.messages), work.context)
            except asyncio.CancelledError as error:
                self._cut_off.append((work, error))
                raise
            finally:
                self.running.pop(work, None)
            self._on_result(work, self._judge(work, *said))
            if loop.time() > yield_at:
                await asyncio.sleep(0)
                yield_at = loop.time() + _YIELD_AFTER

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    # --- in threads --------------------------------------------------------------------------------------------------

    def _hand_over(self, work: Work) -> None:
        self._handed.put(work)
        busy = len(self.running) + self._handed.qsize()
        if self._threads < min(busy, self._count):
            real_threads.start(self._run_thread, f"listener-{self._threads}")
            self._threads += 1

    def _run_thread(self) -> None:
        while (work := self._handed.get()) is not None:
            status = ConsumeStatus.RECONSUME_LATER
            if not work.owned.is_given_up:
                work.started_ms = steady_ms()
                self.running[work] = None
                status = self._judge(work, *call_from_thread(self._loop, self._listener, list(work.messages),
                                                             work.context))
            self._finished.append((work, status))
            if not self._is_drain_due:
                self._is_drain_due = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:
                    return  # the loop was closed while the listener ran: the result is not needed any more

    def _drain(self) -> None:
        # Cleared first, so that a result that is appended from now on schedules another drain.
        self._is_drain_due = False
        try:
            while self._finished:
                work, status = self._finished.popleft()
                self.running.pop(work, None)
                self._on_result(work, status)
        finally:
            if self._finished:      # an error with one result must not block the others
                self._loop.call_soon(self._drain)


def rate_bucket(config: PushConsumerConfig) -> TokenBucket | None:
    """The bucket that limits a listener to `consume_rate_max`; None without a limit."""
    if not config.consume_rate_max:
        return None
    burst = config.consume_burst_max or max(1, int(config.consume_rate_max))
    return TokenBucket(config.consume_rate_max, burst, steady_ms())


def _judged(work: Work, said: object) -> ConsumeStatus:
    """The status that an answer means. Listeners may return and set anything, so this may raise anything."""
    for name in _NUMBERS:
        setattr(work.context, name, index(getattr(work.context, name)))
    if work.context.failed_indexes != ():
        work.context.failed_indexes = frozenset(map(index, work.context.failed_indexes))
    if isinstance(said, str) and said in _STATUSES:
        return ConsumeStatus(said)
    work.odd_answer = "returned nothing" if said is None else f"returned {said!r}"
    return ConsumeStatus.RECONSUME_LATER


def _note_cause(work: Work, error: BaseException | None) -> None:
    """Note why the call failed, and log it. What becomes of the messages is not known here."""
    if error is None:
        if work.odd_answer:
            work.cause = cause_of(None, work.odd_answer)
        return
    cause, unclear = call(cause_of, error, "")
    work.cause = cause if isinstance(cause, Cause) and unclear is None else Cause(type(error).__name__)
    _log.warning("the listener failed for %d messages of %s, from offset %d", len(work.messages), work.owned.queue,
                 work.messages[0].queue_offset, exc_info=error)
