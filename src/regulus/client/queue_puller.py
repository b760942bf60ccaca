"""Pulls one queue, for as long as it is assigned to this consumer. Source: DefaultMQPushConsumerImpl.pullMessage."""

import asyncio
import logging
from typing import Protocol

from regulus.client.client_instance import ClientInstance, now_ms, steady_ms
from regulus.client.config import PushConsumerConfig
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.process_queue import ProcessQueue
from regulus.client.core.received import prepare
from regulus.errors import ClientError, HeaderError, RecordError
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import retry_topic
from regulus.record import message_record
from regulus.wire.bodies import SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import PullMessageRequest, PullMessageResponse
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

FLOW_CONTROL_PAUSE_MS = 50
THROTTLED_PAUSE_MS = 20
SUSPENDED_PAUSE_MS = 1000

_SUCCESS = int(ResponseCode.SUCCESS)
_PULL_MESSAGE = int(RequestCode.PULL_MESSAGE)
_NOTHING_NEW = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_SUBSCRIPTION_UNKNOWN = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,
                         ResponseCode.FILTER_DATA_NOT_EXIST, ResponseCode.FILTER_DATA_NOT_LATEST)


class Consumption(Protocol):
    """What a puller needs of its consumer."""

    group: str
    config: PushConsumerConfig
    is_suspended: bool

    def may_consume(self, process_queue: ProcessQueue) -> bool: ...
    def subscription(self, topic: str) -> SubscriptionData: ...
    def statistics(self, topic: str) -> TopicStatistics: ...
    def limits(self, topic: str) -> FlowLimits: ...
    def commit_offset_for_pull(self, queue: MessageQueue) -> int: ...
    def received(self, queue: MessageQueue, process_queue: ProcessQueue, messages: list[MessageExt]) -> None: ...
    def nothing_left(self, queue: MessageQueue, process_queue: ProcessQueue, next_offset: int) -> None: ...
    async def offset_moved(self, queue: MessageQueue, process_queue: ProcessQueue, offset: int) -> None: ...


class QueuePuller:
    """`next_offset` is the queue offset that the next pull asks for."""

    def __init__(self, consumption: Consumption, instance: ClientInstance, queue: MessageQueue,
                 process_queue: ProcessQueue, next_offset: int) -> None:
        self.next_offset = next_offset
        self._consumption = consumption
        self._instance = instance
        self._queue = queue
        self._process_queue = process_queue
        self._broker_id = 0
        self._retry_topic = retry_topic(consumption.group)
        self._room: asyncio.Future[None] | None = None

    async def run(self) -> None:
        process_queue = self._process_queue
        while not process_queue.dropped:
            process_queue.last_pull_ms = now_ms()
            pause_ms = self._pause_ms()
            if not pause_ms:
                pause_ms = await self._pull()
            elif pause_ms == FLOW_CONTROL_PAUSE_MS:
                await self._wait_for_room()
                continue
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    def has_room(self) -> None:
        """The process queue got smaller: a puller that waits for that may look again before its pause is over."""
        room = self._room
        if room is not None and not room.done() and self._consumption.limits(self._queue.topic).exceeded(
                self._process_queue) is None:
            room.set_result(None)

    def _pause_ms(self) -> int:
        if self._consumption.is_suspended:
            return SUSPENDED_PAUSE_MS
        if self._consumption.limits(self._queue.topic).exceeded(self._process_queue) is not None:
            return FLOW_CONTROL_PAUSE_MS
        if not self._consumption.may_consume(self._process_queue):
            return self._consumption.config.pull_time_delay_when_exception
        return 0

    async def _wait_for_room(self) -> None:
        loop = asyncio.get_running_loop()
        self._room = room = loop.create_future()
        timer = loop.call_later(FLOW_CONTROL_PAUSE_MS / 1000, _wake, room)
        try:
            await room
        finally:
            timer.cancel()
            self._room = None

    async def _pull(self) -> int:
        """One pull; the ms to wait before the next."""
        config = self._consumption.config
        begun = steady_ms()
        try:
            address = await self._address()
            answer = await self._instance.connections.request(address, self._command(),
                                                              config.consumer_timeout_when_suspend)
        except (ClientError, HeaderError) as error:
            _log.info("pull of %s failed: %s", self._queue, error)
            self._instance.doubt_route(self._queue.topic)
            return config.pull_time_delay_when_exception
        if self._process_queue.dropped:
            return 0
        try:
            return await self._take(answer, steady_ms() - begun)
        except (HeaderError, RecordError) as error:
            _log.error("answer to a pull of %s at %d cannot be read: %s", self._queue, self.next_offset, error)
            return config.pull_time_delay_when_exception

    def _command(self) -> RemotingCommand:
        consumption = self._consumption
        config = consumption.config
        queue = self._queue
        subscription = consumption.subscription(queue.topic)
        commit = consumption.commit_offset_for_pull(queue) if self._broker_id == 0 else 0
        sys_flag = flags.PULL_SUSPEND
        if commit > 0:
            sys_flag |= flags.PULL_COMMIT_OFFSET
        if config.post_subscription_when_pull:
            sys_flag |= flags.PULL_SUBSCRIPTION
        header = PullMessageRequest(
            consumption.group, queue.topic, queue.queue_id, self.next_offset, config.pull_batch_size, sys_flag, commit,
            config.broker_suspend_max_time, subscription.sub_string if config.post_subscription_when_pull else None,
            subscription.sub_version, subscription.expression_type, broker_name=queue.broker_name)
        return RemotingCommand.request(_PULL_MESSAGE, header.ext())

    async def _address(self) -> str:
        queue = self._queue
        route = await self._instance.route(queue.topic)
        address = route.brokers.get(queue.broker_name, {}).get(self._broker_id) or route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        return address

    async def _take(self, answer: RemotingCommand, spent_ms: int) -> int:
        code = answer.code
        consumption = self._consumption
        if code == _SUCCESS:
            header = PullMessageResponse.decode(answer)
            self._broker_id = header.suggest_which_broker_id
            self._found(answer.body, header, spent_ms)
            return consumption.config.pull_interval
        if code in _NOTHING_NEW:
            header = PullMessageResponse.decode(answer)
            self._broker_id = header.suggest_which_broker_id
            self.next_offset = header.next_begin_offset
            consumption.nothing_left(self._queue, self._process_queue, self.next_offset)
            return 0
        if code == ResponseCode.PULL_OFFSET_MOVED:
            header = PullMessageResponse.decode(answer)
            _log.warning("offset %d of %s is out of range; going on at %d", self.next_offset, self._queue,
                         header.next_begin_offset)
            await consumption.offset_moved(self._queue, self._process_queue, header.next_begin_offset)
            return 0
        if code == ResponseCode.FLOW_CONTROL:
            return THROTTLED_PAUSE_MS
        if code in _SUBSCRIPTION_UNKNOWN:
            self._instance.heartbeat_soon()
        _log.info("pull of %s refused with %d: %s", self._queue, code, answer.remark)
        return consumption.config.pull_time_delay_when_exception

    def _found(self, body: bytes, header: PullMessageResponse, spent_ms: int) -> None:
        consumption = self._consumption
        subscription = consumption.subscription(self._queue.topic)
        tags = subscription.tags_set if not subscription.class_filter_mode else ()
        messages = prepare(message_record.decode_all(body), tags, self._retry_topic, header.min_offset,
                           header.max_offset)
        self.next_offset = header.next_begin_offset
        if messages:
            consumption.statistics(self._queue.topic).pulled_messages(len(messages), spent_ms)
            consumption.received(self._queue, self._process_queue, messages)
        else:
            consumption.nothing_left(self._queue, self._process_queue, self.next_offset)


def _wake(room: "asyncio.Future[None]") -> None:
    if not room.done():
        room.set_result(None)
