"""Notifies people of alarms: each round closes those whose cause is gone, and sends all that are due as one digest.

A channel that fails gets the alarms that it missed later, after increasing pauses; the other channels do not get them
again, unless this process dies in between. Any number of loops may work on one table.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from regulus.client import foreign_calls
from regulus.client.started import Started
from regulus.errors import AlarmUndelivered, ConfigError
from regulus.reliability import alarms, tables
from regulus.reliability.alarm_channels import Channel, Digest
from regulus.reliability.alarms import Alarm
from regulus.reliability.background import read_committed
from regulus.reliability.rounds import Rounds, check_first

_log = logging.getLogger(__name__)

_TAKEN_MAX = 10_000
"""The number of alarms for which the channels that took them are remembered; beyond it some may be sent twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmConfig:
    # Alarms
    interval_ms: int = 30_000
    """[ms] Pause between two digests. More sends fewer and later messages to people."""
    digest_max: int = 1_000
    """[alarms] Most of one digest, which names fewer; the others are in the next one."""
    lease_ms: int = 600_000
    """[ms] How long one process has an alarm to itself. Set it longer than all channels together take, or two processes
    send it."""
    retry_ms: int = 60_000
    """[ms] Pause after a channel failed. It doubles with each further failure."""
    retry_ms_max: int = 3_600_000
    """[ms] Longest such pause."""

    def __post_init__(self) -> None:
        for key, high in (("interval_ms", 3_600_000), ("digest_max", 10_000), ("lease_ms", 86_400_000),
                          ("retry_ms_max", 86_400_000), ("retry_ms", self.retry_ms_max)):
            if not 1 <= getattr(self, key) <= high:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be 1 to {high}")


class Digests:
    """The blocking part, which uses database and channels."""

    def __init__(self, engine: Engine, channels: Sequence[Channel], config: AlarmConfig) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        if not channels:
            raise ConfigError("there is no channel to send alarms by; give LogChannel() at least")
        self._engine = read_committed(engine)
        self._config = config
        self._courses = [_Course(channel, config) for channel in channels]

    def check(self) -> None:
        """Raises ReliabilityRefused when a table is missing or older."""
        with self._engine.connect() as connection:
            tables.check(connection, tables.alarms, tables.stubs, tables.confirmations, tables.watermarks)

    def run(self) -> int:
        """Run one round; returns how many alarms all channels have now."""
        with self._engine.begin() as connection:
            alarms.close_settled(connection)
            due = alarms.claim(connection, self._config.lease_ms, self._config.digest_max)
        if not due:
            return 0
        missed = set().union(*[course.deliver(due) for course in self._courses])
        told = [alarm.alarm_id for alarm in due if alarm.alarm_id not in missed]
        with self._engine.begin() as connection:
            alarms.mark_sent(connection, told)
            if missed:
                rest_ms = min(course.rest_ms for course in self._courses if course.rest_ms)
                alarms.put_back(connection, sorted(missed), rest_ms)
        for course in self._courses:
            course.forget(told)
        return len(told)


class _Course:
    """The alarms that one channel has and others still lack, and its pause after a failure."""

    def __init__(self, channel: Channel, config: AlarmConfig) -> None:
        self._channel = channel
        self._config = config
        self._taken: dict[int, None] = {}       # oldest first
        self._failures = 0
        self._rests_until = 0.0

    @property
    def rest_ms(self) -> int:
        """0 for a channel that works."""
        return max(1, int((self._rests_until - time.monotonic()) * 1000)) if self._failures else 0

    def deliver(self, due: Sequence[Alarm]) -> set[int]:
        """Deliver alarms; returns the ids of those that the channel still lacks."""
        lacking = [alarm for alarm in due if alarm.alarm_id not in self._taken]
        if not lacking:
            return set()
        if time.monotonic() < self._rests_until:
            return {alarm.alarm_id for alarm in lacking}
        # A channel may be the user's own.
        _, error = foreign_calls.call(foreign_calls.run_plain, self._channel.send, Digest(lacking))
        if error is not None:
            self._rest(error, len(lacking))
            return {alarm.alarm_id for alarm in lacking}
        self._failures = 0
        self._remember(lacking)
        return set()

    def forget(self, alarm_ids: Sequence[int]) -> None:
        for alarm_id in alarm_ids:
            self._taken.pop(alarm_id, None)

    def _remember(self, taken: Sequence[Alarm]) -> None:
        self._taken.update(dict.fromkeys(alarm.alarm_id for alarm in taken))
        while len(self._taken) > _TAKEN_MAX:
            del self._taken[next(iter(self._taken))]

    def _rest(self, error: BaseException, count: int) -> None:
        rest_ms = min(self._config.retry_ms << min(self._failures, 32), self._config.retry_ms_max)
        self._failures += 1
        self._rests_until = time.monotonic() + rest_ms / 1000
        why = str(error) if isinstance(error, AlarmUndelivered) else f"{type(error).__name__}: {error}"
        _log.error("%d alarms are not delivered yet; the next attempt is in %d s: %s", count, rest_ms // 1000, why)


class AlarmLoop(Started):
    """Sends the alarms of one database.

        async with AlarmLoop(engine, [MailChannel(...), LogChannel()]):
            await asyncio.Event().wait()

    The engine is a blocking one, whose calls run in threads.
    """

    def __init__(self, engine: Engine, channels: Sequence[Channel], config: AlarmConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        self.config = config or AlarmConfig()
        self._engine = engine
        self._digests = Digests(engine, channels, self.config)
        self._rounds = Rounds("alarms")

    async def start(self) -> None:
        """Raises ReliabilityRefused when a table is missing or older; DatabaseUnanswered, DatabaseRefused."""
        await check_first(self._engine, self._digests.check)
        self._rounds.start(self._send)

    async def shutdown(self) -> None:
        """Finish the current round, and begin no other."""
        await self._rounds.finish()

    async def _send(self) -> None:
        while not self._rounds.stopping.is_set():
            async with self._rounds.round():
                await asyncio.to_thread(self._digests.run)
            await self._rounds.rest(self.config.interval_ms)
