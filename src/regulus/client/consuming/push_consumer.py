"""Consumes messages: pulls them, calls a listener, and keeps track of what is done. Over grpc://, or if configured, it
pops them instead (`popped_consumption`).

The life of a pulled message: the `Rebalancer` determines which queues are ours, and `Consumption` takes them. A
`QueuePuller` pulls the message into its `OwnedQueue`, and `ListenerCalls` has `ListenerWorkers` call the listener. When
the listener succeeds, the offset to commit advances. When it fails, the message goes back to the broker, which delivers
it again later from the group's retry topic. Offsets are stored every 5 s or 1,000 messages, so a message may be
delivered twice, and a second delivery must do no harm.

Source: DefaultMQPushConsumerImpl.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from regulus.client.config import MessageModel, MessageRequestMode, PushConsumerConfig
from regulus.client.connecting import client_instance
from regulus.client.connecting.client_instance import ClientInstance, RequestHandler, now_ms, steady_ms
from regulus.client.consuming import consumer_start
from regulus.client.consuming.consumption import Consumption
from regulus.client.consuming.group_retry_limit import RetryLimit
from regulus.client.consuming.listener_calls import ListenerCalls
from regulus.client.consuming.listener_workers import ListenerWorkers, Work
from regulus.client.consuming.offset_store import BrokerOffsets, LocalOffsets, OffsetStore
from regulus.client.consuming.popped_consumption import PoppedConsumption
from regulus.client.consuming.rebalancer import Rebalancer
from regulus.client.consuming.receivers import push_receiver
from regulus.client.consuming.running_info import running_info
from regulus.client.consuming.send_back import SendBack
from regulus.client.consuming.start_offset import StartOffsets
from regulus.client.core.addresses import Protocol, split_protocol
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.inner_batches import is_inner_batch
from regulus.client.core.message_check import check_group, check_topic
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.core.process_queue import NOTHING_PUT
from regulus.client.core.received import prepare
from regulus.client.listener import ConsumeStatus, MessageListener
from regulus.client.received_message import PoppedState
from regulus.client.started import Started
from regulus.client.tasks import Ending, TaskGroup
from regulus.errors import ClientClosed, ClientError, ConfigError, MessageIllegal
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

NO_SPAN_LIMIT = 1 << 62


class PushConsumer(Started):
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
        if not callable(listener):
            raise ConfigError(f"the listener of group {group} is {listener!r}; give a function of messages and context")
        self.group = group
        self.config = config or PushConsumerConfig()
        self.is_suspended = False
        self._name_server = name_server
        self._listener = listener
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._version = 0
        self._direct_calls = 0
        self._statistics: dict[str, TopicStatistics] = {}
        self._limits: dict[str, FlowLimits] = {}
        self._queue_counts: dict[str, int] = {}
        self._queue_count = 0       # sum over all topics
        self._base_limits = FlowLimits(
            count_max=self.config.pull_threshold_for_queue, size_max_mib=self.config.pull_threshold_size_for_queue,
            span_max=NO_SPAN_LIMIT if self.config.consume_orderly else self.config.consume_concurrently_max_span)
        self._started_ms = 0
        self._changing = asyncio.Lock()     # held while starting or shutting down
        self._joining: asyncio.Task[None] | None = None
        self._tasks = TaskGroup()
        self._ending = Ending()
        self._instance: ClientInstance | None = None
        self._calls: ListenerCalls | None = None
        self._consumption: Consumption | None = None
        self._rebalancer: Rebalancer | None = None
        self._retry_limit: RetryLimit | None = None
        self._popped: PoppedConsumption | None = None
        self._pops = (split_protocol(name_server)[0] is Protocol.GRPC
                      or self.config.message_request_mode is MessageRequestMode.POP)
        if self._pops and self.config.message_model is MessageModel.BROADCASTING:
            raise ConfigError("message_model is BROADCASTING, and over grpc:// each message is given to one instance "
                              "alone; give the address of name servers, rocketmq://")
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
        of a group must subscribe alike.

        In a running consumer this takes effect soon, also for another expression of the same topic; messages that were
        received before are still consumed. A bad SQL expression is not refused then: warnings say so. Raises
        MessageIllegal, HeaderError.
        """
        check_topic(topic)
        self._subscriptions[topic] = SubscriptionData.compile(topic, expression, self._next_version(), expression_type)
        self._subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Stop consuming the topic. Unknown topics are ignored."""
        self._subscriptions.pop(topic, None)
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._popped is not None:
            self._popped.receiver.subscriptions_changed()
            self._popped.assign_soon()
        if self._rebalancer is not None:
            self._running().heartbeat_soon()
            self._rebalancer.soon()

    async def start(self) -> None:
        """Join the group and consume; does nothing if the consumer runs already. A start that fails leaves nothing
        behind and may be tried again.

        When this returns, the begin of each queue is known, so that messages that are sent from then on are delivered.
        If brokers do not answer within 5 s, a warning names them, and they are asked again. A consumer that pops from
        RocketMQ's brokers begins where its first pop begins.

        Raises ConfigError, NoNameServer; BrokerRefused for a bad SQL expression; ClientClosed when `shutdown` comes in
        between; ClientError when the offset file cannot be read, or the group has a client of this name already.
        """
        self._ending.check()
        async with self._changing:
            await self._ending.over()
            if self._instance is not None or self._popped is not None:
                return
            if not self._subscriptions:
                raise ConfigError(f"consumer {self.group} has no subscription; call subscribe() first")
            self._ending.begins()
            # A separate task, which `shutdown` can cancel without cancelling our caller.
            self._joining = joining = asyncio.get_running_loop().create_task(self._join(), name=f"start {self.group}")
            try:
                await asyncio.wait([joining])
            except asyncio.CancelledError:
                joining.cancel()
                try:
                    await asyncio.wait([joining])
                finally:
                    await self._shut_down(steady_ms())      # the group may have been joined already
                raise
            finally:
                self._joining = None
                if joining.done() and self._instance is None and self._popped is None:
                    self._ending.came_to_nothing()
            if joining.cancelled():
                raise ClientClosed(f"consumer {self.group} was shut down while it started")
            joining.result()

    async def _join(self) -> None:
        if self._pops:
            await self._join_and_pop()
            return
        clustering = self.config.message_model is MessageModel.CLUSTERING
        if clustering:
            own_retry_topic = retry_topic(self.group)
            self._subscriptions[own_retry_topic] = SubscriptionData.compile(own_retry_topic, "*", self._next_version())
        instance = client_instance.acquire(self._name_server, self.config, self, stable_instance_name=not clustering)
        async with AsyncExitStack() as undo:    # after any error: a member that does not consume must not stay one
            undo.push_async_callback(client_instance.release, instance, self)
            self._started_ms = now_ms()
            offsets = BrokerOffsets(instance, self.group) if clustering else LocalOffsets(
                Path(self.config.offset_store_path or Path.home() / ".rocketmq_offsets"), instance.client_id,
                self.group)
            await consumer_start.fetch_routes(instance, list(self._subscriptions))
            await consumer_start.check_expressions(instance, self.group, self._subscriptions)
            limit = RetryLimit(instance, self.group, self.config, self.topics)
            await limit.tell()
            await instance.heartbeat()
            self._consume(instance, offsets, limit)
            undo.pop_all()
        assert self._rebalancer is not None
        assert self._consumption is not None
        await consumer_start.find_ends(self.group, self._rebalancer, self._consumption)

    async def _join_and_pop(self) -> None:
        receiver = push_receiver(self._name_server, self, self.config, self._subscriptions.values)
        await receiver.start()
        self._started_ms = now_ms()
        self._popped = popped = PoppedConsumption(self.group, self._listener, self.config, receiver,
                                                  self._subscriptions, self.statistics, lambda: self.is_suspended)
        receiver.consume_directly = self._consumes
        popped.start()
        self._tasks.supervise(self._sample_statistics, f"statistics of {self.group}")

    def _consume(self, instance: ClientInstance, offsets: OffsetStore, limit: RetryLimit) -> None:
        """Begin to consume. This waits for nothing, so it cannot be cancelled halfway."""
        self._instance = instance
        self._calls = calls = ListenerCalls(self.group, self._listener, self.config, self.statistics, self._on_room,
                                    self._on_idle)
        self._consumption = consumption = Consumption(
            self, instance, calls, offsets, StartOffsets(instance, self.group, self.config, offsets, self._started_ms))
        self._rebalancer = Rebalancer(self, instance, consumption)
        self._retry_limit = limit
        calls.start(SendBack(instance, self._name_server, self.group, self.config, limit))
        consumption.start()
        limit.start()
        self._rebalancer.start()
        self._tasks.supervise(self._sample_statistics, f"statistics of {self.group}")

    async def shutdown(self) -> None:
        """Stop pulling, let running listener calls end within `await_termination_millis_when_shutdown`, store the
        offsets, and leave the group. A start that is under way is cancelled. If this call is cancelled, it waits no
        longer; the consumer leaves nevertheless, and a second shutdown waits until it has left."""
        if self._instance is not None and self._instance.is_left_behind:
            self._leave_behind()
            return
        self._ending.check()
        if self._joining is not None:
            self._joining.cancel()
        async with self._changing:
            await self._ending.over()
            await self._shut_down(steady_ms() + self.config.await_termination_millis_when_shutdown)

    async def _shut_down(self, until_ms: int) -> None:
        """End all parts, in the reverse order of their start. If one step fails or is cancelled, the others follow
        nevertheless. The calls are ended in the task of our caller, which may be one of them, and everything else in a
        separate task."""
        name = f"end of consumer {self.group}"
        if self._popped is not None:
            async with AsyncExitStack() as steps:
                steps.push_async_callback(self._ending.carry_out, partial(self._end_popping, self._popped), name)
                steps.push_async_callback(self._popped.stop)
                await self._popped.finish(until_ms)
            return
        if self._instance is None:
            return
        assert self._rebalancer is not None
        assert self._consumption is not None
        assert self._calls is not None
        async with AsyncExitStack() as steps:
            steps.push_async_callback(self._ending.carry_out, partial(self._end_pulling, self._instance), name)
            steps.push_async_callback(self._calls.stop)
            await self._rebalancer.stop()
            await self._consumption.settle_all(until_ms)
            await self._calls.finish(until_ms)

    async def _end_popping(self, popped: PoppedConsumption) -> None:
        async with AsyncExitStack() as steps:
            steps.callback(self._stop_using)
            steps.push_async_callback(popped.close)
            await self._tasks.cancel()

    async def _end_pulling(self, instance: ClientInstance) -> None:
        assert self._consumption is not None
        assert self._calls is not None
        assert self._retry_limit is not None
        async with AsyncExitStack() as steps:
            steps.push_async_callback(self._leave, instance)
            steps.push_async_callback(self._consumption.close)
            steps.push_async_callback(self._retry_limit.close)
            steps.push_async_callback(self._calls.close)
            await self._tasks.cancel()

    def _leave_behind(self) -> None:
        """Forget everything in a forked child: the tasks belong to the parent, and its loop does not run here."""
        self._changing = asyncio.Lock()
        self._joining = None
        self._tasks = TaskGroup()
        self._ending = Ending()
        self._stop_using()

    def suspend(self) -> None:
        """Stop pulling until `resume`; cached messages are still consumed."""
        self.is_suspended = True

    def resume(self) -> None:
        self.is_suspended = False
        if self._rebalancer is not None:
            self._rebalancer.soon()
        if self._popped is not None:
            self._popped.assign_soon()

    @property
    def client_id(self) -> str:
        return self._running().client_id if self._popped is None else self._popped.receiver.client_id

    def message_counts(self) -> dict[PoppedState, int]:
        """Numbers of popped messages: READY and INFLIGHT now, and by how they ended since the start. Raises ClientError
        for a consumer that pulls."""
        if self._popped is None:
            raise ClientClosed(f"consumer {self.group} does not pop, or is not running")
        return self._popped.counts()

    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this instance consumes now; a consumer that pops owns none."""
        return [] if self._consumption is None else sorted(self._consumption.owned)

    # --- what the client instance asks of its members ----------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        return ConsumerData(group_name=self.group, message_model=self.config.message_model,
                            consume_type="CONSUME_POP" if self._pops else "CONSUME_PASSIVELY",
                            consume_from_where=self.config.consume_from_where,
                            subscription_data_set=list(self._subscriptions.values()))

    def topics(self) -> Iterable[str]:
        return self._subscriptions

    def routes_changed(self) -> None:
        if self._retry_limit is not None:
            self._retry_limit.routes_changed()
        if self._rebalancer is not None:
            self._rebalancer.soon()
        if self._popped is not None:
            self._popped.assign_soon()

    def request_handlers(self) -> dict[int, RequestHandler]:
        return self._handlers

    # --- what the consumption, the rebalancer and the pullers ask ----------------------------------------------------

    def subscription(self, topic: str) -> SubscriptionData:
        return self._subscriptions.get(topic) or SubscriptionData.compile(topic, "*")

    def touch_subscription(self, topic: str) -> None:
        """Give the subscription a newer version, because the queues of its topic changed."""
        known = self._subscriptions.get(topic)
        if known is not None:
            self._subscriptions[topic] = replace(known, sub_version=self._next_version())

    def _next_version(self) -> int:
        """A version newer than all before it, even if the clock was set back: brokers ignore subscriptions that are not
        newer than theirs."""
        self._version = max(now_ms(), self._version + 1)
        return self._version

    def statistics(self, topic: str) -> TopicStatistics:
        known = self._statistics.get(topic)
        if known is None:
            known = self._statistics[topic] = TopicStatistics()
        return known

    def limits(self, topic: str) -> FlowLimits:
        return self._limits.get(topic) or self._limits_of(topic)

    def _limits_of(self, topic: str) -> FlowLimits:
        config = self.config
        self._limits[topic] = made = self._base_limits.shared_by(
            self._queue_counts.get(topic, 0), topic_count_max=config.pull_threshold_for_topic,
            topic_size_max_mib=config.pull_threshold_size_for_topic,
            ).part_of(config.pull_threshold_size_for_all_queues, self._queue_count)
        return made

    def set_queue_count(self, topic: str, count: int) -> None:
        """Note how many queues of a topic are ours; they share its limits, and all queues share the limits of all."""
        before = self._queue_counts.pop(topic, 0)
        if count:
            self._queue_counts[topic] = count
        self._queue_count += count - before
        if count != before:
            self._limits.clear()

    def _on_room(self, owned: OwnedQueue) -> None:
        if self._consumption is not None:
            self._consumption.has_room(owned)

    def _on_idle(self, owned: OwnedQueue) -> None:
        if self._consumption is not None:
            self._consumption.idle(owned)

    async def _sample_statistics(self) -> None:
        while True:
            await asyncio.sleep(self.config.persist_consumer_offset_interval / 1000)
            for statistics in self._statistics.values():
                statistics.sample(steady_ms())

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
        """Continue at these offsets, whatever has been consumed; cached messages of the queues are dropped. Queues of
        other members are not touched."""
        await self._consuming().reset(offsets)

    async def _answer_consumer_status(self, command: RemotingCommand) -> RemotingCommand | None:
        header = GetConsumerStatusFromClientRequest.decode(command)
        table = {queue: owned.commit_offset for queue, owned in self._consuming().owned.items()
                 if queue.topic == header.topic and owned.commit_offset != NOTHING_PUT}
        return command.response(ResponseCode.SUCCESS, body=GetConsumerStatusBody(message_queue_table=table).encode())

    async def _answer_running_info(self, command: RemotingCommand) -> RemotingCommand | None:
        return command.response(ResponseCode.SUCCESS, body=self.running_info().encode())

    def running_info(self) -> ConsumerRunningInfo:
        """The state of this consumer for operators."""
        if self._popped is not None:
            return self._popping_info(self._popped)
        consumption, instance = self._consuming(), self._running()
        restarts = consumption.restarts + instance.restarts + self._tasks.restarts
        if self._rebalancer is not None:
            restarts += self._rebalancer.restarts
        if self._retry_limit is not None:
            restarts += self._retry_limit.restarts
        return running_info(
            name_servers=instance.name_servers.addresses, started_ms=self._started_ms,
            orderly=self.config.consume_orderly, thread_count=self.config.consume_thread_max,
            subscriptions=self._subscriptions.values(), queues=consumption.owned.values(),
            statistics=self._statistics, restarts=restarts, now_ms=steady_ms(), limits=self._base_limits)

    def _popping_info(self, popped: PoppedConsumption) -> ConsumerRunningInfo:
        return running_info(
            name_servers=[self._name_server], started_ms=self._started_ms, orderly=popped.receiver.rules.is_orderly,
            thread_count=self.config.consume_thread_max, subscriptions=self._subscriptions.values(), queues=(),
            statistics=self._statistics, restarts=popped.restarts + self._tasks.restarts, now_ms=steady_ms(),
            limits=self._base_limits, popped=popped.counts())

    async def _answer_consume_directly(self, command: RemotingCommand) -> RemotingCommand | None:
        header = ConsumeMessageDirectlyRequest.decode(command)
        message = message_record.decode(command.body)
        if is_inner_batch(message):
            raise MessageIllegal("this record has a whole batch (queue.type=BatchCQ), and one message is consumed "
                                 "directly: send the message again instead")
        _, unreadable = prepare([message], (), retry_topic(self.group), message.queue_offset, message.queue_offset + 1)
        for reason in unreadable.values():
            raise MessageIllegal(f"the message cannot be read: {reason}")
        queue = MessageQueue(message.topic, header.broker_name or "", message.queue_id)
        result = await self.consume_directly(message, queue)
        return command.response(ResponseCode.SUCCESS, body=result.encode())

    async def consume_directly(self, message: MessageExt, queue: MessageQueue) -> ConsumeMessageDirectlyResult:
        """Call the listener once with this message; offsets and retries are not touched. Raises ClientClosed, and
        ClientError when `consume_thread_max` such calls run already."""
        workers = self._workers()
        if self._direct_calls >= self.config.consume_thread_max:
            raise ClientError(f"{self._direct_calls} messages are consumed directly already; ask again later")
        work = Work(OwnedQueue(queue, 0, 0), [message], self.group)
        begun = time.monotonic()
        self._direct_calls += 1
        try:
            status, error = await workers.call_directly(work)
        finally:
            self._direct_calls -= 1
        outcome = "CR_RETURN_NULL" if work.odd_answer else _DIRECT_RESULTS[status]
        if error is not None:
            outcome = "CR_THROW_EXCEPTION"
        remark = None if error is None else f"{type(error).__name__}: {error}"
        return ConsumeMessageDirectlyResult(order=self.config.consume_orderly, consume_result=outcome, remark=remark,
                                            spent_time_mills=int((time.monotonic() - begun) * 1000))

    async def _consumes(self, message: MessageExt) -> bool:
        result = await self.consume_directly(message, MessageQueue(message.topic, "", message.queue_id))
        return result.consume_result == "CR_SUCCESS"

    # -----------------------------------------------------------------------------------------------------------------

    def _workers(self) -> ListenerWorkers:
        if self._popped is not None:
            return self._popped.workers
        self._consuming()
        assert self._calls is not None
        return self._calls.workers

    def _consuming(self) -> Consumption:
        if self._consumption is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._consumption

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"consumer {self.group} is not running; use `async with` or call start() first")
        return self._instance

    async def _leave(self, instance: ClientInstance) -> None:
        self._stop_using()
        await client_instance.release(instance, self)

    def _stop_using(self) -> None:
        self._instance = None
        self._rebalancer = None
        self._retry_limit = None
        self._consumption = None
        self._calls = None
        self._popped = None


_DIRECT_RESULTS = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
    ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
}
