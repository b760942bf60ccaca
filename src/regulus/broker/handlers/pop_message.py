"""POP_MESSAGE: a consumer gets messages that are invisible to others for a time.

A pop is noted in the log before its answer is sent (`pop_flights`), and moves the group's offset. Messages that are not
acknowledged in time are copied to the group's retry topic for this topic. One pop in five takes messages from there
first; the others do so if they have room. A topic with priorities is popped from its last queue to the first.

Source: PopMessageProcessor.
"""

from collections.abc import Iterator

from regulus.broker.attributes import is_popped_by_priority, keeps_batches, priority_factor
from regulus.broker.filters.message_filter import PoppedRetries, expression_filter, not_served
from regulus.broker.groups.consumer_offsets import NOT_FOUND
from regulus.broker.held_requests import ANY_QUEUE, HOLD_MS_MAX, HeldPlace, HeldRequest
from regulus.broker.outcome import HOLD, Outcome, Reply, plain_reply, refuse
from regulus.broker.pop.empty_pops import Wanted
from regulus.broker.state import BrokerState
from regulus.errors import HeaderError, MessageIllegal, RecordError, StoreDamaged, StoreNotWritable
from regulus.model import message_properties as names
from regulus.model import permission, receipt_handle
from regulus.model.message_filter import LOOKED_MAX, Filter
from regulus.model.peer import Peer
from regulus.model.receipt_handle import ORDER_REVIVE_QUEUE_ID, ReceiptHandle
from regulus.model.store_result import GetResult, GetStatus, PutStatus
from regulus.model.topics import TopicConfig
from regulus.record import message_record
from regulus.record.layout import QUEUE_OFFSET
from regulus.record.pop_record import CheckpointKey, PopCheckpoint
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import PopMessageRequest, PopMessageResponse
from regulus.wire.headers.pop_message import INIT_MIN
from regulus.wire.remoting_command import RemotingCommand

MESSAGES_MAX = 32
"""Messages of one pop, at most."""
ANSWER_SIZE_MAX = 4 << 20
"""Bytes of the messages of one answer, of all queues together, unless its first message alone has more. Clients accept
frames of at most 16 MiB."""
INVISIBLE_MS_MAX = 12 * 3_600_000       # 12 hours
ATTEMPT_ID_SIZE_MAX = 255
"""Characters of an attempt id, which is kept with the queue that is popped in order. Clients send 36."""
_MOVED = (GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL)

Buffer = bytes | memoryview


def handle_pop_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = PopMessageRequest.decode(request)
    if header.born_time <= 0:
        header = _born_now(header, now_ms)
    checked = _check(request, header, broker, now_ms)
    if isinstance(checked, Reply):
        return checked
    topic, message_filter = checked
    pop = _Pop(header, topic, message_filter, peer, broker)
    response = pop.answer(request, now_ms)
    if response is not None:
        return _answered(response, pop, broker)
    return _hold(request, header, pop, peer, broker, now_ms)


def _answered(response: RemotingCommand, pop: "_Pop", broker: BrokerState) -> Outcome:
    """An answer that waits for disk or settings is given back if its client disconnects in the meantime."""
    durable_at = broker.storing.durable_at() if response.code == ResponseCode.SUCCESS else 0
    if durable_at or broker.settings.awaited:
        return Reply(response, durable_at, is_firm=True, unsent=pop.give_back)
    return plain_reply(response, 0)


def _born_now(header: PopMessageRequest, now_ms: int) -> PopMessageRequest:
    return PopMessageRequest(**{name: getattr(header, name) for name in PopMessageRequest.__slots__} | {
        "born_time": now_ms})


def _check(request: RemotingCommand, header: PopMessageRequest, broker: BrokerState,
           now_ms: int) -> "Reply | tuple[TopicConfig, Filter]":
    config = broker.config
    if header.poll_time > 0 and header.born_time + header.poll_time < now_ms:
        return refuse(request, ResponseCode.POLLING_TIMEOUT,
                      f"the broker[{config.broker_name}] pop message is timeout too much")
    if not permission.is_readable(config.broker_permission):
        return refuse(request, ResponseCode.NO_PERMISSION, f"the broker[{config.broker_name}] pop message is forbidden")
    if not 0 < header.max_msg_nums <= MESSAGES_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"the broker[{config.broker_name}] pop message's num is {header.max_msg_nums}, not 1 to "
                      f"{MESSAGES_MAX}")
    if not 0 < header.invisible_time <= INVISIBLE_MS_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"the invisible time {header.invisible_time} ms is not 1 to {INVISIBLE_MS_MAX}")
    if header.order and len(header.attempt_id or "") > ATTEMPT_ID_SIZE_MAX:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"the attempt id has {len(header.attempt_id or '')} characters, more than {ATTEMPT_ID_SIZE_MAX}")
    if not config.timer_wheel_enable:
        return refuse(request, ResponseCode.SYSTEM_ERROR, no_pops(broker))
    topic = broker.topics.get(header.topic)
    if topic is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist, apply first please!")
    if not permission.is_readable(topic.perm):
        return refuse(request, ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] peeking message is forbidden")
    if keeps_batches(topic.attributes):
        # A receipt covers a record, but clients acknowledge messages. RocketMQ returns the whole batch as one message.
        return refuse(request, ResponseCode.NO_PERMISSION, no_pops_of(topic))
    if header.queue_id >= topic.read_queue_nums:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                      f"topicConfig.readQueueNums:[{topic.read_queue_nums}]")
    return _check_group(request, header, topic, broker, now_ms)


def no_pops(broker: BrokerState) -> str:
    return f"the broker[{broker.config.broker_name}] pop message is forbidden because timerWheelEnable is false"


def no_pops_of(topic: TopicConfig) -> str:
    return f"the topic[{topic.topic_name}] has queue.type=BatchCQ, and cannot be popped: consume it by pulls"


def _check_group(request: RemotingCommand, header: PopMessageRequest, topic: TopicConfig, broker: BrokerState,
                 now_ms: int) -> "Reply | tuple[TopicConfig, Filter]":
    group = broker.subscription_groups.find(header.consumer_group, now_ms)
    if group is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                      f"subscription group [{header.consumer_group}] does not exist, "
                      "see autoCreateSubscriptionGroup")
    if not group.consume_enable:
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"subscription group no permission, {header.consumer_group}")
    if refusal := not_served(header.exp_type, broker.config):
        return refuse(request, ResponseCode.SYSTEM_ERROR, refusal)
    try:
        return topic, expression_filter(header.exp, header.exp_type or "TAG")
    except HeaderError as error:
        return refuse(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))


def _hold(request: RemotingCommand, header: PopMessageRequest, pop: "_Pop", peer: Peer, broker: BrokerState,
          now_ms: int) -> Outcome:
    left_ms = min(header.born_time + header.poll_time - now_ms, HOLD_MS_MAX)
    if header.poll_time <= 0 or left_ms <= 0:
        return refuse(request, ResponseCode.POLLING_TIMEOUT, "no message was found")
    held = broker.held_requests
    if held.is_full:
        return refuse(request, ResponseCode.POLLING_FULL, "too many requests are held")
    since_ms = broker.steady_ms
    deadline_ms = since_ms + left_ms
    places = (HeldPlace(header.topic, max(header.queue_id, ANY_QUEUE)),
              *(HeldPlace(retry, ANY_QUEUE) for retry in retry_topics(header.topic, header.consumer_group, broker)))

    def resume(later_ms: int) -> RemotingCommand | None:
        """None when it is held again, because another pop was faster."""
        checked = _check_again(request, header, broker, later_ms)
        if isinstance(checked, RemotingCommand):
            return checked
        pop.topic = checked
        response = pop.answer_unless_vain(request, later_ms)
        if response is not None:
            return response
        if broker.steady_ms < deadline_ms:
            hold()
            return None
        return request.response(ResponseCode.POLLING_TIMEOUT, "no message was found")

    def hold() -> None:
        held.hold(HeldRequest(request, peer, places, pop.message_filter, deadline_ms, resume, opaque=request.opaque,
                              unsent=pop.give_back, since_ms=since_ms), is_ready=pop.is_behind)

    hold()
    return HOLD


def _check_again(request: RemotingCommand, header: PopMessageRequest, broker: BrokerState,
                 now_ms: int) -> RemotingCommand | TopicConfig:
    """Check a held request again, except its time: a refusal, or the topic as it is now."""
    checked = _check(request, _born_now(header, now_ms), broker, now_ms)
    if isinstance(checked, Reply):
        answer = checked.answer
        assert not isinstance(answer, bytes)
        return answer
    return checked[0]


def retry_topics(topic: str, group: str, broker: BrokerState) -> list[str]:
    """Retry topics that may have messages of the topic for the group."""
    found = [receipt_handle.retry_topic_v1(topic, group)]
    if broker.config.enable_retry_topic_v2:
        found.append(receipt_handle.retry_topic_v2(topic, group))
    return found


def begin_at_end(group: str, topic: str, queue_id: int, broker: BrokerState, now_ms: int) -> int:
    """Set the first offset of a group in a queue, and return it.

    A young queue still has all its messages, and starts at 0 so that none sent since the consumer started is missed. In
    other queues the group gets the last message, like in RocketMQ.
    """
    first = broker.store.min_offset(topic, queue_id)
    offset = 0 if first <= 0 else max(0, broker.store.max_offset(topic, queue_id) - 1)
    broker.consumer_offsets.commit(group, topic, queue_id, offset, now_ms)
    return offset


class _Pop:
    """One request, which is answered once or, while it is held, run several times.

    `is_behind`: the last run skipped messages that the group does not want, and there are more after them.
    """

    def __init__(self, header: PopMessageRequest, topic: TopicConfig, message_filter: Filter, peer: Peer,
                 broker: BrokerState) -> None:
        self.message_filter = message_filter
        self._shared_topic = receipt_handle.retry_topic_v1(header.topic, header.consumer_group)
        self.is_behind = False
        self._header = header
        self.topic = topic
        self._broker = broker
        self._host = broker.send_facts.store_host or peer.local

    def answer_unless_vain(self, request: RemotingCommand, now_ms: int) -> RemotingCommand | None:
        """Like `answer`, but does not run if an equal request found nothing in this step."""
        header, vain = self._header, self._broker.vain_pops
        wanted = Wanted(header.topic, header.consumer_group, header.queue_id, header.exp, header.exp_type, header.order,
                        header.init_mode)
        if vain.is_vain(wanted, header.attempt_id):
            self.is_behind = False
            return None
        response = self.answer(request, now_ms)
        if response is None and not self.is_behind:
            vain.note(wanted)
        return response

    def answer(self, request: RemotingCommand, now_ms: int) -> RemotingCommand | None:
        """None when there is no message."""
        header, broker = self._header, self._broker
        self._now_ms = now_ms
        self._popped = broker.statistics.pops_of(header.consumer_group, header.topic, broker.steady_ms)
        self._room = header.max_msg_nums
        self._size_left = ANSWER_SIZE_MAX
        self._rest = 0
        self._looked = 0
        self._refusal = self._damage = ""
        self.is_behind = False
        self._buffers: list[Buffer] = []
        self._starts: list[str] = []
        self._offsets: list[str] = []
        self._counts: list[str] = []
        self._handed: list[tuple[CheckpointKey, list[int]]] = []
        is_by_priority = is_popped_by_priority(self.topic.attributes) and self._goes_by_priority()
        chance = broker.chance.below(100)
        if header.order:
            self._revive_queue_id = ORDER_REVIVE_QUEUE_ID
            self._pop_topic(chance, is_by_priority=False)
        else:
            self._revive_queue_id = broker.next_revive_queue()
            retries_first = chance < (broker.config.pop_from_retry_probability_for_priority if is_by_priority
                                      else broker.config.pop_from_retry_probability)
            if retries_first:
                self._pop_retries()
            self._pop_topic(chance, is_by_priority=is_by_priority)
            if not retries_first:
                self._pop_retries()
        if not self._buffers:
            fault = self._refusal or self._damage
            return request.response(ResponseCode.SYSTEM_ERROR, fault) if fault else None
        ext = PopMessageResponse(
            pop_time=now_ms, invisible_time=header.invisible_time, revive_qid=self._revive_queue_id,
            rest_num=self._rest, start_offset_info=";".join(self._starts),
            msg_offset_info=";".join(self._offsets),
            order_count_info=";".join(self._counts) if header.order else None).ext()
        return request.response(ResponseCode.SUCCESS, GetStatus.FOUND.name, ext, self._buffers)

    def give_back(self, now_ms: int) -> None:
        """Give back the messages of the last answer, which did not reach the client."""
        for key, offsets in self._handed:
            self._broker.give_back(key, offsets, self._revive_queue_id, self._header.invisible_time, now_ms)

    def _goes_by_priority(self) -> bool:
        """Whether this pop follows priorities; a random choice of its own.

        With the number that chooses the queue, all pops without priority would begin at the same few queues, and others
        would starve.
        """
        if self._header.order:
            return False
        group = self._broker.subscription_groups.get(self._header.consumer_group)
        return group is not None and self._broker.chance.below(100) < priority_factor(group.attributes)

    def _pop_topic(self, chance: int, *, is_by_priority: bool) -> None:
        name, queues = self.topic.topic_name, self.topic.read_queue_nums
        if self._header.queue_id >= 0:
            self._pop_queue(name, self._header.queue_id, is_retry=False)
        elif is_by_priority:
            for queue_id in range(queues - 1, -1, -1):
                self._pop_queue(name, queue_id, is_retry=False)
        else:
            for step in range(queues):
                self._pop_queue(name, (chance + step) % queues, is_retry=False)

    def _pop_retries(self) -> None:
        """Pop from one retry topic, because an answer can contain only one."""
        for name in retry_topics(self._header.topic, self._header.consumer_group, self._broker):
            config = self._broker.topics.get(name)
            before = self._room
            for queue_id in range(config.read_queue_nums if config is not None else 0):
                self._pop_queue(name, queue_id, is_retry=True)
            if self._room < before:
                return

    def _pop_queue(self, topic: str, queue_id: int, *, is_retry: bool) -> None:
        """Pop from one queue. A damaged or unreadable queue does not stop the others."""
        try:
            self._pop_sound_queue(topic, queue_id, is_retry=is_retry)
        except (StoreDamaged, StoreNotWritable) as error:
            self._damage = str(error)

    def _pop_sound_queue(self, topic: str, queue_id: int, *, is_retry: bool) -> None:
        broker, group = self._broker, self._header.consumer_group
        offset = self._offset_of(topic, queue_id, is_retry=is_retry)
        if self._header.order and broker.pop_orders.is_blocked(topic, group, queue_id, self._header.attempt_id,
                                                               self._now_ms):
            return
        if self._room <= 0 or self._refusal or self._looked >= LOOKED_MAX:
            self.is_behind |= self._looked >= LOOKED_MAX and offset < broker.store.max_offset(topic, queue_id)
            self._leave(topic, queue_id, offset)
            return
        result = self._read(topic, queue_id, offset)
        if result.status in _MOVED:
            offset = result.next_begin_offset
            broker.consumer_offsets.commit(group, topic, queue_id, offset, self._now_ms)
            result = self._read(topic, queue_id, offset)
        if result.status is not GetStatus.FOUND:
            if result.status in (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING):
                broker.consumer_offsets.commit(group, topic, queue_id, result.next_begin_offset, self._now_ms)
                self._rest += result.max_offset - result.next_begin_offset
                self.is_behind |= result.next_begin_offset < result.max_offset
            return
        if self._buffers and result.size > self._size_left:     # only a queue's first message may exceed it
            self._room = 0
            self._leave(topic, queue_id, offset)
            return
        offsets = _offsets_of(result, offset)
        flag = receipt_handle.retry_flag(topic, group)
        if self._header.order:
            self._note_order(topic, queue_id, offset, offsets, flag)
            self._handed.append((CheckpointKey(topic, group, queue_id, offset, self._now_ms), offsets))
        elif self._note(topic, queue_id, offset, offsets):
            broker.consumer_offsets.commit(group, topic, queue_id, result.next_begin_offset, self._now_ms)
            broker.pop_places.note()
        else:
            return
        broker.statistics.note_get(group, topic, result.message_count, result.size)
        self._popped.add(result.message_count, result.size, is_retry)
        self._room -= len(offsets)
        self._size_left -= result.size
        self._rest += result.max_offset - result.next_begin_offset
        self._starts.append(f"{flag} {queue_id} {offset}")
        self._offsets.append(f"{flag} {queue_id} {','.join(map(str, offsets))}")
        self._buffers += result.buffers if not is_retry else [
            each for buffer in result.buffers for each in self._renamed(buffer, offset, flag, queue_id)]

    def _leave(self, topic: str, queue_id: int, offset: int) -> None:
        """Count the queue's messages as left for another pop."""
        self._rest += max(0, self._broker.store.max_offset(topic, queue_id) - offset)

    def _offset_of(self, topic: str, queue_id: int, *, is_retry: bool) -> int:
        broker, group = self._broker, self._header.consumer_group
        reset = broker.consumer_offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            broker.consumer_offsets.commit(group, topic, queue_id, reset, self._now_ms)
            broker.pop_orders.clear(topic, group, queue_id)
            return reset
        offset = broker.consumer_offsets.query(group, topic, queue_id)
        if offset != NOT_FOUND:
            return offset
        if is_retry or self._header.init_mode == INIT_MIN:
            return broker.store.min_offset(topic, queue_id)
        return begin_at_end(group, topic, queue_id, broker, self._now_ms)

    def _read(self, topic: str, queue_id: int, offset: int) -> GetResult:
        broker = self._broker
        size_max = min(self._size_left, broker.config.max_transfer_bytes_on_message_in_memory)
        wanted = PoppedRetries(self.message_filter) if topic == self._shared_topic else self.message_filter
        found = broker.store.get_message(topic, queue_id, offset, self._room, size_max, wanted)
        broker.held_requests.looked += found.looked
        self._looked += found.looked
        return found

    def _note_order(self, topic: str, queue_id: int, offset: int, offsets: list[int], flag: str) -> None:
        """Note a pop in order; the group's offset stays at its first message."""
        header, broker = self._header, self._broker
        broker.consumer_offsets.commit(header.consumer_group, topic, queue_id, offset, self._now_ms)
        counts = broker.pop_orders.begin(topic, header.consumer_group, queue_id, offsets, header.attempt_id,
                                         header.invisible_time, self._now_ms)
        self._counts += [f"{flag} qo{queue_id}%{each} {count}" for each, count in counts.by_offset.items()]
        self._counts.append(f"{flag} {queue_id} {counts.least}")

    def _note(self, topic: str, queue_id: int, start: int, offsets: list[int]) -> bool:
        """Note the pop in the log; if that fails, False, and its messages are not returned."""
        broker, header = self._broker, self._header
        key = CheckpointKey(topic, header.consumer_group, queue_id, start, self._now_ms)
        removed = broker.consumer_offsets.set_backs.removed.get(header.consumer_group, 0)
        checkpoint = PopCheckpoint(key=key, broker_name=broker.config.broker_name,
                                   invisible_time=header.invisible_time, offsets=tuple(offsets),
                                   topic_epoch=broker.topics.epochs.of(topic), group_removed=removed)
        set_backs = broker.consumer_offsets.set_back_number(header.consumer_group, topic, queue_id)
        appended = broker.pop_flights.begin(checkpoint, self._revive_queue_id, self._host, self._now_ms, set_backs)
        if appended.status is PutStatus.PUT_OK:
            self._handed.append((key, offsets))
            return True
        self._refusal = f"the pop could not be noted: {appended.remark or PutStatus(appended.status).name}"
        return False

    def _renamed(self, buffer: Buffer, start: int, flag: str, queue_id: int) -> Iterator[Buffer]:
        """Messages of a retry topic under their original topic, with their receipts.

        A message that a client sent there without room for a receipt cannot be acknowledged, and becomes a dead letter
        after its time. A damaged message is left out, and does not stop the others.
        """
        for record in _records(buffer):
            try:
                message = message_record.decode(record)
            except RecordError as error:
                self._damage = (f"a message of group {self._header.consumer_group} is damaged in its retry topic: "
                                f"{error}")
                continue
            handle = ReceiptHandle(start, self._now_ms, self._header.invisible_time, self._revive_queue_id, flag,
                                   self._broker.config.broker_name, queue_id, message.queue_offset)
            message.properties[names.POP_CK] = receipt_handle.encode(handle)
            message.topic = self._header.topic
            try:
                yield message_record.encode(message)
            except MessageIllegal:
                del message.properties[names.POP_CK]
                yield message_record.encode(message)


def _offsets_of(result: GetResult, start: int) -> list[int]:
    """Offsets of what was read from `start` on: consecutive, unless some were skipped."""
    if result.message_count == result.next_begin_offset - start:
        return list(range(start, result.next_begin_offset))
    return [int.from_bytes(record[QUEUE_OFFSET:QUEUE_OFFSET + 8], "big")
            for buffer in result.buffers for record in _records(buffer)]


def _records(buffer: Buffer) -> Iterator[Buffer]:
    """Records that follow each other. The store has checked where each ends."""
    position = 0
    while position < len(buffer):
        end = position + int.from_bytes(buffer[position:position + 4], "big")
        yield buffer[position:end]
        position = end
