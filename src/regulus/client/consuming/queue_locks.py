"""Locks of queues at their brokers, so that of a group only one member consumes a queue in order.

A broker forgets a lock 60 s after it was last renewed. We renew every 20 s and trust a lock for 30 s, so that we have
stopped before another member may begin. A broker that is started anew has forgotten them all, and gives them to whoever
asks first: so a lock is trusted only for as long as the connection lasts over which it was given.

Source: RebalanceImpl.lockAll, RebalanceLockManager, ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection

from regulus.client.connecting.client_instance import ClientInstance
from regulus.client.tasks import TaskGroup
from regulus.errors import ClientError, HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.transport.connection import Connection
from regulus.wire.bodies import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

RENEW_INTERVAL_MS = 20_000
TRUSTED_MS = 30_000


class QueueLocks:
    """`on_lost` hears of the queues whose connection was lost."""

    def __init__(self, instance: ClientInstance, group: str,
                 on_lost: Callable[[Collection[MessageQueue]], None]) -> None:
        self._instance = instance
        self._group = group
        self._on_lost = on_lost
        self._held: dict[Connection, set[MessageQueue]] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By the broker's address: what is asked of one comes one behind the other."""
        self._tasks = TaskGroup()

    async def close(self) -> None:
        await self._tasks.cancel()

    def holds(self, queue: MessageQueue) -> bool:
        """Whether it was locked, not given back, and the connection is still there."""
        return any(queue in held for held in self._held.values())

    async def lock(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, bool]:
        """Whether each of the queues is ours now, taken or renewed. Those whose broker did not say are left out.

        What was begun is ended though the caller is cancelled: RocketMQ works requests off side by side, and what is
        unlocked before it is locked would be nobody's for a minute.
        """
        said = await asyncio.gather(*(
            asyncio.shield(self._tasks.spawn(self._lock_at(address, each), f"lock queues of {self._group}"))
            for address, each in (await self._by_broker(queues)).items()))
        return {queue: is_ours for part in said for queue, is_ours in part.items()}

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Let others have the queues at once. Where that fails, they wait until the lock is forgotten."""
        self._let_go(queues)
        for address, each in (await self._by_broker(queues)).items():
            async with self._turns[address]:
                self._let_go(each)      # of a lock that was under way, too
                await self._unlock_at(address, each)

    async def _unlock_at(self, address: str, queues: list[MessageQueue]) -> None:
        body = UnlockBatchRequestBody(consumer_group=self._group, client_id=self._instance.client_id, mq_set=queues)
        try:
            await self._instance.request(address, RemotingCommand.request(RequestCode.UNLOCK_BATCH_MQ,
                                                                          body=body.encode()))
        except ClientError as error:
            _log.warning("locks of group %s not given back: %s", self._group, error)

    async def _lock_at(self, address: str, queues: list[MessageQueue]) -> dict[MessageQueue, bool]:
        async with self._turns[address]:
            return await self._ask_at(address, queues)

    async def _ask_at(self, address: str, queues: list[MessageQueue]) -> dict[MessageQueue, bool]:
        body = LockBatchRequestBody(consumer_group=self._group, client_id=self._instance.client_id, mq_set=queues)
        try:
            # Before the request: if it is lost meanwhile, another one has the answer, and we hold nothing for long.
            connection = await self._instance.connections.get(address)
            answer = await self._instance.request(address, RemotingCommand.request(RequestCode.LOCK_BATCH_MQ,
                                                                                   body=body.encode()))
            ours = set(LockBatchResponseBody.decode(answer.body).lock_ok_mq_set).intersection(queues)
            self._hold(connection, ours)
            return {queue: queue in ours for queue in queues}
        except (ClientError, HeaderError) as error:
            _log.warning("queues of group %s not locked: %s", self._group, error)
            return {}

    def _hold(self, connection: Connection, queues: set[MessageQueue]) -> None:
        self._let_go(queues)
        if connection not in self._held:
            self._held[connection] = set()
            self._tasks.spawn(self._until_lost(connection), f"locks of {self._group}")
        self._held[connection] |= queues

    def _let_go(self, queues: Collection[MessageQueue]) -> None:
        for held in self._held.values():
            held.difference_update(queues)

    async def _until_lost(self, connection: Connection) -> None:
        await connection.wait_closed()
        self._on_lost(self._held.pop(connection))

    async def _by_broker(self, queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """The queues by the address of their master; those without one are left out."""
        grouped: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            try:
                address = (await self._instance.route(queue.topic)).master(queue.broker_name)
            except (ClientError, HeaderError) as error:
                _log.info("broker of %s not known: %s", queue, error)
                continue
            if address is not None:
                grouped[address].append(queue)
        return grouped
