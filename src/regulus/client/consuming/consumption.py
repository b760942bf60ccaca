"""Takes queues, pulls them and gives them up. Only this module knows which queues the consumer owns.

There are three kinds of events: the rebalancer wants other queues, a broker reports that an offset was reset or has
moved, and a call ends. Each event changes an `OwnedQueue` at once, without waiting for anything. Then `_reconcile`
begins what is due: queues that are not wanted settle, settled ones are released, missing ones are taken. Everything
that waits for brokers is done by jobs, which change nothing themselves but report here when they are done:

    take       lock, find the start offset, send a heartbeat, pull
    release    store the offset, forget the queue, unlock

Therefore an event may come at any moment of any job. A queue is never in two jobs, and is not taken while it is being
released.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from regulus.client.config import MessageModel
from regulus.client.connecting.client_instance import ClientInstance, now_ms, steady_ms
from regulus.client.consuming.listener_calls import ListenerCalls
from regulus.client.consuming.offset_store import OffsetStore
from regulus.client.consuming.queue_locks import RENEW_INTERVAL_MS, TRUSTED_MS, QueueLocks
from regulus.client.consuming.queue_puller import Consumer, QueuePuller
from regulus.client.consuming.start_offset import Start, StartOffsets
from regulus.client.core.ordered_queue import NEEDS_NO_LOCK, OrderedQueue, OrderRules
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.tasks import TaskGroup
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue

_log = logging.getLogger(__name__)

SETTLE_WAIT_MS = 10_000
"""ms that a queue that is being given up waits for its running call. Brokers forget its lock after 60 s anyway."""

INCOMPLETE_INTERVAL_MS = 1_000
"""ms until the next attempt when a queue could not be taken."""

ANNOUNCE_WAIT_MS = 1_000
"""The longest wait of a queue's first pull for the heartbeat; a broker that does not answer must not block all
queues."""

ANNOUNCE_INTERVAL_MS = 50
"""The shortest interval between heartbeats for taken queues. Topics are taken one by one, and each heartbeat carries
all subscriptions, so one can serve several topics."""

MOVED_PAUSE_MS = 50
"""The pause before a queue is pulled at an offset to which its broker sent us: it may do so again and again."""

STORES_MAX = 3
"""How often a release stores offsets that change meanwhile."""


class OwningConsumer(Consumer, Protocol):
    """What the consumption needs from the consumer, in addition to what pullers need."""

    def touch_subscription(self, topic: str) -> None: ...
    def set_queue_count(self, topic: str, count: int) -> None: ...


class Consumption:
    def __init__(self, consumer: OwningConsumer, instance: ClientInstance, calls: ListenerCalls, offsets: OffsetStore,
                 starts: StartOffsets) -> None:
        self.owned: dict[MessageQueue, OwnedQueue] = {}
        self._consumer = consumer
        self._instance = instance
        self._calls = calls
        self._offsets = offsets
        self._starts = starts
        config = consumer.config
        # In clustering only: in broadcasting no queue is shared.
        self._locks = QueueLocks(instance, consumer.group, self._locks_lost) if (
            config.consume_orderly and config.message_model is MessageModel.CLUSTERING) else None
        self._rules = OrderRules(
            batch_size_max=config.consume_message_batch_max_size, reconsume_times_max=config.max_reconsume_times,
            suspend_ms=config.suspend_current_queue_time_millis) if config.consume_orderly else None
        self._wanted: dict[str, frozenset[MessageQueue]] = {}
        self._pullers: dict[OwnedQueue, tuple[QueuePuller, asyncio.Task[None]]] = {}
        self._taking: dict[MessageQueue, int | None] = {}
        self._releasing: set[MessageQueue] = set()
        self._unfinished: dict[MessageQueue, OrderedQueue] = {}
        self._lost: dict[MessageQueue, OrderedQueue] = {}
        """Takings that ended because their locks were lost, of queues that are still wanted."""
        self._idle = asyncio.Event()
        self._is_closing = False
        self._again: asyncio.TimerHandle | None = None
        self._announcement: asyncio.Task[None] | None = None
        self._announced_ms = 0
        self._pressing: set[OwnedQueue] = set()
        """Queues whose offsets are stored before the next regular store."""
        self._is_pressed = asyncio.Event()
        self._tasks = TaskGroup()
        self._jobs = TaskGroup()

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tasks.supervise(self._store_all, f"store offsets of {self._consumer.group}")
        self._tasks.supervise(self._store_pressing, f"store pressing offsets of {self._consumer.group}")
        if self._locks is not None:
            self._tasks.supervise(self._renew_locks, f"renew locks of {self._consumer.group}")

    async def settle_all(self, until_ms: int) -> None:
        """Stop pulling and taking queues, begin no further ordered call, and wait for running calls: their results
        count."""
        await self._end_jobs()
        for owned in self.owned.values():
            self._settle(owned, until_ms)
        if not await self._settled(list(self.owned.values()), until_ms):
            _log.warning("the consumer of group %s leaves although listener calls still run", self._consumer.group)

    async def close(self) -> None:
        """Store the offsets and give back all queues."""
        try:
            await self._end_jobs()
            await self._tasks.cancel()
            halfway = [queue for queue in (*self._taking, *self._releasing)
                       if queue not in self.owned and queue not in self._unfinished]
            await self._release(list(self.owned.values()), also_unlock=halfway)
        finally:
            for owned in list(self.owned.values()):     # left only if the release was cancelled
                self._drop(owned)
            if self._locks is not None:
                await self._locks.close()

    async def _end_jobs(self) -> None:
        self._is_closing = True
        if self._again is not None:
            self._again.cancel()
        await self._jobs.cancel()

    @property
    def restarts(self) -> int:
        return self._tasks.restarts + self._calls.restarts

    # --- which queues ------------------------------------------------------------------------------------------------

    def want(self, topic: str, queues: Collection[MessageQueue]) -> None:
        """Consume these queues of the topic and no others."""
        before = self._wanted.get(topic, frozenset())
        self._wanted[topic] = wanted = frozenset(queues)
        self._consumer.set_queue_count(topic, len(queues))
        self._reconcile(before | wanted)

    def want_topics(self, topics: Collection[str]) -> None:
        """Consume no topics but these."""
        for topic in self._wanted.keys() - topics:
            self._consumer.set_queue_count(topic, 0)
            self._reconcile(self._wanted.pop(topic))

    async def first_tries(self) -> None:
        """Wait until each queue that is being taken now is taken, or has failed to be."""
        if jobs := self._jobs.all():
            await asyncio.wait(jobs)

    @property
    def untaken(self) -> Sequence[str]:
        """Descriptions of the queues that are being taken."""
        return [f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name}" for queue in sorted(self._taking)]

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, whatever was consumed; cached messages of the queues are dropped. Queues of other
        members are not touched: their owners reset them and store their offsets."""
        fresh = []
        for queue, offset in offsets.items():
            owned = self.owned.get(queue)
            if owned is None:
                if queue in self._taking:
                    self._taking[queue] = offset
            elif owned.is_pulled:
                fresh.append(self._take_anew(owned, offset))
            else:
                owned.reset(offset)     # its release stores the offset
        await self._offsets.store(fresh)

    def moved(self, owned: OwnedQueue, offset: int, is_reset: bool) -> None:
        """The broker says that the queue continues at another offset. If that is a later one, the messages before it
        were removed, and cached ones are still consumed. If it is an earlier one, the queue was reset or lost its end,
        and the taking begins again there."""
        if not owned.is_pulled:
            return
        if offset >= owned.next_offset and not is_reset:
            owned.pulled((), offset)
        else:
            self._store_now(self._take_anew(owned, offset, MOVED_PAUSE_MS))

    # --- what pullers and calls tell ---------------------------------------------------------------------------------

    def pulled(self, owned: OwnedQueue, messages: Sequence[MessageExt], unreadable: Mapping[int, str],
               next_offset: int) -> None:
        self._calls.pulled(owned, messages, unreadable, next_offset)
        if owned.is_pressing():
            self._store_now(owned)

    def has_room(self, owned: OwnedQueue) -> None:
        puller = self._pullers.get(owned)
        if puller is not None:
            puller[0].has_room()

    def idle(self, owned: OwnedQueue) -> None:
        """The call of an ordered queue that is settling or given up has ended: continue what waited for it."""
        self._idle.set()
        if self._unfinished.get(owned.queue) is owned:
            del self._unfinished[owned.queue]
        later = self.owned.get(owned.queue)
        if isinstance(later, OrderedQueue) and later is not owned:
            self._calls.go_on(later)
        self._reconcile((owned.queue,))

    # --- carrying out ------------------------------------------------------------------------------------------------

    def _reconcile(self, queues: Collection[MessageQueue]) -> None:
        """Begin what is due for these queues. An event passes only its own queues, so that its cost does not grow with
        all of them."""
        if self._is_closing:
            return
        now = steady_ms()
        self._settle_unwanted(queues, now)
        leaving = []
        missing: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            owned = self.owned.get(queue)
            if queue in self._releasing:
                continue
            if owned is None:
                if self._is_wanted(queue) and queue not in self._taking:
                    missing[queue.broker_name].append(queue)
            elif not owned.is_pulled and (owned.is_settled or owned.settle_until_ms <= now):
                leaving.append(owned)
        if leaving:
            self._releasing.update(owned.queue for owned in leaving)
            self._jobs.spawn(self._give_back(leaving), f"release queues of {self._consumer.group}")
        for broker_name, of_broker in missing.items():
            self._taking.update(dict.fromkeys(of_broker))
            self._jobs.spawn(self._take(sorted(of_broker)), f"take queues of {broker_name}")

    def _settle_unwanted(self, queues: Collection[MessageQueue], now: int) -> None:
        busy = []
        for queue in queues:
            owned = self.owned.get(queue)
            if queue in self._lost and not self._is_wanted(queue):
                del self._lost[queue]
            if owned is not None and owned.is_pulled and not self._is_wanted(queue):
                self._settle(owned, now + SETTLE_WAIT_MS)
                if not owned.is_settled:
                    busy.append(queue)
        if busy:
            # One ms later, because the clock counts whole ms: when this runs, the wait must be over.
            asyncio.get_running_loop().call_later((SETTLE_WAIT_MS + 1) / 1000, self._reconcile, busy)

    def _is_wanted(self, queue: MessageQueue) -> bool:
        return queue in self._wanted.get(queue.topic, ())

    async def _take(self, queues: list[MessageQueue]) -> None:
        """Take queues of one broker. Queues that cannot be taken now are tried again soon."""
        asked_ms = steady_ms()
        begun: list[OwnedQueue] = []
        try:
            said = await self._lock(queues)
            free = [queue for queue in queues if said.get(queue)]
            starts = await asyncio.gather(*(self._start_of(queue) for queue in free))
            known = {queue: start for queue, start in zip(free, starts, strict=True) if start is not None}
            for topic in {queue.topic for queue in queues if queue not in known and said.get(queue, True)}:
                self._instance.doubt_route(topic)
            if known:
                await self._announce({queue.topic for queue in known})
            for queue, start in known.items():
                if self._is_wanted(queue) and (self._locks is None or self._locks.holds(queue)):
                    begun.append(self._begin(queue, start, self._taking[queue], asked_ms + TRUSTED_MS))
            _log.info("group %s: took %s", self._consumer.group, [
                (owned.queue.topic, owned.queue.broker_name, owned.queue.queue_id, owned.next_offset)
                for owned in begun])
            if self._locks is not None:
                await self._locks.unlock([queue for queue in free if queue not in self._unfinished
                                          and not self._is_wanted(queue)])
        finally:
            if not self._is_closing:
                for queue in queues:
                    del self._taking[queue]
                if len(begun) < len(queues):
                    self._reconcile_soon()

    async def _start_of(self, queue: MessageQueue) -> Start | None:
        """Where to begin. After a lost lock this is where the taking before was, if no other member had the queue
        meanwhile."""
        before = self._lost.get(queue)
        # Check the message before the offset is fetched: brokers report a reset only to the first pull after it, and
        # that pull may be this check.
        is_as_it_was = None
        if before is not None and before.last_done is not None:
            is_as_it_was = await self._starts.has(queue, before.last_done)
            if is_as_it_was is False:       # forget it: no later pull reports the reset again
                self._lost.pop(queue, None)
        start = await self._starts.of(queue)
        if start is None or before is None:
            return start
        further = before.goes_on_at(start.offset)
        if is_as_it_was and further is not None:
            return Start(further, is_first=True)
        self._lost.pop(queue, None)
        return start

    def _reconcile_soon(self) -> None:
        """Reconcile again in a second, for queues that could not be taken."""
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(INCOMPLETE_INTERVAL_MS / 1000, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self._reconcile_all()

    def _reconcile_all(self) -> None:
        self._reconcile(self.owned.keys() | {queue for wanted in self._wanted.values() for queue in wanted})

    async def _lock(self, queues: list[MessageQueue]) -> dict[MessageQueue, bool]:
        """Whether this member may take each of the queues; queues whose broker did not answer are left out."""
        if self._locks is None:
            return dict.fromkeys(queues, True)
        return await self._locks.lock(queues)

    async def _announce(self, topics: Iterable[str]) -> None:
        """Announce to brokers that our queues of these topics changed, and wait a moment for their answers."""
        for topic in topics:
            self._consumer.touch_subscription(topic)
        if self._announcement is None:
            self._announcement = self._jobs.spawn(self._heartbeat(), "heartbeat")
        await asyncio.wait([self._announcement], timeout=ANNOUNCE_WAIT_MS / 1000)

    async def _heartbeat(self) -> None:
        """Send a heartbeat, not too soon after the last one. It carries the subscriptions of all topics, so one
        announces all queues that were taken since."""
        rest_ms = self._announced_ms + ANNOUNCE_INTERVAL_MS - steady_ms()
        if rest_ms > 0:
            await asyncio.sleep(rest_ms / 1000)
        self._announced_ms = steady_ms()
        self._announcement = None   # queues that are taken from now on need another heartbeat
        await self._instance.heartbeat()

    def _begin(self, queue: MessageQueue, start: Start, reset: int | None, locked_until_ms: int) -> OwnedQueue:
        """Begin to pull a queue that is ours now, at a reset's offset if one came while it was taken.

        The offset at which a group begins for the first time is stored at once: a member that took the queue later
        without it would begin at the queue's end then, and skip messages.
        """
        before = self._lost.pop(queue, None)
        owned = self._taking_of(queue, start.offset if reset is None else reset, locked_until_ms,
                                self._unfinished.get(queue), is_reset=reset is not None)
        if before is not None and reset is None:
            assert isinstance(owned, OrderedQueue)
            owned.follow(before)
        self.owned[queue] = owned
        if start.is_first:
            owned.pulled((), owned.next_offset)
        if start.is_first or owned.is_reset:
            self._store_now(owned)
        self._pull(owned)
        return owned

    def _taking_of(self, queue: MessageQueue, start: int, locked_until_ms: int, after: OwnedQueue | None, *,
                   is_reset: bool) -> OwnedQueue:
        if self._rules is None:
            return OwnedQueue(queue, start, now_ms(), is_reset=is_reset)
        assert after is None or isinstance(after, OrderedQueue)
        if after is not None and after.unfinished() is not None:
            _log.warning("%s waits for the listener call that began before it was taken again", queue)
        return OrderedQueue(queue, start, now_ms(), self._rules, after=after, is_reset=is_reset,
                            locked_until_ms=NEEDS_NO_LOCK if self._locks is None else locked_until_ms)

    def _take_anew(self, owned: OwnedQueue, offset: int, pause_ms: int = 0) -> OwnedQueue:
        """Replace a taking, whose results are ignored from now on, by a new one that is pulled after a pause."""
        locked_until_ms = owned.locked_until_ms if isinstance(owned, OrderedQueue) else 0
        self._drop(owned)
        fresh = self._taking_of(owned.queue, offset, locked_until_ms, owned, is_reset=True)
        self.owned[owned.queue] = fresh
        self._pull(fresh, pause_ms)
        return fresh

    def _pull(self, owned: OwnedQueue, pause_ms: int = 0) -> None:
        queue = owned.queue
        puller = QueuePuller(self._consumer, self, self._instance, owned, pause_ms)
        task = self._tasks.supervise(puller.run, f"pull {queue.topic} {queue.broker_name} {queue.queue_id}")
        self._pullers[owned] = puller, task

    def _stop_pulling(self, owned: OwnedQueue) -> None:
        puller = self._pullers.pop(owned, None)
        if puller is not None:
            puller[1].cancel()

    def _settle(self, owned: OwnedQueue, until_ms: int) -> None:
        self._stop_pulling(owned)
        owned.settle(until_ms)
        self._calls.withdraw(owned)

    def _drop(self, owned: OwnedQueue) -> None:
        """End a taking. If a call still runs for it, the queue's next taking does not call before that has ended."""
        self._stop_pulling(owned)
        self._calls.forget(owned)
        owned.give_up()
        self.owned.pop(owned.queue, None)
        if isinstance(owned, OrderedQueue) and (unfinished := owned.unfinished()) is not None:
            self._unfinished[owned.queue] = unfinished

    async def _give_back(self, leaving: list[OwnedQueue]) -> None:
        queues = [owned.queue for owned in leaving]
        try:
            await self._release(leaving)
            self._releasing.difference_update(queues)
            self._reconcile(queues)
            for topic in {queue.topic for queue in queues}:
                self._consumer.touch_subscription(topic)
            self._instance.heartbeat_soon()
            _log.info("group %s: gave up %s", self._consumer.group, [
                (queue.topic, queue.broker_name, queue.queue_id) for queue in queues])
        finally:
            if not self._is_closing:
                self._releasing.difference_update(queues)
                self._reconcile_soon()

    async def _release(self, leaving: list[OwnedQueue], also_unlock: Collection[MessageQueue] = ()) -> None:
        """Give queues up to other members; first store the offsets at which those begin. A queue whose call still runs
        keeps its lock until it expires."""
        for _ in range(STORES_MAX):
            offsets = [owned.commit_offset for owned in leaving]
            await self._offsets.store(leaving)
            if offsets == [owned.commit_offset for owned in leaving]:
                break
        for owned in leaving:
            self._drop(owned)
        late = [owned.queue for owned in leaving if not owned.is_settled]
        if late:
            _log.warning("queues are given up although their listener calls still run: %s", late)
        if self._locks is not None:
            free = [owned.queue for owned in leaving if owned.is_settled]
            await self._locks.unlock([*free, *also_unlock])

    async def _settled(self, queues: Collection[OwnedQueue], until_ms: int) -> bool:
        """Wait until all queues are settled; False when the time is over. Settled queues stay settled, so they are
        awaited one after another, and each end of a call checks only one queue."""
        try:
            async with asyncio.timeout((until_ms - steady_ms()) / 1000):
                for owned in queues:
                    while not owned.is_settled:
                        self._idle.clear()
                        await self._idle.wait()
        except TimeoutError:
            return False
        return True

    # --- background --------------------------------------------------------------------------------------------------

    def _store_now(self, owned: OwnedQueue) -> None:
        self._pressing.add(owned)
        self._is_pressed.set()

    async def _store_all(self) -> None:
        while True:
            await asyncio.sleep(self._consumer.config.persist_consumer_offset_interval / 1000)
            await self._offsets.store(list(self.owned.values()))

    async def _store_pressing(self) -> None:
        """Store pressing offsets separately from the regular store, which a broker that does not answer may delay."""
        while True:
            await self._is_pressed.wait()
            self._is_pressed.clear()
            due = list(self._pressing)
            self._pressing.clear()
            await self._offsets.store(due)

    async def _renew_locks(self) -> None:
        while True:
            await asyncio.sleep(RENEW_INTERVAL_MS / 1000)
            await self.renew_locks()

    async def renew_locks(self) -> None:
        """Renew all locks. A queue whose lock had lapsed is taken again, because another member may have consumed
        it."""
        assert self._locks is not None
        asked_ms = steady_ms()
        asked = [owned for owned in self.owned.values() if isinstance(owned, OrderedQueue)]
        said = await self._locks.lock([owned.queue for owned in asked])
        for owned in asked:
            queue = owned.queue
            if owned.is_given_up:
                continue
            if not said.get(queue):
                _log.warning("the lock of %s could not be renewed; it rests until it can", queue)
                if queue in said:
                    owned.lock_lost()
            elif owned.lock_renewed(asked_ms, asked_ms + TRUSTED_MS):
                self._calls.go_on(owned)
            elif owned.is_pulled:
                _log.warning("the lock of %s had lapsed; the queue is taken again", queue)
                self._drop(owned)
                self._lost[queue] = owned
        self._reconcile_all()

    def _locks_lost(self, queues: Collection[MessageQueue]) -> None:
        """Take queues again after their connection was lost: their broker may have restarted and given them to another
        member."""
        lost = [owned for queue in queues if isinstance(owned := self.owned.get(queue), OrderedQueue)]
        for owned in lost:
            owned.lock_lost()
            if owned.is_pulled:
                self._drop(owned)
                self._lost[owned.queue] = owned
        if lost:
            _log.warning("the connection over which %d queues of group %s were locked is lost; they are taken again",
                         len(lost), self._consumer.group)
        self._reconcile(queues)
