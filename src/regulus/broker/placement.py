"""Decides which topic stores a message. A message never moves: delay, retry and dead letter append a copy elsewhere.

    from                        to                          what is noted in the properties
    any topic, DELAY > 0        SCHEDULE_TOPIC_XXXX         REAL_TOPIC, REAL_QID; DELAY stays
    any topic, TIMER_...        rmq_sys_wheel_timer         REAL_TOPIC, REAL_QID, TIMER_OUT_MS
    rmq_sys_wheel_timer, due    REAL_TOPIC, REAL_QID        TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS
    the same, not due yet       rmq_sys_wheel_timer again   these and TIMER_ROLL_TIMES
    any topic, TRAN_MSG         RMQ_SYS_TRANS_HALF_TOPIC    REAL_TOPIC, REAL_QID, __transactionId__
    a half, committed           REAL_TOPIC, REAL_QID        nothing is removed; a DELAY begins only now
    a half, producer asked      the half topic again        TRANSACTION_CHECK_TIMES, TRAN_PREPARED_QUEUE_OFFSET
    a half, given up            TRANS_CHECK_MAX_TIME_TOPIC  nothing
    SCHEDULE_TOPIC_XXXX, due    REAL_TOPIC, REAL_QID        nothing is removed, so DELAY is still visible
    popped, not acknowledged    %RETRY%group_topic          1ST_POP_TIME
    a failed consumption        %RETRY%group, delayed       RETRY_TOPIC and ORIGIN_MESSAGE_ID of the first copy
    the last failure            %DLQ%group                  the same, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID

A new message is changed in place before it is appended. A stored one is copied, because consumers still read it.

Source: HookUtils.handleScheduleMessage, ScheduleMessageService.messageTimeUp, AbstractSendMessageProcessor,
TransactionalMessageBridge, EndTransactionProcessor.endMessageTransaction.
"""

from regulus.model import message_properties as names
from regulus.model import sys_flag, topics
from regulus.model.message import MessageExt
from regulus.model.message_id import offset_message_id

_TIMER_PROPERTIES = names.TIMER_PROPERTIES
_HALF_TOPIC = topics.TRANS_HALF_TOPIC
_HALF_TOPICS = (topics.TRANS_HALF_TOPIC, topics.TRANS_OP_HALF_TOPIC)


def delay_level(properties: dict[str, str]) -> int:
    """The message's delay level; 0 without a delay, or if the property is not a number."""
    text = properties.get(names.DELAY_TIME_LEVEL)
    return int(text) if text is not None and len(text) < 10 and text.isascii() and text.isdigit() else 0


def real_queue_id(properties: dict[str, str]) -> int:
    """The queue id that the message had before it was parked; -1 if the property is missing or invalid."""
    text = properties.get(names.REAL_QUEUE_ID, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1
    return number if number <= topics.QUEUE_ID_MAX else -1


def deliver_ms(properties: dict[str, str], now_ms: int) -> int:
    """When a message with timer properties is due, in ms since 1970, by the first of them that it has. 0 if it has
    none, -1 if the first one is not a number of ms or s."""
    for name, unit_ms, begin_ms in ((names.TIMER_DELAY_SEC, 1000, now_ms), (names.TIMER_DELAY_MS, 1, now_ms),
                                    (names.TIMER_DELIVER_MS, 1, 0)):
        text = properties.get(name)
        if text is not None:
            digits = text[1:] if text.startswith("-") else text
            if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
                return -1
            return max(1, begin_ms + int(text) * unit_ms)
    return 0


def place(message: MessageExt, delay_level_max: int, timer_precision_ms: int, now_ms: int) -> None:
    """Move a message that has to wait to the schedule topic or the topic of timers; other messages and halves stay.

    `timer_precision_ms` 0: timers are off, and timer properties are ignored.
    """
    properties = message.properties
    if message.topic == _HALF_TOPIC:
        return
    level = 0
    if names.DELAY_TIME_LEVEL in properties:
        level = min(delay_level(properties), delay_level_max)
    if level > 0:
        _take_timer_away(properties)
        _park(message, topics.SCHEDULE_TOPIC, level - 1)
    elif timer_precision_ms and names.TIMER_OUT_MS not in properties and not _TIMER_PROPERTIES.isdisjoint(properties):
        due_ms = deliver_ms(properties, now_ms)
        if due_ms > now_ms:
            # The last tick before the message is due.
            properties[names.TIMER_OUT_MS] = str((due_ms - 1) // timer_precision_ms * timer_precision_ms)
            _park(message, topics.TIMER_TOPIC, 0)


def _take_timer_away(properties: dict[str, str]) -> None:
    for name in _TIMER_PROPERTIES:
        properties.pop(name, None)


def _park(message: MessageExt, topic: str, queue_id: int) -> None:
    message.properties[names.REAL_TOPIC] = message.topic
    message.properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = topic
    message.queue_id = queue_id


def place_half(message: MessageExt) -> None:
    """Move the message of an open transaction to the half topic, where no consumer reads it.

    Properties that identify the copies of a half are removed: a client may forward a message with the properties that
    it had, and two transactions would be taken for one.
    """
    properties = message.properties
    properties.pop(names.TRANSACTION_PREPARED_QUEUE_OFFSET, None)
    properties.pop(names.TRANSACTION_CHECK_TIMES, None)
    key = properties.get(names.UNIQUE_KEY)
    if key:
        properties[names.TRANSACTION_ID] = key
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.sys_flag &= ~sys_flag.TRANSACTION_MASK
    message.topic = _HALF_TOPIC
    message.queue_id = 0


def committed(half: MessageExt) -> MessageExt:
    """The copy that consumers see when a transaction is committed; the caller has to place it."""
    properties = half.properties
    message = _copy(half, properties.get(names.REAL_TOPIC, ""), max(0, real_queue_id(properties)), dict(properties),
                    half.reconsume_times, half.store_host)
    message.sys_flag = half.sys_flag & ~sys_flag.TRANSACTION_MASK | sys_flag.TRANSACTION_COMMIT
    message.prepared_transaction_offset = half.physical_offset
    return message


def half_again(half: MessageExt, checks: int, first_offset: int | None) -> MessageExt:
    """The copy at the end of the half queue; `first_offset` is the queue offset of the first copy in the chain."""
    properties = dict(half.properties)
    properties[names.TRANSACTION_CHECK_TIMES] = str(checks)
    if first_offset is None:
        properties.pop(names.TRANSACTION_PREPARED_QUEUE_OFFSET, None)
    else:
        properties[names.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(first_offset)
    return _copy(half, _HALF_TOPIC, 0, properties, half.reconsume_times, half.store_host)


def given_up(half: MessageExt) -> MessageExt:
    """The copy of a half for which no producer answered, kept for operators."""
    return _copy(half, topics.TRANS_CHECK_MAX_TIME_TOPIC, 0, dict(half.properties), half.reconsume_times,
                 half.store_host)


def place_dead_letter(message: MessageExt, group: str) -> None:
    """Move a retry message that a client sends to the dead letters of `group`."""
    properties = message.properties
    properties[names.DELAY_TIME_LEVEL] = "0"
    properties[names.DLQ_ORIGIN_TOPIC] = properties.get(names.RETRY_TOPIC, message.topic)
    origin = properties.get(names.ORIGIN_MESSAGE_ID) or properties.get(names.UNIQUE_KEY)
    if origin:
        properties[names.DLQ_ORIGIN_MESSAGE_ID] = origin
    message.topic = topics.dlq_topic(group)
    message.queue_id = 0


def when_due(parked: MessageExt) -> MessageExt | None:
    """The copy to append when a message's wait is over; None if its original topic is missing or may not be written."""
    properties = parked.properties
    topic = properties.get(names.REAL_TOPIC, "")
    queue_id = real_queue_id(properties)
    if topic in _HALF_TOPICS or not topics.is_storable(topic, queue_id):
        return None
    return _copy(parked, topic, queue_id, dict(properties), parked.reconsume_times, parked.store_host)


def when_time_came(waiting: MessageExt, entered_ms: int, now_ms: int) -> MessageExt | None:
    """Like `when_due`, for a message with a time of its own; notes when it was entered and when it left."""
    message = when_due(waiting)
    if message is not None:
        message.properties[names.TIMER_ENQUEUE_MS] = str(entered_ms)
        message.properties[names.TIMER_DEQUEUE_MS] = str(now_ms)
    return message


def put_back(waiting: MessageExt, entered_ms: int, now_ms: int) -> MessageExt:
    """The copy that continues to wait in the topic of timers."""
    properties = dict(waiting.properties)
    rolls = properties.get(names.TIMER_ROLL_TIMES, "")
    properties[names.TIMER_ENQUEUE_MS] = str(entered_ms)
    properties[names.TIMER_ROLL_TIMES] = str(int(rolls) + 1 if rolls.isascii() and rolls.isdigit() else 1)
    properties[names.TIMER_DEQUEUE_MS] = str(now_ms)
    return _copy(waiting, topics.TIMER_TOPIC, 0, properties, waiting.reconsume_times, waiting.store_host)


def parked_again(parked: MessageExt, level: int) -> MessageExt:
    """The copy that waits at `level` again, because its queue is damaged."""
    properties = {**parked.properties, names.DELAY_TIME_LEVEL: str(level)}
    return _copy(parked, topics.SCHEDULE_TOPIC, level - 1, properties, parked.reconsume_times, parked.store_host)


def retry_copy(failed: MessageExt, group: str, queue_id: int, level: int, store_host: bytes) -> MessageExt:
    """The copy for the next attempt after `level`; the caller has to place it, which parks it."""
    properties = _failed_properties(failed)
    properties.pop(names.FIRST_POP_TIME, None)      # or the copy would count as popped, see PoppedRetries
    properties[names.DELAY_TIME_LEVEL] = str(level)
    return _copy(failed, topics.retry_topic(group), queue_id, properties, failed.reconsume_times + 1, store_host)


def dead_letter_copy(failed: MessageExt, group: str, store_host: bytes) -> MessageExt:
    """The copy for the dead letters of `group`."""
    properties = _failed_properties(failed)
    properties[names.DELAY_TIME_LEVEL] = "0"
    properties[names.DLQ_ORIGIN_TOPIC] = properties[names.RETRY_TOPIC]
    properties[names.DLQ_ORIGIN_MESSAGE_ID] = properties[names.ORIGIN_MESSAGE_ID]
    return _copy(failed, topics.dlq_topic(group), 0, properties, failed.reconsume_times + 1, store_host)


def dead_letter_as_it_is(failed: MessageExt, group: str, store_host: bytes) -> MessageExt:
    """Like `dead_letter_copy`, for a message without room for more properties."""
    return _copy(failed, topics.dlq_topic(group), 0, dict(failed.properties), failed.reconsume_times + 1, store_host)


def _failed_properties(failed: MessageExt) -> dict[str, str]:
    """The properties of a failed copy, with the first copy's topic and id, which all later copies keep."""
    properties = dict(failed.properties)
    properties.setdefault(names.RETRY_TOPIC, failed.topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, offset_message_id(failed.store_host, failed.physical_offset))
    return properties


def _copy(message: MessageExt, topic: str, queue_id: int, properties: dict[str, str], reconsume_times: int,
          store_host: bytes) -> MessageExt:
    return MessageExt(topic, message.body, properties, queue_id, message.flag, message.sys_flag,
                      message.born_timestamp, message.born_host, store_host, reconsume_times)


def popped_again(message: MessageExt, retry_topic: str, pop_time: int, host: bytes, is_counted: bool) -> MessageExt:
    """The retry copy of a popped message that was not acknowledged.

    It counts as one more delivery, unless the message reached no client; that is counted in a property of its own.
    """
    properties = dict(message.properties)
    if message.reconsume_times == 0 or names.FIRST_POP_TIME not in properties:
        properties[names.FIRST_POP_TIME] = str(pop_time)
    if not is_counted:
        properties[names.GIVEN_BACK] = str(max(0, names.number(properties.get(names.GIVEN_BACK))) + 1)
    return MessageExt(retry_topic, message.body, properties, 0, message.flag, message.sys_flag, message.born_timestamp,
                      host, host, message.reconsume_times + is_counted)
