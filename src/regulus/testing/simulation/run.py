"""The course of one run: who takes part, the rough time and the calm one, and what nobody took."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.errors import RegulusError
from regulus.model.broker_role import BrokerRole
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.testing.simulation import checks
from regulus.testing.simulation.actors import Member, PopMember, Sender, forget_client
from regulus.testing.simulation.cluster import Machines, SimulatedBroker, start_all
from regulus.testing.simulation.copies import compare_copies
from regulus.testing.simulation.history import OPERATOR, GroupFacts
from regulus.testing.simulation.loop import Node, SimulatedTask
from regulus.testing.simulation.scene import Scene, standing
from regulus.testing.simulation.stories import GroupPlan, Story

T = TypeVar("T")

TOPICS = ("TopicA", "TopicB")
RUN_MAX_S = 900.0
_LOOK_S = 2.0
_CALM_MIN_S = 6.0
_TRIES = 20


Fault = Callable[["Run", Random], Awaitable[None]]


class Run(Scene):
    def __init__(self, story: Story, seed: int, machines: Machines, faults: Mapping[str, Fault]) -> None:
        super().__init__(machines)
        self.story = story
        self.seed = seed
        self._faults = faults
        self.history.promises = story.promises
        self.chance = Random(f"{seed} story")
        self.addresses = self.make_name_servers(self.chance.randint(*story.name_servers))
        self.brokers = [
            SimulatedBroker(machines, f"broker-{'abcd'[number]}", number, self.addresses, **story.broker_settings,
                            syncs=self.chance.random() < 0.5 if story.syncs is None else story.syncs, role=story.role)
            for number in range(self.chance.randint(*story.brokers))]
        if story.slaves[1]:
            self._add_slaves()
        self.operating = asyncio.Lock()
        """Held by who has a group of brokers in hand."""
        self.senders: list[Sender] = []
        self.members: list[Member] = []
        self.operator = Node(OPERATOR, "10.5.0.1")
        self.admin = Admin(self.addresses, ClientConfig(client_ip=self.operator.host, instance_name=OPERATOR))
        self._tasks: list[asyncio.Task[None]] = []
        self._plans: dict[str, GroupPlan] = {plan.name: plan for plan in story.groups}

    def _add_slaves(self) -> None:
        for number, master in enumerate(tuple(self.brokers)):
            self.brokers += [SimulatedBroker(self.machines, master.broker_name, number, self.addresses,
                                             **self.story.broker_settings, syncs=master.syncs, replica=replica,
                                             role=BrokerRole.SLAVE)
                             for replica in range(1, 1 + self.chance.randint(*self.story.slaves))]

    # --- the course of things ----------------------------------------------------------------------------------------

    async def main(self) -> None:
        """The story, which must come to its end."""
        course: SimulatedTask[None] = self.loop.make_task(self.loop, self._course())
        await asyncio.wait([course], timeout=RUN_MAX_S)
        if not course.done():
            self.history.broke_off = f"the run stands still in {standing(course)}"
        elif course.exception() is not None:
            self.history.broke_off = f"the run broke off: {course.exception()!r}"

    async def _course(self) -> None:
        await start_all(*self.name_servers)
        await start_all(*self.brokers)
        await self.asked(self.admin.start())
        for topic in self._topics():
            await self.make_topic(topic)
        for plan in self.story.groups:
            if plan.pops and plan.orderly:
                await self.asked(self.admin.create_group(
                    SubscriptionGroupConfig(group_name=plan.name, consume_message_orderly=True)))
        await asyncio.sleep(self.story.head_start_s)
        for plan in self.story.groups:
            self._prepare_group(plan)
        self._begin_senders()
        groups = self.loop.create_task(self._begin_groups())
        await self._rough()
        self.trace.say("-", "all is well from here on")
        await groups
        await self._calm()
        await self._end()

    def _topics(self) -> list[str]:
        return list(TOPICS[:2 if len(self.story.groups) > 1 else 1])

    def queues(self, topic: str) -> list[MessageQueue]:
        """Of a topic as this story makes them."""
        return [MessageQueue(topic, broker.broker_name, number) for broker in self.brokers if broker.is_master
                for number in range(self.story.queues)]

    async def make_topic(self, topic: str) -> None:
        """As an operator does it, who tries until it is done."""
        config = TopicConfig(topic_name=topic, read_queue_nums=self.story.queues, write_queue_nums=self.story.queues)
        for number in range(_TRIES):
            try:
                await self.asked(self.admin.create_topic(config))
                return
            except RegulusError:
                if number == _TRIES - 1:
                    raise
                await asyncio.sleep(0.5)

    def _prepare_group(self, plan: GroupPlan) -> None:
        facts = GroupFacts(plan.name, self._topics(), plan.orderly, plan.broadcasting, plan.max_reconsume_times,
                           plan.suspend_ms, plan.consume_timeout_s, plan.pops, plan.at_once, wanted=plan.wanted)
        self.history.groups[plan.name] = facts

    async def _begin_groups(self) -> None:
        await asyncio.sleep(self.story.groups_begin_s)
        for plan in self.story.groups:
            facts = self.history.groups[plan.name]
            for _ in range(plan.members):
                facts.members.add(self.add_member(facts).name)

    def _begin_senders(self) -> None:
        topics = self.history.groups[self.story.groups[0].name].topics
        for number, plan in enumerate(self.story.sending, 1):
            name = f"p{number}"
            sender = Sender(self.machines, name, f"10.3.0.{number}", self.addresses, topics, plan, self.story.temper,
                            Random(f"{self.seed} {name}"))
            self.senders.append(sender)
            self._tasks.append(self.loop.create_task(sender.run(), context=sender.node.context))

    async def _rough(self) -> None:
        """The faults, each at its time; those that last are over when this returns."""
        begin = self.loop.now
        names = [self.chance.choice(self.story.faults)
                 for _ in range(self.chance.randint(*self.story.faults_count) if self.story.faults else 0)]
        times = sorted(self.chance.uniform(0, min(self.story.rough_s, self.story.faults_until_s)) for _ in names)
        await asyncio.gather(*(self._happen(name, at) for name, at in zip(names, times, strict=True)))
        await asyncio.sleep(max(0.0, begin + self.story.rough_s - self.loop.now))

    async def _happen(self, name: str, at: float) -> None:
        await asyncio.sleep(at)
        self.trace.say("-", name)
        await self._faults[name](self, Random(f"{self.seed} {name} {at}"))

    async def _calm(self) -> None:
        """Until everything is consumed, or the time for it is over."""
        self.network.slowness = 1.0
        self.network.join()
        await start_all(*self.name_servers)
        await start_all(*self.brokers)
        until = self.loop.now + self.story.calm_max_s
        await asyncio.sleep(_CALM_MIN_S)
        while self.loop.now < until:
            self._look_at_logs()
            if all(sender.is_done for sender in self.senders) and not checks.unconsumed(self.history):
                break
            await asyncio.sleep(_LOOK_S)
        await compare_copies(self)

    async def _end(self) -> None:
        self._look_at_logs()
        await asyncio.gather(*(member.leave() for member in self.members))
        for sender, task in zip(self.senders, self._tasks, strict=True):
            sender.node.is_closing = True
            task.cancel()
        await asyncio.wait(self._tasks)
        for sender, task in zip(self.senders, self._tasks, strict=True):
            if not task.cancelled() and task.exception() is not None:
                self.history.fault(f"{sender.name} failed: {task.exception()!r}")
        self.operator.is_closing = True
        await self.asked(self.admin.shutdown())
        await self.stop_servers()

    def _look_at_logs(self) -> None:
        self.history.stored = [each for broker in self.brokers if broker.is_master for each in broker.stored()]

    # --- what faults do ----------------------------------------------------------------------------------------------

    def add_member(self, facts: GroupFacts) -> Member:
        number = len(self.members) + 1
        member = self._member(f"c{number}", f"10.4.0.{number}", facts, Random(f"{self.seed} c{number}"))
        self.members.append(member)
        return member

    def start_again(self, member: Member) -> None:
        """As who it was, in another process on the same host."""
        facts = self.history.groups[member.group]
        self.members[self.members.index(member)] = self._member(
            member.name, member.node.host, facts, Random(f"{self.seed} {member.name} {self.loop.now}"))

    def _member(self, name: str, host: str, facts: GroupFacts, chance: Random) -> Member:
        kind = PopMember if facts.pops else Member
        member = kind(self.machines, name, host, self.addresses, facts, self.story.temper, chance,
                      self._plans[facts.name].settings)
        member.start()
        return member

    def may_lose(self, member: Member) -> bool:
        """Whether it consumes, and its group has another that does and stays."""
        group = member.group
        return member.is_consuming and not member.node.is_closing and any(
            other is not member and other.group == group and other.is_consuming and not other.node.is_closing
            and not other.is_passing
            for other in self.members)

    async def asked(self, question: Coroutine[Any, Any, T]) -> T:
        """What an operator asks, on a machine of his own."""
        return await self.loop.create_task(question, context=self.operator.context)

    def take_leave(self) -> None:
        super().take_leave()
        for member in self.members:
            forget_client(self.machines, member.node)
