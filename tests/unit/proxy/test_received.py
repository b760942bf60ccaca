"""A stored message as a client reads it."""

import zlib

import pytest

from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.proxy.received import split_name, to_message

HOST = host_bytes("10.0.0.9", 10911)
SIZE_MAX = 4 << 20


def stored(body: bytes = b"body", sys_flag: int = 0, **properties: str) -> MessageExt:
    return MessageExt("%RETRY%g_Orders", body, properties, queue_id=3, sys_flag=sys_flag, born_timestamp=1_500,
                      born_host=host_bytes("10.0.0.1", 5), store_host=HOST, reconsume_times=1, queue_offset=7,
                      physical_offset=0x100, store_timestamp=2_500)


def test_what_stands_where() -> None:
    made = to_message(stored(UNIQ_KEY="01AB", TAGS="A", KEYS="k1 k2", color="red", __SHARDINGKEY="g",
                             TIMER_DELIVER_MS="3500", DLQ_ORIGIN_TOPIC="o", DLQ_ORIGIN_MESSAGE_ID="i", PGROUP="p",
                             TRACE_CONTEXT="c"), "ns%Orders", SIZE_MAX, "handle")
    system = made.system_properties
    assert (made.topic.resource_namespace, made.topic.name, made.body) == ("ns", "Orders", b"body")
    assert dict(made.user_properties) == {"color": "red", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "c"}
    assert (system.message_id, system.tag, list(system.keys), system.message_group) == ("01AB", "A", ["k1", "k2"], "g")
    assert (system.body_digest.type, system.body_digest.checksum) == (2, "841A2D689AD86BD1611447453C22C6FC")
    assert (system.body_encoding, system.message_type, system.delivery_attempt) == (1, 3, 2)
    assert (system.born_timestamp.ToMilliseconds(), system.store_timestamp.ToMilliseconds()) == (1_500, 2_500)
    assert (system.born_host, system.store_host, system.queue_id, system.queue_offset) == (
        "10.0.0.1", "10.0.0.9:10911", 3, 7)
    assert (system.delivery_timestamp.ToMilliseconds(), system.receipt_handle) == (3_500, "handle")
    assert (system.dead_letter_queue.topic, system.dead_letter_queue.message_id) == ("o", "i")
    assert system.trace_context == "c"


def test_who_sent_it_is_whom_the_front_it_was_sent_to_has_named() -> None:
    """The record itself may name that front."""
    assert to_message(stored(__BORNHOST="client-1"), "Orders", SIZE_MAX).system_properties.born_host == "client-1"


@pytest.mark.parametrize(("text", "has", "number"), [("0", True, 0), ("9", True, 9), ("abc", False, 0)])
def test_a_priority_has_a_field_of_its_own(text: str, has: bool, number: int) -> None:
    made = to_message(stored(_SYS_MSG_PRIORITY_=text), "Orders", SIZE_MAX)
    system = made.system_properties
    assert (system.HasField("priority"), system.priority, system.message_type) == (has, number, 6)
    assert dict(made.user_properties) == {}


def test_what_rocketmq_hides_is_hidden_and_no_more() -> None:
    """Names of MessageConst that are not in its STRING_HASH_SET, and what is ours."""
    shown = {"__SHARDINGKEY": "g", "TRACE_CONTEXT": "c", "CHECK_IMMUNITY_TIME_IN_SECONDS": "6",
             "__transactionId__": "t", "TRANSACTION_CHECK_TIMES": "1", "INNER_NUM": "2", "INNER_BASE": "3",
             "REDIRECT": "r"}
    hidden = {"UNIQ_KEY": "01", "PGROUP": "p", "TRAN_MSG": "true", "1ST_POP_TIME": "7", "__CRC32#": "8",
              "DLQ_ORIGIN_TOPIC": "o", "GIVEN_BACK": "1", "SET_BACKS": "2", "__BORNHOST": "h", "BORN_TIMESTAMP": "9"}
    assert dict(to_message(stored(**shown, **hidden), "Orders", SIZE_MAX).user_properties) == shown


def test_only_of_a_sinks_message_its_place_is_hidden() -> None:
    made = to_message(stored(SEQ="7", color="red"), "Orders", SIZE_MAX)
    assert dict(made.user_properties) == {"SEQ": "7", "color": "red"}
    made = to_message(stored(SINK="s/0", SEQ="1/7", color="red"), "Orders", SIZE_MAX)
    assert dict(made.user_properties) == {"color": "red"}


def test_a_message_of_a_4x_client_without_a_unique_key_has_its_place_for_an_id() -> None:
    assert to_message(stored(), "Orders", SIZE_MAX).system_properties.message_id == "0A00000900002A9F0000000000000100"


def test_a_packed_body_is_unpacked_and_one_that_cannot_be_is_passed_on() -> None:
    made = to_message(stored(zlib.compress(b"body"), sys_flag=1), "Orders", SIZE_MAX)
    assert (made.body, made.system_properties.body_encoding) == (b"body", 1)
    made = to_message(stored(b"\x1f\x8brest", sys_flag=1), "Orders", SIZE_MAX)
    assert (made.body, made.system_properties.body_encoding) == (b"\x1f\x8brest", 2)
    made = to_message(stored(b"rubbish", sys_flag=1), "Orders", SIZE_MAX)
    assert (made.body, made.system_properties.body_encoding) == (b"rubbish", 2)


def test_a_body_that_grows_beyond_what_may_be_sent_is_passed_on_as_it_is() -> None:
    """A few KiB of it would keep the event loop for a tenth of a second, and 32 of them come with one receive."""
    for size, encoding in ((SIZE_MAX, 1), (SIZE_MAX + 1, 2)):
        packed = zlib.compress(bytes(size))
        made = to_message(stored(packed, sys_flag=1), "Orders", SIZE_MAX)
        assert made.system_properties.body_encoding == encoding
        assert len(made.body) == (size if encoding == 1 else len(packed))


@pytest.mark.parametrize(("reconsume_times", "attempt"), [(-1, 1), (-(1 << 31), 1), (0, 1), (16, 17),
                                                          ((1 << 31) - 1, (1 << 31) - 1)])
def test_an_attempt_is_at_least_the_first_whatever_a_sender_calls_it(reconsume_times: int, attempt: int) -> None:
    message = stored()
    message.reconsume_times = reconsume_times
    assert to_message(message, "Orders", SIZE_MAX).system_properties.delivery_attempt == attempt


def test_what_protobuf_cannot_carry_does_not_keep_a_message_back() -> None:
    made = to_message(stored(color="\ud800", TIMER_DELIVER_MS="soon", UNIQ_KEY="\udfff"), "Orders", SIZE_MAX)
    assert dict(made.user_properties) == {"color": "?"}
    assert made.system_properties.message_id == "?"
    assert not made.system_properties.HasField("delivery_timestamp")


def test_namespaces_are_split_off_but_retry_topics_have_none() -> None:
    assert [split_name(each) for each in ("ns%t", "t", "%RETRY%g")] == [("ns", "t"), ("", "t"), ("", "%RETRY%g")]
