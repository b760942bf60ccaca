"""Measures how fast Spark's tasks read a running broker in bulk.

    python bench/spark_live.py [--messages N] [--size BYTES] [--queues N] [--tasks N] [--rounds N] [--spark]

Run with PYTHONPATH=build/compiled for the compiled form. A store is made, and a broker process serves it. The tasks are
processes of their own, like Spark's, which build Arrow batches and drop them. With --spark, Spark counts the rows as
well. Bytes are those of the commit log. CPU seconds are those of broker and tasks together; on a busy machine they say
more than the clock.
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spark_bench import TOPIC, family_cpu_seconds, fill, headline, parser_of

from regulus.cli.spark_session import command_session
from regulus.client.sync import Admin
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.live import scan as live_scan
from regulus.spark.live.brokers import LiveBrokers
from regulus.spark.options import ReadOptions, parse_options
from regulus.spark.read_bounds import batch_bounds
from regulus.spark.read_plan import ReadRange
from regulus.spark.table_schema import COLUMNS
from regulus.testing.running_server import ServerProcess

NARROW = ("queue_id", "queue_offset", "body")


def run_task(job: tuple[ReadOptions, tuple[str, ...], ReadRange]) -> int:
    options, columns, part = job
    return sum(batch.num_rows for batch in live_scan.scan(options, columns, part))


def plan(options: ReadOptions, tasks: int) -> list[ReadRange]:
    with LiveBrokers(options) as brokers:
        return brokers.partitions(*batch_bounds(options, brokers), cores=tasks)


def measured(name: str, rounds: int, log_bytes: int, rows: int, action: Callable[[], int]) -> None:
    best, cpu = float("inf"), float("inf")
    for _ in range(rounds):
        began, cpu_began = time.perf_counter(), family_cpu_seconds()
        assert action() == rows
        best, cpu = min(best, time.perf_counter() - began), min(cpu, family_cpu_seconds() - cpu_began)
    print(f"  {name:36} {best:6.2f} s {rows / best / 1e6:6.2f} M rows/s {log_bytes / best / 1e9:6.2f} GB/s"
          f" {cpu:6.2f} s CPU, {cpu / log_bytes * 1e9:5.2f} s CPU a GB")


def main() -> None:
    parser = parser_of(__doc__, messages=500_000, size=1024, queues=8, tasks=2, rounds=3)
    parser.add_argument("--spark", action="store_true")
    arguments = parser.parse_args()
    print(headline())
    with tempfile.TemporaryDirectory(prefix="regulus-bench-") as directory:
        root = Path(directory) / "store"
        log_bytes = fill(root, arguments)
        print(f"{arguments.messages} messages of {arguments.size} bytes, {arguments.tasks} tasks, best of "
              f"{arguments.rounds}")
        with ServerProcess(root) as server:
            with Admin(server.name_server_address) as admin:
                admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=arguments.queues,
                                               write_queue_nums=arguments.queues))
                assert admin.max_offset(MessageQueue(TOPIC, "broker-a", 0)) > 0
            measure(server, log_bytes, arguments)


def measure(server: ServerProcess, log_bytes: int, arguments: argparse.Namespace) -> None:
    given = {"nameServer": server.name_server_address, "topic": TOPIC}
    options = parse_options(given)
    parts = plan(options, arguments.tasks)
    with multiprocessing.get_context("spawn").Pool(arguments.tasks) as pool:
        for name, columns in (("all 26 columns", tuple(COLUMNS)), ("queue, offset, body", NARROW)):
            jobs = [(options, columns, part) for part in parts]
            measured(name, arguments.rounds, log_bytes, arguments.messages,
                     lambda jobs=jobs: sum(pool.imap_unordered(run_task, jobs)))
    if arguments.spark:
        measure_spark(given, log_bytes, arguments)


def measure_spark(given: dict[str, str], log_bytes: int, arguments: argparse.Namespace) -> None:
    with command_session(f"local[{arguments.tasks}]", {"spark.driver.memory": "1g"}) as spark:
        for name, columns in (("Spark count, all 26 columns", ""),
                              ("Spark count, queue, offset, body", ",".join(NARROW))):
            chosen = {**given, "columns": columns} if columns else given
            measured(name, arguments.rounds, log_bytes, arguments.messages,
                     lambda chosen=chosen: spark.read.format("rocketmq").options(**chosen).load().count())


if __name__ == "__main__":
    main()
