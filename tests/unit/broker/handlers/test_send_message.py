"""What a broker answers to sends, and what it stores."""

import pytest

from regulus.broker.outcome import NO_REPLY
from regulus.model.message import Message
from regulus.model.message_id import parse_offset_message_id
from regulus.model.peer import Peer
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire import message_batch, recall_handle
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import SendMessageRequest, SendMessageResponse


def test_a_message_is_stored_as_sent_and_marked_by_the_broker(rig):
    response = rig.send(body=b"hello", queue_id=2, flag=7, properties={"KEYS": "a b", "UNIQ_KEY": "K1", "WAIT": "true"})
    assert response.code == ResponseCode.SUCCESS
    (message,) = rig.stored("TopicA", 2)
    assert (message.body, message.flag, message.queue_offset) == (b"hello", 7, 0)
    assert message.born_host == rig.peer.remote
    assert message.properties == {"KEYS": "a b", "UNIQ_KEY": "K1", "WAIT": "true", "MSG_REGION": "DefaultRegion",
                                  "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def test_the_answer_leads_back_to_the_message(rig):
    rig.send()
    answer = SendMessageResponse.decode(rig.send(queue_id=0, properties={"UNIQ_KEY": "K2"}))
    host, physical_offset = parse_offset_message_id(answer.msg_id)
    assert host == rig.peer.local
    assert rig.store.look_message(physical_offset).properties["UNIQ_KEY"] == "K2"
    assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (0, 1, "K2")
    assert (answer.region, answer.trace_on) == ("DefaultRegion", True)


def test_a_configured_address_takes_the_place_of_the_one_that_was_reached(make_rig):
    rig = make_rig(broker_ip1="192.0.2.1", listen_port=12345)
    answer = SendMessageResponse.decode(rig.send())
    assert parse_offset_message_id(answer.msg_id)[0] == bytes((192, 0, 2, 1)) + (12345).to_bytes(4, "big")


def test_a_missing_unique_key_is_made_and_told(rig):
    first, second = (SendMessageResponse.decode(rig.send(properties={})).transaction_id for _ in range(2))
    assert len(first) == 32
    assert first != second
    assert [message.message_id for message in rig.stored("TopicA")] == [first, second]


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_both_spellings_of_a_send_do_the_same(rig, code):
    assert rig.send(code=code).code == ResponseCode.SUCCESS
    assert len(rig.stored("TopicA")) == 1


def test_a_one_way_send_is_stored_and_not_answered(rig):
    header = SendMessageRequest("PG", "TopicA", queue_id=0)
    assert rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext(), b"x", oneway=True) is NO_REPLY
    assert len(rig.stored("TopicA")) == 1


def test_a_refused_one_way_send_is_not_answered_either(rig):
    header = SendMessageRequest("PG", "no topic", queue_id=0)
    assert rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext(), b"x", oneway=True) is NO_REPLY


def test_any_queue_is_one_that_can_be_written(rig):
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=3), rig.now_ms)
    used = {SendMessageResponse.decode(rig.send("T", queue_id=-1)).queue_id for _ in range(50)}
    assert used == {0, 1, 2}


def test_a_stale_pop_receipt_is_not_stored(rig):
    rig.send(properties={"POP_CK": "old", "UNIQ_KEY": "K"})
    assert "POP_CK" not in rig.stored("TopicA")[0].properties


# --- topics that make themselves -------------------------------------------------------------------------------------


def test_a_new_topic_is_made_after_the_default_topic(rig):
    changes = rig.broker.registration_changed
    assert rig.send("New", default_topic_queue_nums=6).code == ResponseCode.SUCCESS
    config = rig.broker.topics.get("New")
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (6, 6, 6)
    assert rig.broker.registration_changed != changes
    rig.send("Wide", default_topic_queue_nums=100)
    assert rig.broker.topics.get("Wide").write_queue_nums == 8


def test_without_auto_creation_an_unknown_topic_does_not_exist(make_rig):
    rig = make_rig(auto_create_topic_enable=False)
    response = rig.send("New")
    assert response.code == ResponseCode.TOPIC_NOT_EXIST
    assert response.remark == "topic[New] not exist, apply first please!"
    assert "New" not in rig.broker.topics


def test_a_topic_that_is_not_inherited_cannot_be_a_pattern(rig):
    rig.send("First")
    assert rig.send("Second", default_topic="First").code == ResponseCode.TOPIC_NOT_EXIST


# --- refusals --------------------------------------------------------------------------------------------------------


def test_every_refusal_carries_region_and_trace_switch(rig):
    response = rig.send("SCHEDULE_TOPIC_XXXX")
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.ext == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


@pytest.mark.parametrize(("topic", "code"), [
    ("with space", 29), ("", 29), ("a" * 128, 29), ("SCHEDULE_TOPIC_XXXX", 16), ("RMQ_SYS_TRANS_HALF_TOPIC", 16),
    ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 16), ("TRANS_CHECK_MAX_TIME_TOPIC", 16), ("SELF_TEST_TOPIC", 16),
    ("OFFSET_MOVED_EVENT", 16)])
def test_topics_that_take_no_message(rig, topic, code):
    assert rig.send(topic).code == code
    assert rig.store.commit_log_max_offset() == 0


def test_a_topic_without_write_permission_takes_no_message(rig):
    rig.broker.topics.put(TopicConfig(topic_name="Closed", perm=4), rig.now_ms)
    response = rig.send("Closed")
    assert response.code == ResponseCode.NO_PERMISSION
    assert response.remark == "the topic[Closed] sending message is forbidden"


def test_a_read_only_broker_refuses_order_topics(make_rig):
    rig = make_rig(broker_permission=4)
    rig.broker.topics.put(TopicConfig(topic_name="Order", order=True), rig.now_ms)
    assert rig.send("Order").code == ResponseCode.NO_PERMISSION
    assert rig.send("Plain").code == ResponseCode.SUCCESS


def test_a_broker_that_does_not_accept_yet_says_until_when(make_rig):
    rig = make_rig(start_accept_send_request_time_stamp=1_700_000_000_500)
    assert rig.send().code == ResponseCode.SYSTEM_ERROR
    rig.now_ms += 500
    assert rig.send().code == ResponseCode.SUCCESS


def test_a_queue_that_the_topic_does_not_have_is_refused(rig):
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=3), rig.now_ms)
    assert rig.send("T", queue_id=2).code == ResponseCode.SUCCESS
    assert rig.send("T", queue_id=3).code == ResponseCode.INVALID_PARAMETER


def test_a_body_over_the_limit_is_refused(make_rig):
    rig = make_rig(max_message_size=10)
    assert rig.send(body=b"x" * 10).code == ResponseCode.SUCCESS
    assert rig.send(body=b"x" * 11).code == ResponseCode.MESSAGE_ILLEGAL


def test_a_compacted_topic_wants_keys(rig):
    rig.broker.topics.put(TopicConfig(topic_name="C", attributes={"cleanup.policy": "COMPACTION"}), rig.now_ms)
    assert rig.send("C").code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.send("C", properties={"KEYS": "k", "UNIQ_KEY": "K"}).code == ResponseCode.SUCCESS


def test_a_full_disk_is_passed_on_with_its_reason(rig):
    rig.store.refusal = "the disk is full"
    response = rig.send()
    assert (response.code, response.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is full")
    assert rig.broker.storing.put_failed_times == 1


def test_properties_over_the_limit_are_refused(rig):
    assert rig.send(properties={"a": "x" * 32767}).code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.store.commit_log_max_offset() == 0


def test_a_message_of_an_open_transaction_is_stored_among_the_halves(rig):
    properties = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U1", "DELAY": "3"}
    answer = SendMessageResponse.decode(rig.send("Hidden", queue_id=2, sys_flag=4, properties=properties))
    assert (answer.queue_id, answer.queue_offset, answer.transaction_id) == (2, 0, "U1")
    (half,) = rig.stored("RMQ_SYS_TRANS_HALF_TOPIC")
    assert (half.topic, half.queue_id, half.sys_flag) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0)
    assert half.properties.items() >= {
        "REAL_TOPIC": "Hidden", "REAL_QID": "2", "__transactionId__": "U1", "TRAN_MSG": "true", "DELAY": "3"}.items()
    assert rig.stored("Hidden", 2) == []
    assert rig.broker.topics.facts["RMQ_SYS_TRANS_HALF_TOPIC"].put_nums == 1


@pytest.mark.parametrize(("settings", "fields", "code"), [
    ({"reject_transaction_message": True}, {"properties": {"TRAN_MSG": "true", "PGROUP": "PG"}}, 16),
    ({}, {"properties": {"TRAN_MSG": "true"}}, 13),
    ({}, {"properties": {"TRAN_MSG": "true", "PGROUP": "PG", "SINK": "S/0", "SEQ": "1/0"}}, 13),
    ({}, {"sys_flag": 4}, 13), ({}, {"sys_flag": 8}, 13)])
def test_what_cannot_be_a_half_is_refused_and_not_stored(make_rig, settings, fields, code):
    rig = make_rig(**settings)
    response = rig.send(**fields)
    assert (response.code, bool(response.remark)) == (code, True)
    assert rig.store.commit_log_max_offset() == 0


def test_a_retry_of_a_message_that_was_transactional_is_no_half(rig):
    rig.broker.subscription_groups.find("CG", 0)
    rig.send("%RETRY%CG", reconsume_times=1, sys_flag=4, properties={"TRAN_MSG": "true", "PGROUP": "PG", "DELAY": "1"})
    rig.run(2_000)
    assert [message.sys_flag for message in rig.stored("%RETRY%CG")] == [0]


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.parametrize("text", ["soon", "1.5", "9" * 15, "\u0663"])
def test_a_time_that_is_none_or_beyond_the_limit_is_refused_unless_a_level_counts(rig, name, text):
    answer = rig.send(properties={name: text})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert ("timerMaxDelaySec" if text.isascii() and text.isdigit() else "is not a whole number") in answer.remark
    assert rig.send(properties={name: text, "DELAY": "1"}).code == ResponseCode.SUCCESS


def test_a_time_of_its_own_parks_a_message_and_tells_by_what_it_is_taken_back(rig):
    answer = rig.send(properties={"TIMER_DELAY_SEC": "5", "UNIQ_KEY": "K"})
    assert answer.code == ResponseCode.SUCCESS
    (waiting,) = rig.stored("rmq_sys_wheel_timer")
    out_ms = int(waiting.properties["TIMER_OUT_MS"])
    assert (waiting.properties["REAL_TOPIC"], out_ms % 1000) == ("TopicA", 0)
    assert recall_handle.decode(answer.ext["recallHandle"]) == ("TopicA", "broker-a", out_ms + 1, "K")


def test_whoever_sends_to_a_topic_takes_out_its_messages_alone(rig):
    for key, code in (("TopicA+K", ResponseCode.SUCCESS), ("TopicB+K", ResponseCode.MESSAGE_ILLEGAL),
                      ("TopicA", ResponseCode.MESSAGE_ILLEGAL)):
        assert rig.send(properties={"TIMER_DELAY_SEC": "5", "TIMER_DEL_UNIQKEY": key}).code == code


def test_nobody_sends_to_the_topic_of_timers(rig):
    """Where it stands who gets a message, and when."""
    for topic in ("rmq_sys_wheel_timer",):
        answer = rig.send(topic, properties={"TIMER_OUT_MS": "1", "REAL_TOPIC": "TopicA", "REAL_QID": "0"})
        assert answer.code == ResponseCode.NO_PERMISSION


def test_a_header_that_lacks_a_field_is_an_error_that_names_it(rig):
    response = rig.ask(RequestCode.SEND_MESSAGE_V2, {"b": "TopicA"}, b"x")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "lacks the field a" in response.remark


def test_a_code_that_no_broker_knows_is_not_supported(rig):
    response = rig.ask(31999)
    assert (response.code, response.remark) == (3, " request type 31999 not supported")


# --- durability ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flush", "wait", "is_awaited"), [
    ("ASYNC_FLUSH", "true", False), ("SYNC_FLUSH", "true", True), ("SYNC_FLUSH", "false", False),
    ("SYNC_FLUSH", None, True)])
def test_the_answer_waits_for_the_disk_only_where_both_sides_want_it(make_rig, flush, wait, is_awaited):
    rig = make_rig(flush_disk_type=flush)
    properties = {"UNIQ_KEY": "K"} | ({"WAIT": wait} if wait else {})
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties=properties)
    outcome = rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext(), b"x")
    assert outcome.durable_at == (rig.store.commit_log_max_offset() if is_awaited else 0)


# --- delay -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "queue"), [("1", 0), ("3", 2), ("18", 17), ("99", 17)])
def test_a_delayed_message_is_parked_at_its_level(rig, level, queue):
    answer = SendMessageResponse.decode(rig.send(queue_id=3, properties={"DELAY": level, "UNIQ_KEY": "K"}))
    assert answer.queue_id == 3
    (message,) = rig.stored("SCHEDULE_TOPIC_XXXX", queue)
    assert message.properties["REAL_TOPIC"] == "TopicA"
    assert message.properties["REAL_QID"] == "3"
    assert message.properties["DELAY"] == level
    assert not rig.stored("TopicA", 3)


@pytest.mark.parametrize("level", ["0", "-1", "x", "99999999999"])
def test_a_level_that_is_none_delays_nothing(rig, level):
    rig.send(properties={"DELAY": level, "UNIQ_KEY": "K"})
    assert len(rig.stored("TopicA")) == 1


# --- retry topics ----------------------------------------------------------------------------------------------------


def test_a_retry_topic_is_made_with_one_queue(rig):
    assert rig.send("%RETRY%CG").code == ResponseCode.SUCCESS
    assert rig.broker.topics.get("%RETRY%CG").write_queue_nums == 1


def test_a_retry_for_an_unknown_group_is_refused(make_rig):
    rig = make_rig(auto_create_subscription_group=False)
    assert rig.send("%RETRY%CG").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "%RETRY%CG" not in rig.broker.topics


@pytest.mark.parametrize(("times", "limit", "version", "dead"), [
    (16, None, 479, False), (17, None, 479, True), (3, 2, 479, True), (2, 2, 479, False), (3, 2, 100, False)])
def test_a_retry_over_its_limit_is_a_dead_letter(rig, times, limit, version, dead):
    fields = {} if limit is None else {"max_reconsume_times": limit}
    response = rig.send("%RETRY%CG", reconsume_times=times, version=version, **fields,
                        properties={"RETRY_TOPIC": "TopicA", "ORIGIN_MESSAGE_ID": "ID", "DELAY": "3", "UNIQ_KEY": "K"})
    assert response.code == ResponseCode.SUCCESS
    assert len(rig.stored("%DLQ%CG")) == dead
    assert len(rig.stored("SCHEDULE_TOPIC_XXXX", 2)) == (not dead)
    if dead:
        (letter,) = rig.stored("%DLQ%CG")
        assert letter.reconsume_times == times
        assert letter.properties["DLQ_ORIGIN_TOPIC"] == "TopicA"
        assert letter.properties["DLQ_ORIGIN_MESSAGE_ID"] == "ID"
        assert rig.broker.topics.get("%DLQ%CG").write_queue_nums == 1


def test_what_a_group_that_consumes_in_order_retries_is_a_dead_letter(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG"), rig.now_ms)
    rig.broker.queue_locks.lock("CG", "c1", [("TopicA", "broker-a", 0)], rig.now_ms, 1)
    rig.send("%RETRY%CG", reconsume_times=1, properties={"RETRY_TOPIC": "TopicA", "UNIQ_KEY": "K"})
    assert len(rig.stored("%DLQ%CG")) == 1


def test_a_dead_letter_waits_for_the_disk_whatever_the_client_said(make_rig):
    rig = make_rig(flush_disk_type="SYNC_FLUSH")
    header = SendMessageRequest("PG", "%RETRY%CG", queue_id=0, reconsume_times=17, properties={"WAIT": "false"})
    outcome = rig.handle(RequestCode.SEND_MESSAGE_V2, header.ext(), b"x")
    assert outcome.durable_at == rig.store.commit_log_max_offset()


# --- batches ---------------------------------------------------------------------------------------------------------


def batch(*keys: str) -> list[Message]:
    return [Message("TopicA", key.encode(), properties={"UNIQ_KEY": key}, flag=n) for n, key in enumerate(keys)]


def test_a_batch_becomes_one_record_a_message(rig):
    rig.send()
    answer = SendMessageResponse.decode(rig.send_batch(batch("a", "b", "c")))
    stored = rig.stored("TopicA")[1:]
    assert [(m.body, m.flag, m.message_id) for m in stored] == [(b"a", 0, "a"), (b"b", 1, "b"), (b"c", 2, "c")]
    assert all(m.properties["WAIT"] == "true" and m.properties["CLUSTER"] == "DefaultCluster" for m in stored)
    ids = answer.msg_id.split(",")
    assert [parse_offset_message_id(each)[1] for each in ids] == [m.physical_offset for m in stored]
    assert answer.queue_offset == 1


def test_batches_that_are_refused(rig):
    rig.send("%RETRY%CG")
    size = rig.store.commit_log_max_offset()
    assert rig.send_batch(batch("a"), "%RETRY%CG").code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.send_batch([]).code == ResponseCode.MESSAGE_ILLEGAL
    for name in ("DELAY", "TRAN_MSG", "TIMER_DELAY_MS"):
        messages = [*batch("a"), Message("TopicA", b"x", properties={name: "1"})]
        assert rig.send_batch(messages).code == ResponseCode.MESSAGE_ILLEGAL
        whole = SendMessageRequest("PG", "TopicA", queue_id=0, properties={name: "1"}, batch=True)
        answer = rig.ask(RequestCode.SEND_BATCH_MESSAGE, whole.ext(), message_batch.encode(batch("a")))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert rig.store.commit_log_max_offset() == size


def test_a_batch_cut_short_is_refused(rig):
    header = SendMessageRequest("PG", "TopicA", queue_id=0, batch=True)
    response = rig.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), b"\0\0\0\x50abc")
    assert response.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL)


# --- hosts -----------------------------------------------------------------------------------------------------------


def test_hosts_of_either_size_are_marked(rig):
    wide = Peer(2, b"\x20" * 16 + b"\0\0\0\x50", rig.peer.local)
    rig.send(peer=wide, sys_flag=0x20)
    (message,) = rig.stored("TopicA")
    assert message.sys_flag & 0x30 == 0x10
    assert message.born_host == wide.remote


def test_a_client_cannot_claim_a_wide_host(rig):
    rig.send(sys_flag=0x31)
    assert rig.stored("TopicA")[0].sys_flag == 1


def test_sends_are_counted_by_topic(rig):
    rig.send()
    rig.send_batch(batch("a", "b"))
    facts = rig.broker.topics.facts["TopicA"]
    assert facts.put_nums == 3
    assert facts.put_size == rig.store.commit_log_max_offset()


def sent(rig, topic: str) -> dict[str, int]:
    """Sends to the topic by message type."""
    return {kind: counts.nums for kind, counts in rig.broker.topics.facts[topic].sent.items() if counts.nums}


@pytest.mark.parametrize(("properties", "topic", "kind"), [
    ({}, "TopicA", "normal"), ({"__SHARDINGKEY": "a"}, "TopicA", "fifo"),
    ({"DELAY": "3"}, "SCHEDULE_TOPIC_XXXX", "delay"), ({"TIMER_DELAY_SEC": "9"}, "rmq_sys_wheel_timer", "delay"),
    ({"__SHARDINGKEY": "a", "DELAY": "3"}, "SCHEDULE_TOPIC_XXXX", "fifo"),
    ({"TRAN_MSG": "true", "PGROUP": "PG"}, "RMQ_SYS_TRANS_HALF_TOPIC", "transaction")])
def test_sends_are_counted_where_they_are_stored_by_what_their_properties_say(rig, properties, topic, kind):
    rig.send(properties={"UNIQ_KEY": "K", **properties})
    assert sent(rig, topic) == {kind: 1}
    assert topic == "TopicA" or sent(rig, "TopicA") == {}


def test_what_nobody_sent_counts_as_stored_and_not_as_sent(rig):
    rig.send(properties={"UNIQ_KEY": "K", "TRAN_MSG": "true", "PGROUP": "PG"})
    (half,) = rig.stored("RMQ_SYS_TRANS_HALF_TOPIC")
    assert rig.broker.transactions.commit(half, rig.now_ms).start > 0
    assert (rig.broker.topics.facts["TopicA"].put_nums, sent(rig, "TopicA")) == (1, {})


def test_a_message_of_a_delay_level_counts_as_sent_again_when_it_is_delivered(rig):
    rig.send(properties={"UNIQ_KEY": "K", "DELAY": "1"})
    rig.now_ms += 2_000
    rig.broker.delay_schedule.tick(rig.now_ms)
    assert sent(rig, "TopicA") == {"delay": 1}
    assert rig.broker.delay_schedule.delivered_nums == 1
    assert rig.broker.delay_schedule.delivered_size > 0


# --- messages with a priority ----------------------------------------------------------------------------------------

PRIORITY = "_SYS_MSG_PRIORITY_"


def put_topic(rig, **fields):
    rig.broker.topics.put(TopicConfig(topic_name="T", **{"read_queue_nums": 8, "write_queue_nums": 8, **fields}),
                          rig.now_ms)


def sent_to(rig, properties, **fields):
    """The queue that the answer names, in which the message is stored, and its properties there."""
    answer = SendMessageResponse.decode(rig.send("T", properties={"UNIQ_KEY": "K", **properties}, **fields))
    (message,) = rig.stored("T", answer.queue_id)
    assert message.queue_offset == answer.queue_offset
    return answer.queue_id, message.properties


@pytest.mark.parametrize("attributes", [{}, {"message.type": "PRIORITY"}, {"message.type": "FIFO"}])
@pytest.mark.parametrize(("priority", "asked", "queue_id"), [
    ("0", 5, 0), ("3", 5, 3), ("7", 5, 7), ("9", 5, 7), ("2147483647", 5, 7), ("3", -1, 3)])
def test_a_priority_chooses_the_queue_in_any_topic(rig, attributes, priority, asked, queue_id):
    put_topic(rig, attributes=attributes)
    found, properties = sent_to(rig, {PRIORITY: priority}, queue_id=asked)
    assert (found, properties[PRIORITY]) == (queue_id, priority)


@pytest.mark.parametrize("priority", ["-1", "abc", "3000000000", " 2"])
def test_what_is_no_priority_leaves_the_queue_and_the_property(rig, priority):
    put_topic(rig)
    queue_id, properties = sent_to(rig, {PRIORITY: priority}, queue_id=5)
    assert (queue_id, properties[PRIORITY]) == (5, priority)


def test_of_the_queues_of_a_topic_those_to_write_to_count(rig):
    put_topic(rig, write_queue_nums=2)
    assert sent_to(rig, {PRIORITY: "9"}, queue_id=0)[0] == 1


def test_a_queue_that_the_topic_does_not_have_is_refused_all_the_same(rig):
    put_topic(rig)
    assert rig.send("T", properties={"UNIQ_KEY": "K", PRIORITY: "2"}, queue_id=8).code == \
        ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("rival", [{"TIMER_DELIVER_MS": "1"}, {"__SHARDINGKEY": "k"}])
def test_beside_what_excludes_it_a_priority_is_taken_away(rig, rival):
    put_topic(rig)
    queue_id, properties = sent_to(rig, {PRIORITY: "2", **rival}, queue_id=5)
    assert queue_id == 5
    assert PRIORITY not in properties
    assert rival.items() <= properties.items()


def test_a_delayed_message_comes_to_the_queue_that_was_asked_for_without_its_priority(rig):
    put_topic(rig)
    rig.send("T", properties={"UNIQ_KEY": "K", PRIORITY: "2", "DELAY": "1"}, queue_id=5)
    rig.run(1_000)
    (message,) = rig.stored("T", 5)
    assert PRIORITY not in message.properties


def test_a_half_has_no_priority(rig):
    put_topic(rig)
    properties = {"UNIQ_KEY": "K", PRIORITY: "2", "TRAN_MSG": "true", "PGROUP": "P"}
    rig.send("T", properties=properties, queue_id=5, sys_flag=4)
    (half,) = rig.stored("RMQ_SYS_TRANS_HALF_TOPIC")
    assert half.properties["REAL_QID"] == "5"
    assert PRIORITY not in half.properties


def test_a_delay_level_of_0_is_no_delay_so_what_was_a_dead_letter_keeps_its_priority(rig):
    put_topic(rig)
    queue_id, properties = sent_to(rig, {PRIORITY: "2", "DELAY": "0"}, queue_id=5)
    assert (queue_id, properties[PRIORITY]) == (2, "2")


def test_a_retry_that_a_client_sends_itself_keeps_its_priority(rig):
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG"), rig.now_ms)
    rig.send("%RETRY%CG", properties={"UNIQ_KEY": "K", PRIORITY: "6", "DELAY": "1", "RETRY_TOPIC": "T"},
             reconsume_times=1)
    rig.send("%RETRY%CG", properties={"UNIQ_KEY": "D", PRIORITY: "6", "DELAY": "1", "RETRY_TOPIC": "T"},
             reconsume_times=17)
    rig.run(1_000)
    (retry,), (dead,) = rig.stored("%RETRY%CG"), rig.stored("%DLQ%CG")
    assert (retry.properties[PRIORITY], dead.properties[PRIORITY]) == ("6", "6")


def test_a_batch_stays_in_its_queue_and_keeps_the_priorities(rig):
    put_topic(rig)
    rig.send_batch([Message("T", b"a", properties={"UNIQ_KEY": "A", PRIORITY: "1"}),
                    Message("T", b"b", properties={"UNIQ_KEY": "B", PRIORITY: "9"})], "T")
    assert [each.properties[PRIORITY] for each in rig.stored("T", 0)] == ["1", "9"]


# --- lite topics -----------------------------------------------------------------------------------------------------

LITE = {"__LITE_TOPIC": "l1", "UNIQ_KEY": "K"}


@pytest.mark.parametrize("more", [
    {}, {"TRAN_MSG": "true", "PGROUP": "PG"}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "60"}, {"_SYS_MSG_PRIORITY_": "1"},
    {"SINK": "S/0"}], ids=lambda more: "-".join(more) or "plain")
def test_a_message_for_a_lite_topic_is_refused_whatever_else_it_is(rig, more):
    answer = rig.send(properties={**LITE, **more})
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "lite topics are not served by this broker" in answer.remark
    assert rig.store.commit_log_max_offset() == 0


def test_so_is_a_batch_with_one_of_them(rig):
    whole = SendMessageRequest("PG", "TopicA", queue_id=0, properties={"__LITE_TOPIC": "l1"}, batch=True)
    for answer in (rig.send_batch([*batch("a"), Message("TopicA", b"x", properties=LITE)]),
                   rig.ask(RequestCode.SEND_BATCH_MESSAGE, whole.ext(), message_batch.encode(batch("a")))):
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "lite topics are not served by this broker" in answer.remark
    assert rig.store.commit_log_max_offset() == 0


def test_what_a_sink_brings_back_keeps_its_lite_topic(rig):
    run = {"SINK": "S/0", "SEQ": "0/0", "SINK_DIGEST": "0"}
    assert rig.send(properties={**LITE, **run}).code == ResponseCode.SUCCESS
    header = SendMessageRequest("PG", "TopicA", queue_id=0, properties={**run, "SINK": "S/1"}, batch=True)
    rows = message_batch.encode([Message("TopicA", b"x", properties=LITE)])
    assert rig.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), rows).code == ResponseCode.SUCCESS
    assert [message.properties["__LITE_TOPIC"] for message in rig.stored("TopicA")] == ["l1", "l1"]


def test_one_that_was_stored_before_may_be_tried_again(rig):
    """RocketMQ's record that a consumer here failed on."""
    rig.broker.subscription_groups.put(SubscriptionGroupConfig(group_name="CG"), rig.now_ms)
    assert rig.send("%RETRY%CG", properties=LITE).code == ResponseCode.SUCCESS
