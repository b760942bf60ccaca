"""REGISTER_BROKER (103), UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322), GET_BROKER_MEMBER_GROUP (901),
BROKER_HEARTBEAT (904), NOTIFY_MIN_BROKER_ID_CHANGE (905).

Source: RegisterBrokerRequestHeader, RegisterBrokerResponseHeader, UnRegisterBrokerRequestHeader,
QueryDataVersionRequestHeader, QueryDataVersionResponseHeader, GetBrokerMemberGroupRequestHeader,
BrokerHeartbeatRequestHeader, NotifyMinBrokerIdChangeRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest(Header):
    """A registration. A `body_crc32` of 0 is not checked; `enable_acting_master` is not None for brokers of 5.x."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Long
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = spelled("bodyCrc32", default=0)
    zone_name: str | None = spelled("__ZONE_NAME", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse(Header):
    """Set only for a slave whose master is alive."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDataVersionRequest(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@dataclass(frozen=True, slots=True)
class QueryDataVersionResponse(Header):
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroupRequest(Header):
    cluster_name: str
    broker_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(Header):
    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Long | None = None
    epoch: int | None = None
    max_offset: Long | None = None
    confirm_offset: Long | None = None
    heartbeat_timeout_mills: Long | None = None
    election_priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyMinBrokerIdChangeRequest(Header):
    min_broker_id: Long | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
