"""Rules that rows of a table keep: named SQL expressions, each with a view of the rows that break it, and a count.

Spark has no expectations of its own. A rule is looked at after the table was made; it stops nothing unless it says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from regulus.errors import QualityBroken

VIEW_PREFIX = "broken_"


class OnBreak(StrEnum):
    REPORT = "report"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`holds` is a condition over the columns of `table`; a row for which it is false or null breaks the rule.

    `says` is the rule in words. More than `tolerated` such rows break it as a whole.
    """

    name: str
    table: str
    holds: str
    says: str
    on_break: OnBreak = OnBreak.REPORT
    tolerated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """`offenders` are the rows that break the rule; they are also the temporary view `view`."""

    rule: Rule
    count: int
    view: str
    offenders: DataFrame = field(repr=False)

    @property
    def kept(self) -> bool:
        return self.count <= self.rule.tolerated

    @property
    def fails(self) -> bool:
        return not self.kept and self.rule.on_break is OnBreak.FAIL

    @property
    def sentence(self) -> str:
        return f"{self.rule.name}: {self.count} rows break it ({self.rule.says}); see view {self.view}"


def check(rules: Sequence[Rule], tables: Mapping[str, DataFrame]) -> list[RuleResult]:
    """One result a rule, in their order; the rules of one table are counted in one pass over it.

    Raises QualityBroken when a rule names a table that is not there.
    """
    counts: dict[str, int] = {}
    for name in dict.fromkeys(rule.table for rule in rules):
        if name not in tables:
            raise QualityBroken(f"a rule is about table {name!r}; there are {', '.join(sorted(tables)) or 'none'}")
        own = [rule for rule in rules if rule.table == name]
        row = tables[name].agg(*[F.count_if(~_holds(rule)).alias(rule.name) for rule in own]).first()
        assert row is not None
        counts |= row.asDict()
    return [_result(rule, counts[rule.name], tables[rule.table]) for rule in rules]


def fail_if_broken(results: Sequence[RuleResult]) -> None:
    """Raises QualityBroken, with one sentence a rule, when a rule that says so is broken."""
    broken = [result.sentence for result in results if result.fails]
    if broken:
        raise QualityBroken("; ".join(broken))


def _result(rule: Rule, count: int, table: DataFrame) -> RuleResult:
    offenders = table.where(~_holds(rule))
    view = VIEW_PREFIX + rule.name
    offenders.createOrReplaceTempView(view)
    return RuleResult(rule=rule, count=count, view=view, offenders=offenders)


def _holds(rule: Rule) -> Column:
    return F.coalesce(F.expr(rule.holds).cast("boolean"), F.lit(False))
