"""A producer stores messages: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE.

The broker's hot path. Facts about a topic are computed beforehand, in its `TopicFacts`. An ordinary send takes the fast
path, `_send_straight` or `send_straight_batch`, from the received bytes to the stored ones. Any other (a new topic, a
retry topic, properties that change where a message goes) leaves the fast path before it changes anything.

Source: SendMessageProcessor, AbstractSendMessageProcessor.
"""

from regulus.broker.dead_letter_notes import note_dead_letter
from regulus.broker.handlers.send_refusals import refuse_put, refuse_send, refuse_size
from regulus.broker.handlers.send_timers import attach_recall_handle, refuse_timer
from regulus.broker.handlers.sink_sends import send_marked, send_run
from regulus.broker.handlers.straight_batches import answer_batch, send_straight_batch
from regulus.broker.outcome import NO_REPLY, Outcome, Reply, plain_reply, when_saved
from regulus.broker.placement import delay_level, place_dead_letter, place_half
from regulus.broker.send_facts import NEVER_IN_BATCH, UNUSUAL_PROPERTIES, SendFacts, TopicFacts
from regulus.broker.state import BrokerState
from regulus.broker.topics import UNIT_FLAG
from regulus.model import message_properties as names
from regulus.model import priority, sys_flag, topics
from regulus.model.java_hash import in_map_order
from regulus.model.message import MessageExt, StraightMessage
from regulus.model.message_type import NORMAL, message_type
from regulus.model.peer import Peer
from regulus.model.store_result import PutStatus
from regulus.record.batch_unit import COUNT_MAX
from regulus.wire import message_batch
from regulus.wire.codes import ResponseCode
from regulus.wire.headers.send_message import (
    MAX_RECONSUME_TIMES_ABSENT,
    SendMessageRequest,
    SendMessageResponse,
    decode_send_message_request,
    send_message_response,
)
from regulus.wire.remoting_command import ONEWAY_FLAG, ROCKETMQ, RemotingCommand

RETRY_LIMIT_VERSION_MIN = 121
"""Older clients use maxReconsumeTimes for something else. Source: MQVersion.Version.V3_4_9."""

MARKED_IN_BATCH = ("a message of a batch must not have SINK: send a sink's rows one by one, or as a run with SINK in "
                   "the request")

LITE = (f"the message has a lite topic ({names.LITE_TOPIC}): lite topics are not served by this broker, and no "
        "consumer would get it; send to a topic of its own instead")

NO_INNER_BATCH = ("a sender must not mark a message as an inner batch (INNER_NUM, or its bits of the sysFlag): "
                  "the broker marks each batch in a topic of queue.type=BatchCQ")

_LITE_ALONE = {names.LITE_TOPIC}
_NEITHER = "{} can be neither delayed nor transactional"
_NEVER_IN_BATCH = NEVER_IN_BATCH
_UNUSUAL_PROPERTIES = UNUSUAL_PROPERTIES
_TIMER_TOPIC = topics.TIMER_TOPIC
_PRIORITY = names.PRIORITY
_UNIQUE_KEY = names.UNIQUE_KEY
_WAIT = names.WAIT_STORE_MSG_OK
_SHARDING_KEY = names.SHARDING_KEY
_PROPERTY_END = names.PROPERTY_SEPARATOR.encode()
_TRANSACTION_MASK = sys_flag.TRANSACTION_MASK
_INNER_BATCH = sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH
_UNUSUAL_FLAGS = sys_flag.TRANSACTION_MASK | _INNER_BATCH
_ONEWAY = ONEWAY_FLAG
_ROCKETMQ = ROCKETMQ
_SUCCESS = int(ResponseCode.SUCCESS)
_PUT_OK = PutStatus.PUT_OK


def handle_send_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    facts = broker.send_facts
    if facts.straight_sends.read(request):
        outcome = _send_straight(request, facts.straight_sends.message, facts, peer, broker, now_ms)
        if outcome is not None:
            return outcome
    header = decode_send_message_request(request)
    topic = facts.topics.get(header.topic)
    if topic is None or not topic.is_straight or facts.is_restricted:
        return _send_with_care(request, header, facts, peer, broker, now_ms)
    return _send_to(request, header, topic, facts, peer, broker, now_ms)


def _send_with_care(request: RemotingCommand, header: SendMessageRequest, facts: SendFacts, peer: Peer,
                    broker: BrokerState, now_ms: int) -> Outcome:
    """Send to a topic that is new or special; the answer waits until the topic is saved."""
    settings = broker.settings
    settings.awaited = 0
    outcome: Outcome | None = _refusal(request, header, broker, now_ms)
    if outcome is None:
        outcome = _send_to(request, header, facts.topics[header.topic], facts, peer, broker, now_ms)
    return when_saved(outcome, settings.awaited) if settings.awaited else outcome


def _send_to(request: RemotingCommand, header: SendMessageRequest, topic: TopicFacts, facts: SendFacts, peer: Peer,
             broker: BrokerState, now_ms: int) -> Outcome:
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


def _send_straight(request: RemotingCommand, message: StraightMessage, facts: SendFacts, peer: Peer,
                   broker: BrokerState, now_ms: int) -> Outcome | None:
    """Store an ordinary message. None when it is unusual or must be refused; then nothing was changed."""
    topic = facts.topics.get(message.topic)
    if topic is None or not topic.is_straight or facts.is_restricted or message.sys_flag & _TRANSACTION_MASK \
            or not 0 <= message.queue_id < topic.queue_nums_max \
            or message.body_end - message.body_start > facts.max_message_size:
        return None
    message.sys_flag |= topic.sys_flag
    message.born_host = peer.remote
    message.store_host = facts.store_host or peer.local
    appended = facts.store.append(message, now_ms)
    if appended.status is not _PUT_OK:
        return None
    counts = topic.fifo if message.is_ordered else topic.normal
    counts.count(1, appended)
    if request.flag & _ONEWAY:
        return NO_REPLY
    if request.serialize_type == _ROCKETMQ:
        binary = facts.binary_answers(message.store_host)
        frame = binary.frame(message, request.opaque, appended.start, appended.queue_offset)
    else:
        answers = facts.answers(message.store_host)
        frame = answers.frame(message, request.opaque, appended.start, appended.queue_offset)
    return plain_reply(frame, facts.durable_at(appended.end, message.waits))


def _send(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts, facts: SendFacts,
          peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = request.body
    if len(body) > facts.max_message_size:
        return refuse_size(request, facts, len(body))
    properties = header.properties
    is_unusual = not _UNUSUAL_PROPERTIES.isdisjoint(properties)
    if is_unusual and _PRIORITY in properties and not topic.is_retry:
        queue_id = _queue_of_priority(properties, topic, queue_id)
    unique_key = properties.get(_UNIQUE_KEY)
    if unique_key is None:
        unique_key = properties[_UNIQUE_KEY] = broker.make_unique_key(now_ms)
    for name, value in facts.stamp.items():
        properties[name] = value
    store_host = facts.store_host or peer.local
    message = _message(header, topic, body, properties, queue_id, header.flag, peer.remote, store_host)
    if is_unusual or message.sys_flag & _UNUSUAL_FLAGS:
        outcome = _refuse_unusual(request, message, facts, now_ms) \
            or send_marked(request, message, topic, broker, now_ms) or _refuse_lite(request, message, topic, facts)
        if outcome is not None:
            return outcome
    is_dead_letter = topic.is_retry and _is_exhausted(request, header, broker, now_ms)
    if is_dead_letter:
        _bury(message, broker, now_ms)
    kind = message_type(properties) if is_unusual or _SHARDING_KEY in properties else NORMAL
    storing = broker.storing
    appended = storing.store(message, now_ms, kind)
    if appended.status is not _PUT_OK:
        return refuse_put(request, facts, appended)
    if is_dead_letter:
        group = header.topic[len(topics.RETRY_PREFIX):]
        note_dead_letter(broker.dead_letters, message, group)
        broker.statistics.ends.note_dead_letter(group, properties.get(names.RETRY_TOPIC, header.topic))
    if request.flag & _ONEWAY:
        return NO_REPLY
    response = send_message_response(request, _SUCCESS, facts.offset_message_id(store_host, appended.start),
                                     queue_id, appended.queue_offset, unique_key, facts.region_id, facts.trace_on)
    if is_unusual and message.topic == _TIMER_TOPIC:
        attach_recall_handle(response, message, broker.config.broker_name)
    waits = is_dead_letter or properties.get(_WAIT) != "false"
    return plain_reply(response, facts.durable_at(appended.end, waits))


def _send_batch(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts,
                facts: SendFacts, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Store all messages of a batch next to each other, or none of them."""
    fault = _batch_fault(header)
    if fault is not None:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, fault)
    if request.body_size > facts.max_message_size:
        return refuse_size(request, facts, request.body_size)
    if topic.keeps_batches and _UNIQUE_KEY in header.properties and names.SINK not in header.properties:
        return _send_inner_batch(request, header, queue_id, topic, facts, peer, broker, now_ms)
    if names.INNER_NUM in header.properties:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, NO_INNER_BATCH)
    outcome = send_straight_batch(request, header, queue_id, topic, peer, broker, now_ms)
    if outcome is not None:
        return outcome
    store_host = facts.store_host or peer.local
    is_run = names.SINK in header.properties
    behind = {**header.properties, **facts.stamp}
    text_behind = names.format({name: behind[name] for name in in_map_order(behind)}).encode("utf-8", "replace")
    messages = []
    for flag, body, properties, text in message_batch.decode(request.body):
        if not _NEVER_IN_BATCH.isdisjoint(properties):
            fault = _never_in_batch(properties, "a message of a batch", is_run)
            if fault is not None:
                return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, fault)
        if names.SINK in properties and not is_run:
            return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, MARKED_IN_BATCH)
        own_key = properties.get(_UNIQUE_KEY)
        properties.update(behind)
        if is_run:
            properties[_UNIQUE_KEY] = own_key or broker.make_unique_key(now_ms)
        message = _message(header, topic, body, properties, queue_id, flag, peer.remote, store_host)
        if not is_run:
            message.properties_text = _ended(text) + text_behind
        messages.append(message)
    if not messages:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, "the batch has no message")
    if is_run:
        return send_run(request, header, messages, broker, now_ms)
    appended = broker.storing.append_batch(messages, now_ms, message_type(header.properties))
    if appended.status is not _PUT_OK:
        return refuse_put(request, facts, appended)
    return answer_batch(request, appended, queue_id, store_host, header.properties.get(_WAIT) != "false", facts)


def _send_inner_batch(request: RemotingCommand, header: SendMessageRequest, queue_id: int, topic: TopicFacts,
                      facts: SendFacts, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Store the batch as it came, in one record. The answer cannot name places of its messages, and contains the key of
    the batch."""
    inner = message_batch.decode(request.body)
    for each in inner:
        fault = _never_in_batch(each.properties, "a message of a batch", False)
        if fault is not None or names.SINK in each.properties:
            return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, fault or MARKED_IN_BATCH)
    if not 0 < len(inner) <= COUNT_MAX:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           f"the batch has {len(inner)} messages, and one record has 1 to {COUNT_MAX}")
    # Properties keep this place for the offset of the first message, which the store fills in.
    said = {**header.properties, **facts.stamp, names.INNER_NUM: str(len(inner)), names.INNER_BASE: "0"}
    properties = {name: said[name] for name in in_map_order(said)}
    store_host = facts.store_host or peer.local
    message = _message(header, topic, request.body, properties, queue_id, header.flag, peer.remote, store_host)
    message.sys_flag |= _INNER_BATCH
    appended = broker.storing.append(message, now_ms, len(inner), message_type(header.properties))
    if appended.status is not _PUT_OK:
        return refuse_put(request, facts, appended)
    key = header.properties[_UNIQUE_KEY]
    response = SendMessageResponse(
        facts.offset_message_id(store_host, appended.start), queue_id, appended.queue_offset, key, facts.region_id,
        facts.trace_on, batch_uniq_id=key)
    waits = header.properties.get(_WAIT) != "false"
    return plain_reply(request.response(_SUCCESS, None, response.ext()), facts.durable_at(appended.end, waits))


def _ended(text: bytes) -> bytes:
    """A message's properties, with the separator that clients leave out at the end."""
    return text + _PROPERTY_END if text and not text.endswith(_PROPERTY_END) else text


def _message(header: SendMessageRequest, topic: TopicFacts, body: bytes, properties: dict[str, str], queue_id: int,
             flag: int, born_host: bytes, store_host: bytes) -> MessageExt:
    # Field by field: the constructor would cost a good part of the time to store the message.
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
    message.properties_text = b""
    return message


# --- before storing --------------------------------------------------------------------------------------------------


def _refusal(request: RemotingCommand, header: SendMessageRequest, broker: BrokerState, now_ms: int) -> Reply | None:
    """The refusal if the topic does not accept messages now; otherwise None. Creates the topic if necessary."""
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
    if not topics.is_sendable(name):
        return refuse_send(request, broker.send_facts, ResponseCode.NO_PERMISSION,
                           f"Sending message to topic[{name}] is forbidden.")
    unsaved = broker.topics.unsaved
    if name in unsaved:
        if broker.settings.fault:
            return refuse_send(request, broker.send_facts, ResponseCode.SYSTEM_ERROR,
                               f"the topic[{name}] is not saved yet: {broker.settings.fault}")
        broker.settings.use(unsaved, name)
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


def _queue_of_priority(properties: dict[str, str], topic: TopicFacts, queue_id: int) -> int:
    """The queue for the message's priority, whatever queue its sender asked for.

    A message without priority keeps the queue. A delayed, transactional or ordered message loses its priority here.
    """
    number = priority.of(properties)
    if number == priority.NONE:
        return queue_id
    if priority.rival(properties):
        del properties[_PRIORITY]
        return queue_id
    return priority.queue_of(number, topic.write_queue_nums)


def _refuse_unusual(request: RemotingCommand, message: MessageExt, facts: SendFacts, now_ms: int) -> Reply | None:
    """The refusal of a message with unusual properties; None if it can be stored.

    Removes an old pop receipt, and moves the message of an open transaction to the half topic.
    """
    properties = message.properties
    if message.sys_flag & _INNER_BATCH or names.INNER_NUM in properties:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, NO_INNER_BATCH)
    properties.pop(names.POP_CK, None)
    if message.reconsume_times > 0 and delay_level(properties) > 0:
        message.sys_flag &= ~_TRANSACTION_MASK      # a retry of a message whose transaction was committed
    elif properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        return refuse_timer(request, message, facts, now_ms) or _make_half(request, message, facts)
    elif message.sys_flag & _TRANSACTION_MASK:
        return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL,
                           "the sysFlag says that a transaction is open, but the property TRAN_MSG does not")
    return refuse_timer(request, message, facts, now_ms)


def _refuse_lite(request: RemotingCommand, message: MessageExt, topic: TopicFacts, facts: SendFacts) -> Reply | None:
    """Refuse a message of a lite topic, unless a sink sent it or a consumer retries it."""
    if topic.is_retry or names.LITE_TOPIC not in message.properties:
        return None
    return refuse_send(request, facts, ResponseCode.MESSAGE_ILLEGAL, LITE)


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
    if header.sys_flag & _INNER_BATCH:
        return NO_INNER_BATCH
    if header.sys_flag & _TRANSACTION_MASK:
        return _NEITHER.format("a batch")
    return _never_in_batch(header.properties, "a batch", names.SINK in header.properties)


def _never_in_batch(properties: dict[str, str], what: str, is_run: bool) -> str | None:
    """Why a batch may not have such properties; None if it may. A sink's run may have a lite topic, because it restores
    messages that were stored earlier."""
    found = _NEVER_IN_BATCH.intersection(properties)
    if found <= _LITE_ALONE:
        return LITE if found and not is_run else None
    return _NEITHER.format(what)


def _is_exhausted(request: RemotingCommand, header: SendMessageRequest, broker: BrokerState, now_ms: int) -> bool:
    """Whether a retry message that a client sends has no attempts left, so that it goes to the dead letters.

    A group that consumes in order retries by itself; what it sends to its retry topic has no attempts left.
    """
    group = header.topic[len(topics.RETRY_PREFIX):]
    settings = broker.subscription_groups.find(group, now_ms)
    limit = settings.retry_max_times if settings is not None else 0
    if request.version >= RETRY_LIMIT_VERSION_MIN and header.max_reconsume_times != MAX_RECONSUME_TIMES_ABSENT:
        limit = header.max_reconsume_times
    return header.reconsume_times > limit or broker.queue_locks.is_any_held(group, broker.steady_ms)


def _bury(message: MessageExt, broker: BrokerState, now_ms: int) -> None:
    group = message.topic[len(topics.RETRY_PREFIX):]
    broker.topics.create_if_absent(topics.dlq_topic(group), 1, now_ms)
    place_dead_letter(message, group)
