"""Sends of a sink's writer: stored unless `sink_marks` knows that they were stored before.

They come in runs: as a batch whose request has the mark, or as a single message, which is a run of one row.
"""

from collections.abc import Callable

from regulus.broker.handlers.send_refusals import refuse_put, refuse_send
from regulus.broker.outcome import NO_REPLY, Outcome, Reply
from regulus.broker.send_facts import TopicFacts
from regulus.broker.sink_marks import COPY_PROPERTIES, Run, SinkMark, run_of
from regulus.broker.state import BrokerState
from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_type import NORMAL, message_type
from regulus.model.store_result import Appended, PutStatus
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import SendMessageRequest, send_message_response
from regulus.wire.remoting_command import RemotingCommand
from regulus.wire.row_digest import digest_of

DUPLICATE = "duplicate"
"""Ext field of the answer to a sink's messages that were stored before."""

MARK = "mark"
"""Ext field of that answer: the writer's last place, written like SEQ."""


def send_marked(request: RemotingCommand, message: MessageExt, topic: TopicFacts, broker: BrokerState,
                now_ms: int) -> Outcome | None:
    """Store a writer's message, a run of one row, unless it was stored before. None when it is not of a writer."""
    try:
        run = None if topic.is_retry else run_of(message.properties)
    except MessageIllegal as error:
        return refuse_send(request, broker.send_facts, ResponseCode.MESSAGE_ILLEGAL, str(error))
    if run is None:
        return None
    message.properties.pop(names.SINK_DIGEST, None)
    kind = message_type(message.properties)
    # Placing a delayed message changes its queue; the answer names the one in the request.
    return _store_run(request, run, [message], broker, lambda _: broker.storing.store(message, now_ms, kind))


def send_run(request: RemotingCommand, header: SendMessageRequest, messages: list[MessageExt], broker: BrokerState,
             now_ms: int) -> Outcome:
    """Store the rows of a run that were not stored before, all of them or none.

    The run is a batch whose request has SINK and, as SEQ, the place of its first row; the others follow it.
    """
    facts = broker.send_facts
    try:
        run = run_of(header.properties)
    except MessageIllegal as error:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, str(error))
    if run is None:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, "a run of a sink's rows needs SINK and SEQ")
    if any(not COPY_PROPERTIES.isdisjoint(message.properties) for message in messages):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"a row has {' or '.join(sorted(COPY_PROPERTIES))}, which only copies have: the mark "
                           "of a sink does not count copies, so leave that property out")
    for row, message in enumerate(messages, run.first.row):
        message.properties[names.SEQUENCE] = f"{run.first.batch}/{row}"
        message.properties.pop(names.SINK_DIGEST, None)
    return _store_run(request, run, messages, broker,
                      lambda new: broker.storing.append_batch(new, now_ms, NORMAL))


def _store_run(request: RemotingCommand, run: Run, messages: list[MessageExt], broker: BrokerState,
               append: Callable[[list[MessageExt]], Appended]) -> Outcome:
    """Append the rows after the writer's mark, if the rows before it are those of the mark."""
    facts = broker.send_facts
    marks = broker.sink_marks
    queue_id = messages[0].queue_id
    fault = marks.later_batch(run) or marks.no_room(run)
    if fault:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, fault)
    gap = marks.gap_before(run)
    if gap:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, gap)
    known = marks.rows_known(run, len(messages))
    difference = marks.difference(run, messages[:known])
    if difference:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, difference)
    new = messages[known:]
    if not new:
        return _answer(request, messages[0], marks.mark_of(run.sink), queue_id, broker)
    before = digest_of(messages[:known], run.digest)
    appended = append(new)
    if appended.status is not PutStatus.PUT_OK:
        return refuse_put(request, facts, appended)
    marks.run_stored(run._replace(digest=before), new)
    return _answer(request, new[0], None, queue_id, broker)


def _answer(request: RemotingCommand, message: MessageExt, mark: SinkMark | None, queue_id: int,
            broker: BrokerState) -> Outcome:
    """Answer with the place of the message or, if it was stored before, with the mark and its place."""
    if request.is_oneway:
        return NO_REPLY
    facts = broker.send_facts
    place = message if mark is None else mark
    message_id = facts.offset_message_id(message.store_host, place.physical_offset)
    response = send_message_response(request, int(ResponseCode.SUCCESS), message_id,
                                     queue_id if mark is None else mark.queue_id, place.queue_offset,
                                     message.message_id, facts.region_id, facts.trace_on)
    if mark is not None:
        response.ext = {**response.ext, DUPLICATE: "true", MARK: str(mark.sequence)}
    waits = message.properties.get(names.WAIT_STORE_MSG_OK) != "false"
    return Reply(response, broker.storing.durable_at(waits=waits))
