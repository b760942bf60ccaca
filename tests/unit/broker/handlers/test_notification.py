"""Who asks whether there is something to pop is told what a pop would find, and takes nothing."""

from dataclasses import replace

import pytest

from regulus.broker import request_table
from regulus.broker.outcome import Reply
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.record import message_record
from regulus.testing.memory_store import MemoryStore
from regulus.wire.codes import RequestCode as Code
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import NotificationRequest, PeekMessageRequest, PollingInfoRequest, PopMessageRequest
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.broker.pop_rig import NOW, PEER, Rig, bodies


def told(rig: Rig, poll: int = 10_000, queue_id: int = -1, **fields: object) -> dict[str, str] | None:
    """None when it is held."""
    answer = rig.ask(Code.NOTIFICATION, NotificationRequest(
        consumer_group="G", topic="T", queue_id=queue_id, poll_time=poll, born_time=rig.now_ms, **fields).ext())
    return None if answer is None else answer.ext


THERE_IS = {"hasMsg": "true", "pollingFull": "false"}
THERE_IS_NONE = {"hasMsg": "false", "pollingFull": "false"}


def popped_in_order(rig: Rig, attempt: str) -> list[str]:
    answer = rig.ask(Code.POP_MESSAGE, PopMessageRequest(
        consumer_group="G", topic="T", queue_id=0, max_msg_nums=1, invisible_time=30_000, poll_time=0,
        born_time=rig.now_ms, init_mode=0, order=True, attempt_id=attempt).ext())
    assert answer is not None
    return bodies(rig.taken(answer))


def test_one_queue_is_looked_at_alone():
    rig = Rig()
    rig.send("a", queue_id=1)
    assert told(rig, queue_id=0, poll=0) == THERE_IS_NONE
    assert told(rig, queue_id=1, poll=0) == THERE_IS
    assert told(rig, poll=0) == THERE_IS


def test_in_order_a_queue_of_which_a_message_is_out_has_none_but_for_a_repeated_attempt():
    rig = Rig()
    rig.send("a", "b")
    assert popped_in_order(rig, "first") == ["a"]
    assert told(rig, poll=0, order=True) == THERE_IS_NONE
    assert told(rig, poll=0, order=True, attempt_id="first") == THERE_IS
    rig.run_to(NOW + 30_000)
    assert told(rig, poll=0, order=True) == THERE_IS


def test_in_order_retries_are_nothing_to_pop():
    """A pop in order does not look there."""
    rig = Rig()
    rig.send("a")
    rig.pop(invisible=10_000)
    rig.run_to(NOW + 12_000)
    assert told(rig, poll=0) == THERE_IS
    assert told(rig, poll=0, order=True) == THERE_IS_NONE


def test_no_more_wait_than_may():
    rig = Rig()
    rig.broker.held_requests.count_max = 0
    assert told(rig) == {"hasMsg": "false", "pollingFull": "true"}


class Emptied(MemoryStore):
    """All that was in it is gone with old files."""

    def min_offset(self, topic: str, queue_id: int) -> int:
        return self.max_offset(topic, queue_id)


def test_what_is_gone_with_old_files_is_nothing_to_pop():
    rig = Rig(Emptied())
    rig.send("a")
    assert told(rig, poll=0) == THERE_IS_NONE


def aged(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queues have lost their first message."""
    monkeypatch.setattr(rig.store, "min_offset", lambda topic, queue_id: 1)


def test_a_group_that_is_let_begin_gets_what_is_sent_from_then_on(monkeypatch):
    rig = Rig()
    rig.send("a", "b", "c")
    rig.send("x", "y", queue_id=1)
    aged(rig, monkeypatch)
    assert told(rig, poll=0, init_mode=1) == THERE_IS
    assert rig.broker.consumer_offsets.queues("G", "T") == {0: 2, 1: 1}
    rig.send("d", "e")
    rig.send("z", queue_id=1)
    assert sorted(bodies(rig.pop())) == ["c", "d", "e", "y", "z"]


def test_it_has_the_place_that_a_pop_would_give_it(monkeypatch):
    rig = Rig()
    rig.send("a", "b", "c")
    assert told(rig, poll=0, init_mode=1, queue_id=0) == THERE_IS
    assert rig.broker.consumer_offsets.queues("G", "T") == {0: 0}       # a young queue, whose first message is there
    aged(rig, monkeypatch)
    assert told(rig, poll=0, init_mode=1) == THERE_IS
    assert rig.broker.consumer_offsets.queues("G", "T") == {0: 0, 1: 0}


@pytest.mark.parametrize("fields", [{}, {"init_mode": 0}], ids=["asked as RocketMQ's do", "from the first message"])
def test_a_group_that_is_not_let_begin_at_the_end_gets_no_place(fields, monkeypatch):
    """It may begin at the first message yet."""
    rig = Rig()
    rig.send("a", "b")
    aged(rig, monkeypatch)
    told(rig, poll=0, **fields)
    assert rig.broker.consumer_offsets.queues("G", "T") == {}


def test_a_group_has_no_place_where_nothing_is_popped():
    """It may pull there, and begins as it says itself then."""
    def refusal(rig: Rig) -> RemotingCommand:
        answer = rig.ask(Code.NOTIFICATION, NotificationRequest(
            consumer_group="G", topic="T", queue_id=-1, poll_time=0, born_time=NOW, init_mode=1).ext())
        assert rig.broker.consumer_offsets.queues("G", "T") == {}
        return answer

    rig = Rig()
    rig.broker.topics.put(TopicConfig(topic_name="T", attributes={"queue.type": "BatchCQ"}), NOW)
    assert refusal(rig).code == ResponseCode.NO_PERMISSION
    rig = Rig()
    rig.broker.config = replace(rig.broker.config, timer_wheel_enable=False)
    assert refusal(rig).code == ResponseCode.SYSTEM_ERROR


def test_a_slave_lets_no_group_begin(monkeypatch):
    """Its places are its master's."""
    rig = Rig()
    rig.send("a")
    for fields, code in (({}, ResponseCode.SUCCESS), ({"init_mode": 1}, ResponseCode.SERVICE_NOT_AVAILABLE)):
        header = NotificationRequest(consumer_group="G", topic="T", queue_id=-1, poll_time=0, born_time=NOW, **fields)
        request = RemotingCommand.request(int(Code.NOTIFICATION), header.ext())
        outcome = request_table.handle_as_slave(request, PEER, rig.broker, NOW)
        assert isinstance(outcome, Reply)
        assert outcome.answer.code == code
        assert rig.broker.consumer_offsets.queues("G", "T") == {}


REQUESTS = [(Code.NOTIFICATION, NotificationRequest, {"poll_time": 10_000, "born_time": NOW}),
            (Code.PEEK_MESSAGE, PeekMessageRequest, {"max_msg_nums": 1}), (Code.POLLING_INFO, PollingInfoRequest, {})]


@pytest.mark.parametrize(("code", "request_of", "fields"), REQUESTS, ids=lambda each: getattr(each, "name", ""))
def test_nobody_looks_where_nothing_may_be_read(code, request_of, fields):
    rig = Rig()
    rig.send("a")

    def answered(topic: str = "T", queue_id: int = -1) -> int:
        return rig.ask(code, request_of(consumer_group="G", topic=topic, queue_id=queue_id, **fields).ext()).code

    assert answered() == 0
    assert answered(topic="U") == ResponseCode.TOPIC_NOT_EXIST
    assert answered(queue_id=2) == ResponseCode.INVALID_PARAMETER
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G", consume_enable=False), NOW)
    assert answered() == ResponseCode.NO_PERMISSION
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="G"), NOW)
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=2), NOW)
    assert answered() == ResponseCode.NO_PERMISSION


def test_no_more_messages_are_looked_at_than_were_asked_for_of_all_queues():
    rig = Rig()
    rig.send("a", "b", queue_id=0)
    rig.send("c", "d", queue_id=1)
    answer = rig.ask(Code.PEEK_MESSAGE, PeekMessageRequest(consumer_group="G", topic="T", queue_id=-1,
                                                           max_msg_nums=3).ext())
    assert [message.body for message in message_record.decode_all(answer.body)] == [b"a", b"b", b"c"]
    assert answer.ext["restNum"] == "1"


def test_what_is_looked_at_of_all_queues_is_no_more_than_a_client_reads():
    rig = Rig()
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8), NOW)
    for queue_id in range(8):
        rig.send("a" * 2_200_000, queue_id=queue_id)
    answer = rig.ask(Code.PEEK_MESSAGE, PeekMessageRequest(consumer_group="G", topic="T", queue_id=-1,
                                                           max_msg_nums=32).ext())
    assert len(message_record.decode_all(answer.body)) == 1
    assert answer.ext["restNum"] == "7"


@pytest.mark.parametrize("count", [0, 33])
def test_so_many_messages_are_not_looked_at(count):
    rig = Rig()
    rig.send("a")
    assert rig.ask(Code.PEEK_MESSAGE, PeekMessageRequest(consumer_group="G", topic="T", queue_id=-1, max_msg_nums=count)
                   .ext()).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(("code", "request_of", "fields"), REQUESTS[:2], ids=lambda each: getattr(each, "name", ""))
def test_nobody_looks_into_the_log_of_a_slave_that_differs_from_its_masters(code, request_of, fields):
    rig = Rig()
    rig.send("a")
    rig.broker.log_compared("its log has other messages at 0")
    request = RemotingCommand.request(int(code), request_of(consumer_group="G", topic="T", queue_id=0, **fields).ext())
    outcome = request_table.handle_as_slave(request, PEER, rig.broker, NOW)
    assert isinstance(outcome, Reply)
    assert outcome.answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
