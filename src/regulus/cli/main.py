"""`regulus`: the table of its commands. A command's module is imported only when it runs, so that `up` starts fast."""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import IO, Any, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from regulus import __version__
from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.cli.interrupts import raise_at_an_interrupt
from regulus.errors import RegulusError


class _Entry(NamedTuple):
    module: str
    attribute: str
    help: str


_COMMANDS = {
    "up": _Entry("regulus.cli.up", "up", "Run a broker and a name server in one process."),
    "broker": _Entry("regulus.cli.broker", "broker", "Run a broker."),
    "nameserver": _Entry("regulus.cli.nameserver", "nameserver", "Run a name server."),
    "proxy": _Entry("regulus.cli.proxy", "proxy", "Run the proxy for RocketMQ 5 clients."),
    "demo": _Entry("regulus.cli.demo.command", "demo", "Real flights, a killed broker, and the verdict from Spark."),
    "topic": _Entry("regulus.cli.topic", "topic", "Look at topics and change them."),
    "group": _Entry("regulus.cli.group", "group", "Look at consumer groups and change them."),
    "message": _Entry("regulus.cli.message", "message", "Send messages and find them."),
    "why": _Entry("regulus.cli.why", "why", "Explain why messages do not arrive."),
    "dead": _Entry("regulus.cli.dead", "dead", "Look at dead letters and send them again."),
    "acl": _Entry("regulus.cli.acl", "acl", "See which rule allows or denies an action."),
    "cluster": _Entry("regulus.cli.cluster", "cluster", "Look at brokers."),
    "spark": _Entry("regulus.cli.spark", "spark", "Read messages as a Spark table."),
    "archive": _Entry("regulus.cli.archive", "archive", "Keep a broker's log as Parquet files."),
    "index": _Entry("regulus.cli.index", "index", "Build consume queues and index from a log."),
    "store": _Entry("regulus.cli.store", "store", "Repair the store of a broker that is stopped."),
    "job": _Entry("regulus.cli.job", "job", "Audit, search and repair, over the log as a table."),
    "pipeline": _Entry("regulus.cli.pipeline", "pipeline", "Run pipelines over the log, and report."),
    "outbox": _Entry("regulus.cli.outbox", "outbox", "Look at committed messages and decide by hand."),
    "ledger": _Entry("regulus.cli.ledger", "ledger", "See what became of committed messages."),
    "bench": _Entry("regulus.cli.bench", "bench", "Measure how many messages a second go in and come out."),
}


class _Refusal(click.ClickException):
    """One of our errors at the command line."""

    def __init__(self, error: RegulusError) -> None:
        super().__init__(str(error))
        self.exit_code = exit_code(error)  # type: ignore[misc]  # of each class at click, of each error here

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"regulus: {self.message}", file=file, err=file is None)


class _Help(click.HelpFormatter):
    """click's formatter, with headings and names in another style than sentences."""

    def write_heading(self, heading: str) -> None:
        super().write_heading(click.style(heading, bold=True))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(click.style(name, fg="cyan"), text) for name, text in rows], col_max, col_spacing)


class _ReaderGone(Exception):
    """The reader of our output has gone."""


class LazyGroup(click.Group):
    """Knows its commands by name and one line of help, and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        raise_at_an_interrupt()
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RegulusError as error:
            raise _Refusal(error) from error
        except BrokenPipeError as error:
            raise _ReaderGone from error    # click would end with status 1, as after a failure

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and help from the table: a command's module may need packages that are not installed."""
        return [CompletionItem(name, help=entry.help) for name, entry in _COMMANDS.items()
                if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="regulus")
def regulus() -> None:
    """A message system that speaks RocketMQ, and whose log is a Spark table."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. A refusal is one line on standard error; see ExitCode for the status."""
    click.Context.formatter_class = _Help
    colour = False if os.environ.get("NO_COLOR") else None      # None: only on a terminal
    try:
        status = regulus.main(arguments, prog_name="regulus", standalone_mode=False, color=colour) or ExitCode.DONE
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort as error:
        status = _status_of_abort(error)
    except _ReaderGone:
        status = ExitCode.NO_READER
    except OSError as error:
        click.echo(f"regulus: {error}", err=True)
        status = ExitCode.FAILED
    _leave_output_alone()
    sys.exit(status)


def _status_of_abort(error: click.Abort) -> ExitCode:
    """The status after click.Abort, which click raises after Ctrl-C, and after a question that was not answered with
    yes."""
    if isinstance(error.__context__, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    click.echo("regulus: aborted, nothing was done", err=True)
    return ExitCode.FAILED


def _leave_output_alone() -> None:
    """Discard output that cannot be written: the interpreter would try again at its end, and print an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
