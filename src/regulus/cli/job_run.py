"""One run of a job on the command line: its message source, its Spark session, and the output of its results."""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

from regulus.cli.options import CORES_MAX, LIMIT
from regulus.cli.output import print_table, with_output
from regulus.cli.progress import Progress
from regulus.cli.spark_session import SparkDirectory, command_session, spark_refusals
from regulus.client.connecting.name_servers import parse_addresses
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.progress import Say

P = ParamSpec("P")
ROWS_SHOWN = 20


class Job:
    """One run of a job: its message source, its session, and its output.

    `at_end` stops the session. `progress` is shown until `results`.
    """

    def __init__(self, source_options: dict[str, str], cores: int, json_output: bool, limit: int,
                 at_end: ExitStack, progress: Progress) -> None:
        self.progress = progress
        self._source_options = source_options
        self._cores = cores
        self._at_end = at_end
        self.json_output = json_output
        self.limit = limit
        self._session: SparkSession | None = None

    @property
    def spark(self) -> "SparkSession":
        """The session, which is started when it is first used. A command makes its request before that, so that a wrong
        argument is refused at once. Raises MissingJava."""
        if self._session is None:
            self._session = self._at_end.enter_context(command_session(f"local[{self._cores}]", {
                "spark.sql.shuffle.partitions": str(self._cores), "spark.driver.memory": "1g"}, self.progress))
        return self._session

    @property
    def source(self) -> "LogSource":
        """The source of a job that only reads: an archive and its brokers count as one log. Raises JobRefused when no
        source is given."""
        return self._source("storePath")

    @property
    def source_to_send_from(self) -> "LogSource":
        """The source of a job that sends: it reads the files, if some are given, and sends to the brokers.

        Raises JobRefused when no source is given.
        """
        return self._source("storePath", "archivePath")

    def _source(self, *read_alone: str) -> "LogSource":
        """The source; if one of `read_alone` is given, the brokers are not read."""
        from regulus.pipeline.jobs.log_source import LogSource

        options = dict(self._source_options)
        if any(name in options for name in read_alone):
            for name in ("nameServer", "credentials"):
                options.pop(name, None)
        return LogSource(options)

    @property
    def accepts_gaps(self) -> bool:
        return self._source_options.get("failOnDataLoss") == "false"

    @property
    def has_name_server(self) -> bool:
        return bool(self._source_options.get("nameServer"))

    @property
    def name_server(self) -> str:
        """The name server of a job that sends. Raises JobRefused when none was given."""
        from regulus.errors import JobRefused

        if not self.has_name_server:
            raise JobRefused("it is not said where to send: give a name server with -n")
        return self._source_options["nameServer"]

    @property
    def credentials(self) -> str | None:
        return self._source_options.get("credentials")

    @property
    def say(self) -> "Say":
        return self.progress.say

    def results(self) -> None:
        """End the progress, because the results are printed now."""
        self.progress.end()

    def verdict(self, sentence: str, colour: str | None = None) -> None:
        """Print the last line; with JSON output it goes to standard error, because it is not part of the document."""
        if self.json_output:
            self.say(sentence)
        else:
            click.secho(sentence, bold=True, fg=colour)

    def table(self, title: str, rows: "Iterable[Row]") -> None:
        """Print rows as a table under a title; nothing without rows."""
        listed = [row.asDict() for row in rows]
        if listed:
            click.secho(f"\n{title}", bold=True)
            print_table(list(listed[0]), [[shown(value) for value in row.values()] for row in listed])

    def some(self, frame: "DataFrame") -> "list[Row]":
        """The first rows of a table, at most `limit`."""
        return frame.limit(self.limit).collect()

    def document(self, **parts: object) -> None:
        """Print one JSON document of these parts."""
        self.results()
        click.echo(json.dumps(parts, ensure_ascii=False, indent=2, default=as_text))


def with_job(command: Callable[Concatenate[Job, P], Any]) -> Callable[..., None]:
    """Give a command the options of the message source; it gets them as a Job, its first argument.

    Errors of Spark become one sentence.
    """
    @click.option("--store", "store_path", type=SparkDirectory(),
                  help="Directory of a broker's store, running or not.")
    @click.option("-n", "--namesrv", "name_server", envvar="NAMESRV_ADDR", show_envvar=True,
                  help="Name servers, host:port;host:port.")
    @click.option("--archive", "archive_path", help="Directory or address of an archive.")
    @click.option("--broker-name", help="What to call the broker of --store; broker-a if not given.")
    @click.option("--credentials", metavar="env:NAME|file:/PATH", help="Where the keys for the brokers are.")
    @click.option("--accept-gaps", is_flag=True, help="Continue without messages that are damaged or missing.")
    @click.option("--cores", type=click.IntRange(1, CORES_MAX), default=os.cpu_count() or 1, show_default=True)
    @click.option("--limit", type=LIMIT, default=ROWS_SHOWN, show_default=True,
                  help="How many rows of each kind to print.")
    @with_output
    @wraps(command)
    def call(*args: Any, store_path: str | None, name_server: str | None, archive_path: str | None,
             broker_name: str | None, credentials: str | None, accept_gaps: bool, cores: int, limit: int,
             json_output: bool, **kwargs: Any) -> None:
        given = {"storePath": store_path, "nameServer": name_server,
                 "archivePath": archive_path, "brokerName": broker_name, "credentials": credentials,
                 "failOnDataLoss": "false" if accept_gaps else None}
        require_extra("spark", "a job")
        if name_server:
            parse_addresses(name_server)    # before Spark starts, which takes seconds
        with spark_refusals(), Progress.on_stderr() as progress, ExitStack() as at_end:
            job = Job({name: value for name, value in given.items() if value}, cores, json_output, limit, at_end,
                      progress)
            command(job, *args, **kwargs)
    return call


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


def as_text(value: object) -> object:
    """The text of a value for which JSON has no type."""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else shown(value)
