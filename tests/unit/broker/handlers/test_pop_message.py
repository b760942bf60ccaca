"""What a pop refuses, how much it hands out and from where, and what its answer waits for."""

from dataclasses import replace

import pytest

from regulus.broker import request_table
from regulus.broker.outcome import Reply
from regulus.model.message import MessageExt
from regulus.model.message_filter import Filter
from regulus.model.store_result import GetResult, GetStatus
from regulus.model.store_rules import FlushDiskType
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import ConsumerSendMsgBackRequest, PopMessageRequest, PullMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import HOST, NOW, PEER, Rig, bodies

READABLE, WRITABLE = 4, 2


def asked(rig: Rig, **fields: object) -> dict[str, str]:
    """What goes with a request."""
    header = {"consumer_group": "G", "topic": "T", "queue_id": -1, "max_msg_nums": 32, "invisible_time": 30_000,
              "poll_time": 0, "born_time": rig.now_ms, "init_mode": 0}
    return PopMessageRequest(**{**header, **fields}).ext()


def answered(rig: Rig, **fields: object) -> RemotingCommand | None:
    """None when it is held."""
    return rig.ask(Code.POP_MESSAGE, asked(rig, **fields))


def popped(rig: Rig, **fields: object) -> list[str]:
    answer = answered(rig, **fields)
    assert answer is not None
    return bodies(rig.taken(answer))


def put_group(rig: Rig, **fields: object) -> None:
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", **fields), NOW)


def put_topic(rig: Rig, perm: int) -> None:
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=perm), NOW)


# --- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the broker", "the topic", "the group"])
def test_nothing_is_popped_where_nothing_may_be_read(what):
    rig = Rig()
    rig.send("a")
    if what == "the broker":
        rig.broker.set_config(replace(rig.broker.config, broker_permission=WRITABLE))
    elif what == "the topic":
        put_topic(rig, WRITABLE)
    else:
        put_group(rig, consume_enable=False)
    assert answered(rig).code == ResponseCode.NO_PERMISSION
    assert len(rig.broker.pop_flights) == 0


def test_nothing_is_popped_without_timers_that_bring_it_back():
    rig = Rig(timer_wheel_enable=False)
    rig.send("a")
    answer = answered(rig)
    assert (answer.code, "timerWheelEnable" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)


def test_who_waits_no_more_is_handed_nothing():
    """A request that came late: its client has given it up."""
    rig = Rig()
    rig.send("a")
    assert answered(rig, born_time=NOW - 5_001, poll_time=5_000).code == ResponseCode.POLLING_TIMEOUT
    assert popped(rig, born_time=NOW - 5_000, poll_time=5_000) == ["a"]


def test_a_request_that_does_not_say_when_it_was_made_waits_from_now_on():
    rig = Rig()
    rig.broker.steady_ms = NOW
    assert answered(rig, born_time=0, poll_time=5_000) is None
    rig.run_to(NOW + 4_900)
    assert not rig.broker.notices
    rig.run_to(NOW + 5_100)
    assert [notice.reply.answer.code for notice in rig.broker.notices] == [ResponseCode.POLLING_TIMEOUT]


def test_no_more_pops_wait_than_may():
    rig = Rig()
    rig.broker.held_requests.count_max = 1
    assert answered(rig, poll_time=5_000) is None
    assert answered(rig, poll_time=5_000).code == ResponseCode.POLLING_FULL


def test_nobody_waits_longer_than_the_limit():
    rig = Rig()
    rig.broker.steady_ms = NOW
    assert answered(rig, poll_time=3_600_000) is None
    rig.run_to(NOW + 299_000, step=1_000)
    assert not rig.broker.notices
    rig.run_to(NOW + 301_000, step=1_000)
    assert [notice.reply.answer.code for notice in rig.broker.notices] == [ResponseCode.POLLING_TIMEOUT]


def test_what_was_forbidden_while_a_pop_waited_is_not_handed_out():
    rig = Rig()
    rig.broker.steady_ms = NOW
    assert answered(rig, poll_time=5_000) is None
    put_group(rig, consume_enable=False)
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a"}, 0, 0, 0, NOW, HOST, HOST, 0), NOW)
    rig.broker.message_arrived(rig.store.dispatch(10), NOW)
    (notice,) = rig.broker.notices
    assert notice.reply.answer.code == ResponseCode.NO_PERMISSION
    assert len(rig.broker.pop_flights) == 0


# --- how much, and of which queues -----------------------------------------------------------------------------------


def test_all_queues_together_give_no_more_than_was_asked_for_and_the_answer_says_what_is_left():
    rig = Rig()
    rig.send("a", "b", "c", queue_id=0)
    rig.send("d", "e", "f", queue_id=1)
    answer = answered(rig, max_msg_nums=2)
    assert len(rig.taken(answer)) == 2
    assert answer.ext["restNum"] == "4"
    answer = answered(rig, max_msg_nums=3)
    assert len(rig.taken(answer)) == 3
    assert answer.ext["restNum"] == "1"


def test_one_queue_gives_its_own_messages_alone():
    rig = Rig()
    rig.send("a", queue_id=0)
    rig.send("b", queue_id=1)
    assert popped(rig, queue_id=0) == ["a"]
    assert popped(rig, queue_id=0) == []
    assert popped(rig, queue_id=1) == ["b"]


def test_one_answer_has_retries_of_one_kind():
    rig = Rig(enable_retry_topic_v2=True)
    rig.broker.subscription_groups.find("G", NOW)
    for topic in ("%RETRY%G_T", "%RETRY%G+T"):
        rig.broker.topics.create_if_absent(topic, 1, NOW)
        rig.broker.storing.store(MessageExt(topic, topic.encode(), {}, 0, 0, 0, NOW, HOST, HOST, 1), NOW)
    rig.settle()
    assert [popped(rig) for _ in range(3)] == [["%RETRY%G_T"], ["%RETRY%G+T"], []]


LARGE = 2_200_000


def large_rig(queues: int) -> Rig:
    """A queue has two messages of which eight are more than any client reads of one frame."""
    rig = Rig()
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=queues, write_queue_nums=queues), NOW)
    for queue_id in range(queues):
        rig.send(*[letter * LARGE for letter in "ab"], queue_id=queue_id)
    return rig


def put_away(rig: Rig) -> set[tuple[str, int, int]]:
    """What came again, by where it lay first."""
    return {(message.topic, message.queue_id, message.reconsume_times)
            for topic in ("%RETRY%G_T", "%DLQ%G") for message in rig.shown(topic)}


def test_all_queues_together_fill_no_more_than_a_client_reads_and_nothing_else_is_counted():
    """With a limit of no retries what is counted and not sent is a dead letter that nobody saw."""
    rig = large_rig(8)
    put_group(rig, retry_max_times=0)
    seen: list[tuple[int, int]] = []
    while (answer := answered(rig)).code == 0:
        frame = answer.encode()
        assert len(frame) < 5 << 20
        found = rig.taken(answer)
        assert found
        seen += [(handle.queue_id, handle.queue_offset) for _, handle in found]
        assert answer.ext["restNum"] == str(16 - len(seen))
        for _, handle in found:
            rig.ack(handle)
    assert sorted(seen) == [(queue_id, offset) for queue_id in range(8) for offset in (0, 1)]
    rig.run_to(NOW + 40_000)
    assert put_away(rig) == set()


def test_what_other_queues_gave_is_no_room_any_more():
    rig = large_rig(2)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=30, write_queue_nums=30), NOW)
    for queue_id in range(2, 30):
        rig.send("c" * 200_000, queue_id=queue_id)
    assert sum(len(message.body) for message, _ in rig.pop()) <= 4 << 20


def test_a_message_that_alone_is_more_than_the_bound_is_handed_out_alone():
    rig = Rig(max_message_size=8 << 20)
    rig.send("a" * (5 << 20), queue_id=0)
    rig.send("b" * (5 << 20), queue_id=1)
    assert [len(popped(rig)[0]) for _ in range(2)] == [5 << 20] * 2


def send_back_to(rig, group, **properties):
    """One that a consumer of the group that pulls tries again, and which lies in its retry topic then."""
    rig.broker.subscription_groups.find(group, rig.now_ms)
    rig.broker.topics.put(TopicConfig(topic_name="secret", read_queue_nums=1, write_queue_nums=1), NOW)
    offset = rig.store.commit_log_max_offset()
    rig.broker.storing.store(MessageExt("secret", b"hidden", {"UNIQ_KEY": "h", **properties}, 0, 0, 0, NOW, HOST, HOST,
                                        0), rig.now_ms)
    rig.settle()
    assert rig.ask(Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequest(
        offset=offset, group=group, delay_level=0, origin_topic="secret").ext()).code == 0
    rig.run_to(rig.now_ms + 12_000)
    assert b"hidden" in [message.body for message in rig.shown(f"%RETRY%{group}")]


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize("properties", [{}, {"1ST_POP_TIME": "1"}])
def test_a_pop_takes_nothing_that_another_group_of_the_retry_topic_s_name_tries_again(is_v2, properties):
    """`pay` on T may be popped by one who may not read what `pay_T` does."""
    rig = Rig(enable_retry_topic_v2=is_v2)
    send_back_to(rig, "pay_T", **properties)
    assert rig.pop(group="pay") == []
    rig.send("a")
    assert bodies(rig.pop(group="pay")) == ["a"]
    send_back_to(rig, "pay_T", **properties)
    rig.run_to(rig.now_ms + 31_000)
    ((message, _),) = rig.pop(group="pay")
    assert (message.body, message.reconsume_times) == (b"a", 1)
    assert rig.ask(Code.PULL_MESSAGE, PullMessageRequest(
        consumer_group="pay_T", topic="%RETRY%pay_T", queue_id=0, queue_offset=0, max_msg_nums=32, sys_flag=4,
        subscription="*").ext()).body.count(b"hidden") == 2


@pytest.mark.parametrize("expression", [("A", "TAG"), ("x = 1", "SQL92")])
def test_so_does_one_with_a_filter(expression):
    rig = Rig(enable_property_filter=True)
    exp, exp_type = expression
    for body, x in ("a", "1"), ("b", "2"):
        rig.broker.storing.store(MessageExt("T", body.encode(), {"TAGS": "A" if x == "1" else "B", "x": x}, 0, 0, 0,
                                            NOW, HOST, HOST, 0), NOW)
    rig.settle()
    assert bodies(rig.pop(group="pay", exp=exp, exp_type=exp_type)) == ["a"]
    send_back_to(rig, "pay_T", TAGS="A", x="1")
    rig.run_to(rig.now_ms + 31_000)
    assert bodies(rig.pop(group="pay", exp=exp, exp_type=exp_type)) == ["a"]


def test_what_a_producer_says_was_sent_back_is_popped_again_all_the_same():
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a", "RETRY_TOPIC": "X"}, 0, 0, 0, NOW, HOST, HOST, 0),
                             NOW)
    rig.settle()
    for count in range(3):
        ((message, _),) = rig.pop()
        assert message.reconsume_times == count
        rig.run_to(rig.now_ms + 31_000)


def test_who_pops_a_retry_topic_itself_has_what_was_sent_back():
    rig = Rig()
    send_back_to(rig, "G")
    header = PopMessageRequest(consumer_group="G", topic="%RETRY%G", queue_id=-1, max_msg_nums=32,
                               invisible_time=30_000, poll_time=0, born_time=rig.now_ms, init_mode=0)
    assert b"hidden" in bytes(rig.ask(Code.POP_MESSAGE, header.ext()).body)


def test_retries_count_as_well_as_what_was_never_popped():
    rig = large_rig(2)
    rig.pop()
    rig.pop()
    rig.run_to(NOW + 31_500)
    rig.send("c" * LARGE, queue_id=1)
    for _ in range(5):
        ((message, _),) = rig.pop()
        assert len(message.body) == LARGE


def test_in_order_what_did_not_fit_is_not_out():
    rig = large_rig(3)
    first = rig.taken(answered(rig, order=True))
    second = rig.taken(answered(rig, order=True))
    third = rig.taken(answered(rig, order=True))
    assert sorted(handle.queue_id for _, handle in (*first, *second, *third)) == [0, 1, 2]
    assert all(len(each) == 1 for each in (first, second, third))


def test_who_waits_for_a_topic_waits_for_its_retries():
    rig = Rig(enable_retry_topic_v2=True)
    assert answered(rig, poll_time=5_000) is None
    waiting = rig.broker.held_requests.waiting
    assert (waiting("T", -1), waiting("%RETRY%G_T", -1), waiting("%RETRY%G+T", -1)) == (1, 1, 1)


# --- from where ------------------------------------------------------------------------------------------------------


class Aged(MemoryStore):
    """Of queue 0 of T, the first two messages are gone with an old file, of the log or of the queue."""

    def __init__(self, status: GetStatus) -> None:
        super().__init__()
        self.status = status

    def get_message(self, topic: str, queue_id: int, queue_offset: int, count_max: int, bytes_max: int,
                    message_filter: Filter) -> GetResult:
        if topic == "T" and queue_id == 0 and queue_offset < 2:
            return GetResult(self.status, 2, 0, self.max_offset(topic, queue_id), [], 0, 0)
        return super().get_message(topic, queue_id, queue_offset, count_max, bytes_max, message_filter)


@pytest.mark.parametrize(("status", "answers"), [
    (GetStatus.OFFSET_TOO_SMALL, [["c"], []]), (GetStatus.OFFSET_FOUND_NULL, [["c"], []]),
    (GetStatus.MESSAGE_WAS_REMOVING, [[], ["c"], []])])
def test_a_group_goes_on_behind_messages_that_are_gone(status, answers):
    rig = Rig(Aged(status))
    rig.send(*"abc")
    assert [popped(rig, queue_id=0) for _ in answers] == answers
    assert rig.broker.consumer_offsets.query("G", "T", 0) == 3
    rig.run_to(NOW + 31_000)
    assert popped(rig, queue_id=0) == ["c"]


def test_a_receipt_says_where_a_pop_began_behind_messages_that_are_gone():
    rig = Rig(Aged(GetStatus.OFFSET_TOO_SMALL))
    rig.send(*"abcd")
    (_, handle), _ = rig.pop(queue_id=0)
    assert (handle.start_offset, handle.queue_offset) == (2, 2)
    assert rig.ack(handle).code == 0
    rig.run_to(NOW + 31_000)
    assert popped(rig, queue_id=0) == ["d"]


def test_a_group_that_was_set_behind_the_end_gets_what_comes_next():
    rig = Rig()
    rig.send("a")
    rig.broker.consumer_offsets.commit("G", "T", 0, 7, NOW)
    assert popped(rig, queue_id=0) == []
    rig.send("b")
    assert popped(rig, queue_id=0) == ["b"]


def test_a_group_that_begins_at_the_end_misses_nothing_that_comes_after_its_first_pop():
    rig = Rig()
    assert popped(rig, queue_id=0, init_mode=1) == []
    rig.send("a", "b")
    assert popped(rig, queue_id=0, init_mode=1) == ["a", "b"]


def test_a_group_that_begins_at_the_end_gets_all_of_a_queue_that_still_has_all():
    """They may have been sent after its first consumer started, which asks a second later."""
    rig = Rig()
    rig.send("a", "b")
    assert popped(rig, queue_id=0, init_mode=1) == ["a", "b"]


def test_where_a_group_began_at_the_end_it_stays_when_the_queue_loses_its_first_messages(monkeypatch):
    rig = Rig()
    assert popped(rig, queue_id=0, init_mode=1) == []
    rig.send("a", "b", "c")
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: 1)
    assert popped(rig, queue_id=0, init_mode=1) == ["a", "b", "c"]


def test_a_group_that_begins_at_the_end_of_a_queue_that_lost_messages_is_handed_the_last_one(monkeypatch):
    """As RocketMQ does."""
    rig = Rig()
    rig.send("a", "b", "c")
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: 1)
    assert popped(rig, queue_id=0, init_mode=1) == ["c"]


@pytest.mark.parametrize(("lost", "left"), [(0, ["a", "b", "c"]), (1, ["b", "c"])])
def test_a_group_that_begins_at_the_end_gets_all_of_its_retries(monkeypatch, lost, left):
    """Also where their queue lost its first messages."""
    rig = Rig()
    rig.broker.topics.create_if_absent("%RETRY%G_T", 1, NOW)
    for body in (b"a", b"b", b"c"):
        rig.broker.storing.store(MessageExt("%RETRY%G_T", body, {}, 0, 0, 0, NOW, HOST, HOST, 1), NOW)
    rig.settle()
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: lost if topic == "%RETRY%G_T" else 0)
    assert popped(rig, init_mode=1) == left


def test_in_order_a_group_that_was_set_back_gets_at_once_what_was_out():
    rig = Rig()
    rig.send("a", "b")
    assert popped(rig, queue_id=0, order=True) == ["a", "b"]
    assert popped(rig, queue_id=0, order=True) == []
    rig.broker.consumer_offsets.assign_reset("G", "T", 0, 0, NOW)
    assert popped(rig, queue_id=0, order=True) == ["a", "b"]


def test_in_order_an_ack_moves_nobody_back_from_where_the_group_was_set():
    rig = Rig()
    rig.send(*"abcd")
    (_, first), _ = rig.taken(answered(rig, queue_id=0, order=True, max_msg_nums=2))
    rig.broker.consumer_offsets.assign_reset("G", "T", 0, 4, NOW)
    rig.broker.consumer_offsets.commit("G", "T", 0, 0, NOW)     # of what was read before
    assert rig.ack(first).code == 0
    assert [popped(rig, queue_id=0, order=True) for _ in range(2)] == [[], []]
    assert rig.broker.consumer_offsets.query("G", "T", 0) == 4


# --- what the answer waits for, and what is saved --------------------------------------------------------------------


def test_the_answer_waits_until_its_pop_is_on_disk():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a")
    sent = rig.store.commit_log_max_offset()
    outcome = request_table.handle(RemotingCommand.request(int(Code.POP_MESSAGE), asked(rig)), PEER, rig.broker, NOW)
    assert isinstance(outcome, Reply)
    assert bodies(rig.taken(outcome.answer)) == ["a"]
    assert outcome.durable_at == rig.store.commit_log_max_offset() > sent


def test_each_pop_has_its_place_saved():
    rig = Rig()
    rig.send("a", "b")
    seen = [rig.broker.pop_places.changes]
    for _ in range(2):
        popped(rig, max_msg_nums=1)
        seen.append(rig.broker.pop_places.changes)
    assert seen == [0, 1, 2]
    assert popped(rig) == []
    assert rig.broker.pop_places.changes == 2
