"""Consumes popped messages for a push consumer: it receives as long as its cache has room, calls the listener, and
reports to the server how each message ended.

    READY ── a worker is free ──> INFLIGHT ── success ──> COMMIT
                                     └── failure ──> RETRY, and after the group's last delivery DEAD_LETTER

A message has `consume_timeout` from its receipt on, including the wait in the cache. Until then the server or this
module keeps it invisible; then it is given back, the result of its call is ignored, and another member gets it. In
order, the messages of a queue are called one after the other: a message that fails is tried again here after
`fifo_retry_interval`, and no later message is called before it is done or a dead letter.

Source: ProcessQueueImpl, StandardConsumeService, FifoConsumeService of RocketMQ 5.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from regulus.client.config import PushConsumerConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.consuming.listener_workers import ListenerWorkers, Work, rate_bucket
from regulus.client.consuming.receiver import Receive, Receiver
from regulus.client.consuming.remoting_receiver import RETRY_DELAYS_MS
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.listener_cause import NO_CAUSE
from regulus.client.listener import ConsumeStatus, MessageListener
from regulus.client.received_message import PoppedState, ReceivedMessage
from regulus.client.tasks import TaskGroup
from regulus.errors import ClientError, ReceiptInvalid, TooManyRequests
from regulus.model.delay_level import FIRST_RETRY_LEVEL
from regulus.model.failure_causes import Cause
from regulus.model.message_queue import MessageQueue
from regulus.model.wording import counted, one_line
from regulus.wire.bodies import SubscriptionData

_log = logging.getLogger(__name__)

TELL_AGAIN_S = 1.0
"""Seconds until the end of a message is reported again, when the report failed."""
BUSY_PAUSE_S = 0.02
FULL_PAUSE_S = 1.0
LOOK_S = 1.0
"""Seconds between two checks for messages that take too long, or whose invisible time is nearly over."""
PROLONG_BEFORE_MS = 10_000
"""An invisible time is prolonged this many ms before its end, or when a third of it is left, if that is later."""
ASSIGN_S = 30.0
"""Seconds between two lookups of the brokers of each topic."""
GIVE_BACK_MS = 1_000
"""ms after which other members get the messages that are left when the consumer ends."""


class PoppedBatch:
    """The messages of one call of the listener, in the form that `ListenerWorkers` needs.

    `expires`: they are ours only while they are invisible, and the server does not prolong that time itself.
    """

    __slots__ = ("_expires", "_is_given_up", "deadline_ms", "line", "messages", "queue", "size", "telling", "work")

    def __init__(self, queue: MessageQueue, messages: list[ReceivedMessage], deadline_ms: int, line: "_Line | None", *,
                 expires: bool) -> None:
        self.queue = queue
        self.messages = messages
        self.size = sum(len(message.body) for message in messages)
        self.deadline_ms = deadline_ms
        self.line = line
        self.work: Work | None = None
        self.telling = asyncio.Lock()
        """Held during a request about these messages: one at a time, because each request may change the receipts."""
        self._expires = expires
        self._is_given_up = False

    @property
    def is_given_up(self) -> bool:
        """Whether another member has the messages by now, or may have them."""
        return self._is_given_up or (self._expires and self.invisible_until_ms <= steady_ms())

    def give_up(self) -> None:
        self._is_given_up = True

    @property
    def invisible_until_ms(self) -> int:
        return min(message.invisible_until_ms for message in self.messages)

    @property
    def is_ready(self) -> bool:
        """Whether the listener was not called with these messages yet."""
        return self.work is None or self.work.started_ms == 0

    @property
    def is_ordered(self) -> bool:
        return self.line is not None

    def is_locked(self, now_ms: int) -> bool:
        return True

    def call_withdrawn(self) -> None:
        """Nothing to do: popped messages are never withdrawn; given-up ones end as a failed call."""


class _Line:
    """A queue that is consumed in order: the first of `waiting` is being called, or rests."""

    __slots__ = ("timer", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[PoppedBatch] = deque()
        self.timer: asyncio.TimerHandle | None = None

    def rest_no_more(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class _Receiving(NamedTuple):
    """The task that receives of one topic at one broker, and the subscription for which it began."""

    task: asyncio.Task[None]
    subscription: SubscriptionData


class PoppedConsumption:
    def __init__(self, group: str, listener: MessageListener, config: PushConsumerConfig, receiver: Receiver,
                 subscriptions: Mapping[str, SubscriptionData], statistics: Callable[[str], TopicStatistics],
                 is_suspended: Callable[[], bool]) -> None:
        self.receiver = receiver
        self._group = group
        self._config = config
        self._subscriptions = subscriptions
        self._statistics = statistics
        self._is_suspended = is_suspended
        self.workers = ListenerWorkers(listener, config.consume_thread_max, self._call_ended, rate_bucket(config))
        self._under_way: dict[PoppedBatch, None] = {}    # an ordered set: the order in which they came
        self._lines: dict[MessageQueue, _Line] = {}
        self._size = 0
        self._count = 0
        self._asked_for = 0     # messages that receives under way may bring
        self._room = asyncio.Event()
        self._ended = dict.fromkeys((PoppedState.COMMIT, PoppedState.RETRY, PoppedState.DEAD_LETTER), 0)
        self._receiving: dict[tuple[str, str], _Receiving] = {}
        self._assign_wanted = asyncio.Event()
        self._tasks = TaskGroup()
        self._telling = TaskGroup()
        self._is_finished = False

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._tasks.supervise(self._assign, f"assignment of {self._group}")
        self._tasks.supervise(self._look_after, f"invisible times of {self._group}")

    def assign_soon(self) -> None:
        """Look up brokers again: subscriptions or routes changed, or the consumer was resumed."""
        self._assign_wanted.set()
        self._room.set()

    async def finish(self, until_ms: int) -> None:
        """Receive no more; let running calls, and the reports of their ends, finish until `until_ms`."""
        await self._tasks.cancel()
        await self.workers.close(max(0, until_ms - steady_ms()))
        await self._telling.finish(max(0, until_ms - steady_ms()))
        self._is_finished = True

    async def stop(self) -> None:
        """Make sure that no call begins any more, even if `finish` was cancelled."""
        if not self._is_finished:
            await self.workers.close(0)

    async def close(self) -> None:
        """Give back the remaining messages, and close the receiver."""
        left = [popped for popped in self._under_way if not popped.is_given_up]
        self._under_way.clear()
        for popped in left:
            popped.give_up()
        for line in self._lines.values():
            line.rest_no_more()
        try:
            await self._tasks.cancel()
            await self._telling.cancel()
            await asyncio.gather(*(self._give_back(message) for popped in left for message in popped.messages))
            self._count = self._size = 0
        finally:
            await self.receiver.close()

    async def _give_back(self, message: ReceivedMessage) -> None:
        try:
            await self.receiver.change_invisible(message, GIVE_BACK_MS)
        except ClientError as error:
            _log.info("message %s could not be given back, and is delivered again when its invisible time is over: %s",
                      message.message_id, error)

    @property
    def restarts(self) -> int:
        return self._tasks.restarts + self._telling.restarts + self.workers.restarts

    def counts(self) -> dict[PoppedState, int]:
        """Numbers of messages: READY and INFLIGHT now, the other states since the start."""
        ready = sum(len(popped.messages) for popped in self._under_way if popped.is_ready)
        return {PoppedState.READY: ready, PoppedState.INFLIGHT: self._count - ready, **self._ended}

    # --- receiving ---------------------------------------------------------------------------------------------------

    async def _assign(self) -> None:
        """Keep one receiving task for each broker of each topic. When a subscription is replaced, so is its task: its
        receive may wait at the broker for messages that are not wanted any more."""
        while True:
            self._assign_wanted.clear()
            wanted: dict[tuple[str, str], SubscriptionData] = {}
            is_known = True
            for topic, subscription in list(self._subscriptions.items()):
                try:
                    places = [(topic, broker) for broker in await self.receiver.brokers(topic)]
                except ClientError as error:
                    _log.warning("the brokers of topic %s are not known: %s", topic, error)
                    places = [place for place in self._receiving if place[0] == topic]
                    is_known = False
                wanted.update(dict.fromkeys(places, subscription))
            for place, receiving in list(self._receiving.items()):
                if wanted.get(place) is not receiving.subscription:
                    del self._receiving[place]
                    receiving.task.cancel()
            for place in wanted.keys() - self._receiving.keys():
                self._receiving[place] = _Receiving(self._tasks.supervise(
                    partial(self._receive_from, *place, wanted[place]), f"receives of {place[0]} at {place[1]}"),
                    wanted[place])
            await self._wait(self._assign_wanted, ASSIGN_S if is_known and wanted else FULL_PAUSE_S)

    async def _receive_from(self, topic: str, broker: str, subscription: SubscriptionData) -> None:
        attempt_id = str(uuid.uuid4())
        while True:
            count = await self._room_for()
            if self._subscriptions.get(topic) is not subscription:
                return      # `_assign` puts another task in its place
            self._asked_for += count
            try:
                messages = await self.receiver.receive(Receive(
                    subscription, broker, count, self._config.pop_invisible_time,
                    self._config.broker_suspend_max_time, is_prolonged=True, attempt_id=attempt_id))
            except TooManyRequests:
                await asyncio.sleep(BUSY_PAUSE_S)
                continue
            except ClientError as error:
                _log.warning("nothing received of topic %s from broker %s: %s", topic, broker, error)
                await asyncio.sleep(self._config.pull_time_delay_when_exception / 1000)
                continue
            finally:
                self._asked_for -= count
            # With the same attempt id the server would send the same messages once more.
            attempt_id = str(uuid.uuid4())
            if messages:
                self._received(messages)
            else:
                await asyncio.sleep(BUSY_PAUSE_S)   # a server that does not hold receives must not be asked nonstop

    async def _room_for(self) -> int:
        """Wait until there is room; returns how many messages may be requested."""
        config = self._config
        while True:
            room = config.max_cache_message_count - self._count - self._asked_for
            if room > 0 and self._size < config.max_cache_message_size_in_bytes and not self._is_suspended():
                return min(room, config.pop_batch_nums)
            self._room.clear()
            await self._wait(self._room, FULL_PAUSE_S)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return

    def _received(self, messages: Sequence[ReceivedMessage]) -> None:
        deadline_ms = steady_ms() + self._config.consume_timeout
        is_orderly = self.receiver.rules.is_orderly
        by_queue: dict[MessageQueue, list[ReceivedMessage]] = {}
        for message in messages:
            queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
            by_queue.setdefault(queue, []).append(message)
        works: list[Work] = []
        for queue, came in by_queue.items():
            came.sort(key=lambda message: message.queue_offset)
            readable = [message for message in came if not message.unreadable or is_orderly]
            for message in came:
                if message not in readable:
                    self._hand_on(self._taken(queue, [message], deadline_ms, None))
            size = 1 if is_orderly else self._config.consume_message_batch_max_size
            for start in range(0, len(readable), size):
                line = self._lines.setdefault(queue, _Line()) if is_orderly else None
                popped = self._taken(queue, readable[start:start + size], deadline_ms, line)
                if line is None:
                    works.append(self._work(popped))
                else:
                    line.waiting.append(popped)
                    if len(line.waiting) == 1:
                        self._call_first(queue, line)
        if works:
            self.workers.submit(works)

    def _taken(self, queue: MessageQueue, messages: list[ReceivedMessage], deadline_ms: int,
               line: _Line | None) -> PoppedBatch:
        popped = PoppedBatch(queue, messages, deadline_ms, line, expires=not self.receiver.prolongs)
        self._under_way[popped] = None
        self._count += len(messages)
        self._size += popped.size
        return popped

    def _work(self, popped: PoppedBatch) -> Work:
        popped.work = Work(popped, list(popped.messages), self._group)
        return popped.work

    # --- ends of calls -----------------------------------------------------------------------------------------------

    def _call_ended(self, work: Work, status: ConsumeStatus) -> None:
        popped = work.owned
        assert isinstance(popped, PoppedBatch)
        if popped.is_given_up:
            self._forget([popped])
            return
        is_success = status == ConsumeStatus.CONSUME_SUCCESS
        again = set(work.failed() if is_success else range(len(popped.messages)))
        done = [message for number, message in enumerate(popped.messages) if number not in again]
        failed = [popped.messages[number] for number in sorted(again)]
        self._statistics(popped.queue.topic).consumed(len(done), len(failed), steady_ms() - work.started_ms)
        if popped.line is not None:
            self._ordered_call_ended(popped, work, is_success)
            return
        self._tell(popped, [(message, self._ack(message)) for message in done] + [
            (message, self._failed(message, work.context.delay_level_when_next_consume, work.cause))
            for message in failed])

    def _hand_on(self, popped: PoppedBatch) -> None:
        """Report unreadable messages as failed: another member may be able to read them, and after the group's last
        delivery they are dead letters."""
        for message in popped.messages:
            _log.warning("message %s of %s cannot be read and is handed on: %s", message.message_id, popped.queue,
                         message.unreadable)
        self._tell(popped, [(message, self._failed(message, 0, _unreadable(message))) for message in popped.messages])

    def _ack(self, message: ReceivedMessage) -> "Deed":
        return lambda: self.receiver.ack(message), PoppedState.COMMIT

    def _failed(self, message: ReceivedMessage, delay_level: int, cause: Cause) -> "Deed":
        rules = self.receiver.rules
        if delay_level < 0 or message.delivery_attempt >= rules.deliveries_max:
            return lambda: self._dead_letter(message, cause), PoppedState.DEAD_LETTER
        delay_ms = rules.retry_delay_ms(message.delivery_attempt)
        if delay_level > 0:
            delay_ms = RETRY_DELAYS_MS[max(0, min(delay_level - FIRST_RETRY_LEVEL, len(RETRY_DELAYS_MS) - 1))]
        return lambda: self.receiver.change_invisible(message, delay_ms), PoppedState.RETRY

    async def _dead_letter(self, message: ReceivedMessage, cause: Cause) -> None:
        await self.receiver.dead_letter(message, self.receiver.rules.deliveries_max,
                                        cause if self._config.with_causes else NO_CAUSE)
        _log.warning("message %s with keys %s is a dead letter of group %s after %s: %s", message.message_id,
                     one_line(message.keys or "-"), self._group, counted(message.delivery_attempt, "try", "tries"),
                     one_line(cause.text))

    def _tell(self, popped: PoppedBatch, deeds: "Sequence[tuple[ReceivedMessage, Deed]]") -> None:
        """Report to the server how each message ended, in the background; afterwards there is room for others."""
        self._telling.spawn(self._told(popped, deeds), f"ends of messages of {popped.queue}")

    async def _told(self, popped: PoppedBatch, deeds: "Sequence[tuple[ReceivedMessage, Deed]]") -> None:
        async with popped.telling:
            for message, (deed, state) in deeds:
                if await self._until_told(popped, message, deed):
                    self._ended[state] += 1
        self._done(popped)

    async def _until_told(self, popped: PoppedBatch, message: ReceivedMessage,
                          deed: Callable[[], Awaitable[None]]) -> bool:
        """Report the end of a message until the server has it; False when the message is no longer ours."""
        while not popped.is_given_up:
            try:
                await deed()
                return True
            except ReceiptInvalid as error:
                _log.warning("message %s of %s does not belong to this consumer any more, and may be delivered again: "
                             "%s", message.message_id, popped.queue, error)
                return False
            except ClientError as error:
                if steady_ms() >= popped.deadline_ms:
                    _log.warning("the end of message %s of %s could not be reported to the server, which may deliver "
                                 "it again: %s", message.message_id, popped.queue, error)
                    self._forget(self._with_those_behind(popped))
                    return False
                _log.warning("the end of message %s of %s could not be reported to the server; trying again: %s",
                             message.message_id, popped.queue, error)
            await asyncio.sleep(TELL_AGAIN_S)
        return False

    def _done(self, popped: PoppedBatch) -> None:
        if popped in self._under_way:
            del self._under_way[popped]
            self._count -= len(popped.messages)
            self._size -= popped.size
            self._room.set()

    def _forget(self, several: Sequence[PoppedBatch]) -> None:
        """Forget messages that are no longer ours; results of their calls are ignored."""
        for popped in several:
            popped.give_up()
            self._done(popped)
        for popped in several:
            line = popped.line
            if line is not None and line.waiting and line.waiting[0].is_given_up:
                line.rest_no_more()
                self._call_first(popped.queue, line)

    # --- in order ----------------------------------------------------------------------------------------------------

    def _call_first(self, queue: MessageQueue, line: _Line) -> None:
        line.timer = None
        while line.waiting and line.waiting[0].is_given_up:
            line.waiting.popleft()
        if not line.waiting:
            if self._lines.get(queue) is line:
                del self._lines[queue]
            return
        popped = line.waiting[0]
        [message] = popped.messages
        if message.unreadable:
            self._telling.spawn(self._first_ended(popped, message, self._failed(message, -1, _unreadable(message))),
                                f"message of {queue}")
        else:
            self.workers.submit([self._work(popped)])

    def _ordered_call_ended(self, popped: PoppedBatch, work: Work, is_success: bool) -> None:
        [message] = popped.messages
        line = popped.line
        assert line is not None
        is_last = message.delivery_attempt >= self.receiver.rules.deliveries_max
        if is_success or is_last or work.context.delay_level_when_next_consume < 0:
            deed = self._ack(message) if is_success else self._failed(message, -1, work.cause)
            self._telling.spawn(self._first_ended(popped, message, deed), f"end of a message of {popped.queue}")
            return
        message.reconsume_times += 1
        pause_ms = work.context.suspend_current_queue_time_millis
        pause_ms = self._config.fifo_retry_interval if pause_ms < 0 else pause_ms
        line.timer = asyncio.get_running_loop().call_later(pause_ms / 1000, self._call_first, popped.queue, line)

    async def _first_ended(self, popped: PoppedBatch, message: ReceivedMessage, deed: "Deed") -> None:
        """Report the end of a queue's first message, then call the next one. If the next were called before the report
        arrives, this message might be delivered again after it."""
        assert popped.line is not None
        await self._told(popped, [(message, deed)])
        if popped.line.waiting and popped.line.waiting[0] is popped:
            popped.line.waiting.popleft()
        self._call_first(popped.queue, popped.line)

    # --- invisible times ---------------------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = steady_ms()
            for popped in list(self._under_way):
                if popped.telling.locked() or popped not in self._under_way:
                    continue
                if now >= popped.deadline_ms:
                    self._took_too_long(popped)
                elif popped.is_given_up:
                    self._lapsed(popped)
                elif not self.receiver.prolongs and self._is_nearly_over(popped, now):
                    self._telling.spawn(self._prolong(popped), f"invisible time of messages of {popped.queue}")

    def _is_nearly_over(self, popped: PoppedBatch, now_ms: int) -> bool:
        return popped.invisible_until_ms - now_ms <= min(PROLONG_BEFORE_MS, self._config.pop_invisible_time // 3)

    async def _prolong(self, popped: PoppedBatch) -> None:
        async with popped.telling:
            if popped not in self._under_way:
                return      # done by now: with a new invisible time an acknowledged message would be delivered again
            for message in popped.messages:
                left_ms = popped.deadline_ms - steady_ms()
                if popped.is_given_up or left_ms <= 0:
                    return
                try:
                    await self.receiver.change_invisible(message, min(left_ms, self._config.pop_invisible_time))
                except ReceiptInvalid as error:
                    _log.warning("message %s of %s belongs to another member by now: %s", message.message_id,
                                 popped.queue, error)
                    self._forget([popped])
                    return
                except ClientError as error:
                    _log.warning("the invisible time of message %s of %s was not prolonged: %s", message.message_id,
                                 popped.queue, error)

    def _lapsed(self, popped: PoppedBatch) -> None:
        _log.warning("%d messages of %s are visible again before they were done, as their time could not be prolonged",
                     len(popped.messages), popped.queue)
        self._ended[PoppedState.RETRY] += len(popped.messages)
        self._forget([popped])

    def _took_too_long(self, popped: PoppedBatch) -> None:
        """Give messages back that took too long. In order, the later messages of their queue go back as well, so that
        they do not come before them."""
        late = self._with_those_behind(popped)
        _log.warning("%d messages of %s took longer than consume_timeout (%d ms), the wait in the cache included; they "
                     "are delivered again", sum(len(each.messages) for each in late), popped.queue,
                     self._config.consume_timeout)
        self._forget(late)
        for each in late:
            self._ended[PoppedState.RETRY] += len(each.messages)
            self._telling.spawn(self._returned(each), f"messages of {each.queue} that took too long")

    def _with_those_behind(self, popped: PoppedBatch) -> list[PoppedBatch]:
        return [popped] if popped.line is None else [each for each in popped.line.waiting if each in self._under_way]

    async def _returned(self, popped: PoppedBatch) -> None:
        async with popped.telling:
            for message in popped.messages:
                try:
                    await self.receiver.change_invisible(
                        message, self.receiver.rules.retry_delay_ms(message.delivery_attempt))
                except ClientError as error:
                    _log.warning("message %s of %s could not be given back, and is delivered again when its invisible "
                                 "time is over: %s", message.message_id, popped.queue, error)


def _unreadable(message: ReceivedMessage) -> Cause:
    return Cause(f"unreadable: {message.unreadable}")


Deed = tuple[Callable[[], Awaitable[None]], PoppedState]
"""A request about a message to the server, and the message's state after it."""
