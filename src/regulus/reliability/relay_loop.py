"""Brings stubs to the broker: a round claims what is due, sends it in batches, and writes down where it is.

A relay that dies leaves what it claimed to any other, once it is due again. What failed is tried again then, too. On
PostgreSQL a commit wakes the relay, elsewhere it looks every `poll_interval_ms`.
"""

import asyncio
import logging
from collections.abc import Sequence

from sqlalchemy import Engine

from regulus.client import shared_loop
from regulus.client.producer import Producer
from regulus.client.send_result import SendResult
from regulus.client.shared_loop import Blocking
from regulus.client.started import Started
from regulus.errors import BrokerRefused, ClientError, MessageIllegal
from regulus.reliability import delays
from regulus.reliability.commit_notices import CommitNotices
from regulus.reliability.outbox_table import Failure, Position
from regulus.reliability.relay import Claimed, DueStubs, RelayConfig, batches
from regulus.reliability.rounds import Rounds, check_first

_log = logging.getLogger(__name__)

DEFAULT_GROUP = "regulus-relay"
_NAMES_LOGGED_MAX = 20
_DAY_MS = 86_400_000
FAILURES_TOLD_MS = 60_000
"""At least so long between two lines about sends that failed: while brokers are away, each round has some."""


class Relay(Started):
    """A relay between one database and the brokers of one name server.

        async with Relay(engine, "127.0.0.1:9876"):
            await asyncio.Event().wait()

    The engine is a blocking one, whose calls run in threads. `restarts`: how often the loop died, as when the database
    was away, and began anew.
    """

    def __init__(self, engine: Engine, name_server: str, group: str = DEFAULT_GROUP,
                 config: RelayConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        self.config = config or RelayConfig()
        self._engine = engine
        self._stubs = DueStubs(engine, self.config)
        self._producer = Producer(name_server, group)
        self._rounds = Rounds("outbox relay")
        self._reviewed = float("-inf")
        self._failures_told = float("-inf")
        self._failures_untold = 0

    @property
    def restarts(self) -> int:
        return self._rounds.restarts

    async def start(self) -> None:
        """Raises ReliabilityRefused when the table is missing or older; DatabaseUnanswered, DatabaseRefused."""
        await check_first(self._engine, self._stubs.check)
        await self._producer.start()
        self._rounds.start(self._relay)

    async def shutdown(self) -> None:
        """Finish the round under way, and claim no more."""
        await self._rounds.finish()
        await self._producer.shutdown()

    async def relay_due(self) -> int:
        """One round; how many messages are now at a broker."""
        _, sent = await self._relay_due()
        return sent

    async def _relay_due(self) -> tuple[int, int]:
        """How many stubs it dealt with, and how many messages are now at a broker."""
        claimed = await asyncio.to_thread(self._stubs.claim)
        count = len(claimed)
        if count < self.config.batch_max or self._is_review_due():
            self._reviewed = asyncio.get_running_loop().time()
            review = await asyncio.to_thread(self._stubs.review)
            count += review.stubs
            claimed = claimed + review.claimed
            self._tell_left(review.left_to_human)
        return count, await self._send_all(claimed) if claimed else 0

    def _is_review_due(self) -> bool:
        """New stubs without end keep no other from being sent again."""
        return asyncio.get_running_loop().time() - self._reviewed >= self.config.poll_interval_ms / 1000

    async def _send_all(self, claimed: Sequence[Claimed]) -> int:
        sent = await asyncio.gather(*[self._send(batch) for batch in batches(claimed)])
        outcomes = [outcome for batch in sent for outcome in batch]
        await asyncio.to_thread(self._stubs.store, outcomes)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if failures:
            self._tell_failures(failures)
        return len(outcomes) - len(failures)

    async def _relay(self) -> None:
        async with CommitNotices(self._engine) as notices:
            while not self._rounds.stopping.is_set():
                async with self._rounds.round():
                    count, _ = await self._relay_due()
                if not count:
                    await notices.wait(self._rounds.stopping, self.config.poll_interval_ms)

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

    async def _send(self, batch: Sequence[Claimed]) -> list[Position | Failure]:
        """A batch that is refused goes message by message, so that one bad one holds up no others."""
        try:
            if len(batch) == 1:
                return _positions(batch, await self._producer.send(batch[0].message))
            return _positions(batch, await self._producer.send_batch([stub.message for stub in batch]))
        except (BrokerRefused, MessageIllegal) as error:
            if len(batch) > 1:
                alone = await asyncio.gather(*[self._send([stub]) for stub in batch])
                return [outcome for outcomes in alone for outcome in outcomes]
            return _failures(batch, error)
        except ClientError as error:
            return _failures(batch, error)


def _positions(batch: Sequence[Claimed], result: SendResult) -> list[Position | Failure]:
    """The messages of a batch are neighbours in one queue. One that waits at the broker has a place among those that
    wait, of which no watermark says anything."""
    queue = result.message_queue
    return [Position(stub.message_id, stub.send_count, queue.broker_name, queue.queue_id,
                     None if delays.has_delay(stub.message.properties) else result.queue_offset + place)
            for place, stub in enumerate(batch)]


def _failures(batch: Sequence[Claimed], error: ClientError | MessageIllegal) -> list[Position | Failure]:
    return [Failure(stub.message_id, stub.send_count, f"{type(error).__name__}: {error}") for stub in batch]


class BlockingRelay(Blocking):
    """The same for programs without an event loop: it works in the thread that all blocking clients share.

        with BlockingRelay(engine, "127.0.0.1:9876"):
            ...
    """

    def __init__(self, engine: Engine, name_server: str, group: str = DEFAULT_GROUP,
                 config: RelayConfig | None = None) -> None:
        self._relay = shared_loop.call(lambda: Relay(engine, name_server, group, config))

    def start(self) -> None:
        shared_loop.run(self._relay.start())

    def shutdown(self) -> None:
        shared_loop.run(self._relay.shutdown())
