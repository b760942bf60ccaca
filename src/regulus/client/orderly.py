"""Consumes each queue in order: one listener call at a time, the next only after the one before succeeded.

Across members of a group the broker's locks keep the order: a queue is consumed only while it is locked, and is given
back only when no call for it runs any more.

Source: ConsumeMessageOrderlyService.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from regulus.client.client_instance import steady_ms
from regulus.client.config import PushConsumerConfig
from regulus.client.core.ordered_queue import OrderedQueue, suspend_ms
from regulus.client.core.process_queue import ProcessQueue
from regulus.client.listener import ConsumeStatus
from regulus.client.listener_workers import ListenerWorkers, Work
from regulus.client.queue_locks import RENEW_INTERVAL_MS, TRUSTED_MS, QueueLocks
from regulus.client.tasks import TaskGroup
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

_log = logging.getLogger(__name__)

LOCK_POLL_MS = 100
SETTLE_WAIT_MS = 10_000
"""How long a queue that is to be given up may wait for its running call; its lock is forgotten after 60 s anyway."""

Finish = Callable[[MessageQueue, ProcessQueue, Sequence[MessageExt]], None]
DeadLetter = Callable[[MessageExt, MessageQueue], Awaitable[bool]]


class _Owned:
    def __init__(self, process_queue: ProcessQueue) -> None:
        self.process_queue = process_queue
        self.ordered = OrderedQueue()
        self.is_running = False
        self.is_closing = False
        self.idle = asyncio.Event()
        self.idle.set()


class OrderlyConsumption:
    """`locks` None: broadcasting, where nobody else consumes our queues."""

    def __init__(self, config: PushConsumerConfig, workers: ListenerWorkers, locks: QueueLocks | None, finish: Finish,
                 dead_letter: DeadLetter) -> None:
        self._config = config
        self._workers = workers
        self._locks = locks
        self._finish = finish
        self._dead_letter = dead_letter
        self._owned: dict[MessageQueue, _Owned] = {}
        self._tasks = TaskGroup()
        if locks is not None:
            self._tasks.spawn(self._renew_locks(locks), "renew locks")

    def received(self, queue: MessageQueue, process_queue: ProcessQueue, messages: Sequence[MessageExt]) -> None:
        owned = self._owned.get(queue)
        if owned is None or owned.process_queue is not process_queue:
            owned = self._owned[queue] = _Owned(process_queue)
        owned.ordered.put(messages)
        self._go_on(queue, owned)

    def result(self, work: Work, status: ConsumeStatus | None) -> None:
        """A listener call ended."""
        owned = self._owned.get(work.queue)
        if owned is None or owned.process_queue is not work.process_queue:
            return
        owned.is_running = False
        owned.idle.set()
        if owned.process_queue.dropped:
            return
        if status == ConsumeStatus.CONSUME_SUCCESS:
            self._batch_done(work.queue, owned)
        elif owned.ordered.has_had_enough(self._config.max_reconsume_times):
            self._tasks.spawn(self._give_up_batch(work, owned), f"dead letters of {work.queue}")
        else:
            self._suspend(work, owned)

    # --- queues come and go ------------------------------------------------------------------------------------------

    async def lock(self, queues: Collection[MessageQueue]) -> Collection[MessageQueue]:
        """Those of the queues that may be consumed by us."""
        return queues if self._locks is None else await self._locks.lock(queues)

    def taken(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        """The queue, locked a moment ago, is ours."""
        process_queue.locked_until_ms = steady_ms() + TRUSTED_MS
        self._owned[queue] = _Owned(process_queue)

    async def settle(self, queues: Collection[MessageQueue] | None = None, wait_ms: int = SETTLE_WAIT_MS) -> None:
        """Begin no further call for these queues (or all), and wait for those that run: their results still count."""
        if queues is None:
            queues = list(self._owned)
        closing = [owned for queue in queues if (owned := self._owned.get(queue)) is not None]
        for owned in closing:
            owned.is_closing = True
        try:
            async with asyncio.timeout(wait_ms / 1000):
                for owned in closing:
                    await owned.idle.wait()
        except TimeoutError:
            _log.warning("queues are given up although their listener calls still run")

    async def given_up(self, queues: Collection[MessageQueue]) -> None:
        """The offsets of these queues are stored: others may have them."""
        settled = [queue for queue in queues if (owned := self._owned.pop(queue, None)) is None or owned.idle.is_set()]
        if self._locks is not None and settled:
            await self._locks.unlock(settled)

    async def close(self) -> None:
        """Give back all locks."""
        await self._tasks.cancel()
        await self.given_up(list(self._owned))

    # -----------------------------------------------------------------------------------------------------------------

    def _go_on(self, queue: MessageQueue, owned: _Owned) -> None:
        process_queue = owned.process_queue
        if owned.is_running or owned.is_closing or process_queue.dropped:
            return
        if not self.is_locked(process_queue):
            asyncio.get_running_loop().call_later(LOCK_POLL_MS / 1000, self._go_on, queue, owned)
            return
        batch = owned.ordered.current or owned.ordered.begin_next(self._config.consume_message_batch_max_size)
        if batch:
            owned.is_running = True
            owned.idle.clear()
            self._workers.submit([Work(queue, process_queue, list(batch))])

    def is_locked(self, process_queue: ProcessQueue) -> bool:
        return self._locks is None or process_queue.locked_until_ms > steady_ms()

    def _batch_done(self, queue: MessageQueue, owned: _Owned) -> None:
        batch = owned.ordered.current
        owned.ordered.done()
        self._finish(queue, owned.process_queue, batch)
        self._go_on(queue, owned)

    def _suspend(self, work: Work, owned: _Owned) -> None:
        """Nothing of the queue runs until the batch is tried again."""
        owned.ordered.failed()
        pause = suspend_ms(work.context.suspend_current_queue_time_millis,
                           self._config.suspend_current_queue_time_millis)
        asyncio.get_running_loop().call_later(pause / 1000, self._go_on, work.queue, owned)

    async def _give_up_batch(self, work: Work, owned: _Owned) -> None:
        """Make dead letters of the batch and go on behind it; when no broker takes them, keep trying."""
        owned.idle.clear()
        dead = all([await self._dead_letter(message, work.queue) for message in owned.ordered.current])
        owned.idle.set()
        if owned.process_queue.dropped:
            return
        if dead:
            self._batch_done(work.queue, owned)
        else:
            self._suspend(work, owned)

    async def _renew_locks(self, locks: QueueLocks) -> None:
        while True:
            await asyncio.sleep(RENEW_INTERVAL_MS / 1000)
            begun = steady_ms()
            held = await locks.lock(list(self._owned))
            for queue, owned in self._owned.items():
                if queue in held:
                    owned.process_queue.locked_until_ms = begun + TRUSTED_MS
                else:
                    _log.warning("the lock of %s could not be renewed; it rests until it can", queue)
