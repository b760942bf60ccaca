"""Convert typed bodies to and from JSON values.

A body is a dataclass; its field `queue_datas` travels as `queueDatas`, or under the name given by `named`. The types
determine the conversion: text, numbers, lists, sets, maps by text, by number or by MessageQueue, other dataclasses. A
missing member takes the field's default, an unknown member is skipped, and a number may be written as text, as in
fastjson.

Source: RemotingSerializable.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from regulus.errors import HeaderError
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message_queue import MessageQueue
from regulus.wire import fastjson
from regulus.wire.ext_fields import camel_case, parse_long

Converter = Callable[[Any], Any]
Look = Callable[[Any], None]
T = TypeVar("T")


def named(name: str, *, default: Any = MISSING) -> Any:
    """A field whose member name is not its own name in camel case."""
    return field(default=default, metadata={"named": name})


def prepared(prepare: Converter, *, default: Any) -> Any:
    """A field whose value goes through `prepare` before it is converted to its type."""
    return field(default=default, metadata={"prepare": prepare})


class JsonBody:
    """The base of all bodies."""

    __slots__ = ()

    def encode(self) -> bytes:
        return encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises HeaderError naming the member that is missing or has the wrong type."""
        return decode(cls, data)


def encode(value: Any) -> bytes:
    """The JSON text of a dataclass (its own class need not be a JsonBody)."""
    return fastjson.dumps(to_value(value)).encode("utf-8", "replace")


def encode_entry(key: Any, value: Any) -> bytes:
    """One entry of a map, in the form that `splice` takes."""
    return encode({key: value})[1:-1]


def splice(body: Any, attribute: str, items: Sequence[bytes]) -> list[bytes]:
    """The JSON text of a body in parts, with `items` in its list or map `attribute`, which is empty in `body`.

    The items are already encoded, with the commas between them; this way a long body can be made a part at a time.
    """
    [name] = [member.name for member in _plan(type(body)) if member.attribute == attribute]
    text = encode(body)
    # No text within the body contains this: its quotation marks would be escaped. Nested bodies have no member of that
    # name.
    position = text.index(f'"{name}":'.encode()) + len(name) + 4
    return [text[:position], *items, text[position:]]


def decode(body: type[T], data: bytes) -> T:
    return from_value(body, fastjson.loads(data))


def from_value(body: type[T], value: Any) -> T:
    """Make a `body` from a parsed JSON object. Raises HeaderError."""
    if type(value) is body:
        return value            # made in an earlier step
    if not isinstance(value, dict):
        raise HeaderError(f"{body.__name__} is not a JSON object")
    values = {}
    for attribute, name, convert, required, _ in _plan(body):
        each = value.get(name)
        if each is None:
            if required:
                raise HeaderError(f"{body.__name__} lacks the member {name}")
            continue
        try:
            values[attribute] = convert(each)
        except (ValueError, TypeError) as cause:
            raise HeaderError(f"{body.__name__}.{name}: {cause}") from cause
    return body(**values)


def decode_in_steps(body: type[T], data: bytes, look: Look | None = None) -> Generator[None, None, T]:
    """Like `decode`, for a long body: the values of its lists, and of lists within them, are read and made a part at a
    time.

    Yields after each step but the last. `look` is called with each body of a list as soon as it is made; if it raises,
    the rest is not read.
    """
    return from_value(body, (yield from fastjson.listed_in_steps(data, _lists(body, look))))


def _lists(body: Any, look: Look | None) -> dict[str, fastjson.Listed]:
    """The members of the body that are lists of bodies or queues."""
    return {member.name: fastjson.Listed(_maker(body, member, look), _lists(member.listed, look))
            for member in (() if body in _SCALARS else _plan(body)) if member.listed is not None}


def _maker(body: Any, member: "_Member", look: Look | None) -> Converter:
    convert = _converter(member.listed)

    def make(value: Any) -> Any:
        try:
            made = convert(value)
        except (ValueError, TypeError) as cause:
            raise HeaderError(f"{body.__name__}.{member.name}: {cause}") from cause
        if look is not None:
            look(made)
        return made
    return make


def to_value(value: Any) -> Any:
    """The value in the form that fastjson.dumps takes: dataclasses become dicts, sets sorted lists."""
    if value is None or isinstance(value, (str, int, float, MessageQueue)):
        return value
    if isinstance(value, dict):
        return {key: to_value(each) for key, each in value.items()}
    if is_dataclass(value):
        return {name: to_value(getattr(value, attribute)) for attribute, name, *_ in _plan(type(value))}
    if isinstance(value, (set, frozenset)):
        return [to_value(each) for each in sorted(value)]
    return [to_value(each) for each in value]


def pretty_writer(body: Any, depth: int) -> Callable[[Any], str]:
    """A writer of the text that `fastjson.dumps_pretty` makes of a dataclass at this depth, for classes that are
    written by the thousand."""
    plan = sorted(_plan(body), key=lambda member: member.name)
    indent = "\n" + "\t" * (depth + 1)
    labels = [f"{indent}{fastjson.quote(member.name)}:" for member in plan]
    values_of = attrgetter(*[member.attribute for member in plan])
    end = indent[:-1] + "}"

    def write(value: Any) -> str:
        members = []
        for label, each in zip(labels, values_of(value), strict=True):
            kind = type(each)
            if kind is str:
                members.append(label + fastjson.quote(each))
            elif kind is int:
                members.append(label + str(each))
            elif kind is bool:
                members.append(label + ("true" if each else "false"))
            elif each == {}:
                members.append(label + "{}")
            elif each is not None:
                members.append(label + fastjson.dumps_pretty(to_value(each), depth + 1))
        return "{" + ",".join(members) + end
    return write


class _Member(NamedTuple):
    attribute: str
    name: str
    convert: Converter
    required: bool
    listed: Any
    """The class of the list's items, a body or MessageQueue; None for any other member."""


_PLANS: dict[Any, tuple[_Member, ...]] = {}


def _plan(body: Any) -> tuple[_Member, ...]:
    """How each member is converted; computed once for each class."""
    plan = _PLANS.get(body)
    if plan is None:
        plan = _PLANS[body] = _make_plan(body)
    return plan


def _make_plan(body: Any) -> tuple[_Member, ...]:
    hints = get_type_hints(body)
    return tuple([
        _Member(each.name, each.metadata.get("named") or camel_case(each.name),
                _after(each.metadata.get("prepare"), _converter(hints[each.name])),
                each.default is MISSING and each.default_factory is MISSING, _listed(hints[each.name]))
        for each in fields(body)])


def _listed(hint: Any) -> Any:
    """The class of a list's items, for the `listed` of a member."""
    if get_origin(hint) is not list:
        return None
    (each,) = get_args(hint)
    return each if each is MessageQueue or _is_body(each) else None


def _is_body(hint: Any) -> bool:
    return is_dataclass(hint) and hint not in _SCALARS


def _after(prepare: Converter | None, convert: Converter) -> Converter:
    return convert if prepare is None else lambda value: convert(prepare(value))


def _converter(hint: Any) -> Converter:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is UnionType:
        (hint,) = (each for each in arguments if each is not NoneType)
        return _converter(hint)
    if origin is list:
        return _list(_converter(arguments[0]))
    if origin is frozenset:
        items = _list(_converter(arguments[0]))
        return lambda value: frozenset(items(value))
    if origin is dict:
        return _dict(_KEYS[arguments[0]], _converter(arguments[1]))
    # The plan of a nested body is made when its first value arrives: bodies may be declared in any order.
    return lambda value: from_value(hint, value)


def _list(convert: Converter) -> Converter:
    def convert_all(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{_shown(value)} is not a list")
        return [convert(each) for each in value]
    return convert_all


def _dict(convert_key: Converter, convert: Converter) -> Converter:
    def convert_all(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{_shown(value)} is not an object")
        return {convert_key(key): convert(each) for key, each in value.items() if each is not None}
    return convert_all


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        raise ValueError(f"{_shown(value)} is not a text")
    return fastjson.dumps(value)


def _to_int(value: Any) -> int:
    if isinstance(value, str):
        return parse_long(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not -LONG_MAX - 1 <= value <= LONG_MAX:
        raise ValueError(f"{_shown(value)} is not a whole number of 64 bits")
    return value


def _to_float(value: Any) -> float:
    if type(value) not in (int, float, str):
        raise ValueError(f"{_shown(value)} is not a number")
    try:
        number = float(value)
    except OverflowError as cause:
        raise ValueError("is a number beyond all bounds") from cause
    if not math.isfinite(number):
        raise ValueError(f"{_shown(value)} is not a number that JSON can say")
    return number


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if type(value) not in (bool, int):
        raise ValueError(f"{_shown(value)} is neither true nor false")
    return bool(value)


def to_queue(value: Any) -> MessageQueue:
    """A MessageQueue from its JSON object, or from the text of one."""
    if type(value) is MessageQueue:
        return value            # made in an earlier step
    if isinstance(value, str):
        value = fastjson.loads(value)
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not a message queue")
    try:
        return MessageQueue(_to_text(value["topic"]), _to_text(value["brokerName"]), _to_int(value["queueId"]))
    except KeyError as cause:
        raise ValueError(f"message queue lacks {cause}") from cause


def _unchanged(value: Any) -> Any:
    return value


def _shown(value: Any) -> str:
    return repr(value)[:40]


_SCALARS: dict[Any, Converter] = {
    str: _to_text, int: _to_int, float: _to_float, bool: _to_bool, MessageQueue: to_queue, object: _unchanged,
}
_KEYS: dict[Any, Converter] = {str: _unchanged, int: _to_int, MessageQueue: to_queue}
