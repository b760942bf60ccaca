"""Each key of a business ends in one place, and the ledger says where."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BORN = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "board"

pytestmark = pytest.mark.spark


def messages(spark: "SparkSession", *rows: tuple[str, str, str]) -> "DataFrame":
    """Rows of (topic, keys, tags), all born at the same time."""
    return spark.createDataFrame([(*row, BORN) for row in rows],
                                 "topic string, keys string, tags string, born_time timestamp")


def effects(spark: "SparkSession", *rows: tuple[str, int, int]) -> "DataFrame":
    """Rows of (key, ms after birth, deliveries)."""
    return spark.createDataFrame([(key, BORN + timedelta(milliseconds=delay), count) for key, delay, count in rows],
                                 "key string, applied_time timestamp, deliveries bigint")


def test_each_key_ends_in_an_effect_a_dead_letter_or_nowhere(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger, ledger_totals

    log = messages(spark, ("t", "a N1", "X"), ("t", "b", "X"), ("%RETRY%board", "b", "X"), ("%DLQ%board", "b", "X"),
                   ("t", "c", "Y"))
    ledger = delivery_ledger(log, effects(spark, ("a", 40, 1)), "t", GROUP)
    columns = ("applied", "dead_lettered", "lost", "latency_ms")
    fates = {row["key"]: tuple(row[name] for name in columns) for row in ledger.collect()}
    assert fates == {"a": (True, False, False, 40), "b": (False, True, False, None), "c": (False, False, True, None)}
    totals = ledger_totals(ledger)
    assert (totals.sent, totals.applied, totals.dead_lettered, totals.retried, totals.lost) == (3, 1, 1, 1, 1)
    assert not totals.balanced
    assert totals.verdict() == "3 sent = 1 applied + 1 dead letters, 1 lost"


def test_repeated_sends_and_deliveries_are_counted_but_change_no_fate(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger, ledger_totals

    log = messages(spark, ("t", "a", "X"), ("t", "a", "X"), ("t", "b", "X"), ("%DLQ%board", "b", "X"),
                   ("%DLQ%board", "b", "X"))
    totals = ledger_totals(delivery_ledger(log, effects(spark, ("a", 1, 3)), "t", GROUP))
    assert (totals.duplicates, totals.redelivered, totals.dead_lettered) == (1, 2, 1)
    assert totals.balanced


def test_an_effect_beside_a_dead_letter_does_not_balance(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger, ledger_totals

    log = messages(spark, ("t", "a", "X"), ("%DLQ%board", "a", "X"))
    totals = ledger_totals(delivery_ledger(log, effects(spark, ("a", 1, 1)), "t", GROUP))
    assert totals.both == 1
    assert not totals.balanced


def test_the_ledger_by_tag_gives_a_row_a_tag_with_percentiles(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger, ledger_by_tag

    log = messages(spark, *[("t", f"k{number}", "X") for number in range(100)], ("t", "y", "Y"))
    done = effects(spark, *[(f"k{number}", number + 1, 1) for number in range(100)])
    rows = {row["tags"]: row.asDict() for row in ledger_by_tag(delivery_ledger(log, done, "t", GROUP)).collect()}
    assert (rows["X"]["sent"], rows["X"]["latency_p50_ms"], rows["X"]["latency_p99_ms"]) == (100, 50, 99)
    assert (rows["Y"]["sent"], rows["Y"]["lost"], rows["Y"]["latency_p50_ms"]) == (1, 1, None)
