"""Faults of groups of brokers, a master and its slaves, one at a time; and what an operator does then.

Losses that a mode does not rule out are excused here, and only those: see the table in docs/replication.md.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from random import Random

from regulus.model.broker_role import BrokerRole
from regulus.testing.forgetful_disk import SyncPoint
from regulus.testing.simulation.cluster import UNSYNCED_MAX_S, SimulatedBroker
from regulus.testing.simulation.copies import bring_together, catch_up, groups, master_of, slaves_of
from regulus.testing.simulation.run import Run

_SEEDS = 1 << 30
_DISK_FAILED = os.strerror(errno.EIO)


def _group(run: Run, chance: Random) -> list[SimulatedBroker] | None:
    """A group that is whole: its slaves have what its master has. Losing a second copy meanwhile would lose
    everything."""
    group = chance.choice(groups(run))
    return group if all(broker.is_up for broker in group) else None


async def _is_whole(run: Run, group: list[SimulatedBroker]) -> bool:
    master = master_of(group)
    return all([await catch_up(run, slave, master) for slave in slaves_of(group)])


async def _heal(run: Run, group: list[SimulatedBroker]) -> None:
    for slave in slaves_of(group):
        await bring_together(run, slave, master_of(group))


async def master_is_killed(run: Run, chance: Random) -> None:
    """The master is killed, and returns in its role."""
    async with run.operating:
        group = _group(run, chance)
        if group is not None:
            master = master_of(group)
            master.kill()
            await asyncio.sleep(chance.choice((0.3, 1.5, 6.0)))
            await master.start()
            await _heal(run, group)


async def slave_is_away(run: Run, chance: Random) -> None:
    """A slave is killed, stopped or without power for a while."""
    async with run.operating:
        group = _group(run, chance)
        if group is None:
            return
        slave = chance.choice(slaves_of(group))
        await _end(slave, chance)
        await asyncio.sleep(chance.choice((0.3, 1.5, 6.0)))
        await slave.start()
        await _heal(run, group)


async def master_loses_power(run: Run, chance: Random) -> None:
    """The master loses power, and returns in its role with what its disk has."""
    async with run.operating:
        group = _group(run, chance)
        if group is not None:
            await _lose_power(run, chance, group, [master_of(group)])


async def all_lose_power(run: Run, chance: Random) -> None:
    """All brokers of one group lose power at the same moment; if they sync, a slave may continue as the master."""
    async with run.operating:
        group = _group(run, chance)
        if group is None or not await _is_whole(run, group):
            return
        old = master_of(group)
        if not old.syncs or chance.random() < 0.5:
            await _lose_power(run, chance, group, group)
            return
        whole_s, ends = run.history.now(), _visible_ends(old)
        for slave in slaves_of(group):
            slave.slow_disk(500.0)
        await asyncio.sleep(chance.uniform(0, 2))
        for broker in group:
            broker.cut_power(chance.randrange(_SEEDS))
        for slave in slaves_of(group):
            await slave.start()
        await _promote(run, group, old, whole_s, ends)
        await old.start()
        await _heal(run, group)


async def _lose_power(run: Run, chance: Random, group: list[SimulatedBroker], losers: list[SimulatedBroker],
                      well_until_s: float | None = None) -> None:
    """`well_until_s`: when the disks last worked; None: they work."""
    master = master_of(group)
    if not master.syncs:
        master.excuse((run.history.now() if well_until_s is None else well_until_s) - UNSYNCED_MAX_S)
    for broker in losers:
        broker.cut_power(chance.randrange(_SEEDS))
    await asyncio.sleep(chance.uniform(1, 6))
    for broker in losers:
        await broker.start()
    await _heal(run, group)


async def promotion(run: Run, chance: Random) -> None:
    """The master is down; an operator makes the slave with the longest log the master, and the old one its slave. Often
    the slaves receive nothing for a while before that."""
    async with run.operating:
        group = _group(run, chance)
        if group is None or not await _is_whole(run, group):
            return
        whole_s = run.history.now()
        old = master_of(group)
        if chance.random() < 0.5:
            for slave in slaves_of(group):
                run.network.part(old.host, slave.host, is_one_way=True)
        await asyncio.sleep(chance.uniform(0, 2.5))
        ends = _visible_ends(old)
        await _end(old, chance)
        run.network.join()
        await asyncio.sleep(chance.uniform(0.2, 3))
        await _promote(run, group, old, whole_s, ends)
        await asyncio.sleep(chance.uniform(0, 2))
        if chance.random() < 0.5 and old.store.commit_log_max_offset() < old.store.config.mapped_file_size_commit_log:
            old.begin_empty()
        await old.start()
        await _heal(run, group)


async def _promote(run: Run, group: list[SimulatedBroker], old: SimulatedBroker, whole_s: float,
                   ends: dict[tuple[str, int], int]) -> None:
    new = max(slaves_of(group), key=lambda slave: slave.store.commit_log_max_offset())
    await new.stop()
    new.become(old.role)
    if old.role is BrokerRole.ASYNC_MASTER:
        old.excuse(whole_s)
    old.become(BrokerRole.SLAVE)
    run.trace.say(new.name, "is made the master")
    await new.start()
    if any(new.store.max_offset(*queue) < end for queue, end in ends.items()):
        run.history.lost_tails.add(new.broker_name)


def _visible_ends(master: SimulatedBroker) -> dict[tuple[str, int], int]:
    return {queue: master.store.max_offset(*queue) for queue in master.store.queues()}


async def _end(broker: SimulatedBroker, chance: Random) -> None:
    match chance.choice(("kill", "stop", "power")):
        case "kill":
            broker.kill()
        case "stop":
            await broker.stop()
        case _:
            broker.cut_power(chance.randrange(_SEEDS))


async def link_is_parted(run: Run, chance: Random) -> None:
    """No bytes pass in one direction, in the other, or in both, without notice."""
    async with run.operating:
        group = _group(run, chance)
        if group is None:
            return
        ends = [master_of(group).host, chance.choice(slaves_of(group)).host]
        chance.shuffle(ends)
        run.trace.say("network", f"parts {ends[0]} and {ends[1]}")
        run.network.part(*ends, is_one_way=chance.random() < 0.7)
        await asyncio.sleep(chance.choice((0.5, 3.0, 10.0, 25.0)))
        run.trace.say("network", "joins all")
        run.network.join()
        await _heal(run, group)


async def disk_is_slow(run: Run, chance: Random) -> None:
    """The disk of one broker is slow: a sync takes up to seconds."""
    broker = chance.choice(run.brokers)
    async with run.operating:
        broker.slow_disk(chance.choice((20.0, 500.0, 2_000.0)))
        await asyncio.sleep(chance.uniform(1, 6))
        broker.slow_disk(1.0)


async def disk_fails(run: Run, chance: Random) -> None:
    """The disk of one broker fails at a sync of its log; its machine is replaced, and has what the disk has."""
    async with run.operating:
        group = _group(run, chance)
        disk = run.machines.disk
        if group is None or disk is None:
            return
        broker = chance.choice(group)
        run.history.expected.append(_DISK_FAILED)

        def fails(point: SyncPoint) -> bool:
            return "commitlog" in str(point.path) and broker.has_root(point.path)

        begin_s = run.history.now()
        disk.fails = fails
        run.trace.say(broker.name, "has a disk that fails")
        await asyncio.sleep(chance.uniform(1, 4))
        disk.fails = None
        if broker.is_master:
            await _lose_power(run, chance, group, [broker], begin_s)
            return
        broker.cut_power(chance.randrange(_SEEDS))
        await broker.start()
        await _heal(run, group)


FAULTS: tuple[Callable[[Run, Random], Awaitable[None]], ...] = (
    master_is_killed, slave_is_away, master_loses_power, all_lose_power, promotion, link_is_parted, disk_is_slow,
    disk_fails)
