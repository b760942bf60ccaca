"""Where a group's offsets are kept: at the brokers (clustering), or in a local file (broadcasting).

Source: RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from regulus.client.connecting.client_instance import ClientInstance, steady_ms
from regulus.client.core.owned_queue import OwnedQueue
from regulus.client.tasks import TaskGroup
from regulus.errors import BrokerRefused, ClientError, HeaderError, RegulusError
from regulus.model.message_queue import MessageQueue
from regulus.wire import fastjson, json_fields
from regulus.wire.bodies import OffsetSerializeWrapper
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import QueryConsumerOffsetRequest, QueryConsumerOffsetResponse, UpdateConsumerOffsetRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)


AT_ONCE_MAX = 32
"""Offsets that are on their way to one broker at the same time."""


class OffsetStore(Protocol):
    async def load(self, queue: MessageQueue) -> int | None:
        """The stored offset of a queue, None if there is none. Raises ClientError when that cannot be known."""

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """Store what is `to_store` of these. What could not be stored stays to be stored, and is logged."""


class BrokerOffsets:
    """Offsets at the broker of each queue.

    A broker takes every offset. While we did not reach it, it may have given the queue to another member, and ours
    would take the group back. So behind a connection that was lost ours is stored only if it is not the smaller one,
    and also though nothing came since: a broker that was killed may have forgotten what it took last.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._waiting: defaultdict[str, dict[OwnedQueue, None]] = defaultdict(dict)
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks = TaskGroup()
        self._away: set[str] = set()
        """Brokers of which it was told that they store nothing; they are asked again and again."""
        self._heard_over: dict[MessageQueue, object] = {}
        """The connection over which the broker last told or took an offset of the queue."""

    async def load(self, queue: MessageQueue) -> int | None:
        address = await self._address(queue)
        header = QueryConsumerOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
                                            broker_name=queue.broker_name)
        try:
            answer = await self._instance.request(
                address, RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, header.ext()))
            offset = QueryConsumerOffsetResponse.decode(answer).offset
        except BrokerRefused as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            offset = None
        self._heard(queue, address)
        return offset

    def _is_certain(self, queue: MessageQueue) -> bool:
        """Whether nobody else can have stored an offset of the queue, so that ours may be stored unseen."""
        route = self._instance.known_route(queue.topic)
        address = route.any_address(queue.broker_name) if route is not None else None
        heard_over = self._heard_over.get(queue)
        return address is not None and heard_over is not None \
            and heard_over is self._instance.connections.current(address)

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """A round that was begun is ended even if the caller is cancelled: a broker may work off what comes next
        before what is still on its way."""
        of_brokers: defaultdict[str, list[OwnedQueue]] = defaultdict(list)
        for owned in queues:
            of_brokers[owned.queue.broker_name].append(owned)
        await asyncio.gather(*(
            asyncio.shield(self._tasks.spawn(self._store(name, owned), f"store offsets of {self._group} at {name}"))
            for name, owned in of_brokers.items()))

    async def _store(self, broker_name: str, queues: list[OwnedQueue]) -> None:
        """One caller at a time, for all who wait. RocketMQ makes a group's table for a topic without a lock
        (ConsumerOffsetManager.commitOffset), so that of the first two that come at the same time one may be forgotten,
        though both are answered with success: one queue of each topic goes first, the others when that is answered."""
        waiting = self._waiting[broker_name]
        waiting.update(dict.fromkeys(queues))
        async with self._writing[broker_name]:
            due = list(waiting)
            for owned in due:
                if not self._is_certain(owned.queue):
                    owned.forget_stored()
            first: dict[str, OwnedQueue] = {}
            for owned in due:
                if owned.to_store(steady_ms()) is not None:
                    first.setdefault(owned.queue.topic, owned)
            others = [owned for owned in due if first.get(owned.queue.topic) is not owned]
            error = (await self._update_all(waiting, list(first.values()))
                     or await self._update_all(waiting, others))
            if error is None:
                self._away.discard(broker_name)
                return
            waiting.clear()
            left = sum(owned.to_store(steady_ms()) is not None for owned in due)
            _log.log(logging.INFO if broker_name in self._away else logging.WARNING,
                     "offsets of %d queues of %s not stored: %s", left, broker_name, error)
            self._away.add(broker_name)

    async def _update_all(self, waiting: dict[OwnedQueue, None], queues: list[OwnedQueue]) -> RegulusError | None:
        """Side by side. A broker that does not answer is asked for no more; its error."""
        left = deque(queues)
        errors = await asyncio.gather(*(self._update_each(waiting, left) for _ in queues[:AT_ONCE_MAX]))
        return next((error for error in errors if error is not None), None)

    async def _update_each(self, waiting: dict[OwnedQueue, None], left: deque[OwnedQueue]) -> RegulusError | None:
        """An offset is read when its turn comes, and nobody else writes it meanwhile, so none is older than one that
        was sent before it."""
        while left:
            owned = left.popleft()
            waiting.pop(owned, None)
            if owned.to_store(steady_ms()) is None:
                continue
            try:
                if await self._is_outdone(owned):
                    continue
                offset = owned.to_store(steady_ms())
                if offset is None:
                    continue
                await self._update(owned.queue, offset)
                owned.stored(offset)
            except BrokerRefused as error:
                _log.warning("offset %d of %s not stored: %s", owned.commit_offset, owned.queue, error)
            except (ClientError, HeaderError) as error:
                left.clear()
                return error
        return None

    async def _is_outdone(self, owned: OwnedQueue) -> bool:
        """Whether another member went on with the queue while we did not reach its broker."""
        if owned.is_reset or self._is_certain(owned.queue):
            return False
        known = await self.load(owned.queue)
        if known is None or known <= owned.commit_offset:
            return False
        self._heard_over.pop(owned.queue, None)
        _log.info("offset %d of %s not stored: another member has gone on to %d", owned.commit_offset, owned.queue,
                  known)
        return True

    def _heard(self, queue: MessageQueue, address: str) -> None:
        connection = self._instance.connections.current(address)
        if connection is not None:
            self._heard_over[queue] = connection

    async def _update(self, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
                                             commit_offset=offset, broker_name=queue.broker_name)
        command = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())
        address = await self._address(queue)
        await self._instance.request(address, command)
        self._heard(queue, address)

    async def _address(self, queue: MessageQueue) -> str:
        route = await self._instance.route(queue.topic)
        address = route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        return address


class LocalOffsets:
    """Offsets in `<folder>/<client id>/<group>/offsets.json`, in RocketMQ's form, with a `.bak` of the one before.

    What is kept here is the only copy, so it outlives every taking of a queue.
    """

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        """Raises ClientError when there is a file that cannot be read."""
        self._path = folder / client_id / group / "offsets.json"
        self._kept = self._read()
        self._writing = asyncio.Lock()
        self._tasks = TaskGroup()

    async def load(self, queue: MessageQueue) -> int | None:
        return self._kept.get(queue)

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """A write that was begun is ended even if the caller is cancelled: its file must not meet the next one's."""
        if any(owned.to_store(steady_ms()) is not None for owned in queues):
            await asyncio.shield(self._tasks.spawn(self._store(queues), f"write {self._path}"))

    async def _store(self, queues: Collection[OwnedQueue]) -> None:
        async with self._writing:
            fresh = {owned: offset for owned in queues if (offset := owned.to_store(steady_ms())) is not None}
            if not fresh:
                return
            self._kept.update({owned.queue: offset for owned, offset in fresh.items()})
            text = fastjson.dumps_pretty(json_fields.to_value(OffsetSerializeWrapper(offset_table=self._kept)))
            try:
                await asyncio.to_thread(self._write, text)
            except OSError as error:
                _log.warning("offsets not stored in %s: %s", self._path, error)
                return
            for owned, offset in fresh.items():
                owned.stored(offset)

    def _read(self) -> dict[MessageQueue, int]:
        was_there = self._path.parent.exists()      # made by the first write
        for path in (self._path, self._path.with_suffix(".json.bak")):
            try:
                kept = OffsetSerializeWrapper.decode(path.read_bytes()).offset_table
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise ClientError(f"offset file {path} cannot be read; make it readable, or move it away to begin by "
                                  f"consume_from_where: {error}") from error
            except HeaderError as error:
                _log.info("offset file %s cannot be read: %s", path, error)
                continue
            if path != self._path:
                _log.warning("offset file %s is gone or damaged; going on at the offsets of the store before, so that "
                             "what came since comes again", self._path)
            return kept
        if was_there:
            _log.warning("the offsets of this member are lost, as neither %s nor the file of the store before it can "
                         "be read; it begins by consume_from_where, and may miss or repeat messages", self._path)
        return {}

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".json.tmp")
        fresh.write_text(text, encoding="utf-8")
        if self._path.exists():
            self._path.replace(self._path.with_suffix(".json.bak"))
        fresh.replace(self._path)

