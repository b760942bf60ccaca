"""Faults of a cluster and of its clients while they work. Each fault ends in time, and afterwards everything works."""

import asyncio
import time
from collections.abc import Mapping
from random import Random

from regulus.client.core.resend import REFUSED_MAX_MS
from regulus.errors import RegulusError
from regulus.model import sys_flag
from regulus.model.message_queue import MessageQueue
from regulus.model.receipt_handle import retry_topic_v1
from regulus.testing.simulation import group_faults
from regulus.testing.simulation.cluster import BROKER_PORT
from regulus.testing.simulation.history import OPERATOR, SPOILED
from regulus.testing.simulation.loop import START_S
from regulus.testing.simulation.run import Fault, Run
from regulus.testing.simulation.scene import Scene
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand


async def kill_broker(run: Scene, chance: Random) -> None:
    broker = chance.choice(run.brokers)
    if broker.is_up:
        broker.kill()
        await asyncio.sleep(chance.choice((0.3, 1.5, 4.0, 12.0)))
        await broker.start()


async def cut_power(run: Scene, chance: Random) -> None:
    broker = chance.choice(run.brokers)
    if broker.is_up:
        broker.cut_power(chance.randrange(1 << 30))
        await asyncio.sleep(chance.uniform(2, 15))
        await broker.start()


async def short_outage(run: Scene, chance: Random) -> None:
    """A broker is killed, and returns before a send gives up: it is up for longer than the pause of a client."""
    broker = chance.choice(run.brokers)
    if broker.up_for_s > REFUSED_MAX_MS / 1000:
        broker.kill()
        await asyncio.sleep(chance.uniform(0.1, 1.5))
        await broker.start()


async def first_broker_is_gone(run: Scene, chance: Random) -> None:
    """The broker whose name comes first has no power until the end of the faults."""
    if run.brokers[0].is_up:
        run.brokers[0].cut_power(chance.randrange(1 << 30))


async def one_name_server_is_gone(run: Scene, chance: Random) -> None:
    """One name server, and only one, is down until the end of the faults."""
    if all(each.is_up for each in run.name_servers):
        chance.choice(run.name_servers).kill()


async def spoiled_message(run: Run, chance: Random) -> None:
    """A client stores a message that is marked as compressed, and is not."""
    broker = chance.choice([each for each in run.brokers if each.is_up])
    topic = next(iter(run.history.groups.values())).topics[0]
    ext = {"a": "spoiler", "b": topic, "c": "TBW102", "d": "4", "e": str(chance.randrange(run.story.queues)),
           "f": str(sys_flag.COMPRESSED), "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false",
           "m": "false"}
    connection = await run.asked(connect(broker.host, BROKER_PORT))
    await run.asked(connection.request(RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, SPOILED), 3_000))
    run.trace.say(OPERATOR, f"has stored a spoiled message in {broker.name}")
    connection.close()


async def topics_made_anew(run: Run, chance: Random) -> None:
    """An operator deletes topics one after the other, and makes them again."""
    for topic in next(iter(run.history.groups.values())).topics:
        try:
            run.history.begun_anew([*run.queues(topic), *_popped_retries(run, topic)])
            await run.asked(run.admin.delete_topic(topic))
            run.history.deleted(topic)
            run.trace.say(OPERATOR, f"has deleted {topic}")
            await asyncio.sleep(chance.uniform(0.1, 3))
        finally:
            await run.make_topic(topic)
        run.trace.say(OPERATOR, f"has made {topic} anew")


def _popped_retries(run: Run, topic: str) -> list[MessageQueue]:
    """Retry topics of pops, which are deleted with their topic."""
    return [MessageQueue(retry_topic_v1(topic, group.name), broker.broker_name, 0)
            for group in run.history.groups.values() if group.pops for broker in run.brokers if broker.is_master]


async def join_and_reset(run: Run, chance: Random) -> None:
    """While queues change their owners, an operator resets the group."""
    await member_joins(run, chance)
    await asyncio.sleep(chance.uniform(0, 1.0))
    await reset_by_time(run, chance)


async def move_broker(run: Scene, chance: Random) -> None:
    """A broker stops, and returns on another host."""
    broker = chance.choice(run.brokers)
    if broker.is_up:
        broker.kill()
        broker.move()
        await asyncio.sleep(chance.uniform(0.5, 6))
        await broker.start()


async def restart_broker(run: Scene, chance: Random) -> None:
    """An operator restarts a broker."""
    broker = chance.choice(run.brokers)
    if broker.is_up:
        await broker.stop()
        await asyncio.sleep(chance.uniform(0.2, 5))
        await broker.start()


async def kill_name_server(run: Scene, chance: Random) -> None:
    name_server = chance.choice(run.name_servers)
    if name_server.is_up:
        name_server.kill()
        await asyncio.sleep(chance.uniform(0.5, 20))
        await name_server.start()


async def cut_connections(run: Scene, chance: Random) -> None:
    """Some of all open connections end, on both sides."""
    for transport in list(run.network.transports):
        if chance.random() < 0.3:
            run.network.cut(transport)


async def part_hosts(run: Run, chance: Random) -> None:
    """A client can no longer reach a server, without notice to either."""
    servers = [broker.host for broker in run.brokers] + [each.host for each in run.name_servers]
    clients = [member.node.host for member in run.members if member.node.is_alive] + [
        sender.node.host for sender in run.senders]
    one, other = chance.choice(clients), chance.choice(servers)
    run.trace.say("network", f"parts {one} and {other}")
    run.network.part(one, other)
    await asyncio.sleep(chance.choice((0.5, 3.0, 10.0, 25.0)))
    run.trace.say("network", "joins all")
    run.network.join()


async def slow_down(run: Scene, chance: Random) -> None:
    run.network.slowness = chance.choice((5.0, 20.0, 100.0))
    run.trace.say("network", f"is {run.network.slowness:.0f} times as slow")
    await asyncio.sleep(chance.uniform(1, 6))
    run.network.slowness = 1.0


async def clock_jumps(run: Scene, chance: Random) -> None:
    """The clock of a broker is set wrong, and right again."""
    broker = chance.choice(run.brokers)
    ahead_s = chance.choice((-20.0, -3.0, 3.0, 20.0))
    run.trace.say(broker.name, f"has a clock that is {ahead_s:g} s ahead")
    broker.set_clock(ahead_s)
    await asyncio.sleep(chance.uniform(1, 10))
    run.trace.say(broker.name, "has the right time")
    broker.set_clock(0.0)


async def member_joins(run: Run, chance: Random) -> None:
    run.add_member(chance.choice(list(run.history.groups.values())))


async def member_leaves(run: Run, chance: Random) -> None:
    if not run.members:
        return
    member = chance.choice(run.members)
    if run.may_lose(member):
        await member.leave()


async def member_is_killed(run: Run, chance: Random) -> None:
    if not run.members:
        return
    member = chance.choice(run.members)
    if run.may_lose(member):
        member.kill()


async def member_returns(run: Run, chance: Random) -> None:
    """A member leaves or dies, and is started again under the same name."""
    member = chance.choice(run.members or [None])
    if member is None or not member.is_consuming or member.node.is_closing:
        return
    if chance.random() < 0.5:
        member.kill()
    else:
        await member.leave()
    await asyncio.sleep(chance.uniform(0.5, 8))
    run.start_again(member)


async def producer_ends(run: Run, chance: Random) -> None:
    sender = chance.choice(run.senders)
    await run.loop.create_task(sender.end_and_begin_again(chance), context=sender.node.context)


async def member_changes_its_mind(run: Run, chance: Random) -> None:
    """A member joins, and is cancelled whatever it is doing."""
    member = run.add_member(chance.choice(list(run.history.groups.values())))
    member.is_passing = True
    await asyncio.sleep(chance.choice((0.0, 0.000_5, 0.002, 0.005, 0.02, 0.1, 1.0)))
    await member.leave()


async def reset(run: Run, chance: Random) -> None:
    """An operator resets a group in one queue."""
    group = chance.choice([group for group in run.history.groups.values() if not group.broadcasting] or [None])
    if group is None:
        return
    broker = chance.choice(run.brokers)
    topic = chance.choice(group.topics)
    try:
        queue = MessageQueue(topic, broker.name, chance.randrange(run.story.queues))
        end = await run.asked(run.admin.max_offset(queue))
        offset = chance.randrange(end + 1)
        run.trace.say(OPERATOR, f"resets {group.name} in {topic}/{broker.name}/{queue.queue_id} to {offset} of {end}")
        run.history.reset(group.name, queue, offset)
        await run.asked(run.admin.reset_offset(group.name, queue, offset))
    except RegulusError as error:
        run.trace.say(OPERATOR, f"could not reset: {type(error).__name__}")
        run.trace.note(OPERATOR, str(error))


async def reset_by_time(run: Run, chance: Random) -> None:
    """An operator resets a group in all queues of a topic."""
    group = chance.choice([group for group in run.history.groups.values() if not group.broadcasting])
    topic = chance.choice(group.topics)
    at_ms = int((time.time() - chance.uniform(0, run.loop.now - START_S)) * 1000)
    try:
        for queue in await run.asked(run.admin.queues(topic)):
            run.history.reset(group.name, queue, await run.asked(run.admin.search_offset(queue, at_ms)))
        run.trace.say(OPERATOR, f"resets {group.name} in {topic}")
        told = await run.asked(run.admin.reset_offset_by_timestamp(topic, group.name, at_ms))
        run.trace.say(OPERATOR, f"has reset {[f'{_place(queue)} to {told[queue]}' for queue in sorted(told)]}")
    except RegulusError as error:
        run.trace.say(OPERATOR, f"could not reset: {type(error).__name__}")
        run.trace.note(OPERATOR, str(error))


FAULTS: Mapping[str, Fault] = {fault.__name__: fault for fault in (
    kill_broker, cut_power, move_broker, restart_broker, kill_name_server, cut_connections, part_hosts,
    slow_down, member_joins, member_leaves, member_is_killed, member_returns, member_changes_its_mind, reset,
    reset_by_time, short_outage, first_broker_is_gone, one_name_server_is_gone, spoiled_message,
    topics_made_anew, join_and_reset, clock_jumps, producer_ends, *group_faults.FAULTS)}


def _place(queue: MessageQueue) -> str:
    return f"{queue.topic}/{queue.broker_name}/{queue.queue_id}"
