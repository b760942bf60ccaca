"""What a client may send, and what is stored of it."""

from typing import Any

import pytest

from regulus.errors import CallRefused
from regulus.proxy import sending
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages
from regulus.wire.headers import SendMessageRequest

NOW_MS = 1_700_000_000_000
CONFIG = ProxyConfig()


def message(**system: Any) -> Any:
    made = messages.Message(body=b"body")
    made.topic.name = "Orders"
    made.system_properties.message_id = "01" + "AB" * 16
    made.system_properties.born_timestamp.FromMilliseconds(NOW_MS - 5)
    made.system_properties.born_host = "client-1"
    for name, value in system.items():
        setattr(made.system_properties, name, value)
    return made


def sendables(*made: Any, config: ProxyConfig = CONFIG) -> list[sending.Sendable]:
    request = messages.SendMessageRequest(messages=made)
    return sending.sendables(request, "Orders", [each.topic.name for each in made], config, "10.1.1.1", NOW_MS)


def refusal(*made: Any) -> int:
    with pytest.raises(CallRefused) as refused:
        sendables(*made)
    return refused.value.code


def test_a_message_is_stored_with_these_properties() -> None:
    made = message(tag="A", message_group="user 1", trace_context="t", delivery_attempt=2)
    made.system_properties.keys.extend(["k1", "k2"])
    made.user_properties["color"] = "red"
    (sendable,) = sendables(made)
    assert sendable.message.properties == {
        "color": "red", "UNIQ_KEY": "01" + "AB" * 16, "TAGS": "A", "KEYS": "k1 k2", "PGROUP": "Orders",
        "TRACE_CONTEXT": "t", "__SHARDINGKEY": "user 1", "__BORNHOST": "client-1",
        "BORN_TIMESTAMP": "1699999999995", "RECONSUME_TIME": "2"}
    assert (sendable.kind, sendable.sys_flag, sendable.born_timestamp) == (2, 0, NOW_MS - 5)


def test_a_half_message_is_marked_and_may_say_when_it_is_asked_for() -> None:
    made = message(message_type=4)
    made.system_properties.orphaned_transaction_recovery_duration.seconds = 3600
    (sendable,) = sendables(made)
    assert (sendable.kind, sendable.sys_flag) == (4, 4)
    assert sendable.message.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "3600"
    assert sendable.message.properties["TRAN_MSG"] == "true"
    for seconds in (3601, -1):
        made.system_properties.orphaned_transaction_recovery_duration.seconds = seconds
        assert refusal(made) == 40000


@pytest.mark.parametrize("number", [0, 9, 2147483647])
def test_a_priority_is_a_property_and_makes_the_kind(number: int) -> None:
    (sendable,) = sendables(message(priority=number))
    assert (sendable.message.properties["_SYS_MSG_PRIORITY_"], sendable.kind) == (str(number), 6)
    assert not sending.may_share_a_batch([sendable, sendable])


@pytest.mark.parametrize(("system", "kind"), [({"message_group": "g"}, 2), ({"message_type": 4}, 4)])
def test_what_else_a_message_is_counts_more_than_its_priority(system: dict[str, Any], kind: int) -> None:
    assert sendables(message(priority=3, **system))[0].kind == kind


def test_a_priority_below_0_and_one_by_the_name_of_the_system_are_refused() -> None:
    assert refusal(message(priority=-1)) == 40000
    made = message()
    made.user_properties["_SYS_MSG_PRIORITY_"] = "3"
    assert refusal(made) == 40007


def test_a_delayed_message_has_its_time_which_is_at_most_a_day_away() -> None:
    made = message()
    made.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 86_400_000)
    (sendable,) = sendables(made)
    assert (sendable.kind, sendable.message.properties["TIMER_DELIVER_MS"]) == (3, "1700086400000")
    made.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + 86_400_001)
    assert refusal(made) == 40012
    made.system_properties.delivery_timestamp.FromMilliseconds(-5)
    assert sendables(made)[0].message.properties["TIMER_DELIVER_MS"] == "0"


def with_property(name: str, value: str) -> Any:
    made = message()
    made.user_properties[name] = value
    return made


def with_key(key: str) -> Any:
    made = message()
    made.system_properties.keys.append(key)
    return made


def with_keys(count: int) -> Any:
    made = message()
    made.system_properties.keys.extend(["k"] * count)
    return made


def with_body(body: bytes) -> Any:
    made = message()
    made.body = body
    return made


def with_properties(count: int, size: int = 1) -> Any:
    made = message()
    for number in range(count):
        made.user_properties[f"{number:03}"] = "v" * size
    return made


@pytest.mark.parametrize(("made", "code"), [
    (with_body(b""), 41302), (with_body(bytes((4 << 20) + 1)), 41301), (with_properties(129), 43101),
    (with_properties(4, 4096), 43101), (with_property("TAGS", "x"), 40007), (with_property("POP_CK", "x"), 40007),
    (with_property("SINK", "another/0"), 40007), (with_property("SET_BACKS", "9"), 40007),
    (with_property("a\x01b", "x"), 40007), (with_property("a", "x\x02TAGS\x01y"), 40007),
    (with_property("a", "\x85"), 40007), (message(tag="  "), 40004), (message(tag="a||b"), 40004),
    (message(tag="a\nb"), 40004), (with_key(" "), 40005), (with_keys(129), 40005), (with_key("a\x7f"), 40005),
    (message(message_id=" "), 40009), (message(message_id="a\x01b"), 40009), (message(message_group=" "), 40006),
    (message(message_group="g" * 64), 40006), (message(message_group="ü" * 32), 40006),
    (message(message_group="a\x00"), 40006), (message(trace_context="a\x02b"), 40007),
    (message(born_host="h\x01"), 40000), (message(message_type=4, message_id="a@b"), 40009),
    (message(message_type=4, message_id="a b"), 40009), (message(message_type=4, message_id="a" * 129), 40009)])
def test_what_is_refused(made: Any, code: int) -> None:
    assert refusal(made) == code


@pytest.mark.parametrize("made", [with_body(bytes(4 << 20)), with_keys(128), with_properties(128),
                                  with_property("a", "ü 東 |"),
                                  message(message_group="g" * 63), with_property("__SHARDINGKEY_", "x"),
                                  with_property("SEQ", "1/0"),
                                  message(message_id="a@b c" * 40), message(message_type=4, message_id="a" * 128)])
def test_what_just_passes(made: Any) -> None:
    assert len(sendables(made)) == 1


def test_one_bad_message_refuses_all_and_so_does_another_topic() -> None:
    assert refusal(message(), with_body(b"")) == 41302
    other = message()
    other.topic.name = "Payments"
    assert refusal(message(), other) == 40016
    with pytest.raises(CallRefused, match="257 messages in one send; 256 are the most"):
        sendables(*[message()] * 257)


def test_one_message_and_a_batch_as_they_go_to_a_broker() -> None:
    one = sending.send_command(sendables(message(tag="A")), "broker-a", 3)
    header = SendMessageRequest.decode(one)
    assert (one.code, one.body, header.topic, header.queue_id, header.producer_group) == (
        310, b"body", "Orders", 3, "Orders")
    assert header.properties["TAGS"] == "A"
    several = sendables(message(), message())
    assert sending.may_share_a_batch(several)
    batch = sending.send_command(several, "broker-a", 3)
    assert (batch.code, SendMessageRequest.decode(batch).batch) == (320, True)
    assert not sending.may_share_a_batch(sendables(message(), message(message_group="g")))
    assert not sending.may_share_a_batch(sendables(message(), message(message_type=4)))
    assert not sending.may_share_a_batch(sendables(message(), message(body_encoding=2)))


def test_a_batch_is_no_larger_than_one_body_may_be() -> None:
    small, large = message(), with_body(bytes(600))
    stored = 22 + 4 + len("UNIQ_KEY\x01" + "01" + "AB" * 16 + "\x02PGROUP\x01Orders\x02__BORNHOST\x01client-1\x02"
                          "BORN_TIMESTAMP\x011699999999995\x02")
    assert [len(each) for each in sending.batches(sendables(*[small] * 5), 2 * stored)] == [2, 2, 1]
    assert [len(each) for each in sending.batches(sendables(*[small] * 5), 2 * stored - 1)] == [1] * 5
    assert [len(each) for each in sending.batches(sendables(small, large, small, small), 2 * stored)] == [1, 1, 2]
    assert [len(each) for each in sending.batches(sendables(small, message(message_group="g")), 1 << 20)] == [1, 1]


@pytest.mark.parametrize(("size", "is_stored"), [(32_000, True), (33_000, False)])
def test_properties_that_the_store_does_not_take_are_refused(size: int, is_stored: bool) -> None:
    """What no limit of a user's properties holds."""
    made = sendables(message(trace_context="t" * size))
    if is_stored:
        assert sending.send_command(made, "broker-a", 3).code == 310
        return
    with pytest.raises(CallRefused) as refused:
        sending.send_command(made, "broker-a", 3)
    assert refused.value.code == 43101


def test_the_broker_of_a_recall_handle() -> None:
    handle = "djEgZGVsYXkgYnJva2VyLWEgMTc5NTc0NDM4MzAwMSAwMTAyRkMwMDAwMDAwMTc3QTAwQjFBN0M3QzAwMDAwMDAz"
    assert sending.broker_of_recall(handle) == "broker-a"
    for forged in ("djEg", "!!", "djIgYSBiIGMgZA==", "ü"):
        with pytest.raises(CallRefused):
            sending.broker_of_recall(forged)


def test_a_message_for_a_lite_topic_is_refused() -> None:
    by_name = message()
    by_name.user_properties["__LITE_TOPIC"] = "l1"
    for made in (message(message_type=5), message(lite_topic="l1"), by_name):
        with pytest.raises(CallRefused, match="lite topics are not served here") as refused:
            sendables(message(), made)
        assert refused.value.code == 40020
