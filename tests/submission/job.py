"""What the tests submit: counts a store's messages per topic, and says where its tasks found the package."""

import json
import os
import sys

from pyspark.sql import functions as F

from regulus.spark.runtime.session import open_session
from regulus.spark.source import register


def where_tasks_find_the_package(batches):
    import pyarrow

    import regulus

    for _ in batches:
        yield pyarrow.RecordBatch.from_pylist([{"path": regulus.__file__, "pid": os.getpid()}])


def no_java():
    raise AssertionError("a submitted job has its JVM already")


def main(store, *topics):
    spark = open_session(no_java, os.environ, "", {"spark.sql.session.timeZone": "Asia/Tokyo"})
    register(spark)
    table = spark.read.format("rocketmq").options(storePath=store, subscribe=",".join(topics),
                                                  maxRecordsPerPartition="50").load()
    counts = {row.topic: row.number for row in table.groupBy("topic").agg(F.count("*").alias("number")).collect()}
    found = spark.range(0, 4, 1, 4).mapInArrow(where_tasks_find_the_package, "path string, pid long").collect()
    print("RESULT " + json.dumps({
        "counts": counts, "paths": sorted({row.path for row in found}),
        "time_zone": spark.conf.get("spark.sql.session.timeZone"), "master": spark.sparkContext.master}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
