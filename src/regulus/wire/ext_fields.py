"""Convert typed request and response headers to and from a command's ext fields, the string map of every frame.

A header is a frozen dataclass that derives from `Header`. Its field `consumer_group` travels as `consumerGroup`, or
under the name given by `spelled`. The types are Java's: `int` has 32 bits, `Long` 64, `bool` is `true` or anything
else, `str` is text. A field with a default is optional; None is left out.

Source: RemotingCommand.makeCustomHeaderToNet, RemotingCommand.decodeCommandCustomHeader.
"""

from collections.abc import Callable
from dataclasses import MISSING, field, fields
from types import NoneType
from typing import Annotated, Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from regulus.errors import HeaderError
from regulus.model.java_numbers import INT_MAX, LONG_MAX
from regulus.wire.remoting_command import RemotingCommand

Long = Annotated[int, 64]
"""Java's long; a plain `int` is Java's int."""

_ABSENT: Any = object()


def spelled(*names: str, default: Any = _ABSENT) -> Any:
    """A field whose wire name is not its own name in camel case; further names are read and written too."""
    if default is _ABSENT:
        return field(metadata={"spelled": names})
    return field(default=default, metadata={"spelled": names})


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def parse_int(text: str) -> int:
    return whole_number(text, INT_MAX)


def parse_long(text: str) -> int:
    return whole_number(text, LONG_MAX)


def whole_number(text: str, limit: int) -> int:
    """A number as Java parses it. Raises ValueError when the text is not a number, or is outside [-limit - 1,
    limit]."""
    try:
        number = int(text)
    except ValueError as cause:     # also for thousands of digits
        raise ValueError("is not a whole number") from cause
    # Python's int() accepts more than Java: underscores, blanks and other digits.
    if str(number) != text:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("is not a whole number")
    if not -limit - 1 <= number <= limit:
        raise ValueError(f"is outside {-limit - 1} ... {limit}")
    return number


def parse_bool(text: str) -> bool:
    return text.lower() == "true"


class _Field(NamedTuple):
    attribute: str
    names: tuple[str, ...]
    parse: Callable[[str], Any] | None
    required: bool


_PARSERS: dict[Any, Callable[[str], Any] | None] = {
    str: None, int: parse_int, Long: parse_long, bool: parse_bool, float: float,
}


_PLANS: dict[Any, tuple[_Field, ...]] = {}


def _plan(header: Any) -> tuple[_Field, ...]:
    """How each field is converted; computed once for each class."""
    plan = _PLANS.get(header)
    if plan is None:
        plan = _PLANS[header] = _make_plan(header)
    return plan


def _make_plan(header: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(header, include_extras=True)
    plan = []
    for each in fields(header):
        hint = hints[each.name]
        if get_origin(hint) is not Annotated and NoneType in get_args(hint):
            (hint,) = (part for part in get_args(hint) if part is not NoneType)
        names = each.metadata.get("spelled") or (camel_case(each.name),)
        plan.append(_Field(each.name, names, _PARSERS[hint], each.default is MISSING))
    return tuple(plan)


class Header:
    """The base of all typed headers."""

    __slots__ = ()

    @classmethod
    def decode(cls, command: RemotingCommand) -> Self:
        """Raises HeaderError naming the field when a required field is missing or a value does not parse."""
        return cls.from_ext(command.ext)

    @classmethod
    def from_ext(cls, ext: dict[str, str]) -> Self:
        values = {}
        for attribute, names, parse, required in _plan(cls):
            text = None
            for name in names:
                text = ext.get(name)
                if text is not None:
                    break
            if text is None:
                if required:
                    raise HeaderError(f"{cls.__name__} lacks the field {names[0]}")
            elif parse is None:
                values[attribute] = text
            else:
                values[attribute] = _parsed(cls, names[0], text, parse)
        return cls(**values)

    def ext(self) -> dict[str, str]:
        """The fields as they are sent."""
        ext = {}
        for attribute, names, _, _ in _plan(type(self)):
            value = getattr(self, attribute)
            if value is not None:
                text = wire_text(value)
                for name in names:
                    ext[name] = text
        return ext


def wire_text(value: str | int | float | bool) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def _parsed(header: type, name: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except ValueError as cause:
        raise HeaderError(f"{header.__name__}.{name} {text[:40]!r}: {cause}") from cause
