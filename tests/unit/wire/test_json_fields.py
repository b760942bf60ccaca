from dataclasses import dataclass, field, replace

import pytest

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.wire import json_fields
from regulus.wire.json_fields import JsonBody, encode_entry, named, prepared, splice


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(JsonBody):
    name: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(JsonBody):
    client_id: str = named("clientID")
    count: int = 0
    on: bool = False
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    tags: frozenset[str] = frozenset()
    by_id: dict[int, str] = field(default_factory=dict)
    by_queue: dict[MessageQueue, Inner] = field(default_factory=dict)
    queue: MessageQueue | None = None
    any: object = None
    doubled: int = prepared(lambda value: value * 2, default=0)


FULL = Outer(client_id="c", count=3, on=True, inner=Inner(name="i", weight=1.5), inners=[Inner(name="j")],
             tags=frozenset({"b", "a"}), by_id={2: "x", 10: "y"},
             by_queue={MessageQueue("T", "b", 0): Inner(name="k")}, queue=MessageQueue("T", "b", 1), any={"x": [1]})


def test_a_body_reads_what_it_wrote() -> None:
    assert Outer.decode(FULL.encode()) == FULL


def test_how_it_is_written() -> None:
    body = Outer(client_id="c", by_id={10: "y"}, tags=frozenset({"b", "a"}), inner=Inner(name="é"))
    assert body.encode().decode() == (
        '{"byId":{"10":"y"},"byQueue":{},"clientID":"c","count":0,"doubled":0,"inner":{"name":"é","weight":0.0},'
        '"inners":[],"on":false,"tags":["a","b"]}')


def test_members_are_read_tolerantly() -> None:
    body = Outer.decode(b'{"clientID":7,"count":"12","on":"TRUE","unknown":{},"inner":null,"byId":{3:1.5},"doubled":4,'
                        b'"inners":[{"name":true,"weight":2}],"byQueue":{{"topic":"T","brokerName":"b","queueId":0}:'
                        b'{"name":"n"},"{\\"topic\\":\\"T\\",\\"brokerName\\":\\"b\\",\\"queueId\\":1}":{"name":"m"}}}')
    assert body == Outer(client_id="7", count=12, on=True, by_id={3: "1.5"}, inners=[Inner(name="true", weight=2.0)],
                         by_queue={MessageQueue("T", "b", 0): Inner(name="n"),
                                   MessageQueue("T", "b", 1): Inner(name="m")},
                         doubled=8)
    assert Outer.decode(b'{"clientID":"c","count":5.0,"on":1}') == Outer(client_id="c", count=5, on=True)


@pytest.mark.parametrize(("text", "cause"), [
    (b"[]", "Outer is not a JSON object"),
    (b"{}", "Outer lacks the member clientID"),
    (b'{"clientID":{}}', "Outer.clientID: {} is not a text"),
    (b'{"clientID":"c","count":"x"}', "Outer.count"),
    (b'{"clientID":"c","count":true}', "Outer.count: True is not a whole number"),
    (b'{"clientID":"c","count":1.5}', "Outer.count: 1.5 is not a whole number"),
    (b'{"clientID":"c","count":1e400}', "JSON has the number 1e400"),
    (b'{"clientID":"c","count":NaN}', "JSON has NaN"),
    (b'{"clientID":"c","count":"1e400"}', "Outer.count: is not a whole number"),
    (b'{"clientID":"c","count":9223372036854775808}', "Outer.count"),
    (b'{"clientID":"c","on":[]}', "Outer.on"),
    (b'{"clientID":"c","inner":7}', "Inner is not a JSON object"),
    (b'{"clientID":"c","inner":{}}', "Inner lacks the member name"),
    (b'{"clientID":"c","inner":{"name":"n","weight":"heavy"}}', "Inner.weight"),
    (b'{"clientID":"c","inner":{"name":"n","weight":true}}', "Inner.weight"),
    (b'{"clientID":"c","inner":{"name":"n","weight":"1e400"}}', "Inner.weight: '1e400' is not a number"),
    (b'{"clientID":"c","inner":{"name":"n","weight":"NaN"}}', "Inner.weight: 'NaN' is not a number"),
    (b'{"clientID":"c","inners":{}}', "Outer.inners: {} is not a list"),
    (b'{"clientID":"c","byId":[]}', "Outer.byId: [] is not an object"),
    (b'{"clientID":"c","byId":{"x":1}}', "Outer.byId"),
    (b'{"clientID":"c","byQueue":{"x":{}}}', "JSON lacks"),
    (b'{"clientID":"c","byQueue":{"7":{}}}', "Outer.byQueue: 7 is not a message queue"),
    (b'{"clientID":"c","queue":{"topic":"T","queueId":1}}', "Outer.queue: message queue lacks 'brokerName'"),
    (b"\xff", "not UTF-8"),
    (b"", "JSON lacks a value"),
])
def test_what_is_wrong_is_named(text: bytes, cause: str) -> None:
    with pytest.raises(HeaderError, match=cause.replace("[", r"\[").replace("{", r"\{")):
        Outer.decode(text)


def test_a_whole_number_too_large_for_a_double_is_refused() -> None:
    with pytest.raises(HeaderError, match=r"Inner\.weight"):
        Inner.decode(b'{"name":"n","weight":1' + b"0" * 400 + b"}")


def test_classes_of_other_rooms_need_no_base() -> None:
    @dataclass(frozen=True)
    class Plain:
        topic_name: str

    assert json_fields.encode(Plain("T")) == b'{"topicName":"T"}'


def test_items_are_put_into_an_empty_list_or_map() -> None:
    inners = [Inner(name="j"), Inner(name="k")]
    items = b",".join(inner.encode() for inner in inners)
    empty = replace(FULL, inners=[], by_queue={})
    assert b"".join(splice(empty, "inners", [items])) == replace(empty, inners=inners).encode()
    queues = [MessageQueue("T", "b", number) for number in range(3)]
    entries = b",".join(encode_entry(queue, Inner(name=str(queue.queue_id))) for queue in queues)
    whole = replace(empty, by_queue={queue: Inner(name=str(queue.queue_id)) for queue in queues})
    assert b"".join(splice(empty, "by_queue", [entries])) == whole.encode()


def test_a_text_cannot_pass_for_the_place_of_the_items() -> None:
    empty = replace(FULL, client_id='"inners":[', any={'"inners":[': 1}, inners=[])
    assert b"".join(splice(empty, "inners", [b'{"name":"j","weight":0.0}'])) == replace(
        empty, inners=[Inner(name="j")]).encode()
