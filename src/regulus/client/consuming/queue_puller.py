"""Pulls one queue, for as long as it is assigned to this consumer. Source: DefaultMQPushConsumerImpl.pullMessage."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from regulus.client.config import PushConsumerConfig
from regulus.client.connecting.client_instance import ClientInstance, now_ms, steady_ms
from regulus.client.core.consume_statistics import TopicStatistics
from regulus.client.core.flow_control import FlowLimits
from regulus.client.core.inner_batches import from_offset, offset_behind, tells_its_end
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.core.received import decode_to_the_first_bad, is_any_packed, prepare_what_fits, stand_in
from regulus.client.core.routes import MASTER_ID
from regulus.errors import ClientError, HeaderError, RecordError
from regulus.model import sys_flag as flags
from regulus.model.message import MessageExt
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
NOTHING_NEW_PAUSE_MS = 50
"""A broker holds a pull that finds nothing; one that does not would be asked as fast as it answers."""

BAD_PULLS_MAX = 3
"""How often a record that cannot be read is pulled again, for it may have been damaged on its way."""

REFUSAL_REPORT_INTERVAL_MS = 60_000
"""A refusal that lasts is told again so often."""

OFFSET_RESET = "OFFSET_RESET"
"""The remark of a broker whose group was reset; without it the offset is out of range."""

_SUCCESS = int(ResponseCode.SUCCESS)
_PULL_MESSAGE = int(RequestCode.PULL_MESSAGE)
_NOTHING_NEW = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_SUBSCRIPTION_UNKNOWN = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST,
                         ResponseCode.FILTER_DATA_NOT_EXIST, ResponseCode.FILTER_DATA_NOT_LATEST)


class Consumer(Protocol):
    """What a puller asks of the consumer as a whole."""

    group: str
    config: PushConsumerConfig
    is_suspended: bool

    def subscription(self, topic: str) -> SubscriptionData: ...
    def statistics(self, topic: str) -> TopicStatistics: ...
    def limits(self, topic: str) -> FlowLimits: ...


class Receiver(Protocol):
    """Who hears what pulls brought."""

    def pulled(self, owned: OwnedQueue, messages: Sequence[MessageExt], unreadable: Mapping[int, str],
               next_offset: int) -> None: ...
    def moved(self, owned: OwnedQueue, offset: int, is_reset: bool) -> None: ...


class QueuePuller:
    def __init__(self, consumer: Consumer, receiver: Receiver, instance: ClientInstance, owned: OwnedQueue,
                 pause_ms: int = 0) -> None:
        """`pause_ms`: before the first pull."""
        self._consumer = consumer
        self._receiver = receiver
        self._instance = instance
        self._owned = owned
        self._queue = owned.queue
        self._broker_id = MASTER_ID
        self._asks_master = False
        self._retry_topic = retry_topic(consumer.group)
        self._room: asyncio.Future[None] | None = None
        self._bad_pulls = 0
        self._refusal_told_ms: int | None = None
        self._first_pause_ms = pause_ms

    async def run(self) -> None:
        owned = self._owned
        if self._first_pause_ms:
            await asyncio.sleep(self._first_pause_ms / 1000)
        while owned.is_pulled:
            owned.last_pull_ms = now_ms()
            pause_ms = self._pause_ms()
            if not pause_ms:
                pause_ms = await self._pull()
            elif pause_ms == FLOW_CONTROL_PAUSE_MS:
                await self._wait_for_room()
                continue
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)

    def has_room(self) -> None:
        """The cache got smaller: a puller that waits for that may look again before its pause is over."""
        room = self._room
        if room is not None and not room.done() and self._consumer.limits(self._queue.topic).exceeded(
                self._owned.cache) is None:
            room.set_result(None)

    def _pause_ms(self) -> int:
        if self._consumer.is_suspended:
            return SUSPENDED_PAUSE_MS
        if self._consumer.limits(self._queue.topic).exceeded(self._owned.cache) is not None:
            return FLOW_CONTROL_PAUSE_MS
        if not self._owned.is_locked(steady_ms()):
            return self._consumer.config.pull_time_delay_when_exception
        return 0

    async def _wait_for_room(self) -> None:
        loop = asyncio.get_running_loop()
        self._room = room = loop.create_future()
        self._owned.is_full = True
        timer = loop.call_later(FLOW_CONTROL_PAUSE_MS / 1000, _wake, room)
        try:
            await room
        finally:
            timer.cancel()
            self._room = None
            self._owned.is_full = False

    async def _pull(self) -> int:
        """One pull; the ms to wait before the next."""
        config = self._consumer.config
        asked_for = self._owned.next_offset
        begun = steady_ms()
        try:
            address = await self._address()
            answer = await self._instance.connections.request(address, self._command(),
                                                              config.consumer_timeout_when_suspend)
        except (ClientError, HeaderError) as error:
            _log.info("pull of %s failed: %s", self._queue, error)
            self._broker_id = MASTER_ID
            self._instance.doubt_route(self._queue.topic)
            return config.pull_time_delay_when_exception
        if not self._owned.is_pulled:
            return 0
        try:
            spent_ms = steady_ms() - begun
            pause_ms = await self._take(answer, spent_ms)
            if not pause_ms and self._owned.next_offset == asked_for and spent_ms < NOTHING_NEW_PAUSE_MS:
                return NOTHING_NEW_PAUSE_MS
            return pause_ms
        except HeaderError as error:
            _log.error("answer to a pull of %s at %d cannot be read: %s", self._queue, self._owned.next_offset, error)
            return config.pull_time_delay_when_exception

    def _command(self) -> RemotingCommand:
        """Without the offset to store, which it could carry: brokers answer pulls beside other requests, and one that
        comes to its turn behind a store would take the group back."""
        consumer = self._consumer
        config = consumer.config
        queue = self._queue
        subscription = consumer.subscription(queue.topic)
        sys_flag = flags.PULL_SUSPEND
        if config.post_subscription_when_pull:
            sys_flag |= flags.PULL_SUBSCRIPTION
        header = PullMessageRequest(
            consumer.group, queue.topic, queue.queue_id, self._owned.next_offset,
            1 if self._bad_pulls else config.pull_batch_size, sys_flag, 0, config.broker_suspend_max_time,
            subscription.sub_string if config.post_subscription_when_pull else None,
            subscription.sub_version, subscription.expression_type, broker_name=queue.broker_name)
        return RemotingCommand.request(_PULL_MESSAGE, header.ext())

    async def _address(self) -> str:
        queue = self._queue
        route = await self._instance.route(queue.topic)
        address = route.brokers.get(queue.broker_name, {}).get(self._broker_id) or route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        is_silent = self._instance.connections.is_silent
        if is_silent(address):
            # It may stand still for as long as two minutes before the name servers forget it.
            others = [replica for replica in route.replicas(queue.broker_name) if not is_silent(replica)]
            address = others[0] if others else route.master(queue.broker_name) or address
        self._asks_master = address == route.master(queue.broker_name)
        return address

    async def _take(self, answer: RemotingCommand, spent_ms: int) -> int:
        code = answer.code
        owned = self._owned
        config = self._consumer.config
        if code == _SUCCESS:
            header = PullMessageResponse.decode(answer)
            self._broker_id = header.suggest_which_broker_id
            return await self._found(answer.body, header, spent_ms)
        if code in _NOTHING_NEW:
            header = PullMessageResponse.decode(answer)
            self._broker_id = header.suggest_which_broker_id
            self._bad_pulls = 0
            owned.pulled((), header.next_begin_offset)
            return 0
        if code == ResponseCode.PULL_OFFSET_MOVED:
            header = PullMessageResponse.decode(answer)
            self._broker_id = header.suggest_which_broker_id
            has_moved = header.next_begin_offset != owned.next_offset
            is_reset = answer.remark == OFFSET_RESET
            if is_reset:
                _log.info("the group was reset: going on at %d of %s", header.next_begin_offset, self._queue)
            else:
                _log.warning("offset %d of %s is out of range; going on at %d", owned.next_offset, self._queue,
                             header.next_begin_offset)
            self._receiver.moved(owned, header.next_begin_offset, is_reset)
            return 0 if has_moved else config.pull_time_delay_when_exception
        if code == ResponseCode.FLOW_CONTROL:
            return THROTTLED_PAUSE_MS
        if code in _SUBSCRIPTION_UNKNOWN:
            self._instance.heartbeat_soon()
            _log.info("pull of %s refused with %d: %s", self._queue, code, answer.remark)
            return config.pull_time_delay_when_exception
        if code == ResponseCode.TOPIC_NOT_EXIST and self._asks_master and owned.next_offset:
            # A replica may not know the topic yet; its master would. What comes under the name later is another topic.
            _log.warning("%s is not there any more; if its topic is made anew, we begin at its first message",
                         self._queue)
            self._receiver.moved(owned, 0, True)
            return config.pull_time_delay_when_exception
        self._tell_refusal(code, answer.remark)
        return config.pull_time_delay_when_exception

    def _tell_refusal(self, code: int, remark: str | None) -> None:
        """Nothing behind is consumed before somebody mends it; the first line must say so, and not each second one."""
        self._owned.is_refused = True
        now = steady_ms()
        if self._refusal_told_ms is None or now >= self._refusal_told_ms + REFUSAL_REPORT_INTERVAL_MS:
            self._refusal_told_ms = now
            _log.warning("%s stands still at offset %d: its broker refuses pulls with %d: %s", self._queue,
                         self._owned.next_offset, code, remark)

    async def _found(self, body: bytes, header: PullMessageResponse, spent_ms: int) -> int:
        try:
            messages = message_record.decode_all(body)
        except RecordError as error:
            return await self._found_bad_record(body, header, error)
        self._bad_pulls = 0
        subscription = self._consumer.subscription(self._queue.topic)
        tags = subscription.tags_set if not subscription.class_filter_mode else ()
        asked = self._owned.next_offset
        kept, unreadable, rest = await self._prepared(messages, tags, header)
        if not self._owned.is_pulled:
            return 0
        if rest is not None:
            rest = max(rest, asked)
        if messages and messages[0].queue_offset < asked and messages[0].queue_offset not in unreadable:
            # Of an inner batch, which comes whole; what lies before was consumed.
            kept = from_offset(kept, asked)
        if kept:
            self._consumer.statistics(self._queue.topic).pulled_messages(len(kept), spent_ms)
        # What found no room is pulled again when there is some.
        self._receiver.pulled(self._owned, kept, unreadable, header.next_begin_offset if rest is None else rest)
        return self._consumer.config.pull_interval

    async def _prepared(self, messages: Sequence[MessageExt], tags: Collection[str], header: PullMessageResponse,
                        ) -> tuple[list[MessageExt], dict[int, str], int | None]:
        room = self._consumer.limits(self._queue.topic).size_left(self._owned.cache)
        parts = messages, tags, self._retry_topic, header.min_offset, header.max_offset, room
        if not is_any_packed(messages):
            return prepare_what_fits(*parts)
        # Unpacking takes as long as whoever packed wants it to, during which the event loop should serve others.
        return await self._instance.packing(prepare_what_fits, *parts)

    async def _found_bad_record(self, body: bytes, header: PullMessageResponse, error: RecordError) -> int:
        """What lies before the bad record is taken, up to it. The bad one is pulled alone, so that the next offset
        tells its own; when it stays bad, its bytes take its place. A batch before it that does not tell where it ends
        is pulled alone, too."""
        config = self._consumer.config
        good = decode_to_the_first_bad(body)
        if good and not tells_its_end(good[-1]) and self._bad_pulls < BAD_PULLS_MAX:
            behind = good.pop().queue_offset
            if not good:
                self._bad_pulls += 1
                return 0
        elif good:
            behind = max(offset_behind(good[-1]), self._owned.next_offset + 1)
        if good:
            whole = sum(message.store_size for message in good)
            header.next_begin_offset = behind
            return await self._found(body[:whole], header, 0)
        self._bad_pulls += 1
        if self._bad_pulls <= BAD_PULLS_MAX:
            _log.warning("a record of %s at %d cannot be read, pulling it again: %s", self._queue,
                         self._owned.next_offset, error)
            return config.pull_time_delay_when_exception
        self._bad_pulls = 0
        offset = header.next_begin_offset - 1
        bad = stand_in(self._queue.topic, self._queue.queue_id, offset, body)
        self._receiver.pulled(self._owned, [bad], {offset: str(error)}, header.next_begin_offset)
        return 0


def _wake(room: "asyncio.Future[None]") -> None:
    if not room.done():
        room.set_result(None)
