"""Brings stubs to the broker: a round claims what is due, sends it in batches, and writes down where it is.

Stubs that were never sent, and those that are due again, go by rounds of their own: what stops one part, a lock, a
statement that takes too long, or the pause behind either, is nothing to the other.

A relay that dies leaves what it claimed to any other, once it is due again. What failed is tried again then, too. On
PostgreSQL a commit wakes the relay, elsewhere it looks every `poll_interval_ms`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from regulus.client import shared_loop
from regulus.client.config import ProducerConfig
from regulus.client.send_result import SendResult
from regulus.client.sending.producer import Producer
from regulus.client.shared_loop import Blocking
from regulus.client.started import Started
from regulus.errors import BrokerRefused, ClientError, MessageIllegal
from regulus.reliability import delays
from regulus.reliability.commit_notices import CommitNotices
from regulus.reliability.database_errors import in_one_line, passing
from regulus.reliability.outbox_table import Failure, Position
from regulus.reliability.relay import Claimed, DueStubs, RelayConfig, batches
from regulus.reliability.rounds import Rounds, check_first

_log = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_GROUP = "regulus-relay"
_NAMES_LOGGED_MAX = 20
_DAY_MS = 86_400_000
STORE_TRIES_MAX = 7
STORE_REST_MS = 100
"""Before the second try; twice as long before each that follows: 6.3 s in all."""
FAILURES_TOLD_MS = 60_000
"""At least so long between two lines about sends that failed: while brokers are away, each round has some."""


class Relay(Started):
    """A relay between one database and the brokers of one name server.

        async with Relay(engine, "127.0.0.1:9876"):
            await asyncio.Event().wait()

    The engine is a blocking one, whose calls run in threads. `restarts`: how often one of its two parts died, as when
    the database was away, and began anew. `producer_config` has the keys and the TLS with which it sends.
    """

    def __init__(self, engine: Engine, name_server: str, group: str = DEFAULT_GROUP,
                 config: RelayConfig | None = None, producer_config: ProducerConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        self.config = config or RelayConfig()
        self._engine = engine
        self._stubs = DueStubs(engine, self.config)
        # A claim counts one send: what may be stored is sent again by the next claim, and not by the producer.
        self._producer = Producer(name_server, group, replace(producer_config or ProducerConfig(),
                                                              retry_without_answer=False))
        self._first_sends = Rounds("outbox relay")
        self._resends = Rounds("outbox review")
        self._failures_told = float("-inf")
        self._failures_untold = 0

    @property
    def restarts(self) -> int:
        return self._first_sends.restarts + self._resends.restarts

    async def start(self) -> None:
        """Raises ReliabilityRefused when the table is missing or older; DatabaseUnanswered, DatabaseRefused."""
        await check_first(self._engine, self._stubs.check)
        await self._producer.start()
        self._first_sends.start(self._send_new)
        self._resends.start(self._send_again)

    async def shutdown(self) -> None:
        """Finish the rounds under way, and claim no more."""
        await asyncio.gather(self._first_sends.finish(), self._resends.finish())
        await self._producer.shutdown()

    async def relay_due(self) -> int:
        """One round of each part; how many messages are now at a broker."""
        _, first = await self._relay_new()
        _, again = await self._relay_again()
        return first + again

    async def _relay_new(self) -> tuple[int, int]:
        """How many stubs it dealt with, and how many messages are now at a broker."""
        claimed = await self._taken(self._stubs.claim, lambda claimed: claimed)
        return len(claimed), await self._send_all(claimed)

    async def _relay_again(self) -> tuple[int, int]:
        """As `_relay_new`, with stubs that were sent before."""
        review = await self._taken(self._stubs.review, lambda review: review.claimed)
        self._tell_left(review.left_to_human)
        return review.stubs, await self._send_all(review.claimed)

    async def _taken(self, take: Callable[[], T], claims_of: Callable[[T], Sequence[Claimed]]) -> T:
        """What `take` brings, in a thread, which goes on when the round is cancelled: then nobody would send what it
        claimed, and it is given back."""
        taking = asyncio.ensure_future(asyncio.to_thread(take))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait((taking,))
            if taking.exception() is None:
                await self._give_back(claims_of(taking.result()))
            raise

    async def _give_back(self, claimed: Sequence[Claimed]) -> None:
        try:
            await asyncio.to_thread(self._stubs.give_back, claimed)
        except DBAPIError as error:
            _log.warning("%d messages of the outbox were claimed and not sent, and will be when they are due again: %s",
                         len(claimed), in_one_line(error))

    async def _send_all(self, claimed: Sequence[Claimed]) -> int:
        """One batch that fails in a way of its own is raised when the outcomes of all others are written down."""
        if not claimed:
            return 0
        sent = await self._send_each(batches(claimed))
        outcomes = [each for each in sent if not isinstance(each, BaseException)]
        await self._store(outcomes)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if failures:
            self._tell_failures(failures)
        for each in sent:
            if isinstance(each, BaseException):
                raise each
        return len(outcomes) - len(failures)

    async def _store(self, outcomes: Sequence[Position | Failure]) -> None:
        """A place that is not written down costs a copy, so what may pass is waited for, but not for ever."""
        rest_ms = STORE_REST_MS
        for _ in range(STORE_TRIES_MAX - 1):
            try:
                return await asyncio.to_thread(self._stubs.store, outcomes)
            except DBAPIError as error:
                if (why := passing(error)) is None:
                    raise
                _log.warning("where %d messages of the outbox are is not written down yet: %s; once more in %d ms",
                             len(outcomes), why, rest_ms)
            await asyncio.sleep(rest_ms / 1000)
            rest_ms *= 2
        return await asyncio.to_thread(self._stubs.store, outcomes)

    async def _send_each(self, together: Iterable[Sequence[Claimed]]) -> list[Position | Failure | BaseException]:
        sent = await asyncio.gather(*[self._send(batch) for batch in together], return_exceptions=True)
        return [each for batch in sent for each in ([batch] if isinstance(batch, BaseException) else batch)]

    async def _send_new(self) -> None:
        rounds = self._first_sends
        async with CommitNotices(self._engine) as notices:
            while not rounds.stopping.is_set():
                async with rounds.round():
                    count, _ = await self._relay_new()
                if not count:
                    await notices.wait(rounds.stopping, self.config.poll_interval_ms)

    async def _send_again(self) -> None:
        rounds = self._resends
        while not rounds.stopping.is_set():
            async with rounds.round():
                count, _ = await self._relay_again()
            if not count:
                await rounds.rest(self.config.poll_interval_ms)

    def _tell_failures(self, failures: Sequence[Failure]) -> None:
        self._failures_untold += len(failures)
        now = asyncio.get_running_loop().time()
        if now - self._failures_told >= FAILURES_TOLD_MS / 1000:
            _log.warning("%d messages of the outbox were not sent and will be tried again, one of them %s: %s",
                         self._failures_untold, failures[0].message_id, failures[0].error)
            self._failures_told, self._failures_untold = now, 0

    def _tell_left(self, left: Sequence[str]) -> None:
        if left:
            _log.error("the effects of %d messages are not confirmed after %d sends, or %d days; they are sent no more "
                       "and wait for a human (regulus outbox list): %s%s", len(left), self.config.policy.attempts_max,
                       self.config.policy.age_max_ms // _DAY_MS, ", ".join(left[:_NAMES_LOGGED_MAX]),
                       " ..." if len(left) > _NAMES_LOGGED_MAX else "")

    async def _send(self, batch: Sequence[Claimed]) -> Sequence[Position | Failure | BaseException]:
        """A batch that is refused goes message by message, so that one bad one holds up no others."""
        try:
            if len(batch) == 1:
                return _positions(batch, await self._producer.send(batch[0].message))
            return _positions(batch, await self._producer.send_batch([stub.message for stub in batch]))
        except (BrokerRefused, MessageIllegal) as error:
            if len(batch) > 1:
                return await self._send_each([stub] for stub in batch)
            return _failures(batch, error)
        except ClientError as error:
            return _failures(batch, error)


def _positions(batch: Sequence[Claimed], result: SendResult) -> list[Position | Failure]:
    """The messages of a batch are neighbours in one queue. One that waits at the broker has a place among those that
    wait, of which no watermark says anything."""
    queue = result.message_queue
    return [Position(stub.message_id, stub.send_count, queue.broker_name, queue.queue_id,
                     None if delays.has_delay(stub.message.properties) else result.queue_offset + place,
                     stub.first_send_time)
            for place, stub in enumerate(batch)]


def _failures(batch: Sequence[Claimed], error: ClientError | MessageIllegal) -> list[Position | Failure]:
    return [Failure(stub.message_id, stub.send_count, f"{type(error).__name__}: {error}", stub.first_send_time)
            for stub in batch]


class BlockingRelay(Blocking):
    """The same for programs without an event loop: it works in the thread that all blocking clients share.

        with BlockingRelay(engine, "127.0.0.1:9876"):
            ...
    """

    def __init__(self, engine: Engine, name_server: str, group: str = DEFAULT_GROUP,
                 config: RelayConfig | None = None, producer_config: ProducerConfig | None = None) -> None:
        self._relay = shared_loop.call(lambda: Relay(engine, name_server, group, config, producer_config))

    def start(self) -> None:
        shared_loop.run(self._relay.start())

    def shutdown(self) -> None:
        shared_loop.run(self._relay.shutdown())
