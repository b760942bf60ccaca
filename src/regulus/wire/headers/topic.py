"""UPDATE_AND_CREATE_TOPIC (17), GET_ALL_TOPIC_CONFIG (21), DELETE_TOPIC_IN_BROKER (215), GET_TOPIC_CONFIG (351).

Source: CreateTopicRequestHeader, GetAllTopicConfigRequestHeader (5.3), GetAllTopicConfigResponseHeader,
DeleteTopicRequestHeader, GetTopicConfigRequestHeader.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAndCreateTopicRequest(Header):
    """`attributes`: comma list of `+key=value` and `-key`."""

    topic: str
    default_topic: str | None = None
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigRequest(Header):
    """5.3 clients ask for pages; `data_version` is JSON text."""

    topic_seq: int | None = None
    max_topic_num: int | None = None
    data_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAllTopicConfigResponse(Header):
    total_topic_num: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopicInBrokerRequest(Header):
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfigRequest(Header):
    topic: str
    logical: bool | None = spelled("lo", default=None)
