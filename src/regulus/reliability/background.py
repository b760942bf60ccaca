"""Transactions of what works beside the business: relays, alarms, looks at the brokers, removals.

They choose READ COMMITTED whatever the database's default is: at the level above, MySQL and MariaDB lock the gaps
between rows, at which the business's inserts wait and die, and PostgreSQL ends one of two that touch the same rows.
Nothing here reads a row twice and trusts that it is as it was.
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
    """The same engine with the same pool, whose connections are at that level. SQLite has one level, and one writer."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="READ COMMITTED")


def in_transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    """What `work` returns, once its transaction is committed. One that the database ended for another's sake is made
    again from its beginning, `CONFLICT_TRIES_MAX` times in all."""
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
