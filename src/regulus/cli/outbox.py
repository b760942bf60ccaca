"""`regulus outbox`: shows the tables of the reliability layer, and changes stubs by hand."""

from typing import TYPE_CHECKING, Any

import click

from regulus.cli.database import operator_name, with_any_database, with_database
from regulus.cli.options import LIMIT
from regulus.cli.output import print_facts, print_json, print_rows, with_output
from regulus.model.wording import counted, time_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from regulus.reliability.outbox_status import OutboxStatus


@click.group()
def outbox() -> None:
    """Look at messages that are committed with the business, and decide by hand."""


@outbox.command()
@with_any_database
def migrate(connection: "Connection") -> None:
    """Make the tables, or bring them up to date."""
    from regulus.reliability.migrations import upgrade

    before, now = upgrade(connection)
    click.echo(f"the tables are at version {now}" + ("" if before in (None, now) else f", from {before}"))


@outbox.command("list")
@click.option("--all", "all_states", is_flag=True, help="Also list stubs that are under way.")
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="At most this many, the oldest first.")
@with_output
@with_database
def list_stubs(connection: "Connection", all_states: bool, limit: int, json_output: bool) -> None:
    """List stubs that wait for a human, oldest first."""
    from regulus.reliability.outbox_table import waiting

    rows = waiting(connection, is_manual=not all_states, limit=limit)
    times: Any = (lambda ms: ms) if json_output else time_text
    print_rows(("id", "topic", "committed", "sends", "due", "manual", "error"),
               [(row.message_id, row.topic, times(row.create_time), row.send_count, times(row.resend_time),
                 bool(row.is_manual), row.last_error or "") for row in rows], json_output=json_output)


@outbox.command("status")
@click.option("--minutes", type=click.IntRange(1, 60 * 24 * 30), default=60, show_default=True,
              help="Count the events of this many minutes, up to now.")
@with_output
@with_database
def show_status(connection: "Connection", minutes: int, json_output: bool) -> None:
    """Show how many stubs are due, wait or are parked, for how long, and what was sent and applied lately."""
    from regulus.reliability.outbox_status import outbox_status

    found = outbox_status(connection, minutes * 60_000)
    if json_output:
        print_json({"windowMs": found.window_ms,
                    **{name: {"count": each.count, "oldestMs": each.oldest_ms} for name, each in _stubs_of(found)},
                    "received": {group: {"count": each.count, "oldestMs": each.oldest_ms}
                                 for group, each in found.received.items()},
                    "stored": found.stored, "failed": found.failed, "applied": found.applied,
                    "notApplied": found.not_applied, "openAlarms": found.open_alarms,
                    "untoldAlarms": found.untold_alarms})
    else:
        print_facts(_in_words(found, minutes))


def _stubs_of(found: "OutboxStatus") -> list[tuple[str, Any]]:
    return [("due", found.due), ("waiting", found.waiting), ("parked", found.parked)]


def _in_words(found: "OutboxStatus", minutes: int) -> list[tuple[str, str]]:
    facts = [(name, _aged(each)) for name, each in _stubs_of(found)]
    facts += [(f"received by {group}", _aged(each)) for group, each in found.received.items()]
    lately = f"in {counted(minutes, 'minute')}"
    facts += [(f"{name} {lately}", f"{count}, {found.a_minute(count):.1f} a minute") for name, count in (
        ("stored", found.stored), ("failed", found.failed), ("applied", found.applied),
        ("not applied", found.not_applied))]
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.open_alarms.items())
    return [*facts, ("open alarms", kinds or "0"), ("alarms not reported yet", str(found.untold_alarms))]


def _aged(each: Any) -> str:
    return f"{each.count}, the oldest for {each.oldest_ms // 1000} s" if each.count else "0"


@outbox.command("alarms")
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="At most this many, the oldest first.")
@with_output
@with_database
def list_alarms(connection: "Connection", limit: int, json_output: bool) -> None:
    """List alarms whose cause still exists, oldest first."""
    from regulus.reliability.alarms import open_alarms

    times: Any = (lambda ms: ms) if json_output else time_text
    print_rows(("raised", "kind", "subject", "detail"),
               [(times(alarm.raise_time), alarm.kind, alarm.subject, alarm.detail)
                for alarm in open_alarms(connection, limit)], json_output=json_output)


@outbox.command()
@click.option("--days", type=click.IntRange(1, 36_500), default=30, show_default=True,
              help="Remove what was done this long ago; keep it as long as a copy may still arrive.")
@with_database
def purge(connection: "Connection", days: int) -> None:
    """Remove stubs that are done, with everything that belongs to them, and alarms that were reported."""
    from regulus.reliability.stub_purge import purge_stubs

    purged = purge_stubs(connection.engine, keep_ms=days * 86_400_000)
    click.echo(f"removed {counted(purged.stubs, 'stub')}, {counted(purged.alarms, 'alarm')} and "
               f"{counted(purged.receipts, 'receipt')}")


def _by_hand(name: str, says: str, help_text: str) -> None:
    @outbox.command(name, help=help_text)
    @click.argument("message_ids", metavar="ID...", nargs=-1, required=True)
    @click.option("--reason", required=True, help="Written down, with the time and who did it.")
    @click.option("--operator", default=operator_name, show_default="the user's name", help="Who does it.")
    @with_database
    def act(connection: "Connection", message_ids: tuple[str, ...], reason: str, operator: str) -> None:
        from regulus.reliability import operator as by_hand

        for message_id in message_ids:
            getattr(by_hand, name)(connection, message_id, operator=operator, reason=reason)
        click.echo(f"{counted(len(message_ids), 'stub')} {says}")


_by_hand("retry", "will be sent again", "Send stubs again from now on, as often as new ones; all or none.")
_by_hand("void", "voided", "Take stubs back: copies of their messages are answered as done; all or none.")
_by_hand("confirm", "confirmed", "Say that the effects of stubs are there; all or none.")
