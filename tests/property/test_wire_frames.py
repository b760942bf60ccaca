"""Frames: any command survives the way in any pieces; no bytes at all raise anything but our own errors."""

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from regulus.errors import FrameError, HeaderError, MessageIllegal
from regulus.model import sys_flag
from regulus.model.message import Message
from regulus.wire import compression, header_json, message_batch
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers import PullMessageRequest, SendMessageRequest
from regulus.wire.remoting_command import JSON, ROCKETMQ, RemotingCommand

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FULL_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
SHORT = st.integers(-(1 << 15), (1 << 15) - 1)


@st.composite
def commands(draw: st.DrawFn) -> RemotingCommand:
    serialize_type = draw(st.sampled_from([JSON, ROCKETMQ]))
    # The binary form has 16 bits for the code and the version, and no way to tell empty from absent.
    binary = serialize_type == ROCKETMQ
    return RemotingCommand(
        draw(SHORT if binary else INT), draw(st.dictionaries(FULL_TEXT, FULL_TEXT if binary else TEXT, max_size=6)),
        draw(st.binary(max_size=50)), draw(INT), draw(INT), draw(st.none() | (FULL_TEXT if binary else TEXT)),
        draw(st.integers(0, 13)), draw(SHORT if binary else INT), serialize_type)


def facts(command: RemotingCommand) -> tuple[object, ...]:
    return (command.code, command.ext, command.body, command.flag, command.opaque, command.remark, command.language,
            command.version, command.serialize_type)


@settings(deadline=None)
@given(st.lists(commands(), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_commands_survive_the_way_in_any_pieces(sent: list[RemotingCommand], sizes: list[int]) -> None:
    stream = b"".join([command.encode() for command in sent])
    reader = FrameReader()
    received = []
    position = turn = 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        reader.feed(stream[position:position + size])
        if turn % 3 != 1:
            received += reader.frames()
        position += size
        turn += 1
    received += reader.frames()
    assert [facts(command) for command in received] == [facts(command) for command in sent]
    assert reader.buffered == 0
    # What was read is sent on as it came.
    assert b"".join([command.encode() for command in received]) == stream


@settings(deadline=None)
@given(st.lists(commands() | st.builds(RemotingCommand, st.just(310), body=st.binary(max_size=50)), max_size=5),
       st.lists(st.integers(1, 64), min_size=1), st.integers(0, 80))
def test_commands_survive_the_way_through_lent_memory(sent: list[RemotingCommand], sizes: list[int],
                                                      front: int) -> None:
    stream = b"".join([command.encode() for command in sent])
    reader = FrameReader()
    received = []
    buffer = bytearray(front + 64)
    position = turn = 0
    while position < len(stream):
        piece = stream[position:position + sizes[turn % len(sizes)]]
        buffer[front:front + len(piece)] = piece
        reader.lend(buffer, front, front + len(piece))
        received += [facts(command) for command in reader.frames()]
        reader.give_back()
        buffer[:] = b"\xff" * len(buffer)
        position += len(piece)
        turn += 1
    assert received == [facts(command) for command in sent]
    assert reader.buffered == 0


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8)
HEADER_KEYS = st.sampled_from(["code", "flag", "opaque", "version", "language", "remark", "extFields",
                               "serializeTypeCurrentRPC", "other"])
EXT = st.dictionaries(st.text(max_size=6), st.text(max_size=10) | st.integers() | st.booleans() | st.none(), max_size=5)
HEADERS = st.dictionaries(HEADER_KEYS, INT | st.sampled_from(["JAVA", "GO", "none"]) | EXT | JSON_VALUES, max_size=8)


@settings(deadline=None)
@given(HEADERS, st.booleans(), st.booleans())
def test_the_scan_and_the_json_module_agree(header: dict[str, object], is_ascii: bool, is_compact: bool) -> None:
    text = json.dumps(header, ensure_ascii=is_ascii, separators=(",", ":") if is_compact else None)
    assert_both_ways_agree(text.encode("utf-8", "surrogatepass"))


@settings(deadline=None)
@given(HEADERS, st.data())
def test_they_agree_on_damaged_headers(header: dict[str, object], data: st.DataObject) -> None:
    text = bytearray(json.dumps(header, separators=(",", ":"), ensure_ascii=data.draw(st.booleans()))
                     .encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(text)))
        text[position:position + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from([b"", b'"', b"\\", b",", b":", b"{", b"}", b"\0", b"\xff", b"9", b"-", b" ", b"\\u", b"n"]))
    assert_both_ways_agree(bytes(text))


def assert_both_ways_agree(text: bytes) -> None:
    scanned = RemotingCommand(0)
    try:
        is_taken = header_json.scan(scanned, text, 0, len(text))
    except FrameError:
        is_taken = False
    if is_taken:
        loaded = RemotingCommand(0)
        header_json.load(loaded, text)
        assert facts(scanned) == facts(loaded)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_frames_or_a_frame_error(data: bytes) -> None:
    read_all(data)


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([0, 1, 1, 2]), st.integers(-2, 2))
def test_any_bytes_behind_honest_lengths_are_frames_or_a_frame_error(data: bytes, kind: int, lie: int) -> None:
    header_size = max(0, len(data) + lie)
    read_all((4 + len(data)).to_bytes(4, "big") + (kind << 24 | header_size).to_bytes(4, "big") + data)


@settings(deadline=None)
@given(commands(), st.data())
def test_a_damaged_frame_is_another_frame_or_a_frame_error(command: RemotingCommand, data: st.DataObject) -> None:
    frame = bytearray(command.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read_all(bytes(frame))


def read_all(data: bytes) -> None:
    reader = FrameReader()
    reader.feed(data)
    try:
        received = reader.frames()
    except FrameError:
        return
    for command in received:
        # Whatever was accepted can be looked at and sent on.
        assert all(isinstance(value, str) for value in command.ext.values())
        assert repr(command)
        command.encode()
        for header in (SendMessageRequest, PullMessageRequest):
            with suppress(HeaderError):
                header.decode(command)


PROPERTY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1,
                        max_size=10)
SENDS = st.builds(
    SendMessageRequest, TEXT, TEXT, TEXT, INT, INT, INT, st.integers(-(1 << 63), (1 << 63) - 1), INT,
    st.dictionaries(PROPERTY_TEXT, PROPERTY_TEXT, max_size=5), INT, st.booleans(),
    INT.filter(lambda value: value != -(1 << 31)), st.booleans(), st.none() | TEXT)


@settings(deadline=None)
@given(SENDS, st.sampled_from([10, 310, 320, 324, 325]))
def test_a_send_survives_the_way(request: SendMessageRequest, code: int) -> None:
    reader = FrameReader()
    reader.feed(RemotingCommand.request(code, request.ext_for(code)).encode())
    again = SendMessageRequest.decode(reader.frames()[0])
    assert again.ext() == request.ext()
    assert again.properties == request.properties


@settings(deadline=None)
@given(st.lists(st.builds(lambda body, properties, flag: Message("T", body, properties=properties, flag=flag),
                          st.binary(max_size=20), st.dictionaries(PROPERTY_TEXT, PROPERTY_TEXT, max_size=3), INT)))
def test_a_batch_survives_the_way(messages: list[Message]) -> None:
    decoded = message_batch.decode(message_batch.encode(messages))
    assert [each[:3] for each in decoded] == [(each.flag, each.body, each.properties) for each in messages]


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_are_a_batch_or_a_header_error(data: bytes) -> None:
    with suppress(HeaderError):
        message_batch.decode(data)


@settings(deadline=None)
@given(st.binary(max_size=2000), st.sampled_from([0, 0x100, 0x200, 0x300]), st.integers(1, 9))
def test_a_compressed_body_survives_the_way(body: bytes, type_bits: int, level: int) -> None:
    packed = compression.compress(body, type_bits, level)
    assert compression.decompress(packed, sys_flag.COMPRESSED | type_bits) == body


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from([0, 0x100, 0x200, 0x300]), st.data())
def test_a_damaged_compressed_body_is_a_body_or_refused(body: bytes, type_bits: int, data: st.DataObject) -> None:
    packed = bytearray(compression.compress(body, type_bits))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(MessageIllegal):
        assert len(compression.decompress(bytes(packed), sys_flag.COMPRESSED | type_bits, 100_000)) <= 100_000


SEND_NAMES = [*"abcdefghijklmn", "producerGroup", "topic", "properties", "o", "x", "Signature"]
PULL_NAMES = ["consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
              "suspendTimeoutMillis", "subscription", "subVersion", "expressionType", "maxMsgBytes", "requestSource",
              "proxyFrowardClientId", "bname", "ReqT", "AccessKey"]
ODD_VALUES = st.sampled_from([
    "", "0", "7", "-1", "+5", "007", "-0", "-", "true", "false", "TRUE", "truex", "1.5", "2147483647", "2147483648",
    "-2147483649", "9223372036854775807", "9223372036854775808", "k\x01v\x02", "k\x01v", "\x01v\x02", "k\x01\x02a\x01b",
    "no\x02", "a\x01b\x01c\x02", 'q"\x01\\\x02', "标\x01签\x02", "TAG", 'x"y', "z\\", 5, -5, 0,
    1 << 40, True, False, None])


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([(SEND_NAMES, SendMessageRequest, "abcdefgh"),
                        (PULL_NAMES, PullMessageRequest, PULL_NAMES[:8])]), st.data())
def test_a_header_read_from_its_bytes_is_the_header_read_from_its_map(kind: Any, data: st.DataObject) -> None:
    names, header, required = kind
    ext = dict.fromkeys(required, "1") if data.draw(st.booleans()) else {}
    ext |= data.draw(st.dictionaries(st.sampled_from(names), ODD_VALUES | TEXT, max_size=6))
    text = json.dumps({"code": 310, "extFields": ext}, ensure_ascii=data.draw(st.booleans()), separators=(",", ":"))
    loaded, scanned = RemotingCommand(0), RemotingCommand(0)
    header_json.load(loaded, text.encode())
    if header_json.scan(scanned, text.encode(), 0, len(text.encode())):
        assert outcome(header, scanned) == outcome(header, loaded)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_pull_read_from_its_binary_map_is_the_pull_read_from_its_map(data: st.DataObject) -> None:
    ext = dict.fromkeys(PULL_NAMES[:8], "1") if data.draw(st.booleans()) else {}
    values = ODD_VALUES.filter(lambda value: isinstance(value, str)) | TEXT
    ext |= data.draw(st.dictionaries(st.sampled_from([*PULL_NAMES, ""]), values, max_size=6))
    reader = FrameReader()
    reader.feed(RemotingCommand.request(11, ext, serialize_type=ROCKETMQ).encode())
    # An empty name or value counts as absent.
    held = {name: value for name, value in ext.items() if name and value}
    assert outcome(PullMessageRequest, reader.frames()[0]) == outcome(PullMessageRequest, RemotingCommand(11, held))


def outcome(header: Any, command: RemotingCommand) -> object:
    try:
        return header.decode(command).ext()
    except HeaderError as error:
        return str(error)
