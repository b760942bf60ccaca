"""Finds the message of a question, and its copies: a message never moves, each step of it is one more record.

All copies have the unique key of the message. A message without one, from a foreign client, has no copies that can be
found.
"""

from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from regulus.client.administration.admin import Admin
from regulus.client.connecting.client_instance import now_ms
from regulus.client.core.unique_key_time import made_ms
from regulus.diagnosis.asking import Questions, all_of, is_denial
from regulus.diagnosis.facts import BrokerFacts, Flight, MessageFacts, Question
from regulus.errors import ClientError, CorruptRecord, HeaderError, NoRoute, RecordError
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_id import host_text, offset_message_id, parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.receipt_handle import retry_topic_v1, retry_topic_v2
from regulus.model.topics import (
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    dlq_topic,
    retry_topic,
)
from regulus.record import pop_record
from regulus.wire.codes import ResponseCode

T = TypeVar("T")

PULLED_AT_ONCE = 32
_NOT_THERE = (ResponseCode.NO_MESSAGE, ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST,
              ResponseCode.SYSTEM_ERROR)
"""How brokers answer that a message or topic is not there."""
RECORDS_READ_MAX = 1_024
"""Op messages after a half message, and records of pops, that are read to find those of the message."""


async def topic_of(admin: Admin, questions: Questions, question: Question) -> str:
    """The topic of a message that is named by its offset id alone; empty when the id is not one."""
    if not question.message_id:
        return ""
    found = await _by_offset_id(admin, questions, question.message_id, None)
    return "" if found is None else home_of(found)


def home_of(message: MessageExt) -> str:
    """The topic to which the message was sent, of any of its copies."""
    if names.RETRY_TOPIC in message.properties:
        return message.properties[names.RETRY_TOPIC]
    if message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC):
        return message.properties.get(names.REAL_TOPIC, message.topic)
    return message.properties.get(names.DLQ_ORIGIN_TOPIC, message.topic)


async def find_message(admin: Admin, questions: Questions, question: Question, group: str, topics: Sequence[str],
                       brokers: Sequence[BrokerFacts]) -> MessageFacts:
    """The message in the first of `topics` that has it."""
    facts = MessageFacts(text=question.message_text, searched=tuple(topics))
    first: MessageExt | None = None
    for topic in topics:
        first = await _named(admin, questions, question, topic, brokers)
        if first is not None:
            break
    key = first.message_id if first is not None else question.message_id
    homes = [home_of(first)] if first is not None else topics
    found = [await _copies(admin, questions, key, home, group) for home in homes]
    copies = _ordered([*([] if first is None else [first]), *(each for part in found for each in part)])
    if not copies:
        return replace(facts, gone=await _gone(admin, questions, question, topics[-1], brokers))
    topic = home_of(copies[0])
    originals = [each for each in copies if each.topic == topic]
    original = first if first in originals else originals[0] if originals else None
    queue = MessageQueue(topic, _broker_name(original or copies[0], question, brokers),
                         original.queue_id if original is not None else -1)
    retries = {each.physical_offset: MessageQueue(each.topic, _broker_name(each, question, brokers), each.queue_id)
               for each in copies if each.topic in _retry_topics(group, topic)}
    offsets = {each: await questions.ask(f"the offset of {group} in {each.topic}", admin.group_offset(group, each))
               for each in set(retries.values())}
    return replace(facts, original=original, queue=queue, copies=tuple(copies), retry_queues=retries,
                   retry_offsets=offsets, half_ended=await _half_ended(admin, questions, copies, queue.broker_name),
                   flight=await _flight(admin, questions, group, [each for each in copies if each is original
                                                                  or each.physical_offset in retries], queue))


async def _named(admin: Admin, questions: Questions, question: Question, topic: str,
                 brokers: Sequence[BrokerFacts]) -> MessageExt | None:
    """The record that the question names; None when there is none."""
    if question.queue_offset >= 0:
        queue = MessageQueue(topic, question.broker_name, question.queue_id)
        return await _quietly(questions, f"the message {question.message_text}",
                              admin.message_at(queue, question.queue_offset))
    if question.key:
        found = await _quietly(questions, f"messages with key {question.key}",
                               admin.messages_by_key(topic, question.key))
        return found[-1] if found else None
    by_id = await _by_offset_id(admin, questions, question.message_id, {each.address for each in brokers})
    if by_id is not None:
        return by_id
    found = await _quietly(questions, f"messages with unique key {question.message_id}",
                           admin.messages_by_unique_key(topic, question.message_id))
    return found[0] if found else None


async def _by_offset_id(admin: Admin, questions: Questions, message_id: str,
                        addresses: set[str] | None) -> MessageExt | None:
    """The record with this offset id. A unique key may look like one and name any address, so only known addresses are
    asked; with None, those of the cluster."""
    try:
        host, _ = parse_offset_message_id(message_id)
    except ValueError:
        return None
    if addresses is None:
        cluster = await questions.ask("which brokers there are", admin.cluster_info())
        addresses = {address for data in (cluster.broker_addr_table.values() if cluster else ())
                     for address in data.broker_addrs.values()}
    if host_text(host) not in addresses:
        return None
    return await _quietly(questions, f"the record {message_id}", admin.message_by_offset_id(message_id))


async def _copies(admin: Admin, questions: Questions, unique_key: str, topic: str, group: str) -> list[MessageExt]:
    if not unique_key:
        return []
    places = (topic, SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC,
              *_retry_topics(group, topic), dlq_topic(group))
    found = await all_of(_quietly(questions, f"copies of the message in {place}",
                                  admin.messages_by_unique_key(place, unique_key)) for place in places)
    wanted = {topic, *_retry_topics(group, topic)}
    return [each for part in found for each in part or ()
            if home_of(each) == topic and each.properties.get(names.REAL_TOPIC, topic) in wanted]


def _retry_topics(group: str, topic: str) -> tuple[str, ...]:
    """Where copies for one more try are: of consumers that pull, and of those that pop."""
    return retry_topic(group), retry_topic_v1(topic, group), retry_topic_v2(topic, group)


def _ordered(copies: Iterable[MessageExt]) -> list[MessageExt]:
    """Each record once, oldest first."""
    once = {(each.store_host, each.physical_offset): each for each in copies}
    return sorted(once.values(), key=lambda each: (each.store_timestamp, each.physical_offset))


def _broker_name(message: MessageExt, question: Question, brokers: Sequence[BrokerFacts]) -> str:
    if question.broker_name:
        return question.broker_name
    address = host_text(message.store_host)
    by_address = next((each.name for each in brokers if each.address == address), "")
    return by_address or (brokers[0].name if brokers else "")


async def _quietly(questions: Questions, what: str, answer: Awaitable[T]) -> T | None:
    """The answer. That there is no such message, topic or record is an answer, too, and is not noted."""
    try:
        return await questions.answer(answer)
    except NoRoute:
        return None
    except (ClientError, HeaderError, RecordError) as error:
        code = getattr(error, "code", None)
        if is_denial(error) or code not in _NOT_THERE:
            questions.note(what, error)
        return None


# --- what became of it -----------------------------------------------------------------------------------------------


async def _gone(admin: Admin, questions: Questions, question: Question, topic: str,
                brokers: Sequence[BrokerFacts]) -> str:
    """Why the message is not there any more, if it was stored; empty when it is not older than what is kept."""
    if question.queue_offset >= 0:
        queue = MessageQueue(topic, question.broker_name, question.queue_id)
        first = await _quietly(questions, f"the first offset of {queue}", admin.min_offset(queue))
        if first is not None and question.queue_offset < first:
            return f"the queue begins at offset {first} now"
        return ""
    with suppress(ValueError):
        host, physical_offset = parse_offset_message_id(question.message_id)
        for broker in brokers:
            begin = broker.state.get("commitLogMinOffset", "")
            if broker.address == host_text(host) and begin.isdecimal() and physical_offset < int(begin):
                return f"the log of {broker.text} begins at physical offset {begin} now"
    key_ms = made_ms(question.message_id, now_ms())
    # A log that still begins at 0 has lost nothing.
    kept = [int(text) for broker in brokers if broker.state.get("commitLogMinOffset", "0") != "0"
            and (text := broker.state.get("earliestMessageTimeStamp", "")).isdecimal()]
    if key_ms and kept and key_ms < min(kept):
        return "its key was made before the oldest message that the brokers still have was stored"
    return ""


async def _half_ended(admin: Admin, questions: Questions, copies: Sequence[MessageExt],
                      broker_name: str) -> bool | None:
    halves = {each.queue_offset for each in copies if each.topic == TRANS_HALF_TOPIC}
    if not halves:
        return None
    begin_ms = min(each.store_timestamp for each in copies if each.topic == TRANS_HALF_TOPIC)
    queue = MessageQueue(TRANS_OP_HALF_TOPIC, broker_name, 0)
    offset = await questions.ask("the op messages of transactions", admin.search_offset(queue, begin_ms))
    if offset is None:
        return None
    records = await _read(admin, questions, queue, offset)
    for message in records:
        named = {int(part) for part in message.body.decode("ascii", "replace").split(",") if part.strip().isdecimal()}
        if not halves.isdisjoint(named):
            return True
    return False if len(records) < RECORDS_READ_MAX else None


async def _flight(admin: Admin, questions: Questions, group: str, delivered: Sequence[MessageExt],
                  queue: MessageQueue) -> Flight | None:
    """The pop that has the newest of these records now, as the records of pops at the end of the timers' queue say."""
    if not delivered:
        return None
    newest = delivered[-1]
    place = (newest.topic, group, newest.queue_id)
    timers = MessageQueue(TIMER_TOPIC, queue.broker_name, 0)
    end = await _quietly(questions, "where the queue of timers ends", admin.max_offset(timers))
    if not end:
        return None
    flights: dict[tuple[object, ...], pop_record.PopCheckpoint] = {}
    records = await _read(admin, questions, timers, max(0, end - RECORDS_READ_MAX))
    if end > RECORDS_READ_MAX and records and records[0].store_timestamp > newest.store_timestamp:
        questions.note_cut(f"whether a member of {group} popped the message earlier", RECORDS_READ_MAX)
    for record in records:
        if not record.properties.get(names.REAL_TOPIC, "").startswith(REVIVE_TOPIC_PREFIX):
            continue
        ended = record.properties.get(names.TIMER_DEL_UNIQUE_KEY)
        try:
            if ended is not None:
                flights = {key: each for key, each in flights.items() if not ended.endswith(each.unique_key)}
            elif record.tags == pop_record.CK_TAG:
                checkpoint = pop_record.decode_checkpoint(record.body)
                if checkpoint.key[:3] == place and newest.queue_offset in checkpoint.offsets:
                    flights[checkpoint.key] = checkpoint
            else:
                acks = pop_record.decode_acks(record.body)
                if newest.queue_offset in acks.offsets:
                    flights.pop(acks.key, None)
        except CorruptRecord:
            continue
    latest = max(flights.values(), key=lambda each: each.revive_time, default=None)
    if latest is None or latest.revive_time <= now_ms():
        return None
    return Flight(popped_ms=latest.key.pop_time, visible_ms=latest.revive_time)


async def _read(admin: Admin, questions: Questions, queue: MessageQueue, offset: int) -> list[MessageExt]:
    """Messages from an offset on, RECORDS_READ_MAX at most."""
    messages: list[MessageExt] = []
    while len(messages) < RECORDS_READ_MAX:
        pulled = await _quietly(questions, f"messages of {queue.topic}", admin.pull(queue, offset, PULLED_AT_ONCE))
        if pulled is None or not pulled.messages:
            break
        messages += pulled.messages
        offset = pulled.next_offset
    return messages


def id_text(message: MessageExt) -> str:
    return message.message_id or offset_message_id(message.store_host, message.physical_offset)
