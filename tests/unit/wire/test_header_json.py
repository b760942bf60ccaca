import json
from contextlib import suppress

import pytest

from regulus.errors import FrameError
from regulus.wire import header_json
from regulus.wire.command_header import CommandHeader
from regulus.wire.remoting_command import RemotingCommand

SEND = (b'{"code":310,"extFields":{"a":"PG","b":"T","d":4,"k":false,"x":null},"flag":0,"language":"GO","opaque":7,'
        b'"remark":"r","serializeTypeCurrentRPC":"JSON","version":317}')


def loaded(text: bytes) -> RemotingCommand:
    command = RemotingCommand(0)
    header_json.load(command, text)
    return command


def scanned(text: bytes) -> RemotingCommand | None:
    """Behind other bytes, as in a chunk of the stream."""
    command = RemotingCommand(0)
    return command if header_json.scan(command, b"\x00\x01" + text + b"body", 2, 2 + len(text)) else None


def facts(command: RemotingCommand) -> tuple[object, ...]:
    return (command.code, command.flag, command.opaque, command.version, command.language, command.remark, command.ext)


def test_both_ways_read_a_header() -> None:
    for command in (loaded(SEND), scanned(SEND)):
        assert command is not None
        assert facts(command) == (310, 0, 7, 317, 9, "r", {"a": "PG", "b": "T", "d": "4", "k": "false"})


@pytest.mark.parametrize("text", [
    b'{"code":0,"flag":1,"opaque":-5,"version":0}',
    b'{"extFields":{}}',
    b'{"code":105,"language":"JAVA","opaque":1,"flag":0,"version":121,"extFields":{"topic":"GNormal"}}',
    b'{"code":105,"extFields":{"AccessKey":"","topic":"T"},"flag":0,"language":"CPP","opaque":0,"remark":"","version":63}\n',
    '{"code":1,"remark":"没有","extFields":{"键":"值"}}'.encode(),
    b'{"code":1,"extFields":{"i":"a\\u0001b\\u0002","q":"\\"\\\\\\/\\n\\t\\r\\b\\f\\u00e9"}}',
    b'{"code":1,"extFields":{"a\\u0001":"x"},"extFields":{"b":"y"},"code":2}',
    b'{"code":2147483647,"opaque":-2147483648}',
    b'{"language":"KLINGON"}',
])
def test_the_scan_reads_what_clients_print(text: bytes) -> None:
    command = scanned(text)
    assert command is not None
    assert facts(command) == facts(loaded(text))


@pytest.mark.parametrize("text", [
    b'{}',
    b'{ "code":1}',
    b'{"code": 1}',
    b'{"code":1 }',
    b'{"code":1.0}'.replace(b"1.0", b"1,\"x\":[]"),
    b'{"code":1,"unknown":1}',
    b'{"code":1,"unknown":"text"}',
    b'{"code":1,"unknown":{"a":"b"}}',
    b'{"code":1,"extFields":null}',
    b'{"code":1,"extFields":{"a":{"b":"c"}}}',
    b'{"code":1,"extFields":{"a":["b"]}}',
    b'{"code":1,"extFields":{"a":1.5}}',
    b'{"code":1,"extFields":{"a":12345678901234567890}}',
    b'{"code":1,"extFields":{"a":"\\ud83d\\ude00"}}',
    b'{"code":1,"remark":"line\\nline"}',
    b'{"code":1,"language":3}',
    b'{"code":1,"extFields":{"a":"raw\x01control"}}',
])
def test_the_scan_leaves_unusual_headers_to_the_json_module(text: bytes) -> None:
    assert scanned(text) is None
    loaded(text)


def test_loading_takes_numbers_for_names_and_nested_values_for_text() -> None:
    command = loaded(b'{"code":1,"language":3,"extFields":{"a":{"b":["c",1]},"n":1.5,"t":true},"remark":5}')
    assert command.language == 3
    assert command.ext == {"a": '{"b":["c",1]}', "n": "1.5", "t": "true"}
    assert command.remark == "5"


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"7", b'"x"', b"{}x", b'{"code"}', b'{"code":}', b'{"code":"1"}', b'{"code":1.5}',
    b'{"code":true}',
    b'{"code":2147483648}', b'{"opaque":-2147483649}', b'{"code":NaN}', b'{"extFields":[]}', b'{"extFields":"x"}',
    b'{"code":1,}', b'{"extFields":{"a":"b",}}', b'{"extFields":{"a":"b"}', b'{"extFields":{"a" "b"}}',
    b'{"remark":"\xff"}', b'{"extFields":{"a":"\xff"}}', b'{"extFields":{"a":"\\ud800"}}', b'{"remark":"\\udc00"}',
    b'{"language":"\xff"}', b'{"extFields":{"a":"\\x"}}', b'{"extFields":{"a":"\\u12"}}',
    b'{"extFields":{"a":"\\u12G4"}}', b'{"code":01}', b'{"code":-}', b'{"extFields":{"a":tru}}',
    b'{"extFields":{"a":nul', b'{"code":1' + b"0" * 5000 + b"}",
    b'{"extFields":' + b'{"a":' * 100_000,
])
def test_anything_else_is_refused_with_its_beginning(text: bytes) -> None:
    command = RemotingCommand(0)
    with pytest.raises(FrameError, match="header"):
        header_json.decode(command, text, 0, len(text))
    # The scan says no or refuses as well; it never takes what the json module refuses.
    with suppress(FrameError):
        assert not header_json.scan(command, text, 0, len(text))


def test_depth_is_refused_wherever_it_becomes_too_much() -> None:
    for depth in (*range(950, 1050), 5000):
        for text in (b'{"extFields":{"x":' + b"[" * depth + b"]" * depth + b"}}",
                     b'{"remark":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"):
            with suppress(FrameError):
                header_json.decode(RemotingCommand(0), text, 0, len(text))


def test_the_scan_stays_within_its_bounds() -> None:
    for end in range(len(SEND)):
        assert not header_json.scan(RemotingCommand(0), SEND, 0, end)


def test_encoding_prints_what_java_prints() -> None:
    command = RemotingCommand(105, {"topic": "T"}, opaque=7, language=0)
    assert header_json.encode(command) == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}')


def test_only_what_is_there_is_printed() -> None:
    command = RemotingCommand(0, flag=1, remark="why")
    assert header_json.encode(command) == (b'{"code":0,"flag":1,"language":"PYTHON","opaque":0,"remark":"why",'
                                           b'"serializeTypeCurrentRPC":"JSON","version":479}')


@pytest.mark.parametrize(("text", "printed"), [
    ("plain", '"plain"'),
    ("é北😀", '"é北😀"'),
    ("a\x01b\x02", '"a\\u0001b\\u0002"'),
    ("\"\\/\n\t\r\b\f", '"\\"\\\\/\\n\\t\\r\\b\\f"'),
    ("\x0b\x1f\x7f\x9f\u2028", '"\\u000B\\u001F\\u007F\\u009F\\u2028"'),
    ("\\u001f", '"\\\\u001f"'),
])
def test_strings_are_escaped_as_fastjson_does(text: str, printed: str) -> None:
    assert header_json.quote(text) == printed
    assert json.loads(header_json.quote(text)) == text


def test_half_a_utf16_pair_is_sent_as_a_question_mark() -> None:
    assert b'"remark":"?"' in header_json.encode(RemotingCommand(0, remark="\ud800"))


def test_a_language_beyond_the_table_is_other() -> None:
    assert header_json.language_name(13) == "NODE_JS"
    assert header_json.language_name(99) == header_json.language_name(-1) == "OTHER"


def test_the_scanner_tells_entries_one_by_one() -> None:
    scanner = header_json.ExtScanner(b'{"a":"x\\u0001y","b":12,"c":null}')
    entries = []
    while scanner.next():
        entries.append((scanner.key(), scanner.value(), scanner.is_text))
    assert entries == [("a", "x\x01y", True), ("b", "12", False), ("c", None, False)]


def test_a_plain_header_has_no_fields() -> None:
    assert CommandHeader().code == 0
