"""The parts of a SQL92 condition as functions over a message's properties, which are called for each message.

Each gives True, False or None for what is unknown, and raises ValueError for a text that is no number where one is
needed. Source: ComparisonExpression, LogicExpression, UnaryExpression.
"""

from collections.abc import Callable, Mapping

from regulus.broker.sql_values import Value, is_at_least, is_at_most, is_equal, is_greater, is_less

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]

ORDERS: dict[str, Callable[[Value, Value], bool]] = {
    "<": is_less, "<=": is_at_most, ">": is_greater, ">=": is_at_least}
TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__, "STARTSWITH": str.startswith, "ENDSWITH": str.endswith}


def property_of(name: str) -> Evaluate:
    return lambda properties: properties.get(name)


def literal(value: Value) -> Evaluate:
    return lambda properties: value


def false_if_there(name: str) -> Evaluate:
    return lambda properties: False if name in properties else None


def any_of(parts: list[Evaluate]) -> Evaluate:
    return _joined(parts, True)


def all_of(parts: list[Evaluate]) -> Evaluate:
    return _joined(parts, False)


def _joined(parts: list[Evaluate], decides: bool) -> Evaluate:
    """The first part that is `decides` decides; parts behind it are not asked."""
    def evaluate(properties: Properties) -> Value:
        is_unknown = False
        for part in parts:
            value = part(properties)
            if value is decides:
                return decides
            if value is None:
                is_unknown = True
        return None if is_unknown else not decides
    return evaluate


def negated(condition: Evaluate) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        value = condition(properties)
        return None if value is None else not value
    return evaluate


def minus(term: Evaluate) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        value = term(properties)
        if value is None or isinstance(value, (str, bool)):
            return None
        return type(value)(-value)
    return evaluate


def is_null(term: Evaluate) -> Evaluate:
    return lambda properties: term(properties) is None


def equal(left: Evaluate, right: Evaluate) -> Evaluate:
    """A missing right side is unequal to what is there, as RocketMQ has it; a missing left one leaves it unknown."""
    def evaluate(properties: Properties) -> Value:
        value, other = left(properties), right(properties)
        if value is None:
            return True if other is None else None
        return other is not None and is_equal(value, other)
    return evaluate


def ordered(sign: str, left: Evaluate, right: Evaluate) -> Evaluate:
    is_so = ORDERS[sign]

    def evaluate(properties: Properties) -> Value:
        value = left(properties)
        if value is None:
            return None
        other = right(properties)
        return None if other is None else is_so(value, other)
    return evaluate


def one_of(name: str, texts: frozenset[str], is_not: bool) -> Evaluate:
    def evaluate(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else (value in texts) is not is_not
    return evaluate


def text_test(term: Evaluate, word: str, text: str, is_not: bool) -> Evaluate:
    """False, also with NOT, where there is no text to look at or for."""
    is_so = TEXT_TESTS[word]

    def evaluate(properties: Properties) -> Value:
        value = term(properties)
        return bool(text) and isinstance(value, str) and is_so(value, text) is not is_not
    return evaluate
