"""Read and write JSON like fastjson 1.

Besides standard JSON, its writer prints map keys that are not strings without quotes, `{0:"a"}`, and objects as keys,
`{{"brokerName":"b","queueId":0,"topic":"T"}:5}`. All of that is read here, but only object keys are written (integer
keys are quoted, which every known reader accepts).

Source: com.alibaba.fastjson.JSON, MapSerializer, PrettyFormat.
"""

import json
import math
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, NoReturn

from regulus.errors import HeaderError
from regulus.model.message_queue import MessageQueue

NESTING_MAX = 64
"""The maximum depth of arrays and objects that is read; real bodies have 7."""
_TOO_DEEP = f"JSON is nested deeper than {NESTING_MAX}"

SLOW_MAX = 8_192
"""The maximum number of objects, lists and commas in text that is not standard JSON. Reading it takes ten times as long
and delays other work, and no known peer sends much of it."""

MEMBERS_A_STEP = 256
"""Members read in one step of `loads_in_steps`."""

TEXT_A_STEP = 16_384
"""Characters read and converted in one step of `listed_in_steps`."""
ITEMS_A_STEP = 256
"""List values made in one step of it, if they are shorter."""

_BLANK = re.compile(r"[ \t\r\n]*")
_LABEL = re.compile(r'[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*')
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*)"')
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_LITERALS = {"true": True, "false": False, "null": None}
_SURROGATE = re.compile("[\ud800-\udfff]")


def _finite(text: str) -> float:
    """Raises for `1e400`, which would be read as infinity: it can become neither a whole number nor JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise HeaderError(f"JSON has the number {text[:40]}, which is beyond all bounds")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise HeaderError(f"JSON has {name}, which is not a number")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)
_LOADS = _DECODER.decode
_VALUE_AT = _DECODER.raw_decode


def loads(data: bytes | str) -> Any:
    """The value of a fastjson text; unquoted keys become text, object keys compact JSON text. Raises HeaderError."""
    text = _text(data)
    try:
        value = _LOADS(text)
    except (ValueError, RecursionError):
        value = _Reader(text).document()
    else:
        _check_depth(value)
    if _may_have_pairs(text):
        _check_pairs(value)
    return value


def is_slow(data: bytes) -> bool:
    """Whether `loads` of this text would take long enough to delay other work. Raises HeaderError for some of the texts
    that `loads` refuses."""
    if not _names_much(data):
        return False
    try:
        _LOADS(_text(data))
    except ValueError:
        return True
    except RecursionError:
        raise HeaderError(_TOO_DEEP) from None
    return False


def _names_much(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") + data.count(b",") > SLOW_MAX


def loads_in_steps(data: bytes, *path: str) -> Generator[None, None, Any]:
    """Like `loads`, for an object at the end of this path of names with very many members, which are read in parts.

    Yields after each part. Text that only fastjson would write is read at once, and refused if there is much of it.
    """
    # An escaped character may be half of a surrogate pair. Checking that there are no escapes is quick.
    if b"\\" in data and b"\\u" in data:
        return loads(data)
    yield
    text = _text(data)
    yield
    with suppress(ValueError, RecursionError):      # it is not standard JSON, which is read below or refused
        value, end = yield from _object_in_steps(text, _end_of_blank(text, 0), path)
        if not text[end:].strip():
            return value
    if _names_much(data):
        raise HeaderError(f"JSON that only fastjson would write has more than {SLOW_MAX} objects and "
                          "values")
    return loads(text)


@dataclass(frozen=True, slots=True)
class Listed:
    """How to read a member that is a list: `make` converts each value, and the members `within` of its objects are
    lists, too."""

    make: Callable[[Any], Any]
    within: "Mapping[str, Listed]"


def listed_in_steps(data: bytes, lists: Mapping[str, Listed]) -> Generator[None, None, Any]:
    """Like `loads`, for an object in which these members may be long lists: their values are read and made one after
    the other.

    Yields after each step but the last. If `make` raises, the rest is not read. Text that only fastjson would write is
    read at once, and refused if there is much of it.
    """
    text = _text(data)
    try:
        return (yield from _in_parts(_document(text, lists)))
    except RecursionError:
        raise HeaderError(_TOO_DEEP) from None
    except ValueError:      # it is not standard JSON
        if _names_much(data):
            raise HeaderError(f"the body is not plain JSON and has more than {SLOW_MAX} objects and values, and all "
                              "others wait while it is read: name fewer things in one request") from None
    value = loads(text)
    yield from _in_parts(_made(value, lists))
    return value


def _in_parts(steps: Generator[int, None, Any]) -> Generator[None, None, Any]:
    """Combine small steps into longer ones. Each small step yields the position up to which it has read."""
    begin = 0
    while True:
        for _ in range(ITEMS_A_STEP):
            try:
                position = next(steps)
            except StopIteration as end:
                return end.value
            if position - begin >= TEXT_A_STEP:
                begin = position
                break
        yield


def _document(text: str, lists: Mapping[str, Listed]) -> Generator[int, None, Any]:
    position = _end_of_blank(text, 0)
    value, position = yield from _listed_object(text, position, lists, _may_have_pairs(text))
    if position != len(text):
        raise ValueError("more than one value")
    return value


def _listed_object(text: str, position: int, lists: Mapping[str, Listed],
                   is_paired: bool) -> Generator[int, None, tuple[Any, int]]:
    """The object at `position`, and the position of its end. Raises ValueError when it is not JSON."""
    value: dict[str, Any] = {}
    position = _behind(text, position, "{")
    if text[position:position + 1] == "}":
        return value, _behind(text, position, "}")
    while True:
        label = _LABEL.match(text, position)
        if label is None:
            raise ValueError("no member")
        key, position = _leaf(text, label.start(1), is_paired)[0], label.end()
        listed = lists.get(key)
        if listed is not None and text[position:position + 1] == "[":
            value[key], position = yield from _list(text, position, listed, is_paired)
        else:
            value[key], position = _leaf(text, position, is_paired)
            yield position
        if text[position:position + 1] != ",":
            return value, _behind(text, position, "}")
        position += 1


def _list(text: str, position: int, listed: Listed, is_paired: bool) -> Generator[int, None, tuple[list[Any], int]]:
    values: list[Any] = []
    position = _behind(text, position, "[")
    if text[position:position + 1] == "]":
        return values, _behind(text, position, "]")
    while True:
        if listed.within and text[position:position + 1] == "{":
            value, position = yield from _listed_object(text, position, listed.within, is_paired)
        else:
            value, position = _leaf(text, position, is_paired)
        values.append(value if value is None else listed.make(value))
        yield position
        if text[position:position + 1] != ",":
            return values, _behind(text, position, "]")
        position = _end_of_blank(text, position + 1)


def _leaf(text: str, position: int, is_paired: bool) -> tuple[Any, int]:
    """The value at `position`, read at once, and the position of the next token."""
    value, position = _VALUE_AT(text, position)
    if isinstance(value, (dict, list)):
        _check_depth(value)
    if is_paired:
        _check_pairs(value)
    return value, _end_of_blank(text, position)


def _made(value: Any, lists: Mapping[str, Listed]) -> Generator[int, None, None]:
    """Convert the lists of an object that is already read."""
    for key, listed in lists.items() if isinstance(value, dict) else ():
        values = value.get(key)
        for place, each in enumerate(values) if isinstance(values, list) else ():
            yield from _made(each, listed.within)
            values[place] = each if each is None else listed.make(each)
            yield 0


def _may_have_pairs(text: str) -> bool:
    return "\\ud" in text or "\\uD" in text


def _check_pairs(value: Any) -> None:
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None:
        raise HeaderError("JSON has half of a UTF-16 pair")


def _object_in_steps(text: str, position: int, path: tuple[str, ...]) -> Generator[None, None, tuple[Any, int]]:
    """The object at `position`, and the position of its end. Raises ValueError when it is not JSON."""
    value: dict[str, Any] = {}
    position = _behind(text, position, "{")
    if text[position:position + 1] == "}":
        return value, position + 1
    while True:
        label = _LABEL.match(text, position)
        if label is None:
            raise ValueError("no member")
        key, position = _VALUE_AT(text, label.start(1))[0], label.end()
        if path and key == path[0] and text[position:position + 1] == "{":
            value[key], position = yield from _object_in_steps(text, position, path[1:])
        else:
            value[key], position = _VALUE_AT(text, position)
            _check_depth(value[key])
        if not path and len(value) % MEMBERS_A_STEP == 0:
            yield
        position = _end_of_blank(text, position)
        if text[position:position + 1] != ",":
            return value, _behind(text, position, "}")
        position += 1


def _behind(text: str, position: int, character: str) -> int:
    if text[position:position + 1] != character:
        raise ValueError(f"no {character}")
    return _end_of_blank(text, position + 1)


def _end_of_blank(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    assert blank is not None        # it may be empty
    return blank.end()


def _text(data: bytes | str) -> str:
    try:
        return data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise HeaderError(f"JSON is not UTF-8: {cause.reason} at byte {cause.start}") from cause


def _check_depth(value: Any) -> None:
    """Raises HeaderError if the value is nested deeper than NESTING_MAX."""
    level = [value]
    for _ in range(NESTING_MAX + 1):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    raise HeaderError(_TOO_DEEP)


def dumps(value: Any) -> str:
    """The JSON text: keys sorted, None left out of objects, MessageQueue keys as objects."""
    parts: list[str] = []
    _write(value, parts, None, 0)
    return "".join(parts)


def dumps_pretty(value: Any, depth: int = 0) -> str:
    """Like `dumps`, indented by tabs, as in RocketMQ's config files; `depth` is the depth of the value."""
    parts: list[str] = []
    _write(value, parts, "\t", depth)
    return "".join(parts)


def queue_value(queue: MessageQueue) -> dict[str, Any]:
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def quote(text: str) -> str:
    # As json.dumps does without ensure_ascii, except that json.dumps makes an encoder for each call.
    return encode_basestring(text)


def _write(value: Any, parts: list[str], indent: str | None, depth: int) -> None:
    if value is None or value is True or value is False:
        parts.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, str):
        parts.append(quote(value))
    elif isinstance(value, float):
        parts.append(repr(value) if math.isfinite(value) else "null")
    elif isinstance(value, int):
        parts.append(str(int(value)))
    elif isinstance(value, MessageQueue):
        if indent is None:
            parts.append(_queue_text(value))
        else:
            _write(queue_value(value), parts, indent, depth)
    elif isinstance(value, dict):
        entries = sorted([(_key(key), each) for key, each in value.items() if each is not None], key=_first)
        _write_items("{", "}", [(f"{key}:", each) for key, each in entries], parts, indent, depth)
    else:
        _write_items("[", "]", [("", each) for each in value], parts, indent, depth)


def _queue_text(queue: MessageQueue) -> str:
    return f'{{"brokerName":{quote(queue.broker_name)},"queueId":{queue.queue_id},"topic":{quote(queue.topic)}}}'


def _first(entry: tuple[str, Any]) -> str:
    return entry[0]


def _key(key: Any) -> str:
    if isinstance(key, MessageQueue):
        return _queue_text(key)
    return quote(key if isinstance(key, str) else str(key))


def _write_items(opening: str, closing: str, items: list[tuple[str, Any]], parts: list[str], indent: str | None,
                 depth: int) -> None:
    parts.append(opening)
    for number, (label, each) in enumerate(items):
        if number:
            parts.append(",")
        if indent is not None:
            parts.append("\n" + indent * (depth + 1))
        parts.append(label)
        _write(each, parts, indent, depth + 1)
    if items and indent is not None:
        parts.append("\n" + indent * depth)
    parts.append(closing)


class _Reader:
    """Reads what json does not, with one token of look-ahead and one call per nesting level."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.is_in_key = False

    def document(self) -> Any:
        value = self.value()
        if self.peek():
            raise self.fault("the end")
        return value

    def value(self) -> Any:
        character = self.peek()
        if character == "{":
            return self.object()
        if character == "[":
            return self.array()
        if character == '"':
            return self.string()
        number = _NUMBER.match(self.text, self.position)
        if number is not None:
            return self.number(number)
        word = _WORD.match(self.text, self.position)
        if word is None or word[0] not in _LITERALS:
            raise self.fault("a value")
        self.position = word.end()
        return _LITERALS[word[0]]

    def number(self, number: "re.Match[str]") -> int | float:
        self.position = number.end()
        try:
            return _finite(number[0]) if number[1] or number[2] else int(number[0])
        except ValueError as cause:
            raise HeaderError(f"JSON has a number of {len(number[0])} digits") from cause

    def object(self) -> dict[str, Any]:
        self.descend()
        value: dict[str, Any] = {}
        if self.peek() != "}":
            while True:
                key = self.key()
                self.expect(":")
                value[key] = self.value()
                if self.peek() != ",":
                    break
                self.position += 1
        self.expect("}")
        self.depth -= 1
        return value

    def array(self) -> list[Any]:
        self.descend()
        value: list[Any] = []
        if self.peek() != "]":
            while True:
                value.append(self.value())
                if self.peek() != ",":
                    break
                self.position += 1
        self.expect("]")
        self.depth -= 1
        return value

    def key(self) -> str:
        character = self.peek()
        if character == '"':
            return self.string()
        if character == "{":
            return self.object_key()
        bare = _NUMBER.match(self.text, self.position) or _WORD.match(self.text, self.position)
        if bare is None:
            raise self.fault("a key")
        self.position = bare.end()
        return bare[0]

    def object_key(self) -> str:
        # Otherwise each key within a key would double the backslashes of the inner one.
        if self.is_in_key:
            raise HeaderError(f"JSON has an object key within an object key at character {self.position}")
        self.is_in_key = True
        text = dumps(self.object())
        self.is_in_key = False
        return text

    def string(self) -> str:
        match = _STRING.match(self.text, self.position)
        if match is None:
            raise self.fault("a whole string")
        self.position = match.end()
        return str(json.loads(match[0])) if "\\" in match[1] else match[1]

    def peek(self) -> str:
        blank = _BLANK.match(self.text, self.position)
        if blank is not None:
            self.position = blank.end()
        return self.text[self.position:self.position + 1]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise self.fault(repr(character))
        self.position += 1

    def descend(self) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise HeaderError(_TOO_DEEP)
        self.position += 1

    def fault(self, wanted: str) -> HeaderError:
        found = self.text[self.position:self.position + 20]
        return HeaderError(f"JSON lacks {wanted} at character {self.position}: {found!r}")
