"""Dead letters at the command line: which are chosen, how they are counted, and how they look."""

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from regulus.broker.filters.sql_parser import compile_condition
from regulus.cli.output import print_body, print_facts, print_properties
from regulus.client.administration.dead_letters import DeadLetter, IsWanted, everything
from regulus.client.connecting.client_instance import now_ms
from regulus.errors import HeaderError
from regulus.model.failure_causes import CAUSE_STACK, causes_of
from regulus.model.message_id import host_text
from regulus.model.timestamps import dated
from regulus.model.wording import one_line, time_text

GROUPS_MAX = 10_000
"""Groups that are counted; letters of others count as OTHERS."""
OTHERS = "(others)"
UNKNOWN = "(unknown)"

_FIELDS: dict[str, Callable[[DeadLetter], str | None]] = {
    "topic": lambda letter: letter.origin or None,
    "keys": lambda letter: letter.message.keys or None,
    "tags": lambda letter: letter.message.tags or None,
    "cause": lambda letter: letter.cause or None,
    "reconsume_times": lambda letter: str(letter.message.reconsume_times),
    "age_ms": lambda letter: str(max(0, now_ms() - letter.message.store_timestamp)),
}
"""What a condition may name besides properties."""


def where(context: click.Context, parameter: click.Parameter, text: str | None) -> IsWanted:
    """A callback for an option with a condition. Letters of which it is unknown are not chosen."""
    if text is None:
        return everything
    try:
        condition = compile_condition(text)
    except HeaderError as error:
        raise click.BadParameter(str(error)) from error

    def is_wanted(letter: DeadLetter) -> bool:
        properties = letter.message.properties
        return condition.takes([_FIELDS[name](letter) if name in _FIELDS else properties.get(name)
                                for name in condition.names])
    return is_wanted


def cause_shape(letter: DeadLetter) -> str:
    """The cause without numbers, which differ from message to message."""
    return re.sub(r"\d+", "#", letter.cause) or UNKNOWN


def _day(letter: DeadLetter) -> str:
    return datetime.fromtimestamp(dated(letter.message.store_timestamp) / 1000, UTC).date().isoformat()


GROUPINGS: dict[str, Callable[[DeadLetter], str]] = {
    "cause": cause_shape,
    "topic": lambda letter: letter.origin or UNKNOWN,
    "tag": lambda letter: letter.message.tags or "-",
    "day": _day,
}
"""What letters are counted by; days are those of UTC."""


@dataclass(slots=True)
class LetterGroup:
    """`example`: the id of the group's first letter."""

    name: str
    example: str
    oldest_ms: int
    newest_ms: int
    count: int = 0


class Groups:
    """Counts letters by what `name_of` gives."""

    def __init__(self, name_of: Callable[[DeadLetter], str]) -> None:
        self._name_of = name_of
        self._found: dict[str, LetterGroup] = {}

    @property
    def count(self) -> int:
        return len(self._found)

    def add(self, letter: DeadLetter) -> None:
        name, stored = self._name_of(letter), letter.message.store_timestamp
        if name not in self._found and len(self._found) >= GROUPS_MAX:
            name = OTHERS
        group = self._found.get(name)
        if group is None:
            group = self._found[name] = LetterGroup(name, letter.message_id, stored, stored)
        group.count += 1
        group.oldest_ms, group.newest_ms = min(group.oldest_ms, stored), max(group.newest_ms, stored)

    def largest(self, limit: int) -> list[LetterGroup]:
        return sorted(self._found.values(), key=lambda group: -group.count)[:limit]


def letter_json(letter: DeadLetter) -> dict[str, object]:
    """All of a letter. The body is text, or base64 where it is not UTF-8."""
    message = letter.message
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": b64encode(message.body).decode()}
    return {
        "id": letter.message_id, "place": letter.place, "topic": letter.origin or None,
        "unique_key": message.message_id or None, "keys": message.keys, "tags": message.tags,
        "born": message.born_timestamp, "stored": message.store_timestamp,
        "reconsume_times": message.reconsume_times, "flag": message.flag,
        "causes": {str(attempt): cause for attempt, cause in causes_of(message.properties).items()},
        "properties": message.properties, **({"unreadable": letter.unreadable} if letter.unreadable else {}), **body}


def print_letter(letter: DeadLetter) -> None:
    message = letter.message
    print_facts([
        ("id", letter.message_id), ("place", letter.place), ("topic", letter.origin or "-"),
        ("unique key", message.message_id or "-"), ("keys", message.keys or "-"), ("tags", message.tags or "-"),
        ("born", f"{time_text(message.born_timestamp)} at {host_text(message.born_host)}"),
        ("stored", f"{time_text(message.store_timestamp)} at {host_text(message.store_host)}"),
        ("tries", message.reconsume_times)])
    click.echo("causes")
    for attempt, cause in causes_of(message.properties).items():
        click.echo(f"  {attempt}  {one_line(cause)}")
    if stack := message.properties.get(CAUSE_STACK):
        click.echo("stack of the newest")
        click.echo("\n".join(f"  {one_line(line)}" for line in stack.splitlines()))
    print_properties({name: value for name, value in message.properties.items() if name != CAUSE_STACK})
    print_body(message.body)
