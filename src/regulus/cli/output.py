"""Prints the results of commands: tables for people, JSON for programs."""

import asyncio
import json
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from regulus.model.wording import lines, one_line

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")

PIPE_WIDTH = 10_000
"""Width of output that does not go to a terminal, so that tables for programs are not wrapped."""

_LOOK_FOR_READER_S = 0.2
_CONTROLS_IN_JSON = {number: f"\\u{number:04x}" for number in range(0x7F, 0xA0)}
"""Characters that may control a terminal, and that JSON does not have to escape."""


def with_output(command: Callable[P, Any]) -> Callable[..., None]:
    """Give a command `--output table|json`; it gets `json_output`."""
    @click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True,
                  help="A table for people, or one JSON document.")
    @wraps(command)
    def call(*args: Any, output: str, **kwargs: Any) -> None:
        kwargs["json_output"] = output == "json"
        command(*args, **kwargs)
    return call


def print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2).translate(_CONTROLS_IN_JSON))


def print_rows(names: Sequence[str], rows: Iterable[Sequence[object]], *, json_output: bool) -> None:
    """Print rows as a table with the names as its header, or as a JSON list of objects."""
    if json_output:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.upper() for name in names], rows)


def print_properties(properties: Mapping[str, str]) -> None:
    """Print a line for each property of a message."""
    click.echo("properties")
    for name, value in sorted(properties.items()):
        click.echo(f"  {one_line(name)} = {one_line(value)}")


def print_body(body: bytes) -> None:
    """Print a message's body as text."""
    click.echo(f"body, {len(body)} bytes")
    click.echo(lines(body.decode("utf-8", "replace")))


def pairs_text(pairs: Mapping[str, str]) -> str:
    """The text of one cell: `a=1 b=2`, or a dash without pairs."""
    return " ".join(f"{name}={value}" for name, value in sorted(pairs.items())) or "-"


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: columns as wide as their widest cell, folded if the terminal is too narrow; numbers to the
    right."""
    from rich.table import Table
    from rich.text import Text

    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, name in enumerate(header):
        is_number = bool(cells) and all(_is_number(row[column]) for row in cells)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    _console().print(table)


def print_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print a line for each fact: its name, in a column of its own, and its value."""
    listed = list(facts)
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        click.echo(f"{click.style(name.ljust(width), bold=True)}  {one_line(str(value))}")


async def reader_gone() -> None:
    """Wait until the reader of our output has gone, and raise BrokenPipeError; for commands that print now and then.

    A write would fail as well, but only when there is something to write.
    """
    poll = select.poll()
    with suppress(UnsupportedOperation):            # output in memory has no reader
        poll.register(sys.stdout.fileno(), 0)       # 0: no other events; POLLERR and POLLHUP are always reported
    while not poll.poll(0):
        await asyncio.sleep(_LOOK_FOR_READER_S)
    raise BrokenPipeError("the reader of our output has gone")


def _console() -> "Console":
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
