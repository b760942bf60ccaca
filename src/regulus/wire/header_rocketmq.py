"""The binary header of a frame, serialize type ROCKETMQ.

    size   field
       2   code
       1   language
       2   version
       4   opaque
       4   flag
    4 + n  remark       length 0 means none
    4 + m  ext map      length m of all entries; each entry: 2 + k name, 4 + v value

Strings are UTF-8, each after its length. An entry with an empty name or value counts as absent.

Source: RocketMQSerializable.
"""

from struct import Struct

from regulus.errors import FrameError
from regulus.wire import big_endian
from regulus.wire.codes import RequestCode
from regulus.wire.command_header import CommandHeader
from regulus.wire.header_json import cut

_FIXED = Struct(">hBhiii")
_VALUE_SIZE = Struct(">i")
_NAME_SIZE = Struct(">h")
_SIZE_MIN = 21
_NAME_SIZE_MAX = 32767
# Requests whose fields are read directly from the map, because they are the most frequent. Interpreted, the fields of a
# pull are read faster from a dictionary.
_SEND_MESSAGE_V2 = int(RequestCode.SEND_MESSAGE_V2)
_PULL_MESSAGE = int(RequestCode.PULL_MESSAGE) if not __file__.endswith(".py") else _SEND_MESSAGE_V2


def decode(header: CommandHeader, data: bytes | bytearray, start: int, end: int) -> None:
    """Fill `header` from data[start:end]. Raises FrameError."""
    text = data
    if end - start < _SIZE_MIN:
        raise FrameError(f"binary header has {end - start} bytes, at least {_SIZE_MIN} are needed")
    header.code = big_endian.int2(text, start)
    header.language = text[start + 2]
    header.version = big_endian.int2(text, start + 3)
    header.opaque = big_endian.int4(text, start + 5)
    header.flag = big_endian.int4(text, start + 9)
    remark_size = big_endian.int4(text, start + 13)
    position = start + 17
    if remark_size < 0 or remark_size > end - position - 4:
        raise FrameError(f"binary header's remark length {remark_size} does not fit")
    header.remark = _text(text, position, position + remark_size) if remark_size else None
    position += remark_size
    ext_size = big_endian.int4(text, position)
    position += 4
    if ext_size < 0 or ext_size > end - position:
        raise FrameError(f"binary header's ext length {ext_size} does not fit")
    header.ext_map = header.ext_json = header.ext_binary = None
    if (header.code == _SEND_MESSAGE_V2 or header.code == _PULL_MESSAGE) \
            and is_whole_ascii(text, position, position + ext_size):
        header.ext_binary = cut(text, position, position + ext_size)
    elif ext_size:
        header.ext_map = _decode_ext(text, position, position + ext_size)


def parse_ext(ext_binary: bytes) -> dict[str, str]:
    """The map that `decode` left unparsed."""
    return _decode_ext(ext_binary, 0, len(ext_binary))


def is_whole_ascii(text: bytes | bytearray, position: int, end: int) -> bool:
    """Whether the map has only whole entries in ASCII: nothing that `_decode_ext` would refuse."""
    while position < end:
        if position + 6 > end:
            return False
        name_size = big_endian.int2(text, position)
        position += 2
        if name_size < 0 or name_size + 4 > end - position:
            return False
        value_size = big_endian.int4(text, position + name_size)
        if value_size < 0 or value_size > end - position - name_size - 4:
            return False
        if not (_is_ascii(text, position, position + name_size)
                and _is_ascii(text, position + name_size + 4, position + name_size + 4 + value_size)):
            return False
        position += name_size + 4 + value_size
    return True


def _is_ascii(text: bytes | bytearray, start: int, end: int) -> bool:
    bits = 0
    for position in range(start, end):
        bits |= text[position]
    return bits < 0x80


def _decode_ext(text: bytes | bytearray, position: int, end: int) -> dict[str, str]:
    ext = {}
    while position < end:
        if position + 2 > end:
            raise FrameError("binary header's ext map is cut short")
        name_size = big_endian.int2(text, position)
        position += 2
        if name_size < 0 or name_size + 4 > end - position:
            raise FrameError(f"binary header's ext name length {name_size} does not fit")
        name_end = position + name_size
        value_size = big_endian.int4(text, name_end)
        value_start = name_end + 4
        if value_size < 0 or value_size > end - value_start:
            raise FrameError(f"binary header's ext value length {value_size} does not fit")
        if name_size and value_size:
            ext[_text(text, position, name_end)] = _text(text, value_start, value_start + value_size)
        position = value_start + value_size
    return ext


def _text(text: bytes | bytearray, start: int, end: int) -> str:
    try:
        return text[start:end].decode("utf-8")
    except UnicodeDecodeError as cause:
        raise FrameError(f"binary header has text that is not UTF-8: {cause.reason}") from cause


def encode(header: CommandHeader, ext: dict[str, str] | None) -> bytes:
    """The encoded header; its own binary map precedes `ext`."""
    remark = header.remark.encode("utf-8", "replace") if header.remark else b""
    entries = header.ext_binary
    if entries is None:
        entries = _encode_ext(ext) if ext else b""
    # The code has 16 bits here; Java cuts larger ones off in the same way.
    code = (header.code + 0x8000 & 0xFFFF) - 0x8000
    version = (header.version + 0x8000 & 0xFFFF) - 0x8000
    fixed = _FIXED.pack(code, header.language & 0xFF, version, header.opaque, header.flag, len(remark))
    return b"".join((fixed, remark, _VALUE_SIZE.pack(len(entries)), entries))


def _encode_ext(ext: dict[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in ext.items():
        name_bytes = name.encode("utf-8", "replace")
        value_bytes = value.encode("utf-8", "replace")
        if len(name_bytes) > _NAME_SIZE_MAX:
            raise FrameError(f"ext name of {len(name_bytes)} bytes; {_NAME_SIZE_MAX} are the most")
        parts += (_NAME_SIZE.pack(len(name_bytes)), name_bytes, _VALUE_SIZE.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)
