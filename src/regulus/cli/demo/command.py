"""`regulus demo`: runs the demo, prints the verdicts of the ledger and of Spark, and writes the report page."""

import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regulus.cli.demo.flights import FLIGHTS_IN_ALL, FLIGHTS_IN_JANUARY
from regulus.cli.options import PORT, LocalPath
from regulus.cli.progress import Progress
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from regulus.cli.demo.run import DemoRun
    from regulus.pipeline.steps.delivery_ledger import LedgerTotals

REPORT_NAME = "report.html"


@click.command("demo")
@click.option(
    "--directory",
    type=LocalPath(),
    default=Path("demo-run"),
    show_default=True,
    help="Directory for databases, store, ledger and report page; a demo that is there is replaced.",
)
@click.option(
    "--flights",
    type=click.IntRange(1, FLIGHTS_IN_ALL),
    help=f"How many of the flights to commit.  [default: those of January, {FLIGHTS_IN_JANUARY:,}]",
)
@click.option("--all", "is_whole_year", is_flag=True, help=f"Those of the whole year, {FLIGHTS_IN_ALL:,}.")
@click.option("--seed", type=click.IntRange(0), help="Decides what is killed when.  [default: another each time]")
@click.option("--port", type=PORT, default=0, help="Port of the broker; 0: 10911 or a free one.")
@click.option("--namesrv-port", type=PORT, default=0, help="Port of the name server; 0: 9876 or a free one.")
def demo(directory: Path, flights: int | None, is_whole_year: bool, seed: int | None, port: int,
         namesrv_port: int) -> None:
    """Commit real flights once and apply them once, while relay, broker and consumer are killed. The ledger, and Spark
    from the broker's log, give the verdict."""
    require_extra("demo", "the demo")
    from regulus.cli.demo.verdict import audited, is_whole, sentence

    if is_whole_year and flights is not None:
        raise click.UsageError("--flights and --all each say how many flights; give one of them")
    flights = flights or (FLIGHTS_IN_ALL if is_whole_year else FLIGHTS_IN_JANUARY)
    directory = directory.absolute()
    _make_anew(directory)
    port = port or _free_port(10911)
    namesrv_port = namesrv_port or _free_port(9876)
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    click.echo(f"Committing {flights:,} flights, each with its message; relay, broker (port {port}) and consumer are "
               f"killed on the way, when --seed {seed} says; files in {directory}")
    run = _run_with_bars(directory, port, namesrv_port, flights, seed)
    _print_run(run, flights)
    found = audited(directory)
    is_kept = is_whole(found, flights)
    click.secho(f"\n{sentence(found)}\n", bold=True, fg="green" if is_kept else "red")
    click.echo(f"Parked are {found.parked.count} cancelled flights: their effect failed each time, and each is an "
               "alarm for a human.")
    totals = _second_witness(directory, run, flights)
    click.echo(f"The broker's log: {totals.verdict()}; {totals.duplicates} copies in it were sent again, and not "
               f"applied again.\nReport page: {directory / REPORT_NAME}")
    agrees = (totals.balanced and totals.waiting == 0
              and (totals.applied, totals.dead_lettered) == (found.applied, found.parked.count))
    if not is_kept or not agrees:
        raise click.ClickException(f"that is not as it should be: {found.verdict()}; {totals}")
    _print_next_commands(directory, namesrv_port)


def _print_run(run: "DemoRun", flights: int) -> None:
    click.echo(f"{flights:,} flights committed and settled in {run.seconds:.1f} s.")
    for kill in run.kills:
        click.echo(f"  {kill.process.name:<8} killed at {kill.killed_at - run.started_at:5.1f} s, "
                   f"started again at {kill.back_at - run.started_at:5.1f} s")


def _second_witness(directory: Path, run: "DemoRun", flights: int) -> "LedgerTotals":
    from regulus.cli.demo.airports import TOPIC
    from regulus.cli.demo.board_process import CONSUMER_GROUP
    from regulus.cli.demo.witness import make_ledger, report_ledger
    from regulus.pipeline.report.charts import Mark
    from regulus.pipeline.steps.delivery_ledger import LedgerTotals

    click.echo("Spark reads the broker's log: the ledger pipeline ...")
    with Progress.on_stderr() as progress:
        make_ledger(directory, TOPIC, CONSUMER_GROUP, progress)
    kills = [Mark(kill.killed_at, kill.back_at, f"{kill.process.name} killed") for kill in run.kills]
    return LedgerTotals.of(report_ledger(directory, directory / REPORT_NAME, flights, kills))


def _make_anew(directory: Path) -> None:
    if directory.exists():
        if any(directory.iterdir()) and not (directory / "broker.conf").exists():
            raise click.UsageError(f"{directory} holds something other than a demo; name another with --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _free_port(wanted: int) -> int:
    """RocketMQ's usual port if it is free, so that clients need no setting; else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException("no free port on 127.0.0.1")


def _run_with_bars(directory: Path, port: int, namesrv_port: int, flights: int, seed: int) -> "DemoRun":
    from regulus.cli.demo.run import run_demo

    with _bars() as bars:
        committing, settling = bars.add_task("committed", total=flights), bars.add_task("settled", total=flights)

        def progress(committed: int, settled: int) -> None:
            bars.update(committing, completed=committed)
            bars.update(settling, completed=settled)

        return run_demo(directory, port, namesrv_port, flights, seed, progress)


def _bars() -> "Bars":
    """Progress bars; they are updated on a terminal, and elsewhere printed once at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    console=Console(file=sys.stdout), refresh_per_second=2)


def _print_next_commands(directory: Path, namesrv_port: int) -> None:
    from regulus.cli.demo.airports import TOPIC
    from regulus.cli.demo.board_process import CONSUMER_GROUP
    from regulus.cli.demo.databases import AIRPORTS_NAME, BOARD_NAME
    from regulus.cli.demo.witness import EFFECTS_OPTIONS

    regulus = Path(sys.executable).with_name("regulus")
    name_server = "" if namesrv_port == 9876 else f" --namesrv-port {namesrv_port}"
    server = "" if namesrv_port == 9876 else f" -n 127.0.0.1:{namesrv_port}"
    database = f"--database sqlite:///{directory / AIRPORTS_NAME}"
    effects = f"--effects sqlite:///{directory / BOARD_NAME}"
    click.echo(f"""
Next, on what the demo left:
  {regulus} ledger UA1545-20130101T10 {database} {effects}
  {regulus} ledger audit {database} {effects}
  {regulus} outbox alarms {database} --limit 10
  {regulus} spark read --store {directory / 'store'} --topic {TOPIC} --tag UA --limit 5
  {regulus} pipeline run --store {directory / 'store'} --topic {TOPIC} --group {CONSUMER_GROUP} \\
      --storage {directory / 'ledger'} {EFFECTS_OPTIONS.format(directory=directory)}
And with its broker, in a terminal of its own:
  {regulus} up -c {directory / "broker.conf"}{name_server}
  {regulus} message query {TOPIC} --key N14228{server}
  {regulus} topic tail {TOPIC} --from-beginning --count 5{server}
  {regulus} topic status '%DLQ%{CONSUMER_GROUP}'{server}
  {regulus} group progress {CONSUMER_GROUP}{server}""")
