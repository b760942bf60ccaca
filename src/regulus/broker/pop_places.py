"""Where groups go on to pop, also after a kill: behind what is in flight.

A pop moves its group's offset, and offsets are saved now and then. The pops themselves are in the log, each with the
number of the last set-back of the offset that it moved (`offset_set_backs`). So beside the offsets it is saved from
where on the log knows of pops that the saved offsets may not know of: at the round before the last, as offsets and this
are two documents, of which a crash may leave one older than the other. A start reads the checkpoints behind that place,
and moves the offsets of their groups behind them, but for those of before a set-back: no message is handed out to a
second consumer before its time, and a group that was set back stays there.

A place is noted when the log has grown, too, so that a start does not read all of a log of which nobody pops.
"""

from regulus.broker.consumer_offsets import ConsumerOffsets
from regulus.broker.message_store import MessageStore
from regulus.broker.subscription_groups import SubscriptionGroups
from regulus.errors import CorruptRecord, StoreDamaged
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.record import pop_record
from regulus.record.pop_record import CK_TAG
from regulus.wire import encoded_table
from regulus.wire.encoded_table import Pieces
from regulus.wire.fastjson import loads

PLACE_STEP = 64 << 20
"""Bytes of the log after which a place is noted though nobody popped."""

_KEY = "logPosition"


class PopPlaces:
    """`changes` counts pops, and steps of the log, for saving."""

    def __init__(self, store: MessageStore, revive_topic: str, offsets: ConsumerOffsets,
                 groups: SubscriptionGroups) -> None:
        self._pops = 0
        self._store = store
        self._revive_topic = revive_topic
        self._offsets = offsets
        self._groups = groups
        self._last = self._before = -1
        self._loaded = -1

    @property
    def changes(self) -> int:
        return self._pops + self._store.commit_log_max_offset() // PLACE_STEP

    def note(self) -> None:
        """A group popped something."""
        self._pops += 1

    def document(self) -> Pieces:
        self._before, self._last = self._last, self._store.commit_log_max_offset()
        place = self._before if self._before >= 0 else max(self._loaded, 0) if self._loaded >= 0 else self._last
        return encoded_table.document({_KEY: place})

    def load(self, text: str) -> None:
        """Raises HeaderError."""
        value = loads(text)
        place = value.get(_KEY) if isinstance(value, dict) else None
        if isinstance(place, int) and place >= 0:
            self._loaded = place

    def pass_popped(self, now_ms: int) -> None:
        """At a start: proportional to the log behind the place that was saved."""
        if self._loaded < 0:
            return
        for message in self._store.messages_holding(self._revive_topic.encode(), self._loaded):
            number = _number(message.properties.get(names.SET_BACKS, ""))
            if number >= 0 and self._is_checkpoint(message):
                self._pass(message.physical_offset, number, now_ms)

    def _is_checkpoint(self, message: MessageExt) -> bool:
        return (message.tags == CK_TAG and names.TIMER_DEL_UNIQUE_KEY not in message.properties
                and self._revive_topic in (message.topic, message.properties.get(names.REAL_TOPIC)))

    def _pass(self, physical_offset: int, number: int, now_ms: int) -> None:
        try:
            message = self._store.look_message(physical_offset)
            checkpoint = pop_record.decode_checkpoint(message.body) if message is not None else None
            if checkpoint is None or not checkpoint.offsets:
                return
            key = checkpoint.key
            units = self._store.queue_units(key.topic, key.queue_id, checkpoint.offsets[-1], 1)
        except (CorruptRecord, StoreDamaged):
            return
        # Behind it in the log lie the messages of a topic that was deleted since, and made anew.
        is_same = bool(units) and units[0].queue_offset == checkpoint.offsets[-1] \
            and units[0].physical_offset < physical_offset
        # A group whose first pop this was may not be saved yet; one that was deleted has another number.
        if is_same and number >= self._offsets.set_back_number(key.group, key.topic, key.queue_id) \
                and self._groups.find(key.group, now_ms) is not None:
            self._offsets.restore(key.group, key.topic, key.queue_id, checkpoint.offsets[-1] + 1, number, now_ms)


def _number(text: str) -> int:
    """-1 for none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
