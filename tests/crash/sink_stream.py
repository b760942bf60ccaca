"""Streams and a job that write to topics, to be killed: `sink_stream.py NAME_SERVER DIRECTORY SINK...`.

The streams read what is in the directory's `in`, or in the topic GIVEN; the job reads the same files, and has a
shuffle. All end when all of it is written. Executors are processes of their own, so that one can die alone.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.java import java_of_tests

from regulus.spark.runtime.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GIVEN = "given"
SINKS = ("files", "halves", "log", "job")
"""Topics. `halves` is transactional and reads files, `log` reads a topic, `job` is a batch write."""
BATCH_FILES = 2
BATCH_ROWS = 300
EXECUTORS = 2
CORES = 4       # of each: tasks wait for the rate most of the time, so the streams have their slots beside each other
ROWS_A_SECOND = 200
SETTINGS = {
    "spark.log.level": "ERROR", "spark.driver.memory": "1g", "spark.executor.memory": "768m",
    "spark.sql.adaptive.enabled": "true",
    # How a plan is divided must not depend on how many executors are alive.
    "spark.default.parallelism": "4", "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16k",
}


def main(name_server: str, directory: str, *sinks: str) -> None:
    spark = open_session(lambda: java_of_tests(Path(directory) / "java"), os.environ,
                         f"local-cluster[{EXECUTORS},{CORES},1024]", SETTINGS)
    queries = [_options(_rows(spark, sink, name_server, directory).writeStream, sink, name_server)
               .queryName(sink).option("checkpointLocation", f"{directory}/checkpoint-{sink}")
               .trigger(availableNow=True).start() for sink in sinks if sink != "job"]
    if "job" in sinks:
        # After the shuffle the rows come in any order and AQE joins partitions; the key puts them in one order again.
        rows = spark.read.text(f"{directory}/in").groupBy("value").count().selectExpr("value AS body", "value AS keys")
        (_options(rows.write, "job", name_server).options(sinkId="the-job", dedupKey="keys").mode("append").save())
    for query in queries:
        query.awaitTermination()


def _rows(spark: "SparkSession", sink: str, name_server: str, directory: str) -> "DataFrame":
    if sink == "log":
        given = (spark.readStream.format("rocketmq")
                 .options(nameServer=name_server, topic=GIVEN, startingOffsets="earliest")
                 .option("maxOffsetsPerTrigger", BATCH_ROWS).load())
        return given.selectExpr("body", "keys", "properties['account'] AS sharding_key")
    lines = spark.readStream.option("maxFilesPerTrigger", BATCH_FILES).text(f"{directory}/in")
    return lines.selectExpr("value AS body", "value AS keys")


def _options(writer, sink: str, name_server: str):
    """`writer` is of a batch or of a stream."""
    return writer.format("rocketmq").options(
        nameServer=name_server, topic=sink, producerGroup=f"{sink}-sink", rateLimit=str(ROWS_A_SECOND),
        deliveryGuarantee="transactional" if sink == "halves" else "exactlyOnce")


if __name__ == "__main__":
    main(*sys.argv[1:])
