"""The JSON header of a frame.

    {"code":310,"extFields":{"a":"PG"},"flag":0,"language":"JAVA","opaque":7,"remark":"text",
     "serializeTypeCurrentRPC":"JSON","version":479}

Java prints the keys in this order and leaves out null ones; readers take any order and skip unknown keys. Values of
extFields that are numbers or booleans count as their text.

There are two readers with the same result. `scan` walks the bytes of a compact, flat header and leaves extFields as
JSON for `ExtScanner`; it rejects anything that no known client prints. In that case, and always when this module runs
interpreted, `load` parses the header with the json module.

Source: RemotingSerializable, RemotingCommand.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from regulus.errors import FrameError
from regulus.model.java_numbers import INT_MAX
from regulus.wire.codes import LanguageCode
from regulus.wire.command_header import CommandHeader

_INT_MAX = INT_MAX
_COMPILED = not __file__.endswith(".py")
_DIGITS_MAX = 18
_CONTROL = 1
_NOT_ASCII = 2
_LANGUAGE_NAMES = tuple(code.name for code in LanguageCode)
_LANGUAGE_CODES = {code.name: int(code) for code in LanguageCode}
_JAVA = int(LanguageCode.JAVA)
_OTHER = int(LanguageCode.OTHER)
# The string decoder alone; the other steps of the JSON decoder cost more.
_SCAN_STRING: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_LOADS = json.JSONDecoder(strict=False, parse_constant=lambda name: _refuse(name)).decode
_UNSAFE = re.compile("[\"\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(header: CommandHeader, data: bytes | bytearray, start: int, end: int) -> None:
    """Fill `header` from data[start:end]. Raises FrameError."""
    if not _COMPILED or not scan(header, data, start, end):
        load(header, bytes(data[start:end]))


def parse_ext(ext_json: bytes) -> dict[str, str]:
    """The map of an extFields object that `scan` accepted."""
    ext = {}
    scanner = scanner_of(ext_json)
    while scanner.next():
        value = scanner.value()
        if value is not None:
            ext[scanner.key()] = value
    return ext


# --- scanning --------------------------------------------------------------------------------------------------------


def scan(header: CommandHeader, data: bytes | bytearray, start: int, end: int) -> bool:
    """Fill `header` from a compact, flat JSON header; False when there is anything else in it. Raises FrameError."""
    text = data
    header.code = header.flag = header.opaque = header.version = 0
    header.language = _OTHER
    header.remark = None
    header.ext_map = None
    header.ext_json = None
    while end > start and text[end - 1] <= ord(" "):
        end -= 1
    surprises = _surprises(text, start, end)
    position = start
    if end - start < 2 or text[position] != ord("{") or surprises & _CONTROL:
        return False
    while text[position] != ord("}"):
        # At this position there is the opening brace or a comma.
        key = position + 2
        if key >= end or text[key - 1] != ord('"'):
            return False
        key_end = _string_end(text, key, end) - 1
        position = key_end + 2
        if key_end < 0 or position >= end or text[position - 1] != ord(":"):
            return False
        if text[position] == ord("{"):
            if not matches(text, key, key_end, b"extFields", 9):
                return False
            value_end = _object_end(text, position, end)
            if value_end < 0:
                return False
            header.ext_json = cut(text, position, value_end)
        elif text[position] == ord('"'):
            value_end = _string_end(text, position + 1, end)
            if value_end < 0 or not _take_text(header, text, key, key_end, position + 1, value_end - 1):
                return False
        else:
            value_end = integer_end(text, position, end)
            if value_end < 0 or not _take_integer(header, text, key, key_end, integer(text, position, value_end)):
                return False
        position = value_end
        if position >= end or (text[position] != ord(",") and text[position] != ord("}")):
            return False
    if surprises & _NOT_ASCII:
        _checked_utf8(text, start, end)
    return position + 1 == end


def _take_text(header: CommandHeader, text: bytes | bytearray, key: int, key_end: int, start: int, end: int) -> bool:
    if matches(text, key, key_end, b"language", 8):
        if matches(text, start, end, b"JAVA", 4):
            header.language = _JAVA
        else:
            header.language = _language(text[start:end].decode("utf-8", "replace"))
        return True
    if matches(text, key, key_end, b"remark", 6):
        if _has_escape(text, start, end):
            return False
        header.remark = _checked_utf8(text, start, end)
        return True
    return matches(text, key, key_end, b"serializeTypeCurrentRPC", 23)


def _take_integer(header: CommandHeader, text: bytes | bytearray, key: int, key_end: int, value: int) -> bool:
    if value > _INT_MAX or value < -_INT_MAX - 1:
        return False
    if matches(text, key, key_end, b"opaque", 6):
        header.opaque = value
    elif matches(text, key, key_end, b"code", 4):
        header.code = value
    elif matches(text, key, key_end, b"flag", 4):
        header.flag = value
    elif matches(text, key, key_end, b"version", 7):
        header.version = value
    else:
        return False
    return True


class ExtScanner:
    """Walks an extFields object that `scan` accepted, entry by entry.

    After `next` said True, `text` holds the name in [key_start, key_end); the value begins at `start` and, once
    `find_end` or `value` was called, ends before `end`, both without quotes. A caller that walks a value itself sets
    `end`.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.key_start = 0
        self.key_end = 0
        self.start = 0
        self.end = 0
        self.is_text = False

    def next(self) -> bool:
        text = self.text
        if self.end < 0:
            self.find_end()
        # The brace of the object or a comma, then a quote; a lone brace is the end.
        position = self.end + 1 if self.is_text else self.end
        key = position + 2
        if text[position] == ord("}") or text[position + 1] != ord('"'):
            return False
        position = key + 1 if _is_letter(text, key) else key
        while text[position] != ord('"'):
            position += 2 if text[position] == ord("\\") else 1
        self.key_start = key
        self.key_end = position
        self.is_text = text[position + 2] == ord('"')
        self.start = position + 3 if self.is_text else position + 2
        self.end = -1
        return True

    def find_end(self) -> None:
        text = self.text
        position = self.start
        if self.is_text:
            while text[position] != ord('"'):
                position += 2 if text[position] == ord("\\") else 1
        else:
            while text[position] != ord(",") and text[position] != ord("}"):
                position += 1
        self.end = position

    def key(self) -> str:
        return _string(self.text, self.key_start, self.key_end)

    def value(self) -> str | None:
        """The value as text; None for null."""
        if self.end < 0:
            self.find_end()
        if not self.is_text and self.text[self.start] == ord("n"):
            return None
        return _string(self.text, self.start, self.end)


def scanner_of(text: bytes) -> ExtScanner:
    """ExtScanner(text), without the cost of a call through the type when compiled."""
    scanner = ExtScanner.__new__(ExtScanner)
    scanner.text = text
    scanner.end = 0
    scanner.is_text = False
    return scanner


def _string(text: bytes | bytearray, start: int, end: int) -> str:
    if _has_escape(text, start, end):
        return _SCAN_STRING(utf8(text, start, end) + '"', 0, False)[0]
    return utf8(text, start, end)


def cut(text: bytes | bytearray, start: int, end: int) -> bytes:
    """The bytes of text[start:end]. The compiled slice has this type already, so the concatenation makes no copy."""
    return b"" + text[start:end]


def utf8(text: bytes | bytearray, start: int, end: int) -> str:
    """The text of bytes that `scan` has already checked."""
    return text[start:end].decode("utf-8")


def _checked_utf8(text: bytes | bytearray, start: int, end: int) -> str:
    try:
        return text[start:end].decode("utf-8")
    except UnicodeDecodeError as cause:
        raise FrameError(f"header is not UTF-8: {cause.reason}") from cause


def _surprises(text: bytes | bytearray, start: int, end: int) -> int:
    """_CONTROL and _NOT_ASCII, if such characters occur.

    The loop has no branch, so that a C compiler processes 16 bytes at a time: `c - 0x20 & ~c` has bit 0x80 when c is
    below 0x20.
    """
    control = 0
    bits = 0
    for position in range(start, end):
        character = text[position]
        bits |= character
        control |= (character - 0x20) & ~character
    return (_CONTROL if control & 0x80 else 0) | (_NOT_ASCII if bits & 0x80 else 0)


def _has_escape(text: bytes | bytearray, start: int, end: int) -> bool:
    for position in range(start, end):  # noqa: SIM110 - a loop becomes C
        if text[position] == ord("\\"):
            return True
    return False


def matches(text: bytes | bytearray, start: int, end: int, name: bytes, size: int) -> bool:
    if end - start != size:
        return False
    for index in range(size):  # noqa: SIM110 - a loop becomes C
        if text[start + index] != name[index]:
            return False
    return True


def _string_end(text: bytes | bytearray, position: int, end: int) -> int:
    """The position after the closing quote of the string whose first character is at `position`; -1 when it is
    unusual."""
    while position < end:
        character = text[position]
        position += 1
        if character == ord('"'):
            return position
        if character == ord("\\"):
            position = _escape_end(text, position, end)
            if position < 0:
                return -1
    return -1


def _escape_end(text: bytes | bytearray, position: int, end: int) -> int:
    """The position after the escape whose letter is at `position`; -1 when it is unknown or half of a UTF-16 pair."""
    if position + 4 >= end:
        return -1
    character = text[position]
    if character == ord("u"):
        if text[position + 1] == ord("d") or text[position + 1] == ord("D"):
            return -1
        for index in range(position + 1, position + 5):
            character = text[index]
            if not (ord("0") <= character <= ord("9") or ord("a") <= character <= ord("f")
                    or ord("A") <= character <= ord("F")):
                return -1
        return position + 5
    if character == ord('"') or character == ord("\\") or character == ord("/") or character == ord("n") \
            or character == ord("t") or character == ord("r") or character == ord("b") or character == ord("f"):
        return position + 1
    return -1


def _object_end(text: bytes | bytearray, position: int, end: int) -> int:
    """The position after the flat object whose brace is at `position`; -1 when it is unusual."""
    if position + 1 < end and text[position + 1] == ord("}"):
        return position + 2
    while True:
        key = position + 2
        if key + 1 >= end or text[key - 1] != ord('"'):
            return -1
        position = key + 3 if _is_letter(text, key) else _string_end(text, key, end) + 1
        if position < 1 or position >= end or text[position - 1] != ord(":"):
            return -1
        if text[position] == ord('"'):
            position = _string_end(text, position + 1, end)
        else:
            position = _token_end(text, position, end)
        if position < 0 or position >= end:
            return -1
        if text[position] == ord("}"):
            return position + 1
        if text[position] != ord(","):
            return -1


def _is_letter(text: bytes | bytearray, key: int) -> bool:
    """Whether the name at `key` has one character, as most names of a send do; the check saves a loop."""
    return text[key + 1] == ord('"') and text[key] != ord('"') and text[key] != ord("\\")


def _token_end(text: bytes | bytearray, position: int, end: int) -> int:
    """The position after true, false, null or a whole number; -1 for anything else."""
    if position + 4 < end and text[position] == ord("t"):
        return position + 4 if matches(text, position, position + 4, b"true", 4) else -1
    if position + 4 < end and text[position] == ord("n"):
        return position + 4 if matches(text, position, position + 4, b"null", 4) else -1
    if position + 5 < end and text[position] == ord("f"):
        return position + 5 if matches(text, position, position + 5, b"false", 5) else -1
    return integer_end(text, position, end)


def integer_end(text: bytes | bytearray, position: int, end: int) -> int:
    if position < end and text[position] == ord("-"):
        position += 1
    first = position
    while position < end and ord("0") <= text[position] <= ord("9"):
        position += 1
    digits = position - first
    if digits == 0 or digits > _DIGITS_MAX or (digits > 1 and text[first] == ord("0")):
        return -1
    return position


def integer(text: bytes | bytearray, position: int, end: int) -> int:
    """The number that `integer_end` accepted."""
    value = 0
    first = position + 1 if text[position] == ord("-") else position
    for index in range(first, end):
        value = value * 10 + (text[index] - ord("0"))
    return value if first == position else -value


# --- loading ---------------------------------------------------------------------------------------------------------


def load(header: CommandHeader, text: bytes) -> None:
    """Fill `header` from any JSON object. Raises FrameError."""
    value = _parsed(text)
    if not isinstance(value, dict):
        raise FrameError(f"header is not a JSON object: {text[:60]!r}")
    header.code = _number(value, "code")
    header.flag = _number(value, "flag")
    header.opaque = _number(value, "opaque")
    header.version = _number(value, "version")
    header.language = _language(value.get("language"))
    remark = value.get("remark")
    header.remark = None if remark is None else _text(remark)
    header.ext_map = _ext_of(value.get("extFields"))
    header.ext_json = None


def _parsed(text: bytes) -> Any:
    try:
        value = _LOADS(text.decode("utf-8"))
        # Escapes can spell halves of UTF-16 pairs, which UTF-8 cannot encode.
        may_have_halves = b"\\ud" in text or b"\\uD" in text
        if may_have_halves and _SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None:
            raise FrameError("header has half of a UTF-16 pair; send the whole character")
    except (ValueError, RecursionError) as cause:
        raise FrameError(f"header is not JSON: {cause}; it begins {text[:60]!r}") from cause
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON")


def _number(header: dict[str, Any], key: str) -> int:
    value = header.get(key)
    if value is None:
        return 0
    if type(value) is not int or not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise FrameError(f"header field {key} is {str(value)[:40]}, not a 32-bit number")
    return value


def _language(value: Any) -> int:
    """The language code. Java reads an unknown name as null and continues, and a number as an ordinal."""
    if type(value) is int:
        return value if 0 <= value < len(_LANGUAGE_NAMES) else _OTHER
    return _LANGUAGE_CODES.get(value, _OTHER) if isinstance(value, str) else _OTHER


def _text(value: Any) -> str:
    """A value of a string map as text; fastjson converts in the same way."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as cause:
        raise FrameError("header is nested too deep") from cause


def _ext_of(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise FrameError(f"header field extFields is not a JSON object: {str(value)[:60]}")
    return {name: _text(each) for name, each in value.items() if each is not None}


# --- encoding --------------------------------------------------------------------------------------------------------


def encode(header: CommandHeader) -> bytes:
    """The header as Java prints it, UTF-8."""
    if header.remark is None and header.ext_json is not None:
        # Most answers: one text, without anything that UTF-8 cannot encode.
        return (f'{{"code":{header.code},"extFields":{header.ext_json.decode()},"flag":{header.flag},'
                f'"language":"{language_name(header.language)}","opaque":{header.opaque},'
                f'"serializeTypeCurrentRPC":"JSON","version":{header.version}}}').encode()
    ext = ""
    if header.ext_json is not None:
        ext = f',"extFields":{header.ext_json.decode()}'
    elif header.ext_map is not None:
        fields = ",".join([f"{quote(name)}:{quote(value)}" for name, value in header.ext_map.items()])
        ext = f',"extFields":{{{fields}}}'
    remark = "" if header.remark is None else f',"remark":{quote(header.remark)}'
    return (f'{{"code":{header.code}{ext},"flag":{header.flag},"language":"{language_name(header.language)}",'
            f'"opaque":{header.opaque}{remark},"serializeTypeCurrentRPC":"JSON","version":{header.version}}}'
            ).encode("utf-8", "replace")


def quote(text: str) -> str:
    """`text` as a JSON string, escaped as fastjson does."""
    if needs_no_escapes(text):
        return f'"{text}"'
    if needs_no_escapes(text.replace("\x01", "").replace("\x02", "")):
        # A property string.
        return '"' + text.replace("\x01", "\\u0001").replace("\x02", "\\u0002") + '"'
    return f'"{_UNSAFE.sub(_escape, text)}"'


def needs_no_escapes(text: str) -> bool:
    """Whether the text needs no escapes in a JSON string."""
    if not _COMPILED:
        return _UNSAFE.search(text) is None
    for character in text:
        if character < " " or character == '"' or character == "\\" or "\x7f" <= character <= "\x9f" \
                or character == "\u2028" or character == "\u2029":
            return False
    return True


def _escape(match: "re.Match[str]") -> str:
    character = match[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def language_name(code: int) -> str:
    return _LANGUAGE_NAMES[code] if 0 <= code < len(_LANGUAGE_NAMES) else "OTHER"
