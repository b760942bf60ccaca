import struct
import zlib
from dataclasses import replace

import pytest

from regulus.errors import HeaderError
from regulus.model.steps import run_to_end
from regulus.model.topics import DataVersion, TopicConfig
from regulus.wire.bodies import RegisterBrokerBody, TopicConfigSerializeWrapper, register_broker_body

BODY = RegisterBrokerBody(
    filter_server_list=["10.0.0.1:1"],
    topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=7, timestamp=9),
        topic_config_table={"T": TopicConfig(topic_name="T", perm=4, attributes={"message.type": "FIFO"}),
                            "%RETRY%G": TopicConfig(topic_name="%RETRY%G", read_queue_nums=1, write_queue_nums=2)}))


def sized(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def packed(*parts: bytes) -> bytes:
    return zlib.compress(b"".join(parts), 9)


def test_both_forms_survive_the_way() -> None:
    assert RegisterBrokerBody.decode(BODY.encode()) == BODY
    assert RegisterBrokerBody.decode(BODY.encode_compressed()) == BODY
    assert BODY.encode_compressed()[:2] == b"\x78\xda"


@pytest.mark.parametrize("servers", [["10.0.0.1:1"], ['"topicConfigTable":{']])
def test_a_body_is_put_together_of_pieces(servers: list[str]) -> None:
    body = replace(BODY, filter_server_list=servers)
    wrapper = body.topic_config_serialize_wrapper
    topics = sorted(wrapper.topic_config_table.items())
    first, empty, second = (
        replace(body, topic_config_serialize_wrapper=replace(wrapper, topic_config_table=dict(part)))
        for part in (topics[:1], [], topics[1:]))
    pieces = [each.encode_topics() for each in (first, empty, second)]
    assert b"".join(empty.encode_with(pieces)) == body.encode()
    assert b"".join(empty.encode_with([])) == empty.encode()


def test_no_body_is_an_empty_registration() -> None:
    assert RegisterBrokerBody.decode(b"") == RegisterBrokerBody()


def test_a_compressed_body_of_4_9_has_no_attributes() -> None:
    body = RegisterBrokerBody.decode(packed(
        sized(b'{"counter":1,"timestamp":2}'), struct.pack(">i", 1), sized(b"T 4 8 6 SINGLE_TAG"), sized(b"[]")))
    assert body.topic_config_serialize_wrapper.topic_config_table == {
        "T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8)}
    assert body.topic_config_serialize_wrapper.data_version == DataVersion(counter=1, timestamp=2)


@pytest.mark.parametrize(("body", "cause"), [
    (b"x", "cut short"),
    (b"xyz", "not a zlib stream"),
    (packed(), "cut short"),
    (packed(sized(b"{}")), "cut short"),
    (packed(struct.pack(">i", -1)), "text of -1 bytes"),
    (packed(struct.pack(">i", 100), b"{}"), "text of 100 bytes"),
    (packed(sized(b"{}"), struct.pack(">i", 1000), sized(b"[]")), "has 1 parts"),
    (packed(sized(b"{}"), struct.pack(">i", 1), sized(b"T 4 8 6")), "has 4 parts"),
    (packed(sized(b"{}"), struct.pack(">i", 1), sized(b"T x 8 6 SINGLE_TAG")), "readQueueNums"),
    (packed(sized(b"{}"), struct.pack(">i", 1), sized(b"\xff 4 8 6 SINGLE_TAG")), "not UTF-8"),
    (packed(sized(b"{}"), struct.pack(">i", 0), sized(b"{}")), "not a list"),
    (packed(sized(b"7"), struct.pack(">i", 0), sized(b"[]")), "DataVersion is not a JSON object"),
    (BODY.encode_compressed()[:-3], "cut short"),
    (b"[]", "not a JSON object"),
    (b"{", "JSON lacks"),
])
def test_what_is_wrong_is_named(body: bytes, cause: str) -> None:
    with pytest.raises(HeaderError, match=cause):
        RegisterBrokerBody.decode(body)


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register_broker_body, "INFLATED_SIZE_MAX", 1000)
    with pytest.raises(HeaderError, match="larger than 1000"):
        RegisterBrokerBody.decode(packed(bytes(5000)))


@pytest.mark.parametrize("is_compressed", [False, True])
def test_very_many_topics_are_read_in_steps(is_compressed: bool) -> None:
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(2_000)}
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=7), topic_config_table=topics))
    steps = RegisterBrokerBody.decode_in_steps(body.encode_compressed() if is_compressed else body.encode())
    count = 0
    while next(steps, steps) is None:
        count += 1
    assert count >= 2_000 // register_broker_body.TOPICS_A_STEP
    data = body.encode_compressed() if is_compressed else body.encode()
    assert RegisterBrokerBody.decode(data) == body


def test_the_oldest_form_is_read_in_steps_too() -> None:
    wrapper = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=7),
        topic_config_table={f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(2_000)})
    steps = RegisterBrokerBody.decode_wrapper_in_steps(wrapper.encode())
    count = 0
    while next(steps, steps) is None:
        count += 1
    assert count >= 2_000 // register_broker_body.TOPICS_A_STEP
    body = run_to_end(RegisterBrokerBody.decode_wrapper_in_steps(wrapper.encode()))
    assert body == RegisterBrokerBody(topic_config_serialize_wrapper=wrapper)


@pytest.mark.parametrize("text", [b"[]", b"7", b'{"topicConfigTable":[]}'])
def test_the_oldest_form_is_refused_where_it_is_no_table(text: bytes) -> None:
    with pytest.raises(HeaderError):
        run_to_end(RegisterBrokerBody.decode_wrapper_in_steps(text))
