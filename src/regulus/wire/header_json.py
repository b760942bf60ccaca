"""The JSON header of a frame.

    {"code":310,"extFields":{"a":"PG"},"flag":0,"language":"JAVA","opaque":7,"remark":"text",
     "serializeTypeCurrentRPC":"JSON","version":479}

Java prints the keys in this order and leaves out null ones; readers take any order and skip unknown keys. Values of
extFields that are numbers or booleans count as their text.

Source: RemotingSerializable, RemotingCommand.
"""

import json
import re
from json.encoder import encode_basestring
from typing import Any, NoReturn

from regulus.errors import FrameError
from regulus.wire.codes import LanguageCode
from regulus.wire.command_header import CommandHeader

INT_MAX = (1 << 31) - 1

_LANGUAGE_NAMES = tuple(code.name for code in LanguageCode)
_LANGUAGE_CODES = {code.name: int(code) for code in LanguageCode}
_OTHER = int(LanguageCode.OTHER)
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(header: CommandHeader, data: bytes, start: int, end: int) -> None:
    """Fill `header` from data[start:end]. Raises FrameError."""
    _load(header, data[start:end])


def parse_ext(ext_json: bytes) -> dict[str, str]:
    return _ext_of(_strict_json(ext_json))


def encode(header: CommandHeader) -> bytes:
    """The header as Java prints it, UTF-8."""
    parts = [f'{{"code":{int(header.code)}']
    if header._ext_json is not None:
        parts.append(f',"extFields":{header._ext_json.decode()}')
    elif header._ext is not None:
        parts.append(',"extFields":{' + ",".join([f"{quote(k)}:{quote(v)}" for k, v in header._ext.items()]) + "}")
    parts.append(f',"flag":{header.flag},"language":"{language_name(header.language)}","opaque":{header.opaque}')
    if header.remark is not None:
        parts.append(f',"remark":{quote(header.remark)}')
    parts.append(f',"serializeTypeCurrentRPC":"JSON","version":{header.version}}}')
    return "".join(parts).encode("utf-8", "replace")


def quote(text: str) -> str:
    """`text` as a JSON string, escaped as fastjson does."""
    if _UNSAFE.search(text) is None:
        return f'"{text}"'
    return _RARE.sub(lambda match: f"\\u{ord(match[0]):04X}", encode_basestring(text))


_RARE = re.compile("[\x7f-\x9f\u2028\u2029]|(?<=\\\\u00)[01][a-f]")


def language_name(code: int) -> str:
    return _LANGUAGE_NAMES[code] if 0 <= code < len(_LANGUAGE_NAMES) else "OTHER"


def _load(header: CommandHeader, text: bytes) -> None:
    value = _strict_json(text)
    if not isinstance(value, dict):
        raise FrameError(f"header is no JSON object: {text[:60]!r}")
    header.code = _int(value, "code")
    header.flag = _int(value, "flag")
    header.opaque = _int(value, "opaque")
    header.version = _int(value, "version")
    header.language = _language(value.get("language"))
    remark = value.get("remark")
    header.remark = None if remark is None else _text(remark)
    header._ext = _ext_of(value.get("extFields"))
    header._ext_json = None


def _strict_json(text: bytes) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as cause:
        raise FrameError(f"header is no JSON: {cause}; it begins {text[:60]!r}") from cause
    if b"\\u" in text and _SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None:
        raise FrameError("header has half of a UTF-16 pair; send the whole character")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _int(header: dict[str, Any], key: str) -> int:
    value = header.get(key, 0)
    if value is None:
        return 0
    if type(value) is not int or not -INT_MAX - 1 <= value <= INT_MAX:
        raise FrameError(f"header field {key} is {str(value)[:40]}, not a 32-bit number")
    return value


def _language(value: Any) -> int:
    """Java takes an unknown name as null and goes on, and a number as an ordinal."""
    if type(value) is int:
        return value if 0 <= value < len(_LANGUAGE_NAMES) else _OTHER
    return _LANGUAGE_CODES.get(value, _OTHER) if isinstance(value, str) else _OTHER


def _text(value: Any) -> str:
    """A value of a string map as text; fastjson coerces in the same way."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _ext_of(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise FrameError(f"extFields is no JSON object: {str(value)[:60]}")
    return {name: _text(each) for name, each in value.items() if each is not None}
