"""How long a micro-batch of a live stream takes, from trigger to commit, while messages come in all the time.

    python bench/spark_stream.py [--rate N] [--queues N] [--seconds N] [--cores N]

Run with PYTHONPATH=build/compiled for the compiled form. A broker process is sent to at the rate; a query without
trigger reads it to nowhere. The first third of the batches is warm-up and not counted. `task` is what Spark calls
addBatch: planning of tasks, reading, handing over. The rest is offsets: asking for the latest, and writing two logs.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from regulus.client.sync import Admin, Producer
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig
from regulus.record import message_columns
from regulus.spark.java import JavaPlaces, find_java
from regulus.spark.progress import lag
from regulus.spark.session import local_session
from regulus.testing.running_server import ServerProcess

TOPIC = "orders"


def send(server: ServerProcess, arguments: argparse.Namespace, stopping: threading.Event) -> None:
    """Every 20 ms what is due, by turns to each queue."""
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
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--queues", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    java = find_java(JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                                cache=Path.home() / ".cache" / "regulus"))
    form = "interpreted" if str(message_columns.__file__).endswith(".py") else "compiled"
    spark = local_session(java, os.environ, arguments.cores, {
        "spark.driver.memory": "1g", "spark.log.level": "ERROR",
        "spark.sql.streaming.numRecentProgressUpdates": "5000"})
    stopping = threading.Event()
    with tempfile.TemporaryDirectory(prefix="regulus-bench-") as directory, \
            ServerProcess(Path(directory) / "store") as server:
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
    rows = sum(progress.numInputRows for progress in counted)
    print(f"{arguments.rate} messages/s of 1 KB, {arguments.queues} queues, {form}, {arguments.cores} cores, "
          f"load {os.getloadavg()[0]:.1f}: {len(counted)} batches, {rows / len(counted):.0f} rows each")
    for name, key in (("whole batch", "triggerExecution"), ("task", "addBatch"), ("latest offset", "latestOffset"),
                      ("offset log", "walCommit"), ("commit log", "commitOffsets"), ("planning", "queryPlanning")):
        report(name, [progress.durationMs.get(key, 0) for progress in counted])
    waits = [each.seconds for progress in counted for each in lag(progress) if each.seconds]
    print(f"  first unread message waited {statistics.median(waits) * 1000:.0f} ms (median)" if waits else "")
    spark.stop()


if __name__ == "__main__":
    main()
