"""`regulus group`: shows consumer groups and changes them."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click

from regulus.cli.connection import Moment, with_admin
from regulus.cli.options import LIMIT, OFFSET
from regulus.cli.output import pairs_text, print_json, print_rows, print_table, with_output
from regulus.client.administration.admin import Admin
from regulus.client.administration.group_admin import LATEST, GroupProgress
from regulus.client.consuming.running_info import BLOCKED_QUEUES, POPPED, TASKS_RESTARTED
from regulus.client.received_message import PoppedState
from regulus.errors import BrokerRefused, ClientError, NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig
from regulus.model.wording import counted, time_text
from regulus.wire.bodies import ConsumerRunningInfo
from regulus.wire.codes import ResponseCode
from regulus.wire.ext_fields import parse_int


@click.group()
def group() -> None:
    """Look at consumer groups and change them."""


@group.command("list")
@with_output
@with_admin
async def list_groups(admin: Admin, json_output: bool) -> None:
    """List the groups that brokers know, with members and lag."""
    found: list[GroupProgress] = []
    for name in await admin.list_groups():
        found.append(await admin.progress(name))
    rows = [(each.group, each.members, len(each.offsets), each.lag, round(each.consume_tps, 1)) for each in found]
    print_rows(("group", "members", "queues", "lag", "tps"), rows, json_output=json_output)


@group.command()
@click.argument("name")
@click.option("--retry-max-times", type=LIMIT,
              help="How often a message is tried again before it is a dead letter.  [of a new group: 16]")
@click.option("--in-order/--any-order", default=None, help="Who pops, as RocketMQ 5 clients do, gets the messages of a "
              "queue one after another.  [of a new group: any order]")
@click.option("--priority-factor", type=click.IntRange(0, 100),
              help="Percentage of pops that take messages by priority, if the topic has any.  [of a new group: 100]")
@click.option("--cluster", help="Only on brokers of this cluster.")
@with_admin
async def create(admin: Admin, name: str, retry_max_times: int | None, in_order: bool | None,
                 priority_factor: int | None, cluster: str | None) -> None:
    """Create group NAME, or change it if it exists: settings that are not given stay as they are on each broker.
    Brokers create a group by themselves when it first consumes."""
    named: dict[str, Any] = {
        "attributes": {} if priority_factor is None else {"priority.factor": str(priority_factor)}}
    if retry_max_times is not None:
        named["retry_max_times"] = retry_max_times
    if in_order is not None:
        named["consume_message_orderly"] = in_order
    told: dict[str, list[str]] = {}
    for address in await admin.master_addresses(cluster):
        current = (await admin.group_configs(address)).get(name) or SubscriptionGroupConfig(group_name=name)
        config = replace(current, **named)
        await admin.create_group(config, broker_address=address)
        told.setdefault(f"group {name} tries a message again {counted(config.retry_max_times, 'time')}"
                        f"{', and pops in order' if config.consume_message_orderly else ''}", []).append(address)
    for settings, addresses in told.items():
        click.echo(settings if len(told) == 1 else f"{settings}: at {', '.join(addresses)}")


@group.command()
@click.argument("name")
@click.option("--topic", "topic_name", help="Only this topic.")
@with_output
@with_admin
async def progress(admin: Admin, name: str, topic_name: str | None, json_output: bool) -> None:
    """Show how far group NAME is in each queue."""
    found = await admin.progress(name, topic_name)
    if not found.offsets:
        if not found.online:
            await _check_known(admin, name)
        if topic_name is not None:
            await admin.topic_route(topic_name)     # fails for a topic that does not exist, instead of an empty table
    rows = [(queue.topic, queue.broker_name, queue.queue_id, offset.broker_offset, offset.consumer_offset,
             offset.broker_offset - offset.consumer_offset, offset.last_timestamp)
            for queue, offset in sorted(found.offsets.items())]
    names = ("topic", "broker", "queue", "max", "consumed", "lag", "last")
    if json_output:
        print_json({"group": name, "online": found.online, "members": found.members, "lag": found.lag,
                    "tps": found.consume_tps,
                    "queues": [dict(zip(names, (*row[:-1], row[-1] or None), strict=True)) for row in rows]})
        return
    print_rows(names, [(*row[:-1], time_text(row[-1])) for row in rows], json_output=False)
    members = f"{counted(found.members, 'member')} online" if found.online else "no member online"
    click.echo(f"lag {found.lag}, {found.consume_tps:.1f} messages/s, {members}")


@group.command()
@click.argument("name")
@with_output
@with_admin
async def settings(admin: Admin, name: str, json_output: bool) -> None:
    """Show the settings of group NAME on each broker."""
    rows = []
    for broker_name, address in (await admin.readable_brokers()).items():
        config = (await admin.group_configs(address)).get(name)
        if config is not None:
            rows.append((broker_name, config.retry_max_times, config.consume_message_orderly, config.consume_enable,
                         config.which_broker_when_consume_slowly,
                         config.attributes if json_output else pairs_text(config.attributes)))
    if not rows:
        raise ClientError(f"no broker has a group {name!r}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    print_rows(("broker", "retry_max_times", "in_order", "consume_enable", "slow_reads_at", "attributes"), rows,
               json_output=json_output)


@group.command()
@click.argument("name")
@with_output
@with_admin
async def members(admin: Admin, name: str, json_output: bool) -> None:
    """Show the members of group NAME, and their subscriptions."""
    connection = await admin.consumer_connection(name)
    if connection is None:
        raise ClientError(f"no consumer of group {name} is online", ResponseCode.CONSUMER_NOT_ONLINE)
    if json_output:
        print_json(json.loads(connection.encode()))
        return
    print_table(("CLIENT", "ADDRESS", "LANGUAGE", "VERSION"), [
        (each.client_id, each.client_addr, each.language, each.version) for each in connection.connection_set])
    print_table(("TOPIC", "EXPRESSION", "TYPE"), [
        (each.topic, each.sub_string, each.expression_type) for each in connection.subscription_table.values()])


@group.command()
@click.argument("name")
@with_output
@with_admin
async def show(admin: Admin, name: str, json_output: bool) -> None:
    """Show the state of the members of group NAME: queues, cached messages, blocked queues, tasks that died; for
    members that pop, the number of messages in each state. A member that cannot be asked, as over gRPC, has dashes."""
    connection = await admin.consumer_connection(name)
    if connection is None:
        raise ClientError(f"no consumer of group {name} is online", ResponseCode.CONSUMER_NOT_ONLINE)
    rows = [_row_of(each.client_id, await _info_of(admin, name, each.client_id)) for each in connection.connection_set]
    print_rows(_SHOWN, rows, json_output=json_output)


_SHOWN = ("client", "queues", "cached", "blocked", "restarts", *(state.lower() for state in PoppedState))


async def _info_of(admin: Admin, name: str, client_id: str) -> ConsumerRunningInfo | None:
    try:
        return await admin.consumer_running_info(name, client_id)
    except BrokerRefused:
        return None


def _row_of(client_id: str, info: ConsumerRunningInfo | None) -> tuple[object, ...]:
    """One row of `show`. Only our own clients count blocked queues and restarts."""
    if info is None:
        return client_id, *("-" for _ in _SHOWN[1:])
    counts = [int(count) if (count := info.properties.get(key)) is not None else "-"
              for key in (BLOCKED_QUEUES, TASKS_RESTARTED, *(f"{POPPED}{state}" for state in PoppedState))]
    return client_id, len(info.mq_table), sum(each.cached_msg_count for each in info.mq_table.values()), *counts


@group.command()
@click.argument("name")
@click.argument("topic_name", metavar="TOPIC")
@click.option("--to", "where", type=click.Choice(["earliest", "latest"]), help="Both ends of the queues.")
@click.option("--time", "moment", type=Moment(), help="The first message stored at or after this time.")
@click.option("--offset", type=OFFSET, help="This offset, of one queue.")
@click.option("--queue", "queue_text", metavar="BROKER/ID", help="The queue that --offset is for.")
@with_admin
async def reset(admin: Admin, name: str, topic_name: str, where: str | None, moment: int | None, offset: int | None,
                queue_text: str | None) -> None:
    """Let group NAME continue at another place in TOPIC, at once if it is online."""
    if sum(each is not None for each in (where, moment, offset)) != 1:
        raise click.UsageError("give one of --to, --time and --offset")
    if offset is not None:
        queue = parse_queue(topic_name, queue_text)
        if queue not in await admin.queues(topic_name):
            raise NoRoute(f"topic {topic_name} has no queue {queue_text}")
        await _warn_out_of_range(admin, queue, offset)
        await admin.reset_offset(name, queue, offset)
        offsets = {queue: offset}
    else:
        timestamp = moment if moment is not None else LATEST if where == "latest" else 0
        offsets = await admin.reset_offset_by_timestamp(topic_name, name, timestamp)
    print_table(("BROKER", "QUEUE", "OFFSET"), [
        (queue.broker_name, queue.queue_id, each) for queue, each in sorted(offsets.items())])


@group.command()
@click.argument("name")
@click.option("--keep-offsets", is_flag=True, help="A group of the same name continues where this one was.")
@click.confirmation_option("-y", "--yes", prompt="Delete the group with its retry and dead-letter messages?")
@with_admin
async def delete(admin: Admin, name: str, keep_offsets: bool) -> None:
    """Delete group NAME with its retry and dead-letter topics."""
    await _check_known(admin, name)
    await admin.delete_group(name, clean_offset=not keep_offsets)
    click.echo(f"group {name} is deleted")


async def _check_known(admin: Admin, name: str) -> None:
    """Raises ClientError when no broker has the group. Needed because brokers answer for unknown groups, too."""
    for address in (await admin.readable_brokers()).values():
        if name in await admin.group_configs(address):
            return
    raise ClientError(f"no broker has a group {name!r}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)


async def _warn_out_of_range(admin: Admin, queue: MessageQueue, offset: int) -> None:
    first, end = await admin.min_offset(queue), await admin.max_offset(queue)
    if not first <= offset <= end:
        click.echo(f"offset {offset} is out of range: {queue.broker_name}/{queue.queue_id} of {queue.topic} has "
                   f"{first} to {end}, and members continue at the nearer end", err=True)


def parse_queue(topic: str, text: str | None) -> MessageQueue:
    """A queue written as BROKER/ID."""
    broker_name, _, number = (text or "").rpartition("/")
    with suppress(ValueError):
        queue_id = parse_int(number)
        if broker_name and queue_id >= 0:
            return MessageQueue(topic, broker_name, queue_id)
    raise click.UsageError("write the queue as BROKER/ID, such as broker-a/0")
