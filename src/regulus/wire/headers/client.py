"""HEART_BEAT (34), UNREGISTER_CLIENT (35), GET_CONSUMER_LIST_BY_GROUP (38), NOTIFY_CONSUMER_IDS_CHANGED (40).

LOCK_BATCH_MQ (41), UNLOCK_BATCH_MQ (42) and CHECK_CLIENT_CONFIG (46) have a body and no custom header.

Source: HeartbeatResponseHeader, UnregisterClientRequestHeader, GetConsumerListByGroupRequestHeader,
NotifyConsumerIdsChangedRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeatResponse(Header):
    """Absent in 4.9."""

    is_support_heart_beat_v2: bool | None = spelled("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = spelled("IS_SUB_CHANGE", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClientRequest(Header):
    client_id: str = spelled("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True)
class GetConsumerListByGroupRequest(Header):
    consumer_group: str


@dataclass(frozen=True, slots=True)
class NotifyConsumerIdsChangedRequest(Header):
    consumer_group: str
