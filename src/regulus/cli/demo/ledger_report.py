"""The demo's proof: Spark reads the broker's log and the departure board, and says where each flight ended."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regulus.model.topics import dlq_topic, retry_topic
from regulus.pipeline.steps.delivery_ledger import LedgerTotals, delivery_ledger, ledger_by_tag, ledger_totals


@dataclass(frozen=True, slots=True)
class LedgerReport:
    totals: LedgerTotals
    by_carrier: list[Any]
    latencies_ms: list[int]


def read_ledger(store: Path, effects: Sequence[tuple[str, int, int]], topic: str, consumer_group: str) -> LedgerReport:
    """`effects`: (key, applied_ms, deliveries). Raises MissingJava."""
    import pyarrow as pa

    from regulus.cli.spark import java_places
    from regulus.spark.java import find_java
    from regulus.spark.session import local_session

    keys, applied_ms, deliveries = zip(*effects, strict=True) if effects else ((), (), ())
    effects_table = pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "applied_time": pa.array([value * 1000 for value in applied_ms], pa.timestamp("us", tz="UTC")),
            "deliveries": pa.array(deliveries, pa.int64()),
        }
    )
    spark = local_session(
        find_java(java_places()),
        os.environ,
        cores=2,
        settings={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g", "spark.log.level": "ERROR"},
    )
    try:
        topics = ",".join((topic, retry_topic(consumer_group), dlq_topic(consumer_group)))
        messages = (
            spark.read.format("rocketmq")
            .schema("topic string, keys string, tags string, born_time timestamp")
            .option("storePath", str(store))
            .option("subscribe", topics)
            .load()
        )
        ledger = delivery_ledger(messages, spark.createDataFrame(effects_table), topic, consumer_group).cache()
        latencies = ledger.where("applied").select("latency_ms").toArrow().column(0).to_pylist()
        return LedgerReport(ledger_totals(ledger), ledger_by_tag(ledger).collect(), latencies)
    finally:
        spark.stop()
