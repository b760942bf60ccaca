"""Requests to name servers besides registrations and the key-value table: 105, 205, 216, 217, 224, 327.

Source: GetRouteInfoRequestHeader, WipeWritePermOfBrokerRequestHeader, WipeWritePermOfBrokerResponseHeader,
AddWritePermOfBrokerRequestHeader, AddWritePermOfBrokerResponseHeader, DeleteTopicFromNamesrvRequestHeader,
RegisterTopicRequestHeader, GetTopicsByClusterRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteinfoByTopicRequest(Header):
    """`accept_standard_json_only`: the client wants integer keys quoted, whatever its version."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = spelled("__ZONE_NAME", default=None)
    zone_mode: bool | None = spelled("__ZONE_MODE", default=None)


@dataclass(frozen=True, slots=True)
class WipeWritePermOfBrokerRequest(Header):
    broker_name: str


@dataclass(frozen=True, slots=True)
class WipeWritePermOfBrokerResponse(Header):
    wipe_topic_count: int


@dataclass(frozen=True, slots=True)
class AddWritePermOfBrokerRequest(Header):
    broker_name: str


@dataclass(frozen=True, slots=True)
class AddWritePermOfBrokerResponse(Header):
    add_topic_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicInNamesrvRequest(Header):
    topic: str
    cluster_name: str | None = None


@dataclass(frozen=True, slots=True)
class RegisterTopicInNamesrvRequest(Header):
    topic: str


@dataclass(frozen=True, slots=True)
class GetTopicsByClusterRequest(Header):
    cluster: str
