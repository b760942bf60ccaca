"""Each key of a business ends in one place, and the ledger says where."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.frames import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from regulus.pipeline.steps.delivery_ledger import LedgerTotals

BORN = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "board"
PARKED = "SCHEDULE_TOPIC_XXXX"
COLUMNS = ("topic string, keys string, tags string, broker_name string, queue_id int, queue_offset bigint, "
           "properties map<string,string>, born_time timestamp, store_time timestamp")

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def messages(spark: "SparkSession", *rows: tuple[str, str | None, str]) -> "DataFrame":
    """Rows of (topic, keys, tags), stored one second after another; the offset is the row's number."""
    return small_table(
        spark,
        [(*row, "broker-a", 0, number, {"REAL_TOPIC": f"%RETRY%{GROUP}"} if row[0] == PARKED else {}, BORN,
          BORN + timedelta(seconds=number)) for number, row in enumerate(rows)], COLUMNS)


def effects(spark: "SparkSession", *rows: tuple[str, int, int | None]) -> "DataFrame":
    """Rows of (key, ms after birth, deliveries)."""
    return small_table(spark, [(key, BORN + timedelta(milliseconds=delay), count) for key, delay, count in rows],
                       "key string, applied_time timestamp, deliveries bigint")


def progress(spark: "SparkSession", **offsets: int) -> "DataFrame":
    """How far the group has read each topic; `retry` is its retry topic."""
    return small_table(
        spark,
        [(GROUP, f"%RETRY%{GROUP}" if topic == "retry" else topic, "broker-a", 0, at) for topic, at in offsets.items()],
        "consumer_group string, topic string, broker_name string, queue_id int, consumer_offset bigint")


def totals(ledger: "DataFrame") -> "LedgerTotals":
    from regulus.pipeline.steps.delivery_ledger import LedgerTotals, ledger_total

    row = ledger_total(ledger).first()
    assert row is not None
    return LedgerTotals.of(row.asDict())


def fates(ledger: "DataFrame") -> dict[str, str]:
    """What is true of each key, in words."""
    names = ("applied", "dead_lettered", "waiting", "lost")
    return {row["key"]: " ".join(name for name in names if row[name]) for row in ledger.collect()}


def test_each_key_ends_in_an_effect_a_dead_letter_or_nowhere(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    log = messages(spark, ("t", "a N1", "X"), ("t", "b", "X"), ("%RETRY%board", "b", "X"), ("%DLQ%board", "b", "X"),
                   ("t", "c", "Y"), ("other", "d", "Y"), ("t", None, "Y"))
    ledger = delivery_ledger(log, ["t"], GROUP, effects(spark, ("a", 40, 1)))
    assert fates(ledger) == {"a": "applied", "b": "dead_lettered", "c": "lost"}
    assert ledger.where("key = 'a'").first().latency_ms == 40
    total = totals(ledger)
    assert (total.sent, total.applied, total.dead_lettered, total.retried, total.lost) == (3, 1, 1, 1, 1)
    assert not total.balanced
    assert total.verdict() == "3 keys sent = 1 applied + 1 dead-lettered, 1 lost"


def test_what_waits_for_a_retry_or_for_the_group_is_not_lost(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    log = messages(spark, ("t", "parked", "X"), (PARKED, "parked", "X"), ("t", "gone", "X"), ("t", "new", "X"))
    ledger = delivery_ledger(log, ["t"], GROUP, effects(spark), progress(spark, t=3))
    assert fates(ledger) == {"parked": "waiting", "gone": "lost", "new": "waiting"}
    total = totals(ledger)
    assert total.verdict() == "3 keys sent = 0 applied + 0 dead-lettered, 2 waiting, 1 lost"


def test_without_effects_a_key_is_applied_when_the_group_has_read_past_its_last_copy(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    log = messages(spark, ("t", "read", "X"), ("t", "dead", "X"), ("%DLQ%board", "dead", "X"), ("t", "retried", "X"),
                   (PARKED, "retried", "X"), ("%RETRY%board", "retried", "X"), ("t", "again", "X"),
                   ("%RETRY%board", "again", "X"), ("t", "parked", "X"), (PARKED, "parked", "X"))
    ledger = delivery_ledger(log, ["t"], GROUP, progress=progress(spark, t=100, retry=6))
    assert fates(ledger) == {"read": "applied", "dead": "dead_lettered", "retried": "applied", "again": "waiting",
                             "parked": "waiting"}
    assert totals(ledger).balanced


def test_repeated_sends_and_deliveries_are_counted_but_change_no_fate(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    log = messages(spark, ("t", "a", "X"), ("u", "a", "X"), ("t", "b", "X"), ("%DLQ%board", "b", "X"),
                   ("%DLQ%board", "b", "X"), ("t", "c", "X"))
    done = effects(spark, ("a", 1, 3), ("c", 1, None))
    total = totals(delivery_ledger(log, ["t", "u"], GROUP, done))
    assert (total.duplicates, total.redelivered, total.dead_lettered, total.dead_again) == (1, 2, 1, 1)
    assert total.verdict() == "3 keys sent = 2 applied + 1 dead-lettered (in 2 copies), 0 lost"
    assert total.balanced


def test_an_effect_beside_a_dead_letter_does_not_balance(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    log = messages(spark, ("t", "a", "X"), ("%DLQ%board", "a", "X"))
    total = totals(delivery_ledger(log, ["t"], GROUP, effects(spark, ("a", 1, 1))))
    assert total.both == 1
    assert not total.balanced


def test_nothing_sent_is_a_ledger_of_zeros(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger

    total = totals(delivery_ledger(messages(spark, ("u", "a", "X")), ["t"], GROUP, effects(spark)))
    assert total.verdict() == "0 keys sent = 0 applied + 0 dead-lettered, 0 lost"


def test_the_ledger_by_tag_gives_a_row_a_tag_with_percentiles(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.delivery_ledger import delivery_ledger, ledger_by_tag

    log = messages(spark, *[("t", f"k{number}", "X") for number in range(100)], ("t", "y", "Y"))
    done = effects(spark, *[(f"k{number}", number + 1, 1) for number in range(100)])
    rows = {row["tags"]: row.asDict() for row in ledger_by_tag(delivery_ledger(log, ["t"], GROUP, done)).collect()}
    assert (rows["X"]["sent"], rows["X"]["latency_p50_ms"], rows["X"]["latency_p99_ms"]) == (100, 50, 99)
    assert (rows["Y"]["sent"], rows["Y"]["lost"], rows["Y"]["latency_p50_ms"]) == (1, 1, None)
