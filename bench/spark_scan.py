"""Measures how fast Spark reads the files of a store, compared with its Parquet scan of the same rows.

    python bench/spark_scan.py [--messages N] [--size BYTES] [--queues N] [--cores N] [--rounds N] [--directory DIR]

Run with PYTHONPATH=build/compiled for the compiled form. A store is made in the directory and removed afterwards. All
files are read once before the measurement, so the page cache is warm. The store and Parquet take turns, and each figure
is the best of its rounds. Bytes are those of the commit log for both. CPU is the CPU time of this process and all its
children, JVM and workers included; on a busy machine it says more than the clock.

Rows called "nothing decoded" are a bound: the tasks hand over one batch of the table again and again, so that only
Spark's own part is left. Spark copies each column of each row, and does not say which columns a query needs.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from spark_bench import TOPIC, fill, headline, parser_of, report, timed

from regulus.cli.spark_session import command_session
from regulus.spark.columns.records import arrow_schema
from regulus.spark.options import parse_options
from regulus.spark.store.plan import plan
from regulus.spark.store.scan import scan
from regulus.spark.table_schema import COLUMNS, ddl

PARQUET_COLUMNS = ("topic", "queue_id", "queue_offset", "store_time", "tags", "keys", "body")


class OneBatch(DataSource):
    """A data source that returns the first batch of a store's table again and again."""

    @classmethod
    def name(cls) -> str:
        return "one_batch"

    def schema(self) -> str:
        return ddl(self.options["columns"].split(","))

    def reader(self, schema: StructType) -> "OneBatchReader":
        return OneBatchReader(self.options["storePath"], tuple(schema.fieldNames()), int(self.options["rows"]),
                              int(self.options["cores"]))


class OneBatchReader(DataSourceReader):
    def __init__(self, root: str, columns: tuple[str, ...], rows: int, cores: int) -> None:
        self.root, self.columns, self.rows, self.cores = root, columns, rows, cores

    def partitions(self) -> list[InputPartition]:
        ends = [self.rows * number // self.cores for number in range(self.cores + 1)]
        return [InputPartition(end - start) for start, end in pairwise(ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = parse_options({"storePath": self.root, "topic": TOPIC})
        batch = next(scan(options, self.columns, plan(options, 1)[0]))
        for start in range(0, partition.value, batch.num_rows):
            yield batch.slice(0, partition.value - start)


def write_parquet(root: Path, target: Path, cores: int) -> None:
    """Write the rows of the store as Parquet: one file a core, compressed with zstd."""
    options = parse_options({"storePath": str(root), "topic": TOPIC})
    target.mkdir()
    parts = plan(options, cores)
    for number in range(cores):
        path = target / f"part-{number}.parquet"
        with pq.ParquetWriter(path, arrow_schema(PARQUET_COLUMNS), compression="zstd") as writer:
            for part in parts[number::cores]:
                for batch in scan(options, PARQUET_COLUMNS, part):
                    writer.write_batch(batch)


def measure(spark: SparkSession, root: Path, parquet: Path, log_bytes: int, arguments: argparse.Namespace) -> None:
    def table(columns: str | None = None) -> DataFrame:
        reader = spark.read.format("rocketmq").option("storePath", str(root)).option("topic", TOPIC)
        return (reader.option("columns", columns) if columns else reader).load()

    def one_batch(columns: str) -> DataFrame:
        return spark.read.format("one_batch").options(storePath=str(root), columns=columns, rows=arguments.messages,
                                                      cores=arguments.cores).load()

    spark.dataSource.register(OneBatch)
    written = spark.read.parquet(str(parquet))
    body_bytes = "sum(length(body))"
    cases: dict[str, Callable[[], object]] = {
        "count, all 26 columns": lambda: table().count(),
        "count, all 26 columns, nothing decoded": lambda: one_batch(",".join(COLUMNS)).count(),
        "count, the columns of the Parquet files": lambda: table(",".join(PARQUET_COLUMNS)).count(),
        "count, without bodies": lambda: table("queue_id,queue_offset").count(),
        f"{body_bytes}, all 26 columns": lambda: table().selectExpr(body_bytes).collect(),
        f"{body_bytes}, body alone": lambda: table("body").selectExpr(body_bytes).collect(),
        f"{body_bytes}, body, nothing decoded": lambda: one_batch("body").selectExpr(body_bytes).collect(),
        "Parquet: count, metadata alone": written.count,
        f"Parquet: {body_bytes}": lambda: written.selectExpr(body_bytes).collect(),
        "Parquet: all 7 columns to noop": lambda: written.write.format("noop").mode("overwrite").save(),
        "the same 7 columns to noop": lambda: table(",".join(PARQUET_COLUMNS)).write.format("noop").mode(
            "overwrite").save(),
    }
    assert table().count() == one_batch("queue_id").count() == arguments.messages
    assert table("body").selectExpr(body_bytes).collect() == written.selectExpr(body_bytes).collect()
    best = dict.fromkeys(cases, (float("inf"), float("inf")))
    for _ in range(arguments.rounds):
        for name, action in cases.items():
            seconds, cpu = timed(action)
            best[name] = min(best[name][0], seconds), min(best[name][1], cpu)
    for name, (seconds, cpu) in best.items():
        report(name, seconds, cpu, log_bytes, arguments.messages)


def measure_without_spark(root: Path, log_bytes: int, arguments: argparse.Namespace) -> None:
    """Measure the decoder alone, on one core."""
    options = parse_options({"storePath": str(root), "topic": TOPIC})
    for name, columns in (("all 26 columns", tuple(COLUMNS)), ("7 columns", PARQUET_COLUMNS), ("body", ("body",)),
                          ("queue_id, queue_offset", ("queue_id", "queue_offset"))):
        def read_all(columns: tuple[str, ...] = columns) -> int:
            return sum(batch.num_rows for part in plan(options, 1) for batch in scan(options, columns, part))

        rounds = [timed(read_all) for _ in range(arguments.rounds)]
        report(f"decoder alone, {name}", min(seconds for seconds, _ in rounds), min(cpu for _, cpu in rounds),
               log_bytes, arguments.messages)


def main() -> None:
    parser = parser_of(__doc__, messages=1_000_000, size=1024, queues=8, cores=2, rounds=3)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        print(headline())
        log_bytes = fill(root / "store", arguments)
        print(f"{arguments.messages} messages of {arguments.size} bytes, {arguments.queues} queues, log "
              f"{log_bytes / 1e9:.2f} GB; local[{arguments.cores}], best of {arguments.rounds}")
        write_parquet(root / "store", root / "parquet", arguments.cores)
        measure_without_spark(root / "store", log_bytes, arguments)
        with command_session(f"local[{arguments.cores}]") as spark:
            measure(spark, root / "store", root / "parquet", log_bytes, arguments)
        print(f"load afterwards {os.getloadavg()[0]:.1f}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
