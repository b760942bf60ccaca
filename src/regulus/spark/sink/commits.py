"""The commit topic of transactional sinks: which attempts of which batches count.

The rows of a batch wait at the brokers as half messages. One record decides over all of them at once, `commit`:

    tag     body (JSON)
    halves  {"sink","batch","halves":[[topic, broker, queue offset, physical offset, unique key, offset id], ...]}
    commit  {"sink","batch","attempts":{"<partition>":"<attempt>"},"halves":[queue offsets of the records before],
             "rows":{"<topic>":[how many, their sum]}}
    done    {"sink","batch"}

`commit` is the decision; the first one of a batch counts. The `halves` before it list the half messages to end, for a
driver that takes over from one that died in between; `done` says that all of them are ended. The topic has one queue,
which keeps the records of a sink in order.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from regulus.client.administration.admin import Admin
from regulus.client.connecting.client_instance import now_ms
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import HalfMessage, TransactionState
from regulus.errors import NoRoute, SinkRefused
from regulus.model import message_properties as names
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig

HALVES_PER_RECORD = 5_000
READ_BACK_MAX = 100_000
"""Records that are searched, from the newest back, for those of a batch."""
READ_SIZE = 32
_SUM_MASK = (1 << 64) - 1
STUCK_MS = 300_000
"""ms after which a commit that is not done is taken to have no driver any more, so brokers get its decision."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Identifies the attempt, task and batch that sent a message. As text it is a property of the message."""

    sink_id: str
    batch: int
    partition: int
    attempt: str

    def __str__(self) -> str:
        return f"{self.sink_id}/{self.batch}/{self.partition}/{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> "Attempt | None":
        parts = text.split("/")
        if len(parts) != 4 or not parts[1].isdigit() or not parts[2].isdigit():
            return None
        return cls(parts[0], int(parts[1]), int(parts[2]), parts[3])


@dataclass(frozen=True, slots=True)
class RowSum:
    """A checksum of rows that does not depend on their order or their division among tasks.

    It has the number of rows, and 64 bits over bodies, flags and properties, without the unique keys.
    """

    count: int = 0
    sum: int = 0

    def __add__(self, other: "RowSum") -> "RowSum":
        return RowSum(self.count + other.count, (self.sum + other.sum) & _SUM_MASK)

    def __str__(self) -> str:
        return f"{self.count} rows with the sum {self.sum:016x}"

    @classmethod
    def of(cls, body: bytes, flag: int, properties: Mapping[str, str]) -> "RowSum":
        own = json.dumps([flag, {name: value for name, value in properties.items() if name != names.UNIQUE_KEY}])
        return cls(1, int.from_bytes(blake2b(body, digest_size=8, key=blake2b(own.encode()).digest()).digest()))


@dataclass(frozen=True, slots=True)
class Decision:
    """What the commit topic says of a batch. `latest` is the newest batch of the sink that was committed, -1 for none;
    `attempts` is None when this batch was not committed. `rows` are the sums of the batch's rows by topic."""

    latest: int
    attempts: Mapping[str, str] | None = None
    halves_at: tuple[int, ...] = ()
    committed_ms: int = 0
    is_done: bool = False
    rows: Mapping[str, RowSum] = field(default_factory=dict)


def verdict(attempt: Attempt, decision: Decision, time_ms: int) -> TransactionState:
    """The answer to a broker that asks about a half message of this attempt.

    A driver that is working on the commit ends the halves itself, and a second end from here would make RocketMQ
    deliver a message twice. Therefore the answer is a commit only after the commit has been stuck for STUCK_MS.
    """
    if decision.attempts is None:
        return TransactionState.ROLLBACK if attempt.batch < decision.latest else TransactionState.UNKNOWN
    if decision.attempts.get(str(attempt.partition)) != attempt.attempt:
        return TransactionState.ROLLBACK
    is_stuck = not decision.is_done and time_ms - decision.committed_ms > STUCK_MS
    return TransactionState.COMMIT if is_stuck else TransactionState.UNKNOWN


class CommitTopic:
    """One sink's records in a topic. All methods raise ClientError when the topic cannot be read or written."""

    def __init__(self, admin: Admin, topic: str, sink_id: str) -> None:
        self._admin = admin
        self._topic = topic
        self._sink_id = sink_id
        self._queue: MessageQueue | None = None

    async def create(self) -> None:
        """Create the topic, with one queue on one broker, unless it exists."""
        try:
            await self._admin.topic_route(self._topic)
        except NoRoute:
            address = (await self._admin.master_addresses())[0]
            await self._admin.create_topic(TopicConfig(topic_name=self._topic, read_queue_nums=1, write_queue_nums=1),
                                           broker_address=address)

    async def decision(self, batch: int) -> Decision:
        """The decision about a batch; one without attempts when the topic does not exist."""
        try:
            queue = await self._only_queue()
        except NoRoute:
            return Decision(-1)
        latest, attempts, halves_at, committed_ms, is_done = -1, None, (), 0, False
        rows: dict[str, RowSum] = {}
        async for message, record in self._newest_first(queue):
            number = int(record["batch"])
            if message.tags == "commit":
                latest = max(latest, number)
                if number == batch:     # an earlier decision, which is the one that counts, may still follow
                    attempts, halves_at = dict(record["attempts"]), tuple(record["halves"])
                    committed_ms = message.store_timestamp
                    rows = {topic: RowSum(*values) for topic, values in record["rows"].items()}
                elif number < batch:
                    break
            elif message.tags == "done" and number == batch:
                is_done = True
        return Decision(latest, attempts, halves_at, committed_ms, is_done, rows)

    async def append_commit(self, producer: Producer, batch: int, attempts: Mapping[str, str],
                            halves: Sequence[HalfMessage], rows: Mapping[str, RowSum]) -> None:
        """Decide that these attempts count. Once this returns, the batch is committed, whatever happens."""
        places = []
        for first in range(0, len(halves), HALVES_PER_RECORD):
            body = {"halves": _packed(halves[first:first + HALVES_PER_RECORD])}
            places.append(await self._append(producer, "halves", batch, body))
        await self._append(producer, "commit", batch, {"attempts": dict(attempts), "halves": places, "rows": {
            topic: [some.count, some.sum] for topic, some in rows.items()}})

    async def append_done(self, producer: Producer, batch: int) -> None:
        await self._append(producer, "done", batch, {})

    async def halves(self, decision: Decision, group: str) -> list[HalfMessage]:
        """The half messages of a committed batch. Raises SinkRefused when their records are gone."""
        queue = await self._only_queue()
        found: list[HalfMessage] = []
        for place in decision.halves_at:
            messages = (await self._admin.pull(queue, place, 1)).messages
            if not messages or messages[0].queue_offset != place:
                raise SinkRefused(f"the commit topic {self._topic} has no record at {place} any more, so what a batch "
                                  "consists of is not known: keep it for longer than an outage of the job")
            found += _unpacked(json.loads(messages[0].body)["halves"], group)
        return found

    async def _append(self, producer: Producer, kind: str, batch: int, body: Mapping[str, object]) -> int:
        text = json.dumps({"sink": self._sink_id, "batch": batch, **body}, separators=(",", ":"))
        message = Message(self._topic, text.encode(), tags=kind, keys=f"{self._sink_id}/{batch}")
        return (await producer.send(message, queue=await self._only_queue())).queue_offset

    async def _only_queue(self) -> MessageQueue:
        if self._queue is None:
            queues = await self._admin.queues(self._topic)
            if len(queues) != 1:
                raise SinkRefused(f"the commit topic {self._topic} has {len(queues)} queues, which keep no common "
                                  "order: name a topic that has one (option commitTopic)")
            self._queue = queues[0]
        return self._queue

    async def _newest_first(self, queue: MessageQueue) -> AsyncIterator[tuple[MessageExt, dict[str, Any]]]:
        """This sink's records with their messages, from the end of the topic back."""
        end = await self._admin.max_offset(queue)
        lowest = max(await self._admin.min_offset(queue), end - READ_BACK_MAX)
        while end > lowest:
            start = max(lowest, end - READ_SIZE)
            for message in reversed(await self._between(queue, start, end)):
                record = _record(message)
                if record is not None and record.get("sink") == self._sink_id:
                    yield message, record
            end = start

    async def _between(self, queue: MessageQueue, start: int, end: int) -> list[MessageExt]:
        found: list[MessageExt] = []
        while start < end:
            pulled = await self._admin.pull(queue, start, end - start)
            found += [message for message in pulled.messages if message.queue_offset < end]
            if pulled.next_offset <= start:
                break
            start = pulled.next_offset
        return found


def _record(message: MessageExt) -> dict[str, Any] | None:
    """The record in a message; None for a message that no sink has sent."""
    try:
        record = json.loads(message.body)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("batch"), int) else None


def _packed(halves: Sequence[HalfMessage]) -> str:
    rows = [[half.topic, half.broker_name, half.queue_offset, half.physical_offset, half.message_id,
             half.offset_message_id] for half in halves]
    return b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)).decode()


def _unpacked(text: str, group: str) -> Iterator[HalfMessage]:
    for topic, broker, queue_offset, physical_offset, key, offset_id in json.loads(zlib.decompress(b64decode(text))):
        yield HalfMessage(group, topic, broker, queue_offset, physical_offset, key, offset_id)


class Verdicts:
    """Answers brokers from the commit topic, which is read again for a batch at most once a second."""

    CACHE_MS = 1_000
    BATCHES_MAX = 64

    def __init__(self, topic: CommitTopic) -> None:
        self._topic = topic
        self._known: dict[int, tuple[int, Decision]] = {}

    async def of(self, attempt: Attempt) -> TransactionState:
        time_ms = now_ms()
        known = self._known.get(attempt.batch)
        if known is None or time_ms - known[0] > self.CACHE_MS:
            known = self._known[attempt.batch] = time_ms, await self._topic.decision(attempt.batch)
            while len(self._known) > self.BATCHES_MAX:
                del self._known[next(iter(self._known))]
        return verdict(attempt, known[1], time_ms)
