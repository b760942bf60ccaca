"""Compares two values of a SQL92 condition exactly as Java does.

Properties are `str`. Literals are `int` (Java's Integer), `Long`, `float` (Double), `bool` or `str`. A text that is
compared with a number is parsed as that number's type, so `'5.5' > 5` raises ValueError and does not match.

Source: ComparisonExpression.__compare, Integer.valueOf, Double.valueOf, Double.compareTo.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from typing import TypeAlias

from regulus.model.java_numbers import INT_MAX, LONG_MAX

_INTEGER = re.compile(r"[+-]?\d+")
_LAST_OF_ONE_CHAR = "\uffff"     # characters beyond it are two for Java, which does not accept them as digits
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_DIGITS_MAX = 30        # without leading zeros; Python would parse longer integers in quadratic time
_SMALL_DIGITS_MAX = 9       # values below 2**31
_SMALL_DECIMAL_MAX = 17
_NUMBER_SIZE_MAX = 1_100    # characters; every double can be written in fewer
_TRUE_SIZE = 4
_BLANKS = "".join(map(chr, range(33)))      # what Java's String.trim removes


class Long(int):
    """A whole number that was written with a value of more than 32 bits."""


Value: TypeAlias = "str | int | float | bool | None"
"""None is a missing property, or an unknown result."""


def order(left: Value, right: Value) -> int:
    """Below, at or above 0, like the order of the values. Two texts are compared as numbers. Raises ValueError for
    values that cannot be compared."""
    if isinstance(left, str) and isinstance(right, str):
        return _compare_doubles(_double(left), _double(right))
    return compare(left, right)


def compare(left: Value, right: Value) -> int:
    """0 for equal values; -1 for a number and a truth value, in either order. Raises ValueError for a text that is not
    a number of the other's type."""
    kind, other = type(left), type(right)
    if kind is str and other is int:
        # The most frequent case is a short number of digits.
        number = small_number(left)     # type: ignore[arg-type]
        if number >= 0:
            return (number > right) - (number < right)      # type: ignore[operator]
    if kind is not other:
        if kind is bool:
            if other is str:
                raise ValueError("a truth value cannot be compared with a text after it")
            return -1
        if kind is str:
            left = _READERS[other](left)        # type: ignore[arg-type]
        elif other is str:
            right = _READERS[kind](right)       # type: ignore[arg-type]
        elif other is bool:
            return -1
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))      # type: ignore[arg-type]
    return (left > right) - (left < right)      # type: ignore[operator]


def _compare_doubles(left: float, right: float) -> int:
    """NaN is above all others and equal to itself; -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    first = (math.isnan(left), math.copysign(1.0, left) if left == 0 else 0.0)
    second = (math.isnan(right), math.copysign(1.0, right) if right == 0 else 0.0)
    return (first > second) - (first < second)


def small_number(text: str) -> int:
    """The value of a text of a few digits; -1 for all other texts."""
    size = len(text)
    if size == 0 or size > _SMALL_DIGITS_MAX:
        return -1
    number = 0
    for character in text:
        if character < "0" or character > "9":
            return -1
        number = number * 10 + (ord(character) - ord("0"))
    return number


def _is_plain_decimal(text: str) -> bool:
    """Whether the text has a few digits, with at most one dot."""
    size = len(text)
    digits = 0
    for character in text:
        digits += "0" <= character <= "9"
    return size <= _SMALL_DECIMAL_MAX and (digits == size or (digits == size - 1 and "." in text)) and digits > 0


def _integer(text: str) -> int:
    return _whole(text, INT_MAX)


def _long(text: str) -> int:
    return _whole(text, LONG_MAX)


def _whole(text: str, largest: int) -> int:
    if len(text) > _NUMBER_SIZE_MAX or not _INTEGER.fullmatch(text) or (
            not text.isascii() and max(text) > _LAST_OF_ONE_CHAR):
        raise ValueError(f"{text!r:.50} is not a whole number")
    if len(text) > _DIGITS_MAX:
        sign = text[0] if text[0] in "+-" else ""
        digits = "".join(str(unicodedata.decimal(digit)) for digit in text[len(sign):]).lstrip("0")
        if len(digits) > _DIGITS_MAX:
            raise ValueError(f"{text!r:.50} is out of range")
        text = sign + (digits or "0")
    number = int(text)
    if not -largest - 1 <= number <= largest:
        raise ValueError(f"{text!r:.50} is out of range")
    return number


def _double(text: str) -> float:
    if _is_plain_decimal(text):
        return float(text)
    if len(text) > _NUMBER_SIZE_MAX:
        raise ValueError(f"{text!r:.50} has {len(text)} characters, more than any number needs")
    text = text.strip(_BLANKS)
    if _HEX_DOUBLE.fullmatch(text):
        return _hex_double(text.rstrip("fFdD"))
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f"{text!r:.50} is not a number")
    return float(text.rstrip("fFdD"))


def _hex_double(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _truth(text: str) -> bool:
    return len(text) == _TRUE_SIZE and text.lower() == "true"


_READERS: dict[type, Callable[[str], Value]] = {int: _integer, Long: _long, float: _double, bool: _truth}
