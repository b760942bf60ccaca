"""What somebody should hear of, as messages of a topic: each new dead letter and each rejected message, once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from regulus.pipeline.graph.ledger_parameters import parameters_of
from regulus.pipeline.steps.alerts import dead_letter_alerts, reject_alerts

spark = SparkSession.active()
parameters = parameters_of(spark)

if parameters.alerts_topic:
    credentials = {"credentials": parameters.alerts_credentials} if parameters.alerts_credentials else {}
    dp.create_sink("alerts", "rocketmq", {
        "nameServer": parameters.alerts_name_server, "topic": parameters.alerts_topic,
        "deliveryGuarantee": "exactlyOnce", **credentials})

    @dp.append_flow(target="alerts", name="alerts_of_dead_letters")
    def alerts_of_dead_letters() -> DataFrame:
        return dead_letter_alerts(spark.readStream.table("messages"))

    @dp.append_flow(target="alerts", name="alerts_of_rejects")
    def alerts_of_rejects() -> DataFrame:
        return reject_alerts(spark.readStream.table("rejected"))
