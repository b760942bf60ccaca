"""Finds the offset at which a consumer begins in a queue. Source: RebalancePushImpl.computePullFromWhere."""

import logging
from typing import NamedTuple

from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.consuming.offset_store import OffsetStore
from regulus.client.core.inner_batches import is_inner_batch, offset_behind
from regulus.client.core.ordered_queue import MessagePlace
from regulus.errors import BrokerRefused, ClientError, HeaderError, RecordError
from regulus.model import sys_flag
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import is_retry_topic
from regulus.record import message_record
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    PullMessageRequest,
    SearchOffsetByTimestampRequest,
    SearchOffsetByTimestampResponse,
)
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

CONSUME_TIMESTAMP_DEFAULT_AGE_MS = 30 * 60_000


class Start(NamedTuple):
    """The offset to begin at. `is_first`: the group has no stored offset, and another member may compute another one
    later."""

    offset: int
    is_first: bool


class StartOffsets:
    def __init__(self, instance: ClientInstance, group: str, config: PushConsumerConfig, offsets: OffsetStore,
                 started_ms: int) -> None:
        self._instance = instance
        self._group = group
        self._config = config
        self._offsets = offsets
        self._started_ms = started_ms

    async def of(self, queue: MessageQueue) -> Start | None:
        """Where to begin; None when that is not known now, and then the queue is not taken this time."""
        try:
            stored = await self._offsets.load(queue)
            if stored is not None:
                return Start(stored, is_first=False)
            first = await self._first_offset(queue)
            return Start(first, is_first=first > 0)
        except (ClientError, HeaderError) as error:
            _log.warning("start of %s not known, trying again: %s", queue, error)
            return None

    async def has(self, queue: MessageQueue, place: MessagePlace) -> bool | None:
        """Whether the queue still has exactly this message at its place, alone or in a batch; None when its broker does
        not say."""
        header = PullMessageRequest(
            self._group, queue.topic, queue.queue_id, place.queue_offset, 1, sys_flag.PULL_SUBSCRIPTION, 0, 0, "*", 0,
            "TAG", broker_name=queue.broker_name)
        try:
            route = await self._instance.route(queue.topic)
            address = route.any_address(queue.broker_name)
            if address is None:
                return None
            answer = await self._instance.request(
                address, RemotingCommand.request(RequestCode.PULL_MESSAGE, header.ext()))
            found = message_record.decode_all(answer.body)
        except BrokerRefused as error:
            _log.info("%s has changed: %s", queue, error)
            return False
        except (ClientError, HeaderError, RecordError) as error:
            _log.info("it is not known whether %s has changed: %s", queue, error)
            return None
        return bool(found) and _is_at(found[0], place)

    async def _first_offset(self, queue: MessageQueue) -> int:
        """Where a group without a stored offset begins. Retry topics begin at 0, so that no retry is skipped."""
        where = self._config.consume_from_where
        if is_retry_topic(queue.topic) or where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        route = await self._instance.route(queue.topic)
        address = route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        if where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
            last = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
            answer = await self._instance.request(address,
                                                  RemotingCommand.request(RequestCode.GET_MAX_OFFSET, last.ext()))
            return GetMaxOffsetResponse.decode(answer).offset
        timestamp = self._config.consume_timestamp
        if timestamp is None:
            timestamp = self._started_ms - CONSUME_TIMESTAMP_DEFAULT_AGE_MS
        search = SearchOffsetByTimestampRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp,
                                                broker_name=queue.broker_name)
        answer = await self._instance.request(
            address, RemotingCommand.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search.ext()))
        return SearchOffsetByTimestampResponse.decode(answer).offset


def _is_at(found: MessageExt, place: MessagePlace) -> bool:
    """Whether this is the message of the place. A batch is compared by its record, as the ids of its messages are
    inside."""
    if not is_inner_batch(found):
        return MessagePlace.of(found) == place
    return ((found.physical_offset, found.store_timestamp) == (place.physical_offset, place.store_timestamp)
            and found.queue_offset <= place.queue_offset < offset_behind(found))
