"""`regulus ledger`: shows the account of a business id, and audits everything that was committed."""

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from regulus.cli.connection import Moment
from regulus.cli.database import EFFECTS_VARIABLE, connected, with_database
from regulus.cli.exit_codes import ExitCode
from regulus.cli.output import print_facts, print_json, print_table, with_output
from regulus.model.java_numbers import LONG_MAX
from regulus.model.wording import time_text

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from regulus.reliability.ledger import Account, Audit

_EFFECTS = click.option("--effects", "effects_address", envvar=EFFECTS_VARIABLE, show_envvar=True, metavar="URL",
                        help="The consumer's database, where it has one of its own.")


class _ByName(click.Group):
    """A group in which a word that is not a command is a business id: `regulus ledger order-7`."""

    def resolve_command(self, ctx: click.Context,
                        args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_ByName)
def ledger() -> None:
    """See what became of committed messages: `regulus ledger ID` for one, `regulus ledger audit` for all."""


@ledger.command()
@click.argument("message_id", metavar="ID")
@_EFFECTS
@with_output
@with_database
def show(connection: "Connection", message_id: str, effects_address: str | None, json_output: bool) -> None:
    """Show what happened to the business id ID: commit, sends, deliveries, effect, and actions by hand."""
    from regulus.reliability.ledger import account

    with connected(effects_address, option="--effects") if effects_address else nullcontext() as effects:
        found = account(connection, message_id, effects)
    if found is None:
        click.echo(f"regulus: the database has no stub {message_id}", err=True)
        raise SystemExit(ExitCode.NOT_FOUND)
    if json_output:
        print_json({"messageId": found.message_id, "topic": found.topic, "status": found.status,
                    "isManual": found.is_manual, "sendCount": found.send_count, "resendTime": found.resend_time_ms,
                    "groups": found.groups, "receivedBy": found.received_by,
                    "entries": [entry._asdict() for entry in found.entries]})
    else:
        _print_account(found)


def _print_account(found: "Account") -> None:
    state = "waits for a human" if found.is_manual else found.status
    facts = [("id", found.message_id), ("topic", found.topic), ("state", state), ("sends", str(found.send_count))]
    facts += [(f"group {group}", status) for group, status in found.groups.items()]
    facts += [("received by", group) for group in found.received_by]
    if found.status == "UNCONFIRMED" and not found.is_manual:
        facts.append(("due again", time_text(found.resend_time_ms)))
    print_facts(facts)
    click.echo()
    print_table(["TIME", "WHAT", "OUTCOME", "GROUP", "NUMBER", "PLACE", "DETAIL"], [
        (time_text(entry.time_ms), entry.what, entry.outcome, entry.consumer_group,
         "" if entry.number is None else entry.number, entry.place, entry.detail) for entry in found.entries])


@ledger.command("audit")
@click.option("--since", type=Moment(), default=0, show_default="all", help="Stubs committed from then on.")
@click.option("--until", type=Moment(), help="Up to and without then.  [default: now]")
@click.option("--kept-days", type=click.IntRange(1, 36_500), default=30, show_default=True,
              help="The --days of `regulus outbox purge`: an effect whose stub it took is not unmade.")
@_EFFECTS
@with_output
@with_database
def audit_all(connection: "Connection", since: int, until: int | None, kept_days: int, effects_address: str | None,
              json_output: bool) -> None:
    """Check that each commit has exactly one effect. Fails with 1 when one is lost, doubled, unmade or has no relay.

    The audit ends where no open transaction can still add a stub, and says where. Begin the next audit there.
    """
    from regulus.reliability.ledger import audit

    with connected(effects_address, option="--effects") if effects_address else nullcontext() as effects:
        found = audit(connection, since, LONG_MAX if until is None else until, effects, keep_ms=kept_days * 86_400_000)
    exceptions = {"parked": found.parked, "overdue": found.overdue, "lost": found.lost, "doubled": found.doubled,
                  "unmade": found.unmade}
    if json_output:
        print_json({"committed": found.committed, "applied": found.applied, "voided": found.voided,
                    "underWay": found.under_way, "until": found.next_since_ms, "isHeldBack": found.is_held_back,
                    "unseen": found.unseen,
                    **{name: {"count": each.count, "ids": each.names} for name, each in exceptions.items()}})
    else:
        _print_audit(found)
    if found.is_held_back and found.next_since_ms is not None:
        click.echo(f"regulus: a transaction has been open since {time_text(found.until_ms)}; the sums include only "
                   f"what is before that: begin the next audit there (--since {found.until_ms})", err=True)
    for what in found.unseen:
        click.echo(f"regulus: not seen: {what}", err=True)
    if found.unseen:
        click.echo("regulus: what was not seen may have been written before this audit's end: begin the next one where "
                   "this one began", err=True)
    if found.lost.count and not effects_address:
        click.echo("regulus: proofs were looked for in this database alone; if a consumer has one of its own, name it "
                   "by --effects", err=True)
    if not found.is_kept:
        raise SystemExit(ExitCode.FAILED)


def _print_audit(found: "Audit") -> None:
    for name in ("parked", "overdue", "lost", "doubled", "unmade"):
        each = getattr(found, name)
        for message_id in each.names:
            click.echo(f"{name}  {message_id}")
        if each.count > len(each.names):
            click.echo(f"{name}  ... and {each.count - len(each.names)} more")
    click.secho(found.verdict(), fg="green" if found.is_kept else "red")
