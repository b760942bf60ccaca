"""The demo's business: commits flights, each with the message that tells of it."""

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
        """Flights and stubs, all or none."""
        with self._engine.begin() as connection:
            connection.execute(insert(flights), [{"flight_id": each.flight_id, "event": each.body} for each in some])
            for each in some:
                self._outbox.add(connection.connection.dbapi_connection,
                                 Message(TOPIC, each.body, tags=each.carrier, keys=each.keys),
                                 message_id=each.flight_id)
        self.committed += len(some)

    def settled(self) -> int:
        """Flights whose effect is confirmed, or which wait for a human; by the indexes over the others alone."""
        is_open = (stubs.c.status == UNCONFIRMED) & ~stubs.c.is_manual
        with self._engine.connect() as connection:
            waiting = sum(connection.execute(select(func.count()).where(is_open, count)).scalar_one()
                          for count in (stubs.c.send_count == 0, stubs.c.send_count > 0))
        return self.committed - waiting
