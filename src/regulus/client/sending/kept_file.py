"""The file in which sends that failed for good are kept: an SQLite database, and this module the only door to it.

    sends     one row for each request that failed, in the order in which they were kept: `messages` has its messages
              as a batch travels (wire.message_batch); a row goes once they are stored
    totals    one row: what the sends are together, kept up to date by triggers, so that no count walks over the sends

What was added is on the disk when `add` returns, and so is each other change: WAL with synchronous=FULL. The methods
block; any thread may call them.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from regulus.client import real_threads
from regulus.client.config import KeptSendsConfig
from regulus.errors import KeptFileUnusable
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.wire import message_batch

_APPLICATION_ID = 0x52474B53        # RGKS
_FORMAT = 1
_BUSY_TIMEOUT_S = 10.0
_ERROR_SIZE_MAX = 500

_SCHEMA = f"""
PRAGMA journal_mode = WAL;
CREATE TABLE sends (
    send_id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane TEXT NOT NULL,
    topic TEXT NOT NULL,
    broker_name TEXT,
    queue_id INTEGER,
    message_id TEXT NOT NULL,
    message_count INTEGER NOT NULL,
    size INTEGER NOT NULL,
    kept_time INTEGER NOT NULL,
    tried_time INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    last_error TEXT NOT NULL,
    is_given_up INTEGER NOT NULL DEFAULT 0,
    is_told INTEGER NOT NULL DEFAULT 0,
    messages BLOB NOT NULL);
CREATE INDEX sends_of_lanes ON sends (is_given_up, lane);
CREATE INDEX sends_by_age ON sends (is_given_up, kept_time);
CREATE INDEX untold_sends ON sends (send_id) WHERE is_given_up = 1 AND is_told = 0;
CREATE TABLE totals (sends INTEGER NOT NULL, size INTEGER NOT NULL, given_up INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0, 0);
CREATE TRIGGER added AFTER INSERT ON sends BEGIN
    UPDATE totals SET sends = sends + 1, size = size + new.size, given_up = given_up + new.is_given_up; END;
CREATE TRIGGER removed AFTER DELETE ON sends BEGIN
    UPDATE totals SET sends = sends - 1, size = size - old.size, given_up = given_up - old.is_given_up; END;
CREATE TRIGGER given_up_or_begun_anew AFTER UPDATE OF is_given_up ON sends BEGIN
    UPDATE totals SET given_up = given_up - old.is_given_up + new.is_given_up; END;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
"""

_COLUMNS = ("send_id, topic, broker_name, queue_id, message_id, message_count, size, kept_time, tried_time, attempts, "
            "last_error, is_given_up")

_LANES = """
WITH RECURSIVE named(lane) AS (
    SELECT min(lane) FROM sends WHERE is_given_up = 0
    UNION ALL
    SELECT (SELECT min(lane) FROM sends WHERE is_given_up = 0 AND lane > named.lane) FROM named
    WHERE named.lane IS NOT NULL)
SELECT lane FROM named WHERE lane IS NOT NULL
"""
"""Goes from one lane to the next in the index, however many sends each has."""


class NewSend(NamedTuple):
    topic: str
    queue: MessageQueue | None
    message_id: str
    message_count: int
    messages: bytes
    error: str

    @property
    def lane(self) -> str:
        return lane_of(self.topic, self.queue)


class KeptSend(NamedTuple):
    """Times in ms since 1970. `message_id` is the unique key of its first message, `size` that of all of them;
    `attempts`: those since it was kept that reached a broker."""

    send_id: int
    topic: str
    queue: MessageQueue | None
    message_id: str
    message_count: int
    size: int
    kept_time: int
    tried_time: int
    attempts: int
    last_error: str
    is_given_up: bool

    @property
    def lane(self) -> str:
        return lane_of(self.topic, self.queue)


class KeptStatus(NamedTuple):
    """Of all kept sends; `waiting` and `given_up` are they together, and `oldest_time` is when the oldest one that
    waits was kept, in ms since 1970: 0 where none waits."""

    waiting: int
    given_up: int
    size: int
    oldest_time: int


def lane_of(topic: str, queue: MessageQueue | None) -> str:
    """What has one order: the sends to a topic, or to a queue of it that was chosen, whose broker alone can take them.
    No name of a topic has a space."""
    return topic if queue is None else f"{topic} {queue.broker_name}/{queue.queue_id}"


def encode(messages: Sequence[Message]) -> bytes:
    """Raises MessageIllegal when a message's properties are too long."""
    return message_batch.encode(messages)


def decode(topic: str, messages: bytes) -> list[Message]:
    """Raises HeaderError."""
    return [Message(topic, each.body, properties=each.properties, flag=each.flag)
            for each in message_batch.decode(messages)]


class KeptFile:
    def __init__(self, path: Path) -> None:
        """Makes the file where there is none. Raises KeptFileUnusable."""
        self._path = path
        self._lock = real_threads.new_lock()
        with self._by_name():
            if not path.exists():
                _make(path)
            self._database = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None,
                                             check_same_thread=False)
        try:
            with self._by_name():
                self._check()
                self._database.execute("PRAGMA synchronous = FULL")
        except KeptFileUnusable:
            self._database.close()
            raise

    def close(self) -> None:
        with self._by_name(), self._lock:
            self._database.close()

    # --- keeping -----------------------------------------------------------------------------------------------------

    def add(self, calls: Sequence[Sequence[NewSend]], config: KeptSendsConfig, now_ms: int) -> list[str | None]:
        """Keep what calls could not send, in order, in one transaction; for each call, whose sends are kept all or not
        at all, None or why they are not: the file is full."""
        refusals: list[str | None] = []
        with self._change() as database:
            count, size = database.execute("SELECT sends, size FROM totals").fetchone()
            for sends in calls:
                count_then = count + len(sends)
                size_then = size + sum(len(send.messages) for send in sends)
                refusal = _fullness(count, count_then, size_then, config)
                refusals.append(refusal)
                if refusal is None:
                    for send in sends:
                        _insert(database, send, now_ms)
                    count, size = count_then, size_then
        return refusals

    # --- sending again -----------------------------------------------------------------------------------------------

    def lanes(self) -> list[str]:
        """Those in which sends wait."""
        return [lane for (lane,) in self._rows(_LANES)]

    def head(self, lane: str) -> tuple[KeptSend, bytes] | None:
        """The lane's oldest send that waits, and its messages, encoded."""
        found = self._rows(f"SELECT messages, {_COLUMNS} FROM sends WHERE is_given_up = 0 AND lane = ? "
                           "ORDER BY send_id LIMIT 1", lane)
        return (_kept_send(found[0][1:]), found[0][0]) if found else None

    def remove(self, send_ids: Sequence[int]) -> int:
        """How many there were."""
        with self._change() as database:
            return sum(database.execute("DELETE FROM sends WHERE send_id = ?", (each,)).rowcount for each in send_ids)

    def failed(self, send_id: int, attempts: int, error: str, now_ms: int, *, is_given_up: bool) -> None:
        with self._change() as database:
            database.execute("UPDATE sends SET attempts = ?, tried_time = ?, last_error = ?, is_given_up = ? "
                             "WHERE send_id = ?", (attempts, now_ms, _storable(error), is_given_up, send_id))

    def give_up_older(self, lane: str, kept_before_ms: int) -> None:
        """Those that waited for too long, each with the error that it has."""
        with self._change() as database:
            database.execute("UPDATE sends SET is_given_up = 1 WHERE is_given_up = 0 AND lane = ? AND kept_time < ?",
                             (lane, kept_before_ms))

    def begin_anew(self, now_ms: int, send_ids: Sequence[int] | None = None) -> int:
        """Let given-up sends wait again, all of them by default, in their old place, and with time and attempts as if
        they were kept now; how many they were."""
        statement = "UPDATE sends SET is_given_up = 0, is_told = 0, attempts = 0, kept_time = ? WHERE is_given_up = 1"
        with self._change() as database:
            if send_ids is None:
                return database.execute(statement, (now_ms,)).rowcount
            return sum(database.execute(f"{statement} AND send_id = ?", (now_ms, each)).rowcount for each in send_ids)

    # --- in view -----------------------------------------------------------------------------------------------------

    def status(self) -> KeptStatus:
        [(sends, size, given_up, oldest)] = self._rows(
            "SELECT sends, size, given_up, (SELECT min(kept_time) FROM sends WHERE is_given_up = 0) FROM totals")
        return KeptStatus(sends - given_up, given_up, size, oldest or 0)

    def sends(self, limit: int, *, only_given_up: bool = False) -> list[KeptSend]:
        """The oldest of them."""
        where = "WHERE is_given_up = 1" if only_given_up else ""
        return [_kept_send(row) for row in self._rows(
            f"SELECT {_COLUMNS} FROM sends {where} ORDER BY send_id LIMIT ?", limit)]

    def untold(self, limit: int) -> tuple[int, list[KeptSend]]:
        """Given-up sends that nobody was told of: how many, and the oldest of them."""
        [(count,)] = self._rows("SELECT count(*) FROM sends WHERE is_given_up = 1 AND is_told = 0")
        if not count:
            return 0, []
        return count, [_kept_send(row) for row in self._rows(
            f"SELECT {_COLUMNS} FROM sends WHERE is_given_up = 1 AND is_told = 0 ORDER BY send_id LIMIT ?", limit)]

    def mark_told(self) -> None:
        """All that are given up now."""
        with self._change() as database:
            database.execute("UPDATE sends SET is_told = 1 WHERE is_given_up = 1 AND is_told = 0")

    # -----------------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        (application,) = self._database.execute("PRAGMA application_id").fetchone()
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            raise KeptFileUnusable(f"{self._path} is no file of kept sends; give another path")
        if version != _FORMAT:
            raise KeptFileUnusable(f"{self._path} has format {version} of kept sends, this version of Regulus knows "
                                   f"{_FORMAT}; use the version that made it")

    def _rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._by_name(), self._lock:
            return self._database.execute(statement, parameters).fetchall()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction; whole or not at all."""
        with self._by_name(), self._lock, self._database as database:
            database.execute("BEGIN IMMEDIATE")
            yield database

    @contextmanager
    def _by_name(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise KeptFileUnusable(f"the file of kept sends {self._path} cannot be used: {error}; check its folder, "
                                   "its rights and the room on its disk") from error


def _make(path: Path) -> None:
    """Whole under another name first: two processes may do this at once, and either may die in between."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    fresh.unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))      # messages are the owner's
    try:
        with closing(sqlite3.connect(fresh, isolation_level=None)) as database:
            database.executescript(_SCHEMA)
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fullness(count: int, count_then: int, size_then: int, config: KeptSendsConfig) -> str | None:
    if count_then > config.sends_max:
        return f"it holds {count} sends of {config.sends_max} that sends_max allows"
    if size_then > config.size_max:
        return f"it would hold {size_then} bytes of messages, more than size_max {config.size_max}"
    return None


def _insert(database: sqlite3.Connection, send: NewSend, now_ms: int) -> None:
    broker_name, queue_id = (None, None) if send.queue is None else (send.queue.broker_name, send.queue.queue_id)
    database.execute(
        "INSERT INTO sends (lane, topic, broker_name, queue_id, message_id, message_count, size, kept_time, "
        "tried_time, last_error, messages) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (send.lane, send.topic, broker_name, queue_id, _storable(send.message_id), send.message_count,
         len(send.messages), now_ms, now_ms, _storable(send.error), send.messages))


def _storable(text: str) -> str:
    """SQLite takes no half characters."""
    return text.encode(errors="replace").decode()[:_ERROR_SIZE_MAX]


def _kept_send(row: Sequence[Any]) -> KeptSend:
    send_id, topic, broker_name, queue_id, *others, is_given_up = row
    queue = None if broker_name is None else MessageQueue(topic, broker_name, queue_id)
    return KeptSend._make((send_id, topic, queue, *others, bool(is_given_up)))
