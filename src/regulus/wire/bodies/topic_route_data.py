"""Routes of topics: 105, 106, 217, 901.

Source: TopicRouteData, QueueData, BrokerData, ClusterInfo, BrokerMemberGroup, GetBrokerMemberGroupResponseBody.
"""

from dataclasses import dataclass, field

from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData(JsonBody):
    broker_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerData(JsonBody):
    """`broker_addrs`: broker id -> `ip:port`; id 0 is the master."""

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)
    enable_acting_master: bool | None = None
    zone_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRouteData(JsonBody):
    """`order_topic_conf`: `broker-a:4;broker-b:4`."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    topic_queue_mapping_by_broker: dict[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo(JsonBody):
    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMemberGroup(JsonBody):
    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetBrokerMemberGroupResponseBody(JsonBody):
    broker_member_group: BrokerMemberGroup | None = None
