"""Labels of a broker's series, as RocketMQ writes them."""

from regulus.broker.config import BrokerConfig
from regulus.model import topics
from regulus.wire.codes import LanguageCode

SCOPE = "broker-meter"
DISK = {"storage_type": "local", "storage_medium": "disk"}
CONSUME_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
OTHER = "other"

_GROUP_PREFIX = topics.SYSTEM_GROUP_PREFIX.lower()
_V4_0_0 = 213
"""From this release on the protocol's versions are numbered in pairs, snapshot and release. Source: MQVersion."""
_VERSION_MAX = 999


def common_labels(config: BrokerConfig, more: dict[str, str]) -> dict[str, str]:
    """Labels of series that only Regulus has."""
    return {**more, "cluster": config.broker_cluster_name, "node_type": "broker", "node_id": config.broker_name}


def rocketmq_labels(config: BrokerConfig, more: dict[str, str]) -> dict[str, str]:
    """Labels of series that RocketMQ's brokers have as well."""
    return {**common_labels(config, more), "otel_scope_name": SCOPE}


def is_system(topic: str, group: str = "") -> str:
    """`true` for topics and groups of brokers themselves, but not for retries and dead letters. Source:
    BrokerMetricsManager.isSystem."""
    is_own = (topic in topics.SYSTEM_TOPICS or topic.startswith(topics.SYSTEM_TOPIC_PREFIX)
              or group.lower().startswith(_GROUP_PREFIX))
    return "true" if is_own else "false"


def language_name(language: int) -> str:
    try:
        return LanguageCode(language).name.lower()
    except ValueError:
        return OTHER


def version_name(version: int) -> str:
    """`v5_3_3`. A client chooses the number, so those that no release has are one label."""
    release, is_release = divmod(version - _V4_0_0 + 1, 2)
    if not 0 <= release <= (_VERSION_MAX - _V4_0_0) // 2:
        return OTHER
    major, minor, patch = 4 + release // 100, release // 10 % 10, release % 10
    return f"v{major}_{minor}_{patch}" + ("" if is_release else "_snapshot")
