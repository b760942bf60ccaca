"""`regulus spark`: checks what the Spark table needs, and reads messages with it."""

import os
import re
from collections.abc import Sequence

import click
from click.core import ParameterSource

from regulus.cli.options import CORES_MAX, LIMIT
from regulus.cli.progress import Progress
from regulus.cli.spark_session import SparkDirectory, command_session, java_places, spark_refusals
from regulus.spark.runtime.doctor import Finding, examine, examine_executors
from regulus.spark.runtime.extras import require_extra
from regulus.spark.runtime.session import REMOTE_PREFIX

_READ_COLUMNS = "topic,queue_id,queue_offset,store_time,message_type,tags,keys,body"


@click.group()
def spark() -> None:
    """Read messages as a Spark table."""


@spark.command()
@click.option("--master", help="Also ask the executors there: local[2], spark://host:7077, k8s://..., sc://host:15002.")
@click.option("--store", "store_path", default="", help="With --master: a store's directory that they must see.")
def doctor(master: str | None, store_path: str) -> None:
    """Show which Spark, Java and decoder are installed, and what is missing."""
    is_remote = master is not None and master.startswith(REMOTE_PREFIX)
    # The client of a Spark Connect server needs no Java.
    findings = [finding for finding in examine(java_places()) if not is_remote or finding.what != "java"]
    _print_findings(findings)
    if master and not any(finding.mend for finding in findings if finding.what == "java"):
        with command_session(master, {"spark.log.level": "OFF"}) as session:
            asked = examine_executors(session, store_path)
        _print_findings(asked)
        findings += asked
    if any(finding.mend for finding in findings if finding.what != "decoder"):
        raise SystemExit(1)


@spark.command("warm-up")
def warm_up() -> None:
    """Let Java archive Spark's classes, once for each Java and Spark: jobs then start a third to a half quicker."""
    require_extra("spark", "Spark")
    from regulus.cli.warm_up import write_class_archive

    archive = write_class_archive()
    click.echo(f"kept {archive.stat().st_size >> 20} MiB in {archive}; remove the file to undo it")


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        click.echo(f"{'ok     ' if not finding.mend else 'missing'}  {finding.what}: {finding.found}")
        if finding.mend:
            click.echo(f"         {finding.mend}")


@spark.command()
@click.option("--store", "store_path", type=SparkDirectory(),
              help="Directory of a broker's store.")
@click.option("-n", "--namesrv", "name_server", envvar="NAMESRV_ADDR", show_envvar=True,
              help="Name servers of running brokers, host:port;host:port.")
@click.option("--archive", "archive_path", type=SparkDirectory(),
              help="Directory of an archive; with --namesrv, the archive and from its end on the brokers.")
@click.option("--credentials", metavar="env:NAME|file:/PATH", help="Where the keys for the brokers are.")
@click.option("--topic", "topics", required=True, multiple=True, help="May be given several times.")
@click.option("--tag", "tags", default="*", show_default=True, help="`TagA || TagB`.")
@click.option("--from", "starting", help="First store time: ISO 8601 or ms since 1970.")
@click.option("--until", "ending", help="Store time to stop before.")
@click.option("--columns", default=_READ_COLUMNS, show_default=True)
@click.option("--where", help="A condition in SQL over the columns.")
@click.option("--limit", type=LIMIT, default=20, show_default=True)
@click.option("--count", is_flag=True, help="Only count.")
@click.option("--accept-gaps", is_flag=True, help="Continue without messages that are damaged or missing.")
@click.option("--cores", type=click.IntRange(1, CORES_MAX), default=os.cpu_count() or 1, show_default=True)
@click.pass_context
def read(context: click.Context, store_path: str | None, name_server: str | None, archive_path: str | None,
         credentials: str | None, topics: tuple[str, ...], tags: str, starting: str | None, ending: str | None,
         columns: str, where: str | None, limit: int, count: bool, accept_gaps: bool,
         cores: int) -> None:
    """Print messages from a store's directory, from running brokers, or from an archive."""
    is_named = context.get_parameter_source("name_server") is not ParameterSource.ENVIRONMENT
    if not is_named and (store_path or archive_path):
        name_server = None
    places = (store_path, name_server, archive_path)
    if not any(places):
        raise click.UsageError("give --store, --namesrv or --archive: the place to read from")
    require_extra("spark", "reading as a table")
    options = {"storePath": store_path, "nameServer": name_server, "credentials": credentials,
               "archivePath": archive_path, "subscribe": ",".join(topics),
               "tags": tags, "columns": columns, "startingTimestamp": starting, "endingTimestamp": ending,
               "failOnDataLoss": "false" if accept_gaps else None}
    given = {key: value for key, value in options.items() if value}
    shown = _check_options(given)
    with (spark_refusals(), Progress.on_stderr() as progress,
          command_session(f"local[{cores}]", progress=progress) as session):
        progress.say(f"reading {', '.join(topics)} from {' and '.join(filter(None, places))}")
        read_columns = ",".join(dict.fromkeys((*shown, *_named_in(where or ""))))
        table = session.read.format("rocketmq").options(**{**given, "columns": read_columns}).load()
        if where:
            table = table.where(where).select(*shown)
        lines = [str(table.count())] if count else [_line(row.asDict()) for row in table.limit(limit).collect()]
        progress.end()
    for line in lines:
        click.echo(line)


def _named_in(condition: str) -> list[str]:
    """The columns of messages that a condition may name."""
    from regulus.spark.table_schema import COLUMNS

    words = set(re.findall(r"\w+", condition.lower()))
    return [name for name in COLUMNS if name in words]


def _check_options(given: dict[str, str]) -> tuple[str, ...]:
    """Check the options before Spark starts, which takes seconds; returns the columns to show. Raises OptionError."""
    from regulus.spark.options import parse_options
    from regulus.spark.source import table_ddl

    options = parse_options(given)
    table_ddl(options)
    return options.columns or ()


def _line(values: dict[str, object]) -> str:
    return "  ".join(f"{name}={_shown(value)}" for name, value in values.items() if value is not None)


def _shown(value: object) -> str:
    """The text of a value; for a body that is not text, its size."""
    if not isinstance(value, bytes | bytearray):
        return str(value)
    try:
        return repr(value.decode("utf-8"))
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"
