"""Measures how fast Spark writes to a topic, compared with an Arrow writer that discards the same rows.

    python bench/spark_sink.py [--messages N] [--size BYTES] [--queues N] [--cores N] [--rounds N] [--only TEXT]
                               [--directory DIR]

Run with PYTHONPATH=build/compiled for the compiled form. The rows come from a store that is made in the directory. So
a job reads the files of the log, passes the rows to the JVM and back, and sends them. A broker process stores them on
the same machine, and uses a share of its cores. The writers take turns, and each figure is the best of its rounds. One
round before these does not count: the JVM compiles code that runs often, at the cost of the writer that comes first.
CPU is that of Spark with all its processes, and that of the broker.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from spark_bench import TOPIC, chosen, family_cpu_seconds, fill, headline, parser_of

from regulus.cli.spark_session import command_session
from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from regulus.testing.running_server import ServerProcess

COLUMNS = ("keys", "tags", "body")
TARGET = "sunk"
TRANSACTIONAL_SHARE = 10            # one row in this many is written by the transactional writer


class DiscardWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Discard(DataSource):
    @classmethod
    def name(cls) -> str:
        return "discard"

    def writer(self, schema: object, overwrite: bool) -> DiscardWriter:
        return DiscardWriter()


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(spark: SparkSession, store: Path, server: ServerProcess, arguments: argparse.Namespace) -> None:
    spark.dataSource.register(Discard)
    table = (spark.read.format("rocketmq").options(storePath=str(store), topic=TOPIC, columns=",".join(COLUMNS),
                                                   minPartitions=str(arguments.cores)).load())
    few = table.limit(arguments.messages // TRANSACTIONAL_SHARE).repartition(arguments.cores).cache()
    common = {"nameServer": server.name_server_address, "topic": TARGET, "producerGroup": "bench-sink"}
    cases = {
        "an Arrow writer that discards": (table, "discard", {}),
        "rocketmq, atLeastOnce": (table, "rocketmq", {**common, "deliveryGuarantee": "atLeastOnce"}),
        "rocketmq, exactlyOnce": (table, "rocketmq", {**common, "deliveryGuarantee": "exactlyOnce"}),
        "rocketmq, transactional": (few, "rocketmq", {**common, "deliveryGuarantee": "transactional"}),
    }
    cases = chosen(cases, arguments.only)
    if any(frame is few for frame, _, _ in cases.values()):
        few.count()
    best: dict[str, tuple[float, float, float, int]] = {}
    for round_number in range(1 + arguments.rounds):
        for name, (frame, kind, options) in cases.items():
            count = few.count() if frame is few else arguments.messages
            identity = {"sinkId": f"bench-{round_number}"} if options else {}
            spark_cpu, broker_cpu, began = family_cpu_seconds(), cpu_of(server.pid), time.perf_counter()
            frame.write.format(kind).options(**options, **identity).mode("append").save()
            seconds = time.perf_counter() - began
            broker = cpu_of(server.pid) - broker_cpu
            figures = seconds, family_cpu_seconds() - spark_cpu - broker, broker, count
            if round_number > 0:
                best[name] = min(best.get(name, figures), figures)
    for name, (seconds, spark_cpu, broker_cpu, count) in best.items():
        print(f"{name:32} {count / seconds:10,.0f} messages/s   {seconds:6.2f} s   CPU per million: Spark "
              f"{spark_cpu / count * 1e6:5.1f} s, broker {broker_cpu / count * 1e6:5.1f} s")


def main() -> None:
    parser = parser_of(__doc__, messages=1_000_000, size=1024, queues=8, cores=2, rounds=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="measure only cases with this in their names")
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="regulus-bench-", dir=arguments.directory))
    try:
        print(headline())
        fill(root / "store", arguments)
        print(f"{arguments.messages} messages of {arguments.size} bytes, {arguments.queues} queues; "
              f"local[{arguments.cores}], best of {arguments.rounds} after one to warm up; transactional: every tenth")
        with ServerProcess(root / "broker") as server:
            with Admin(server.name_server_address) as admin:
                admin.create_topic(TopicConfig(topic_name=TARGET, read_queue_nums=arguments.queues,
                                               write_queue_nums=arguments.queues))
            with command_session(f"local[{arguments.cores}]", {"spark.driver.memory": "1g"}) as spark:
                measure(spark, root / "store", server, arguments)
        print(f"load afterwards {os.getloadavg()[0]:.1f}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
