"""SQL92 conditions and the messages on which they are tried, beside RocketMQ's own evaluator."""

import random
from collections.abc import Mapping

from regulus.broker.filters.sql_parser import compile_condition
from regulus.broker.filters.sql_parts import Condition
from regulus.errors import HeaderError

MESSAGES: list[dict[str, str]] = [
    {}, {"a": "5", "b": "x"}, {"a": "5.5", "b": "5"}, {"a": "true", "b": "TRUE"}, {"a": "-7", "c": "", "b": "it's"},
    {"a": "3000000000", "b": "3e9"}, {"a": " 5 ", "b": "NaN"}, {"a": "0x1p3", "b": "8"},
    {"a": "+5", "b": "-0.0", "c": "0.0"}, {"a": "Infinity", "b": "1d", "c": "abc"},
    {"TAGS": "TagA", "KEYS": "k1 k2", "a": "9223372036854775808"}, {"a": "NULL", "b": "\u0663", "c": "1_0"}]

WRITTEN = [
    "a > 5 -- why\n", "a > 5 -- why", "a /* x */ > /***/ 5", "a > 5 /* open", "a >5 AND", "", "()", "a b",
    "a = 1 b = 2", "'x", "a=5", "a<>5", "a!=5", "a == 5", "a like 'x'", "a in ()", "a in (5)", "a not in ('x')",
    "5 in ('x')",
    "a between 5 and 1", "a not between 5 and 1", "a between 'a' and 'b'", "a between TRUE and 5", "TRUE", "NULL", "5",
    "'x'", "a", "NOT a", "NOT NOT a", "--a", "-a", "- a < 3", "a is null is null", "a is", "a not", "a is not 5",
    "(a = 5) = TRUE", "TRUE = (a = 5)", "TRUE = a", "a = TRUE", "5 = TRUE", "TRUE = 5", "a + 5 > 3", "a > +5", "a < -5",
    "a\t>\n5", "\u00e4 = 5", "a = '\u00e4'", 'a = "x"', "a.b = 5", "contains = 5", "a contains ''", "a not contains ''",
    "zz not contains 'x'", "5 contains 'x'", "'x' contains 'x'", "(a) in ('5')", "(a = 5) in ('x')", "-a in ('5')",
    "a > 5 > 3", "a = '5' and", "a,b", "a = 5;", "between = 3", "a >= 5.0 AND a <= 6.0", "-9223372036854775808 < a",
    "-9223372036854775807 < a", "a = -2147483648", "- TRUE is null", "-'x' is null", "- 5 = -5", "5 = 5L", "5 = 5.0",
    "5L = 5.0", "3000000000 = 3e9", "a < b", "a = b", "a <> b", "c = a", "zz = zz", "zz <> zz", "a <> 5", "c < b"]

_TEXTS = ["'x'", "''", "'it''s'", "'5'"]
_LITERALS = ["5", "0", "7L", "2147483647", "2147483648", "3000000000", "9223372036854775807", "9223372036854775808",
             "5.5", "5.", "0.0", ".5", "5E0", "1e400", "3e-400", "TRUE", "false", "NULL", "08", "1e", "5l", "0L",
             *_TEXTS]
_PROPERTIES = ["a", "b", "c", "TAGS", "zz", "$x_1", "A"]


def made(seed: int, count: int) -> list[str]:
    """Conditions at random, half of which are wrong."""
    return [_Maker(random.Random(f"{seed}:{number}")).condition(3) for number in range(count)]


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def condition(self, depth: int) -> str:
        kind = self._chance.random()
        if depth <= 0 or kind < 0.5:
            return self._comparison(depth)
        if kind < 0.6:
            return "NOT " + self.condition(depth - 1)
        if kind < 0.7:
            return f"({self.condition(depth - 1)})"
        word = self._one(["AND", "OR", "and", "Or"])
        return f" {word} ".join(self.condition(depth - 1) for _ in range(self._chance.randint(2, 3)))

    def _comparison(self, depth: int) -> str:
        term, is_not = self._term(depth), self._one(["", "NOT "])
        kind = self._chance.randrange(8)
        if kind < 3:
            return f"{term} {self._one(['=', '<>', '<', '<=', '>', '>='])} {self._term(depth)}"
        if kind == 3:
            return f"{term} {is_not}BETWEEN {self._term(depth)} AND {self._term(depth)}"
        if kind == 4:
            return f"{term} {is_not}IN ({', '.join(self._chance.sample(_TEXTS, self._chance.randint(1, 4)))})"
        if kind == 5:
            return f"{term} IS {is_not}NULL"
        if kind == 6:
            return f"{term} {is_not}{self._one(['CONTAINS', 'STARTSWITH', 'ENDSWITH', 'contains'])} {self._one(_TEXTS)}"
        return f"{term} = {self._term(depth)} = {self._term(depth)}"

    def _term(self, depth: int) -> str:
        kind = self._chance.random()
        if kind < 0.55:
            return self._one(_PROPERTIES)
        if kind < 0.88:
            return self._one(_LITERALS)
        if kind < 0.94 or depth <= 0:
            return self._one(["-", "+", "- -", "NOT "]) + self._term(depth)
        return f"({self.condition(depth - 1)})"

    def _one(self, of: list[str]) -> str:
        return self._chance.choice(of)


def verdicts(condition: str) -> str:
    """`p` when it is refused; or, for each message, 1 when it is taken and 0 when not."""
    try:
        compiled = compile_condition(condition)
    except HeaderError:
        return "p"
    return "".join(str(int(takes(compiled, properties))) for properties in MESSAGES)


def takes(condition: Condition, properties: Mapping[str, str]) -> bool:
    return condition.takes([properties.get(name) for name in condition.names])
