"""`regulus demo`: runs it, prints the table and the verdict, draws the picture."""

import logging
import shutil
import socket
import sys
from pathlib import Path

import click

from regulus.cli.demo.flights import FLIGHTS_IN_ALL
from regulus.cli.demo.ledger_report import LedgerReport, read_ledger
from regulus.cli.demo.picture import draw
from regulus.cli.demo.run import CONSUMER_GROUP, TOPIC, DemoRun, run_demo
from regulus.errors import RegulusError

_COLUMNS = (
    "tags",
    "sent",
    "applied",
    "retried",
    "dead_lettered",
    "lost",
    "duplicates",
    "latency_p50_ms",
    "latency_p99_ms",
)
_TITLES = ("carrier", "sent", "applied", "retried", "dead letters", "lost", "duplicates", "p50 ms", "p99 ms")


@click.command("demo")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("demo-run"),
    show_default=True,
    help="Made anew: store, departure board, picture.",
)
@click.option(
    "--flights",
    type=click.IntRange(1, FLIGHTS_IN_ALL),
    default=FLIGHTS_IN_ALL,
    show_default=True,
    help="How many of the flights to send.",
)
@click.option("--port", default=0, help="Of the broker; 0: 10911 or a free one.")
@click.option("--namesrv-port", default=0, help="Of the name server; 0: 9876 or a free one.")
def demo(directory: Path, flights: int, port: int, namesrv_port: int) -> None:
    """Real flights through a broker that is killed on the way, and the verdict from Spark."""
    # The listener's failures are the demo's point; a traceback for each of 25,000 would hide everything else.
    logging.getLogger("regulus.client").setLevel(logging.CRITICAL)
    directory = directory.absolute()
    _make_anew(directory)
    port = port or _free_port(10911)
    namesrv_port = namesrv_port or _free_port(9876)
    click.echo(
        f"Sending {flights:,} flights to a broker on port {port}, which is killed half-way; files in {directory}"
    )
    try:
        run, effects = _run_with_bars(directory, port, namesrv_port, flights)
        click.echo(
            f"{run.sent:,} flights sent and settled in {run.seconds:.1f} s; the broker was killed at "
            f"{run.killed_at_s:.1f} s and back at {run.back_at_s:.1f} s; {run.resent:,} sends were tried again."
        )
        click.echo("Spark reads the log ...")
        report = read_ledger(directory / "store", effects, TOPIC, CONSUMER_GROUP)
    except RegulusError as error:
        raise click.ClickException(str(error)) from error
    _print_table(report)
    verdict = report.totals.verdict()
    picture = directory / "demo.png"
    draw(picture, run.timeline, run.killed_at_s, run.back_at_s, report.by_carrier, report.latencies_ms, verdict)
    totals = report.totals
    click.echo(
        f"\n{totals.duplicates} duplicates in the log (sends repeated after the kill), {totals.redelivered} "
        "deliveries repeated; each flight has one effect."
    )
    click.secho(f"\n{verdict}\n", bold=True, fg="green" if _passed(report, flights) else "red")
    click.echo(f"Picture: {picture}")
    if not _passed(report, flights):
        raise click.ClickException(f"the ledger does not balance: {flights} flights were to be sent; {totals}")
    _print_next_commands(directory, namesrv_port)


def _passed(report: LedgerReport, flights: int) -> bool:
    return report.totals.balanced and report.totals.sent == flights


def _make_anew(directory: Path) -> None:
    if directory.exists():
        if any(directory.iterdir()) and not (directory / "broker.conf").exists():
            raise click.ClickException(f"{directory} holds something else than a demo; name another with --directory")
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


def _run_with_bars(
    directory: Path, port: int, namesrv_port: int, flights: int
) -> tuple[DemoRun, list[tuple[str, int, int]]]:
    from tqdm import tqdm

    settings = {"total": flights, "unit": " flights", "file": sys.stdout, "mininterval": 0.5, "dynamic_ncols": True}
    with (
        tqdm(desc="sent   ", position=0, **settings) as sent_bar,
        tqdm(desc="settled", position=1, **settings) as done_bar,
    ):

        def progress(sent: int, applied: int, dead_lettered: int) -> None:
            sent_bar.update(sent - sent_bar.n)
            done_bar.update(min(applied + dead_lettered, flights) - done_bar.n)

        return run_demo(directory, port, namesrv_port, progress, flights)


def _print_table(report: LedgerReport) -> None:
    rows = [
        _TITLES,
        *(
            tuple(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in _COLUMNS)
            for row in report.by_carrier
        ),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    click.echo()
    for row in rows:
        click.echo("  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)))


def _print_next_commands(directory: Path, namesrv_port: int) -> None:
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
  {regulus} spark read --store {directory / 'store'} --topic {TOPIC} --tags UA --limit 5""")
