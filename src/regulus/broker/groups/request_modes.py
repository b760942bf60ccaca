"""Modes in which groups get the messages of a topic, if their members leave that to the broker: PULL or POP.

Source: MessageRequestModeManager.
"""

from regulus.broker.settings_changes import SettingsChanges
from regulus.wire import encoded_table
from regulus.wire.bodies import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody
from regulus.wire.encoded_table import Pieces
from regulus.wire.json_fields import to_value

PULL, POP = "PULL", "POP"
MODES_MAX = 100_000
"""Pairs of topic and group with a mode; all others pull."""


class RequestModes:
    def __init__(self, settings: SettingsChanges) -> None:
        self.changes = 0
        self._settings = settings
        self._unsaved: dict[str, int] = {}
        self._table: dict[str, dict[str, SetMessageRequestModeRequestBody]] = {}

    def find(self, topic: str, group: str) -> SetMessageRequestModeRequestBody:
        found = self._table.get(topic, {}).get(group)
        return found or SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode=PULL)

    @property
    def is_full(self) -> bool:
        return sum(map(len, self._table.values())) >= MODES_MAX

    def put(self, mode: SetMessageRequestModeRequestBody) -> None:
        self._table.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.changes += 1
        self._settings.next(self._unsaved)

    def wrapper(self) -> MessageRequestModeSerializeWrapper:
        return MessageRequestModeSerializeWrapper(message_request_mode_map=self._table)

    def document(self) -> Pieces:
        return encoded_table.document(to_value(self.wrapper()))

    def load(self, text: str) -> None:
        """Take over saved modes. Raises HeaderError."""
        self._table = dict(MessageRequestModeSerializeWrapper.decode(text.encode()).message_request_mode_map)

    def follow(self, text: str) -> None:
        """Take over a master's modes. Raises HeaderError."""
        before = self._table
        self.load(text)
        if before != self._table:
            self.changes += 1
            self._settings.next(self._unsaved)
