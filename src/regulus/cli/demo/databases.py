"""The demo's two databases: the airports' flights with their stubs, and the departure board with its inbox."""

from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Column, Engine, Integer, LargeBinary, MetaData, String, Table, create_engine, event

from regulus.reliability import tables

AIRPORTS_NAME, BOARD_NAME = "airports.sqlite", "departures.sqlite"
LOCK_WAIT_S = 60
"""Seconds that a writer waits for other writers of its file."""
LOG_PAGES = 10_000
"""Pages in the write-ahead log of a file at which they are moved into the file."""
CACHE_KIB = 65_536
BOARD_PAGE_SIZE = 1_024
"""A small page size, because each commit writes whole pages, and the board's rows are small and in no order."""

_business, _board = MetaData(), MetaData()

flights = Table("flights", _business,
                Column("flight_id", String, primary_key=True),
                Column("event", LargeBinary, nullable=False))

departures = Table("departures", _board,
                   Column("flight_id", String, primary_key=True),
                   Column("carrier", String, nullable=False),
                   Column("delay_min", Integer, nullable=False),
                   Column("applied_ms", BigInteger, nullable=False))


def airports(directory: Path) -> Engine:
    """The airports' database, created if necessary."""
    return _opened(directory / AIRPORTS_NAME, _business, page_size=4_096)


def departure_board(directory: Path) -> Engine:
    """The departure board's database, created if necessary."""
    return _opened(directory / BOARD_NAME, _board, page_size=BOARD_PAGE_SIZE)


def _opened(path: Path, its_own: MetaData, *, page_size: int) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": LOCK_WAIT_S})

    def settle(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA page_size={page_size}")     # has an effect only on a new file
        _settle(connection)

    event.listen(engine, "connect", settle)
    with engine.begin() as connection:
        its_own.create_all(connection)
        tables.create(connection)
    return engine


def _settle(connection: Any) -> None:
    """Write commits to the file's write-ahead log, where they survive the end of the process, and sync the disk later
    for many commits together."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
