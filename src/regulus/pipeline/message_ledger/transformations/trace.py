"""The clients' own trace, where they keep one."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from regulus.pipeline.graph.ledger_parameters import parameters_of
from regulus.pipeline.steps import trace_spans as steps_trace

spark = SparkSession.active()
parameters = parameters_of(spark)

if parameters.trace:

    @dp.table(comment="The records of the trace topic; each run adds the new.")
    def trace_records() -> DataFrame:
        return steps_trace.trace_records(parameters.trace_messages(spark))

    @dp.materialized_view(comment="Sends and consumptions, with their length and outcome.")
    def trace_spans() -> DataFrame:
        return steps_trace.trace_spans(spark.read.table("trace_records"))
