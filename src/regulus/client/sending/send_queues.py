"""Chooses the queue of a send: each in turn, avoiding brokers that failed, were slow, or rest.

`core.fault_isolation` and `core.resend` have the rules; this module adds the clock, random numbers and sleeping.
"""

import asyncio
import random

from regulus.client.config import IsolationStrategy, ProducerConfig
from regulus.client.connecting.client_instance import steady_ms
from regulus.client.core import fault_isolation
from regulus.client.core.fault_isolation import NO_ISOLATION, AttemptOutcome, brokers_to_avoid
from regulus.client.core.queue_selector import RoundRobin
from regulus.client.core.resend import BackOff, refused_pause_ms
from regulus.client.core.routes import Route
from regulus.client.core.send_course import SendCourse
from regulus.errors import Throttled
from regulus.model.message_queue import MessageQueue
from regulus.wire.codes import ResponseCode

_TOPICS_MAX = 1024
"""Topics whose turns are kept and whose routes are kept up to date. A producer that always sends to new topics drops
the oldest ones, and begins at a random queue if it returns to them."""


class SendQueues:
    """The queues of one producer. `turns`: the topics that it sends to; `back_off`: the brokers that rest."""

    def __init__(self, config: ProducerConfig) -> None:
        self._config = config
        self.turns: dict[str, RoundRobin] = {}
        self.back_off = BackOff()
        strategy = config.isolation_strategy
        if strategy is IsolationStrategy.NONE and config.send_latency_fault_enable:
            strategy = IsolationStrategy.LATENCY
        self._isolation = fault_isolation.STRATEGIES[strategy]()

    def turn(self, topic: str) -> RoundRobin:
        """The state of the turns among the topic's queues."""
        turn = self.turns.get(topic)
        if turn is None:
            if len(self.turns) >= _TOPICS_MAX:
                del self.turns[next(iter(self.turns))]
            turn = self.turns[topic] = RoundRobin(random.getrandbits(30))
        return turn

    def choose(self, route: Route, last_broker: str | None) -> MessageQueue:
        """The queue for the next attempt of a send; the last attempt went to `last_broker`."""
        queues = route.publish_queues
        turn = self.turn(route.topic)
        if last_broker is not None and self._config.retry_as_async_send:
            return turn.select([queue for queue in queues if queue.broker_name == last_broker] or queues)
        if last_broker is None and self._isolation is NO_ISOLATION and self.back_off.is_idle:
            return turn.select(queues)
        now = steady_ms()
        tiers = list(self._isolation.tiers(route.brokers, last_broker, now))
        resting = self.back_off.resting(now)
        if resting:
            tiers = [*(tier | resting for tier in tiers), resting, *tiers]
        return turn.select(queues, brokers_to_avoid(queues, tiers))

    def is_better_elsewhere(self, route: Route, broker_name: str, course: SendCourse) -> bool:
        """Whether the broker rests while another one does not, and this send may go there."""
        if self.back_off.is_idle or (self._config.retry_as_async_send and course.last_broker is not None):
            return False
        resting = self.back_off.resting(steady_ms())
        return broker_name in resting and any(queue.broker_name not in resting for queue in route.publish_queues)

    async def rest(self, broker_name: str, course: SendCourse) -> bool:
        """Wait while the broker rests; False when the rest is longer than the time left. Raises Throttled instead when
        the broker rests because it throttles.

        A throttling broker gets no request before its rest is over; a broker that refuses connections may get one, when
        the time of the send ends before the rest.
        """
        now = steady_ms()
        wait, left = self.back_off.wait_ms(broker_name, now), course.left_ms(now)
        if wait == 0:
            return True
        if not self.back_off.throttles(broker_name):
            pause = refused_pause_ms(wait, left, has_tried=bool(course.tried))
            if pause:
                await asyncio.sleep(pause / 1000)
            return pause is not None
        if wait < left:
            await asyncio.sleep(wait / 1000)
            return True
        if course.stored is not None:
            return False
        raise Throttled(f"{broker_name} is busy and rests for {wait} ms, longer than the {left} ms left of the "
                        f"send's time", ResponseCode.SYSTEM_BUSY) from course.failure

    def succeeded(self, broker_name: str, begun_ms: int) -> None:
        """Note that the broker stored the message of an attempt."""
        if self._isolation is not NO_ISOLATION:
            self.report(broker_name, AttemptOutcome.SUCCESS, begun_ms)
        self.back_off.succeeded(broker_name)

    def refused(self, broker_name: str, code: int, begun_ms: int) -> None:
        """Note that the broker answered an attempt with a refusal."""
        self.report(broker_name, AttemptOutcome.BROKER_FAULT, begun_ms)
        if code == ResponseCode.SYSTEM_BUSY and self._config.throttle_back_off:
            self.back_off.throttled(broker_name, begun_ms, random.uniform(-1, 1))

    def report(self, broker_name: str, outcome: AttemptOutcome, begun_ms: int) -> None:
        """Note the outcome of an attempt that began at `begun_ms`."""
        now = steady_ms()
        self._isolation.report(broker_name, outcome, now - begun_ms, now)
