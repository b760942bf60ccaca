"""Where a group's offsets are kept: at the brokers (clustering), or in a local file (broadcasting).

Source: RemoteBrokerOffsetStore, LocalFileOffsetStore.
"""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from regulus.client.client_instance import ClientInstance
from regulus.client.core.offset_table import OffsetTable
from regulus.errors import BrokerRefused, ClientError, HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.wire import fastjson, json_fields
from regulus.wire.bodies import OffsetSerializeWrapper
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import QueryConsumerOffsetRequest, QueryConsumerOffsetResponse, UpdateConsumerOffsetRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    table: OffsetTable

    async def load(self, queue: MessageQueue) -> int | None:
        """The stored offset of a queue, None if there is none. Raises ClientError when that cannot be known."""

    async def persist(self, queues: Collection[MessageQueue] | None = None) -> None:
        """Store what changed (of `queues`, or all). What could not be stored stays changed."""


class BrokerOffsets:
    """Offsets at the broker of each queue."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self.table = OffsetTable()
        self._instance = instance
        self._group = group

    async def load(self, queue: MessageQueue) -> int | None:
        address = await self._address(queue)
        header = QueryConsumerOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
                                            broker_name=queue.broker_name)
        try:
            answer = await self._instance.request(
                address, RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, header.ext()))
        except BrokerRefused as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return QueryConsumerOffsetResponse.decode(answer).offset

    async def persist(self, queues: Collection[MessageQueue] | None = None) -> None:
        of_brokers: dict[str, dict[MessageQueue, int]] = {}
        for queue, offset in self.table.take_changed(queues).items():
            of_brokers.setdefault(queue.broker_name, {})[queue] = offset
        await asyncio.gather(*(self._store(changed) for changed in of_brokers.values()))

    async def _store(self, changed: dict[MessageQueue, int]) -> None:
        """Store offsets of queues of one broker, each after the one before is answered: RocketMQ makes a group's table
        for a topic without a lock (ConsumerOffsetManager.commitOffset), so that of the first two that come at the same
        time one may be forgotten, though both are answered with success. A broker that does not answer is asked once,
        and not for each queue."""
        left = list(changed)
        try:
            for queue, offset in changed.items():
                try:
                    await self._update(queue, offset)
                    left.remove(queue)
                except BrokerRefused as error:
                    _log.warning("offset %d of %s not stored: %s", offset, queue, error)
        except (ClientError, HeaderError) as error:
            _log.warning("offsets of %d queues of %s not stored: %s", len(left), left[0].broker_name, error)
        finally:
            self.table.mark_changed(left)

    async def _update(self, queue: MessageQueue, offset: int) -> None:
        header = UpdateConsumerOffsetRequest(consumer_group=self._group, topic=queue.topic, queue_id=queue.queue_id,
                                             commit_offset=offset, broker_name=queue.broker_name)
        command = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())
        await self._instance.request(await self._address(queue), command)

    async def _address(self, queue: MessageQueue) -> str:
        route = await self._instance.route(queue.topic)
        address = route.any_address(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} is not in the route of {queue.topic}")
        return address


class LocalOffsets:
    """Offsets in `<folder>/<client id>/<group>/offsets.json`, in RocketMQ's form, with a `.bak` of the one before."""

    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        self._path = folder / client_id / group / "offsets.json"
        self.table = OffsetTable(self._read())

    async def load(self, queue: MessageQueue) -> int | None:
        return self.table.get(queue)

    async def persist(self, queues: Collection[MessageQueue] | None = None) -> None:
        changed = self.table.take_changed(queues)
        if not changed:
            return
        text = fastjson.dumps_pretty(json_fields.to_value(OffsetSerializeWrapper(offset_table=self.table.all())))
        try:
            await asyncio.to_thread(self._write, text)
        except OSError as error:
            _log.warning("offsets not stored in %s: %s", self._path, error)
            self.table.mark_changed(changed)

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self._path, self._path.with_suffix(".json.bak")):
            if path.exists():
                try:
                    return OffsetSerializeWrapper.decode(path.read_bytes()).offset_table
                except HeaderError as error:
                    _log.warning("offset file %s cannot be read, trying the one before: %s", path, error)
        return {}

    def _write(self, text: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".json.tmp")
        fresh.write_text(text, encoding="utf-8")
        if self._path.exists():
            self._path.replace(self._path.with_suffix(".json.bak"))
        fresh.replace(self._path)

