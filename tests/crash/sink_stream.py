"""Streams from a directory to topics, to be killed: `sink_stream.py NAME_SERVER DIRECTORY GUARANTEE=TOPIC...`.

They read what is in the directory's `in`, and end when all of it is written.
"""

import os
import sys
from pathlib import Path

from tests.java import java_of_tests

from regulus.spark.session import open_session

TASK_FAILURES_MAX = 4
ROWS_A_SECOND = 400


def main(name_server: str, directory: str, *sinks: str) -> None:
    # Their tasks wait for the rate most of the time, so each stream has its two slots.
    spark = open_session(lambda: java_of_tests(Path(directory) / "java"), os.environ,
                         f"local[{2 * len(sinks)},{TASK_FAILURES_MAX}]",
                         {"spark.log.level": "ERROR", "spark.driver.memory": "1g"})
    lines = spark.readStream.option("maxFilesPerTrigger", 2).text(f"{directory}/in")
    queries = []
    for sink in sinks:
        guarantee, _, topic = sink.partition("=")
        queries.append(
            lines.selectExpr("value AS body", "value AS keys").writeStream.format("rocketmq").queryName(topic)
            .options(nameServer=name_server, topic=topic, producerGroup=f"{topic}-sink", deliveryGuarantee=guarantee,
                     rateLimit=str(ROWS_A_SECOND), checkpointLocation=f"{directory}/checkpoint-{guarantee}")
            .trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
