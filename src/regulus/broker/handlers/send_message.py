"""A producer stores messages: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE.

The hot path of the broker. What can be known of a topic beforehand stands in its `TopicFacts`. A send with nothing
unusual about it goes a straight way, `_send_plain`, from the bytes that were read to those that rest. Everything else
(a new topic, a retry topic, a batch, properties that change where a message goes) leaves that way before anything was
done.

Source: SendMessageProcessor, AbstractSendMessageProcessor.
"""

from regulus.broker.outcome import NO_REPLY, Outcome, Reply, ReplyFrame, ReplyWhenDurable, refuse
from regulus.broker.placement import delay_level, place, place_dead_letter, place_half
from regulus.broker.send_facts import NEVER_IN_BATCH, TIMER_PROPERTIES, UNUSUAL_PROPERTIES, SendFacts, TopicFacts
from regulus.broker.sink_marks import Sequence, SinkMark, sequence_of, sequences_of_batch
from regulus.broker.state import BrokerState
from regulus.broker.topics import UNIT_FLAG
from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties as names
from regulus.model import sys_flag, topics
from regulus.model.message import MessageExt, PlainMessage
from regulus.model.peer import Peer
from regulus.model.store_result import Appended, PutStatus
from regulus.wire import message_batch
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import (
    MAX_RECONSUME_TIMES_ABSENT,
    SendMessageRequest,
    decode_send_message_request,
    send_message_response,
)
from regulus.wire.remoting_command import ONEWAY_FLAG, ROCKETMQ, RemotingCommand

RETRY_LIMIT_VERSION_MIN = 121
"""Clients of an older version put something else into maxReconsumeTimes. Source: MQVersion.Version.V3_4_9."""

DUPLICATE = "duplicate"
"""Ext field of the answer to a message of a sink that was stored before."""

MARK = "mark"
"""Ext field of the answer to a run that was stored before: the writer's mark, as SEQ is written."""

TIMERS_NOT_SERVED = "timer messages are not served by this broker yet; a delay level (property DELAY) is"

_TIMER_PROPERTIES = TIMER_PROPERTIES
_NEVER_IN_BATCH = NEVER_IN_BATCH
_UNUSUAL_PROPERTIES = UNUSUAL_PROPERTIES
_UNIQUE_KEY = names.UNIQUE_KEY
_WAIT = names.WAIT_STORE_MSG_OK
_TRANSACTION_MASK = sys_flag.TRANSACTION_MASK
_ONEWAY = ONEWAY_FLAG
_ROCKETMQ = ROCKETMQ
_SUCCESS = int(ResponseCode.SUCCESS)
_PUT_OK = PutStatus.PUT_OK

_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
}


def handle_send_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    facts = broker.send_facts
    if facts.plain_sends.read(request):
        outcome = _send_plain(request, facts.plain_sends.message, facts, peer, broker, now_ms)
        if outcome is not None:
            return outcome
    header = decode_send_message_request(request)
    topic = facts.topics.get(header.topic)
    if topic is None or not topic.is_plain or facts.is_restricted:
        refusal = _refusal(request, header, broker, now_ms)
        if refusal is not None:
            return refusal
        topic = facts.topics[header.topic]
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = broker.chance.below(topic.write_queue_nums)
    elif queue_id >= topic.queue_nums_max:
        return refuse_send(request, facts, ResponseCode.INVALID_PARAMETER,
                           f"request queueId[{queue_id}] is illegal, topic [{header.topic}] has "
                           f"{topic.queue_nums_max} queues")
    if header.batch:
        return _send_batch(request, header, queue_id, topic, facts, peer, broker, now_ms)
    return _send(request, header, queue_id, topic, facts, peer, broker, now_ms)


def _send_plain(request: RemotingCommand, message: PlainMessage, facts: SendFacts, peer: Peer, broker: BrokerState,
                now_ms: int) -> Outcome | None:
    """None when there is something unusual, even a reason to refuse: nothing was done then."""
    topic = facts.topics.get(message.topic)
    if topic is None or not topic.is_plain or facts.is_restricted or message.sys_flag & _TRANSACTION_MASK \
            or not 0 <= message.queue_id < topic.queue_nums_max \
            or message.body_end - message.body_start > facts.max_message_size:
        return None
    message.sys_flag |= topic.sys_flag
    message.born_host = peer.remote
    message.store_host = facts.store_host or peer.local
    appended = facts.store.append(message, now_ms)
    if appended.status is not _PUT_OK:
        return _refuse_put(request, broker, appended)
    topic.put_nums += 1
    topic.put_size += appended.end - appended.start
    if request.flag & _ONEWAY:
        return NO_REPLY
    if facts.sync_flush and message.waits:
        unique_key = message.text[message.unique_key_start:message.unique_key_end].decode()
        message_id = _offset_message_id(facts, message.store_host, appended.start)
        return ReplyWhenDurable(send_message_response(request, _SUCCESS, message_id, message.queue_id,
                                                      appended.queue_offset, unique_key, facts.region_id,
                                                      facts.trace_on), appended.end)
    if request.serialize_type == _ROCKETMQ:
        binary = facts.binary_answers(message.store_host)
        return ReplyFrame(binary.frame(message, request.opaque, appended.start, appended.queue_offset))
    answers = facts.answers(message.store_host)
    return ReplyFrame(answers.frame(message, request.opaque, appended.start, appended.queue_offset))


def _send(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts, facts: SendFacts,
          peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = request.body
    if len(body) > facts.max_message_size:
        return _refuse_size(request, facts, len(body))
    properties = header.properties
    is_unusual = not _UNUSUAL_PROPERTIES.isdisjoint(properties)
    unique_key = properties.get(_UNIQUE_KEY)
    if unique_key is None:
        unique_key = properties[_UNIQUE_KEY] = broker.make_unique_key(now_ms)
    for name, value in facts.stamp.items():
        properties[name] = value
    store_host = facts.store_host or peer.local
    message = _message(header, topic, body, properties, queue_id, header.flag, peer.remote, store_host)
    if is_unusual or message.sys_flag & _TRANSACTION_MASK:
        outcome = _refuse_unusual(request, message, facts) or _send_marked(request, message, topic, broker, now_ms)
        if outcome is not None:
            return outcome
    is_dead_letter = topic.is_retry and _is_exhausted(request, header, broker, now_ms)
    if is_dead_letter:
        _bury(message, broker, now_ms)
    elif is_unusual:
        place(message, facts.delay_level_max)
    appended = facts.store.append(message, now_ms)
    if appended.status is not _PUT_OK:
        return _refuse_put(request, broker, appended)
    if message.topic != topic.topic:
        topic = facts.topics[message.topic]
    topic.put_nums += 1
    topic.put_size += appended.end - appended.start
    if request.flag & _ONEWAY:
        return NO_REPLY
    response = send_message_response(request, _SUCCESS, _offset_message_id(facts, store_host, appended.start),
                                     queue_id, appended.queue_offset, unique_key, facts.region_id, facts.trace_on)
    if facts.sync_flush and (is_dead_letter or properties.get(_WAIT) != "false"):
        return ReplyWhenDurable(response, appended.end)
    return Reply(response)


def _send_batch(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts,
                facts: SendFacts, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """All messages of a batch are stored one behind the other, or none is."""
    fault = _batch_fault(header)
    if fault is not None:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, fault)
    if len(request.body) > facts.max_message_size:
        return _refuse_size(request, facts, len(request.body))
    store_host = facts.store_host or peer.local
    messages = []
    is_marked = False
    for flag, body, properties in message_batch.decode(request.body):
        if not _NEVER_IN_BATCH.isdisjoint(properties):
            return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                               "a message of a batch can be neither delayed nor transactional")
        is_marked = is_marked or names.SINK in properties
        if _UNIQUE_KEY not in properties:
            properties[_UNIQUE_KEY] = broker.make_unique_key(now_ms)
        properties.update(header.properties)
        properties.update(facts.stamp)
        message = _message(header, topic, body, properties, queue_id, flag, peer.remote, store_host)
        messages.append(message)
    if not messages:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, "the batch has no message")
    if names.SINK in header.properties:
        return _send_run(request, header, messages, broker, now_ms)
    if is_marked:
        return _send_marked_batch(request, messages, broker, now_ms)
    appended = facts.store.append_batch(messages, now_ms)
    if appended.status is not _PUT_OK:
        return _refuse_put(request, broker, appended)
    topic.put_nums += len(messages)
    topic.put_size += appended.end - appended.start
    message_ids = ",".join([_offset_message_id(facts, store_host, start) for start in appended.starts])
    response = send_message_response(request, _SUCCESS, message_ids, queue_id, appended.queue_offset, None,
                                     facts.region_id, facts.trace_on)
    if facts.sync_flush and header.properties.get(_WAIT) != "false":
        return ReplyWhenDurable(response, appended.end)
    return Reply(response)


def _message(header: SendMessageRequest, topic: TopicFacts, body: bytes, properties: dict[str, str], queue_id: int,
             flag: int, born_host: bytes, store_host: bytes) -> MessageExt:
    # Field by field, because the constructor would cost a good part of what storing the message does.
    message = MessageExt.__new__(MessageExt)
    message.topic = header.topic
    message.body = body
    message.properties = properties
    message.queue_id = queue_id
    message.flag = flag
    message.sys_flag = header.sys_flag | topic.sys_flag
    message.born_timestamp = header.born_timestamp
    message.born_host = born_host
    message.store_host = store_host
    message.reconsume_times = header.reconsume_times
    message.prepared_transaction_offset = 0
    message.queue_offset = 0
    message.physical_offset = 0
    message.store_timestamp = 0
    message.store_size = 0
    message.body_crc = 0
    return message


def _offset_message_id(facts: SendFacts, store_host: bytes, physical_offset: int) -> str:
    """As model.message_id makes it; the host's part is the same for almost all messages."""
    host = facts.host_texts.get(store_host)
    if host is None:
        host = facts.host_texts[store_host] = store_host.hex().upper()
    return f"{host}{physical_offset:016X}"


# --- before storing --------------------------------------------------------------------------------------------------


def _refusal(request: RemotingCommand, header: SendMessageRequest, broker: BrokerState, now_ms: int) -> Reply | None:
    """Why the topic takes no message now; None when it does, after it was created if that was needed."""
    name = header.topic
    if now_ms < broker.config.start_accept_send_request_time_stamp:
        return refuse_send(request, broker.send_facts, ResponseCode.SYSTEM_ERROR,
                           f"broker unable to service, until {broker.config.start_accept_send_request_time_stamp}")
    if not broker.send_facts.is_writable and broker.topics.is_order(name):
        return refuse_send(request, broker.send_facts, ResponseCode.NO_PERMISSION,
                           f"the broker[{broker.config.broker_name}] sending message is forbidden")
    fault = topics.name_fault(name)
    if fault is not None:
        return refuse_send(request, broker.send_facts, ResponseCode.INVALID_PARAMETER, fault)
    if name in topics.NOT_SENDABLE_TOPICS:
        return refuse_send(request, broker.send_facts, ResponseCode.NO_PERMISSION,
                           f"Sending message to topic[{name}] is forbidden.")
    topic = broker.send_facts.topics.get(name)
    if topic is None:
        refusal = _create_topic(request, header, broker, now_ms)
        if refusal is not None:
            return refusal
        topic = broker.send_facts.topics[name]
    if topic.refusal_code:
        return refuse_send(request, broker.send_facts, topic.refusal_code, topic.refusal_remark)
    if topic.is_retry and not header.batch:
        return _refuse_unknown_group(request, name, broker, now_ms)
    if topic.needs_keys and not header.batch and not header.properties.get(names.KEYS):
        return refuse_send(request, broker.send_facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the topic[{name}] is compacted, so its messages need a key (property KEYS)")
    return None


def _create_topic(request: RemotingCommand, header: SendMessageRequest, broker: BrokerState,
                  now_ms: int) -> Reply | None:
    name = header.topic
    if topics.is_retry_topic(name):
        refusal = _refuse_unknown_group(request, name, broker, now_ms)
        if refusal is None:
            broker.topics.create_if_absent(name, 1, now_ms, UNIT_FLAG if header.unit_mode else 0)
        return refusal
    created = None
    if broker.config.auto_create_topic_enable or header.default_topic != topics.AUTO_CREATE_TOPIC:
        created = broker.topics.create_for_send(name, header.default_topic, header.default_topic_queue_nums,
                                                header.unit_mode, now_ms)
    if created is None:
        return refuse_send(request, broker.send_facts, ResponseCode.TOPIC_NOT_EXIST,
                           f"topic[{name}] not exist, apply first please!")
    return None


def _refuse_unknown_group(request: RemotingCommand, name: str, broker: BrokerState, now_ms: int) -> Reply | None:
    group = name[len(topics.RETRY_PREFIX):]
    if broker.subscription_groups.find(group, now_ms) is None:
        return refuse_send(request, broker.send_facts, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                           f"subscription group not exist, {group}")
    return None


def _refuse_unusual(request: RemotingCommand, message: MessageExt, facts: SendFacts) -> Reply | None:
    """Why a message with unusual properties cannot be stored; None when it can, without a stale pop receipt, and
    placed among the halves when its transaction is open."""
    properties = message.properties
    properties.pop(names.POP_CK, None)
    if message.reconsume_times > 0 and delay_level(properties) > 0:
        message.sys_flag &= ~_TRANSACTION_MASK      # a retry of a message whose transaction was committed
    elif properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        return _make_half(request, message, facts)
    elif message.sys_flag & _TRANSACTION_MASK:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "the sysFlag says that a transaction is open, the property TRAN_MSG does not")
    if names.DELAY_TIME_LEVEL not in properties and not _TIMER_PROPERTIES.isdisjoint(properties):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, TIMERS_NOT_SERVED)
    return None


# --- messages of a sink's writer -------------------------------------------------------------------------------------


def _send_marked(request: RemotingCommand, message: MessageExt, topic: TopicFacts, broker: BrokerState,
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
        return _answer_marked(request, [message], [mark], queue_id, facts)
    missing = broker.sink_marks.missing([marked])
    if missing:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, missing)
    place(message, facts.delay_level_max)
    appended = facts.store.append(message, now_ms)
    if appended.status is not _PUT_OK:
        return _refuse_put(request, broker, appended)
    broker.sink_marks.stored(message)
    _count_put(facts, message.topic, 1, appended)
    return _answer_marked(request, [message], [None], queue_id, facts)


def _send_marked_batch(request: RemotingCommand, messages: list[MessageExt], broker: BrokerState,
                       now_ms: int) -> Outcome:
    """Store those messages of a batch that were not stored before, all of them or none."""
    facts = broker.send_facts
    marks = broker.sink_marks
    try:
        marked = sequences_of_batch([message.properties for message in messages])
    except MessageIllegal as error:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, str(error))
    seen = [marks.seen(*each) for each in marked]
    unseen = [message for message, mark in zip(messages, seen, strict=True) if mark is None]
    missing = marks.missing([each for each, mark in zip(marked, seen, strict=True) if mark is None])
    if missing:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, missing)
    if unseen:
        appended = facts.store.append_batch(unseen, now_ms)
        if appended.status is not _PUT_OK:
            return _refuse_put(request, broker, appended)
        for message in unseen:
            marks.stored(message)
        _count_put(facts, messages[0].topic, len(unseen), appended)
    return _answer_marked(request, messages, seen, messages[0].queue_id, facts)


def _send_run(request: RemotingCommand, header: SendMessageRequest, messages: list[MessageExt], broker: BrokerState,
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
    sink, first = marked
    gap = marks.gap_before(sink, first)
    if gap:
        return refuse_send(request, facts, ResponseCode.SERVICE_NOT_AVAILABLE, gap)
    known = marks.rows_known(sink, first, len(messages))
    mark = marks.mark_of(sink) if known else None
    if mark is not None and mark.sequence == Sequence(first.batch, first.row + known - 1):
        stored = facts.store.look_message(mark.physical_offset)
        if stored is not None and stored.body != messages[known - 1].body:
            return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                               f"row {mark.sequence} of {sink} was stored with another body: rows that are sent again "
                               "come in their first order (after a shuffle Spark's sink keeps it by option dedupKey)")
    for row, message in enumerate(messages, first.row):
        message.properties[names.SEQUENCE] = f"{first.batch}/{row}"
    if known < len(messages):
        appended = facts.store.append_batch(messages[known:] if known else messages, now_ms)
        if appended.status is not _PUT_OK:
            return _refuse_put(request, broker, appended)
        marks.stored(messages[len(messages) - 1])
        _count_put(facts, header.topic, len(messages) - known, appended)
        mark = None
    outcome = _answer_marked(request, messages[known:known + 1] or messages[:1], [mark], messages[0].queue_id, facts)
    if mark is not None and isinstance(outcome, Reply | ReplyWhenDurable):
        outcome.response.ext = {**outcome.response.ext, MARK: str(mark.sequence)}
    return outcome


def _answer_marked(request: RemotingCommand, messages: list[MessageExt], seen: list[SinkMark | None], queue_id: int,
                   facts: SendFacts) -> Outcome:
    """Answer with the places of the messages; `seen` has the marks of those that were stored before."""
    if request.flag & _ONEWAY:
        return NO_REPLY
    ids = [_offset_message_id(facts, message.store_host, (mark or message).physical_offset)
           for message, mark in zip(messages, seen, strict=True)]
    places = [message for message, mark in zip(messages, seen, strict=True) if mark is None]
    first = places[0] if places else seen[0]
    assert first is not None
    unique_key = messages[0].message_id if len(messages) == 1 else None
    response = send_message_response(request, _SUCCESS, ",".join(ids), queue_id if places else first.queue_id,
                                     first.queue_offset, unique_key, facts.region_id, facts.trace_on)
    if not places:
        response.ext = {**response.ext, DUPLICATE: "true"}
    if facts.sync_flush and messages[0].properties.get(_WAIT) != "false":
        return ReplyWhenDurable(response, facts.store.commit_log_max_offset())
    return Reply(response)


def _count_put(facts: SendFacts, topic: str, count: int, appended: Appended) -> None:
    counted = facts.topics[topic]
    counted.put_nums += count
    counted.put_size += appended.end - appended.start


def _make_half(request: RemotingCommand, message: MessageExt, facts: SendFacts) -> Reply | None:
    if facts.rejects_transactions:
        return refuse_send(request, facts, ResponseCode.NO_PERMISSION,
                           "this broker takes no transactional messages (rejectTransactionMessage)")
    if not message.properties.get(names.PRODUCER_GROUP):
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "a transactional message names its producer group (property PGROUP)")
    if names.SINK in message.properties:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "a transactional message has no SINK: it may still be rolled back")
    place_half(message)
    return None


def _batch_fault(header: SendMessageRequest) -> str | None:
    if len(header.topic) > topics.TOPIC_SIZE_MAX:
        return f"message topic length over {topics.TOPIC_SIZE_MAX}, too long for a batch"
    if topics.is_retry_topic(header.topic):
        return "batch request does not support retry group"
    if not _NEVER_IN_BATCH.isdisjoint(header.properties) or header.sys_flag & _TRANSACTION_MASK:
        return "a batch can be neither delayed nor transactional"
    return None


def _is_exhausted(request: RemotingCommand, header: SendMessageRequest, broker: BrokerState, now_ms: int) -> bool:
    """Whether a retry message that a client sends itself has had its tries, so that it belongs to the dead letters.

    A group that consumes in order tries again by itself; what it sends to its retry topic has had enough.
    """
    group = header.topic[len(topics.RETRY_PREFIX):]
    settings = broker.subscription_groups.find(group, now_ms)
    limit = settings.retry_max_times if settings is not None else 0
    if request.version >= RETRY_LIMIT_VERSION_MIN and header.max_reconsume_times != MAX_RECONSUME_TIMES_ABSENT:
        limit = header.max_reconsume_times
    return header.reconsume_times > limit or broker.queue_locks.is_any_held(group, now_ms)


def _bury(message: MessageExt, broker: BrokerState, now_ms: int) -> None:
    group = message.topic[len(topics.RETRY_PREFIX):]
    broker.topics.create_if_absent(topics.dlq_topic(group), 1, now_ms)
    place_dead_letter(message, group)


# --- afterwards ------------------------------------------------------------------------------------------------------


def refuse_send(request: RemotingCommand, facts: SendFacts, code: int, remark: str) -> Reply:
    """Answers to sends carry region and trace switch in any case: the Java client reads them unasked.

    When the message is a writer's, no later one of that writer is taken before it was.
    """
    for properties in _sent_properties(request):
        facts.sink_marks.refused(properties)
    ext = {names.MSG_REGION: facts.stamp[names.MSG_REGION], names.TRACE_ON: facts.stamp[names.TRACE_ON]}
    return refuse(request, code, remark, ext)


def _sent_properties(request: RemotingCommand) -> list[dict[str, str]]:
    """The properties of the messages that a request sends; none of what cannot be read."""
    try:
        header = decode_send_message_request(request)
        return [each.properties for each in message_batch.decode(request.body)] if header.batch else [header.properties]
    except HeaderError:
        return []


def _refuse_size(request: RemotingCommand, facts: SendFacts, size: int) -> Reply:
    return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                       f"the message is illegal: its body has {size} bytes, maxMessageSize is {facts.max_message_size}")


def _refuse_put(request: RemotingCommand, broker: BrokerState, appended: Appended) -> Reply:
    broker.statistics.put_failed_times += 1
    code = _CODES.get(appended.status, ResponseCode.SYSTEM_ERROR)
    remark = appended.remark or f"the store answers {PutStatus(appended.status).name}"
    return refuse_send(request, broker.send_facts, code, remark)
