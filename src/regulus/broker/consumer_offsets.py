"""What each group has consumed of each queue: the queue offset of the next message to consume.

Source: ConsumerOffsetManager. The table's key is `topic@group`, as in the saved file.
"""

from regulus.broker.settings_changes import SettingsChanges
from regulus.model.topics import DataVersion
from regulus.wire import encoded_table
from regulus.wire.bodies import ConsumerOffsetSerializeWrapper
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.json_fields import to_value

COMMITS_PER_DATA_VERSION = 500
NOT_FOUND = -1


class ConsumerOffsets:
    """Consumer offsets by `topic@group` and queue id.

    `changes` counts changes, for saving; `last_removal` is the number of the last one that took offsets away: who is
    told that a topic is deleted may make it anew, and must not find them again after a crash.

    Who committed what stands beside the table, so that one topic or group costs what it has and not what there is.
    """

    def __init__(self, settings: SettingsChanges | None = None) -> None:
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        self.changes = 0
        self.last_removal = -1
        self._settings = settings or SettingsChanges()
        self._topics_of: dict[str, dict[str, None]] = {}
        self._groups_of: dict[str, list[str]] = {}      # lists, for most topics have one group
        self._resets: dict[str, dict[int, int]] = {}
        self._pulls: dict[str, dict[int, int]] = {}
        self.encoded = EncodedTable(self.table, _write_queues)
        self._unencoded = self.encoded.changed

    def commit(self, group: str, topic: str, queue_id: int, consumer_offset: int, now_ms: int = 0) -> None:
        """A smaller offset than the one kept is taken: it is how consumers go back."""
        key = f"{topic}@{group}"
        queues = self.table.get(key)
        if queues is None:
            queues = self.table[key] = {}
            self._enter(topic, group)
        queues[queue_id] = consumer_offset
        self._unencoded[key] = None
        self.changes += 1
        if self.changes % COMMITS_PER_DATA_VERSION == 0:
            self.data_version = self.data_version.next(now_ms)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """NOT_FOUND when the group never committed there."""
        queues = self.table.get(f"{topic}@{group}")
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """A copy: queue id to consumer offset."""
        return dict(self.table.get(f"{topic}@{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics of which the group committed anything."""
        return list(self._topics_of.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that committed anything of the topic."""
        return list(self._groups_of.get(topic, ()))

    def clone(self, source_group: str, group: str, topic: str) -> None:
        """`group` takes over the offsets of `source_group`."""
        queues = self.table.get(f"{topic}@{source_group}")
        if queues:
            key = f"{topic}@{group}"
            if key not in self.table:
                self._enter(topic, group)
            self.table[key] = dict(queues)
            self._unencoded[key] = None
            self.changes += 1

    def remove_group(self, group: str) -> None:
        topics = self._topics_of.pop(group, {})
        for topic in topics:
            groups = self._groups_of[topic]
            groups.remove(group)
            if not groups:
                del self._groups_of[topic]
        self._forget([f"{topic}@{group}" for topic in topics])

    def remove_topic(self, topic: str) -> None:
        groups = self._groups_of.pop(topic, [])
        for group in groups:
            topics = self._topics_of[group]
            del topics[topic]
            if not topics:
                del self._topics_of[group]
        self._forget([f"{topic}@{group}" for group in groups])

    def _forget(self, keys: list[str]) -> None:
        for key in keys:
            del self.table[key]
            self._unencoded[key] = None
            self._resets.pop(key, None)
            self._pulls.pop(key, None)
        if keys:
            self.changes += 1
            self.last_removal = self.changes
            self._settings.next({})

    # An operator's reset is told to the group once: its next query of the offset gets it, its next pull is sent there.

    def assign_reset(self, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        """Set the offset, and hold it until a pull of the queue has been told."""
        self.commit(group, topic, queue_id, consumer_offset)
        self._resets.setdefault(f"{topic}@{group}", {})[queue_id] = consumer_offset

    def pending_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        if not self._resets:
            return None
        return self._resets.get(f"{topic}@{group}", {}).get(queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The pending reset, which is then no longer pending."""
        if not self._resets:
            return None
        key = f"{topic}@{group}"
        queues = self._resets.get(key)
        if queues is None:
            return None
        consumer_offset = queues.pop(queue_id, None)
        if not queues:
            del self._resets[key]
        return consumer_offset

    # How far a group has pulled, which may be ahead of what it committed; for statistics only.

    def note_pull(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        self._pulls.setdefault(f"{topic}@{group}", {})[queue_id] = queue_offset

    def pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """NOT_FOUND when the group did not pull there since the broker started."""
        return self._pulls.get(f"{topic}@{group}", {}).get(queue_id, NOT_FOUND)

    def follow(self, text: str, now_ms: int) -> None:
        """Take over the master's offsets; what it does not know stays. Raises HeaderError."""
        wrapper = ConsumerOffsetSerializeWrapper.decode(text.encode())
        for key, queues in wrapper.offset_table.items():
            topic, is_pair, group = key.rpartition("@")
            if is_pair and self.table.get(key) != queues:
                for queue_id, consumer_offset in queues.items():
                    self.commit(group, topic, queue_id, consumer_offset, now_ms)

    def document(self) -> Pieces:
        """The table as it is saved, and as it travels."""
        return encoded_table.document({"dataVersion": to_value(self.data_version), "offsetTable": self.encoded})

    def load(self, text: str) -> None:
        """Raises HeaderError."""
        wrapper = ConsumerOffsetSerializeWrapper.decode(text.encode())
        self.table = {key: dict(queues) for key, queues in wrapper.offset_table.items()}
        self.encoded.replace(self.table)
        self._topics_of.clear()
        self._groups_of.clear()
        for key in self.table:
            topic, is_pair, group = key.rpartition("@")
            if is_pair:
                self._enter(topic, group)
        if wrapper.data_version is not None:
            self.data_version = wrapper.data_version

    def _enter(self, topic: str, group: str) -> None:
        """The group committed something of the topic for the first time."""
        self._topics_of.setdefault(group, {})[topic] = None
        self._groups_of.setdefault(topic, []).append(group)


def _write_queues(queues: dict[int, int]) -> str:
    # As fastjson writes it, which looks at each key and value what it may be.
    members = sorted([(f'"{queue_id}"', consumer_offset) for queue_id, consumer_offset in queues.items()])
    return "{" + ",".join([f"\n\t\t\t{key}:{value}" for key, value in members]) + "\n\t\t}" if members else "{}"
