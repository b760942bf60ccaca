"""Connected clients: 203, 204, 328. Source: Connection, ConsumerConnection, ProducerConnection, ProducerTableInfo."""

from dataclasses import dataclass, field

from regulus.wire.bodies.subscription_data import SubscriptionData
from regulus.wire.json_fields import JsonBody, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(JsonBody):
    client_id: str
    client_addr: str | None = None
    language: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConnection(JsonBody):
    connection_set: list[Connection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConnection(JsonBody):
    connection_set: list[Connection] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo(JsonBody):
    client_id: str
    remote_ip: str | None = named("remoteIP", default=None)
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerTableInfo(JsonBody):
    """`data`: producer group -> clients."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
