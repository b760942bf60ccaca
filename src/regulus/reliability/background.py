"""Transactions of background work, besides those of the business: relays, alarms, checks of brokers, removals.

They use READ COMMITTED, whatever the database's default is. At the level above, MySQL and MariaDB lock the gaps between
rows, at which the business's inserts wait and fail, and PostgreSQL ends one of two transactions that touch the same
rows. The background work does not rely on a row staying the same between two reads.
"""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from regulus.reliability.applying import CONFLICT_TRIES_MAX, is_conflict, pause_s

T = TypeVar("T")


def read_committed(engine: Engine) -> Engine:
    """The engine at that level, with the same pool. SQLite has one level, and one writer."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="READ COMMITTED")


def in_transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Run `work` in a transaction and commit; returns its result. If the database ends the transaction because of
    another one, it is repeated, at most `CONFLICT_TRIES_MAX` times in total."""
    for tries in range(1, CONFLICT_TRIES_MAX):
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            if not is_conflict(error):
                raise
        time.sleep(pause_s(tries, random.random()))
    with engine.begin() as connection:
        return work(connection)
