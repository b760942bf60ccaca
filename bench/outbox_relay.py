"""Measures how fast relays send the stubs of a PostgreSQL database to a broker.

    python -m bench.outbox_relay [STUBS] [RELAYS]

PostgreSQL (the one of the tests, without fsync), the broker and the relays share this machine.
"""

import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from sqlalchemy import Engine, create_engine, func, select, text
from tests.unit.pipeline import postgresql

from regulus.model.message import Message
from regulus.reliability import outbox_table, tables
from regulus.reliability.outbox import new_message_id, stub_values
from regulus.reliability.relay_loop import Relay
from regulus.testing.running_server import ServerProcess

BODY = b"x" * 200
ROWS_AT_ONCE = 5_000                # stubs written in one statement


def fill(engine: Engine, count: int) -> None:
    with engine.begin() as connection:
        for start in range(0, count, ROWS_AT_ONCE):
            connection.execute(outbox_table.add(), [stub_values(Message("orders", BODY, "new"), new_message_id())
                                                    for _ in range(min(ROWS_AT_ONCE, count - start))])
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE regulus_stub"))


def unsent(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(tables.stubs)
                                  .where(tables.stubs.c.queue_offset.is_(None))).scalar_one()


async def relay_all(engine: Engine, name_server: str, relays: int) -> float:
    begun = time.monotonic()
    async with AsyncExitStack() as stack:
        for _ in range(relays):
            await stack.enter_async_context(Relay(engine, name_server))
        while await asyncio.to_thread(unsent, engine):
            await asyncio.sleep(0.1)
        return time.monotonic() - begun


def main(count: int = 100_000, relays: int = 1) -> None:
    with postgresql.running() as address, tempfile.TemporaryDirectory() as home, \
            ServerProcess(Path(home) / "store") as broker:
        engine = create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            tables.create(connection)
        fill(engine, count)
        seconds = asyncio.run(relay_all(engine, broker.name_server_address, relays))
        print(f"{count} stubs by {relays} relays in {seconds:.1f} s: {count / seconds:,.0f} stubs/s")
        engine.dispose()


if __name__ == "__main__":
    main(*[int(argument) for argument in sys.argv[1:]])
