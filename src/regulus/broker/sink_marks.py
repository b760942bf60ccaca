"""How far each writer of a sink has come, so that a batch that is written again appends nothing twice.

A sink's message carries two properties: `SINK`, `<sinkId>/<partition>`, names its writer, and `SEQ`, `<batch>/<row>`,
its place in what that writer writes. For each SINK the broker keeps a mark: the highest SEQ stored, and where. A send
at or below its mark was stored before; it is answered with the mark's place and appends nothing.

This is sound as long as a writer's rows arrive in their order, so the broker sees to that where it can: once it refused
a row, it refuses all later rows of the SINK until that one has come again. Without it the rows that were already on
their way would lift the mark over the refused one, whose repetition would then be taken for stored.

Many rows travel as a run: a batch whose request carries SINK and the SEQ of its first row, the others counting on from
there. The rows of a batch number are then 0, 1, 2 ... without gaps, so a run that leaves a gap to the mark is refused,
and of one that overlaps it the rest is stored. With the mark goes a digest of the batch's bodies up to there. A writer
whose rows come again in another order than before, or with other bodies, is told so when its runs, from the batch's
first on, have come up to the mark, and nothing is appended behind it.

The marks are a document that says up to which offset of the log it is right. It is saved when the log is on disk up to
there, at the latest each DOCUMENT_LAG_MAX bytes of the log; at the start the log behind it is walked. No send of a
writer is answered before a first document is saved, so a store without one has no marks.

Copies are not the writer's: what a consumer sends back, retries and dead letters carry the properties on, and neither
move a mark nor are held against one.
"""

from typing import NamedTuple

from regulus.broker.message_store import MessageStore
from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties as names
from regulus.model import topics
from regulus.model.message import MessageExt
from regulus.wire import encoded_table, fastjson
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.ext_fields import LONG_MAX
from regulus.wire.straight_batch import digest_on

DOCUMENT_LAG_MAX = 16 << 20
"""Bytes of the log, in which there may be no mark at all, after which the document is saved again."""
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


class SinkMark(NamedTuple):
    """The last message of a writer that was stored, and its place.

    `digest` is that of the bodies of its batch up to there, in their order; below 0 where it is not known.
    """

    sequence: Sequence
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    digest: int = DIGEST_UNKNOWN


class SinkMarks:
    """`marks_max` writers at most; the one that has not sent for the longest goes first, unless it is still needed."""

    def __init__(self, store: MessageStore, marks_max: int) -> None:
        self.marks_max = marks_max
        self._store = store
        self._marks: dict[str, SinkMark] = {}
        self._refused: dict[str, Sequence] = {}
        self._repeated: dict[str, tuple[Sequence, int]] = {}
        """Up to which row, which is not among them, a writer has sent its batch again, and the digest of those rows."""
        self._moves = 0
        self.encoded = EncodedTable(self._marks, _write_mark)

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def changes(self) -> int:
        """Another number than before: the document is worth saving."""
        return self._moves + self._store.commit_log_max_offset() // DOCUMENT_LAG_MAX

    def seen(self, sink: str, sequence: Sequence) -> SinkMark | None:
        """The mark when it is at `sequence` or above it, so that the message was stored before."""
        mark = self._marks.get(sink)
        if mark is None or mark.sequence < sequence:
            return None
        self._marks[sink] = self._marks.pop(sink)       # a mark that is asked for is in use
        return mark

    def missing(self, marked: list[tuple[str, Sequence]]) -> str:
        """Which refused row must come before one of these, in a sentence; empty when none must."""
        for sink, sequence in marked if self._refused else ():
            refused = self._refused.get(sink)
            if refused is not None and refused < sequence and (sink, refused) not in marked:
                return (f"row {refused} of {sink} was refused and must be stored before row {sequence}: send again "
                        f"from {refused} on, in order")
        return ""

    def mark_of(self, sink: str) -> SinkMark | None:
        return self._marks.get(sink)

    def rows_known(self, sink: str, first: Sequence, count: int) -> int:
        """How many of the rows of a run, from its first on, were stored before."""
        mark = self.seen(sink, first)
        if mark is None:
            return 0
        return count if mark.sequence.batch > first.batch else min(count, mark.sequence.row - first.row + 1)

    def gap_before(self, sink: str, first: Sequence) -> str:
        """Which rows should have come before a run that begins with `first`, in a sentence; empty when none should."""
        mark = self._marks.get(sink)
        if mark is not None and mark.sequence.batch > first.batch:
            return ""
        wanted = mark.sequence.row + 1 if mark is not None and mark.sequence.batch == first.batch else 0
        if first.row <= wanted:
            return ""
        return (f"a run of {sink} begins with row {first}, and rows from {first.batch}/{wanted} on have not come: send "
                f"again from there, in order")

    def no_room(self, sink: str, batch: int) -> str:
        """Why there can be no mark for a new writer, in a sentence; empty when there can.

        A batch comes again with all its writers, so while a sink writes it no mark of its own may go that it set in
        this batch. Those of earlier batches may, and those of other sinks that have not sent for longer.
        """
        if sink in self._marks or len(self._marks) < self.marks_max:
            return ""
        oldest, mark = next(iter(self._marks.items()))
        sink_id = sink.partition("/")[0]
        if oldest.partition("/")[0] != sink_id or mark.sequence.batch < batch:
            return ""
        return (f"sink {sink_id} writes batch {batch} in more than {self.marks_max} lanes, one for a task and a queue, "
                "and this broker remembers no more (sinkMarksMax): raise that, or write with fewer tasks or queues")

    def digest_before(self, sink: str, first: Sequence) -> int:
        """Of the bodies that the writer stored in this batch before a row that is stored now."""
        mark = self._marks.get(sink)
        if first.row == 0:
            return 0
        is_next = mark is not None and mark.sequence == Sequence(first.batch, first.row - 1)
        return mark.digest if mark is not None and is_next else DIGEST_UNKNOWN

    def repeats(self, sink: str, first: Sequence, body_crcs: list[int]) -> bool:
        """Whether rows that come again, up to the mark at most, are those that were stored, as far as can be told.

        Told it is when the row at the mark comes, of all bodies before it together: when the batch came again from its
        first row on without a gap.
        """
        mark = self._marks[sink]
        if mark.sequence.batch != first.batch:
            return True
        known_to, digest = self._repeated.pop(sink, (first, DIGEST_UNKNOWN))
        if first.row == 0:
            digest = 0
        elif known_to != first:
            digest = DIGEST_UNKNOWN
        for body_crc in body_crcs:
            digest = digest_on(digest, body_crc)
        end = Sequence(first.batch, first.row + len(body_crcs))
        if end.row > mark.sequence.row:
            return DIGEST_UNKNOWN in (digest, mark.digest) or digest == mark.digest
        self._repeated[sink] = end, digest
        if len(self._repeated) > self.marks_max:
            del self._repeated[next(iter(self._repeated))]
        return True

    def stored(self, message: MessageExt) -> None:
        """The message of a writer was appended: move its mark."""
        self.run_stored(message.properties[names.SINK], [message])

    def run_stored(self, sink: str, messages: list[MessageExt]) -> None:
        """Rows of a writer that follow each other were appended: move its mark to the last."""
        first, last = _place(messages[0]), _place(messages[-1])
        digest = self.digest_before(sink, first)
        for message in messages:
            digest = digest_on(digest, message.body_crc)
        message = messages[-1]
        self.moved(sink, SinkMark(last, message.topic, message.queue_id, message.queue_offset, message.physical_offset,
                                  digest))

    def moved(self, sink: str, mark: SinkMark) -> None:
        """The writer's messages were appended up to this one."""
        self._move(sink, mark)
        refused = self._refused.get(sink)
        if refused is not None and refused <= mark.sequence:
            del self._refused[sink]

    def refused(self, properties: dict[str, str]) -> None:
        """A message was not taken. When it is a writer's, none behind it is until it was."""
        try:
            marked = sequence_of(properties)
        except MessageIllegal:
            return
        if marked is None or self.seen(*marked) is not None:
            return
        sink, sequence = marked
        known = self._refused.pop(sink, sequence)
        self._refused[sink] = min(known, sequence)
        if len(self._refused) > self.marks_max:
            del self._refused[next(iter(self._refused))]

    def of_sink(self, sink_id: str) -> dict[str, SinkMark]:
        """The marks of all writers whose SINK begins with this id, by SINK; it may have more parts behind it."""
        prefix = sink_id + "/"
        return {sink: mark for sink, mark in self._marks.items() if sink.startswith(prefix)}

    def _move(self, sink: str, mark: SinkMark) -> None:
        self._marks.pop(sink, None)
        self._marks[sink] = mark
        self.encoded.changed[sink] = None
        self._moves += 1
        while len(self._marks) > self.marks_max:
            oldest = next(iter(self._marks))
            del self._marks[oldest]
            self.encoded.changed[oldest] = None

    # --- what outlives the broker ------------------------------------------------------------------------------------

    def document(self) -> Pieces:
        """Right for the log up to its end now, so it may be saved only when that much is on disk."""
        return encoded_table.document({"logOffset": self._store.commit_log_max_offset(), "marks": self.encoded})

    def load(self, text: str) -> None:
        """Take over saved marks, and find those of the log behind them. Raises HeaderError."""
        document = fastjson.loads(text)
        try:
            log_offset = int(document["logOffset"])
            marks = {str(sink): _mark(value) for sink, value in document["marks"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise HeaderError(f"the document of the sink marks lacks or misspells {cause}") from cause
        end = self._store.commit_log_max_offset()
        # What a mark speaks of may be gone with the log's tail when the disk lost what it had confirmed.
        self._marks = {sink: mark for sink, mark in marks.items() if mark.physical_offset < end}
        self.encoded.replace(self._marks)
        self._moves += 1
        for message in self._store.messages_holding(_PROPERTY_TEXT, log_offset):
            self._find(message)

    def _find(self, message: MessageExt) -> None:
        if message.topic in _HALF_TOPICS or topics.is_retry_topic(message.topic) or message.reconsume_times > 0:
            return
        try:
            marked = sequence_of(message.properties)
        except MessageIllegal:
            return
        if marked is not None and self.seen(*marked) is None:
            self.stored(message)


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


def _place(message: MessageExt) -> Sequence:
    sequence = _sequence(message.properties[names.SEQUENCE])
    assert sequence is not None, "the message was checked before it was stored"
    return sequence


def mark_value(mark: SinkMark) -> dict[str, object]:
    """A mark as it travels and as it is saved."""
    return {"seq": str(mark.sequence), "topic": mark.topic, "queueId": mark.queue_id,
            "queueOffset": mark.queue_offset, "physicalOffset": mark.physical_offset, "digest": mark.digest}


def _write_mark(mark: SinkMark) -> str:
    return fastjson.dumps_pretty(mark_value(mark), 2)


def _mark(value: dict[str, object]) -> SinkMark:
    sequence = _sequence(str(value["seq"]))
    if sequence is None:
        raise ValueError(f"seq {value['seq']!r}")
    return SinkMark(sequence, str(value["topic"]), int(str(value["queueId"])), int(str(value["queueOffset"])),
                    int(str(value["physicalOffset"])), int(str(value.get("digest", DIGEST_UNKNOWN))))


def _sequence(text: str) -> Sequence | None:
    batch, separator, row = text.partition("/")
    if not separator or not _is_number(batch) or not _is_number(row):
        return None
    return Sequence(int(batch), int(row))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= LONG_MAX
