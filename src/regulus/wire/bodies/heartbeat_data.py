"""HEART_BEAT (34). Source: HeartbeatData, ProducerData, ConsumerData."""

from dataclasses import dataclass, field

from regulus.wire.bodies.subscription_data import SubscriptionData
from regulus.wire.json_fields import JsonBody, named


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerData(JsonBody):
    group_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerData(JsonBody):
    group_name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatData(JsonBody):
    """`heartbeat_fingerprint` and `without_sub` are 5.x: with `without_sub` the broker keeps the subscriptions it has."""

    client_id: str = named("clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: int | None = None
    without_sub: bool | None = None
