"""The doors: functions that take bytes as a stranger may send them, and read all that can be read of them.

The first byte of an input chooses the door, by its place in DOORS; so a new one goes to the end. A door may raise what
is in ALLOWED: bytes that are refused. Whatever else comes out is a finding.
"""

from array import array
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from zlib import crc32

from regulus.access.signed_sends import SignedSends
from regulus.errors import FrameError, HeaderError, MessageIllegal, RecordError
from regulus.model import message_properties
from regulus.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from regulus.record import dispatch_request, layout, log_units, message_columns, message_record, named_properties
from regulus.wire import header_json, header_rocketmq, headers, message_batch
from regulus.wire.codes import RequestCode
from regulus.wire.ext_fields import Header
from regulus.wire.frame_reader import FrameReader
from regulus.wire.headers.pull_message import decode_pull_message_request
from regulus.wire.headers.send_message import decode_send_message_request, decode_send_message_response
from regulus.wire.headers.straight_send import StraightSendReader
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand
from regulus.wire.straight_batch import StraightBatchReader

ALLOWED = (FrameError, HeaderError, RecordError, MessageIllegal)
ACCESS_KEY, SECRET_KEY, TOPIC = "billing", "secret-of-billing", "orders"
"""The account and the topic of which `signed_sends` knows, for seeds that come so far."""

_LENT_AT = 64                   # bytes before a lent piece, where the rest of the piece before it goes
_RULES = object()
_CHANNEL = 1
_HOST = bytes((10, 0, 0, 1, 0, 0, 42, 159))
_STAMP = b"CLUSTER\x01C\x02"
_UNUSUAL = frozenset((b"DELAY", b"CLUSTER", b"MSG_REGION"))
_NAMES = (b"TAGS", b"KEYS", b"UNIQ_KEY", b"KEY")
_DELAYS_MS = (1_000, 5_000)
_RECORDS_MAX = 64
_HASHES_MAX = 256
_PARTS_MAX = 8
_PLACES_MAX = 3
_BETWEEN = b"\xff\xfe"          # the parts of an input that becomes several records
_HEAD = Struct(">BBH")
# A record up to its born host, its store timestamp, and from behind the store host to the body: see layout.
_FRONT = Struct(">iiiiiqqiq")
_TIME = Struct(">q")
_MIDDLE = Struct(">iqi")
_IS_V2 = 0x80
_SHORT_MAX = 0xFFFF


def _header_of(code: RequestCode) -> type[Header] | None:
    """The typed header of a request, by the name that both have."""
    words = "".join(word.capitalize() for word in code.name.split("_"))
    return getattr(headers, f"{words}Request", None)


_HEADERS = {int(code): header for code in RequestCode if (header := _header_of(code)) is not None}


# --- frames ----------------------------------------------------------------------------------------------------------


def frames(data: bytes) -> None:
    """A connection: the first byte says how large its pieces are, and whether they are fed or lent."""
    piece_size = (data[0] >> 1) * 8 + 1
    reader = FrameReader()
    for start in range(1, len(data), piece_size):
        piece = data[start:start + piece_size]
        if reader.room is not None:
            size = min(len(piece), len(reader.room))
            reader.room[:size] = piece[:size]
            reader.fill(size)
        elif data[0] & 1:
            reader.lend(bytearray(_LENT_AT) + piece, _LENT_AT, _LENT_AT + len(piece))
        else:
            reader.feed(piece)
        for command in reader.frames():
            _read_command(command)
        if data[0] & 1:
            reader.give_back()


def _read_command(command: RemotingCommand) -> None:
    assert len(command.body) >= 0
    again = command.encode()
    assert len(again) >= 8
    with suppress(HeaderError):
        if command.code in _HEADERS:
            _HEADERS[command.code].decode(command)
    assert command.ext is command.ext


# --- headers ---------------------------------------------------------------------------------------------------------


def _straight_send(command: RemotingCommand) -> None:
    """What goes straight becomes a record that can be read, and the ordinary way would not have refused it."""
    command.opaque &= 0x7FFFFFFF
    reader = StraightSendReader(_UNUSUAL, _STAMP)
    if reader.read(command):
        message = reader.message
        message.born_host = message.store_host = _HOST
        message.queue_offset = message.physical_offset = message.store_timestamp = 0
        message.prepared_transaction_offset = 0
        record = message_record.encode(message)
        dispatch_request.request_of(message)
        stored = message_record.decode(record)
        assert (stored.topic, stored.body) == (message.topic, command.body)
        try:
            decode_send_message_request(command)
        except HeaderError as error:
            raise AssertionError("taken straight, and refused on the ordinary way") from error


def _signed_send(command: RemotingCommand) -> None:
    sends = SignedSends()
    sends.remember(_CHANNEL, _RULES, ACCESS_KEY, SECRET_KEY, TOPIC)
    command.code = int(RequestCode.SEND_MESSAGE_V2)
    sends.passes(command, _CHANNEL, _RULES)


_HEADER_READERS: tuple[Callable[[RemotingCommand], object], ...] = (
    _straight_send, decode_send_message_request, decode_pull_message_request, decode_send_message_response,
    _signed_send, headers.PullMessageResponse.decode, _read_command,
)
HEADER_READERS = {reader.__name__.strip("_"): number for number, reader in enumerate(_HEADER_READERS)}
"""Their numbers, as `header_input` wants one."""


def header_input(reader: int, is_binary: bool, header: bytes, body: bytes) -> bytes:
    """An input of `header`, whatever its sizes are."""
    return _HEAD.pack(reader, is_binary, len(body)) + header + body


def header(data: bytes) -> None:
    """A header and a body without their sizes, so that each change of them is still a frame."""
    reader, is_binary, body_size = _HEAD.unpack(data[:_HEAD.size].ljust(_HEAD.size, b"\0"))
    content = data[_HEAD.size:]
    middle = max(0, len(content) - body_size)
    command = RemotingCommand(0, None, serialize_type=is_binary & ROCKETMQ)
    read = header_rocketmq.decode if is_binary & ROCKETMQ else header_json.decode
    read(command, content, 0, middle)
    command.leave_body(content, middle, len(content))
    _HEADER_READERS[reader % len(_HEADER_READERS)](command)


# --- batches and properties ------------------------------------------------------------------------------------------


def batch(data: bytes) -> None:
    """A batch's body, on both ways. What goes straight, the ordinary way takes too, as many messages."""
    reader = StraightBatchReader(_UNUSUAL)
    command = RemotingCommand(int(RequestCode.SEND_BATCH_MESSAGE), {}, data)
    count = 0
    if reader.read(command, TOPIC, b"", 7, _STAMP):
        for message in reader:
            message.born_host = message.store_host = _HOST
            message.queue_offset = message.physical_offset = message.store_timestamp = 0
            message.queue_id = message.sys_flag = message.born_timestamp = 0
            message.reconsume_times = message.prepared_transaction_offset = 0
            message_record.decode(message_record.encode(message))
            count += 1
    messages = message_batch.decode(data)
    assert count in (0, len(messages))


def properties(data: bytes) -> None:
    """A property string: what is read of it is written so that the same is read again."""
    text = data.decode("utf-8", "replace")
    read = message_properties.parse(text)
    assert message_properties.parse(message_properties.format(read)) == read


# --- records ---------------------------------------------------------------------------------------------------------


def records(data: bytes) -> None:
    """A piece of a log, or a pull answer's body, as it is."""
    _read_walked(data)
    _read_anywhere(data, data[:_PLACES_MAX])
    with suppress(RecordError):
        _read_columns(data)
    message_record.decode_all(data)


def _read_anywhere(data: bytes, places: bytes) -> None:
    """At places that need not be where a record begins: what consume queues and offsets say may be wrong."""
    for position in (0, *places):
        with suppress(RecordError):
            message_record.decode(data, position, False)
        with suppress(RecordError):
            dispatch_request.request_at(data, position, len(data), True).properties()
        with suppress(RecordError):
            message_columns.read_fields(data, memoryview(array("q", [position])),
                                        memoryview(array("q", bytes(8 * len(message_columns.FIELDS)))))
        _read_named(data, position)


def _read_named(data: bytes, position: int) -> None:
    values: list[str | None] = [None] * len(_NAMES)
    named_properties.read_named(memoryview(data), position, len(data), list(_NAMES), values)


def made_input(flags: int, body: bytes, topic: bytes, texts: bytes) -> bytes:
    """A part of an input of `made_records`."""
    return bytes((flags, len(topic) & 0xFF, len(body) & 0xFF)) + topic + body + texts


def made_records(data: bytes) -> None:
    """Records whose lengths are right, so that what is in them is read: the parts say sizes, texts and flags."""
    stream = b""
    for part in data.split(_BETWEEN)[:_PARTS_MAX]:
        stream += _made_record(part, len(stream))
    _read_walked(stream)
    _read_columns(stream)
    for message in message_record.decode_all(stream):
        with suppress(MessageIllegal):
            message_record.encode(message)


def _made_record(part: bytes, position: int) -> bytes:
    flags, topic_size, body_size = part[:3].ljust(3, b"\0")
    body_start = 3 + topic_size
    topic, body, texts = part[3:body_start], part[body_start:][:body_size], part[body_start:][body_size:][:_SHORT_MAX]
    magic, count_size = (layout.MAGIC_V2, 2) if flags & _IS_V2 else (layout.MAGIC_V1, 1)
    born_host = _HOST.ljust(layout.HOST_V6_SIZE if flags & BORN_HOST_V6 else layout.HOST_V4_SIZE, b"\0")
    store_host = _HOST.ljust(layout.HOST_V6_SIZE if flags & STORE_HOST_V6 else layout.HOST_V4_SIZE, b"\0")
    rest = b"".join((born_host, _TIME.pack(position), store_host, _MIDDLE.pack(flags, position, len(body)), body,
                     len(topic).to_bytes(count_size, "big"), topic, len(texts).to_bytes(2, "big"), texts))
    size, checksum = _FRONT.size + len(rest), crc32(body) & 0x7FFFFFFF
    return _FRONT.pack(size, magic, checksum, flags, flags, position, position, flags, position) + rest


def _read_walked(data: bytes) -> None:
    walk = log_units.LogWalk(_DELAYS_MS, True, True, True)
    table = array("q", bytes(8 * _RECORDS_MAX * len(log_units.FIELDS)))
    hashes = array("q", bytes(8 * _HASHES_MAX))
    walk.walk(data, memoryview(data), 0, len(data), 0, memoryview(table), _RECORDS_MAX, memoryview(hashes))


def _read_columns(data: bytes) -> None:
    """As a table reader: records, their fields, their properties, and each column gathered."""
    found = array("q", bytes(8 * _RECORDS_MAX))
    rows = message_columns.find_records(data, memoryview(found))
    positions = found[:rows]
    for position in positions:
        _read_named(data, position)
        dispatch_request.request_at(data, position, len(data), True).properties()
    table = array("q", bytes(8 * rows * len(message_columns.FIELDS)))
    message_columns.read_fields(data, memoryview(positions), memoryview(table))
    columns = {name: table[number * rows:(number + 1) * rows] for number, name in enumerate(message_columns.FIELDS)}
    for name in ("body", "topic", "properties"):
        _gather(data, columns[f"{name}_start"], columns[f"{name}_end"])
    _read_properties(data, columns["properties_start"], columns["properties_end"])


def _gather(data: bytes, starts: "array[int]", ends: "array[int]") -> None:
    offsets = array("i", bytes(4 * (len(starts) + 1)))
    size = message_columns.lay_out(memoryview(starts), memoryview(ends), memoryview(offsets))
    target = bytearray(size)
    message_columns.gather(data, memoryview(starts), memoryview(ends), memoryview(offsets), memoryview(target))
    assert target == b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))


def _read_properties(data: bytes, starts: "array[int]", ends: "array[int]") -> None:
    """What the columns say of the names is what a map of the properties has."""
    rows = len(starts)
    room = message_columns.properties_max(memoryview(starts), memoryview(ends))
    counts, places = array("q", bytes(8 * len(_NAMES))), array("q", bytes(16 * len(_NAMES) * rows))
    offsets, entries = array("i", bytes(4 * (rows + 1))), array("q", bytes(32 * room))
    total = message_columns.read_properties(data, memoryview(starts), memoryview(ends), _NAMES, memoryview(counts),
                                            memoryview(places), memoryview(offsets), memoryview(entries))
    assert total <= room


DOORS: tuple[Callable[[bytes], None], ...] = (frames, header, batch, properties, records, made_records)


def knock(data: bytes) -> None:
    """Give an input to the door that its first byte chooses. Raises whatever is a finding."""
    if len(data) < 2:
        return
    with suppress(*ALLOWED):
        DOORS[data[0] % len(DOORS)](data[1:])


def input_for(door: Callable[[bytes], None], data: bytes) -> bytes:
    return bytes((DOORS.index(door),)) + data
