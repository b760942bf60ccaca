"""The archive's folder of messages, read by the programs that people have for Parquet.

Needs polars, duckdb, datafusion and chdb (ClickHouse in a library).
"""

import json
from pathlib import Path

import pytest
from tests.foreign_archive import DAYS, ROWS, TOPICS, make_archive


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    return make_archive(tmp_path) / "messages"


def test_polars(messages: Path) -> None:
    import polars

    for table in (polars.read_parquet(messages), polars.scan_parquet(f"{messages}/**/*.parquet").collect()):
        assert table.height == ROWS
        assert set(table["topic"]) == set(TOPICS)
    days = polars.scan_parquet(messages, hive_partitioning=True).select("dt").unique().collect()
    assert days.height == DAYS


def test_duckdb(messages: Path) -> None:
    import duckdb

    rows = duckdb.sql(f"SELECT count(*), list(DISTINCT topic), count(DISTINCT dt) FROM "
                      f"read_parquet('{messages}/**/*.parquet')").fetchall()
    [(count, topics, days)] = rows
    assert (count, set(topics), days) == (ROWS, set(TOPICS), DAYS)


def test_datafusion(messages: Path) -> None:
    import datafusion
    import pyarrow

    assert datafusion.SessionContext().read_parquet(str(messages)).count() == ROWS
    context = datafusion.SessionContext()
    context.register_parquet("messages", str(messages), table_partition_cols=[("dt", pyarrow.string())])
    found = context.sql("SELECT DISTINCT topic, dt FROM messages").to_pydict()
    assert set(found["topic"]) == set(TOPICS)
    assert len(set(found["dt"])) == DAYS


def test_clickhouse(messages: Path) -> None:
    import chdb

    found = chdb.query(f"SELECT topic, count(), uniqExact(dt) FROM file('{messages}/**/*.parquet', Parquet) "
                       "GROUP BY topic", "JSONCompactColumns")
    topics, counts, days = json.loads(found.data())
    assert set(topics) == set(TOPICS)
    assert sum(map(int, counts)) == ROWS
    assert set(map(int, days)) == {DAYS}
