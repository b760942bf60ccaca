"""The topics of a broker, and the facts about each that the send path needs.

`facts` is a second table next to the settings. It has what a send must check, computed when the topic changes, so that
a send costs one dictionary look-up.

Source: TopicConfigManager.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from regulus.broker.attributes import keeps_batches
from regulus.broker.config import BrokerConfig
from regulus.broker.send_facts import TopicFacts
from regulus.broker.settings_changes import SettingsChanges
from regulus.broker.topic_epochs import TopicEpochs
from regulus.model import permission, topics
from regulus.model.topics import DataVersion, TopicConfig
from regulus.wire import encoded_table
from regulus.wire.bodies import TopicConfigSerializeWrapper
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.json_fields import pretty_writer, to_value

# Queues of system topics. Source: TopicConfigManager, BrokerConfig.reviveQueueNum.
BENCHMARK_QUEUE_NUMS = 1024
CLUSTER_TOPIC_QUEUE_NUMS = 16
REVIVE_QUEUE_NUMS = 8
UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
CHANGED_NAMES_MAX = 1000
"""Changes whose topics are remembered; a name server that is further behind gets all topics."""

_KNOWN_PERMISSIONS = permission.PRIORITY | permission.READ_WRITE | permission.INHERIT
_write_topic = pretty_writer(TopicConfig, 2)


class Topics:
    """Topic settings by name. `changes` counts changes, for registration and for saving.

    `unsaved` are topics whose current settings are not on disk. Their sends do not take the fast path, because their
    answers wait.
    """

    def __init__(self, config: BrokerConfig, settings: SettingsChanges | None = None,
                 keep_batches: Callable[[str], None] = lambda name: None) -> None:
        """`keep_batches` is called for each topic of `queue.type=BatchCQ`."""
        self.table: dict[str, TopicConfig] = {}
        self.facts: dict[str, TopicFacts] = {}
        self.system: set[str] = set()
        self.unsaved: dict[str, int] = {}
        self._settings = settings or SettingsChanges()
        self._keep_batches = keep_batches
        self._changed_names: deque[tuple[str, ...]] = deque(maxlen=CHANGED_NAMES_MAX)
        self.epochs = TopicEpochs()
        self.data_version = DataVersion()
        self.changes = 0
        for topic in _system_topics(config):
            self._set(topic)
            self.system.add(topic.topic_name)
        self.encoded = EncodedTable(self.table, _written, "topics")

    def get(self, name: str) -> TopicConfig | None:
        return self.table.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def __len__(self) -> int:
        return len(self.table)

    def names(self) -> list[str]:
        return list(self.table)

    def is_system(self, name: str) -> bool:
        """Whether the broker itself needs the topic; an operator can neither delete nor change it."""
        return name in self.system or name in topics.SYSTEM_TOPICS or name.startswith(topics.SYSTEM_TOPIC_PREFIX)

    def has_queue(self, name: str, queue_id: int) -> bool:
        """Whether messages may be stored in this queue or read from it; always true for a system topic."""
        config = self.table.get(name)
        if config is not None and queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return True
        return self.is_system(name)

    def put(self, config: TopicConfig, now_ms: int) -> None:
        self.put_all((config,), now_ms)

    def put_all(self, configs: Iterable[TopicConfig], now_ms: int) -> None:
        """Set several topics. An empty list registers all topics again."""
        names = []
        for config in configs:
            self._put(config, now_ms)
            names.append(config.topic_name)
        self._changed(names, now_ms)

    def delete(self, name: str, now_ms: int) -> bool:
        """False when there was no such topic."""
        if self.table.pop(name, None) is None:
            return False
        del self.facts[name]
        self.epochs.note_deleted(name)
        self._changed([name], now_ms)
        return True

    def is_order(self, name: str) -> bool:
        config = self.table.get(name)
        return config is not None and config.order

    def create_for_send(self, name: str, default_topic: str, queue_nums: int, unit_mode: bool,
                        now_ms: int) -> TopicConfig | None:
        """Create a topic after the pattern of `default_topic`; None when that one is unknown or not inherited."""
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
        if self.unsaved:
            self._settings.use(self.unsaved, name)
        if config is None or (order and not config.order):
            config = replace(config, order=True) if config is not None else TopicConfig(
                topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums,
                topic_sys_flag=topic_sys_flag, order=order)
            self.put(config, now_ms)
        return config

    def wrapper(self, perm_mask: int = _KNOWN_PERMISSIONS, names: Iterable[str] | None = None,
                ) -> TopicConfigSerializeWrapper:
        """The table, or these topics of it, as it is sent; `perm_mask` limits the permission of every topic."""
        configs = self.table.values() if names is None else [self.table[name] for name in names if name in self.table]
        return TopicConfigSerializeWrapper(
            topic_config_table={config.topic_name: _narrowed(config, perm_mask) for config in configs},
            data_version=self.data_version)

    def changed_since(self, changes: int) -> set[str] | None:
        """Topics that changed since the count was `changes`; None when that is too long ago to know."""
        count = self.changes - changes
        if not 0 <= count <= len(self._changed_names):
            return None
        recent = islice(reversed(self._changed_names), count)
        return {name for names in recent for name in names}

    def document(self) -> Pieces:
        return encoded_table.document({"dataVersion": to_value(self.data_version), "topicConfigTable": self.encoded})

    def settings_saved(self) -> None:
        """Let sends of topics whose changes are saved take the fast path again."""
        for name in self._settings.take_saved(self.unsaved):
            config = self.table.get(name)
            if config is not None:
                self._set(config)

    def load(self, text: str) -> None:
        """Take over saved topics; system topics that the document lacks are kept. Raises HeaderError."""
        wrapper = TopicConfigSerializeWrapper.decode(text.encode())
        for config in wrapper.topic_config_table.values():
            self._set(config)
        self.encoded.replace(self.table)
        self.data_version = wrapper.data_version

    def follow(self, text: str, now_ms: int) -> list[str]:
        """Take over the master's topics, and drop all others except system topics. Returns the dropped ones. Raises
        HeaderError."""
        wrapper = TopicConfigSerializeWrapper.decode(text.encode())
        if wrapper.data_version == self.data_version:
            return []
        found = wrapper.topic_config_table
        gone = [name for name in self.table if name not in found and not self.is_system(name)]
        for name in gone:
            del self.table[name], self.facts[name]
            self.epochs.note_deleted(name)
        news = [config for name, config in found.items() if self.table.get(name) != config]
        for config in news:
            # The number of a new topic may have arrived before the topic.
            self._put(config, now_ms, is_numbered=bool(self.epochs.of(config.topic_name)))
        self._changed([*gone, *[config.topic_name for config in news]], now_ms)
        self.data_version = wrapper.data_version
        return gone

    def _put(self, config: TopicConfig, now_ms: int, *, is_numbered: bool = False) -> None:
        if config.topic_name not in self.table and not is_numbered:
            self.epochs.note_created(config.topic_name, now_ms)
        self._set(config)

    def _set(self, config: TopicConfig) -> None:
        before = self.facts.get(config.topic_name)
        self.table[config.topic_name] = config
        if keeps_batches(config.attributes):
            self._keep_batches(config.topic_name)
        self.facts[config.topic_name] = TopicFacts(config, before)

    def _changed(self, names: list[str], now_ms: int) -> None:
        self.data_version = self.data_version.next(now_ms)
        self.changes += 1
        if names:
            self._changed_names.append(tuple(names))
        else:
            self._changed_names.clear()     # each topic changed in some way
        self.encoded.changed.update(dict.fromkeys(names))
        self._settings.next(self.unsaved, *names)
        for name in names if self.unsaved else ():
            if name in self.facts:
                self.facts[name].is_straight = False


def batch_topics_in(text: str) -> list[str]:
    """Topics of a saved document that have `queue.type=BatchCQ`. Raises HeaderError."""
    table = TopicConfigSerializeWrapper.decode(text.encode()).topic_config_table
    return [name for name, config in table.items() if keeps_batches(config.attributes)]


def _narrowed(config: TopicConfig, perm_mask: int) -> TopicConfig:
    return config if config.perm | perm_mask == perm_mask else replace(config, perm=config.perm & perm_mask)


def _written(config: TopicConfig) -> str:
    return _write_topic(_narrowed(config, _KNOWN_PERMISSIONS))


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
        _topic(topics.reply_topic(cluster), 1),
        _topic(topics.TIMER_TOPIC, 1),
        _topic(topics.REVIVE_TOPIC_PREFIX + cluster, REVIVE_QUEUE_NUMS),
        _topic(f"{topics.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{config.broker_name}", 1),
    ]
    if config.auto_create_topic_enable:
        made.append(_topic(topics.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, inherited))
    if config.trace_topic_enable:
        made.append(_topic(config.msg_trace_topic_name, 1))
    return made


def _topic(name: str, queue_nums: int, perm: int = permission.READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queue_nums, write_queue_nums=queue_nums, perm=perm)
