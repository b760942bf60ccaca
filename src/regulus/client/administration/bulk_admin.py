"""Reads stored messages of a queue, undecoded and many at a time, for readers that are not consumers.

A Regulus broker is read with BULK_PULL. Another broker refuses that as unknown; it is remembered, and read with a
consumer's pulls, without membership in a group.
"""

from collections.abc import Sequence
from typing import NamedTuple

from regulus.client.administration.message_admin import TOOLS_GROUP
from regulus.client.administration.topic_admin import TopicAdmin
from regulus.client.config import ClientConfig
from regulus.client.connecting.client_instance import ClientInstance
from regulus.errors import BrokerRefused
from regulus.model import sys_flag
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    BulkPullRequest,
    BulkPullResponse,
    PullMessageRequest,
    PullMessageResponse,
    QueryConsumerOffsetRequest,
    QueryConsumerOffsetResponse,
)
from regulus.wire.headers.bulk_pull import BOUNDS_OF_ALL, QUEUE_BOUNDS
from regulus.wire.remoting_command import RemotingCommand

BULK_SIZE = 4 << 20
"""The most bytes that a Regulus broker sends at a time, except for a single larger message."""

PULL_COUNT = 32
"""The most messages that RocketMQ sends at a time, by default."""

_PULLED = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
           ResponseCode.PULL_OFFSET_MOVED)


class QueueState(NamedTuple):
    """The queue holds [min_offset, max_offset). `topic_epoch` is 0 for a broker that does not have topic epochs."""

    min_offset: int
    max_offset: int
    topic_epoch: int


class QueueRead(NamedTuple):
    """Consecutive stored records. Messages before `next_offset` that are not among them did not match the expression,
    or were removed.

    If there is no data and the offset is unchanged, the queue, which holds [min_offset, max_offset), has no message
    there. `topic_epoch` is that of the topic of which the records are; 0 for a broker that does not have epochs.
    """

    data: bytes | memoryview
    next_offset: int
    min_offset: int
    max_offset: int
    topic_epoch: int = 0


class BulkAdmin(TopicAdmin):
    """All methods raise BrokerRefused when a broker refuses, and ClientError when it does not answer."""

    def __init__(self, name_server: str, config: ClientConfig | None = None) -> None:
        super().__init__(name_server, config)
        self._without_bulk: set[str] = set()

    async def has_bulk(self, queue: MessageQueue) -> bool:
        """Whether the queue's broker supports BULK_PULL; True also before the first attempt."""
        return await self._queue_address(queue) not in self._without_bulk

    async def queue_state(self, queue: MessageQueue) -> QueueState:
        """The offsets between which the queue has messages now."""
        answer = await self._bulk_pull(queue, 0, 0, 0, "*")
        if answer is not None:
            place = BulkPullResponse.decode(answer)
            return QueueState(place.min_offset, place.max_offset, place.topic_epoch)
        return QueueState(await self.min_offset(queue), await self.max_offset(queue), 0)

    async def queue_states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        """The states of queues of one topic at one broker, with one request for many of them."""
        if len(queues) == 1:
            return {queues[0]: await self.queue_state(queues[0])}
        known = await self._bulk_states(queues)
        if known is None:
            stats = await self._topic_stats_of(await self._queue_address(queues[0]), queues[0].topic)
            known = {queue: QueueState(ends.min_offset, ends.max_offset, 0)
                     for queue, ends in stats.offset_table.items()}
        # A queue that the topic no longer has is requested alone, so that the broker's refusal is raised.
        return {queue: known[queue] if queue in known else await self.queue_state(queue) for queue in queues}

    async def _bulk_states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState] | None:
        """The states that the broker sends together; None from a broker that does not know BULK_PULL."""
        known: dict[MessageQueue, QueueState] = {}
        for queue in sorted(queues):
            if queue in known:
                continue
            answer = await self._bulk_pull(queue, 0, BOUNDS_OF_ALL, 0, "*")
            if answer is None:
                return None
            place = BulkPullResponse.decode(answer)
            known[queue] = QueueState(place.min_offset, place.max_offset, place.topic_epoch)
            for number, (low, high) in enumerate(QUEUE_BOUNDS.iter_unpack(answer.body), queue.queue_id):
                known[queue._replace(queue_id=number)] = QueueState(low, high, place.topic_epoch)
        return known

    async def read_queue(self, queue: MessageQueue, start: int, end: int, *, size_max: int = BULK_SIZE,
                         expression: str = "*", expression_type: str = "TAG") -> QueueRead:
        """The first records of [start, end), as many as the broker sends at a time.

        RocketMQ may also send records after `end`.
        """
        if expression_type == "TAG":
            answer = await self._bulk_pull(queue, start, end, size_max, expression)
            if answer is not None:
                place = BulkPullResponse.decode(answer)
                return QueueRead(answer.body_view, place.next_offset, place.min_offset, place.max_offset,
                                 place.topic_epoch)
        read = await self._pull(queue, start, min(end - start, PULL_COUNT), expression, expression_type)
        if not await self.has_bulk(queue):
            return read
        # The answer to a pull has no epoch. One that is asked for afterwards is that of the records, or a later one.
        return read._replace(topic_epoch=(await self.queue_state(queue)).topic_epoch)

    async def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset at which a group continues in a queue; None when it has none."""
        header = QueryConsumerOffsetRequest(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id,
                                            set_zero_if_not_found=False, broker_name=queue.broker_name)
        try:
            answer = await self._request(await self._queue_address(queue), RequestCode.QUERY_CONSUMER_OFFSET,
                                         header.ext())
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return QueryConsumerOffsetResponse.decode(answer).offset

    async def forget_routes(self, topics: set[str]) -> None:
        """Fetch the routes of topics again, after a broker did not answer. Raises ClientError."""
        instance: ClientInstance = self._running()
        for topic in sorted(topics):
            await instance.fetch_route(topic)

    # -----------------------------------------------------------------------------------------------------------------

    async def _bulk_pull(self, queue: MessageQueue, start: int, end: int, size_max: int,
                         expression: str) -> RemotingCommand | None:
        """The answer to BULK_PULL; None from a broker that does not know it."""
        address = await self._queue_address(queue)
        if address in self._without_bulk:
            return None
        header = BulkPullRequest(topic=queue.topic, queue_id=queue.queue_id, queue_offset=start, queue_offset_end=end,
                                 size_max=size_max, expression=expression)
        try:
            return await self._request(address, RequestCode.BULK_PULL, header.ext())
        except BrokerRefused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            self._without_bulk.add(address)
            return None

    async def _pull(self, queue: MessageQueue, start: int, count: int, expression: str,
                    expression_type: str) -> QueueRead:
        header = PullMessageRequest(TOOLS_GROUP, queue.topic, queue.queue_id, start, count, sys_flag.PULL_SUBSCRIPTION,
                                    0, 0, expression, 0, expression_type, broker_name=queue.broker_name)
        address = await self._queue_address(queue)
        answer = await self._running().connections.request(
            address, RemotingCommand.request(RequestCode.PULL_MESSAGE, header.ext()),
            self.config.mq_client_api_timeout)
        if answer.code not in _PULLED:
            raise BrokerRefused(answer.code, answer.remark, address)
        place = PullMessageResponse.decode(answer)
        # After the queue's end, or in an empty queue, the broker's next offset is not a step forward.
        is_step = answer.code != ResponseCode.PULL_OFFSET_MOVED and place.next_begin_offset > start
        return QueueRead(answer.body, place.next_begin_offset if is_step else start, place.min_offset, place.max_offset)
