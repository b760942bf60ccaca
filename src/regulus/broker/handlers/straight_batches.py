"""Fast path for ordinary batches, including a sink writer's runs. It stores received bytes without an object per
message.

An unusual batch leaves this path before anything is changed. A run that is not simply the next one is unusual.
"""

from regulus.broker.outcome import NO_REPLY, Outcome, plain_reply
from regulus.broker.send_facts import SendFacts, TopicFacts
from regulus.broker.sink_marks import Run, Sequence, SinkMark, run_of
from regulus.broker.state import BrokerState
from regulus.errors import MessageIllegal
from regulus.model import message_properties as names
from regulus.model.message import StraightMessage
from regulus.model.peer import Peer
from regulus.model.store_result import Appended, PutStatus
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import SendMessageRequest, send_message_response
from regulus.wire.remoting_command import RemotingCommand

_OF_RUN = [names.SINK, names.SEQUENCE, names.SINK_DIGEST]


def send_straight_batch(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts,
                        peer: Peer, broker: BrokerState, now_ms: int) -> Outcome | None:
    """Store an ordinary batch. None when it is unusual or must be refused; then nothing was changed."""
    facts = broker.send_facts
    batch = facts.straight_batches
    run = _next_run(header.properties, broker) if header.properties else None
    if run is None:
        if header.properties or not batch.read(request, header.topic, b"", -1, facts.stamp_text):
            return None
    elif not batch.read(request, header.topic, _front_of(run), run.first.row,
                        names.PROPERTY_SEPARATOR.encode() + facts.stamp_text):
        return None
    else:
        batch.digest_before = run.digest
    _fill(batch.message, header, queue_id, topic, facts.store_host or peer.local, peer)
    appended = facts.store.append_batch(batch, now_ms)
    if appended.status is not PutStatus.PUT_OK:
        return None
    topic.normal.count(batch.count, appended)
    if run is None:
        return answer_batch(request, appended, queue_id, batch.message.store_host, True, facts)
    last = batch.count - 1
    end = Sequence(run.first.batch, run.first.row + last)
    broker.sink_marks.moved(run.sink, SinkMark(end, header.topic, queue_id,
                                           appended.queue_offset + last, appended.starts[last], batch.digest))
    return _answer_run(request, next(iter(batch)), appended, facts)


def answer_batch(request: RemotingCommand, appended: Appended, queue_id: int, store_host: bytes, waits: bool,
                 facts: SendFacts) -> Outcome:
    """Answer with the places of all messages of a batch. `waits`: whether the client wants to wait for the disk."""
    ids = ",".join([facts.offset_message_id(store_host, start) for start in appended.starts])
    response = send_message_response(request, int(ResponseCode.SUCCESS), ids, queue_id, appended.queue_offset, None,
                                     facts.region_id, facts.trace_on)
    return plain_reply(response, facts.durable_at(appended.end, waits))


def _answer_run(request: RemotingCommand, first: StraightMessage, appended: Appended, facts: SendFacts) -> Outcome:
    """Answer with the place of the first row."""
    if request.is_oneway:
        return NO_REPLY
    unique_key = first.text[first.unique_key_start:first.unique_key_end].decode()
    message_id = facts.offset_message_id(first.store_host, appended.start)
    response = send_message_response(request, int(ResponseCode.SUCCESS), message_id, first.queue_id,
                                     appended.queue_offset, unique_key, facts.region_id, facts.trace_on)
    return plain_reply(response, facts.durable_at(appended.end, first.waits))


def _next_run(properties: dict[str, str], broker: BrokerState) -> Run | None:
    """The run that continues at its writer's mark, or begins a batch; otherwise None.

    Stored messages keep the order of the request's properties, and only one order is written here.
    """
    if list(properties) != _OF_RUN:
        return None
    try:
        run = run_of(properties)
    except MessageIllegal:
        return None
    marks = broker.sink_marks
    return None if run is None or not marks.goes_on(run) or marks.no_room(run) else run


def _front_of(run: Run) -> bytes:
    """Bytes of a row after its own properties and before its number."""
    separator = names.NAME_VALUE_SEPARATOR
    sink = f"{names.SINK}{separator}{run.sink}{names.PROPERTY_SEPARATOR}"
    sequence = f"{names.SEQUENCE}{separator}{run.first.batch}/"
    return (sink + sequence).encode("utf-8", "replace")


def _fill(message: StraightMessage, header: SendMessageRequest, queue_id: int, topic: TopicFacts, store_host: bytes,
          peer: Peer) -> None:
    """Set the fields that all messages of a batch have in common."""
    message.queue_id = queue_id
    message.sys_flag = header.sys_flag | topic.sys_flag
    message.born_timestamp = header.born_timestamp
    message.born_host = peer.remote
    message.store_host = store_host
    message.reconsume_times = header.reconsume_times
