"""The topics of a broker, and what the send path needs to know of each.

`facts` is a second table beside the settings: what a send must check, worked out when the topic changes, so that a send
pays for one dictionary look-up.

Source: TopicConfigManager.
"""

from collections.abc import Iterable
from dataclasses import replace

from regulus.broker.config import BrokerConfig
from regulus.broker.send_facts import TopicFacts
from regulus.broker.topic_epochs import TopicEpochs
from regulus.model import permission, topics
from regulus.model.topics import DataVersion, TopicConfig
from regulus.wire import fastjson
from regulus.wire.bodies import TopicConfigSerializeWrapper
from regulus.wire.json_fields import to_value

BENCHMARK_QUEUE_NUMS = 1024
CLUSTER_TOPIC_QUEUE_NUMS = 16
REVIVE_QUEUE_NUMS = 8
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2


class Topics:
    """Topic settings by name. `changes` counts changes, for registration and for saving."""

    def __init__(self, config: BrokerConfig) -> None:
        self.table: dict[str, TopicConfig] = {}
        self.facts: dict[str, TopicFacts] = {}
        self.system: set[str] = set()
        self.epochs = TopicEpochs()
        self.data_version = DataVersion()
        self.changes = 0
        for topic in _system_topics(config):
            self._set(topic)
            self.system.add(topic.topic_name)

    def get(self, name: str) -> TopicConfig | None:
        return self.table.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def __len__(self) -> int:
        return len(self.table)

    def names(self) -> list[str]:
        return list(self.table)

    def is_system(self, name: str) -> bool:
        """A topic that the broker itself lives on; it can be neither deleted nor set by an operator."""
        return name in self.system or name in topics.SYSTEM_TOPICS or name.startswith(topics.SYSTEM_TOPIC_PREFIX)

    def has_queue(self, name: str, queue_id: int) -> bool:
        """Whether messages may come into this queue or be read from it; always so for a topic of the broker itself."""
        config = self.table.get(name)
        if config is not None and queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return True
        return self.is_system(name)

    def put(self, config: TopicConfig, now_ms: int) -> None:
        self._put(config, now_ms)
        self._changed(now_ms)

    def put_all(self, configs: Iterable[TopicConfig], now_ms: int) -> None:
        for config in configs:
            self._put(config, now_ms)
        self._changed(now_ms)

    def delete(self, name: str, now_ms: int) -> bool:
        """False when there was no such topic."""
        if self.table.pop(name, None) is None:
            return False
        del self.facts[name]
        self.epochs.note_deleted(name)
        self._changed(now_ms)
        return True

    def is_order(self, name: str) -> bool:
        config = self.table.get(name)
        return config is not None and config.order

    def create_for_send(self, name: str, default_topic: str, queue_nums: int, unit_mode: bool,
                        now_ms: int) -> TopicConfig | None:
        """The new topic, made after `default_topic`; None when that one may not be copied."""
        pattern = self.table.get(default_topic)
        if pattern is None or not permission.is_inherited(pattern.perm):
            return None
        count = max(0, min(queue_nums, pattern.write_queue_nums))
        config = TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count,
                             perm=pattern.perm & ~permission.INHERIT, topic_filter_type=pattern.topic_filter_type,
                             topic_sys_flag=UNIT_FLAG if unit_mode else 0)
        self.put(config, now_ms)
        return config

    def create_if_absent(self, name: str, queue_nums: int, now_ms: int, topic_sys_flag: int = 0,
                         order: bool = False) -> TopicConfig:
        """The topic as it is, or a new one with read and write permission: retry and dead-letter topics."""
        config = self.table.get(name)
        if config is None or (order and not config.order):
            config = replace(config, order=True) if config is not None else TopicConfig(
                topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums,
                topic_sys_flag=topic_sys_flag, order=order)
            self.put(config, now_ms)
        return config

    def wrapper(self, perm_mask: int = permission.PRIORITY | permission.READ_WRITE | permission.INHERIT,
                ) -> TopicConfigSerializeWrapper:
        """The table as it travels and as it is saved; `perm_mask` narrows the permission of every topic."""
        table = {name: config if config.perm | perm_mask == perm_mask else replace(config, perm=config.perm & perm_mask)
                 for name, config in self.table.items()}
        return TopicConfigSerializeWrapper(topic_config_table=table, data_version=self.data_version)

    def document(self) -> str:
        return fastjson.dumps_pretty(to_value(self.wrapper()))

    def load(self, text: str) -> None:
        """Take over saved topics; system topics that the file does not have stay. Raises HeaderError."""
        wrapper = TopicConfigSerializeWrapper.decode(text.encode())
        for config in wrapper.topic_config_table.values():
            self._set(config)
        self.data_version = wrapper.data_version

    def _put(self, config: TopicConfig, now_ms: int) -> None:
        if config.topic_name not in self.table:
            self.epochs.note_created(config.topic_name, now_ms)
        self._set(config)

    def _set(self, config: TopicConfig) -> None:
        before = self.facts.get(config.topic_name)
        self.table[config.topic_name] = config
        if before is None:
            self.facts[config.topic_name] = TopicFacts(config)
        else:
            self.facts[config.topic_name] = TopicFacts(config, before.put_nums, before.put_size)

    def _changed(self, now_ms: int) -> None:
        self.data_version = self.data_version.next(now_ms)
        self.changes += 1


def _system_topics(config: BrokerConfig) -> list[TopicConfig]:
    cluster = config.broker_cluster_name
    inherited = permission.READ_WRITE | permission.INHERIT
    made = [
        _topic(topics.SELF_TEST_TOPIC, 1),
        _topic(topics.BENCHMARK_TOPIC, BENCHMARK_QUEUE_NUMS),
        _topic(cluster, CLUSTER_TOPIC_QUEUE_NUMS, inherited if config.cluster_topic_enable else permission.INHERIT),
        _topic(config.broker_name, 1, inherited if config.broker_topic_enable else permission.INHERIT),
        _topic(topics.OFFSET_MOVED_EVENT, 1),
        _topic(topics.SCHEDULE_TOPIC, len(config.delay_ladder_ms)),
        _topic(topics.TRANS_HALF_TOPIC, 1),
        _topic(topics.TRANS_OP_HALF_TOPIC, 1),
        _topic(topics.TRANS_CHECK_MAX_TIME_TOPIC, 1),
        _topic(f"{cluster}_{topics.REPLY_TOPIC_SUFFIX}", 1),
        _topic(topics.TIMER_TOPIC, 1),
        _topic(f"{topics.SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster}", REVIVE_QUEUE_NUMS),
        _topic(f"{topics.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{config.broker_name}", 1),
    ]
    if config.auto_create_topic_enable:
        made.append(_topic(topics.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, inherited))
    if config.trace_topic_enable:
        made.append(_topic(config.msg_trace_topic_name, 1))
    return made


def _topic(name: str, queue_nums: int, perm: int = permission.READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=perm)
