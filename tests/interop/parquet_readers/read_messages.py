"""`read_messages.py READER FOLDER`: what a program for Parquet finds in an archive's folder of messages, as JSON:
how many rows, which topics, how many days."""

import json
import sys
from typing import Any


def of_polars(folder: str) -> tuple[int, list[str], int]:
    import polars

    table = polars.read_parquet(folder)
    found = polars.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).collect()
    assert found.height == table.height
    return table.height, found["topic"].to_list(), found["dt"].n_unique()


def of_duckdb(folder: str) -> tuple[int, list[str], int]:
    import duckdb

    [(count, topics, days)] = duckdb.sql("SELECT count(*), list(DISTINCT topic), count(DISTINCT dt) FROM "
                                         f"read_parquet('{folder}/**/*.parquet')").fetchall()
    return count, topics, days


def of_datafusion(folder: str) -> tuple[int, list[str], int]:
    import datafusion
    import pyarrow

    context = datafusion.SessionContext()
    context.register_parquet("messages", folder, table_partition_cols=[("dt", pyarrow.string())])
    found: dict[str, list[Any]] = context.sql("SELECT topic, dt FROM messages").to_pydict()
    assert datafusion.SessionContext().read_parquet(folder).count() == len(found["topic"])
    return len(found["topic"]), found["topic"], len(set(found["dt"]))


def of_clickhouse(folder: str) -> tuple[int, list[str], int]:
    import chdb

    found = chdb.query(f"SELECT topic, dt FROM file('{folder}/**/*.parquet', Parquet)", "JSONCompactColumns")
    topics, days = json.loads(found.data())
    return len(topics), topics, len(set(days))


READERS = {"polars": of_polars, "duckdb": of_duckdb, "datafusion": of_datafusion, "clickhouse": of_clickhouse}

if __name__ == "__main__":
    count, topics, days = READERS[sys.argv[1]](sys.argv[2])
    print(json.dumps([count, sorted(set(topics)), days]))
