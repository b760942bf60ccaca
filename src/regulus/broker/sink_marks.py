"""Remembers what each writer of a sink stored last, so that a batch that is written again appends nothing twice.

A sink's message has two properties. `SINK`, `<sinkId>/<partition>`, names its writer; `SEQ`, `<batch>/<row>`, is its
place in what that writer writes. The rows of a batch are 0, 1, 2 ... without gaps. For each SINK the broker keeps a
mark: the batch, how many of its rows are stored, a digest of these rows in order, and the place of the last one.

Rows come in runs of one or more consecutive rows. A request contains the first row of its run and, as SINK_DIGEST, the
digest of the rows before it. From these the broker decides about each run on its own:

    starts right after the mark    appended, if the rows before it are those of the mark
    reaches or passes the mark     the rows up to the mark are compared with it by digest; the others are appended
    ends before the mark           answered with the mark. Whether the rows are those of the mark is not known until
                                   a run reaches it; a writer that ends earlier checks the mark in the answer
    leaves a gap after the mark    refused until the rows in between have come
    is of an earlier batch         refused: the content of that batch is no longer known

A refusal names both sides. Rows never count as stored because of their number alone.

The marks are saved as a document that contains the offset of the log up to which it is right. It is saved when the log
is on disk up to there, at least once in DOCUMENT_LAG_MAX bytes of the log; a start reads the log from there on. If a
disk lost what it had confirmed, and the log ends before a mark, the whole log is searched for messages of that writer.
No send of a writer is answered before a first document is saved, so a store without a document has no marks.

Copies do not count as the writer's messages: what consumers send back, retries and dead letters keep the properties,
but neither move a mark nor are compared with one.
"""

from collections.abc import Container
from typing import NamedTuple

from regulus.broker.message_store import MessageStore
from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties as names
from regulus.model import topics
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.row_digest import digest_of, row_on

DOCUMENT_LAG_MAX = 16 << 20
"""Bytes of the log after which the document is saved again, even if no mark moved."""
DIGEST_UNKNOWN = -1
SINK_SIZE_MAX = 255
"""Characters of a SINK."""

_HALF_TOPICS = (topics.TRANS_HALF_TOPIC, topics.TRANS_OP_HALF_TOPIC)
COPY_PROPERTIES = frozenset((names.ORIGIN_MESSAGE_ID, names.DLQ_ORIGIN_MESSAGE_ID))
_PROPERTY_TEXT = (names.SINK + names.NAME_VALUE_SEPARATOR).encode()


class Sequence(NamedTuple):
    """A place in what a writer writes; a later one is greater."""

    batch: int
    row: int

    def __str__(self) -> str:
        return f"{self.batch}/{self.row}"


class Run(NamedTuple):
    """The first of some consecutive rows of a writer, and the digest of the rows before it in the batch."""

    sink: str
    first: Sequence
    digest: int


class SinkMark(NamedTuple):
    """The last stored message of a writer, and its place.

    `digest` is that of the rows of its batch up to there, in order; below 0 when it is not known.
    """

    sequence: Sequence
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    digest: int = DIGEST_UNKNOWN


class SinkMarks:
    """Marks of at most `marks_max` writers. Beyond that, marks of finished sinks are dropped first, then that of the
    writer that was silent longest."""

    def __init__(self, store: MessageStore, marks_max: int) -> None:
        self.marks_max = marks_max
        self._store = store
        self._marks: dict[str, SinkMark] = {}
        self._moves = 0
        self._known_to: int | None = None
        """On a slave, the offset of its log up to which it has these marks. A start as master reads the rest of the
        log."""
        self._following = ""
        self.encoded = EncodedTable(self._marks, _write_mark)

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def changes(self) -> int:
        """Differs from before when the document is worth saving."""
        return self._moves + self._store.commit_log_max_offset() // DOCUMENT_LAG_MAX

    def mark_of(self, sink: str) -> SinkMark | None:
        return self._marks.get(sink)

    def rows_known(self, run: Run, count: int) -> int:
        """How many of the run's rows, from its first on, the mark covers. `difference` compares their content."""
        mark = self._marks.get(run.sink)
        if mark is None or mark.sequence < run.first:
            return 0
        self._marks[run.sink] = self._marks.pop(run.sink)       # moved to the end: a mark that is asked for is in use
        return min(count, mark.sequence.row - run.first.row + 1)

    def gap_before(self, run: Run) -> str:
        """A sentence about the rows that are missing before the run; empty when none is."""
        mark = self._marks.get(run.sink)
        wanted = mark.sequence.row + 1 if mark is not None and mark.sequence.batch == run.first.batch else 0
        if run.first.row <= wanted:
            return ""
        return (f"a run of {run.sink} begins with row {run.first}, and rows from {run.first.batch}/{wanted} on have "
                "not come: send again from there, in order")

    def later_batch(self, run: Run) -> str:
        """A sentence that refuses a run because the writer has begun a later batch; empty when it has not."""
        mark = self._marks.get(run.sink)
        if mark is None or mark.sequence.batch <= run.first.batch:
            return ""
        return (f"{run.sink} has come to batch {mark.sequence.batch}, of which {mark.sequence.row + 1} rows are "
                f"stored, and this is row {run.first.row} of batch {run.first.batch}: an earlier batch cannot be "
                "compared with what is stored; new data needs a new sinkId")

    def no_room(self, run: Run) -> str:
        """A sentence about why a new writer cannot have a mark; empty when it can.

        A batch is repeated with all its writers, so while a sink writes a batch, no mark that it set in this batch may
        be dropped. Marks of its earlier batches may, and so may those of other sinks that were silent longer.
        """
        if run.sink in self._marks or len(self._marks) < self.marks_max:
            return ""
        oldest, mark = next(iter(self._marks.items()))
        sink_id = run.sink.partition("/")[0]
        if oldest.partition("/")[0] != sink_id or mark.sequence.batch < run.first.batch:
            return ""
        return (f"sink {sink_id} writes batch {run.first.batch} in more than {self.marks_max} lanes, one for a task "
                "and a queue, and this broker remembers no more (sinkMarksMax): raise that, or write with fewer tasks "
                "or queues")

    def goes_on(self, run: Run) -> bool:
        """Whether the run starts right after the mark, with the mark's rows before it, or starts a new batch."""
        mark = self._marks.get(run.sink)
        if run.first.row == 0:
            return mark is None or mark.sequence.batch < run.first.batch
        return (mark is not None and mark.sequence == Sequence(run.first.batch, run.first.row - 1)
                and mark.digest in (DIGEST_UNKNOWN, run.digest))

    def difference(self, run: Run, known: list[MessageExt]) -> str:
        """A sentence about how the run and the rows before it differ from the mark; empty when they do not, as far as
        is known. `known` are the run's rows up to the mark."""
        mark = self._marks.get(run.sink)
        if mark is None or mark.sequence != Sequence(run.first.batch, run.first.row + len(known) - 1):
            return ""
        digest = digest_of(known, run.digest)
        if mark.digest == DIGEST_UNKNOWN:
            is_same = not known or self._is_last(mark, known[-1])
        else:
            is_same = digest == mark.digest
        return "" if is_same else (
            f"{run.sink} has {mark.sequence.row + 1} rows of batch {mark.sequence.batch} stored, with the digest "
            f"{_shown(mark.digest)}, and the first {mark.sequence.row + 1} of this time are other rows, or in another "
            f"order: {_shown(digest)}; what is sent again must be the same (after a shuffle Spark's sink keeps the "
            "order by option dedupKey)")

    def _is_last(self, mark: SinkMark, row: MessageExt) -> bool:
        """Whether the message at a mark without a digest is this row. False when the log no longer has it."""
        stored = self._store.look_message(mark.physical_offset)
        return stored is not None and digest_of([stored]) == digest_of([row])

    def run_stored(self, run: Run, messages: list[MessageExt]) -> None:
        """Move the mark to the last of the run's rows, which were appended. The last is at the end of `messages`."""
        message = messages[-1]
        self.moved(run.sink, SinkMark(_place(message), message.topic, message.queue_id, message.queue_offset,
                                      message.physical_offset, digest_of(messages, run.digest)))

    def of_sink(self, sink_id: str, from_batch: int = 0) -> dict[str, SinkMark]:
        """Marks of all writers whose SINK begins with this id, by SINK; the id may be followed by more parts.

        Only marks that have reached `from_batch`.
        """
        prefix = sink_id + "/"
        return {sink: mark for sink, mark in self._marks.items()
                if sink.startswith(prefix) and mark.sequence.batch >= from_batch}

    def moved(self, sink: str, mark: SinkMark) -> None:
        """Set the writer's mark to a message that was appended."""
        self._marks.pop(sink, None)
        self._marks[sink] = mark
        self.encoded.changed[sink] = None
        self._moves += 1
        while len(self._marks) > self.marks_max:
            oldest = next(iter(self._marks))
            self._forget(oldest)
            self.encoded.happenings.note("writers of sinks forgotten for others (sinkMarksMax)", oldest)

    def release(self, sink_id: str) -> None:
        """Let the marks of a finished sink be dropped first when others need room. Until then they are kept, because a
        task that was replaced by another may still send."""
        done = self.of_sink(sink_id)
        for sink in [sink for sink in self._marks if sink not in done]:
            self._marks[sink] = self._marks.pop(sink)

    def forget_topic(self, topic: str) -> None:
        """Drop the marks of a deleted topic, whose messages no longer count as stored."""
        for sink in [sink for sink, mark in self._marks.items() if mark.topic == topic]:
            self._forget(sink)

    def _forget(self, sink: str) -> None:
        del self._marks[sink]
        self.encoded.changed[sink] = None
        self._moves += 1

    # --- what outlives the broker ------------------------------------------------------------------------------------

    def be_copy(self) -> None:
        """Let a master report the marks, because this broker is a slave."""
        self._known_to = self._store.commit_log_max_offset()

    def follow(self, text: str | None, *, is_marked: bool) -> None:
        """Take over a master's marks, from a new document or the last one, once the log here reaches as far. A RocketMQ
        master has none (`is_marked` is false). Raises HeaderError."""
        if not is_marked:
            self._known_to = self._store.commit_log_max_offset()
        self._following = text or self._following
        if self._following and _log_offset(self._following) <= self._store.commit_log_max_offset():
            self.load(self._following)
            self._following = ""

    def document(self) -> Pieces:
        """The document covers the log up to its end now, and may be saved only when that part is on disk."""
        end = self._store.commit_log_max_offset() if self._known_to is None else self._known_to
        return encoded_table.document({"logOffset": end, "marks": self.encoded})

    def load(self, text: str) -> None:
        """Take over saved marks, and read the log after them. Raises HeaderError."""
        document, log_offset = fastjson.loads(text), _log_offset(text)
        try:
            marks = {str(sink): _mark(value) for sink, value in document["marks"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise HeaderError(f"the document of the sink marks lacks or misspells {cause}") from cause
        end = self._store.commit_log_max_offset()
        # The log ends before a mark if the disk lost what it had confirmed.
        is_copy = self._known_to is not None    # a slave's master sends the lost part again
        lost = set() if is_copy else {sink for sink, mark in marks.items() if mark.physical_offset >= end}
        self._marks = {sink: mark for sink, mark in marks.items() if sink not in lost}
        self.encoded.replace(self._marks)
        self._moves += 1
        if is_copy:
            self._known_to = min(log_offset, end)
            return
        if lost:
            # Their earlier rows are still there, and a mark does not say where the first of them is.
            for message in self._store.messages_holding(_PROPERTY_TEXT, self._store.commit_log_min_offset()):
                self._find(message, lost)
        for message in self._store.messages_holding(_PROPERTY_TEXT, log_offset):
            self._find(message)

    def _find(self, message: MessageExt, only: Container[str] | None = None) -> None:
        if message.topic in _HALF_TOPICS or topics.is_retry_topic(message.topic) or message.reconsume_times > 0:
            return
        try:
            marked = sequence_of(message.properties)
        except MessageIllegal:
            return
        if marked is None:
            return
        sink, place = marked
        mark = self._marks.get(sink)
        if only is not None and sink not in only:
            return
        if mark is not None and mark.sequence >= place:
            return
        follows = mark is not None and mark.sequence == Sequence(place.batch, place.row - 1)
        before = mark.digest if mark is not None and follows else 0 if place.row == 0 else DIGEST_UNKNOWN
        digest = before if before == DIGEST_UNKNOWN else row_on(before, message, message.body_crc)
        self.moved(sink, SinkMark(place, message.topic, message.queue_id, message.queue_offset, message.physical_offset,
                                  digest))


def _log_offset(text: str) -> int:
    document = fastjson.loads(text)
    try:
        return int(document["logOffset"])
    except (KeyError, TypeError, ValueError) as cause:
        raise HeaderError(f"the document of the sink marks lacks or misspells {cause}") from cause


def sequence_of(properties: dict[str, str]) -> tuple[str, Sequence] | None:
    """SINK and SEQ of a writer's message; None when the message has no mark or is a copy of one that has.

    Raises MessageIllegal when there are both and one is misspelt.
    """
    sink, text = properties.get(names.SINK), properties.get(names.SEQUENCE)
    if sink is None or text is None or not COPY_PROPERTIES.isdisjoint(properties):
        return None
    sink_id, _, partition = sink.rpartition("/")
    if not sink_id or not _is_number(partition) or len(sink) > SINK_SIZE_MAX:
        raise MessageIllegal(f"the property SINK is {sink[:80]!r}: write <sinkId>/<partition>, the partition as a "
                             f"number, {SINK_SIZE_MAX} characters at most")
    sequence = _sequence(text)
    if sequence is None:
        raise MessageIllegal(f"the property SEQ is {text[:80]!r}: write <batch>/<row>, two numbers of 0 to {LONG_MAX}")
    return sink, sequence


def run_of(properties: dict[str, str]) -> Run | None:
    """The run of a message or batch with these properties; None like `sequence_of`.

    Raises MessageIllegal when a property is misspelt, or the digest of the rows before the run is missing.
    """
    marked = sequence_of(properties)
    if marked is None:
        return None
    sink, first = marked
    digest = properties.get(names.SINK_DIGEST, "0" if first.row == 0 else "")
    if not _is_number(digest) or (first.row == 0 and int(digest) != 0):
        raise MessageIllegal(f"the property SINK_DIGEST is {digest[:80]!r}: write the digest of the rows that {sink} "
                             f"sent in batch {first.batch} before row {first.row}")
    return Run(sink, first, int(digest))


def _shown(digest: int) -> str:
    return "unknown" if digest == DIGEST_UNKNOWN else f"{digest:016x}"


def _place(message: MessageExt) -> Sequence:
    sequence = _sequence(message.properties[names.SEQUENCE])
    assert sequence is not None, "the message was checked before it was stored"
    return sequence


def mark_value(mark: SinkMark) -> dict[str, object]:
    """A mark as tools get it and as it is saved."""
    return {"seq": str(mark.sequence), "topic": mark.topic, "queueId": mark.queue_id,
            "queueOffset": mark.queue_offset, "physicalOffset": mark.physical_offset, "rowDigest": mark.digest}


def _write_mark(mark: SinkMark) -> str:
    return fastjson.dumps_pretty(mark_value(mark), 2)


def _mark(value: dict[str, object]) -> SinkMark:
    sequence = _sequence(str(value["seq"]))
    if sequence is None:
        raise ValueError(f"seq {value['seq']!r}")
    return SinkMark(sequence, str(value["topic"]), int(str(value["queueId"])), int(str(value["queueOffset"])),
                    int(str(value["physicalOffset"])), int(str(value["rowDigest"])))


def _sequence(text: str) -> Sequence | None:
    batch, separator, row = text.partition("/")
    if not separator or not _is_number(batch) or not _is_number(row):
        return None
    return Sequence(int(batch), int(row))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= LONG_MAX
