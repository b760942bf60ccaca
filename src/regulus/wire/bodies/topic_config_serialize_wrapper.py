"""Tables of topics and subscription groups: 18, 21, 201, 225, 353 and the config files topics, subscriptionGroup.

Source: TopicConfigSerializeWrapper, TopicConfigAndMappingSerializeWrapper, SubscriptionGroupWrapper,
CreateTopicListRequestBody, SubscriptionGroupList, GroupForbidden.
"""

from dataclasses import dataclass, field

from regulus.model.topics import DataVersion, SubscriptionGroupConfig, TopicConfig
from regulus.wire.json_fields import JsonBody


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigSerializeWrapper(JsonBody):
    """A table of topics. The mapping members are for static topics of 5.x; they are kept but not interpreted."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_queue_mapping_detail_map: dict[str, object] | None = None
    topic_queue_mapping_info_map: dict[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupWrapper(JsonBody):
    """`forbidden_table`: group -> topic -> bits; bit 0 forbids reading."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicListRequestBody(JsonBody):
    topic_config_list: list[TopicConfig] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroupList(JsonBody):
    group_config_list: list[SubscriptionGroupConfig] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForbidden(JsonBody):
    topic: str
    group: str
    readable: bool
