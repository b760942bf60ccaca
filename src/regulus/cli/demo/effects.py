"""The demo's business: a departure board in SQLite, one row a flight that left."""

import json
import sqlite3
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS departures(
    flight_id    TEXT PRIMARY KEY,
    carrier      TEXT NOT NULL,
    delay_min    INTEGER NOT NULL,
    applied_ms   INTEGER NOT NULL,
    deliveries   INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID
"""
# A second delivery of a flight changes nothing but the count: the key makes the effect happen once.
_APPLY = """
INSERT INTO departures(flight_id, carrier, delay_min, applied_ms) VALUES (?, ?, ?, ?)
ON CONFLICT(flight_id) DO UPDATE SET deliveries = deliveries + 1
"""


class DepartureBoard:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_SCHEMA)
        self.applied = self.applied_flights()  # deliveries that were applied, repetitions too

    def apply(self, flight_id: str, body: bytes, now_ms: int) -> None:
        """Commit one departure. Raises KeyError for a flight that was cancelled: it has no departure time."""
        event = json.loads(body)
        departed = _minutes(event["dep_time"]) - _minutes(event["sched_dep_time"])
        delay = int(event.get("dep_delay", departed))
        self._connection.execute(_APPLY, (flight_id, event["carrier"], delay, now_ms))
        self.applied += 1

    def applied_flights(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM departures").fetchone()[0])

    def close(self) -> None:
        self._connection.close()


def _minutes(clock: str) -> int:
    """Minutes since midnight of a time such as 517 (05:17)."""
    hours, minutes = divmod(int(clock), 100)
    return hours * 60 + minutes
