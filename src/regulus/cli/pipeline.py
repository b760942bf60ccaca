"""`regulus pipeline`: runs a Spark declarative pipeline, ours or the user's, and writes our report page."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regulus.cli.options import CORES_MAX, LocalPath
from regulus.cli.progress import Progress
from regulus.cli.spark_session import command_java
from regulus.errors import ClientError
from regulus.spark.runtime.extras import require_extra
from regulus.spark.runtime.work import Work
from regulus.wire.codes import ResponseCode

if TYPE_CHECKING:
    from regulus.pipeline.graph.runner import Hearer

REPORT_NAME = "report.html"


@click.group()
def pipeline() -> None:
    """Run pipelines over the log, and report what they made."""


@pipeline.command()
@click.option("--spec", "spec_path", type=LocalPath(),
              help="spark-pipeline.yml, or the directory with it.  [default: the message ledger]")
@click.option("--store", "store_path", type=LocalPath(exists=True, file_okay=False),
              help="Read a broker's store directory.")
@click.option("-n", "--namesrv", "name_server", help="Name servers of brokers to read.")
@click.option("--topic", "topics", multiple=True, help="May be repeated.")
@click.option("--group", help="The consumer group whose retries, dead letters and progress count.")
@click.option("--effects", help="What the consumers did: sqlite:/path#table, postgresql://host/database#table, "
                                "mysql://host/database#table, parquet:/path ...")
@click.option("--effects-key", help="Its column with the business key.  [default: key]")
@click.option("--effects-time", help="Its column with the time of the effect; ms or ISO 8601.")
@click.option("--effects-deliveries", help="Its column that counts the deliveries of a key.")
@click.option("--bucket", help="Width of throughput's steps.  [default: 1 minute]")
@click.option("--trace", is_flag=True, help="Read the clients' trace topic too.")
@click.option("--alerts-topic", help="Send an alert there for each new dead letter and rejected message.")
@click.option("--alerts-namesrv", "alerts_name_server", help="Where that topic is.  [default: that of -n]")
@click.option("--alerts-credentials", help="env:NAME or file:/path of their keys.  [default: those of the reads]")
@click.option("--storage", help="Directory or URL for tables, catalog and checkpoints.  [default: what the spec says]")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any setting; may be repeated.")
@click.option("--refresh", multiple=True, metavar="TABLE", help="Only this table; may be repeated.")
@click.option("--full-refresh", multiple=True, metavar="TABLE", help="Make this table from scratch; may be repeated.")
@click.option("--full-refresh-all", is_flag=True, help="Make all tables from scratch.")
@click.option("--dry-run", is_flag=True, help="Only check the definitions.")
@click.option("--cores", type=click.IntRange(1, CORES_MAX), default=os.cpu_count() or 1, show_default=True)
@click.option("--heap", default="1g", show_default=True, help="Heap size of Spark's Java.")
@click.option("--quiet", is_flag=True, help="Print only failures.")
def run(spec_path: Path | None, storage: str | None, settings: tuple[str, ...], refresh: tuple[str, ...],
        full_refresh: tuple[str, ...], full_refresh_all: bool, dry_run: bool, cores: int, heap: str, quiet: bool,
        store_path: Path | None, topics: tuple[str, ...], **given: str | bool | None) -> None:
    """Process new data in the sources, then end. SPARK_REMOTE names a Spark Connect server to run it on."""
    require_extra("spark", "a pipeline")
    from regulus.pipeline.graph.runner import RunOrder, run_pipeline
    from regulus.pipeline.graph.spec import read_spec

    spec = read_spec(spec_path or ledger_spec(), storage)
    parameters = {
        **_parameters(given), **({"regulus.storePath": str(store_path.resolve())} if store_path else {}),
        **({"regulus.topics": ",".join(topics)} if topics else {}), **_settings(settings)}
    if spec_path is None:
        _check_ledger(parameters)
    remote = os.environ.get("SPARK_REMOTE") or None
    order = RunOrder(spec=spec, parameters=parameters, remote=remote, refresh=refresh, full_refresh=full_refresh,
                     full_refresh_all=full_refresh_all, dry=dry_run, cores=cores, heap=heap)

    java = None if remote else command_java()
    if quiet:
        run_pipeline(order, java, os.environ)
        return
    with Progress.on_stderr() as progress, run_shown(progress) as hearer:
        def tell(flow: str, state: str) -> None:
            hearer.flow(flow, state)
            if state in ("COMPLETED", "FAILED", "SKIPPED"):
                progress.clear()
                click.echo(f"{flow}: {state.lower()}")

        result = run_pipeline(order, java, os.environ, replace(hearer, flow=tell))
        progress.end()
    for flow, rows in sorted(result.rows.items()):
        click.echo(f"table {flow}: {rows:,} new rows read")
    click.echo(f"{'checked' if dry_run else 'done'}: {spec.name} in {spec.storage}")


@contextmanager
def run_shown(progress: Progress) -> "Iterator[Hearer]":
    """Shows how far a run is: its tables, and the work that Spark is doing."""
    from regulus.pipeline.graph.runner import Hearer

    states: dict[str, str] = {}
    newest: list[Work | None] = [None]

    def flow(name: str, state: str) -> None:
        states[name] = state
        at_work = [name for name, state in states.items() if state == "RUNNING"]
        made = sum(state == "COMPLETED" for state in states.values())
        progress.step(f"{made} of {len(states)} tables made" + (f", making {', '.join(at_work)}" if at_work else ""))

    def work(told: Work | None) -> None:
        newest[0] = told

    with progress.watching(lambda: newest[0]):
        yield Hearer(say=progress.say, flow=flow, work=work)


@pipeline.command()
@click.option("--storage", type=LocalPath(), help="Directory of the pipeline.  [default: the ledger's]")
@click.option("-o", "--output", type=LocalPath(), help="[default: report.html in the storage]")
@click.option("--title", default="Message ledger", show_default=True)
@click.option("--tag-word", default="tag", show_default=True, help="What the messages' tags are.")
def report(storage: Path | None, output: Path | None, title: str, tag_word: str) -> None:
    """Write the ledger's report page: one HTML file that needs nothing else."""
    require_extra("spark", "the report")
    from regulus.pipeline.graph.spec import local_directory, read_spec
    from regulus.pipeline.report.report import write_report

    if storage is None:
        storage = local_directory(read_spec(ledger_spec()).storage)
        assert storage is not None
    output = output or storage / REPORT_NAME
    write_report(storage, output, made_at=datetime.now(UTC), title=title, source=str(storage), tag_word=tag_word)
    click.echo(f"report: {output}")


def ledger_spec() -> Path:
    """The message ledger that ships with the package."""
    return Path(str(files("regulus.pipeline"))) / "message_ledger" / "spark-pipeline.yml"


def _parameters(given: dict[str, str | bool | None]) -> dict[str, str]:
    """`--effects-key` is the setting regulus.effectsKey."""
    found = {}
    for name, value in given.items():
        first, *rest = name.split("_")
        if value:
            found["regulus." + first + "".join(word.title() for word in rest)] = (
                "true" if value is True else str(value))
    return found


def _settings(pairs: Iterable[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--set")
        found[key.strip()] = value
    return found


def _check_ledger(parameters: dict[str, str]) -> None:
    """Check the parameters before Java starts, like the ledger's definition files. Raises PipelineError, and
    ClientError for a topic that does not exist."""
    from regulus.pipeline.graph.ledger_parameters import read_parameters
    from regulus.spark.selection import is_special
    from regulus.spark.store.files import StoreFiles

    ledger = read_parameters(parameters.get)
    if "storePath" in ledger.source:
        known = StoreFiles(ledger.source["storePath"]).topics()
        for topic in ledger.topics:
            if topic not in known:
                near = get_close_matches(topic, known, n=1)
                listed = ", ".join(sorted(name for name in known if not is_special(name))) or "none"
                hint = f"did you mean {near[0]!r}?" if near else f"it has {listed}"
                raise ClientError(f"the store has no topic {topic!r}: {hint}", ResponseCode.TOPIC_NOT_EXIST)
