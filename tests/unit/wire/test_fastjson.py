import json

import pytest

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue
from regulus.model.steps import run_to_end
from regulus.wire import fastjson

QUEUE = MessageQueue("T", "b", 0)
QUEUE_TEXT = '{"brokerName":"b","queueId":0,"topic":"T"}'


@pytest.mark.parametrize(("text", "value"), [
    ('{"a":[1,-2.5,true,false,null,"x"]}', {"a": [1, -2.5, True, False, None, "x"]}),
    ('{0:"a",-1:"b"}', {"0": "a", "-1": "b"}),
    (f"{{{QUEUE_TEXT}:5}}", {QUEUE_TEXT: 5}),
    ('{{"topic" : "T", "queueId":0,"brokerName":"b"}:{"x":1}}', {QUEUE_TEXT: {"x": 1}}),
    (' { name : "v" , $ref : "$" } ', {"name": "v", "$ref": "$"}),
    ('{0:[],"b":{},"c":"\\u4f60\\n\\"","d":1E3}', {"0": [], "b": {}, "c": '你\n"', "d": 1000.0}),
    ('{0:"\\ud83d\\ude00"}', {"0": "😀"}),
])
def test_what_fastjson_prints_is_read(text: str, value: object) -> None:
    assert fastjson.loads(text) == value
    assert fastjson.loads(text.encode()) == value


@pytest.mark.parametrize("text", [
    "", "{", "}", "[", "]", "{0", "{0:", "{0:1", "{0:1,", "{0:1,}", "[1 2]", "{0 1}", '{0:"x}', '{0:"\\x"}', "{0:tru}",
    "{0:1}x", "{:1}", "{0:'x'}", "{0:NaN}", '{0:"\x01"}', "{0:-}",
])
def test_what_it_does_not_print_is_refused_with_the_place(text: str) -> None:
    with pytest.raises(HeaderError, match=r"JSON lacks .* at character"):
        fastjson.loads(text)


def test_bombs_and_broken_text_are_refused() -> None:
    for text in ("[" * 100_000, "{0:" * 100_000, "[" * 70 + "]" * 70 + "x"):
        with pytest.raises(HeaderError, match="nested deeper than 64"):
            fastjson.loads(text)
    for text in ("[" * 66 + "]" * 66, '{"a":' * 900 + "1" + "}" * 900):
        with pytest.raises(HeaderError, match="nested deeper than 64"):
            fastjson.loads(text)
    assert fastjson.dumps(fastjson.loads("[" * 64 + "]" * 64)) == "[" * 64 + "]" * 64
    for text in ('{{{"a":1}:1}:1}', "{" * 100_000):
        with pytest.raises(HeaderError, match="key within an object key"):
            fastjson.loads(text)
    with pytest.raises(HeaderError, match="digits"):
        fastjson.loads("{0:" + "9" * 5000 + "}")
    with pytest.raises(HeaderError, match="UTF-8"):
        fastjson.loads(b'{"a":"\xff"}')
    with pytest.raises(HeaderError, match="UTF-16"):
        fastjson.loads('{"a":"\\ud800"}')


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400 + ".0", "Infinity", "-Infinity", "NaN"])
@pytest.mark.parametrize("text", ['{"a":%s}', "[%s]", "%s", '{0:{"a":%s}}', '{{"topic":%s}:1}'])
def test_numbers_beyond_all_bounds_are_refused(text: str, number: str) -> None:
    with pytest.raises(HeaderError, match=r"^JSON (has|lacks) "):
        fastjson.loads(text % number)


def test_writing() -> None:
    value = {"b": [1, 2.0, True, None], "a": {10: "x", 9: "y"}, "none": None, "text": "é\x01\"", "q": QUEUE}
    assert fastjson.dumps(value) == ('{"a":{"10":"x","9":"y"},"b":[1,2.0,true,null],"q":' + QUEUE_TEXT
                                     + ',"text":"é\\u0001\\""}')


def test_queue_keys_are_objects_and_read_back() -> None:
    text = fastjson.dumps({"offsetTable": {QUEUE: 5, MessageQueue("T", "b", 1): 6}})
    assert text == ('{"offsetTable":{' + QUEUE_TEXT + ':5,{"brokerName":"b","queueId":1,"topic":"T"}:6}}')
    assert fastjson.loads(text) == {"offsetTable": {QUEUE_TEXT: 5, QUEUE_TEXT.replace("0", "1"): 6}}


def test_numbers_that_json_has_not_are_null() -> None:
    assert fastjson.dumps([float("nan"), float("inf"), 1e300]) == "[null,null,1e+300]"


def test_the_pretty_form_of_config_files() -> None:
    text = fastjson.dumps_pretty({"dataVersion": {"counter": 1}, "empty": {}, "list": ["a", "b"], "t": {"T@G": {0: 3}}})
    assert text == ('{\n\t"dataVersion":{\n\t\t"counter":1\n\t},\n\t"empty":{},\n\t"list":[\n\t\t"a",\n\t\t"b"\n\t],'
                    '\n\t"t":{\n\t\t"T@G":{\n\t\t\t"0":3\n\t\t}\n\t}\n}')
    assert json.loads(text)["t"] == {"T@G": {"0": 3}}


_TABLE = '{"T1":{"perm":6},"T2":{"perm":4},"T3":null,"T4":[1,2],"T5":"x"}'


@pytest.mark.parametrize("text", [
    '{"a":1,"outer":{"x":[{}],"table":TABLE,"y":2},"b":"z"}', ' {\n"outer" : { "table" :\tTABLE } }\r\n',
    '{"outer":{"table":{}}}', '{"outer":{}}', "{}", '{"outer":null}', '{"outer":[1]}', '{"outer":{"table":[1]}}',
    '{"table":TABLE}', '[1,{"outer":{}}]', '"text"', "7", '{"outer":{"table":{"T\\u00e9":1,"q\\"k":2}}}',
    '{"outer":{"table":{"q\\"k":2,"T":1}}}', '{"outer":{"other":{0:"unquoted"},"table":TABLE}}',
    '{"outer":{"table":{T:1,0:2}}}', '{"outer":{"table":{"T":1},"table":{"U":2}}}'])
@pytest.mark.parametrize("comma", [",", " ,\n "])
def test_what_is_read_in_steps_is_the_same(text: str, comma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "MEMBERS_A_STEP", 2)
    text = text.replace("TABLE", _TABLE).replace(",", comma)
    assert run_to_end(fastjson.loads_in_steps(text.encode(), "outer", "table")) == fastjson.loads(text)


@pytest.mark.parametrize("text", [
    "", "{", '{"outer":{"table":{"T":1}', '{"outer":{"table":{"T":1}}}x', '{"outer":{"table":{"T":1,}}}',
    '{"outer":{"table":{"T":1e400}}}', '{"outer":{"table":{"T":NaN}}}', '{"outer":{"table":{"T":"\\ud800"}}}',
    '{"outer":{"table":{"T" 1}}}', '{"outer":{"table":{"T":' + "[" * 100 + "]" * 100 + "}}}", '{"outer" "table"}'])
def test_what_is_refused_is_refused_in_steps_with_the_same_words(text: str) -> None:
    with pytest.raises(HeaderError) as whole:
        fastjson.loads(text)
    with pytest.raises(HeaderError) as stepped:
        run_to_end(fastjson.loads_in_steps(text.encode(), "outer", "table"))
    assert str(stepped.value) == str(whole.value)


def test_many_members_take_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "MEMBERS_A_STEP", 2)
    text = '{"outer":{"table":' + _TABLE + "}}"
    assert len(list(fastjson.loads_in_steps(text.encode(), "outer", "table"))) == 4


_LISTS = {"outer": fastjson.Listed(lambda value: value, {"inner": fastjson.Listed(str, {})})}


@pytest.mark.parametrize("text", [
    "{}", ' { } ', '{"a":1}', '{"outer":[]}',
    '{"outer":[ ]  }', '{"outer":{"inner":[1]}}', '{"outer":null,"b":[1,[2]]}',
    '{"outer":[{"inner":["x","y"]},{"b":1, "inner" : []},{"inner":null},null,3]}', '{"ou\\u0074er":[{"inner":["x"]}]}',
    '{"outer":[1],"outer":[{"a":"\\ud83d\\ude00"}]}',
    '{outer:[{"inner":["x"]}]}'])
@pytest.mark.parametrize("comma", [",", " ,\n"])
@pytest.mark.parametrize("items", [1, 256])
def test_lists_that_are_read_in_steps_are_the_same(text, comma, items, monkeypatch) -> None:
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", items)
    text = text.replace(",", comma)
    assert run_to_end(fastjson.listed_in_steps(text.encode(), _LISTS)) == fastjson.loads(text)


@pytest.mark.parametrize("text", [
    "", "{", '{"outer":[{"inner":["x"]}]', '{"outer":[1]}x', '{"outer":[1,]}', '{"outer":[1e400]}', '{"outer":[NaN]}',
    '{"outer":["\\ud800"]}', '{"\\ud800":[1]}', '{"outer":[{"inner":["\\ud800"]}]}', '{"outer" 1}', '{"outer":[1 2]}',
    '{"outer":[{"inner":[' + "[" * 100 + "]" * 100 + "]}]}", '{"outer" "table"}', '{"x":' + "9" * 5_000 + "}"])
def test_what_is_refused_is_refused_with_the_same_words_where_lists_are_read_in_steps(text: str) -> None:
    with pytest.raises(HeaderError) as whole:
        fastjson.loads(text)
    with pytest.raises(HeaderError) as stepped:
        run_to_end(fastjson.listed_in_steps(text.encode(), _LISTS))
    assert str(stepped.value) == str(whole.value)


def test_a_step_reads_so_many_values_or_so_much_text_within_lists_too(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"outer": [{"inner": ["x" * 100] * 10}] * 10}).encode()
    assert len(list(fastjson.listed_in_steps(text, _LISTS))) == 0
    monkeypatch.setattr(fastjson, "TEXT_A_STEP", 1_000)
    assert 9 <= len(list(fastjson.listed_in_steps(text, _LISTS))) <= 11
    monkeypatch.setattr(fastjson, "ITEMS_A_STEP", 1)
    assert len(list(fastjson.listed_in_steps(text, _LISTS))) == 110


def test_what_a_list_is_made_of_ends_the_reading() -> None:
    def refuse(value: object) -> object:
        raise LookupError(value)

    steps = fastjson.listed_in_steps(b'{"outer":["first", what comes behind it is not looked at',
                                     {"outer": fastjson.Listed(refuse, {})})
    with pytest.raises(LookupError, match="first"):
        next(steps)


@pytest.mark.parametrize("text", ['{unquoted:1,"outer":{"table":{MEMBERS}}}', '{"outer":{"table":{MEMBERS,T:1}}}',
                                  '{"outer":{"table":{MEMBERS}}}}'])
def test_where_others_wait_much_is_read_of_plain_json_alone(text: str) -> None:
    """The rest is read by a loop in Python: 16 MiB of it would take eight seconds."""
    few, many = (text.replace("MEMBERS", ",".join([f'"T{number}":1' for number in range(count)])).encode()
                 for count in (4_000, 8_192))
    assert (fastjson.is_slow(few), fastjson.is_slow(many)) == (False, True)
    with pytest.raises(HeaderError, match="has more than 8192 objects and values"):
        run_to_end(fastjson.loads_in_steps(many, "outer", "table"))
    if "}}}}" not in text:
        assert len(run_to_end(fastjson.loads_in_steps(few, "outer", "table"))["outer"]["table"]) >= 4_000


def test_much_plain_json_is_not_slow() -> None:
    assert not fastjson.is_slow(b"[" + b"1," * 10_000 + b"1]")
