"""`regulus topic`: shows topics and changes them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click

from regulus.cli.connection import Address, with_admin
from regulus.cli.options import COUNT
from regulus.cli.output import (
    pairs_text,
    print_json,
    print_rows,
    print_table,
    reader_gone,
    with_output,
)
from regulus.client.administration.admin import Admin
from regulus.errors import NoRoute
from regulus.model.message import MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import TopicConfig, is_internal
from regulus.model.wording import counted, lines, time_text

DEFAULT_QUEUES = 4
QUEUES = click.IntRange(1, 65535)
_TAIL_SUSPEND_MS = 10_000


@click.group()
def topic() -> None:
    """Look at topics and change them."""


@topic.command("list")
@click.option("--cluster", help="Only topics of this cluster.")
@click.option("--all", "show_all", is_flag=True, help="Also list topics of groups' retries and of the brokers.")
@with_output
@with_admin
async def list_topics(admin: Admin, cluster: str | None, show_all: bool, json_output: bool) -> None:
    """List the topics that name servers know."""
    names = await admin.list_topics(cluster)
    if not show_all:
        info = await admin.cluster_info()
        servers = info.broker_addr_table.keys() | info.cluster_addr_table.keys()    # each has a topic of its name
        names = [name for name in names if not is_internal(name) and name not in servers]
    if json_output:
        print_json(names)
    else:
        for name in names:
            click.echo(name)


@topic.command()
@click.argument("name")
@click.option("-q", "--queues", type=QUEUES, help="Queues to write to and read from.  [of a new topic: 4]")
@click.option("--write-queues", type=QUEUES, help="Queues to write to, while consumers empty the others.")
@click.option("--perm", type=click.Choice(["2", "4", "6"]), help="2: write, 4: read, 6: both.  [of a new topic: 6]")
@click.option("--order/--no-order", default=None, help="The topic is for ordered messages.  [of a new topic: no]")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Such as message.type=FIFO.")
@click.option("--cluster", help="Only on brokers of this cluster.")
@click.option("--broker", "broker_address", type=Address(), metavar="HOST:PORT", help="Only on this broker.")
@click.option("--force", is_flag=True, help="Take queues away that have messages.")
@with_admin
async def create(admin: Admin, name: str, queues: int | None, write_queues: int | None, perm: str | None,
                 order: bool | None, attributes: tuple[str, ...], cluster: str | None, broker_address: str | None,
                 force: bool) -> None:
    """Create topic NAME, or change it if it exists: settings that are not given stay as they are on each broker."""
    named: dict[str, Any] = {"attributes": _pairs(attributes)}
    if queues is not None:
        named |= {"read_queue_nums": queues, "write_queue_nums": queues}
    if write_queues is not None:
        named["write_queue_nums"] = write_queues
    if perm is not None:
        named["perm"] = int(perm)
    if order is not None:
        named["order"] = order
    new = TopicConfig(topic_name=name, read_queue_nums=DEFAULT_QUEUES, write_queue_nums=DEFAULT_QUEUES)
    addresses = [broker_address] if broker_address else await admin.master_addresses(cluster)
    before = {address: (await admin.topic_configs(address)).get(name) for address in addresses}
    after = {address: replace(current or new, **named) for address, current in before.items()}
    fewer = {address: config.read_queue_nums for address, config in after.items()
             if (current := before[address]) is not None and config.read_queue_nums < current.read_queue_nums}
    hidden = await _messages_behind(admin, name, fewer) if fewer else 0
    if hidden and not force:
        raise click.ClickException(
            f"{counted(hidden, 'message')} of topic {name} would be in queues that are not read: lower --write-queues "
            "first and let consumers empty the others, or give --force to leave them there")
    for address, config in after.items():
        await admin.create_topic(config, broker_address=address)
    shown = {(config.read_queue_nums, config.write_queue_nums) for config in after.values()}
    for address, config in after.items() if len(shown) > 1 else [("each broker", next(iter(after.values())))]:
        reads, writes = config.read_queue_nums, config.write_queue_nums
        to_write = "" if reads == writes else f", {writes} to write to,"
        click.echo(f"topic {name} has {counted(reads, 'queue')}{to_write} on {address}")


def _pairs(attributes: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for attribute in attributes:
        key, separator, value = attribute.partition("=")
        if not separator:
            raise click.BadParameter(f"{attribute!r} is not NAME=VALUE", param_hint="--attribute")
        pairs[key] = value
    return pairs


async def _messages_behind(admin: Admin, name: str, queues_left: Mapping[str, int]) -> int:
    """The number of messages in queues that would be taken away, with the number of queues left by broker address. Each
    broker is asked directly, because name servers may know it by another address."""
    tables = [(await admin.topic_stats(name, broker_address=address), left) for address, left in queues_left.items()]
    return sum(offset.max_offset - offset.min_offset for table, left in tables for queue, offset in table.items()
               if queue.queue_id >= left)


@topic.command()
@click.argument("name")
@click.option("--cluster", help="Only from brokers of this cluster.")
@click.confirmation_option("-y", "--yes", prompt="Delete the topic and its messages?")
@with_admin
async def delete(admin: Admin, name: str, cluster: str | None) -> None:
    """Delete topic NAME with its messages."""
    await admin.topic_route(name)    # fails for an unknown topic, whose deletion brokers would answer with success
    await admin.delete_topic(name, cluster=cluster)
    click.echo(f"topic {name} is deleted")


@topic.command()
@click.argument("name")
@with_output
@with_admin
async def route(admin: Admin, name: str, json_output: bool) -> None:
    """Show which brokers serve topic NAME."""
    data = await admin.topic_route(name)
    if json_output:
        print_json(json.loads(data.encode()))
        return
    brokers = {broker.broker_name: broker for broker in data.broker_datas}
    print_table(("BROKER", "CLUSTER", "READ", "WRITE", "PERM", "ADDRESSES"), [
        (row.broker_name, brokers[row.broker_name].cluster or "-", row.read_queue_nums, row.write_queue_nums, row.perm,
         " ".join(f"{number}={address}" for number, address in sorted(brokers[row.broker_name].broker_addrs.items())))
        for row in sorted(data.queue_datas, key=lambda row: row.broker_name) if row.broker_name in brokers])


@topic.command()
@click.argument("name")
@with_output
@with_admin
async def settings(admin: Admin, name: str, json_output: bool) -> None:
    """Show the settings of topic NAME on each broker."""
    rows = []
    for broker_name, address in (await admin.readable_brokers()).items():
        config = (await admin.topic_configs(address)).get(name)
        if config is not None:
            rows.append((broker_name, config.read_queue_nums, config.write_queue_nums, config.perm, config.order,
                         config.attributes if json_output else pairs_text(config.attributes)))
    if not rows:
        raise NoRoute(f"no broker has a topic {name!r}")
    print_rows(("broker", "read", "write", "perm", "order", "attributes"), rows, json_output=json_output)


@topic.command()
@click.argument("name")
@with_output
@with_admin
async def status(admin: Admin, name: str, json_output: bool) -> None:
    """Show first and next offset and last message of each queue of topic NAME."""
    stats = await admin.topic_stats(name)
    rows = [(queue.broker_name, queue.queue_id, offset.min_offset, offset.max_offset,
             offset.max_offset - offset.min_offset, offset.last_update_timestamp)
            for queue, offset in sorted(stats.items())]
    names = ("broker", "queue", "min", "max", "messages", "last")
    if json_output:
        print_rows(names, [(*row[:-1], row[-1] or None) for row in rows], json_output=True)
        return
    print_rows(names, [(*row[:-1], time_text(row[-1])) for row in rows], json_output=False)
    click.echo(counted(sum(row[4] for row in rows), "message"))


@topic.command()
@click.argument("name")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message instead of the next one.")
@click.option("--tag", "expression", default="*", show_default=True, help="Tag expression, such as 'A || B'.")
@click.option("-c", "--count", "count_max", type=COUNT, help="Stop after this many messages.")
@click.option("--no-wait", is_flag=True, help="Stop at the end instead of waiting for more.")
@with_admin
async def tail(admin: Admin, name: str, from_beginning: bool, expression: str, count_max: int | None,
               no_wait: bool) -> None:
    """Print messages of topic NAME as they come. No group's offset is touched."""
    queues = await admin.queues(name)
    shown = 0
    enough = asyncio.Event()

    def show(message: MessageExt) -> None:
        nonlocal shown
        if not enough.is_set():
            print_message(message)
            shown += 1
            if shown == count_max:
                enough.set()

    async def read_all() -> None:
        await asyncio.gather(*(_read_queue(admin, queue, from_beginning, expression, no_wait, show)
                               for queue in queues))

    ends = [asyncio.ensure_future(each) for each in (read_all(), enough.wait(), reader_gone())]
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in ends:
            each.cancel()
        await asyncio.wait(ends)


async def _read_queue(admin: Admin, queue: MessageQueue, from_beginning: bool, expression: str, no_wait: bool,
                      show: Callable[[MessageExt], None]) -> None:
    offset = await (admin.min_offset(queue) if from_beginning else admin.max_offset(queue))
    tags = {tag.strip() for tag in expression.split("||")} - {"*", ""}
    while True:
        pulled = await admin.pull(queue, offset, expression=expression, suspend_ms=0 if no_wait else _TAIL_SUSPEND_MS)
        for message in pulled.messages:
            if not tags or message.tags in tags:
                show(message)
        if no_wait and not pulled.messages and pulled.next_offset >= pulled.max_offset:
            return
        offset = pulled.next_offset


def print_message(message: MessageExt) -> None:
    """Print one line for a message: time, place, id, tag, keys, body."""
    labels = [f"tag={message.tags}" if message.tags else "", f"keys={message.keys}" if message.keys else ""]
    body = message.body.decode("utf-8", "replace")
    place = f"{message.queue_id}/{message.queue_offset}"
    parts = (time_text(message.store_timestamp), place, message.message_id, *labels, body)
    click.echo(lines("  ".join(part for part in parts if part)))
