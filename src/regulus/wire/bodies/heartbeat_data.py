"""HEART_BEAT (34). Source: HeartbeatData, ProducerData, ConsumerData."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regulus.wire.bodies.subscription_data import SubscriptionData
from regulus.wire.json_fields import JsonBody, named, prepared

CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING")
CONSUME_FROM_WHERES = ("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
                       "CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET",
                       "CONSUME_FROM_TIMESTAMP")


def _named_from(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """A converter to enum names: C++ clients send an enum's number where Java sends its name."""
    return lambda value: names[value] if type(value) is int and 0 <= value < len(names) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerData(JsonBody):
    group_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData(JsonBody):
    group_name: str
    consume_type: str = prepared(_named_from(CONSUME_TYPES), default="CONSUME_PASSIVELY")
    message_model: str = prepared(_named_from(MESSAGE_MODELS), default="CLUSTERING")
    consume_from_where: str = prepared(_named_from(CONSUME_FROM_WHERES), default=CONSUME_FROM_WHERES[0])
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData(JsonBody):
    """`heartbeat_fingerprint` and `without_sub` are 5.x; if the latter is set, the broker keeps the subscriptions it
    has."""

    client_id: str = named("clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int | None = None
    without_sub: bool | None = None
