"""Where a consumer begins in a queue that it takes. Source: RebalancePushImpl.computePullFromWhere."""

import logging
from typing import NamedTuple

from regulus.client.client_instance import ClientInstance
from regulus.client.config import ConsumeFromWhere, PushConsumerConfig
<<<<<<< HEAD
from regulus.client.core.inner_batches import offset_behind
=======
from regulus.client.core.ordered_queue import Place
>>>>>>> attack36
from regulus.client.offset_store import OffsetStore
from regulus.errors import BrokerRefused, ClientError, HeaderError, RecordError
from regulus.model import sys_flag
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
    """`is_first`: the group has no offset that is stored, and another member would not come to the same one."""

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
        """Where to begin; None when that cannot be known now, in which case the queue is not taken this time."""
        try:
            stored = await self._offsets.load(queue)
            if stored is not None:
                return Start(stored, is_first=False)
            first = await self._first_offset(queue)
            return Start(first, is_first=first > 0)
        except (ClientError, HeaderError) as error:
            _log.warning("start of %s not known, trying again: %s", queue, error)
            return None

<<<<<<< HEAD
    async def has(self, queue: MessageQueue, offset: int, physical_offset: int) -> bool:
        """Whether the queue has that very message there, alone or in a batch; not, when its broker does not tell."""
=======
    async def has(self, queue: MessageQueue, place: Place) -> bool | None:
        """Whether the queue has that very message there; None when its broker does not tell."""
>>>>>>> attack36
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
            _log.info("%s is not as it was: %s", queue, error)
            return False
        except (ClientError, HeaderError, RecordError) as error:
            _log.info("whether %s is as it was is not known: %s", queue, error)
<<<<<<< HEAD
            return False
        return bool(found) and found[0].physical_offset == physical_offset \
            and found[0].queue_offset <= offset < offset_behind(found[0])
=======
            return None
        return bool(found) and Place.of(found[0]) == place
>>>>>>> attack36

    async def _first_offset(self, queue: MessageQueue) -> int:
        """Where a group begins that has no offset. Retry topics begin at 0, so that no retry is skipped."""
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
