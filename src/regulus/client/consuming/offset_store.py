"""Stores a group's offsets: at the brokers (clustering), or in a local file (broadcasting).

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
"""The most offsets that are on their way to one broker at the same time."""


class OffsetStore(Protocol):
    async def load(self, queue: MessageQueue) -> int | None:
        """The stored offset of a queue, None if there is none. Raises ClientError when it cannot be found out."""

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """Store the offsets that are `to_store`. A failure is logged, and the offset is stored next time."""


class BrokerOffsets:
    """Offsets at the broker of each queue.

    A broker accepts every offset. While we could not reach it, it may have given the queue to another member, and our
    offset would set the group back. So after a lost connection our offset is stored only if it is not smaller than the
    broker's. It is then stored even if it has not changed: a broker that was killed may have forgotten the last one.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group
        self._waiting: defaultdict[str, dict[OwnedQueue, None]] = defaultdict(dict)
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._tasks = TaskGroup()
        self._away: set[str] = set()
        """Brokers about which a warning was logged that they store nothing; they are tried again and again."""
        self._heard_over: dict[MessageQueue, object] = {}
        """By queue: the connection over which we last loaded or stored its offset."""

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
        """Whether no other member can have stored an offset of the queue, so that ours may be stored unchecked."""
        route = self._instance.known_route(queue.topic)
        address = route.any_address(queue.broker_name) if route is not None else None
        heard_over = self._heard_over.get(queue)
        return address is not None and heard_over is not None \
            and heard_over is self._instance.connections.current(address)

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """Store offsets. This continues even if the caller is cancelled: a broker might handle a later offset before
        one that is still on its way."""
        of_brokers: defaultdict[str, list[OwnedQueue]] = defaultdict(list)
        for owned in queues:
            of_brokers[owned.queue.broker_name].append(owned)
        await asyncio.gather(*(
            asyncio.shield(self._tasks.spawn(self._store(name, owned), f"store offsets of {self._group} at {name}"))
            for name, owned in of_brokers.items()))

    async def _store(self, broker_name: str, queues: list[OwnedQueue]) -> None:
        """Store the offsets of all waiting callers at one broker; one call runs at a time.

        One queue of each topic goes first, the others after its answer: RocketMQ creates a group's table for a topic
        without a lock (ConsumerOffsetManager.commitOffset). Of the first two offsets that arrive at the same time, it
        may lose one, although it answers both with success.
        """
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
        """Store offsets concurrently. If the broker does not answer, stop and return the error."""
        left = deque(queues)
        errors = await asyncio.gather(*(self._update_each(waiting, left) for _ in queues[:AT_ONCE_MAX]))
        return next((error for error in errors if error is not None), None)

    async def _update_each(self, waiting: dict[OwnedQueue, None], left: deque[OwnedQueue]) -> RegulusError | None:
        """Store offsets one after another. Each is read only when its turn comes, and no other task stores it
        meanwhile, so no offset is older than one that was sent before it."""
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
        """Whether another member consumed the queue further while we could not reach its broker."""
        if owned.is_reset or self._is_certain(owned.queue):
            return False
        known = await self.load(owned.queue)
        if known is None or known <= owned.commit_offset:
            return False
        self._heard_over.pop(owned.queue, None)
        _log.info("offset %d of %s not stored: another member is at %d already", owned.commit_offset, owned.queue,
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

    This is the only copy of the offsets, so they are kept even when a queue is given up.
    """

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        """Read the file. Raises ClientError when it exists and cannot be read."""
        self._path = folder / client_id / group / "offsets.json"
        self._kept = self._read()
        self._writing = asyncio.Lock()
        self._tasks = TaskGroup()

    async def load(self, queue: MessageQueue) -> int | None:
        return self._kept.get(queue)

    async def store(self, queues: Collection[OwnedQueue]) -> None:
        """Store offsets. The write continues even if the caller is cancelled, because the next one uses the same
        files."""
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
        was_there = self._path.parent.exists()      # the first write creates the folder
        for path in (self._path, self._path.with_suffix(".json.bak")):
            try:
                kept = OffsetSerializeWrapper.decode(path.read_bytes()).offset_table
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise ClientError(f"offset file {path} cannot be read; make it readable, or move it away to begin at "
                                  f"consume_from_where: {error}") from error
            except HeaderError as error:
                _log.info("offset file %s cannot be read: %s", path, error)
                continue
            if path != self._path:
                _log.warning("offset file %s is missing or damaged; continuing at the offsets of the store before, so "
                             "that messages since then are delivered again", self._path)
            return kept
        if was_there:
            _log.warning("the offsets of this member are lost, as neither %s nor the file of the store before can be "
                         "read; it begins at consume_from_where, and may miss or repeat messages", self._path)
        return {}

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".json.tmp")
        fresh.write_text(text, encoding="utf-8")
        if self._path.exists():
            self._path.replace(self._path.with_suffix(".json.bak"))
        fresh.replace(self._path)

