"""Topics of `queue.type=BatchCQ`: what is stored of a batch, and what is refused."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.handlers.send_message import NO_INNER_BATCH
from regulus.broker.state import BrokerState
from regulus.model import sys_flag
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from regulus.wire import message_batch
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    PopMessageRequest,
    PullMessageRequest,
    SendMessageRequest,
    SendMessageResponse,
)
from regulus.wire.row_digest import digest_of
from tests.batch_forms import INNER_FORMS, spelled_out
from tests.stores import open_store
from tests.unit.broker.conftest import START_MS, STEADY_START_MS, Rig

INNER = sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH


@pytest.fixture
def config():
    return BrokerConfig()


@pytest.fixture
def rig(tmp_path, config):
    store = open_store(tmp_path)
    rig = Rig(BrokerState(config, store, now_ms=START_MS, steady_ms=STEADY_START_MS, seed=1), store)
    rig.broker.topics.put(TopicConfig(topic_name="B", read_queue_nums=4, write_queue_nums=4,
                                      attributes={"queue.type": "BatchCQ"}), START_MS)
    rig.broker.topics.put(TopicConfig(topic_name="T"), START_MS)
    yield rig
    store.close()


def request(count, topic="B", properties=None, own=None, **fields):
    header = SendMessageRequest("PG", topic, queue_id=0, batch=True, born_timestamp=START_MS, flag=7,
                                properties={"UNIQ_KEY": "KB"} if properties is None else properties, **fields)
    body = message_batch.encode([Message(topic, b"m%d" % number, properties=own or {"UNIQ_KEY": f"A{number}"})
                                 for number in range(count)])
    return header.ext(), body


def send(rig, count, **fields):
    ext, body = request(count, **fields)
    return rig.ask(RequestCode.SEND_BATCH_MESSAGE, ext, body), body


def pull(rig, offset, topic="B"):
    ext = PullMessageRequest("G", topic, 0, offset, 32, 4, 0, 0, "*", 0, "TAG").ext()
    answer = rig.ask(RequestCode.PULL_MESSAGE, ext)
    return answer.code, int(answer.ext["nextBeginOffset"]), int(answer.ext["maxOffset"])


def test_a_batch_with_a_key_is_one_record_and_its_queue_goes_on_by_its_messages(rig):
    answer, body = send(rig, 3)
    assert answer.code == ResponseCode.SUCCESS
    response = SendMessageResponse.decode(answer)
    assert (response.queue_offset, response.batch_uniq_id, response.transaction_id) == (0, "KB", "KB")
    assert len(response.msg_id) == 32
    again = SendMessageResponse.decode(send(rig, 2)[0])
    assert again.queue_offset == 3
    first, second = rig.stored("B")
    assert (first.body, first.flag, first.sys_flag, first.queue_offset) == (body, 7, INNER, 0)
    assert (second.queue_offset, second.properties["INNER_BASE"], second.properties["INNER_NUM"]) == (3, "3", "2")
    assert [pull(rig, offset) for offset in (0, 4, 5)] == [(0, 5, 5), (0, 5, 5), (19, 5, 5)]
    assert rig.broker.topics.facts["B"].put_nums == 5


@pytest.mark.parametrize("form", INNER_FORMS, ids=[form.name for form in INNER_FORMS])
def test_properties_are_those_that_rocketmq_stores(rig, form):
    header = SendMessageRequest("PG", "B", queue_id=0, batch=True, born_timestamp=START_MS)
    ext = {**header.ext(), "i": spelled_out(form.of_batch)}
    bodies = b"".join(
        (22 + 1 + len(own)).to_bytes(4, "big") + bytes(12) + b"\0\0\0\1x" + len(own).to_bytes(2, "big") + own
        for own in (spelled_out(each).encode() for each in form.own))
    assert rig.ask(RequestCode.SEND_BATCH_MESSAGE, ext, bodies).code == ResponseCode.SUCCESS
    records = [bytes(rig.store.record_bytes(unit.physical_offset)) for unit in rig.store.queue_units("B", 0, 0, 10)]
    assert [record.endswith(spelled_out(text).encode()) for record, text in zip(records, form.stored, strict=True)] \
        == [True] * len(form.stored)
    assert all(int.from_bytes(record[-2 - len(spelled_out(text).encode()):][:2], "big")
               == len(spelled_out(text).encode()) for record, text in zip(records, form.stored, strict=True))


def test_other_messages_have_a_record_each_there(rig):
    assert rig.send("B", b"alone").code == ResponseCode.SUCCESS
    assert send(rig, 2, properties={})[0].code == ResponseCode.SUCCESS
    assert send(rig, 2)[0].code == ResponseCode.SUCCESS
    assert [(each.queue_offset, each.sys_flag) for each in rig.stored("B")] == [(0, 0), (1, 0), (2, 0), (3, INNER)]
    assert pull(rig, 0)[1:] == (5, 5)


def test_rows_of_a_sink_have_a_record_each_there(rig):
    answer, _ = send(rig, 2, own={"KEYS": "k"}, properties={
        "UNIQ_KEY": "KB", "SINK": "S/0", "SEQ": "7/0", "SINK_DIGEST": str(digest_of([]))})
    assert answer.code == ResponseCode.SUCCESS
    assert [(each.queue_offset, each.sys_flag, each.properties["SEQ"]) for each in rig.stored("B")] == [
        (0, 0, "7/0"), (1, 0, "7/1")]


@pytest.mark.parametrize("config", [BrokerConfig(flush_disk_type="SYNC_FLUSH")])
@pytest.mark.parametrize(("wait", "is_awaited"), [({}, True), ({"WAIT": "true"}, True), ({"WAIT": "false"}, False)])
def test_the_answer_to_one_waits_for_the_disk_unless_its_sender_does_not(rig, wait, is_awaited):
    outcome = rig.handle(RequestCode.SEND_BATCH_MESSAGE, *request(2, properties={"UNIQ_KEY": "KB", **wait}))
    assert outcome.durable_at == (rig.store.commit_log_max_offset() if is_awaited else 0)


@pytest.mark.parametrize("config", [BrokerConfig(max_message_size=100)])
def test_one_is_as_large_as_a_message_at_most(rig):
    assert send(rig, 2)[0].code == ResponseCode.SUCCESS
    assert send(rig, 3)[0].code == ResponseCode.MESSAGE_ILLEGAL
    assert len(rig.stored("B")) == 1


def test_what_the_store_refuses_is_refused(rig):
    """Its files of the log are small."""
    answer, _ = send(rig, 200)
    assert (answer.code, "queueOffset" in (answer.ext or {})) == (ResponseCode.MESSAGE_ILLEGAL, False)
    assert rig.stored("B") == []
    assert rig.broker.topics.facts["B"].put_nums == 0


def test_in_other_topics_batches_are_taken_apart(rig):
    assert send(rig, 2, topic="T")[0].code == ResponseCode.SUCCESS
    assert [each.body for each in rig.stored("T")] == [b"m0", b"m1"]


@pytest.mark.parametrize("topic", ["B", "T"])
@pytest.mark.parametrize("fields", [{"sys_flag": INNER}, {"sys_flag": sys_flag.INNER_BATCH},
                                    {"properties": {"UNIQ_KEY": "K", "INNER_NUM": "9"}}])
def test_no_sender_says_that_a_message_is_an_inner_batch(rig, topic, fields):
    answer = rig.send(topic, b"forged", **fields)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "a sender must not mark" in answer.remark
    assert rig.stored(topic) == []


@pytest.mark.parametrize("topic", ["B", "T"])
def test_nor_does_a_sender_of_a_batch(rig, topic):
    for properties in ({"UNIQ_KEY": "K"}, {}):
        answer, _ = send(rig, 2, topic=topic, properties=properties, sys_flag=INNER)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    answer, _ = send(rig, 2, topic=topic, properties={"INNER_NUM": "9", "INNER_BASE": "0"})
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL, NO_INNER_BATCH)
    assert rig.stored(topic) == []


@pytest.mark.parametrize("topic", ["B", "T"])
@pytest.mark.parametrize("flag", [sys_flag.TRANSACTION_PREPARED, sys_flag.TRANSACTION_COMMIT,
                                  sys_flag.TRANSACTION_ROLLBACK])
def test_no_batch_is_of_a_transaction(rig, topic, flag):
    """Nobody would commit it, and nobody would see it."""
    answer, _ = send(rig, 2, topic=topic, sys_flag=flag)
    assert (answer.code, answer.remark) == (ResponseCode.MESSAGE_ILLEGAL,
                                            "a batch can be neither delayed nor transactional")
    assert rig.store.commit_log_max_offset() == 0


@pytest.mark.parametrize(("count", "own", "said"), [
    (0, None, "the batch has 0 messages"), (2, {"DELAY": "3"}, "neither delayed"), (2, {"SINK": "s/0"}, "SINK"),
    (32768, {}, "the batch has 32768 messages, and one record has 1 to 32767")])
def test_what_no_record_can_have_is_refused(rig, count, own, said):
    answer, _ = send(rig, count, own=own if own is not None else {"UNIQ_KEY": "A"})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert said in answer.remark
    assert rig.stored("B") == []


def test_a_batch_is_not_sent_back_whole(rig):
    send(rig, 3)
    header = ConsumerSendMsgBackRequest(offset=0, group="G", delay_level=0, origin_topic="B", origin_msg_id="x",
                                        unit_mode=False, broker_name="b")
    answer = rig.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext())
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.stored("SCHEDULE_TOPIC_XXXX", 2) == []


def test_it_cannot_be_popped(rig):
    send(rig, 3)
    header = PopMessageRequest(consumer_group="G", topic="B", queue_id=0, max_msg_nums=32, invisible_time=10_000,
                               poll_time=0, born_time=rig.now_ms, init_mode=0, exp_type="TAG", exp="*")
    answer = rig.ask(RequestCode.POP_MESSAGE, header.ext())
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "queue.type=BatchCQ, and cannot be popped" in answer.remark


def test_a_topic_that_is_made_anew_may_be_of_the_other_kind(rig):
    send(rig, 3)
    rig.broker.topics.delete("B", rig.now_ms)
    rig.store.delete_topic("B")
    rig.broker.topics.put(TopicConfig(topic_name="B"), rig.now_ms)
    assert send(rig, 2)[0].code == ResponseCode.SUCCESS
    assert [(each.queue_offset, each.sys_flag) for each in rig.stored("B")] == [(0, 0), (1, 0)]
