"""Rows of table `messages`, given by what a test cares for."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.frames import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BASE = datetime(2026, 1, 1, tzinfo=UTC)


def at(ms: int) -> datetime:
    return BASE + timedelta(milliseconds=ms)


def table(spark: "SparkSession", rows: list[dict[str, Any]]) -> "DataFrame":
    """Table `messages`, all columns; what a row does not say is what one plain message of topic `t` has."""
    from regulus.spark.table_schema import COLUMNS, ddl

    plain = {"topic": "t", "broker_name": "a", "queue_id": 0, "properties": {}, "body": b"", "reconsume_times": 0,
             "store_size": 100, "born_time": BASE, "store_time": BASE, "born_host": "10.0.0.1:5"}
    values = [tuple({**plain, "queue_offset": number, **row}.get(name) for name in COLUMNS)
              for number, row in enumerate(rows)]
    return small_table(spark, values, ddl(list(COLUMNS)))


def effects(spark: "SparkSession", *rows: tuple[str, int]) -> "DataFrame":
    """Rows of (key, ms after BASE)."""
    return small_table(spark, [(key, at(ms)) for key, ms in rows], "key string, applied_time timestamp")


def collected(frame: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)
