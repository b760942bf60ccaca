"""`regulus job`: audits, searches, and repairs over the log as a table. See docs/pipeline/jobs.md."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from regulus.cli.connection import Moment, print_table
from regulus.cli.spark import java_places
from regulus.errors import RegulusError
from regulus.spark.java import find_java
from regulus.spark.reason import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from regulus.pipeline.log_source import LogSource
    from regulus.pipeline.outside_tables import OutsideTable
    from regulus.pipeline.progress import Say

P = ParamSpec("P")
ROWS_SHOWN = 20


class Job:
    """One run: where its messages are, the session that it works in, and where its words go."""

    def __init__(self, source_options: dict[str, str], cores: int, json_output: bool, limit: int) -> None:
        self._source_options = source_options
        self._cores = cores
        self.json_output = json_output
        self.limit = limit
        self._session: SparkSession | None = None

    @property
    def spark(self) -> "SparkSession":
        """Started when it is first needed, so that a wrong argument is refused at once. Raises MissingJava."""
        if self._session is None:
            from regulus.spark.session import open_session

            self._session = open_session(lambda: find_java(java_places()), os.environ, f"local[{self._cores}]", {
                "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": str(self._cores),
                "spark.driver.memory": "1g"})
        return self._session

    @property
    def source(self) -> "LogSource":
        """Raises JobRefused when it is not said where the messages are."""
        from regulus.pipeline.log_source import LogSource

        options = dict(self._source_options)
        if "storePath" in options:
            options.pop("nameServer", None)     # then that is only where the job sends
        return LogSource(options)

    @property
    def name_server(self) -> str:
        """Raises JobRefused when none was given, for a job that sends needs one."""
        from regulus.errors import JobRefused

        if not self._source_options.get("nameServer"):
            raise JobRefused("it is not said where to send: give a name server with -n")
        return self._source_options["nameServer"]

    @property
    def say(self) -> "Say":
        """On standard error, with the seconds since the job began, so that standard output is the result alone."""
        begin = monotonic()
        return lambda sentence: click.echo(f"[{monotonic() - begin:6.1f} s] {sentence}", err=True)

    def table(self, title: str, rows: "Iterable[Row]") -> None:
        """Rows of one shape under a title; nothing when there are none."""
        listed = [row.asDict() for row in rows]
        if listed:
            click.echo(f"\n{title}")
            print_table(list(listed[0]), [[shown(value) for value in row.values()] for row in listed])

    def offenders(self, title: str, frame: "DataFrame") -> None:
        """As many rows of a table as were asked for."""
        self.table(title, frame.limit(self.limit).collect())

    def document(self, **parts: object) -> None:
        click.echo(json.dumps(parts, ensure_ascii=False, indent=2, default=plain))


def with_job(command: Callable[Concatenate[Job, P], Any]) -> Callable[..., None]:
    """Give a command the options that say where messages are; it gets them as a Job, first.

    What is refused, by us or by Spark, is one sentence on standard error and status 1.
    """
    @click.option("--store", "store_path", type=click.Path(exists=True, file_okay=False, path_type=Path),
                  help="Directory of a broker's store, running or not.")
    @click.option("-n", "--namesrv", "name_server", envvar="NAMESRV_ADDR", help="Name servers, host:port;host:port.")
    @click.option("--archive", "archive_path", help="Directory or address of an archive.")
    @click.option("--broker-name", help="What to call the broker of --store; broker-a if not given.")
    @click.option("--credentials", metavar="env:NAME|file:/PATH", help="Where the keys for the brokers are.")
    @click.option("--cores", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True)
    @click.option("--rows", "limit", type=click.IntRange(0), default=ROWS_SHOWN, show_default=True,
                  help="How many rows of each kind to print.")
    @click.option("--json", "json_output", is_flag=True, help="Print JSON, one document.")
    @wraps(command)
    def call(*args: Any, store_path: Path | None, name_server: str | None, archive_path: str | None,
             broker_name: str | None, credentials: str | None, cores: int, limit: int, json_output: bool,
             **kwargs: Any) -> None:
        given = {"storePath": str(store_path.resolve()) if store_path else None, "nameServer": name_server,
                 "archivePath": archive_path, "brokerName": broker_name, "credentials": credentials}
        job = Job({name: value for name, value in given.items() if value}, cores, json_output, limit)
        with refusals():
            command(job, *args, **kwargs)
    return call


@contextmanager
def refusals() -> Iterator[None]:
    """Errors of Spark and ours as click's, in one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise click.ClickException(reason(str(error))) from error
    except RegulusError as error:
        raise click.ClickException(str(error)) from error


def moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone().isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, bytes | bytearray):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return f"<{len(value)} bytes>"
    if isinstance(value, list):
        return " ".join(map(shown, value))
    return "-" if value is None else str(value)


def plain(value: object) -> object:
    """What JSON has no word for."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else shown(value)


def outside(job: Job, text: str | None, key: str, time: str | None, time_name: str) -> "DataFrame | None":
    """A user's own table as keys with a time; None when none was named."""
    from regulus.pipeline.outside_tables import parse_outside_table, read_keys

    if text is None:
        return None
    table: OutsideTable = parse_outside_table(text)
    return read_keys(job.spark, table, key, time, time_name)


def effects_options(command: Callable[P, Any]) -> Callable[P, Any]:
    for option in (
        click.option("--effects", metavar="TABLE", help="What the consumers did: sqlite:/path#table, "
                     "postgresql://user@host/db#table, jdbc:url#table, parquet:/path, table:name."),
        click.option("--effects-key", default="key", show_default=True, help="The column with the business key."),
        click.option("--effects-time", help="The column with the time of the effect; ms or ISO 8601."),
    ):
        command = option(command)
    return command


@click.group()
def job() -> None:
    """Audit, search and repair, over the log as a table."""


@job.command()
@click.option("--topic", "topics", required=True, multiple=True, help="May be given several times.")
@click.option("--group", help="The consumer group whose retries and dead letters belong to the topics.")
@effects_options
@click.option("--late-ms", type=click.IntRange(0), default=60_000, show_default=True,
              help="From when on a message without an effect is missing it.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def audit(job: Job, topics: Sequence[str], group: str | None, effects: str | None, effects_key: str,
          effects_time: str | None, late_ms: int, starting: int | None, ending: int | None) -> None:
    """Holes, duplicates, order, missing effects and latency. Status 1 when a rule that must hold is broken."""
    from regulus.pipeline.audit import AuditRequest
    from regulus.pipeline.audit import audit as run

    request = AuditRequest(source=job.source, topics=tuple(topics), group=group, late_ms=late_ms,
                           effects=outside(job, effects, effects_key, effects_time, "applied_time"),
                           starting=moment(starting), ending=moment(ending))
    found = run(job.spark, request, datetime.now(UTC), job.say)
    if job.json_output:
        job.document(
            passed=found.passed, messages=found.messages, queues=found.queues, missing=found.missing,
            rules={result.rule.name: {"broken_by": result.count, "says": result.rule.says,
                                      "rows": [row.asDict() for row in result.offenders.limit(job.limit).collect()]}
                   for result in found.results},
            verdicts=found.verdicts, latencies=[row.asDict() for row in found.latencies])
    else:
        for result in found.results:
            if result.count:
                job.offenders(f"{result.rule.name} ({result.count}): {result.rule.says}", result.offenders)
        job.table("latency", found.latencies)
        click.echo(f"\nkeys: {', '.join(f'{count} {verdict}' for verdict, count in found.verdicts.items())}")
        click.secho(found.sentence(), bold=True, fg="green" if found.passed else "red")
    if not found.passed:
        sys.exit(1)


@job.command()
@click.option("--group", "groups", multiple=True, help="May be given several times; all if not given.")
@effects_options
@click.option("--cause-property", "causes", multiple=True, help="A property in which consumers leave why they failed.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def retries(job: Job, groups: Sequence[str], effects: str | None, effects_key: str, effects_time: str | None,
            causes: Sequence[str], starting: int | None, ending: int | None) -> None:
    """Retries and dead letters: who, how often, why, and how it ended."""
    from regulus.pipeline.retry_report import RetryRequest, retry_report

    report = retry_report(job.spark, RetryRequest(
        source=job.source, groups=tuple(groups), cause_properties=tuple(causes),
        effects=outside(job, effects, effects_key, effects_time, "applied_time"),
        starting=moment(starting), ending=moment(ending)), job.say)
    tables = {"ladder": report.ladder, "dead letters": report.causes, "time to success": report.success}
    _print_tables(job, tables, f"no retries in {len(report.groups)} groups")


@job.command()
@click.option("--topic", help="The trace topic, where it is not RMQ_SYS_TRACE_TOPIC.")
@click.option("--id", "message_id", help="Only this message.")
@click.option("--slow-ms", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--spans", is_flag=True, help="Print the spans too.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def trace(job: Job, topic: str | None, message_id: str | None, slow_ms: int, spans: bool, starting: int | None,
          ending: int | None) -> None:
    """What the clients' message trace says: slow groups, and who sends to whom."""
    from regulus.model.topics import TRACE_TOPIC
    from regulus.pipeline.trace_report import TraceRequest, trace_report

    report = trace_report(job.spark, TraceRequest(
        source=job.source, topic=topic or TRACE_TOPIC, slow_ms=slow_ms, message_id=message_id,
        starting=moment(starting), ending=moment(ending)), job.say)
    tables = {"groups": report.groups, "ways": report.ways}
    if spans or message_id:
        tables["spans"] = report.spans.orderBy("start_time").limit(job.limit)
    tables["rejected records"] = report.rejects.limit(job.limit)
    _print_tables(job, tables, "no trace records")


@job.command()
@click.option("--topic", "topics", multiple=True, help="May be given several times; all topics if not given.")
@click.option("--key", help="One of the message's keys.")
@click.option("--id", "message_id", help="Unique key or offset message id.")
@click.option("--tag")
@click.option("--where", help="A condition in SQL over the columns.")
@click.option("--from", "starting", type=Moment(), help="First store time.")
@click.option("--until", "ending", type=Moment(), help="Store time to stop before.")
@with_job
def search(job: Job, topics: Sequence[str], key: str | None, message_id: str | None, tag: str | None, where: str | None,
           starting: int | None, ending: int | None) -> None:
    """Find messages in logs and archives, with their retries and dead letters."""
    from regulus.pipeline.search import SearchRequest
    from regulus.pipeline.search import search as run

    request = SearchRequest(source=job.source, topics=tuple(topics), key=key, message_id=message_id, tag=tag,
                            where=where, starting=moment(starting), ending=moment(ending), limit=job.limit)
    rows = run(job.spark, request, datetime.now(UTC), job.say).collect()
    if job.json_output:
        job.document(messages=[row.asDict() for row in rows])
    for row in [] if job.json_output else rows:
        click.echo()
        for name, value in row.asDict().items():
            if value not in (None, {}):
                click.echo(f"{name:>18}  {shown(value)}")
    if not rows:
        raise click.ClickException("no such message is there")
    if not job.json_output:
        click.echo(f"\n{len(rows)} messages" + (f", no more than --rows {job.limit}" if len(rows) == job.limit else ""))


def _print_tables(job: Job, tables: "dict[str, DataFrame]", nothing: str) -> None:
    collected = {title: frame.collect() for title, frame in tables.items()}
    if job.json_output:
        job.document(**{title.replace(" ", "_"): [row.asDict() for row in rows] for title, rows in collected.items()})
        return
    for title, rows in collected.items():
        job.table(title, rows)
    if not any(collected.values()):
        click.echo(nothing)
