"""Messages of a sink's writer: stored unless they were stored before, as `sink_marks` knows.

They come as single messages, and as runs: batches whose request carries the mark.
"""

from regulus.broker.handlers.send_refusals import refuse_put, refuse_send
from regulus.broker.outcome import NO_REPLY, Outcome, Reply
from regulus.broker.send_facts import TopicFacts
from regulus.broker.sink_marks import COPY_PROPERTIES, Sequence, SinkMark, sequence_of
from regulus.broker.state import BrokerState
from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.store_result import PutStatus
from regulus.record.checksum import crc32
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import SendMessageRequest, send_message_response
from regulus.wire.remoting_command import RemotingCommand

DUPLICATE = "duplicate"
"""Ext field of the answer to a message of a sink that was stored before."""

MARK = "mark"
"""Ext field of the answer to a run that was stored before: the writer's mark, as SEQ is written."""


def send_marked(request: RemotingCommand, message: MessageExt, topic: TopicFacts, broker: BrokerState,
                now_ms: int) -> Outcome | None:
    """Store the message of a writer unless it was stored before; None when no writer sent it."""
    facts = broker.send_facts
    queue_id = message.queue_id
    try:
        marked = None if topic.is_retry else sequence_of(message.properties)
    except MessageIllegal as error:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, str(error))
    if marked is None:
        return None
    mark = broker.sink_marks.seen(*marked)
    if mark is not None:
        return _answer(request, message, mark, queue_id, broker)
    missing = broker.sink_marks.missing([marked])
    if missing:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, missing)
    no_room = broker.sink_marks.no_room(marked[0], marked[1].batch)
    if no_room:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, no_room)
    appended = broker.storing.store(message, now_ms)
    if appended.status is not PutStatus.PUT_OK:
        return refuse_put(request, facts, appended)
    broker.sink_marks.stored(message)
    return _answer(request, message, None, queue_id, broker)


def send_run(request: RemotingCommand, header: SendMessageRequest, messages: list[MessageExt], broker: BrokerState,
             now_ms: int) -> Outcome:
    """Store those rows of a run that were not stored before, all of them or none.

    A run is a batch whose request carries SINK and, as SEQ, the place of its first row; the others follow without gaps.
    """
    facts = broker.send_facts
    marks = broker.sink_marks
    try:
        marked = sequence_of(header.properties)
    except MessageIllegal as error:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, str(error))
    if marked is None:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, "a run of a sink's rows needs SINK and SEQ")
    if any(not COPY_PROPERTIES.isdisjoint(message.properties) for message in messages):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"a row has {' or '.join(sorted(COPY_PROPERTIES))}, which copies of messages have: the mark "
                           "of a sink counts no copy, so leave that property out")
    sink, first = marked
    no_room = marks.no_room(sink, first.batch)
    if no_room:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, no_room)
    gap = marks.gap_before(sink, first)
    if gap:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, gap)
    known = marks.rows_known(sink, first, len(messages))
    mark = marks.mark_of(sink) if known else None
    if mark is not None and not _is_repetition(sink, mark, first, messages[:known], broker):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"a row of {sink} up to {mark.sequence} was stored with another body: rows that are sent "
                           "again come in their first order (after a shuffle Spark's sink keeps it by option dedupKey)")
    for row, message in enumerate(messages, first.row):
        message.properties[names.SEQUENCE] = f"{first.batch}/{row}"
    if known < len(messages):
        appended = broker.storing.append_batch(messages[known:], now_ms)
        if appended.status is not PutStatus.PUT_OK:
            return refuse_put(request, facts, appended)
        marks.run_stored(sink, messages[known:])
        mark = None
    first_stored = messages[known] if known < len(messages) else messages[0]
    return _answer(request, first_stored, mark, messages[0].queue_id, broker, is_run=True)


def _is_repetition(sink: str, mark: SinkMark, first: Sequence, rows: list[MessageExt], broker: BrokerState) -> bool:
    """Whether the rows are those that were stored, as far as can be told."""
    if not broker.sink_marks.repeats(sink, first, [crc32(row.body) & 0x7FFFFFFF for row in rows]):
        return False
    if mark.sequence != Sequence(first.batch, first.row + len(rows) - 1):
        return True
    stored = broker.send_facts.store.look_message(mark.physical_offset)
    return stored is None or stored.body == rows[-1].body


def _answer(request: RemotingCommand, message: MessageExt, mark: SinkMark | None, queue_id: int,
            broker: BrokerState, *, is_run: bool = False) -> Outcome:
    """Answer with the place of the message, or of the `mark` when it was stored before; a run hears the mark itself."""
    if request.is_oneway:
        return NO_REPLY
    facts = broker.send_facts
    place = message if mark is None else mark
    message_id = facts.offset_message_id(message.store_host, place.physical_offset)
    response = send_message_response(request, int(ResponseCode.SUCCESS), message_id,
                                     queue_id if mark is None else mark.queue_id, place.queue_offset,
                                     message.message_id, facts.region_id, facts.trace_on)
    if mark is not None:
        response.ext = {**response.ext, DUPLICATE: "true", **({MARK: str(mark.sequence)} if is_run else {})}
    waits = message.properties.get(names.WAIT_STORE_MSG_OK) != "false"
    return Reply(response, broker.storing.durable_at(waits=waits))
