"""Checks whether slaves have their master's log, and repairs them as an operator would."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from regulus.errors import StoreDamaged
from regulus.testing.simulation.cluster import SimulatedBroker, first_difference
from regulus.testing.simulation.scene import Scene

_CATCH_UP_MAX_S = 45.0
"""How long a slave may need to reach a new master.

It learns of one from a name server within 10 s, and tries it every 5 s; it notices a link without the other end after
20 s.
"""
_LOOK_S = 0.05


def groups(scene: Scene) -> list[list[SimulatedBroker]]:
    """The brokers of each name."""
    names = {broker.broker_name: None for broker in scene.brokers}
    return [[broker for broker in scene.brokers if broker.broker_name == name] for name in names]


def master_of(group: Sequence[SimulatedBroker]) -> SimulatedBroker:
    (master,) = (broker for broker in group if broker.is_master)
    return master


def slaves_of(group: Sequence[SimulatedBroker]) -> list[SimulatedBroker]:
    return [broker for broker in group if not broker.is_master]


def has_all(slave: SimulatedBroker, master: SimulatedBroker, end: int) -> bool:
    """Whether the slave has the log up to `end` and nothing that its master lacks, and knows the topics, without which
    the messages would not be found."""
    return end <= slave.store.commit_log_max_offset() <= master.store.commit_log_max_offset() \
        and slave.topics() >= master.topics() and first_difference(slave, master) is None


async def catch_up(scene: Scene, slave: SimulatedBroker, master: SimulatedBroker,
                   within_s: float = _CATCH_UP_MAX_S) -> bool:
    """Wait for the slave; returns whether it gets what its master has now."""
    end = master.store.commit_log_max_offset()
    until = scene.loop.now + within_s
    while slave.is_up and master.is_up:
        if has_all(slave, master, end):
            return True
        if scene.loop.now > until:
            return False
        await asyncio.sleep(_LOOK_S)
    return False


def is_told(scene: Scene, slave: SimulatedBroker, master: SimulatedBroker) -> bool:
    """Whether one of the two has reported that there is no copying."""
    return any(who in (slave.name, master.name) and ("is not copied" in text or "is not served" in text)
               for who, text in scene.history.told)


async def bring_together(scene: Scene, slave: SimulatedBroker, master: SimulatedBroker) -> None:
    """Make the slave copy its master, as an operator would.

    If its log is another one, which must have been reported, the log is either cut where the two differ, or the slave
    begins with an empty folder, each in half of the cases.
    """
    if await catch_up(scene, slave, master) or not (slave.is_up and master.is_up):
        return
    if not is_told(scene, slave, master):
        scene.history.unlike.append(f"at {scene.history.now():.3f} {slave.name} does not copy {master.name}, and "
                                    f"nobody says so; the first difference is at {first_difference(slave, master)}")
    await slave.stop()
    scene.trace.say(slave.name, _make_alike(slave, master))
    await slave.start()


def _make_alike(slave: SimulatedBroker, master: SimulatedBroker) -> str:
    if slave.store.commit_log_max_offset() % 2:
        with suppress(StoreDamaged):    # no common record
            return slave.resync(master)
    slave.begin_empty()
    return "is given an empty folder"


async def compare_copies(scene: Scene) -> None:
    """Compare the copies, at the end, when there are no faults."""
    for group in groups(scene):
        master = master_of(group)
        for slave in slaves_of(group):
            await bring_together(scene, slave, master)
            if not await catch_up(scene, slave, master):
                scene.history.unlike.append(
                    f"{slave.name} never came to have the log of {master.name}: it has "
                    f"{slave.store.commit_log_max_offset()} of {master.store.commit_log_max_offset()} bytes, and the "
                    f"first difference is at {first_difference(slave, master)}")
