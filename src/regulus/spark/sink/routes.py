"""Fixes the queues that a sink sends to before it sends, and keeps them at the name servers.

An exactly-once sink must send a row that comes again to the same broker, because only that one remembers it. A topic's
route may change meanwhile: a broker that is down is dropped from it, and a new one is added. Therefore the first task
of a sink records the queues of the topic, and all later tasks use them. Only after all tasks of a batch are done may
the next batch use another set: the queues that the topic has got meanwhile.

    namespace REGULUS_SINK_ROUTE, key <sinkId>@<topic>
    [{"from":0,"queues":{"broker-a":[0,1]}},{"from":18,"queues":{"broker-a":[0,1],"broker-b":[0,1]}}]

Each entry is valid from its batch on; the last two are kept, for the batch that may come again and the one after it.
"""

import json
from collections.abc import Sequence
from typing import Protocol

from regulus.errors import BrokerRefused, SinkRefused
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import ResponseCode

NAMESPACE = "REGULUS_SINK_ROUTE"
ENTRIES_KEPT = 2

Entries = list[dict[str, object]]


class KeyValues(Protocol):
    """The name servers' own table; `client.sync.Admin` is one."""

    def get_kv(self, namespace: str, key: str) -> str | None: ...

    def put_kv(self, namespace: str, key: str, value: str) -> None: ...

    def delete_kv(self, namespace: str, key: str) -> None: ...

    def kv_namespace(self, namespace: str) -> dict[str, str]: ...


class SinkRoutes:
    def __init__(self, key_values: KeyValues, sink_id: str) -> None:
        self._key_values = key_values
        self._sink_id = sink_id

    def queues(self, topic: str, batch: int, current: Sequence[MessageQueue]) -> tuple[MessageQueue, ...]:
        """The queues that this batch is sent to; those of the `current` route when the sink is new to the topic.

        Raises SinkRefused when the entry at the name server is not one of a sink, BrokerRefused, ClientError.
        """
        entries = self._entries(topic)
        if not entries:
            self._put(topic, [_entry(0, current)])
            # Another task may have written at the same time; all use what is there now.
            entries = self._entries(topic)
        return _queues_at(entries, topic, batch)

    def kept(self, topic: str, batch: int) -> tuple[MessageQueue, ...]:
        """The recorded queues of this batch; none for a sink that is new to the topic."""
        entries = self._entries(topic)
        return _queues_at(entries, topic, batch) if entries else ()

    def forget(self) -> None:
        """Delete the entries of a sink that never comes again."""
        try:
            keys = list(self._key_values.kv_namespace(NAMESPACE))
        except BrokerRefused as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return
        for key in keys:
            if key.startswith(self._key("")):
                self._key_values.delete_kv(NAMESPACE, key)

    def renew(self, topic: str, next_batch: int, current: Sequence[MessageQueue]) -> None:
        """From `next_batch` on, send to the queues of the `current` route. All earlier batches must be stored."""
        entries = [entry for entry in self._entries(topic) if _from(entry) < next_batch]
        self._put(topic, [*entries, _entry(next_batch, current)][-ENTRIES_KEPT:])

    def _entries(self, topic: str) -> Entries:
        try:
            text = self._key_values.get_kv(NAMESPACE, self._key(topic))
        except BrokerRefused as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return []
        try:
            entries = json.loads(text or "[]")
            return sorted(entries, key=_from)
        except (ValueError, TypeError, KeyError) as cause:
            raise SinkRefused(f"the name server keeps no route of sink {self._sink_id} under {NAMESPACE} "
                              f"{self._key(topic)}, but {text!r}: delete that entry") from cause

    def _put(self, topic: str, entries: Entries) -> None:
        self._key_values.put_kv(NAMESPACE, self._key(topic), json.dumps(entries, separators=(",", ":")))

    def _key(self, topic: str) -> str:
        return f"{self._sink_id}@{topic}"


def grew(used: Sequence[MessageQueue], current: Sequence[MessageQueue]) -> bool:
    """Whether the topic has gained queues and lost none."""
    return set(used) < set(current)


def _entry(first_batch: int, queues: Sequence[MessageQueue]) -> dict[str, object]:
    by_broker: dict[str, list[int]] = {}
    for queue in queues:
        by_broker.setdefault(queue.broker_name, []).append(queue.queue_id)
    return {"from": first_batch, "queues": by_broker}


def _queues_at(entries: Entries, topic: str, batch: int) -> tuple[MessageQueue, ...]:
    entry = next((each for each in reversed(entries) if _from(each) <= batch), entries[0])
    queues = entry["queues"]
    assert isinstance(queues, dict)
    return tuple(MessageQueue(topic, broker, int(number)) for broker, numbers in queues.items() for number in numbers)


def _from(entry: dict[str, object]) -> int:
    return int(str(entry["from"]))
