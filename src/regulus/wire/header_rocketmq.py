"""The binary header of a frame, serialize type ROCKETMQ.

    size   field
       2   code
       1   language
       2   version
       4   opaque
       4   flag
    4 + n  remark       length 0 means none
    4 + m  ext map      length m of all entries; each entry: 2 + k name, 4 + v value

Strings are UTF-8 behind their length. An entry with an empty name or value counts as absent.

Source: RocketMQSerializable.
"""

from struct import Struct

from regulus.errors import FrameError
from regulus.wire.command_header import CommandHeader

_FIXED = Struct(">hBhiii")
_INT = Struct(">i")
_SHORT = Struct(">h")
_NAME_SIZE_MAX = 32767


def decode(header: CommandHeader, data: bytes, start: int, end: int) -> None:
    """Fill `header` from data[start:end]. Raises FrameError."""
    position = start + 21
    if end < position:
        raise FrameError(f"binary header has {end - start} bytes, at least 21 are needed")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(data, start)
    position -= 4
    if not 0 <= remark_size <= end - position - 4:
        raise FrameError(f"binary header's remark length {remark_size} does not fit")
    header.code = code
    header.language = language
    header.version = version
    header.opaque = opaque
    header.flag = flag
    header.remark = _text(data, position, position + remark_size) if remark_size else None
    position += remark_size
    ext_size = _INT.unpack_from(data, position)[0]
    position += 4
    if ext_size < 0 or ext_size > end - position:
        raise FrameError(f"binary header's ext length {ext_size} does not fit")
    header._ext = _decode_ext(data, position, position + ext_size) if ext_size else None
    header._ext_json = None


def _decode_ext(data: bytes, position: int, end: int) -> dict[str, str]:
    ext = {}
    while position < end:
        if position + 2 > end:
            raise FrameError("binary header's ext map is cut short")
        name_size = _SHORT.unpack_from(data, position)[0]
        position += 2
        if name_size < 0 or name_size + 4 > end - position:
            raise FrameError(f"binary header's ext name length {name_size} does not fit")
        name_end = position + name_size
        value_size = _INT.unpack_from(data, name_end)[0]
        value_start = name_end + 4
        if value_size < 0 or value_size > end - value_start:
            raise FrameError(f"binary header's ext value length {value_size} does not fit")
        if name_size and value_size:
            ext[_text(data, position, name_end)] = _text(data, value_start, value_start + value_size)
        position = value_start + value_size
    return ext


def _text(data: bytes, start: int, end: int) -> str:
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as cause:
        raise FrameError(f"binary header has text that is no UTF-8: {cause.reason}") from cause


def encode(header: CommandHeader, ext: dict[str, str] | None) -> bytes:
    remark = header.remark.encode("utf-8", "replace") if header.remark else b""
    entries = _encode_ext(ext) if ext else b""
    # The code has 16 bits here; Java cuts larger ones off in the same way.
    code = (header.code + 0x8000 & 0xFFFF) - 0x8000
    version = (header.version + 0x8000 & 0xFFFF) - 0x8000
    fixed = _FIXED.pack(code, header.language & 0xFF, version, header.opaque, header.flag, len(remark))
    return b"".join((fixed, remark, _INT.pack(len(entries)), entries))


def _encode_ext(ext: dict[str, str]) -> bytes:
    parts = []
    for name, value in ext.items():
        name_bytes = name.encode("utf-8", "replace")
        value_bytes = value.encode("utf-8", "replace")
        if len(name_bytes) > _NAME_SIZE_MAX:
            raise FrameError(f"ext name of {len(name_bytes)} bytes; {_NAME_SIZE_MAX} are the most")
        parts += (_SHORT.pack(len(name_bytes)), name_bytes, _INT.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)
