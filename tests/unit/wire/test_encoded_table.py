from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire import encoded_table, fastjson, json_fields
from regulus.wire.encoded_table import EncodedTable

KEYS = st.text("ab!\"\\\n\t%é😀", max_size=4)
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=30)


def write(value: Any) -> str:
    return fastjson.dumps_pretty(value, 2)


def members(table: Any) -> dict[str, Any]:
    return {"dataVersion": {"counter": 1}, "absent": None, "table": table}


@given(STEPS, STEPS)
def test_it_is_what_the_whole_encoded_would_be(before: list[Any], after: list[Any]) -> None:
    values: dict[str, dict[str, int]] = {}
    table = EncodedTable(values, write)
    for steps in (before, after):
        for key, number in steps:
            if number is None:
                values.pop(key, None)
            else:
                values[key] = {"b": number, "a": 0}
            table.changed[key] = None
        table.encode(3)
        pieces = encoded_table.document(members(table))
        assert encoded_table.text(pieces) == fastjson.dumps_pretty(members(values))
        assert b"".join(encoded_table.compact(pieces)).decode() == fastjson.dumps(members(values))


def test_later_changes_leave_what_was_given_alone() -> None:
    values = {"a": 1, "b": 2}
    table = EncodedTable(values, str)
    pieces = table.pieces()
    values.update(a=3, c=4)
    del values["b"]
    table.changed.update(a=None, b=None, c=None)
    assert encoded_table.text(pieces) == '{\n\t\t"a":1,\n\t\t"b":2\n\t}'
    assert encoded_table.text(table.pieces()) == '{\n\t\t"a":3,\n\t\t"c":4\n\t}'


@given(st.lists(st.integers(0, 3000), max_size=1200), st.lists(st.integers(0, 3000), max_size=300))
def test_members_find_their_place_among_thousands(added: list[int], removed: list[int]) -> None:
    values = {str(number): number for number in range(0, 3000, 7)}
    table = EncodedTable(values, str)
    for number in added:
        values[str(number)] = -number
    for number in removed:
        values.pop(str(number), None)
    table.changed.update(dict.fromkeys(map(str, added + removed)))
    assert encoded_table.text(encoded_table.document({"table": table})) == fastjson.dumps_pretty({"table": values})


def test_another_table_takes_the_place_of_the_first() -> None:
    table = EncodedTable({"a": 1}, str)
    table.pieces()
    table.replace({"b": 2})
    assert encoded_table.text(table.pieces()) == '{\n\t\t"b":2\n\t}'
    table.replace({})
    assert encoded_table.text(table.pieces()) == "{}"


def test_configurations_are_written_as_ever() -> None:
    attributes = {"message.type": "NORMAL", "b": '"\n'}
    for config in (TopicConfig(topic_name="T"), TopicConfig(topic_name="T", order=True, attributes=attributes),
                   SubscriptionGroupConfig(group_name="G"), SubscriptionGroupConfig(group_name="ü",
                                                                                     attributes=attributes)):
        writer = json_fields.pretty_writer(type(config), 2)
        assert writer(config) == fastjson.dumps_pretty(json_fields.to_value(config), 2)


def test_what_is_made_changed_and_deleted_is_noted_and_what_was_there_is_not() -> None:
    values = {"there": 1, "goes": 2}
    table = EncodedTable(values, str, "things")
    table.pieces()
    assert table.happenings.take() == {}
    values.update(made=3, there=4)
    del values["goes"]
    table.changed.update(dict.fromkeys(("made", "there", "goes", "neither")))
    table.pieces()
    assert {kind: str(names) for kind, names in table.happenings.take().items()} == {
        "things made": "made", "things changed": "there", "things deleted": "goes"}


def test_without_a_noun_nothing_is_noted() -> None:
    table = EncodedTable({}, str)
    table.changed["a"] = None
    table.pieces()
    assert table.happenings.take() == {}
