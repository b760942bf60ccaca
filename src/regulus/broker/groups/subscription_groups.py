"""The consumer groups of a broker, and the topics that each may not read. Source: SubscriptionGroupManager."""

from regulus.broker.settings_changes import SettingsChanges
from regulus.model.topics import SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, DataVersion, SubscriptionGroupConfig, name_fault
from regulus.wire import encoded_table, fastjson
from regulus.wire.bodies import SubscriptionGroupWrapper
from regulus.wire.encoded_table import EncodedTable, Pieces
from regulus.wire.json_fields import pretty_writer, to_value

READ_FORBIDDEN = 1


class SubscriptionGroups:
    """Group settings by name. `changes` counts changes, for saving. With `auto_create` a group is created when it is
    first used. `unsaved` are groups whose current settings are not on disk."""

    def __init__(self, auto_create: bool, settings: SettingsChanges | None = None) -> None:
        self.auto_create = auto_create
        self.table: dict[str, SubscriptionGroupConfig] = {
            name: SubscriptionGroupConfig(group_name=name) for name in SYSTEM_GROUPS}
        self._followed: frozenset[str] = frozenset()
        """On a slave: the groups in its master's last report."""
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()
        self.changes = 0
        self.unsaved: dict[str, int] = {}
        self._settings = settings or SettingsChanges()
        self.encoded = EncodedTable(self.table, pretty_writer(SubscriptionGroupConfig, 2), "groups")
        self._encoded_forbidden = EncodedTable(self.forbidden, _write_forbidden)

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        """The group, if it exists; never creates it."""
        return self.table.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def names(self) -> list[str]:
        return list(self.table)

    def find(self, name: str, now_ms: int) -> SubscriptionGroupConfig | None:
        """The group. Creates an unknown one if that is allowed, otherwise returns None."""
        config = self.table.get(name)
        if self.unsaved:
            self._settings.use(self.unsaved, name)
        if config is None and (self.auto_create or name.startswith(SYSTEM_GROUP_PREFIX)) \
                and name_fault(name, "group") is None:
            config = SubscriptionGroupConfig(group_name=name)
            self.put(config, now_ms)
        return config

    def put(self, config: SubscriptionGroupConfig, now_ms: int) -> None:
        self.table[config.group_name] = config
        self._changed(config.group_name, now_ms)

    def delete(self, name: str, now_ms: int) -> bool:
        """False when there was no such group."""
        if self.table.pop(name, None) is None:
            return False
        self.forbidden.pop(name, None)
        self._changed(name, now_ms)
        return True

    def is_readable(self, group: str, topic: str) -> bool:
        """Whether the group may read the topic; operators can forbid it."""
        topics = self.forbidden.get(group)
        return topics is None or topics.get(topic, 0) & READ_FORBIDDEN == 0

    def set_readable(self, group: str, topic: str, readable: bool, now_ms: int) -> None:
        if readable == self.is_readable(group, topic):
            return
        if readable:
            del self.forbidden[group][topic]
            if not self.forbidden[group]:
                del self.forbidden[group]
        else:
            self.forbidden.setdefault(group, {})[topic] = READ_FORBIDDEN
        self._changed(group, now_ms)

    def document(self) -> Pieces:
        """The tables as they are saved, and as slaves get them."""
        return encoded_table.document({
            "dataVersion": to_value(self.data_version), "forbiddenTable": self._encoded_forbidden,
            "subscriptionGroupTable": self.encoded})

    def settings_saved(self) -> None:
        self._settings.take_saved(self.unsaved)

    def load(self, text: str) -> None:
        """Take over saved groups; system groups that the document lacks are kept. Raises HeaderError."""
        wrapper = SubscriptionGroupWrapper.decode(text.encode())
        self.table.update(wrapper.subscription_group_table)
        self.forbidden = {group: dict(topics) for group, topics in (wrapper.forbidden_table or {}).items() if topics}
        self.encoded.replace(self.table)
        self._encoded_forbidden.replace(self.forbidden)
        self.data_version = wrapper.data_version

    def follow(self, text: str, now_ms: int) -> list[str]:
        """Take over the master's groups, and drop all others except system groups. Returns those that an earlier report
        of the master had. Raises HeaderError."""
        wrapper = SubscriptionGroupWrapper.decode(text.encode())
        if wrapper.data_version == self.data_version:
            return []
        found, forbidden = wrapper.subscription_group_table, wrapper.forbidden_table or {}
        gone = [name for name in self.table if name not in found and name not in SYSTEM_GROUPS]
        for name in gone:
            self.delete(name, now_ms)
        for name in [*found, *self.forbidden]:
            topics = dict(forbidden.get(name) or {})
            if self.table.get(name) != found.get(name) or self.forbidden.get(name, {}) != topics:
                if name in found:
                    self.table[name] = found[name]
                if topics:
                    self.forbidden[name] = topics
                else:
                    self.forbidden.pop(name, None)
                self._changed(name, now_ms)
        self.data_version = wrapper.data_version
        before, self._followed = self._followed, frozenset(found)
        return [name for name in gone if name in before]

    def _changed(self, name: str, now_ms: int) -> None:
        self.data_version = self.data_version.next(now_ms)
        self.changes += 1
        self.encoded.changed[name] = None
        self._encoded_forbidden.changed[name] = None
        self._settings.next(self.unsaved, name)


def _write_forbidden(topics: dict[str, int]) -> str:
    return fastjson.dumps_pretty(topics, 2)
