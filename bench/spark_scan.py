"""How fast Spark reads a store's files, beside Spark's own Parquet scan of the same rows.

    python bench/spark_scan.py [--messages N] [--size BYTES] [--queues N] [--cores N] [--rounds N] [--directory DIR]

Run with PYTHONPATH=build/compiled for the compiled form. A store of our own is made in the directory and removed
afterwards; everything is read once before it is timed, so the page cache is warm. Each figure is the best of the
rounds, in which ours and Parquet take turns. Bytes are bytes of the commit log for both. CPU is what this process and
all its children took, JVM and workers included: on a machine with other work it says more than the clock.
"""

import argparse
import os
import platform
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import DataFrame, SparkSession

from regulus.model.message import MessageExt
from regulus.record import message_columns
from regulus.spark.columns import arrow_schema
from regulus.spark.java import JavaPlaces, find_java
from regulus.spark.options import parse_options
from regulus.spark.session import local_session
from regulus.spark.store_plan import plan
from regulus.spark.store_scan import scan
from regulus.spark.table_schema import COLUMNS
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
TOPIC = "orders"
PARQUET_COLUMNS = ("topic", "queue_id", "queue_offset", "store_time", "tags", "keys", "body")


def messages(arguments: argparse.Namespace) -> Iterator[MessageExt]:
    """Bodies like JSON: about half random, so that they compress about 2:1."""
    chance = random.Random(1)
    filler = "x" * (arguments.size // 2 - 60)
    for number in range(arguments.messages):
        noise = chance.randbytes(arguments.size // 4).hex()
        body = f'{{"order":{number:010},"price":{number % 9973:05},"note":"{filler}","noise":"{noise}"}}'.encode()
        properties = {"UNIQ_KEY": f"7F0000010A6B4E0E2F2A{number:012X}", "CLUSTER": "DefaultCluster", "WAIT": "true",
                      "TAGS": f"Tag{number % 5}", "KEYS": f"order-{number}", "MSG_REGION": "DefaultRegion"}
        yield MessageExt(TOPIC, body.ljust(arguments.size)[:arguments.size], properties, number % arguments.queues,
                         0, 0, 1_700_000_000_000 + number, HOST, HOST)


def fill(root: Path, arguments: argparse.Namespace) -> int:
    """Bytes of the commit log."""
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), message_index_enable=False))
    store.open(time.monotonic)
    for number, message in enumerate(messages(arguments)):
        if store.wants_allocation:
            store.allocate_ahead()
        store.append(message, 1_700_000_000_000 + number)
        if number % 512 == 511:
            store.dispatch(1024, ())
    while store.dispatch_behind_bytes():
        store.dispatch(1024, ())
    size = store.commit_log_max_offset()
    store.close()
    return size


def write_parquet(root: Path, target: Path, cores: int) -> None:
    """The same rows, one file a core, zstd."""
    options = parse_options({"storePath": str(root), "topic": TOPIC})
    target.mkdir()
    parts = plan(options, cores)
    for number in range(cores):
        path = target / f"part-{number}.parquet"
        with pq.ParquetWriter(path, arrow_schema(PARQUET_COLUMNS), compression="zstd") as writer:
            for part in parts[number::cores]:
                for batch in scan(options, PARQUET_COLUMNS, part):
                    writer.write_batch(batch)


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and seconds of CPU."""
    cpu, began = family_cpu_seconds(), time.perf_counter()
    action()
    return time.perf_counter() - began, family_cpu_seconds() - cpu


def family_cpu_seconds() -> float:
    """CPU time of this process and its descendants, those that ended included."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(ticks[pid] for pid in family) / os.sysconf("SC_CLK_TCK")


def report(name: str, seconds: float, cpu: float, log_bytes: int, rows: int) -> None:
    print(f"  {name:44} {seconds:6.2f} s {rows / seconds / 1e6:6.2f} M rows/s {log_bytes / seconds / 1e9:6.2f} GB/s"
          f" {cpu:6.2f} s CPU, {cpu / rows * 1e6:5.2f} us a row")


def measure(spark: SparkSession, root: Path, parquet: Path, log_bytes: int, arguments: argparse.Namespace) -> None:
    def table(columns: str | None = None) -> DataFrame:
        reader = spark.read.format("rocketmq").option("storePath", str(root)).option("topic", TOPIC)
        return (reader.option("columns", columns) if columns else reader).load()

    written = spark.read.parquet(str(parquet))
    body_bytes = "sum(length(body))"
    cases: dict[str, Callable[[], object]] = {
        "count, all 26 columns": lambda: table().count(),
        "count, the columns of the Parquet files": lambda: table(",".join(PARQUET_COLUMNS)).count(),
        "count, without bodies": lambda: table("queue_id,queue_offset").count(),
        f"{body_bytes}, all 26 columns": lambda: table().selectExpr(body_bytes).collect(),
        f"{body_bytes}, body alone": lambda: table("body").selectExpr(body_bytes).collect(),
        "Parquet: count, metadata alone": written.count,
        f"Parquet: {body_bytes}": lambda: written.selectExpr(body_bytes).collect(),
        "Parquet: all 7 columns to noop": lambda: written.write.format("noop").mode("overwrite").save(),
        "the same 7 columns to noop": lambda: table(",".join(PARQUET_COLUMNS)).write.format("noop").mode(
            "overwrite").save(),
    }
    assert table().count() == arguments.messages
    assert table("body").selectExpr(body_bytes).collect() == written.selectExpr(body_bytes).collect()
    best = dict.fromkeys(cases, (float("inf"), float("inf")))
    for _ in range(arguments.rounds):
        for name, action in cases.items():
            seconds, cpu = timed(action)
            best[name] = min(best[name][0], seconds), min(best[name][1], cpu)
    for name, (seconds, cpu) in best.items():
        report(name, seconds, cpu, log_bytes, arguments.messages)


def measure_without_spark(root: Path, log_bytes: int, arguments: argparse.Namespace) -> None:
    """The decoder alone, one core."""
    options = parse_options({"storePath": str(root), "topic": TOPIC})
    for name, columns in (("all 26 columns", tuple(COLUMNS)), ("7 columns", PARQUET_COLUMNS), ("body", ("body",)),
                          ("queue_id, queue_offset", ("queue_id", "queue_offset"))):
        def read_all(columns: tuple[str, ...] = columns) -> int:
            return sum(batch.num_rows for part in plan(options, 1) for batch in scan(options, columns, part))

        rounds = [timed(read_all) for _ in range(arguments.rounds)]
        report(f"decoder alone, {name}", min(seconds for seconds, _ in rounds), min(cpu for _, cpu in rounds),
               log_bytes, arguments.messages)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        java = find_java(JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                                    cache=root / "cache"))
        build = "interpreted" if message_columns.__file__.endswith(".py") else "compiled"
        print(f"Python {platform.python_version()}, {build}; pyspark {pyspark.__version__}, pyarrow {pa.__version__}, "
              f"Java {java.version}; {os.cpu_count()} x {processor()}, load {os.getloadavg()[0]:.1f}")
        log_bytes = fill(root / "store", arguments)
        print(f"{arguments.messages} messages of {arguments.size} bytes, {arguments.queues} queues, log "
              f"{log_bytes / 1e9:.2f} GB; local[{arguments.cores}], best of {arguments.rounds}")
        write_parquet(root / "store", root / "parquet", arguments.cores)
        measure_without_spark(root / "store", log_bytes, arguments)
        spark = local_session(java, os.environ, arguments.cores, {"spark.log.level": "ERROR"})
        try:
            measure(spark, root / "store", root / "parquet", log_bytes, arguments)
        finally:
            spark.stop()
        print(f"load afterwards {os.getloadavg()[0]:.1f}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
