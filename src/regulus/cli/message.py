"""`regulus message`: sends messages and finds them."""

import sys
from pathlib import Path

import click

from regulus.cli.connection import ComingMoment, Moment, Server, with_admin, with_server
from regulus.cli.group import parse_queue
from regulus.cli.kept import kept
from regulus.cli.options import COUNT, OFFSET, Duration, LocalPath
from regulus.cli.output import print_body, print_facts, print_properties, print_rows, with_output
from regulus.cli.producing import producing
from regulus.client.administration.admin import Admin
from regulus.client.administration.message_admin import FoundMessages
from regulus.errors import ClientError, NoRoute
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_text, offset_message_id
from regulus.model.message_properties import DELAY_TIME_LEVEL, TIMER_DELAY_MS, TIMER_DELIVER_MS
from regulus.model.priority import PRIORITY_MAX
from regulus.model.wording import time_text
from regulus.transport import event_loop
from regulus.wire.codes import ResponseCode

CLI_GROUP = "regulus_cli"


@click.group()
def message() -> None:
    """Send messages and find them."""


message.add_command(kept)


@message.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--file", "path", type=LocalPath(exists=True, dir_okay=False),
              help="The body is a file.")
@click.option("-t", "--tag", default="", help="The message's tag.")
@click.option("-k", "--key", "keys", multiple=True, help="A key to find the message by; may be repeated.")
@click.option("-p", "--property", "properties", multiple=True, metavar="NAME=VALUE")
@click.option("--delay-level", type=click.IntRange(0, 18), default=0, help="1 (1 s) to 18 (2 h).")
@click.option("--delay", type=Duration(), help="Deliver it this long after it was sent: 500ms, 90s, 5m, 36h, 3d.")
@click.option("--deliver-at", type=ComingMoment(), help="Deliver it at this time: 2027-01-31T09:00, or ms since 1970.")
@click.option("--priority", type=click.IntRange(0, PRIORITY_MAX),
              help="The greater the sooner, in a topic of message.type=PRIORITY that is consumed by POP.")
@click.option("--queue", "queue_text", metavar="BROKER/ID", help="Send to this queue.")
@click.option("-c", "--count", type=COUNT, default=1, show_default=True,
              help="Send the message this many times.")
@with_server
def send(server: Server, topic: str, body: str | None, path: Path | None, tag: str, keys: tuple[str, ...],
         properties: tuple[str, ...], delay_level: int, delay: int | None, deliver_at: int | None,
         priority: int | None, queue_text: str | None, count: int) -> None:
    """Send BODY to TOPIC; without BODY, the body is read from standard input."""
    if body is not None and path is not None:
        raise click.UsageError("give BODY or --file, not both")
    if (delay is not None) + (deliver_at is not None) + (delay_level > 0) > 1:
        raise click.UsageError("give one of --delay, --deliver-at and --delay-level")
    content = path.read_bytes() if path else body.encode() if body is not None else sys.stdin.buffer.read()
    named = {}
    for text in properties:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
        named[name] = value
    if delay_level:
        named[DELAY_TIME_LEVEL] = str(delay_level)
    if delay is not None:
        named[TIMER_DELAY_MS] = str(delay)
    if deliver_at is not None:
        named[TIMER_DELIVER_MS] = str(deliver_at)
    if priority is not None and (delay is not None or deliver_at is not None or delay_level):
        raise click.UsageError("give --priority or a delay, not both: a broker keeps the delay alone")
    if priority is not None and queue_text:
        raise click.UsageError("give --priority or --queue, not both: the priority chooses the queue")
    queue = parse_queue(topic, queue_text) if queue_text else None

    async def run() -> None:
        async with producing(server, CLI_GROUP) as producer:
            if queue is not None and queue not in await producer.fetch_publish_message_queues(topic):
                raise NoRoute(f"topic {topic} has no queue {queue_text} to write to")
            for _ in range(count):
                message = Message(topic, content, tag, " ".join(keys), named, priority=priority)
                result = await producer.send(message, queue=queue)
                place = result.message_queue
                click.echo(f"{result.send_status}  {result.message_id}  {place.broker_name}/{place.queue_id} "
                           f"offset {result.queue_offset}"
                           + (f"  recall handle {result.recall_handle}" if result.recall_handle else ""))
    event_loop.run(run())


@message.command()
@click.argument("topic")
@click.argument("recall_handle")
@with_server
def recall(server: Server, topic: str, recall_handle: str) -> None:
    """Take back a delayed message to TOPIC, by the RECALL_HANDLE that `send` shows."""

    async def run() -> None:
        async with producing(server, CLI_GROUP) as producer:
            click.echo(f"{await producer.recall(topic, recall_handle)} will not be delivered")
    event_loop.run(run())


@message.command()
@click.argument("topic")
@click.option("--key", help="Messages that have this key.")
@click.option("--unique-key", help="The message with this unique key, and its copies.")
@click.option("--id", "offset_id", help="The message with this offset id.")
@click.option("--offset", type=OFFSET, help="The message at this place of a queue.")
@click.option("--queue", "queue_text", metavar="BROKER/ID", help="The queue that --offset is for.")
@click.option("--from", "begin", type=Moment(), default=0, help="With --key: stored at or after this time.")
@click.option("--until", "end", type=Moment(), help="With --key: stored at or before this time.")
@click.option("--limit", type=COUNT, default=64, show_default=True,
              help="With --key: this many messages, the newest.")
@with_output
@with_admin
async def query(admin: Admin, topic: str, key: str | None, unique_key: str | None, offset_id: str | None,
                offset: int | None, queue_text: str | None, begin: int, end: int | None, limit: int,
                json_output: bool) -> None:
    """Find messages of TOPIC by key, unique key, id or place."""
    if sum(each is not None for each in (key, unique_key, offset_id, offset)) != 1:
        raise click.UsageError("give one of --key, --unique-key, --id and --offset")
    if key is not None:
        found = await admin.messages_by_key(topic, key, max_num=limit, begin_ms=begin,
                                            end_ms=LONG_MAX if end is None else end)
    elif unique_key is not None:
        found = await admin.messages_by_unique_key(topic, unique_key)
    elif offset_id is not None:
        found = FoundMessages([await admin.message_by_offset_id(offset_id)])
    else:
        assert offset is not None
        found = FoundMessages([await admin.message_at(parse_queue(topic, queue_text), offset)])
    if not found:
        raise (ClientError(found.unreadable_text) if found.unreadable
               else ClientError("no message found", ResponseCode.NO_MESSAGE))
    print_rows(("stored", "queue", "offset", "unique_key", "tag", "keys", "bytes"), [
        (each.store_timestamp if json_output else time_text(each.store_timestamp), each.queue_id, each.queue_offset,
         each.message_id, each.tags, each.keys, len(each.body)) for each in found], json_output=json_output)
    if found.cut and key is not None:
        click.echo(f"these are the newest {len(found)}, and there are older ones: --limit shows more, --until begins "
                   "further back", err=True)
    if found.unreadable:
        raise ClientError(f"this is not all: {found.unreadable_text}")


@message.command()
@click.argument("message_id")
@click.option("--topic", help="Needed to find a message by its unique key.")
@click.option("--body-only", is_flag=True, help="Write the body and nothing else.")
@with_admin
async def view(admin: Admin, message_id: str, topic: str | None, body_only: bool) -> None:
    """Show the message MESSAGE_ID: an offset id or, with --topic, a unique key."""
    found = await admin.view_message(message_id, topic)
    if body_only:
        sys.stdout.buffer.write(found.body)
        return
    print_facts(_facts(found))
    print_properties(found.properties)
    print_body(found.body)


def _facts(found: MessageExt) -> list[tuple[str, object]]:
    return [
        ("topic", found.topic),
        ("offset id", offset_message_id(found.store_host, found.physical_offset)),
        ("unique key", found.message_id),
        ("queue", found.queue_id),
        ("queue offset", found.queue_offset),
        ("physical offset", found.physical_offset),
        ("born", f"{time_text(found.born_timestamp)} at {host_text(found.born_host)}"),
        ("stored", f"{time_text(found.store_timestamp)} at {host_text(found.store_host)}"),
        ("reconsume times", found.reconsume_times),
        ("flag, sys flag", f"{found.flag}, {found.sys_flag}"),
    ]
