"""`regulus archive`: keeps a broker's log as Parquet files, merges small ranges, and shows what is archived."""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regulus.cli.connection import tls_of, tls_option
from regulus.cli.options import CORES_MAX, LIMIT, LocalPath
from regulus.cli.output import print_json, print_table, with_output
from regulus.cli.progress import Progress
from regulus.cli.spark_session import command_session, spark_refusals
from regulus.errors import OptionError
from regulus.model.delay_level import DEFAULT_LADDER
from regulus.model.wording import time_text
from regulus.pipeline.range_tasks import LocalTasks, SeenTasks, SparkTasks, Tasks
from regulus.spark.options import DEFAULT_BROKER_NAME
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from regulus.pipeline.archive.files import Step
    from regulus.pipeline.archive.iceberg import IcebergCatalog

_ARCHIVE = click.option("--archive", "archive_path", required=True, type=LocalPath(file_okay=False),
                        help="Directory of the archive.")
_CORES = click.option("--cores", type=click.IntRange(0, CORES_MAX), default=os.cpu_count() or 1, show_default=True,
                      help="Tasks at a time; 0 works in this process, without Spark.")
_RANGE = click.option("--range-size", default="256m", show_default=True,
                      help="Bytes of log for each task and manifest.")
_ICEBERG = click.option("--iceberg-table", help="Show the files as this Iceberg table, namespace.name.")
_CATALOG = click.option("--iceberg-catalog", default="default", show_default=True,
                        help="A catalog of pyiceberg's configuration.")
_PROPERTY = click.option("--iceberg-property", "properties", multiple=True, metavar="KEY=VALUE",
                         help="A property of the catalog, such as uri or warehouse.")

_STEPS = {
    "tasks": "writing Parquet files", "check": "comparing them with the consume queues",
    "move": "moving files to their places", "manifest": "writing manifests", "committed": "writing manifests",
    "catalog": "showing the files in the Iceberg table", "gate": "telling the broker what is archived",
    "unlink": "removing what was replaced or is too old", "end": "sweeping up"}


@click.group()
def archive() -> None:
    """Keep a broker's log as Parquet files."""


@archive.command()
@click.option("--store", "store_path", required=True, type=LocalPath(exists=True, file_okay=False),
              help="Directory of a broker's store: ours, Apache RocketMQ's, or a backup.")
@_ARCHIVE
@click.option("--broker-name", default=DEFAULT_BROKER_NAME, show_default=True, help="The name under which it is kept.")
@click.option("-n", "--namesrv", "name_server", default="", help="Name servers of the running broker.")
@click.option("--access-key", default="", envvar="REGULUS_ACCESS_KEY", show_envvar=True,
              help="Sign requests as this user, an admin.")
@click.option("--secret-key", default="", envvar="REGULUS_SECRET_KEY", show_envvar=True,
              help="The user's secret; in the variable it does not appear in the list of processes.")
@tls_option
@click.option("--delay-levels", default=DEFAULT_LADDER, show_default=True,
              help="messageDelayLevel of a stopped broker.")
@click.option("--accept-gaps", is_flag=True, help="Archive what is there although messages are missing.")
@click.option("--beside-the-gate", is_flag=True,
              help="Archive although the broker's archiveGate waits for another archive.")
@_RANGE
@_CORES
@_ICEBERG
@_CATALOG
@_PROPERTY
def run(store_path: Path, archive_path: Path, broker_name: str, name_server: str, access_key: str, secret_key: str,
        tls_path: Path | None, delay_levels: str, accept_gaps: bool, beside_the_gate: bool, range_size: str,
        cores: int, iceberg_table: str | None, iceberg_catalog: str, properties: tuple[str, ...]) -> None:
    """Archive the part of the log that the archive does not have yet."""
    require_extra("spark", "an archive")
    from regulus.pipeline.archive.config import ArchiveConfig
    from regulus.pipeline.archive.gate import BrokerGate
    from regulus.pipeline.archive.run import run_archive

    config = ArchiveConfig(
        store_path=str(store_path.resolve()), archive_path=str(archive_path.resolve()), broker_name=broker_name,
        name_server=name_server, access_key=access_key, secret_key=secret_key, tls=tls_of(tls_path),
        message_delay_level=delay_levels, range_size=size_of(range_size), accept_gaps=accept_gaps,
        beside_the_gate=beside_the_gate)
    gate = BrokerGate(config) if name_server else None
    catalog = _catalog(iceberg_table, iceberg_catalog, properties, archive_path)
    with Progress.on_stderr() as progress:
        with tasks_of(cores, progress) as tasks:
            report = run_archive(tasks, config, uuid.uuid4().hex, gate, catalog, _steps_of(progress), progress.say)
        progress.end()
        click.echo(report)


@archive.command()
@_ARCHIVE
@click.option("--keep-superseded", type=LIMIT, default=60, show_default=True,
              help="Minutes that replaced files stay for queries.")
@click.option("--expire-after", type=LIMIT, default=0, help="Days to keep; 0 keeps everything.")
@_RANGE
@_CORES
@_ICEBERG
@_CATALOG
@_PROPERTY
def compact(archive_path: Path, keep_superseded: int, expire_after: int, range_size: str, cores: int,
            iceberg_table: str | None, iceberg_catalog: str, properties: tuple[str, ...]) -> None:
    """Merge small ranges of past days, and let old ones expire."""
    require_extra("spark", "an archive")
    from regulus.pipeline.archive.compact import CompactConfig
    from regulus.pipeline.archive.compact import compact as compact_archive

    config = CompactConfig(archive_path=str(archive_path.resolve()), range_size=size_of(range_size),
                           keep_superseded_ms=keep_superseded * 60_000, expire_after_days=expire_after)
    catalog = _catalog(iceberg_table, iceberg_catalog, properties, archive_path)
    with Progress.on_stderr() as progress:
        with tasks_of(cores, progress) as tasks:
            report = compact_archive(tasks, config, uuid.uuid4().hex, time.time_ns() // 1_000_000, catalog,
                                     _steps_of(progress), progress.say)
        progress.end()
        click.echo(report)


@archive.command()
@_ARCHIVE
@click.option("--verify", "is_verified", is_flag=True, help="Read each file and compare its SHA-256.")
@with_output
def status(archive_path: Path, is_verified: bool, json_output: bool) -> None:
    """Show how much of each broker's log is archived."""
    require_extra("spark", "an archive")
    from regulus.pipeline.archive.files import identity_of, verify
    from regulus.pipeline.archive.status import broker_states
    from regulus.spark.archive import manifest as archive_manifest

    manifests = archive_manifest.load(archive_path)
    states, identity = broker_states(manifests), identity_of(archive_path)
    if json_output:
        print_json([{**state.as_dict(), "archive_identity": identity} for state in states])
    else:
        click.echo(f"archiveIdentity={identity or '(none before the next run)'}")
        print_table(("broker", "from", "to", "gaps", "ranges", "files", "rows", "rejected", "bytes", "newest message"),
                    [(state.broker_name, state.start, state.end, state.gaps, state.ranges, state.files, state.rows,
                      state.rejected, state.size, time_text(state.newest_ms)) for state in states])
    faults = verify(archive_path, manifests) if is_verified else []
    for fault in faults:
        click.echo(fault)
    if faults:
        raise SystemExit(1)


@contextmanager
def tasks_of(cores: int, progress: Progress) -> Iterator[Tasks]:
    """The tasks of a job, in Spark or in this process; `progress` shows how far they are."""
    if not cores:
        yield LocalTasks()
        return
    with spark_refusals(), command_session(f"local[{cores}]", progress=progress) as session:
        yield SeenTasks(SparkTasks(session), progress.expect)


def size_of(text: str) -> int:
    """The bytes that a text such as `256m` means. Raises OptionError."""
    from regulus.spark.option_values import size

    return size({"range-size": text}, "range-size", 0)


def _catalog(table: str | None, name: str, properties: tuple[str, ...],
             archive_path: Path) -> "IcebergCatalog | None":
    if table is None:
        return None
    pairs = [tuple(text.split("=", 1)) for text in properties]
    wrong = next((text for text, pair in zip(properties, pairs, strict=True) if len(pair) != 2), None)
    if wrong is not None:
        raise OptionError(f"--iceberg-property is {wrong!r}: write KEY=VALUE")
    from regulus.pipeline.archive.config import IcebergTable
    from regulus.pipeline.archive.iceberg import IcebergCatalog

    target = IcebergTable(table=table, catalog=name, properties=tuple((pair[0], pair[1]) for pair in pairs))
    return IcebergCatalog(target, archive_path)


def _steps_of(progress: Progress) -> "Step":
    """Shows the steps of a job. Steps of the same kind, one for each file, are shown as one."""
    return lambda step: progress.step(_STEPS.get(step.split()[0], step))
