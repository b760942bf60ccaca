"""Tells by the alarms of an outbox's database of sends that a producer kept, tried as often as may be and gave up."""

import socket

from sqlalchemy import Engine

from regulus.client.sending.kept_sends import GivenUpSends
from regulus.reliability import tables
from regulus.reliability.alarms import AlarmKind, close_alarm, raise_alarm


class GivenUpSendsAlarm:
    """One alarm for each file, as long as it has given-up sends:

        KeptSends("orders.kept", on_given_up=GivenUpSendsAlarm(engine))

    The engine is a blocking one; it is called in a thread.
    """

    def __init__(self, engine: Engine) -> None:
        """Connects to nothing yet."""
        self._engine = engine

    def __call__(self, given_up: GivenUpSends) -> None:
        """What it raises has it called again: what the driver raises, ReliabilityRefused without the table."""
        host = f"{socket.gethostname()}:"
        # Paths differ at their ends.
        subject = host + str(given_up.path)[-(tables.ALARM_SUBJECT_SIZE_MAX - len(host)):]
        with self._engine.begin() as connection:
            tables.check(connection, tables.alarms)
            if given_up.given_up:
                raise_alarm(connection, AlarmKind.GIVEN_UP_SENDS, subject, _detail(given_up))
            else:
                close_alarm(connection, AlarmKind.GIVEN_UP_SENDS, subject)


def _detail(given_up: GivenUpSends) -> str:
    told = f"{given_up.given_up} sends are given up, see `regulus message kept`"
    for first in given_up.sends[:1]:
        told += f"; the first: {first.message_id} to {first.topic}, {first.last_error}"
    return told
