"""How long messages took."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from regulus.pipeline.graph.ledger_parameters import parameters_of
from regulus.pipeline.steps import latency, throughput
from regulus.pipeline.steps.trace_spans import deliveries_from_trace

spark = SparkSession.active()
parameters = parameters_of(spark)
effects = parameters.read_effects(spark)


@dp.materialized_view(comment="One row per message: when it was born, stored, delivered, applied.")
def message_latency() -> DataFrame:
    delivered = deliveries_from_trace(spark.read.table("trace_spans")) if parameters.trace else None
    return latency.latencies(spark.read.table("messages"), delivered, effects)


@dp.materialized_view(comment="Percentiles of each leg, by hour and topic.")
def latency_hourly() -> DataFrame:
    return latency.latency_over_time(spark.read.table("message_latency"), "1 hour")


@dp.materialized_view(comment="Percentiles of each leg, over all.")
def latency_percentiles() -> DataFrame:
    return latency.latency_percentiles(spark.read.table("message_latency"), ())


@dp.materialized_view(comment="The distribution of each leg.")
def latency_curve() -> DataFrame:
    return latency.latency_curve(spark.read.table("message_latency"))


if effects is not None:

    @dp.materialized_view(comment="Effects, by the time they were applied.")
    def effects_over_time() -> DataFrame:
        assert effects is not None
        return throughput.effects_over_time(effects, parameters.bucket)
