"""Keeps the queues of a consumer in step with the members of its group: whoever joins takes over, whoever leaves hands
over.

Source: RebalanceImpl, RebalanceService, RebalancePushImpl.computePullFromWhere.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Protocol

from regulus.client.client_instance import ClientInstance, now_ms
from regulus.client.config import ConsumeFromWhere, MessageModel
from regulus.client.core.process_queue import ProcessQueue
from regulus.client.core.rebalance import STRATEGIES, sort_client_ids, sort_queues
from regulus.client.core.routes import Route
from regulus.client.offset_store import OffsetStore
from regulus.client.queue_puller import Consumption, QueuePuller
from regulus.client.tasks import TaskGroup
from regulus.errors import BrokerRefused, ClientError, HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import is_retry_topic
from regulus.wire.bodies import GetConsumerListByGroupResponseBody
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    GetConsumerListByGroupRequest,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    SearchOffsetByTimestampRequest,
    SearchOffsetByTimestampResponse,
)
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

INCOMPLETE_INTERVAL_MS = 1_000
"""How soon to try again when a queue could not be taken."""

CONSUME_TIMESTAMP_DEFAULT_AGE_MS = 30 * 60_000


class Balanced(Consumption, Protocol):
    """What the rebalancer needs of its consumer."""

    def topics(self) -> Iterable[str]: ...
    def touch_subscription(self, topic: str) -> None: ...
    async def lock_queues(self, queues: Collection[MessageQueue]) -> Collection[MessageQueue]: ...
    def queue_taken(self, queue: MessageQueue, process_queue: ProcessQueue) -> None: ...
    async def settle_queues(self, queues: Collection[MessageQueue]) -> None: ...
    async def queues_given_up(self, queues: Collection[MessageQueue]) -> None: ...
    def set_queue_count(self, topic: str, count: int) -> None: ...


class Assigned:
    """One owned queue: its cache, and the task that pulls it."""

    __slots__ = ("process_queue", "puller", "task")

    def __init__(self, process_queue: ProcessQueue, puller: QueuePuller, task: "asyncio.Task[None]") -> None:
        self.process_queue = process_queue
        self.puller = puller
        self.task = task


class Rebalancer:
    """Rebalances at start, when asked to, and every `rebalance_interval`."""

    def __init__(self, consumer: Balanced, instance: ClientInstance, offsets: OffsetStore, started_ms: int) -> None:
        self.assigned: dict[MessageQueue, Assigned] = {}
        self._consumer = consumer
        self._instance = instance
        self._offsets = offsets
        self._started_ms = started_ms
        self._wanted = asyncio.Event()
        self._tasks = TaskGroup()
        self._missing: dict[str, str] = {}

    def start(self) -> None:
        self._tasks.spawn(self._run(), f"rebalance {self._consumer.group}")

    async def stop(self) -> None:
        """No rebalance and no pull from now on, not even one that is under way: it would take the queues that are no
        longer pulled for lost. Results of what is cached still count."""
        await self._tasks.cancel()

    def soon(self) -> None:
        self._wanted.set()

    def has_room(self, queue: MessageQueue) -> None:
        owned = self.assigned.get(queue)
        if owned is not None:
            owned.puller.has_room()

    def drop(self, queue: MessageQueue) -> None:
        """Let nothing that is cached of the queue count any more, and pull it no further."""
        owned = self.assigned.get(queue)
        if owned is not None:
            owned.process_queue.dropped = True
            owned.process_queue.clear()
            owned.task.cancel()

    def forget(self, queue: MessageQueue, process_queue: ProcessQueue | None) -> None:
        """Take the queue anew at the next rebalance, which comes at once; if `process_queue` is given, only when it is
        still the current one."""
        owned = self.assigned.get(queue)
        if owned is not None and process_queue in (None, owned.process_queue):
            del self.assigned[queue]
            self._offsets.table.forget(queue)
        self.soon()

    # -----------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            complete = await self._rebalance()
            interval = self._consumer.config.rebalance_interval if complete else INCOMPLETE_INTERVAL_MS
            try:
                async with asyncio.timeout(interval / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _rebalance(self) -> bool:
        """Take and give up queues of all topics; False when something was missing and it is worth trying again soon."""
        topics = set(self._consumer.topics())
        complete = True
        for topic in sorted(topics):
            try:
                complete &= await self._rebalance_topic(topic)
                self._missing.pop(topic, None)
            except (ClientError, HeaderError) as error:
                # The next try comes in a second: say it once.
                if self._missing.get(topic) != str(error):
                    _log.info("topic %s not rebalanced: %s", topic, error)
                self._missing[topic] = str(error)
                complete = False
        lost = [queue for queue in self.assigned if queue.topic not in topics]
        await self._give_up(lost)
        return complete

    async def _rebalance_topic(self, topic: str) -> bool:
        route = await self._instance.route(topic)
        queues = sort_queues(route.subscribe_queues)
        mine = queues
        if self._consumer.config.message_model is MessageModel.CLUSTERING:
            members = sort_client_ids(await self._member_ids(route))
            if not members:
                return False
            allocate = STRATEGIES[self._consumer.config.allocate_message_queue_strategy]
            mine = allocate(queues, members, self._instance.client_id)
        return await self._assign(topic, mine)

    async def _member_ids(self, route: Route) -> list[str]:
        header = GetConsumerListByGroupRequest(self._consumer.group)
        for address in route.readable_addresses():
            try:
                answer = await self._instance.request(
                    address, RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.ext()))
            except BrokerRefused as error:
                _log.info("members of group %s not known: %s", self._consumer.group, error)
                continue
            return GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list
        return []

    async def _assign(self, topic: str, mine: list[MessageQueue]) -> bool:
        wanted = set(mine)
        lost = [queue for queue, owned in self.assigned.items()
                if queue.topic == topic and (queue not in wanted or owned.task.done())]
        await self._give_up(lost)
        missing = [queue for queue in mine if queue not in self.assigned]
        locked = await self._consumer.lock_queues(missing) if missing else ()
        fresh = [queue for queue in missing if queue in locked]
        starts = await asyncio.gather(*(self._start_offset(queue) for queue in fresh))
        taken = [(queue, start) for queue, start in zip(fresh, starts, strict=True) if start is not None]
        if lost or taken:
            self._consumer.set_queue_count(topic, len(mine))
            self._consumer.touch_subscription(topic)
            await self._instance.heartbeat()
            _log.info("group %s: topic %s: took %s, gave up %s", self._consumer.group, topic,
                      [(queue.broker_name, queue.queue_id, start) for queue, start in taken],
                      [(queue.broker_name, queue.queue_id) for queue in lost])
        for queue, start in taken:
            self._take(queue, start)
        return len(taken) == len(missing)

    def _take(self, queue: MessageQueue, start: int) -> None:
        process_queue = ProcessQueue(now_ms())
        puller = QueuePuller(self._consumer, self._instance, queue, process_queue, start)
        self._consumer.queue_taken(queue, process_queue)
        task = self._tasks.spawn(puller.run(), f"pull {queue.topic} {queue.broker_name} {queue.queue_id}")
        self.assigned[queue] = Assigned(process_queue, puller, task)

    async def _give_up(self, queues: list[MessageQueue]) -> None:
        """Other members consume these now. What they are to begin with is stored first."""
        if not queues:
            return
        for queue in queues:
            self.assigned[queue].task.cancel()
        await self._consumer.settle_queues(queues)
        for queue in queues:
            self.assigned.pop(queue).process_queue.dropped = True
        await self._offsets.persist(queues)
        await self._consumer.queues_given_up(queues)
        if self._consumer.config.message_model is MessageModel.CLUSTERING:
            for queue in queues:
                self._offsets.table.forget(queue)

    async def _start_offset(self, queue: MessageQueue) -> int | None:
        """Where to begin; None when that cannot be known now, in which case the queue is not taken this time."""
        try:
            stored = await self._offsets.load(queue)
            return stored if stored is not None else await self._first_offset(queue)
        except (ClientError, HeaderError) as error:
            _log.warning("start of %s not known, trying again: %s", queue, error)
            return None

    async def _first_offset(self, queue: MessageQueue) -> int:
        """Where a group begins that has no offset. Retry topics begin at 0, so that no retry is skipped."""
        config = self._consumer.config
        if is_retry_topic(queue.topic) or config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET:
            return 0
        route = await self._instance.route(queue.topic)
        address = route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        if config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET:
            last = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
            answer = await self._instance.request(address,
                                                  RemotingCommand.request(RequestCode.GET_MAX_OFFSET, last.ext()))
            return GetMaxOffsetResponse.decode(answer).offset
        timestamp = config.consume_timestamp
        if timestamp is None:
            timestamp = self._started_ms - CONSUME_TIMESTAMP_DEFAULT_AGE_MS
        search = SearchOffsetByTimestampRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp,
                                                broker_name=queue.broker_name)
        answer = await self._instance.request(
            address, RemotingCommand.request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search.ext()))
        return SearchOffsetByTimestampResponse.decode(answer).offset
