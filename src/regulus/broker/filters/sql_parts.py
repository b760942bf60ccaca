"""The parts of a SQL92 condition. Each is evaluated for each message, and evaluates its own parts.

A part returns True, False, or None for unknown, and raises ValueError if a text is used as a number and is not one.
`values` are the message's properties at the places that the condition assigned; None for a missing one. Source:
ComparisonExpression, LogicExpression, UnaryExpression.
"""

import re
from collections.abc import Callable

from regulus.broker.filters import sql_values
from regulus.broker.filters.sql_values import Value

Values = list[str | None]

STEPS_AT_ONCE_MAX = 8_192
"""Product of the lengths of a property and a searched text, up to which Python's own search is used. That is the
fastest, but takes this many steps in the worst case; beyond the limit a regular expression takes steps proportional to
the property's length."""

ORDERS = ("<", "<=", ">", ">=")
TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}

# With private names they can be typed constants in the compiled form.
_LESS, _AT_MOST, _GREATER, _AT_LEAST = range(4)


class Part:
    def evaluate(self, values: Values) -> Value:
        raise NotImplementedError


class Property(Part):
    def __init__(self, place: int) -> None:
        self._place = place

    def evaluate(self, values: Values) -> Value:
        return values[self._place]


class Literal(Part):
    def __init__(self, value: Value) -> None:
        self._value = value

    def evaluate(self, values: Values) -> Value:
        return self._value


class FalseIfThere(Part):
    def __init__(self, place: int) -> None:
        self._place = place

    def evaluate(self, values: Values) -> Value:
        return None if values[self._place] is None else False


class Joined(Part):
    """AND or OR: the first part that equals `decides` is the result, and later parts are not evaluated."""

    def __init__(self, parts: list[Part], decides: bool) -> None:
        self._parts = parts
        self._decides = decides

    def evaluate(self, values: Values) -> Value:
        decides = self._decides
        is_unknown = False
        for part in self._parts:
            value = part.evaluate(values)
            if value is decides:
                return decides
            if value is None:
                is_unknown = True
        return None if is_unknown else decides is False


class Negated(Part):
    def __init__(self, condition: Part) -> None:
        self._condition = condition

    def evaluate(self, values: Values) -> Value:
        value = self._condition.evaluate(values)
        return None if value is None else not value


class Minus(Part):
    def __init__(self, term: Part) -> None:
        self._term = term

    def evaluate(self, values: Values) -> Value:
        value = self._term.evaluate(values)
        if value is None or isinstance(value, (str, bool)):
            return None
        return type(value)(-value)


class IsNull(Part):
    def __init__(self, term: Part) -> None:
        self._term = term

    def evaluate(self, values: Values) -> Value:
        return self._term.evaluate(values) is None


class Equal(Part):
    """Equality as in RocketMQ: with a missing right side it is False, with a missing left side it is unknown."""

    def __init__(self, left: Part, right: Part) -> None:
        self._left = left
        self._right = right

    def evaluate(self, values: Values) -> Value:
        value, other = self._left.evaluate(values), self._right.evaluate(values)
        if value is None:
            return True if other is None else None
        return other is not None and sql_values.compare(value, other) == 0


class Ordered(Part):
    def __init__(self, sign: str, left: Part, right: Part) -> None:
        self._sign = ORDERS.index(sign)
        self._left = left
        self._right = right

    def evaluate(self, values: Values) -> Value:
        value = self._left.evaluate(values)
        if value is None:
            return None
        other = self._right.evaluate(values)
        if other is None:
            return None
        order = sql_values.order(value, other)
        sign = self._sign
        if sign == _LESS:
            return order < 0
        if sign == _AT_MOST:
            return order <= 0
        return order > 0 if sign == _GREATER else order >= 0


class OneOf(Part):
    def __init__(self, place: int, texts: frozenset[str], is_not: bool) -> None:
        self._place = place
        self._texts = texts
        self._is_not = is_not

    def evaluate(self, values: Values) -> Value:
        value = values[self._place]
        if value is None:
            return None
        is_in = value in self._texts
        return is_in != self._is_not


class TextTest(Part):
    """False, even with NOT, when the tested value is not a text or the searched text is empty."""

    def __init__(self, term: Part, word: str, text: str, is_not: bool) -> None:
        self._term = term
        self._is_so = TEXT_TESTS[word]
        self._may_be_slow = word == "CONTAINS"
        self._search: Callable[[str], object] | None = None     # compiled when it is needed
        self._text = text
        self._is_not = is_not

    def evaluate(self, values: Values) -> Value:
        text = self._text
        if not text:
            return False
        value = self._term.evaluate(values)
        if not isinstance(value, str):
            return False
        if self._may_be_slow and len(value) * len(text) > STEPS_AT_ONCE_MAX:
            if self._search is None:
                self._search = re.compile(re.escape(text)).search
            return (self._search(value) is not None) is not self._is_not
        return self._is_so(value, text) is not self._is_not


class Condition:
    """A whole condition. `names` are its properties, in the order of `values`. `weight` counts its words and signs
    without literals, each of which may read a property from end to end."""

    def __init__(self, part: Part, names: tuple[str, ...], weight: int) -> None:
        self._part = part
        self.names = names
        self.weight = weight

    def takes(self, values: Values) -> bool:
        """Whether a message with these values is accepted."""
        try:
            return self._part.evaluate(values) is True
        except ValueError:
            return False    # a text that is not a number was compared with one: no match, as in RocketMQ
