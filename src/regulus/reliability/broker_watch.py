"""What brokers know of consuming groups, written down where the rules of resends and people look.

    watermark       a group's stored offset in each queue, for consumers whose receipts are in a database of their own
    DEAD_LETTERS    alarm: a group's dead letters grow
    BLOCKED_QUEUE   alarm: queues of a group stand still at a message that fails again and again, or cannot be read

Retry topics move no watermark. A queue that ends before it was made anew, or lost its end: the watermark begins anew,
and the places of stubs behind the end are forgotten, for their messages are gone.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, Engine

from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.client.consuming.running_info import BLOCKED_QUEUES
from regulus.client.started import Started
from regulus.errors import ClientError, ConfigError, NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import RETRY_PREFIX, dlq_topic
from regulus.reliability import delivery_log, outbox_table, tables
from regulus.reliability.alarms import AlarmKind, close_alarm, raise_alarm
from regulus.reliability.background import read_committed
from regulus.reliability.delivery_log import MadeAnew
from regulus.reliability.rounds import Rounds, check_first
from regulus.wire.bodies import ConsumerRunningInfo

_log = logging.getLogger(__name__)

MEMBERS_MAX = 100
"""Members of a group that are asked for blocked queues."""
QUIET_ROUNDS = 10
"""Dead letters that have not grown for so many looks are no alarm any more; the next one is."""


class BrokerWatch(Started):
    """Looks at some groups again and again, beside the relay; `engine` is of the stubs' database, and a blocking one.

        async with BrokerWatch(engine, "127.0.0.1:9876", ["billing"]):
            await asyncio.Event().wait()

    `client_config` has the keys and the TLS with which it asks.
    """

    def __init__(self, engine: Engine, name_server: str, groups: Sequence[str], interval_ms: int = 30_000,
                 client_config: ClientConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        if isinstance(groups, str) or not groups:
            raise ConfigError("groups is empty or one text; give a list of consuming groups")
        if not 1 <= interval_ms <= 3_600_000:
            raise ConfigError(f"interval_ms is {interval_ms}; it must be 1 to 3600000")
        self._engine = read_committed(engine)
        self._interval_ms = interval_ms
        self._admin = Admin(name_server, client_config)
        self._groups = [_WatchedGroup(group) for group in groups]
        self._rounds = Rounds("broker watch")
        self._is_away = False

    @property
    def restarts(self) -> int:
        return self._rounds.restarts

    async def start(self) -> None:
        """Raises ReliabilityRefused when a table is missing or older; DatabaseUnanswered, DatabaseRefused."""
        await check_first(self._engine, self._check)
        await self._admin.start()
        self._rounds.start(self._watch)

    async def shutdown(self) -> None:
        await self._rounds.finish()
        await self._admin.shutdown()

    async def look(self) -> None:
        """One round. What cannot be asked is logged, and asked again in the next."""
        if await self._are_brokers_away():
            return
        for group in self._groups:
            for note in (self._note_offsets, self._note_dead_letters, self._note_blocked):
                try:
                    await note(group)
                except ClientError as error:
                    _log.warning("brokers do not say how group %s fares: %s: %s", group.name, type(error).__name__,
                                 error)

    async def _are_brokers_away(self) -> bool:
        """Then nothing is known, which ends no alarm. Told once as long as it lasts."""
        try:
            await self._admin.master_addresses()
        except ClientError as error:
            if not self._is_away:
                _log.warning("brokers are away (%s): how far groups are is asked again until one answers", error)
            self._is_away = True
        else:
            self._is_away = False
        return self._is_away

    async def _watch(self) -> None:
        while not self._rounds.stopping.is_set():
            await self.look()       # outside `round`: an end may cut a look off anywhere
            await self._rounds.rest(self._interval_ms)

    def _check(self) -> None:
        with self._engine.connect() as connection:
            tables.check(connection, tables.stubs, tables.watermarks, tables.alarms)

    async def _note_offsets(self, group: "_WatchedGroup") -> None:
        # Known before the brokers are asked: what a consumer receives meanwhile does not lie behind the ends they tell.
        known = await asyncio.to_thread(self._watermarks, group.name)
        stats = await self._admin.consume_stats(group.name, masters_only=True)
        offsets = {queue: offset for queue, offset in stats.offset_table.items()
                   if not queue.topic.startswith(RETRY_PREFIX)}
        anew = [MadeAnew(queue, known[queue], offset.broker_offset, min(offset.consumer_offset, offset.broker_offset))
                for queue, offset in offsets.items() if known.get(queue, 0) > offset.broker_offset]
        # The next to consume: all before it is done or given back, the last message of a quiet queue, too.
        reached = {queue: offset.consumer_offset for queue, offset in offsets.items()
                   if 0 < offset.consumer_offset <= offset.broker_offset}
        await asyncio.to_thread(self._write, _note_offsets, group.name, anew, reached)

    async def _note_dead_letters(self, group: "_WatchedGroup") -> None:
        """All that ever came, whether or not it is there still."""
        try:
            offsets = await self._admin.topic_stats(dlq_topic(group.name), masters_only=True)
        except NoRoute:
            if group.has_dead_letters:
                raise       # its brokers are away
            offsets = {}    # none ever came
        count = sum(offset.max_offset for offset in offsets.values())
        await asyncio.to_thread(self._write, group.tell_dead_letters, count)
        group.told_dead_letters(count)

    async def _note_blocked(self, group: "_WatchedGroup") -> None:
        connection = await self._admin.consumer_connection(group.name)
        members = [] if connection is None else sorted(each.client_id for each in connection.connection_set)
        answers = await asyncio.gather(*[self._admin.consumer_running_info(group.name, member)
                                         for member in members[:MEMBERS_MAX]], return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ClientError):
                raise answer
        # A member that does not answer leaves it open whether one of its queues stands still.
        infos = [answer for answer in answers if isinstance(answer, ConsumerRunningInfo)]
        # Clients other than ours do not say it.
        counts = [info.properties.get(BLOCKED_QUEUES, "0") for info in infos]
        blocked = sum(int(count) for count in counts if count.isdecimal())
        if blocked or len(infos) == len(members):
            await asyncio.to_thread(self._write, group.tell_blocked, blocked)

    def _watermarks(self, group: str) -> dict[MessageQueue, int]:
        with self._engine.connect() as connection:
            return delivery_log.watermarks_of(connection, group)

    def _write(self, statements: Callable[..., None], *arguments: object) -> None:
        with self._engine.begin() as connection:
            statements(connection, *arguments)


def _note_offsets(connection: Connection, group: str, anew: Sequence[MadeAnew],
                  reached: Mapping[MessageQueue, int]) -> None:
    for each in anew:
        _log.warning("queue %s ends at %d, before what group %s received: it was made anew, or lost its end; what is "
                     "unconfirmed of it is sent again", each.queue, each.end, group)
        if delivery_log.lower_watermark(connection, group, each):
            outbox_table.forget_places(connection, each.queue, each.end)
    delivery_log.raise_watermarks(connection, group, reached)


class _WatchedGroup:
    def __init__(self, name: str) -> None:
        self.name = name
        self._dead_letters: int | None = None       # at the latest look
        self._quiet_rounds = 0

    @property
    def has_dead_letters(self) -> bool:
        return bool(self._dead_letters)

    def tell_dead_letters(self, connection: Connection, count: int) -> None:
        before = self._dead_letters
        if before is not None and count > before:
            raise_alarm(connection, AlarmKind.DEAD_LETTERS, self.name,
                        f"{count - before} messages that the group gave up came to the {before} before")
        elif self._quiet_rounds + 1 == QUIET_ROUNDS:
            close_alarm(connection, AlarmKind.DEAD_LETTERS, self.name)

    def told_dead_letters(self, count: int) -> None:
        """What `tell_dead_letters` wrote is committed; before that, the next look has to find it again."""
        has_grown = self._dead_letters is not None and count > self._dead_letters
        self._quiet_rounds = 0 if has_grown else self._quiet_rounds + 1
        self._dead_letters = count

    def tell_blocked(self, connection: Connection, count: int) -> None:
        if count:
            raise_alarm(connection, AlarmKind.BLOCKED_QUEUE, self.name,
                        f"{count} queues stand still at a message that fails again and again, or cannot be read: "
                        f"regulus group show {self.name}")
        else:
            close_alarm(connection, AlarmKind.BLOCKED_QUEUE, self.name)
