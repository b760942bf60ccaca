"""Faults of the SQL92 conditions of subscriptions."""

from tests.mutants import Mutant

_EXPRESSION = "regulus/broker/sql_expression.py"
_PARTS = "regulus/broker/sql_parts.py"
_VALUES = "regulus/broker/sql_values.py"
_GOLDEN = ("tests/golden/test_sql_conditions.py",)
_REFUSED = ("tests/unit/broker/test_sql_expression.py",)
_LOOKED = ("tests/unit/store/test_file_message_store.py",)

MUTANTS = [
    Mutant(name="a filter takes what is unknown", path=_PARTS,
           old="return self._part.evaluate(values) is True", new="return self._part.evaluate(values) is not False",
           tests=_GOLDEN),
    Mutant(name="a filter reads whole numbers as decimals", path=_VALUES,
           old="int: _integer, Long", new="int: _double, Long", tests=_GOLDEN),
    Mutant(name="a filter forgets how large 32 bits are", path=_VALUES,
           old="return _whole(text, INT_MAX)", new="return _whole(text, LONG_MAX)", tests=_GOLDEN),
    Mutant(name="a filter orders texts by their letters", path=_VALUES,
           old="    if isinstance(left, str) and isinstance(right, str):\n", new="    if False:\n", tests=_GOLDEN),
    Mutant(name="a filter asks what is behind the part that decided", path=_PARTS,
           old="            if value is decides:\n                return decides\n            if value is None:",
           new="            if value is not decides and value is None:", tests=_GOLDEN),
    Mutant(name="a filter makes a missing right side unknown", path=_PARTS,
           old="return other is not None and sql_values.compare(value, other) == 0",
           new="return None if other is None else sql_values.compare(value, other) == 0", tests=_GOLDEN),
    Mutant(name="a filter turns a missing text round", path=_PARTS,
           old="return bool(self._text) and isinstance(value, str) and self._is_so(value, self._text) "
               "is not self._is_not",
           new="return (bool(self._text) and isinstance(value, str) and self._is_so(value, self._text)) "
               "is not self._is_not", tests=_GOLDEN),
    Mutant(name="a filter takes NaN for the least", path=_VALUES,
           old="first = (math.isnan(left)", new="first = (not math.isnan(left)", tests=_GOLDEN),
    Mutant(name="a filter drops what follows its end", path=_EXPRESSION,
           old='if self._peek().kind != "end":', new="if False:", tests=_REFUSED),
    Mutant(name="a filter is as deep as its text", path=_EXPRESSION,
           old="if self._depth > DEPTH_MAX:", new="if False:", tests=_REFUSED),
    Mutant(name="a filter looks at properties as long as there are any", path="regulus/store/commit_log.py",
           old="if looked >= _LOOKED_MAX:", new="if False:", tests=_LOOKED),
    Mutant(name="a filter that looks often counts as one that looks once", path="regulus/store/commit_log.py",
           old="looked += message_filter.weight * (", new="looked += (", tests=_LOOKED),
    Mutant(name="long properties count as short ones", path="regulus/store/commit_log.py",
           old="(_LOOK_COST + length)", new="_LOOK_COST", tests=_LOOKED),
    Mutant(name="a list behind IN weighs as so many conditions", path=_EXPRESSION,
           old="token.kind not in _WEIGHTLESS", new="True", tests=_REFUSED),
    Mutant(name="a filter reads numbers of any length", path=_VALUES,
           old="    if len(text) > _NUMBER_SIZE_MAX:", new="    if False:", tests=_REFUSED),
]
