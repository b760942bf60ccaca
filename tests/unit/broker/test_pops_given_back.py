"""What was popped and reached nobody is there for others at once, and was not delivered."""

import pytest

from regulus.broker import request_table
from regulus.broker.outcome import Reply
from regulus.broker.pop.revival import GIVEN_BACK_TIMES_MAX
from regulus.model.message import MessageExt
from regulus.model.receipt_handle import ReceiptHandle, encode
from regulus.model.store_rules import FlushDiskType
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    ChangeMessageInvisibletimeRequest,
    DeleteSubscriptiongroupRequest,
    DeleteTopicInBrokerRequest,
    PopMessageRequest,
)
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import HOST, NOW, PEER, Rig, bodies


def give_back(rig: Rig, handle: ReceiptHandle, invisible: int = 0) -> int:
    topic = "T" if handle.retry == "0" else "%RETRY%G_T"
    return rig.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, ChangeMessageInvisibletimeRequest(
        consumer_group="G", topic=topic, queue_id=handle.queue_id, extra_info=encode(handle),
        offset=handle.queue_offset, invisible_time=invisible, suspend=True).ext()).code


def pop_request(rig: Rig, poll: int = 0, **fields: object) -> RemotingCommand:
    return RemotingCommand.request(int(Code.POP_MESSAGE), PopMessageRequest(
        consumer_group="G", topic="T", queue_id=-1, max_msg_nums=32, invisible_time=30_000, poll_time=poll,
        born_time=rig.now_ms, init_mode=0, **fields).ext())


def no_retries(rig: Rig) -> None:
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", retry_max_times=0), NOW)


def test_what_is_given_back_comes_at_once_and_was_not_delivered():
    rig = Rig()
    no_retries(rig)
    rig.send("a", "b")
    for _ in range(GIVEN_BACK_TIMES_MAX):
        popped = rig.pop()
        assert [(message.body, message.reconsume_times) for message, _ in popped] == [(b"a", 0), (b"b", 0)]
        for _, handle in popped:
            assert give_back(rig, handle) == 0
        rig.run_to(rig.now_ms + 10)
    rig.run_to(NOW + 100_000)
    assert rig.shown("%DLQ%G") == []
    popped = rig.pop()
    assert bodies(popped) == ["a", "b"]
    rig.run_to(rig.now_ms + 31_000)
    assert [message.body for message in rig.shown("%DLQ%G")] == [b"a", b"b"]       # those were handed out


@pytest.mark.parametrize("order", [False, True])
def test_what_is_suspended_for_a_time_was_delivered_and_comes_at_its_time(order):
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(order=order)
    assert give_back(rig, handle, 60_000) == 0
    rig.run_to(NOW + 59_000)
    assert rig.pop(order=order) == []
    rig.run_to(NOW + 62_000)
    assert bodies(rig.pop(order=order)) == ["a"]


def test_what_is_given_back_again_and_again_writes_no_log_without_bound():
    """It counts from some time on, comes at once even then, and is a dead letter when it had all its tries."""
    rig = Rig()
    rig.send("x" * 4_000)
    begin = rig.store.commit_log_max_offset()
    counts = []
    for _ in range(200):
        for message, handle in rig.pop():
            counts.append(message.reconsume_times)
            assert give_back(rig, handle) == 0
        rig.run_to(rig.now_ms + 10)
    assert rig.store.commit_log_max_offset() - begin < 100 * 4_000
    tries = rig.broker.subscription_groups.get("G").retry_max_times
    assert counts == [0] * GIVEN_BACK_TIMES_MAX + list(range(tries + 1))
    assert len(rig.shown("%DLQ%G")) == 1


@pytest.mark.parametrize("said", ["", "x", "-5", "9" * 30])
def test_what_a_producer_says_of_how_often_a_message_was_given_back_is_a_number_or_nothing(said):
    rig = Rig()
    rig.broker.storing.store(MessageExt("T", b"a", {"UNIQ_KEY": "a", "GIVEN_BACK": said}, 0, 0, 0, NOW, HOST, HOST, 0),
                             NOW)
    rig.settle()
    ((_, handle),) = rig.pop()
    assert give_back(rig, handle) == 0
    rig.run_to(NOW + 10)
    ((message, _),) = rig.pop()
    assert (message.reconsume_times, message.properties["GIVEN_BACK"]) == (0, "1")


def test_a_delivery_before_still_counts():
    rig = Rig()
    rig.send("a")
    rig.pop()
    rig.run_to(NOW + 31_000)
    ((message, handle),) = rig.pop()
    assert message.reconsume_times == 1
    give_back(rig, handle)
    rig.run_to(rig.now_ms + 10)
    ((message, _),) = rig.pop()
    assert message.reconsume_times == 1


def test_what_is_given_back_comes_once_also_after_a_kill():
    rig = Rig()
    rig.send("a", "b")
    (_, first), _ = rig.pop()
    give_back(rig, first)
    rig.run_to(NOW + 10)
    rig = rig.restarted(is_killed=True)
    assert bodies(rig.pop()) == ["a"]
    rig.run_to(NOW + 31_500)
    assert sorted(bodies(rig.pop())) == ["a", "b"]


def test_a_message_that_was_acknowledged_is_not_given_back_nor_one_that_was_never_popped():
    rig = Rig()
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop()
    rig.ack(first)
    assert give_back(rig, first) == ResponseCode.NO_MESSAGE
    assert give_back(rig, second._replace(pop_time=NOW + 7)) == ResponseCode.NO_MESSAGE
    assert give_back(rig, second) == 0
    rig.ack(second)         # it was faster than the tick
    rig.run_to(NOW + 40_000)
    assert rig.pop() == []


def test_what_is_acknowledged_before_the_tick_does_not_come_again_though_others_of_its_pop_are_out():
    rig = Rig()
    rig.send("a", "b")
    (_, first), _ = rig.pop()
    assert give_back(rig, first) == 0
    rig.ack(first)
    rig.run_to(NOW + 31_500)
    assert bodies(rig.pop()) == ["b"]


def test_a_group_that_is_deleted_before_the_tick_gets_back_nothing_when_it_is_made_anew():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    assert give_back(rig, handle) == 0
    rig.now_ms += 1
    rig.ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteSubscriptiongroupRequest(group_name="G", clean_offset=True).ext())
    assert bodies(rig.pop()) == ["a"]
    rig.run_to(NOW + 1_000)
    assert rig.pop() == []


def test_a_topic_that_is_made_anew_before_the_tick_has_nothing_of_the_old_one_given_back():
    """What has the place now was never popped."""
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    assert give_back(rig, handle) == 0
    rig.now_ms += 1
    rig.ask(Code.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic="T").ext())
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2), rig.now_ms)
    rig.send("b")
    rig.run_to(NOW + 1_000)
    assert bodies(rig.pop()) == ["b"]
    assert rig.pop() == []


def test_what_is_gone_with_its_file_gives_nobody_the_message_behind_it(monkeypatch):
    """A queue that begins later answers with its first unit, which is of another message."""
    rig = Rig()
    rig.send("a", "b")
    ((_, handle),) = rig.pop(count=1)
    assert give_back(rig, handle) == 0
    units = type(rig.store).queue_units
    monkeypatch.setattr(type(rig.store), "queue_units", lambda store, topic, queue_id, offset, count_max: units(
        store, topic, queue_id, max(offset, 1) if topic == "T" else offset, count_max))
    rig.run_to(NOW + 1_000)
    assert rig.shown("%RETRY%G_T") == []
    assert bodies(rig.pop()) == ["b"]


def test_what_the_store_does_not_take_now_is_given_back_later():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop()
    give_back(rig, handle)
    rig.store.refusal = "the disk is full"
    rig.run_to(NOW + 1_000)
    rig.store.refusal = ""
    rig.run_to(NOW + 1_200)
    ((message, _),) = rig.pop()
    assert message.reconsume_times == 0


def test_what_is_given_back_waits_until_its_retry_topic_is_saved():
    """A kill would leave it in a topic that nobody knows, and its receipt would be over."""
    rig = Rig()
    rig.send("a")
    rig.broker.settings.is_kept = True
    ((_, handle),) = rig.pop()
    assert give_back(rig, handle) == 0
    rig.run_to(NOW + 1_000)
    assert "%RETRY%G_T" in rig.broker.topics
    assert rig.shown("%RETRY%G_T") == []
    rig.broker.settings_saved(rig.broker.settings.count)
    rig.run_to(NOW + 2_000)
    assert [message.body for message in rig.shown("%RETRY%G_T")] == [b"a"]


def test_of_very_much_that_is_given_back_a_tick_does_a_part(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop.revival.REVIVED_PER_TICK_MAX", 2)
    rig = Rig()
    rig.send("a", "b", "c", "d", "e")
    for _, handle in rig.pop():
        assert give_back(rig, handle) == 0
    counts = []
    for _ in range(3):
        assert (rig.broker.tick(rig.now_ms) == 0) is (len(counts) < 2)
        rig.settle()
        counts.append(len(rig.shown("%RETRY%G_T")))
    assert counts == [2, 4, 5]


def test_what_waits_to_be_given_back_is_bounded(monkeypatch):
    monkeypatch.setattr("regulus.broker.pop.revival.GIVEN_BACK_MAX", 1)
    rig = Rig()
    rig.send("a", "b")
    (_, first), (_, second) = rig.pop()
    assert give_back(rig, first) == 0
    assert give_back(rig, second) == ResponseCode.SYSTEM_BUSY
    rig.run_to(NOW + 10)
    assert bodies(rig.pop()) == ["a"]


def test_in_order_what_is_given_back_frees_its_queue_and_was_not_out():
    rig = Rig()
    rig.broker.steady_ms = NOW
    rig.send("a", "b")
    popped = rig.pop(order=True)
    assert rig.ask(Code.POP_MESSAGE, pop_request(rig, 20_000, order=True).ext) is None
    for _, handle in popped:
        assert not rig.broker.held_requests.has_ready
        assert give_back(rig, handle) == 0
    rig.run_to(NOW + 50)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a", "b"]
    assert notice.reply.answer.ext["orderCountInfo"].endswith("0 0 0")
    rig.run_to(NOW + 31_000)
    answer = rig.ask(Code.POP_MESSAGE, pop_request(rig, order=True).ext)
    assert answer.ext["orderCountInfo"].endswith("0 0 1")       # which was handed out once


def test_in_order_who_was_late_gives_back_nothing_of_the_pop_behind_it():
    rig = Rig()
    rig.send("a")
    ((_, late),) = rig.pop(order=True)
    rig.run_to(NOW + 31_000)
    assert bodies(rig.pop(order=True)) == ["a"]
    give_back(rig, late)
    assert rig.pop(order=True) == []


def test_in_order_an_attempt_of_which_all_was_given_back_is_another_one_when_it_is_repeated():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(order=True, attempt_id="one")
    give_back(rig, handle)
    assert bodies(rig.pop(order=True, attempt_id="one")) == ["a"]
    rig.run_to(NOW + 31_000)
    answer = rig.ask(Code.POP_MESSAGE, pop_request(rig, order=True, attempt_id="two").ext)
    assert answer.ext["orderCountInfo"].endswith("0 0 1")


def test_in_order_a_receipt_that_counts_no_more_gives_nothing_back():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(order=True)
    assert rig.change(handle, 60_000).code == 0         # from here on another receipt counts
    assert give_back(rig, handle) == ResponseCode.NO_MESSAGE
    assert rig.pop(order=True) == []


def test_in_order_a_receipt_with_another_time_gives_nothing_back():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(order=True)
    assert give_back(rig, handle._replace(invisible_time=1)) == ResponseCode.NO_MESSAGE
    assert rig.pop(order=True) == []


def test_in_order_giving_back_what_is_not_out_is_no_success():
    rig = Rig()
    rig.send("a")
    ((_, handle),) = rig.pop(order=True)
    assert rig.ack(handle).code == 0
    assert give_back(rig, handle) == ResponseCode.NO_MESSAGE


def test_a_poll_that_is_withdrawn_takes_nothing():
    rig = Rig()
    rig.broker.steady_ms = NOW
    request = pop_request(rig, 20_000)
    request.opaque = 77
    request_table.handle(request, PEER, rig.broker, NOW)
    held = rig.broker.held_requests
    assert not held.withdraw(PEER.channel, 78)
    assert not held.withdraw(PEER.channel + 1, 77)
    assert held.withdraw(PEER.channel, 77)
    assert not held.withdraw(PEER.channel, 77)
    assert len(held) == 0
    rig.send("a")
    rig.run_to(NOW + 25_000)
    assert not rig.broker.notices
    assert bodies(rig.pop()) == ["a"]


@pytest.mark.parametrize("order", [False, True])
def test_an_answer_of_a_held_poll_that_reaches_nobody_is_given_back(order):
    rig = Rig()
    no_retries(rig)
    rig.broker.steady_ms = NOW
    assert rig.ask(Code.POP_MESSAGE, pop_request(rig, 20_000, order=order).ext) is None
    rig.send("a")
    rig.broker.queue_changed("T", 0)
    rig.run_to(NOW + 50)
    (notice,) = rig.broker.notices
    assert bodies(rig.taken(notice.reply.answer)) == ["a"]
    notice.reply.unsent(rig.now_ms)
    rig.run_to(NOW + 60)
    assert bodies(rig.pop(order=order)) == ["a"]


def test_an_answer_that_waits_for_the_disk_says_what_is_given_back_when_its_asker_has_gone():
    rig = Rig(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    rig.send("a")
    outcome = request_table.handle(pop_request(rig), PEER, rig.broker, NOW)
    assert isinstance(outcome, Reply)
    assert outcome.is_firm
    outcome.unsent(NOW)
    rig.run_to(NOW + 10)
    answer = request_table.handle(pop_request(rig), PEER, rig.broker, NOW).answer
    assert [(message.body, message.reconsume_times) for message, _ in rig.taken(answer)] == [(b"a", 0)]


def test_so_does_one_that_waits_until_its_group_is_saved():
    rig = Rig()
    rig.broker.settings.is_kept = True
    rig.send("a")
    outcome = request_table.handle(pop_request(rig), PEER, rig.broker, NOW)
    assert isinstance(outcome, Reply)
    assert outcome.change > 0
    assert outcome.unsent is not None
