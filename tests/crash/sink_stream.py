"""A stream from a directory to a topic, to be killed: `sink_stream.py NAME_SERVER INPUT CHECKPOINT GUARANTEE`.

Says `started` once the query runs and ends when all input is written.
"""

import os
import sys
from pathlib import Path

from tests.java import java_of_tests

from regulus.spark.session import open_session

TASK_FAILURES_MAX = 4
ROWS_A_SECOND = 400


def main(name_server: str, source: str, checkpoint: str, guarantee: str) -> None:
    spark = open_session(lambda: java_of_tests(Path(checkpoint).with_name("java")), os.environ,
                         f"local[2,{TASK_FAILURES_MAX}]",
                         {"spark.log.level": "ERROR", "spark.driver.memory": "1g"})
    lines = spark.readStream.option("maxFilesPerTrigger", 2).text(source)
    query = (lines.selectExpr("value AS body", "value AS keys").writeStream.format("rocketmq").queryName("killed")
             .options(nameServer=name_server, topic="sunk", producerGroup="sunk-sink", deliveryGuarantee=guarantee,
                      rateLimit=str(ROWS_A_SECOND), checkpointLocation=checkpoint)
             .trigger(availableNow=True).start())
    print("started", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
