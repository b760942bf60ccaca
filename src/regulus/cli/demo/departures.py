"""The demo's effect: one row of the departure board for each flight that left."""

import json
import time

from sqlalchemy import Connection, insert

from regulus.cli.demo.databases import departures
from regulus.model import message_properties as names
from regulus.model.message import MessageExt

_DEPART = insert(departures)


class FlightCancelled(Exception):
    """The flight has no departure, and therefore no effect."""


def depart(connection: Connection, message: MessageExt) -> None:
    """Insert the departure of a flight. Raises FlightCancelled."""
    event = json.loads(message.body)
    if "dep_time" not in event:
        raise FlightCancelled(f"{event['carrier']}{event['flight']} never left")
    departed = _minutes(event["dep_time"]) - _minutes(event["sched_dep_time"])
    connection.execute(_DEPART, {
        "flight_id": message.properties[names.BUSINESS_ID], "carrier": event["carrier"],
        "delay_min": int(event.get("dep_delay", departed)), "applied_ms": time.time_ns() // 1_000_000})


def _minutes(clock: str) -> int:
    """Minutes since midnight of a time such as 517 (05:17)."""
    hours, minutes = divmod(int(clock), 100)
    return hours * 60 + minutes
