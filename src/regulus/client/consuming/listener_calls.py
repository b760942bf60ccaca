"""Submits pulled messages to the listener and handles the ends of its calls, as the `OwnedQueue` decides.

A message that succeeds is done, and the offset to commit advances. A message that fails goes back to the broker, which
delivers it again later from the group's retry topic; if no broker takes it, it is tried again here. In order, the queue
rests after a failure, and no later message is called before the failed one is done or a dead letter.

Source: ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

from regulus.client.config import MessageModel, PushConsumerConfig
from regulus.client.connecting.client_instance import now_ms, steady_ms
from regulus.client.consuming.listener_workers import ListenerWorkers, Work, rate_bucket
from regulus.client.consuming.send_back import IsOurs, SendBack
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.listener_cause import LATER
from regulus.client.core.ordered_queue import Blocked, Call, DeadLetter, OrderedQueue, WakeAt
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.core.send_back import DEAD_LETTER
from regulus.client.foreign_calls import call
from regulus.client.listener import ConsumeStatus, MessageListener
from regulus.client.tasks import TaskGroup
from regulus.model.failure_causes import Cause, add_cause
from regulus.model.message import MessageExt

_log = logging.getLogger(__name__)

LOCAL_RETRY_DELAY_MS = 5000
EXPIRED_DELAY_LEVEL = 3
BROKERS_DELAY_LEVEL = 0
EXPIRY_SCAN_INTERVAL_MAX_MS = 30_000

OnQueue = Callable[[OwnedQueue], None]
StatisticsOf = Callable[[str], TopicStatistics]


class ListenerCalls:
    """The listener calls of a consumer. `on_room` is called when a queue whose puller waits got smaller, `on_idle` when
    the call of an ordered queue that is settling or given up has ended."""

    def __init__(self, group: str, listener: MessageListener, config: PushConsumerConfig, statistics: StatisticsOf,
                 on_room: OnQueue, on_idle: OnQueue) -> None:
        self.workers = ListenerWorkers(listener, config.consume_thread_max, self._call_ended, rate_bucket(config))
        self._group = group
        self._config = config
        self._is_clustering = config.message_model is MessageModel.CLUSTERING
        self._statistics = statistics
        self._on_room = on_room
        self._on_idle = on_idle
        self._send_back: SendBack | None = None
        self._is_finished = False
        self._tasks = TaskGroup()
        self._sends_back = TaskGroup()
        self._timers: dict[OwnedQueue, asyncio.TimerHandle] = {}
        self._is_told_of_returns = False

    def start(self, send_back: SendBack) -> None:
        self._send_back = send_back
        if self._is_clustering and not self._config.consume_orderly:
            self._tasks.supervise(self._watch_for_expired, f"consume timeout of {self._group}")

    async def finish(self, until_ms: int) -> None:
        """Begin no more calls; let running calls and messages that are being sent back end until `until_ms`."""
        await self.workers.close(until_ms - steady_ms())
        await self._sends_back.finish(max(0, until_ms - steady_ms()))
        self._is_finished = True

    async def stop(self) -> None:
        """Make sure that no call begins any more, even if `finish` was cancelled."""
        if not self._is_finished:
            await self.workers.close(0)

    async def close(self) -> None:
        """End everything else."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        try:
            await self._sends_back.cancel()
            await self._tasks.cancel()
        finally:
            if self._send_back is not None:
                await self._send_back.close()

    @property
    def restarts(self) -> int:
        return self._tasks.restarts + self._sends_back.restarts + self.workers.restarts

    def pulled(self, owned: OwnedQueue, messages: Sequence[MessageExt], unreadable: Mapping[int, str],
               next_offset: int) -> None:
        """Take in the messages of a pull. `unreadable`: by queue offset, why a message cannot be read."""
        fresh = owned.pulled(messages, next_offset)
        if unreadable:
            for message in fresh:
                if message.queue_offset in unreadable:
                    _log.warning("message at offset %d of %s cannot be read and is handed on: %s", message.queue_offset,
                                 owned.queue, unreadable[message.queue_offset])
        if isinstance(owned, OrderedQueue):
            owned.queued(fresh, unreadable)
            self.go_on(owned)
            return
        if unreadable:
            fresh = self._without_unreadable(owned, fresh, unreadable)
        size = self._config.consume_message_batch_max_size
        self.workers.submit([self._work(owned, fresh[start:start + size]) for start in range(0, len(fresh), size)])

    def go_on(self, owned: OrderedQueue) -> None:
        """Do the next step of an ordered queue."""
        step = owned.next_step(steady_ms())
        if step is None:
            return
        if isinstance(step, Call):
            self.workers.submit([self._work(owned, step.messages)])
        elif isinstance(step, WakeAt):
            self._wake(owned, step.at_ms)
        else:
            self._sends_back.spawn(self._dead_letters(owned, step), f"dead letters of {owned.queue}")

    def withdraw(self, owned: OwnedQueue) -> None:
        """Begin no more ordered calls of the queue, so that its end does not wait for a call that waits for its
        rate."""
        if isinstance(owned, OrderedQueue):
            self.workers.withdraw(owned)

    def forget(self, owned: OwnedQueue) -> None:
        """Forget a queue that was given up."""
        self.withdraw(owned)
        timer = self._timers.pop(owned, None)
        if timer is not None:
            timer.cancel()

    # --- ends of calls -----------------------------------------------------------------------------------------------

    def _call_ended(self, work: Work, status: ConsumeStatus) -> None:
        owned = _queue_of(work)
        messages = work.messages
        if isinstance(owned, OrderedQueue):
            self._ordered_call_ended(owned, work, status)
        elif (status == ConsumeStatus.CONSUME_SUCCESS and work.context.ack_index >= len(messages) - 1
              and not work.context.failed_indexes):
            if owned.is_given_up or work.is_expired:
                return
            self._statistics(owned.queue.topic).consumed(len(messages), 0, steady_ms() - work.started_ms)
            self._finished(owned, messages)
        elif not (owned.is_given_up or work.is_expired):
            self._failed(owned, work, status)

    def _finished(self, owned: OwnedQueue, messages: Sequence[MessageExt]) -> None:
        owned.finished(messages)
        owned.last_consume_ms = now_ms()
        if owned.is_full:
            self._on_room(owned)

    def _failed(self, owned: OwnedQueue, work: Work, status: ConsumeStatus) -> None:
        """Handle a call of which some or all messages failed."""
        failed = work.messages
        if status == ConsumeStatus.CONSUME_SUCCESS:
            failed = [work.messages[number] for number in work.failed()]
        else:
            self._check_return(work)
        self._statistics(owned.queue.topic).consumed(len(work.messages) - len(failed), len(failed),
                                                     steady_ms() - work.started_ms)
        done = _without(work.messages, failed)
        if work.is_expiring:
            self._finished(owned, done)
        elif self._is_clustering:
            self._sends_back.spawn(self._send_back_failed(owned, work, done, failed),
                                   f"send back to {owned.queue.broker_name}")
        else:
            _log.warning("%d messages of %s failed and are dropped: broadcasting has no retry", len(failed),
                         owned.queue)
            self._finished(owned, work.messages)

    def _check_return(self, work: Work) -> None:
        if not work.odd_answer or self._is_told_of_returns:
            return
        self._is_told_of_returns = True
        _log.warning("the listener of group %s %s: its messages count as failed and come again; return a ConsumeStatus",
                     self._group, work.odd_answer)

    async def _send_back_failed(self, owned: OwnedQueue, work: Work, done: Sequence[MessageExt],
                                failed: Sequence[MessageExt]) -> None:
        """Send failed messages back. Messages that no broker takes, for whatever reason, are tried again here, and the
        offset to commit does not advance past them."""
        taken = list(done)
        error = await _tried(self._send_back_all(owned, failed, work.context.delay_level_when_next_consume, work.cause,
                                               taken))
        self._finished(owned, taken)
        self._retry_here_later(owned, _without(failed, taken))
        if error is not None:
            raise error

    async def _send_back_all(self, owned: OwnedQueue, messages: Sequence[MessageExt], delay_level: int,
                             cause: Cause, taken: list[MessageExt]) -> None:
        """Send messages back; those that a broker took are added to `taken`, also when this fails halfway."""
        assert self._send_back is not None
        for message in messages:
            if owned.held((message,)) and await self._send_back.send_back(
                    message, owned.queue, delay_level, _is_ours(owned), cause):
                taken.append(message)

    def _retry_here_later(self, owned: OwnedQueue, messages: Sequence[MessageExt]) -> None:
        if messages and not owned.is_given_up:
            asyncio.get_running_loop().call_later(LOCAL_RETRY_DELAY_MS / 1000, self._retry_here, owned, messages)

    def _retry_here(self, owned: OwnedQueue, messages: Sequence[MessageExt]) -> None:
        for message in messages:
            message.reconsume_times += 1
        self.workers.submit([self._work(owned, [message]) for message in owned.held(messages)])

    def _work(self, owned: OwnedQueue, messages: list[MessageExt]) -> Work:
        return Work(owned, messages, self._group)

    # --- messages that cannot be read --------------------------------------------------------------------------------

    def _without_unreadable(self, owned: OwnedQueue, fresh: Sequence[MessageExt],
                            unreadable: Mapping[int, str]) -> list[MessageExt]:
        """The readable messages; the unreadable ones are sent back in the background."""
        bad = [message for message in fresh if message.queue_offset in unreadable]
        if self._is_clustering:
            reasons = dict(unreadable)
            self._sends_back.supervise(lambda: self._hand_on_until_taken(owned, bad, reasons),
                                       f"unreadable messages of {owned.queue}")
        else:
            self._finished(owned, bad)
        return _without(fresh, bad)

    async def _hand_on_until_taken(self, owned: OwnedQueue, messages: list[MessageExt],
                                   reasons: Mapping[int, str]) -> None:
        """Send unreadable messages back like failed ones, until a broker has them all. Another member may be able to
        read them, and after the group's last retry they are dead letters."""
        while messages := owned.held(messages):
            taken: list[MessageExt] = []
            error = await _tried(self._hand_on(owned, messages, BROKERS_DELAY_LEVEL, reasons, taken))
            self._finished(owned, taken)
            if error is not None:
                raise error
            if len(taken) < len(messages):
                await asyncio.sleep(LOCAL_RETRY_DELAY_MS / 1000)

    async def _hand_on(self, owned: OwnedQueue, messages: Sequence[MessageExt], delay_level: int,
                       reasons: Mapping[int, str], taken: list[MessageExt]) -> None:
        """Like `_send_back_all`, for messages that cannot be read."""
        assert self._send_back is not None
        for message in messages:
            if await self._send_back.hand_on(message, owned.queue, delay_level, reasons[message.queue_offset],
                                               _is_ours(owned)):
                taken.append(message)

    # --- in order ----------------------------------------------------------------------------------------------------

    def _ordered_call_ended(self, owned: OrderedQueue, work: Work, status: ConsumeStatus) -> None:
        is_success = status == ConsumeStatus.CONSUME_SUCCESS
        now = steady_ms()
        if not owned.is_given_up:
            ok = len(work.messages) if is_success else 0
            self._statistics(owned.queue.topic).consumed(ok, len(work.messages) - ok, now - work.started_ms)
        if not is_success:
            self._check_return(work)
            self._keep_cause(work)
        said = owned.call_ended(is_success, work.context.suspend_current_queue_time_millis, now)
        if isinstance(said, DeadLetter):
            self._sends_back.spawn(self._dead_letters(owned, said, work.cause), f"dead letters of {owned.queue}")
            return
        self._ordered_ended(owned, said)

    def _keep_cause(self, work: Work) -> None:
        """Note the cause in the messages, which are tried again here. A listener may have made anything of their
        properties, and then the cause is left out."""
        if self._config.with_causes:
            for message in work.messages:
                call(add_cause, message.properties, message.reconsume_times + 1, work.cause)

    async def _dead_letters(self, owned: OrderedQueue, step: DeadLetter, cause: Cause = LATER) -> None:
        """Make dead letters of the batch and continue after it; when no broker takes them, keep trying."""
        assert self._send_back is not None
        taken: list[MessageExt] = []
        try:
            if not step.reason:
                for message in step.messages:
                    if await self._send_back.dead_letter(message, owned.queue, _is_ours(owned), cause):
                        taken.append(message)
            elif self._is_clustering:
                await self._hand_on(owned, step.messages, DEAD_LETTER,
                                    {message.queue_offset: step.reason for message in step.messages}, taken)
            else:
                taken.extend(step.messages)
        finally:
            self._ordered_ended(owned, owned.dead_lettered(taken, steady_ms()))

    def _ordered_ended(self, owned: OrderedQueue, blocked: Blocked | None) -> None:
        owned.last_consume_ms = now_ms()
        if blocked is not None:
            _log.warning("%s is blocked: message %s at offset %d failed %d times in %d ms, and no later message is "
                         "consumed", owned.queue, blocked.message.message_id, blocked.message.queue_offset,
                         blocked.tries, blocked.age_ms)
        if owned.is_full:
            self._on_room(owned)
        if owned.is_pulled:
            self.go_on(owned)
        else:
            self._on_idle(owned)

    def _wake(self, owned: OrderedQueue, at_ms: int) -> None:
        """Continue at this time. One timer per queue is enough, because the end of a rest does not change."""
        if owned not in self._timers:
            pause = max(0, at_ms - steady_ms()) / 1000
            self._timers[owned] = asyncio.get_running_loop().call_later(pause, self._woken, owned)

    def _woken(self, owned: OrderedQueue) -> None:
        self._timers.pop(owned, None)
        self.go_on(owned)

    # --- calls that take too long ------------------------------------------------------------------------------------

    async def _watch_for_expired(self) -> None:
        """Send back messages that a listener has held for too long, whatever their places in the queue."""
        limit = self._config.consume_timeout
        while True:
            await asyncio.sleep(min(limit / 4, EXPIRY_SCAN_INTERVAL_MAX_MS) / 1000)
            now = steady_ms()
            for work in list(self.workers.running):
                if not work.is_expired and now - work.started_ms > limit:
                    await self._expire(work)

    async def _expire(self, work: Work) -> None:
        owned = _queue_of(work)
        messages = owned.held(work.messages)
        _log.warning("the listener has held %d messages of %s for more than %d ms; they are sent back", len(messages),
                     owned.queue, self._config.consume_timeout)
        work.is_expiring = True
        taken: list[MessageExt] = []
        cause = Cause(f"consume_timeout: the listener held it for more than {self._config.consume_timeout} ms")
        error = await _tried(self._send_back_all(owned, messages, EXPIRED_DELAY_LEVEL, cause, taken))
        work.is_expiring = False
        self._finished(owned, taken)
        kept = owned.held(messages)
        work.is_expired = not kept
        if work not in self.workers.running:
            self._retry_here_later(owned, kept)
        if error is not None:
            raise error


def _queue_of(work: Work) -> OwnedQueue:
    assert isinstance(work.owned, OwnedQueue)
    return work.owned


async def _tried(sending: Coroutine[object, object, None]) -> BaseException | None:
    """The error that ended the sending early, for the caller to raise after it has recorded what was sent. Our own
    cancellation, at the end of the consumer, is raised at once: there is nothing to record any more."""
    (error,) = await asyncio.gather(sending, return_exceptions=True)
    return error


def _is_ours(owned: OwnedQueue) -> IsOurs:
    return lambda: owned.is_pulled


def _without(messages: Sequence[MessageExt], others: Collection[MessageExt]) -> list[MessageExt]:
    """The messages that are not among the others, compared by their offsets; all are of one queue."""
    if not others:
        return list(messages)
    offsets = {message.queue_offset for message in others}
    return [message for message in messages if message.queue_offset not in offsets]
