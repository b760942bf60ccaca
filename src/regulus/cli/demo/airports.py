"""The demo's business: it commits flights, each with a message about it."""

from collections.abc import Sequence

from sqlalchemy import Engine, func, insert, select

from regulus.cli.demo.databases import flights
from regulus.cli.demo.flights import Flight
from regulus.model.message import Message
from regulus.reliability.outbox import Outbox
from regulus.reliability.tables import UNCONFIRMED, stubs

TOPIC = "flights"


class Airports:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._outbox = Outbox()
        self.committed = 0

    def commit(self, some: Sequence[Flight]) -> None:
        """Commit flights and their stubs, all or none."""
        with self._engine.begin() as connection:
            connection.execute(insert(flights), [{"flight_id": each.flight_id, "event": each.body} for each in some])
            for each in some:
                self._outbox.add(connection.connection.dbapi_connection,
                                 Message(TOPIC, each.body, tags=each.carrier, keys=each.keys),
                                 message_id=each.flight_id)
        self.committed += len(some)

    def settled(self) -> int:
        """The number of flights whose effect is confirmed, or which wait for a human. It is computed from the others,
        which have indexes."""
        is_open = (stubs.c.status == UNCONFIRMED) & ~stubs.c.is_manual
        with self._engine.connect() as connection:
            waiting = sum(connection.execute(select(func.count()).where(is_open, count)).scalar_one()
                          for count in (stubs.c.send_count == 0, stubs.c.send_count > 0))
        return self.committed - waiting
