"""What became of the messages: retries, dead letters, the ledger. Without a group there is nothing to say."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from regulus.pipeline.graph.ledger_parameters import parameters_of
from regulus.pipeline.steps import delivery_ledger, retries
from regulus.pipeline.steps import group_lag as steps_group_lag

spark = SparkSession.active()
parameters = parameters_of(spark)

if parameters.group:
    effects = parameters.read_effects(spark)
    progress = parameters.progress(spark)

    @dp.materialized_view(comment="One row per message that the group failed on, and how it ended.")
    def retry_outcomes() -> DataFrame:
        return retries.retry_outcomes(spark.read.table("messages"), effects, progress)

    @dp.materialized_view(comment="How many messages needed so many retries.")
    def retry_ladder() -> DataFrame:
        return retries.retry_ladder(spark.read.table("retry_outcomes"))

    @dp.materialized_view(comment="Dead letters by cause.")
    def dead_letters_by_cause() -> DataFrame:
        return retries.dead_letters_by_cause(spark.read.table("retry_outcomes"))

    @dp.materialized_view(comment="How far the group is behind.")
    def group_lag() -> DataFrame:
        return steps_group_lag.group_lag(progress, spark.read.table("messages"))

    @dp.materialized_view(comment="One row per business key: how often sent, delivered, and where it ended.")
    def ledger() -> DataFrame:
        return delivery_ledger.delivery_ledger(spark.read.table("messages"), parameters.topics, parameters.group,
                                               effects, progress)

    @dp.materialized_view(comment="The ledger by tag.")
    def ledger_by_tag() -> DataFrame:
        return delivery_ledger.ledger_by_tag(spark.read.table("ledger"))

    @dp.materialized_view(comment="The ledger in one row.")
    def ledger_total() -> DataFrame:
        return delivery_ledger.ledger_total(spark.read.table("ledger"))
