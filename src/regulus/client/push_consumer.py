"""Consumes messages: pulls them, calls a listener, and keeps account of what is done.

The life of a message here: a `QueuePuller` pulls it into its queue's `ProcessQueue`; `ListenerWorkers` call the
listener; when it succeeds the message leaves the process queue, and the offset that may be committed moves on; when it
fails the message goes back to the broker, which brings it again later from the group's retry topic. Offsets are stored
every 5 s, so a message may come twice and must be harmless then.

Source: DefaultMQPushConsumerImpl, ConsumeMessageConcurrentlyService, RebalancePushImpl.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from regulus.client import client_instance, consumer_start
from regulus.client.client_instance import ClientInstance, RequestHandler, now_ms, steady_ms
from regulus.client.config import MessageModel, PushConsumerConfig
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.message_check import check_group, check_topic
from regulus.client.core.offset_table import OffsetTable
from regulus.client.core.process_queue import NOTHING_PUT, ProcessQueue
from regulus.client.listener import ConsumeStatus, MessageListener
from regulus.client.listener_workers import ListenerWorkers, Work
from regulus.client.offset_store import BrokerOffsets, LocalOffsets, OffsetStore
from regulus.client.orderly import OrderlyConsumption
from regulus.client.queue_locks import QueueLocks
from regulus.client.rebalancer import Rebalancer
from regulus.client.running_info import running_info
from regulus.client.send_back import SendBack
from regulus.client.tasks import TaskGroup
from regulus.errors import ClientClosed, ConfigError, RegulusError
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import retry_topic
from regulus.record import message_record
from regulus.wire.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    GetConsumerStatusBody,
    ResetOffsetBody,
    SubscriptionData,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumeMessageDirectlyRequest,
    GetConsumerStatusFromClientRequest,
    ResetConsumerClientOffsetRequest,
)
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

LOCAL_RETRY_DELAY_MS = 5000
EXPIRED_DELAY_LEVEL = 3
NO_SPAN_LIMIT = 1 << 62
EXPIRY_SCAN_INTERVAL_MAX_MS = 30_000


class PushConsumer:
    """A consumer of one group.

        async def listen(messages: list[MessageExt], context: ConsumeContext) -> ConsumeStatus:
            ...
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = PushConsumer("127.0.0.1:9876", "my-group", listen)
        consumer.subscribe("my-topic", "TagA || TagB")
        async with consumer:
            await asyncio.Event().wait()
    """

    def __init__(self, name_server: str, group: str, listener: MessageListener,
                 config: PushConsumerConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        check_group(group)
        self.group = group
        self.config = config or PushConsumerConfig()
        self.is_suspended = False
        self._name_server = name_server
        self._listener = listener
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._statistics: dict[str, TopicStatistics] = {}
        self._limits: dict[str, FlowLimits] = {}
        self._base_limits = FlowLimits(
            count_max=self.config.pull_threshold_for_queue, size_max_mib=self.config.pull_threshold_size_for_queue,
            span_max=NO_SPAN_LIMIT if self.config.consume_orderly else self.config.consume_concurrently_max_span)
        self._started_ms = 0
        self._tasks = TaskGroup()
        self._sends_back = TaskGroup()
        self._instance: ClientInstance | None = None
        self._workers: ListenerWorkers | None = None
        self._offsets: OffsetStore | None = None
        self._rebalancer: Rebalancer | None = None
        self._send_back: SendBack | None = None
        self._orderly: OrderlyConsumption | None = None
        self._handlers: dict[int, RequestHandler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._answer_notify,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._answer_reset_offset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._answer_consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._answer_running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._answer_consume_directly,
        }

    # --- life --------------------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = consumer_start.TAG) -> None:
        """Consume the messages of a topic whose tag the expression names: `*`, `TagA`, `TagA || TagB`.

        With `expression_type` SQL92 the expression is a condition over properties, if the broker allows it. All members
        of a group must subscribe alike. Raises MessageIllegal, HeaderError.
        """
        check_topic(topic)
        self._subscriptions[topic] = SubscriptionData.compile(topic, expression, now_ms(), expression_type)
        if self._rebalancer is not None:
            self._running().heartbeat_soon()
            self._rebalancer.soon()

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no more. Unknown topics are fine."""
        self._subscriptions.pop(topic, None)
        if self._rebalancer is not None:
            self._running().heartbeat_soon()
            self._rebalancer.soon()

    async def start(self) -> None:
        """Join the group and consume. Raises ConfigError, NoNameServer; BrokerRefused for a bad SQL expression."""
        if self._instance is not None:
            return
        if not self._subscriptions:
            raise ConfigError(f"consumer {self.group} has no subscription; call subscribe() first")
        clustering = self._is_clustering()
        if clustering:
            own_retry_topic = retry_topic(self.group)
            self._subscriptions[own_retry_topic] = SubscriptionData.compile(own_retry_topic, "*", now_ms())
        instance = client_instance.acquire(self._name_server, self.config, self, stable_instance_name=not clustering)
        self._instance = instance
        self._started_ms = now_ms()
        self._offsets = BrokerOffsets(instance, self.group) if clustering else LocalOffsets(
            Path(self.config.offset_store_path or Path.home() / ".rocketmq_offsets"), instance.client_id, self.group)
        self._workers = ListenerWorkers(self._listener, self.config.consume_thread_max, self._on_result)
        self._rebalancer = Rebalancer(self, instance, self._offsets, self._started_ms)
        try:
            await consumer_start.fetch_routes(instance, list(self._subscriptions))
            await consumer_start.check_expressions(instance, self.group, self._subscriptions)
            limit = await consumer_start.limit_to_send(instance, self.group, self.config, self._subscriptions)
        except (RegulusError, asyncio.CancelledError):
            await self._workers.close(0)
            await self._leave(instance)
            raise
        self._send_back = SendBack(instance, self._name_server, self.group, self.config, limit)
        if self.config.consume_orderly:
            self._orderly = OrderlyConsumption(self.config, self._workers,
                                               QueueLocks(instance, self.group) if clustering else None,
                                               self._finish, self._send_back.dead_letter)
        await instance.heartbeat()
        self._rebalancer.start()
        self._tasks.spawn(self._persist_offsets(), f"persist offsets of {self.group}")
        if not self.config.consume_orderly:
            self._tasks.spawn(self._watch_for_expired(), f"consume timeout of {self.group}")

    async def shutdown(self) -> None:
        """Stop pulling, let running listener calls end, store the offsets, leave the group."""
        instance = self._instance
        if instance is None:
            return
        if self._rebalancer is not None:
            await self._rebalancer.stop()
        if self._orderly is not None:
            await self._orderly.settle(wait_ms=self.config.await_termination_millis_when_shutdown)
        if self._workers is not None:
            await self._workers.close(self.config.await_termination_millis_when_shutdown)
        await self._sends_back.finish(self.config.await_termination_millis_when_shutdown)
        await self._tasks.cancel()
        if self._offsets is not None:
            await self._offsets.persist()
        if self._orderly is not None:
            await self._orderly.close()
        await self._leave(instance)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        await self.shutdown()

    def suspend(self) -> None:
        """Pull no more until `resume`; what is cached is still consumed."""
        self.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False
        if self._rebalancer is not None:
            self._rebalancer.soon()

    @property
    def client_id(self) -> str:
        return self._running().client_id

    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this instance consumes now."""
        return [] if self._rebalancer is None else sorted(self._rebalancer.assigned)

    # --- what the client instance asks of its members ----------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        return ConsumerData(group_name=self.group, message_model=self.config.message_model,
                            consume_from_where=self.config.consume_from_where,
                            subscription_data_set=list(self._subscriptions.values()))

    def topics(self) -> Iterable[str]:
        return self._subscriptions

    def routes_changed(self) -> None:
        if self._rebalancer is not None:
            self._rebalancer.soon()

    def request_handlers(self) -> dict[int, RequestHandler]:
        return self._handlers

    # --- what the rebalancer and the pullers ask ---------------------------------------------------------------------

    def subscription(self, topic: str) -> SubscriptionData:
        return self._subscriptions.get(topic) or SubscriptionData.compile(topic, "*")

    def touch_subscription(self, topic: str) -> None:
        """Give the subscription a newer version, also when the clock was set back: the queues of its topic changed."""
        known = self._subscriptions.get(topic)
        if known is not None:
            self._subscriptions[topic] = replace(known, sub_version=max(now_ms(), known.sub_version + 1))

    def statistics(self, topic: str) -> TopicStatistics:
        known = self._statistics.get(topic)
        if known is None:
            known = self._statistics[topic] = TopicStatistics()
        return known

    def limits(self, topic: str) -> FlowLimits:
        return self._limits.get(topic, self._base_limits)

    def set_queue_count(self, topic: str, count: int) -> None:
        """The limits of a topic are shared by its owned queues."""
        self._limits[topic] = self._base_limits.shared_by(
            count, topic_count_max=self.config.pull_threshold_for_topic,
            topic_size_max_mib=self.config.pull_threshold_size_for_topic)

    def may_consume(self, process_queue: ProcessQueue) -> bool:
        """False while the lock of an orderly consumed queue is lost."""
        return self._orderly is None or self._orderly.is_locked(process_queue)

    async def lock_queues(self, queues: Collection[MessageQueue]) -> Collection[MessageQueue]:
        """Those of the queues that this member may take."""
        return queues if self._orderly is None else await self._orderly.lock(queues)

    def queue_taken(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        if self._orderly is not None:
            self._orderly.taken(queue, process_queue)

    async def settle_queues(self, queues: Collection[MessageQueue]) -> None:
        """Before queues are given up: let what must end in order come to its end."""
        if self._orderly is not None:
            await self._orderly.settle(queues)

    async def queues_given_up(self, queues: Collection[MessageQueue]) -> None:
        if self._orderly is not None:
            await self._orderly.given_up(queues)

    def commit_offset_for_pull(self, queue: MessageQueue) -> int:
        return self._table().get(queue) or 0 if self._is_clustering() else 0

    def received(self, queue: MessageQueue, process_queue: ProcessQueue, messages: list[MessageExt]) -> None:
        fresh = process_queue.put(messages)
        if self._orderly is not None:
            self._orderly.received(queue, process_queue, fresh)
            return
        size = self.config.consume_message_batch_max_size
        assert self._workers is not None
        self._workers.submit([Work(queue, process_queue, fresh[start:start + size])
                              for start in range(0, len(fresh), size)])

    def nothing_left(self, queue: MessageQueue, process_queue: ProcessQueue, next_offset: int) -> None:
        """A pull found nothing to consume before `next_offset`."""
        if process_queue.count == 0:
            self._table().advance(queue, next_offset)

    async def offset_moved(self, queue: MessageQueue, process_queue: ProcessQueue, offset: int) -> None:
        """The broker says that the queue goes on elsewhere: drop it, store that offset, take the queue anew."""
        process_queue.dropped = True
        self._table().set(queue, offset)
        assert self._offsets is not None
        assert self._rebalancer is not None
        await self._offsets.persist((queue,))
        self._rebalancer.forget(queue, process_queue)

    # --- results -----------------------------------------------------------------------------------------------------

    def _on_result(self, work: Work, status: ConsumeStatus | None) -> None:
        """A listener call ended. Results of a queue that was lost, or of a call that expired, count for nothing."""
        if self._orderly is not None:
            ok = len(work.messages) if status == ConsumeStatus.CONSUME_SUCCESS else 0
            self.statistics(work.queue.topic).consumed(ok, len(work.messages) - ok, steady_ms() - work.started_ms)
            self._orderly.result(work, status)
            return
        if work.process_queue.dropped or work.expired:
            return
        messages = work.messages
        failed: Sequence[MessageExt] = ()
        if status != ConsumeStatus.CONSUME_SUCCESS:
            failed = messages
        elif work.context.ack_index < len(messages) - 1:
            failed = messages[max(0, work.context.ack_index + 1):]
        self.statistics(work.queue.topic).consumed(len(messages) - len(failed), len(failed),
                                                   steady_ms() - work.started_ms)
        if failed and self._is_clustering():
            self._sends_back.spawn(self._send_back_all(work, failed), f"send back to {work.queue.broker_name}")
            return
        if failed:
            _log.warning("%d messages of %s failed and are dropped: broadcasting has no retry", len(failed), work.queue)
        self._finish(work.queue, work.process_queue, messages)

    def _finish(self, queue: MessageQueue, process_queue: ProcessQueue, messages: Iterable[MessageExt]) -> None:
        commit = process_queue.remove(messages)
        process_queue.last_consume_ms = now_ms()
        if commit != NOTHING_PUT and not process_queue.dropped:
            self._table().advance(queue, commit)
        if self._rebalancer is not None:
            self._rebalancer.has_room(queue)

    async def _send_back_all(self, work: Work, failed: Sequence[MessageExt]) -> None:
        """Send failed messages back; those that no broker takes are tried again here, and hold the offset back."""
        level = work.context.delay_level_when_next_consume
        kept = [message for message in failed if work.process_queue.holds(message)
                and not await self._giving_back().send_back(message, work.queue, level)]
        if work.process_queue.dropped:
            return
        still = {message.queue_offset for message in kept}
        self._finish(work.queue, work.process_queue,
                     [message for message in work.messages if message.queue_offset not in still])
        if kept:
            self._tasks.spawn(self._retry_here(work, kept), f"local retry of {work.queue}")

    async def _retry_here(self, work: Work, messages: Sequence[MessageExt]) -> None:
        await asyncio.sleep(LOCAL_RETRY_DELAY_MS / 1000)
        for message in messages:
            message.reconsume_times += 1
        if not work.process_queue.dropped and self._workers is not None:
            self._workers.submit([Work(work.queue, work.process_queue, [message]) for message in messages])

    # --- background --------------------------------------------------------------------------------------------------

    async def _persist_offsets(self) -> None:
        assert self._offsets is not None
        while True:
            await asyncio.sleep(self.config.persist_consumer_offset_interval / 1000)
            await self._offsets.persist()
            for statistics in self._statistics.values():
                statistics.sample(steady_ms())

    async def _watch_for_expired(self) -> None:
        """Send back what a listener has held for too long, whatever its place in the queue."""
        limit = self.config.consume_timeout
        assert self._workers is not None
        while True:
            await asyncio.sleep(min(limit / 4, EXPIRY_SCAN_INTERVAL_MAX_MS) / 1000)
            now = steady_ms()
            for work in list(self._workers.running):
                if not work.expired and now - work.started_ms > limit and self._is_clustering():
                    await self._expire(work)

    async def _expire(self, work: Work) -> None:
        messages = [message for message in work.messages if work.process_queue.holds(message)]
        _log.warning("the listener has held %d messages of %s for more than %d ms; they are sent back", len(messages),
                     work.queue, self.config.consume_timeout)
        gone = [message for message in messages
                if await self._giving_back().send_back(message, work.queue, EXPIRED_DELAY_LEVEL)]
        if len(gone) == len(messages):
            work.expired = True
        if not work.process_queue.dropped:
            self._finish(work.queue, work.process_queue, gone)

    # --- requests of brokers -----------------------------------------------------------------------------------------

    async def _answer_notify(self, command: RemotingCommand) -> RemotingCommand | None:
        if self._rebalancer is not None:
            self._rebalancer.soon()
        return None

    async def _answer_reset_offset(self, command: RemotingCommand) -> RemotingCommand | None:
        header = ResetConsumerClientOffsetRequest.decode(command)
        offsets = ResetOffsetBody.decode(command.body).offset_table
        await self.reset_offsets({queue: offset for queue, offset in offsets.items() if queue.topic == header.topic})
        return None

    async def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at these offsets, whatever has been consumed; what is cached of the queues is dropped."""
        assert self._offsets is not None
        assert self._rebalancer is not None
        for queue in offsets:
            self._rebalancer.drop(queue)
        for queue, offset in offsets.items():
            self._table().set(queue, offset)
        await self._offsets.persist(offsets)
        for queue in offsets:
            self._rebalancer.forget(queue, None)

    async def _answer_consumer_status(self, command: RemotingCommand) -> RemotingCommand | None:
        header = GetConsumerStatusFromClientRequest.decode(command)
        table = {queue: offset for queue, offset in self._table().all().items() if queue.topic == header.topic}
        return command.response(ResponseCode.SUCCESS, body=GetConsumerStatusBody(message_queue_table=table).encode())

    async def _answer_running_info(self, command: RemotingCommand) -> RemotingCommand | None:
        return command.response(ResponseCode.SUCCESS, body=self.running_info().encode())

    def running_info(self) -> ConsumerRunningInfo:
        """What an operator sees of this consumer."""
        owned = {} if self._rebalancer is None else self._rebalancer.assigned
        return running_info(
            name_servers=self._running().name_servers.addresses, started_ms=self._started_ms,
            orderly=self.config.consume_orderly, thread_count=self.config.consume_thread_max,
            subscriptions=self._subscriptions.values(),
            queues={queue: each.process_queue for queue, each in owned.items()}, offsets=self._table(),
            statistics=self._statistics, now_ms=steady_ms())

    async def _answer_consume_directly(self, command: RemotingCommand) -> RemotingCommand | None:
        header = ConsumeMessageDirectlyRequest.decode(command)
        message = message_record.decode(command.body)
        queue = MessageQueue(message.topic, header.broker_name or "", message.queue_id)
        result = await self.consume_directly(message, queue)
        return command.response(ResponseCode.SUCCESS, body=result.encode())

    async def consume_directly(self, message: MessageExt, queue: MessageQueue) -> ConsumeMessageDirectlyResult:
        """Call the listener once with this message; offsets and retries are not touched."""
        assert self._workers is not None
        work = Work(queue, ProcessQueue(), [message])
        begun = time.monotonic()
        status, error = await self._workers.call_directly(work)
        outcome = _DIRECT_RESULTS.get(status, "CR_RETURN_NULL") if error is None else "CR_THROW_EXCEPTION"
        remark = None if error is None else f"{type(error).__name__}: {error}"
        return ConsumeMessageDirectlyResult(order=self.config.consume_orderly, consume_result=outcome, remark=remark,
                                            spent_time_mills=int((time.monotonic() - begun) * 1000))

    # -----------------------------------------------------------------------------------------------------------------

    def _is_clustering(self) -> bool:
        return self.config.message_model is MessageModel.CLUSTERING

    def _giving_back(self) -> SendBack:
        if self._send_back is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._send_back

    def _table(self) -> OffsetTable:
        if self._offsets is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._offsets.table

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._instance

    async def _leave(self, instance: ClientInstance) -> None:
        if self._send_back is not None:
            await self._send_back.close()
        self._instance = None
        self._rebalancer = None
        await client_instance.release(instance, self)


_DIRECT_RESULTS = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
    ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
    None: "CR_RETURN_NULL",
}
