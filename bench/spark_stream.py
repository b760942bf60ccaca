"""Measures how long a micro-batch of a live stream takes, from trigger to commit, under constant sends.

    python bench/spark_stream.py [--rate N] [--queues N] [--seconds N] [--cores N]

Run with PYTHONPATH=build/compiled for the compiled form. A broker process gets messages at the given rate. A query
without trigger reads and discards them. The first third of the batches is warm-up and does not count. `task` is what
Spark calls addBatch: planning tasks, reading, and passing rows on. The rest is work on offsets: asking for the latest
ones, and writing two logs.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from spark_bench import headline, parser_of

from regulus.cli.spark_session import command_session
from regulus.client.sync import Admin, Producer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.spark.progress import lag
from regulus.testing.running_server import ServerProcess

TOPIC = "orders"


def send(server: ServerProcess, arguments: argparse.Namespace, stopping: threading.Event) -> None:
    """Every 20 ms send the messages that are due, to one queue after the other."""
    queues = [MessageQueue(TOPIC, "broker-a", number) for number in range(arguments.queues)]
    body, turn = bytes(1024), 0
    with Producer(server.name_server_address, "bench") as producer:
        while not stopping.wait(0.02):
            due = [Message(TOPIC, body) for _ in range(max(1, arguments.rate // 50))]
            producer.send_batch(due, queue=queues[turn % arguments.queues])
            turn += 1


def report(name: str, values: list[int]) -> None:
    values.sort()
    print(f"  {name:14} p50 {statistics.median(values):6.0f} ms   p95 {values[int(0.95 * (len(values) - 1))]:6.0f} ms")


def main() -> None:
    arguments = parser_of(__doc__, rate=1000, queues=4, seconds=30, cores=2).parse_args()
    print(headline())
    stopping = threading.Event()
    with (command_session(f"local[{arguments.cores}]", {
            "spark.driver.memory": "1g", "spark.sql.streaming.numRecentProgressUpdates": "5000"}) as spark,
          tempfile.TemporaryDirectory(prefix="regulus-bench-") as directory,
          ServerProcess(Path(directory) / "store") as server):
        with Admin(server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=arguments.queues,
                                           write_queue_nums=arguments.queues))
        sender = threading.Thread(target=send, args=(server, arguments, stopping))
        sender.start()
        stream = spark.readStream.format("rocketmq").options(
            nameServer=server.name_server_address, topic=TOPIC, columns="queue_id,queue_offset,store_time,body").load()
        query = (stream.writeStream.format("noop").queryName("bench")
                 .option("checkpointLocation", f"{directory}/checkpoint").start())
        time.sleep(arguments.seconds)
        stopping.set()
        sender.join()
        batches = [progress for progress in query.recentProgress if progress.numInputRows]
        query.stop()
    counted = batches[len(batches) // 3:]
    if not counted:
        sys.exit(f"no batch ended within {arguments.seconds} s: give --seconds more")
    rows = sum(progress.numInputRows for progress in counted)
    print(f"{arguments.rate} messages/s of 1 KB, {arguments.queues} queues, local[{arguments.cores}]: "
          f"{len(counted)} batches, {rows / len(counted):.0f} rows each")
    for name, key in (("whole batch", "triggerExecution"), ("task", "addBatch"), ("latest offset", "latestOffset"),
                      ("offset log", "walCommit"), ("commit log", "commitOffsets"), ("planning", "queryPlanning")):
        report(name, [progress.durationMs.get(key, 0) for progress in counted])
    waits = [each.seconds for progress in counted for each in lag(progress) if each.seconds]
    print(f"  first unread message waited {statistics.median(waits) * 1000:.0f} ms (median)" if waits else "")


if __name__ == "__main__":
    main()
