"""`regulus dead`: shows dead letters, and sends them again."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import click

from regulus.cli.connection import Server, with_admin, with_server
from regulus.cli.dead_text import GROUPINGS, Groups, letter_json, print_letter, where
from regulus.cli.options import COUNT, LIMIT, Finite, LocalPath, names
from regulus.cli.output import print_facts, print_json, print_rows, print_table, with_output
from regulus.cli.producing import producing
from regulus.client.administration.admin import Admin
from regulus.client.administration.dead_letter_list import summaries
from regulus.client.administration.dead_letter_sends import (
    CANARY_WAIT_MS,
    PRODUCER_GROUP,
    Pace,
    Redrive,
    RedriveReport,
)
from regulus.client.administration.dead_letters import (
    IsWanted,
    RedrivePlan,
    RedriveWish,
    letter_of,
    letter_ranges,
    letters_in,
    planned,
    status_of,
)
from regulus.client.administration.expected_brokers import broker_names
from regulus.client.connecting.client_instance import now_ms
from regulus.errors import ClientError, JobRefused
from regulus.model.topics import dlq_topic
from regulus.model.wording import counted, time_text
from regulus.transport import event_loop
from regulus.wire.codes import ResponseCode

BODY_SIZE_MAX = 0x7FFFFFFF
"""No limit on the body: a broker accepted the message before."""

_WHERE_HELP = ("A condition in RocketMQ's SQL92 over the properties and: topic, keys, tags, cause, reconsume_times, "
               "age_ms.")


@click.group()
def dead() -> None:
    """See dead letters: why they failed, and what became of them. Send them again, each once."""


def _where_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--where", "wanted", metavar="SQL", callback=where, help=_WHERE_HELP)(command)


@dead.command("list")
@with_output
@with_admin
async def list_groups(admin: Admin, json_output: bool) -> None:
    """List the groups that have dead letters."""
    rows = []
    for each in await summaries(admin, now_ms()):
        times = (each.oldest_ms, each.newest_ms, each.expires_ms)
        topics: Any = list(each.topics) if json_output else ", ".join(each.topics) or "-"
        rows.append((each.group, each.count, each.last_hour, topics,
                     *(times if json_output else (time_text(ms or 0) for ms in times))))
    print_rows(("group", "letters", "last_hour", "topics", "oldest", "newest", "expires"), rows,
               json_output=json_output)


@dead.command()
@click.argument("group")
@click.option("--group-by", type=click.Choice(list(GROUPINGS)), help="Count the letters by this.")
@_where_option
@click.option("--limit", type=LIMIT, default=50, show_default=True, help="At most this many rows.")
@with_output
@with_admin
async def show(admin: Admin, group: str, group_by: str | None, wanted: IsWanted, limit: int,
               json_output: bool) -> None:
    """Show the dead letters of GROUP, the oldest first, or count them by --group-by, with an example of each."""
    letters = (letter async for letter in letters_in(admin, group, await letter_ranges(admin, group))
               if wanted(letter))
    time: Any = (lambda ms: ms) if json_output else time_text
    if group_by is not None:
        groups = Groups(GROUPINGS[group_by])
        async for letter in letters:
            groups.add(letter)
        rows = [(each.name, each.count, time(each.oldest_ms), time(each.newest_ms), each.example)
                for each in groups.largest(limit)]
        print_rows((group_by, "letters", "oldest", "newest", "example"), rows, json_output=json_output)
        if groups.count > limit:
            click.echo(f"these are {limit} of {groups.count}: --limit shows more", err=True)
        return
    found: list[tuple[object, ...]] = []
    is_cut = False
    async for letter in letters:
        if len(found) == limit:
            is_cut = True
            break
        message = letter.message
        found.append((letter.message_id, time(message.store_timestamp), letter.origin, message.tags, message.keys,
                      message.reconsume_times, letter.cause))
    print_rows(("id", "stored", "topic", "tags", "keys", "tries", "cause"), found, json_output=json_output)
    if is_cut:
        click.echo(f"these are the oldest {limit}, and there are more: --limit shows them", err=True)


@dead.command()
@click.argument("group")
@_where_option
@click.option("--rate", type=Finite(min=0.01), help="At most this many messages a second.")
@click.option("--canary", type=LIMIT, default=0, metavar="N",
              help="Send N first, and the others only if the group consumes these and none comes back.")
@click.option("--canary-wait", type=click.IntRange(1, 3600), default=CANARY_WAIT_MS // 1000, show_default=True,
              metavar="SECONDS", help="How long the group may take to consume these.")
@click.option("--cap", type=COUNT, help="Send at most this many, the oldest first.")
@click.option("--to-topic", help="Send to this topic instead of to those from which the letters came.")
@click.option("--brokers", callback=names, metavar="NAME,...",
              help="All brokers that exist: what is at one that is away would be sent again.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and send nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@with_output
@with_server
def redrive(server: Server, group: str, wanted: IsWanted, rate: float | None, canary: int, canary_wait: int,
            cap: int | None, to_topic: str | None, brokers: tuple[str, ...], dry_run: bool, yes: bool,
            json_output: bool) -> None:
    """Send the dead letters of GROUP to the topics from which they came, each once, also after an interruption."""
    pace = Pace(rate=rate, canary=canary, canary_wait_ms=canary_wait * 1000)
    wish = RedriveWish(group=group, is_wanted=wanted, to_topic=to_topic, cap=cap, brokers=brokers)

    plan = event_loop.run(_planned(server, wish, must_be_said=yes and not dry_run, is_for_sending=not dry_run))
    if dry_run:
        _print_plan(plan, json_output)
        return
    if plan.to_send and not yes:
        _ask(plan, are_brokers_said=bool(brokers))
    event_loop.run(_carried_out(server, plan, pace, json_output, is_late=not yes))


async def _planned(server: Server, wish: RedriveWish, *, must_be_said: bool, is_for_sending: bool) -> RedrivePlan:
    """The plan; for sending, of a wish that says which brokers there are. Raises JobRefused when the user must say
    that and did not."""
    async with Admin(server.name_server, server.client_config()) as admin:
        if not wish.brokers and is_for_sending:
            there = sorted(broker_names(await admin.cluster_info()))
            if must_be_said:
                raise JobRefused("say which brokers exist, as what is at one that is away would be sent again; if no "
                                 f"other exists, write --brokers {','.join(there)}")
            wish = replace(wish, brokers=tuple(there))
        return await planned(admin, wish)


def _ask(plan: RedrivePlan, *, are_brokers_said: bool) -> None:
    """Raises click.Abort for a no."""
    click.echo(plan.sentence(), err=True)
    where_to = ", ".join(f"{count} to {topic}" for topic, count in plan.by_topic().items())
    if not are_brokers_said:
        click.echo(f"These must be all brokers that exist: {', '.join(plan.brokers)}. What is at another one would be "
                   "sent again.", err=True)
    click.confirm(f"Send {counted(len(plan.to_send), 'message')} ({where_to})?", abort=True, err=True)


async def _carried_out(server: Server, plan: RedrivePlan, pace: Pace, json_output: bool, *, is_late: bool) -> None:
    """Send what is planned, and print the report, also when it ends early. `is_late`: the user took time to answer.
    Raises ClientError when not all was sent."""
    async with Admin(server.name_server, server.client_config()) as admin, producing(
            server, PRODUCER_GROUP, max_message_size=BODY_SIZE_MAX) as producer:
        if is_late and plan.to_send:
            plan.narrow(await planned(admin, plan.wish))
        redrive = Redrive(admin, plan, pace, lambda text: click.echo(text, err=True))
        report = redrive.report
        try:
            await redrive.run(producer)
        except (asyncio.CancelledError, ClientError) as error:
            report.stopped = report.stopped or str(error)
            _print_report(report, json_output)
            raise
    _print_report(report, json_output)
    if not report.is_whole:
        raise ClientError("not all letters were sent; the same command sends the others, once the cause is gone")


def _print_plan(plan: RedrivePlan, json_output: bool) -> None:
    rows = [(topic or "-", status, count) for (topic, status), count in sorted(plan.counts.items())]
    columns = ("id", "topic", "tags", "keys", "status", "cause")
    samples = [(letter.message_id, letter.origin, letter.message.tags, letter.message.keys, status, letter.cause)
               for letter, status in plan.samples]
    if json_output:
        print_json({"counts": [dict(zip(("topic", "status", "letters"), row, strict=True)) for row in rows],
                    "brokers": list(plan.brokers),
                    "samples": [dict(zip(columns, row, strict=True)) for row in samples]})
        return
    print_table(("TOPIC", "STATUS", "LETTERS"), rows)
    print_table([name.upper() for name in columns], samples)
    click.echo(plan.sentence())


def _print_report(report: RedriveReport, json_output: bool) -> None:
    if json_output:
        print_json({"counts": report.by_status(), "left": report.left, "stopped": report.stopped or None,
                    "brokers": list(report.plan.brokers),
                    "problems": [{"place": place, "reason": reason} for place, reason in report.problems]})
        return
    for place, reason in report.problems:
        click.echo(f"{place}: {reason}", err=True)
    click.echo(report.sentence())


@dead.command()
@click.argument("group")
@with_output
@with_admin
async def status(admin: Admin, group: str, json_output: bool) -> None:
    """Show what became of the dead letters of GROUP: sent again, left, dead once more."""
    found = await status_of(admin, group)
    facts = (("letters", found.letters), ("sent again", found.sent_again), ("left", found.left),
             ("dead once more", found.again))
    if json_output:
        print_json({"group": group, **{name.replace(" ", "_"): count for name, count in facts}})
        return
    print_facts(facts)


@dead.command()
@click.argument("group")
@click.argument("path", metavar="FILE", type=LocalPath(dir_okay=False))
@_where_option
@with_output
@with_admin
async def export(admin: Admin, group: str, path: Path, wanted: IsWanted, json_output: bool) -> None:
    """Write the dead letters of GROUP to FILE, one line of JSON each. FILE must not exist."""
    ranges = await letter_ranges(admin, group)
    with _new_file(path) as file:
        count = 0
        async for letter in letters_in(admin, group, ranges):
            if wanted(letter):
                file.write(json.dumps(letter_json(letter), ensure_ascii=False) + "\n")
                count += 1
    if json_output:
        print_json({"file": str(path), "letters": count})
    else:
        click.echo(f"{counted(count, 'letter')} written to {path}")


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """A file that did not exist, and is removed when not everything could be written: it would be taken for whole."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists and is not overwritten") from error
    is_whole = False
    try:
        with file:
            yield file
        is_whole = True
    finally:
        if not is_whole:
            path.unlink()


@dead.command()
@click.argument("group")
@click.argument("message_id", metavar="ID")
@with_output
@with_admin
async def debug(admin: Admin, group: str, message_id: str, json_output: bool) -> None:
    """Show one dead letter of GROUP in full, by its ID from `dead show`, or by its unique key."""
    found = await admin.view_message(message_id, dlq_topic(group))
    if found.topic != dlq_topic(group):
        raise ClientError(f"message {message_id} is of topic {found.topic}, no dead letter of group {group}",
                          ResponseCode.NO_MESSAGE)
    letter = letter_of(found, group)
    if json_output:
        print_json(letter_json(letter))
    else:
        print_letter(letter)
