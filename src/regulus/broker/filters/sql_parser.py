"""Parses the SQL92 conditions of subscriptions into parts that are evaluated on a message's properties.

Logic has three values: a condition is True, False, or None when a property is missing. Only True accepts a message.
Grammar and typing rules are those of RocketMQ 5.3.3, except after the end of a condition: RocketMQ reads `a > 5 b > 6`
as `a > 5`, and here it is refused.

    or:         and { OR and }
    and:        equality { AND equality }
    equality:   comparison { (= | <>) comparison | IS [NOT] NULL }
    comparison: unary { (< | <= | > | >=) unary | [NOT] BETWEEN unary AND unary | [NOT] IN (text, ...)
                        | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text }
    unary:      { + | - | NOT } (literal | property | ( or ))

Source: SelectorParser.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from regulus.broker.filters.sql_parts import (
    ORDERS,
    TEXT_TESTS,
    Condition,
    Equal,
    FalseIfThere,
    IsNull,
    Joined,
    Literal,
    Minus,
    Negated,
    OneOf,
    Ordered,
    Part,
    Property,
    TextTest,
)
from regulus.broker.filters.sql_values import Long, Value, order
from regulus.errors import HeaderError
from regulus.model.java_numbers import INT_MAX, LONG_MAX

EXPRESSION_LENGTH_MAX = 16_384
"""Characters. Longer conditions are refused, because parsing one blocks the broker's loop."""
DEPTH_MAX = 50
"""Nested conditions, and comparisons in a row. Deeper conditions are refused, because each level is a nested call."""

_TOKENS = re.compile(r"""
    (?P<blank> [ \t\n\r\f]+ | --[^\n\r]*(?:[\n\r]|$) | /\*[^*]*\*(?:\*|[^*/][^*]*\*)*/ )
  | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<whole> 0 | [1-9][0-9]*[lL]? )
  | (?P<text> '(?:''|[^'])*' )
  | (?P<word> [A-Za-z_$][A-Za-z0-9_$]* )
  | (?P<sign> <> | >= | <= | [=<>(),+-] )
""", re.VERBOSE)
_KEYWORDS = frozenset(("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH",
                       "ENDSWITH"))

_WEIGHTLESS = frozenset(("text", "whole", "float", ",", "(", ")", "end"))
"""Tokens without cost when a message is evaluated: a long list after IN is one look-up."""


def compile_condition(text: str) -> Condition:
    """Parse a condition. Raises HeaderError with the position of the error in `text`."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise HeaderError(f"the SQL92 expression has {len(text)} characters; at most {EXPRESSION_LENGTH_MAX} are read")
    parser = _Parser(text)
    part = parser.parsed()
    return Condition(part, parser.names(), parser.weight())


class _Token(NamedTuple):
    kind: str       # a keyword, a sign, or: float, whole, text, word, end
    text: str
    at: int


class _Term(NamedTuple):
    """A part of a condition, and what the part around it must know."""

    part: Part
    at: int
    is_truth: bool = False
    is_literal: bool = False
    value: Value = None
    property_name: str = ""
    height: int = 1     # nested conditions


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0
        self._depth = 0
        self._places: dict[str, int] = {}

    def parsed(self) -> Part:
        term = self._truth(self._or())
        if self._peek().kind != "end":
            self._fail(self._peek(), "the condition ends before it")
        return term.part

    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def _place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def weight(self) -> int:
        return sum(token.kind not in _WEIGHTLESS for token in self._tokens)

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _split(self) -> list[_Token]:
        tokens = []
        at = 0
        while at < len(self._text):
            match = _TOKENS.match(self._text, at)
            if match is None:
                begun = self._text[at]
                self._fail(_Token("", begun, at), "the text has no closing quote" if begun == "'" else
                           "no word, number, text or sign begins with this")
            kind, text = str(match.lastgroup), match[0]
            upper = text.upper()
            if kind == "sign" or (kind == "word" and upper in _KEYWORDS):
                kind = upper
            if kind != "blank":
                tokens.append(_Token(kind, text, at))
            at = match.end()
        tokens.append(_Token("end", "the end", at))
        return tokens

    def _peek(self, ahead: int = 0) -> _Token:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)]

    def _take(self, *kinds: str) -> _Token | None:
        """The next token, taken, if it has one of these kinds."""
        token = self._peek()
        if token.kind not in kinds:
            return None
        self._next += 1
        return token

    def _expect(self, kind: str, called: str = "") -> _Token:
        token = self._take(kind)
        if token is None:
            self._fail(self._peek(), f"{called or kind} is expected there")
        return token

    def _fail(self, token: _Token, why: str) -> NoReturn:
        raise self._fault(token, why)

    def _fault(self, token: _Token, why: str) -> HeaderError:
        return HeaderError(f"the SQL92 expression is wrong at character {token.at + 1}, {token.text[:40]}: {why}")

    def _deeper(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(token, f"more than {DEPTH_MAX} conditions are nested")

    # --- grammar -----------------------------------------------------------------------------------------------------

    def _or(self) -> _Term:
        return self._chain("OR", self._and, _any_of)

    def _and(self) -> _Term:
        return self._chain("AND", self._equality, _all_of)

    def _chain(self, word: str, part: Callable[[], _Term], joined: Callable[[list[Part]], Part]) -> _Term:
        first = part()
        if self._peek().kind != word:
            return first
        parts = [self._truth(first)]
        while self._take(word):
            parts.append(self._truth(part()))
        return self._over(_Term(joined([each.part for each in parts]), first.at, is_truth=True), *parts)

    def _over(self, term: _Term, *parts: _Term) -> _Term:
        """The term with its height above these parts. Each level is a nested call when a message is evaluated."""
        height = 1 + max(part.height for part in parts)
        if height > DEPTH_MAX + 1:
            self._fail(self._token_of(term), f"more than {DEPTH_MAX} conditions are nested")
        return term._replace(height=height)

    def _equality(self) -> _Term:
        left = self._comparison()
        while token := self._take("=", "<>", "IS"):
            right = left
            if token.kind == "IS":
                is_not = self._take("NOT") is not None
                self._expect("NULL")
                part: Part = IsNull(left.part)
            else:
                is_not = token.kind == "<>"
                right = self._comparison()
                part = self._equal(left, right, token)
            left = self._over(_Term(Negated(part) if is_not else part, left.at, is_truth=True), left, right)
        return left

    def _comparison(self) -> _Term:
        left = self._unary()
        while token := self._take_comparison():
            part, others = self._compared(left, token)
            left = self._over(_Term(part, left.at, is_truth=True), left, *others)
        return left

    def _take_comparison(self) -> _Token | None:
        """The operator of a comparison. A NOT is taken only in front of one that it can negate."""
        token = self._take(*ORDERS, "BETWEEN", "IN", *TEXT_TESTS)
        if token is None and self._peek().kind == "NOT" and self._peek(1).kind in ("BETWEEN", "IN", *TEXT_TESTS):
            token = self._peek()
            self._next += 1
        return token

    def _compared(self, left: _Term, token: _Token) -> tuple[Part, list[_Term]]:
        """The comparison, and its other operands besides `left`."""
        is_not = token.kind == "NOT"
        word = self._tokens[self._next].kind if is_not else token.kind
        self._next += is_not
        if word in ORDERS:
            right = self._unary()
            return Ordered(word, self._orderable(left), self._orderable(right)), [right]
        if word == "BETWEEN":
            return self._between(left, is_not)
        if word == "IN":
            return self._in(left, is_not), []
        return TextTest(left.part, word, self._text_literal(), is_not), []

    def _between(self, left: _Term, is_not: bool) -> tuple[Part, list[_Term]]:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        if not is_not and low.is_literal and high.is_literal:
            self._check_bounds(low, high)
        value, low_value, high_value = map(self._orderable, (left, low, high))
        if is_not:
            return _any_of([Ordered("<", value, low_value), Ordered(">", value, high_value)]), [low, high]
        return _all_of([Ordered(">=", value, low_value), Ordered("<=", value, high_value)]), [low, high]

    def _check_bounds(self, low: _Term, high: _Term) -> None:
        self._orderable(low), self._orderable(high)
        if order(high.value, low.value) < 0:
            self._fail(self._token_of(low), "the lower bound is above the upper one")

    def _in(self, left: _Term, is_not: bool) -> Part:
        if not left.property_name:
            self._fail(self._token_of(left), "a property is expected before IN")
        self._expect("(")
        texts = [self._text_literal()]
        while self._take(","):
            texts.append(self._text_literal())
        self._expect(")")
        return OneOf(self._place(left.property_name), frozenset(texts), is_not)

    def _unary(self) -> _Term:
        depth, signs = self._depth, []
        while token := self._take("+", "-", "NOT"):
            self._deeper(token)
            signs.append(token)
        term = self._primary()
        for sign in reversed(signs):
            if sign.kind == "-":
                term = self._over(_Term(Minus(term.part), sign.at), term)
            elif sign.kind == "NOT":
                term = self._over(_Term(Negated(self._truth(term).part), sign.at, is_truth=True), term)
        self._depth = depth
        return term

    def _primary(self) -> _Term:
        token = self._peek()
        self._next += token.kind != "end"
        if token.kind == "(":
            self._deeper(token)
            term = self._or()
            self._depth -= 1
            self._expect(")")
            return term._replace(at=token.at)
        if token.kind == "word":
            return _Term(Property(self._place(token.text)), token.at, property_name=token.text)
        if token.kind in ("TRUE", "FALSE", "NULL"):
            truth = {"TRUE": True, "FALSE": False}.get(token.kind)
            return _Term(Literal(truth), token.at, is_truth=True, is_literal=True, value=truth)
        if token.kind in ("text", "whole", "float"):
            value = self._literal_value(token)
            return _Term(Literal(value), token.at, is_literal=True, value=value)
        raise self._fault(token, "a property, a literal or ( is expected there")

    def _literal_value(self, token: _Token) -> str | int | float:
        if token.kind == "text":
            return _unquoted(token)
        if token.kind == "whole":
            digits = token.text.rstrip("lL")
            if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
                self._fail(token, f"the largest whole number is {LONG_MAX}")
            number = int(digits)
            return number if number <= INT_MAX else Long(number)
        decimal = float(token.text)
        if not 0 < decimal < float("inf"):
            self._fail(token, "RocketMQ refuses decimals of 0 or beyond the range of a double: write 0 or another")
        return decimal

    # --- what may be used where --------------------------------------------------------------------------------------

    def _token_of(self, term: _Term) -> _Token:
        return next(token for token in self._tokens if token.at >= term.at)

    def _truth(self, term: _Term) -> _Term:
        if term.is_truth:
            return term
        if term.property_name:
            # Properties are texts, and a text is never TRUE.
            return _Term(FalseIfThere(self._place(term.property_name)), term.at, is_truth=True)
        raise self._fault(self._token_of(term), "it is neither TRUE nor FALSE")

    def _orderable(self, term: _Term) -> Part:
        if term.is_truth or (term.is_literal and isinstance(term.value, str)):
            self._fail(self._token_of(term), "only numbers and properties have an order")
        return term.part

    def _equal(self, left: _Term, right: _Term, token: _Token) -> Part:
        for side in (left, right):
            if side.is_literal and side.value is None:
                self._fail(self._token_of(side), f"NULL cannot be compared by {token.kind}: write IS NULL")
        if left.is_literal and right.is_literal and left.is_truth and not right.is_truth:
            self._fail(self._token_of(right), "a truth value is expected there")
        return Equal(left.part, right.part)

    def _text_literal(self) -> str:
        return _unquoted(self._expect("text", "a text in quotes"))


def _any_of(parts: list[Part]) -> Part:
    return Joined(parts, True)


def _all_of(parts: list[Part]) -> Part:
    return Joined(parts, False)


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")
