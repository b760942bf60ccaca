"""`regulus demo`: runs it, lets the ledger pipeline judge, prints the verdict, writes the report page."""

import logging
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regulus.cli.demo.flights import FLIGHTS_IN_ALL
from regulus.cli.options import PORT
from regulus.cli.progress import Progress
from regulus.spark.extras import require_extra

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from regulus.cli.demo.run import DemoRun

REPORT_NAME = "report.html"


@click.command("demo")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("demo-run"),
    show_default=True,
    help="Made anew: store, departure board, ledger, report page.",
)
@click.option(
    "--flights",
    type=click.IntRange(1, FLIGHTS_IN_ALL),
    default=FLIGHTS_IN_ALL,
    show_default=True,
    help="How many of the flights to send.",
)
@click.option("--port", type=PORT, default=0, help="Of the broker; 0: 10911 or a free one.")
@click.option("--namesrv-port", type=PORT, default=0, help="Of the name server; 0: 9876 or a free one.")
def demo(directory: Path, flights: int, port: int, namesrv_port: int) -> None:
    """Real flights through a broker that is killed on the way, and the verdict from Spark."""
    require_extra("demo", "the demo")
    from regulus.cli.demo.ledger import make_ledger, report_ledger
    from regulus.cli.demo.run import CONSUMER_GROUP, TOPIC
    from regulus.pipeline.report_charts import Mark
    from regulus.pipeline.steps.delivery_ledger import LedgerTotals

    # The listener's failures are the demo's point; a traceback for each of 25,000 would hide everything else.
    logging.getLogger("regulus.client").setLevel(logging.CRITICAL)
    directory = directory.absolute()
    _make_anew(directory)
    port = port or _free_port(10911)
    namesrv_port = namesrv_port or _free_port(9876)
    click.echo(
        f"Sending {flights:,} flights to a broker on port {port}, which is killed half-way; files in {directory}"
    )
    run = _run_with_bars(directory, port, namesrv_port, flights)
    click.echo(
        f"{run.sent:,} flights sent and settled in {run.seconds:.1f} s; the broker was killed at "
        f"{run.killed_at_s:.1f} s and back at {run.back_at_s:.1f} s; {run.resent:,} sends were tried again."
    )
    click.echo("Spark reads the broker's log: the ledger pipeline ...")
    with Progress.on_stderr() as progress:
        make_ledger(directory, TOPIC, CONSUMER_GROUP, progress)
    kill = Mark(run.started_at + run.killed_at_s, run.started_at + run.back_at_s, "broker killed, and back")
    totals = LedgerTotals.of(report_ledger(directory, directory / REPORT_NAME, kill))
    click.echo(
        f"\n{totals.duplicates} duplicates in the log (sends repeated after the kill), {totals.redelivered} "
        f"deliveries and {totals.dead_again} dead letters repeated (what was delayed and due since the killed broker "
        "last saved where it was comes once more)."
    )
    passed = totals.balanced and totals.waiting == 0 and totals.sent == flights
    click.secho(f"\n{totals.verdict()}\n", bold=True, fg="green" if passed else "red")
    click.echo(f"Report page: {directory / REPORT_NAME}")
    if not passed:
        raise click.ClickException(f"the ledger does not balance: {flights} flights were to be sent; {totals}")
    _print_next_commands(directory, namesrv_port)


def _make_anew(directory: Path) -> None:
    if directory.exists():
        if any(directory.iterdir()) and not (directory / "broker.conf").exists():
            raise click.UsageError(f"{directory} holds something other than a demo; name another with --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True)


def _free_port(wanted: int) -> int:
    """The port RocketMQ uses where it is free, so that clients need no setting; else any."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise click.ClickException("no free port on 127.0.0.1")


def _run_with_bars(directory: Path, port: int, namesrv_port: int, flights: int) -> "DemoRun":
    from regulus.cli.demo.run import run_demo

    with _bars() as bars:
        sending, settling = bars.add_task("sent", total=flights), bars.add_task("settled", total=flights)

        def progress(sent: int, applied: int, dead_lettered: int) -> None:
            bars.update(sending, completed=sent)
            bars.update(settling, completed=min(applied + dead_lettered, flights))

        return run_demo(directory, port, namesrv_port, progress, flights)


def _bars() -> "Bars":
    """Drawn anew as they grow on a terminal; elsewhere once, at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    return Bars(TextColumn("{task.description:<7}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                    console=Console(file=sys.stdout), refresh_per_second=2)


def _print_next_commands(directory: Path, namesrv_port: int) -> None:
    from regulus.cli.demo.ledger import EFFECTS_OPTIONS
    from regulus.cli.demo.run import CONSUMER_GROUP, TOPIC

    regulus = Path(sys.executable).with_name("regulus")
    name_server = "" if namesrv_port == 9876 else f" --namesrv-port {namesrv_port}"
    server = "" if namesrv_port == 9876 else f" -n 127.0.0.1:{namesrv_port}"
    click.echo(f"""
Next, on what the demo left (the first one in a terminal of its own):
  {regulus} up -c {directory / "broker.conf"}{name_server}
  {regulus} message query {TOPIC} --key N14228{server}
  {regulus} topic tail {TOPIC} --from-beginning --count 5{server}
  {regulus} topic status '%DLQ%{CONSUMER_GROUP}'{server}
  {regulus} group progress {CONSUMER_GROUP}{server}
  {regulus} spark read --store {directory / 'store'} --topic {TOPIC} --tags UA --limit 5
  {regulus} pipeline run --store {directory / 'store'} --topic {TOPIC} --group {CONSUMER_GROUP} \\
      --storage {directory / 'ledger'} {EFFECTS_OPTIONS.format(directory=directory)}""")
