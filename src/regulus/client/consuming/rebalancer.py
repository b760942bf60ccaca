"""Finds out which queues a consumer should own: whenever members join or leave, and when routes change.

Source: RebalanceImpl, RebalanceService.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from regulus.client.config import MessageModel, PushConsumerConfig
from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.core.rebalance import STRATEGIES, sort_client_ids, sort_queues
from regulus.client.core.routes import Route
from regulus.client.tasks import TaskGroup
from regulus.errors import ClientError, HeaderError, NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import GetConsumerListByGroupResponseBody
from regulus.wire.codes import RequestCode
from regulus.wire.headers import GetConsumerListByGroupRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

INCOMPLETE_INTERVAL_MS = 1_000
"""How soon to try again when routes or members are not known."""

MEMBERS_TIMEOUT_MS = 1_000
"""How long a broker may take to tell the members before the next one is asked."""


class Balanced(Protocol):
    """What the rebalancer asks of its consumer."""

    group: str
    config: PushConsumerConfig

    def topics(self) -> Iterable[str]: ...


class Wants(Protocol):
    """Who takes and gives up queues."""

    def want(self, topic: str, queues: Collection[MessageQueue]) -> None: ...
    def want_topics(self, topics: Collection[str]) -> None: ...


class Rebalancer:
    """Rebalances at start, when asked to, and every `rebalance_interval`."""

    def __init__(self, consumer: Balanced, instance: ClientInstance, wants: Wants) -> None:
        self._consumer = consumer
        self._instance = instance
        self._wants = wants
        self._wanted = asyncio.Event()
        self._tasks = TaskGroup()
        self._missing: dict[str, ClientError | HeaderError] = {}
        self._answered_last = ""
        self._has_looked = asyncio.Event()

    def start(self) -> None:
        self._tasks.supervise(self._run, f"rebalance {self._consumer.group}")

    async def stop(self) -> None:
        """No rebalance from now on, not even one that is under way."""
        await self._tasks.cancel()

    def soon(self) -> None:
        self._wanted.set()

    async def first_look(self) -> None:
        """Until it is known once which queues are wanted, or that this is not known now."""
        await self._has_looked.wait()

    @property
    def unknown(self) -> Sequence[str]:
        """Topics of which it is not known which queues are wanted, and why; but for those that no broker has."""
        return [f"{topic}: {why}" for topic, why in self._missing.items() if not isinstance(why, NoRoute)]

    @property
    def restarts(self) -> int:
        return self._tasks.restarts

    # -----------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            complete = await self._rebalance()
            self._has_looked.set()
            interval = self._consumer.config.rebalance_interval
            if not complete:
                interval = min(interval, INCOMPLETE_INTERVAL_MS)
            try:
                async with asyncio.timeout(interval / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _rebalance(self) -> bool:
        """Say which queues of all topics are wanted; False when that is not known of one."""
        topics = set(self._consumer.topics())
        self._wants.want_topics(topics)
        for topic in self._missing.keys() - topics:
            del self._missing[topic]
        for topic in sorted(topics):
            try:
                queues, is_member = await self._queues_of(topic)
                self._wants.want(topic, queues)
                if not is_member:
                    self._instance.heartbeat_soon()
                    raise ClientError(f"the members of group {self._consumer.group} do not include this one")
                self._missing.pop(topic, None)
            except (ClientError, HeaderError) as error:
                # The next try comes in a second: say it once.
                if str(self._missing.get(topic)) != str(error):
                    _log.info("topic %s not rebalanced: %s", topic, error)
                self._missing[topic] = error
        return not self._missing

    async def _queues_of(self, topic: str) -> tuple[list[MessageQueue], bool]:
        """Our share, and whether we are a member: a broker that was started anew knows only those whose heartbeats it
        has got. Others have our queues then, so we have none, but not for long. Raises ClientError."""
        route = await self._instance.route(topic)
        queues = sort_queues(route.subscribe_queues)
        if self._consumer.config.message_model is not MessageModel.CLUSTERING:
            return queues, True
        allocate = STRATEGIES[self._consumer.config.allocate_message_queue_strategy]
        members, own_id = sort_client_ids(await self._member_ids(route)), self._instance.client_id
        return allocate(queues, members, own_id), own_id in members

    async def _member_ids(self, route: Route) -> list[str]:
        """Asks the broker that answered last, then the others one after the other: any of them knows the members."""
        header = GetConsumerListByGroupRequest(self._consumer.group)
        addresses = route.readable_addresses()
        failures = []
        for address in sorted(addresses, key=lambda each: each != self._answered_last):
            try:
                answer = await self._instance.request(
                    address, RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.ext()),
                    MEMBERS_TIMEOUT_MS)
                members = GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list
            except (ClientError, HeaderError) as error:
                failures.append(str(error))
                continue
            if members:
                self._answered_last = address
                return members
            failures.append(f"{address} knows no members")
        raise ClientError(f"no broker tells the members of group {self._consumer.group}: {'; '.join(failures)}")
