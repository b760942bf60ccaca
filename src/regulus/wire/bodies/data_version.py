"""DataVersion, TopicConfig and SubscriptionGroupConfig alone in a body or header (17, 200, 322, 351, 352).

Source: DataVersion, TopicConfig, SubscriptionGroupConfig.
"""

from regulus.model.topics import DataVersion, SubscriptionGroupConfig, TopicConfig
from regulus.wire import json_fields


def encode_data_version(version: DataVersion) -> bytes:
    return json_fields.encode(version)


def decode_data_version(data: bytes) -> DataVersion:
    """Raises HeaderError."""
    return json_fields.decode(DataVersion, data)


def encode_topic_config(config: TopicConfig) -> bytes:
    return json_fields.encode(config)


def decode_topic_config(data: bytes) -> TopicConfig:
    """Raises HeaderError."""
    return json_fields.decode(TopicConfig, data)


def encode_subscription_group_config(config: SubscriptionGroupConfig) -> bytes:
    return json_fields.encode(config)


def decode_subscription_group_config(data: bytes) -> SubscriptionGroupConfig:
    """Raises HeaderError."""
    return json_fields.decode(SubscriptionGroupConfig, data)
