"""Offsets of groups: the queue offset of the next message to consume, for each group and queue.

Source: ConsumerOffsetManager. The table's key is `topic@group`, as in the saved file.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from regulus.broker.groups.offset_set_backs import Numbers, OffsetSetBacks, parse
from regulus.broker.groups.pull_offsets import PullOffsets
from regulus.broker.settings_changes import SettingsChanges
from regulus.model.topics import DataVersion
from regulus.wire import encoded_table
from regulus.wire.bodies import ConsumerOffsetSerializeWrapper
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.json_fields import to_value

COMMITS_PER_DATA_VERSION = 500
"""Commits after which slaves see a new version of the offsets."""
NOT_FOUND = -1


class Ahead(NamedTuple):
    """An offset that a slave has and its master lacks; `set_backs` is the number that belongs to it."""

    group: str
    topic: str
    queue_id: int
    consumer_offset: int
    set_backs: int


class ConsumerOffsets:
    """Consumer offsets by `topic@group` and queue id.

    `changes` counts changes, for saving. `last_removal` is the number of the last change that removed offsets: after
    the deletion of a topic is answered, it may be created again, and must not get old offsets after a crash.

    Indexes by topic and by group are kept as well, so that removing one costs no more than its own offsets.
    """

    def __init__(self, settings: SettingsChanges | None = None) -> None:
        self.table: dict[str, dict[int, int]] = {}
        self.data_version = DataVersion()
        self.changes = 0
        self.last_removal = -1
        self._settings = settings or SettingsChanges()
        self._topics_of: dict[str, dict[str, None]] = {}
        self._groups_of: dict[str, list[str]] = {}      # lists, because most topics have one group
        self._resets: dict[str, dict[int, int]] = {}
        self.pulls = PullOffsets()
        self.set_backs = OffsetSetBacks()
        self._committed_here: dict[tuple[str, int], None] | None = None
        self.encoded = EncodedTable(self.table, _write_queues)
        self._unencoded = self.encoded.changed

    def commit(self, group: str, topic: str, queue_id: int, consumer_offset: int, now_ms: int = 0) -> None:
        """Commit an offset. A smaller one than before is accepted: this is how consumers go back."""
        key = f"{topic}@{group}"
        if consumer_offset < self.table.get(key, {}).get(queue_id, NOT_FOUND):
            self.set_backs.note(key, queue_id, now_ms)
        if self._committed_here is not None:
            self._committed_here[key, queue_id] = None
        self._put(key, group, topic, queue_id, consumer_offset, now_ms)

    def _put(self, key: str, group: str, topic: str, queue_id: int, consumer_offset: int, now_ms: int) -> None:
        queues = self.table.get(key)
        if queues is None:
            queues = self.table[key] = {}
            self._enter(topic, group)
        if queue_id not in queues:
            self.set_backs.begin(key, queue_id)
        queues[queue_id] = consumer_offset
        self._unencoded[key] = None
        self.changes += 1
        if self.changes % COMMITS_PER_DATA_VERSION == 0:
            self.data_version = self.data_version.next(now_ms)

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """NOT_FOUND when the group never committed there."""
        queues = self.table.get(f"{topic}@{group}")
        return NOT_FOUND if queues is None else queues.get(queue_id, NOT_FOUND)

    def set_back_number(self, group: str, topic: str, queue_id: int) -> int:
        """Number of the last set-back of an offset, also of one that does not exist yet."""
        key = f"{topic}@{group}"
        return self.set_backs.of(key, queue_id) if queue_id in self.table.get(key, {}) else self.set_backs.removed_at

    def restore(self, group: str, topic: str, queue_id: int, consumer_offset: int, set_backs: int, now_ms: int) -> None:
        """At a start: restore an offset that was valid while `set_backs` was the number of its last set-back. Does
        nothing if the group is further now, or was set back since."""
        key = f"{topic}@{group}"
        known = self.set_back_number(group, topic, queue_id)
        if set_backs > known or (set_backs == known and consumer_offset > self.query(group, topic, queue_id)):
            self._put(key, group, topic, queue_id, consumer_offset, now_ms)
            if set_backs != known:
                self.set_backs.put(key, queue_id, set_backs)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """A copy: queue id to consumer offset."""
        return dict(self.table.get(f"{topic}@{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Topics for which the group committed offsets."""
        return list(self._topics_of.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that committed offsets for the topic."""
        return list(self._groups_of.get(topic, ()))

    def clone(self, source_group: str, group: str, topic: str, now_ms: int = 0) -> None:
        """Copy the offsets of `source_group` to `group`."""
        queues = self.table.get(f"{topic}@{source_group}")
        if queues:
            key = f"{topic}@{group}"
            before = self.table.get(key)
            if before is None:
                self._enter(topic, group)
                before = {}
            for queue_id in before.keys() | queues.keys():
                if queue_id not in before:
                    self.set_backs.begin(key, queue_id)
                elif queues.get(queue_id, NOT_FOUND) < before[queue_id]:
                    self.set_backs.note(key, queue_id, now_ms)
            self.table[key] = dict(queues)
            self._unencoded[key] = None
            self.changes += 1

    def remove_group(self, group: str, now_ms: int = 0) -> None:
        self.pulls.remove_group(group)
        topics = self._topics_of.pop(group, {})
        for topic in topics:
            groups = self._groups_of[topic]
            groups.remove(group)
            if not groups:
                del self._groups_of[topic]
        self._forget([f"{topic}@{group}" for topic in topics])
        if topics:
            self.set_backs.note_removed(group, now_ms)

    def remove_topic(self, topic: str) -> None:
        self.pulls.remove_topic(topic)
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
            self.set_backs.forget(key)
        if keys:
            self.changes += 1
            self.last_removal = self.changes
            self._settings.next({})

    # An operator's reset reaches the group once: in the answer to its next query of the offset, or to its next pull.

    def assign_reset(self, group: str, topic: str, queue_id: int, consumer_offset: int, now_ms: int = 0) -> None:
        """Set the offset, and keep it as pending until the answer to a pull of the queue contains it."""
        key = f"{topic}@{group}"
        self.commit(group, topic, queue_id, consumer_offset, now_ms)
        self.set_backs.note(key, queue_id, now_ms)      # also at a slave, and wherever the offset was
        self._resets.setdefault(key, {})[queue_id] = consumer_offset

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

    # A slave has its master's offsets, and reports offsets to it that consumers committed here while it was down.

    def be_copy(self) -> None:
        """From now on, remember which offsets are committed here."""
        self._committed_here = {}

    def follow(self, text: str, set_backs: str | None, now_ms: int) -> list[Ahead]:
        """Take over the master's offsets; offsets that it lacks stay. Returns the offsets that it must learn.

        A larger offset here stays unless the master's was set back. `set_backs` is the master's document of set-backs,
        which was made before the offsets, or None if it has none. Raises HeaderError.
        """
        wrapper = ConsumerOffsetSerializeWrapper.decode(text.encode())
        known = None if set_backs is None else parse(set_backs)
        ahead = []
        for key, queues in wrapper.offset_table.items():
            topic, is_pair, group = key.rpartition("@")
            ours = self.table.get(key, {})
            if not is_pair or ours == queues:
                continue
            for queue_id, consumer_offset in queues.items():
                own = ours.get(queue_id, NOT_FOUND)
                if own > consumer_offset and self._is_newer(key, queue_id, known):
                    ahead.append(Ahead(group, topic, queue_id, own, self.set_backs.of(key, queue_id)))
                elif own != consumer_offset:
                    self._put(key, group, topic, queue_id, consumer_offset, now_ms)
        if known is not None and known != self.set_backs.numbers:
            self._follow_numbers(known, wrapper.offset_table)
        return ahead + self._unknown_to(wrapper.offset_table)

    def _is_newer(self, key: str, queue_id: int, known: Numbers | None) -> bool:
        if known is None:
            return (key, queue_id) in (self._committed_here or ())
        return known.of(key, queue_id) == self.set_backs.of(key, queue_id)

    def _follow_numbers(self, known: Numbers, master: Mapping[str, Mapping[int, int]]) -> None:
        """Take over the master's numbers; an offset that began here keeps its own number until the master has it."""
        begun = {(key, queue_id): self.set_backs.of(key, queue_id) for key, queue_id in self._committed_here or ()
                 if queue_id not in master.get(key, {})}
        self.set_backs.follow(known)
        for (key, queue_id), number in begun.items():
            self.set_backs.put(key, queue_id, number)

    def _unknown_to(self, master: Mapping[str, Mapping[int, int]]) -> list[Ahead]:
        """Offsets that were committed here and that the master lacks."""
        unknown = []
        for key, queue_id in tuple(self._committed_here or ()):
            topic, _, group = key.rpartition("@")
            consumer_offset = self.query(group, topic, queue_id)
            if consumer_offset == NOT_FOUND or consumer_offset <= master.get(key, {}).get(queue_id, NOT_FOUND):
                self._forget_here(key, queue_id)
            elif queue_id not in master.get(key, {}):
                unknown.append(Ahead(group, topic, queue_id, consumer_offset, self.set_backs.of(key, queue_id)))
        return unknown

    def told(self, ahead: Ahead) -> None:
        """Note that the master received an offset, and decided about it."""
        if self.query(ahead.group, ahead.topic, ahead.queue_id) == ahead.consumer_offset:
            self._forget_here(f"{ahead.topic}@{ahead.group}", ahead.queue_id)

    def _forget_here(self, key: str, queue_id: int) -> None:
        if self._committed_here is not None:
            self._committed_here.pop((key, queue_id), None)

    def catch_up(self, ahead: Ahead, now_ms: int) -> None:
        """Take over an offset that a slave reports, if it `counts`."""
        if self.counts(ahead):
            self._put(f"{ahead.topic}@{ahead.group}", ahead.group, ahead.topic, ahead.queue_id, ahead.consumer_offset,
                      now_ms)

    def counts(self, ahead: Ahead) -> bool:
        """Whether a reported offset is larger, and was not set back or deleted here since the slave got it."""
        own = self.query(ahead.group, ahead.topic, ahead.queue_id)
        number = self.set_backs.of(f"{ahead.topic}@{ahead.group}", ahead.queue_id) if own != NOT_FOUND \
            else self.set_backs.removed_at
        return ahead.consumer_offset > own and ahead.set_backs == number

    def lower_to(self, end_of: Callable[[str, int], int], now_ms: int) -> None:
        """Lower offsets to the ends of their queues, after the log was cut or if it is behind the master's.

        A group with an offset after the end would skip the next messages. `end_of` returns, for a topic and queue id,
        the queue offset of the next message.
        """
        past = [(topic, group, queue_id, end) for key, queues in self.table.items()
                for topic, is_pair, group in [key.rpartition("@")] for queue_id, consumer_offset in queues.items()
                if is_pair and consumer_offset > (end := end_of(topic, queue_id))]
        for topic, group, queue_id, end in past:
            key = f"{topic}@{group}"
            self.set_backs.note(key, queue_id, now_ms)
            self._put(key, group, topic, queue_id, end, now_ms)

    def document(self) -> Pieces:
        """The table as it is saved, and as slaves get it."""
        return encoded_table.document({"dataVersion": to_value(self.data_version), "offsetTable": self.encoded})

    def load(self, text: str) -> None:
        """Take over saved offsets. Raises HeaderError."""
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
        """Note that the group committed its first offset for the topic."""
        self._topics_of.setdefault(group, {})[topic] = None
        self._groups_of.setdefault(topic, []).append(group)


def _write_queues(queues: dict[int, int]) -> str:
    # Writes the format of fastjson, which is slower because it checks the type of each key and value.
    members = sorted([(f'"{queue_id}"', consumer_offset) for queue_id, consumer_offset in queues.items()])
    return "{" + ",".join([f"\n\t\t\t{key}:{value}" for key, value in members]) + "\n\t\t}" if members else "{}"
