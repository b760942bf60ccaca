"""What the ledger's definition files define, for the parameters that they are given."""

import runpy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regulus.cli.pipeline import ledger_spec
from tests.stores import fill, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


class Definitions:
    """What one definition file registers: outputs and the functions of their flows, by name."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}
        self.flows: dict[str, Callable[[], Any]] = {}

    def register_output(self, output: Any) -> None:
        self.outputs[output.name] = output

    def register_flow(self, flow: Any) -> None:
        self.flows[flow.name] = flow.func


@contextmanager
def settings(spark: "SparkSession", **given: str) -> Iterator[None]:
    for name, value in given.items():
        spark.conf.set(f"regulus.{name}", value)
    try:
        yield
    finally:
        for name in given:
            spark.conf.unset(f"regulus.{name}")


def defined(spark: "SparkSession", file: str, **given: str) -> Definitions:
    from pyspark.pipelines.graph_element_registry import graph_element_registration_context

    found = Definitions()
    with settings(spark, topics="TopicA", **given), graph_element_registration_context(found):  # type: ignore[arg-type]
        runpy.run_path(str(ledger_spec().parent / "transformations" / file))
    return found


BROKERS = {"nameServer": "reads:9876", "alertsTopic": "alerts"}
FILES = {"storePath": "/store", "alertsTopic": "alerts", "alertsNameServer": "alerts:9876"}
READER, WRITER = "env:READER_KEYS", "env:WRITER_KEYS"


@pytest.mark.parametrize(("given", "credentials"), [
    (BROKERS, None), (FILES, None),
    ({**BROKERS, "credentials": READER}, READER),
    ({**BROKERS, "credentials": READER, "alertsCredentials": WRITER}, WRITER),
    ({**FILES, "alertsCredentials": f" {WRITER} "}, WRITER),
])
def test_alerts_are_sent_with_the_keys_of_the_reads_or_their_own(
        spark: "SparkSession", given: Mapping[str, str], credentials: str | None) -> None:
    from regulus.spark.sink.options import parse_sink_options

    sink = defined(spark, "alerts.py", **given).outputs["alerts"]
    options = parse_sink_options(sink.options, is_stream=True)
    assert options.credentials == credentials
    assert options.name_server == given.get("alertsNameServer", "reads:9876")


def test_without_a_topic_of_alerts_there_is_no_sink(spark: "SparkSession") -> None:
    assert defined(spark, "alerts.py", storePath="/store").outputs == {}


@pytest.mark.parametrize("missing", [[11], [4, 5, 6, 11]])
def test_gaps_that_the_source_reports_are_no_messages(spark: "SparkSession", tmp_path: Path,
                                                      missing: list[int]) -> None:
    from regulus.pipeline.steps.queue_holes import queue_holes

    store = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 16)
    fill(store, 20)
    store.close()
    damage(spark, tmp_path / "store", missing)
    flows = defined(spark, "messages.py", storePath=str(tmp_path / "store"), failOnDataLoss="report").flows
    query = (flows["messages"]().writeStream.format("memory").queryName("ledger_messages")
             .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start())
    query.awaitTermination()
    messages = spark.table("ledger_messages")
    assert [row["queue_offset"] for row in messages.orderBy("queue_offset").collect()] == [
        number for number in range(20) if number not in missing]
    assert sum(row["missing"] for row in queue_holes(messages, has_epoch=False).collect()) == len(missing)


def damage(spark: "SparkSession", store: Path, numbers: list[int]) -> None:
    """Overwrite the magic code of some messages' records."""
    rows = (spark.read.format("rocketmq").options(storePath=str(store), topic="TopicA").load()
            .select("queue_offset", "physical_offset").collect())
    (log,) = (store / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    for row in rows:
        if row["queue_offset"] in numbers:
            data[row["physical_offset"] + 4:row["physical_offset"] + 8] = bytes(4)
    log.write_bytes(data)
