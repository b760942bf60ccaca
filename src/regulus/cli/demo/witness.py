"""The demo's second witness, who knows nothing of stubs: Spark reads the broker's log and the departure board, and says
where each flight ended."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from regulus.cli.pipeline import ledger_spec, run_shown
from regulus.cli.progress import Progress
from regulus.cli.spark_session import command_java
from regulus.pipeline.report.charts import Mark

EFFECTS_OPTIONS = ("--effects sqlite:{directory}/departures.sqlite#departures --effects-key flight_id "
                   "--effects-time applied_ms --bucket '1 second'")
"""How the same is said on the command line."""


def make_ledger(directory: Path, topic: str, consumer_group: str, progress: Progress) -> None:
    """Run the pipeline over what the demo left in `directory`. Raises PipelineError or MissingJava."""
    from regulus.pipeline.graph.runner import RunOrder, run_pipeline
    from regulus.pipeline.graph.spec import read_spec

    parameters = {
        "regulus.storePath": str(directory / "store"), "regulus.topics": topic, "regulus.group": consumer_group,
        "regulus.effects": f"sqlite:{directory / 'departures.sqlite'}#departures", "regulus.effectsKey": "flight_id",
        "regulus.effectsTime": "applied_ms", "regulus.bucket": "1 second"}
    order = RunOrder(spec=read_spec(ledger_spec(), str(directory / "ledger")), parameters=parameters,
                     cores=os.cpu_count() or 1)
    with run_shown(progress) as hearer:
        run_pipeline(order, command_java(), os.environ, hearer)


def report_ledger(directory: Path, page: Path, flights: int, kills: Sequence[Mark]) -> dict[str, int]:
    """Write the report page; the ledger's totals."""
    from regulus.pipeline.report.report import read_tables, write_report

    write_report(directory / "ledger", page, made_at=datetime.now(UTC),
                 title=f"{flights:,} flights that left New York in 2013", source=str(directory / "store"),
                 tag_word="carrier", marks=kills)
    return dict(read_tables(directory / "ledger", ["ledger_total"])["ledger_total"][0])
