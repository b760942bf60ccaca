"""Rules give views of what breaks them; only some stop a run."""

import pytest

from regulus.errors import QualityBroken
from tests.frames import small_table

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def test_each_rule_has_a_view_of_its_offenders_and_a_count(spark):
    from regulus.pipeline.jobs.quality import OnBreak, Rule, check, fail_if_broken

    rows = small_table(spark, [(1, "a"), (-2, "b"), (None, "c")], "price int, id string")
    rules = [Rule(name="positive", table="prices", holds="price > 0", says="a price is above 0"),
             Rule(name="named", table="prices", holds="id IS NOT NULL", says="a price has an id",
                  on_break=OnBreak.FAIL),
             Rule(name="few_negative", table="prices", holds="price >= 0", says="few are", on_break=OnBreak.FAIL,
                  tolerated=2)]
    results = check(rules, {"prices": rows})
    assert [(result.count, result.kept, result.fails) for result in results] == [
        (2, False, False), (0, True, False), (2, True, False)]
    assert sorted(row["id"] for row in spark.table("broken_positive").collect()) == ["b", "c"]
    fail_if_broken(results)


def test_a_rule_that_says_so_stops_the_run_with_its_words(spark):
    from regulus.pipeline.jobs.quality import OnBreak, Rule, check, fail_if_broken

    rule = Rule(name="positive", table="prices", holds="price > 0", says="a price is above 0", on_break=OnBreak.FAIL)
    results = check([rule], {"prices": small_table(spark, [(-1,)], "price int")})
    with pytest.raises(QualityBroken, match=r"positive: 1 rows break it \(a price .*\); see view broken_positive"):
        fail_if_broken(results)


def test_a_rule_about_a_table_that_is_not_there_is_refused(spark):
    from regulus.pipeline.jobs.quality import Rule, check

    with pytest.raises(QualityBroken, match="a rule is about table 'x'; there are none"):
        check([Rule(name="r", table="x", holds="true", says="")], {})
