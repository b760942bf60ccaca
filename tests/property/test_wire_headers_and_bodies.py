"""Every typed header and body gives back what it wrote; no JSON text raises anything but HeaderError."""

from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.wire import bodies, fastjson, headers, json_fields
from regulus.wire.ext_fields import Header, Long
from regulus.wire.json_fields import JsonBody

HEADERS = sorted([each for each in vars(headers).values() if isinstance(each, type) and issubclass(each, Header)],
                 key=lambda each: each.__name__)
BODIES = sorted([each for each in vars(bodies).values() if isinstance(each, type) and issubclass(each, JsonBody)],
                key=lambda each: each.__name__)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
QUEUES = st.builds(MessageQueue, TEXT, TEXT, st.integers(-1, 100))
JSON_VALUES = st.recursive(st.booleans() | LONG | TEXT, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT, int: st.integers(-(1 << 31), (1 << 31) - 1), Long: LONG, bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False), MessageQueue: QUEUES, object: JSON_VALUES,
    type(None): st.none(),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if hint in LEAVES:
        return LEAVES[hint]
    if is_dataclass(hint):
        return instances_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) is list:
        return st.lists(values_of(arguments[0]), max_size=2)
    if get_origin(hint) is frozenset:
        return st.frozensets(values_of(arguments[0]), max_size=3)
    if get_origin(hint) is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    return st.one_of([values_of(each) for each in arguments])


def instances_of(kind: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    return st.builds(kind, **{each.name: values_of(hints[each.name]) for each in fields(kind)})


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
@given(data=st.data())
def test_a_header_gives_back_what_it_wrote(header: Any, data: st.DataObject) -> None:
    value = data.draw(instances_of(header))
    ext = value.ext()
    assert header.from_ext(ext) == value
    assert all(isinstance(each, str) for each in ext.values())


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)
@given(data=st.data())
def test_any_ext_fields_are_a_header_or_a_header_error(header: Any, data: st.DataObject) -> None:
    names = list(data.draw(instances_of(header)).ext())
    ext = data.draw(st.dictionaries(st.sampled_from([*names, "other"]),
                                    TEXT | st.sampled_from(["1", "-1", "true", "", "9" * 30])))
    with suppress(HeaderError):
        header.from_ext(ext)


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@given(data=st.data())
def test_a_body_gives_back_what_it_wrote(body: Any, data: st.DataObject) -> None:
    value = data.draw(instances_of(body))
    assert body.decode(value.encode()) == value


@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
@given(data=st.data())
def test_any_members_are_a_body_or_a_header_error(body: Any, data: st.DataObject) -> None:
    names = list(json_fields.to_value(data.draw(instances_of(body))))
    members = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), JSON_VALUES | st.none(), max_size=4))
    with suppress(HeaderError):
        body.decode(fastjson.dumps(members).encode())


JSON_TREES = st.recursive(
    st.none() | st.booleans() | LONG | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=10)


@settings(deadline=None)
@given(JSON_TREES)
def test_what_fastjson_writes_it_reads(value: Any) -> None:
    def without_none(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: without_none(inner) for key, inner in each.items() if inner is not None}
        return [without_none(inner) for inner in each] if isinstance(each, list) else each

    for text in (fastjson.dumps(value), fastjson.dumps_pretty(value)):
        assert fastjson.loads(text) == without_none(value)


@settings(deadline=None)
@given(st.dictionaries(QUEUES, st.dictionaries(st.integers(), TEXT, max_size=2), max_size=3))
def test_keys_that_are_no_text_are_read_as_text(table: dict[MessageQueue, dict[int, str]]) -> None:
    assert fastjson.loads(fastjson.dumps(table)) == {
        fastjson.dumps(queue): {str(key): value for key, value in inner.items()} for queue, inner in table.items()}


@settings(deadline=None)
@given(st.text("{}[]:,\"\\0-1e.tfn \x01ué", max_size=30) | st.text(max_size=30))
def test_any_text_is_json_or_a_header_error(text: str) -> None:
    with suppress(HeaderError):
        fastjson.loads(text.encode("utf-8", "surrogatepass"))
