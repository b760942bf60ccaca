"""The log as a table that grows, and what in it is not as it should be."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from regulus.pipeline.graph.ledger_parameters import parameters_of
from regulus.pipeline.steps import duplicates as steps_duplicates
from regulus.pipeline.steps import message_rejects, queue_holes
from regulus.pipeline.steps import throughput as steps_throughput
from regulus.spark.read_plan import GAP

spark = SparkSession.active()
parameters = parameters_of(spark)


@dp.table(comment="All messages of the topics and of the group's retry and dead-letter topics; each run adds the new.")
def messages() -> DataFrame:
    # With failOnDataLoss=report the source has a row for missing messages, which would fill the hole that it tells of.
    return parameters.messages(spark).where(F.col("message_type") != GAP)


@dp.table(comment="Messages that break a rule, with place and reason.")
def rejected() -> DataFrame:
    return message_rejects.message_rejects(spark.readStream.table("messages"))


@dp.materialized_view(comment="Rejected messages, by topic and reason.")
def rejected_by_reason() -> DataFrame:
    return message_rejects.rejects_by_reason(spark.read.table("rejected"))


@dp.materialized_view(comment="Runs of messages that are missing from a queue; empty when nothing is lost.")
def queue_gaps() -> DataFrame:
    return queue_holes.queue_holes(spark.read.table("messages"), has_epoch=False)


@dp.materialized_view(comment="Messages that a topic holds more than once.")
def duplicates() -> DataFrame:
    return steps_duplicates.duplicate_messages(spark.read.table("messages"))


@dp.materialized_view(comment="Messages and bytes stored, by time and topic.")
def throughput() -> DataFrame:
    stored = steps_throughput.throughput(spark.read.table("messages"), parameters.bucket)
    return stored.select("*", F.lit(parameters.bucket_seconds).alias("bucket_seconds"))
