"""Finds where groups continue to pop after a kill: after the messages that are in flight.

A pop moves its group's offset, and offsets are saved at intervals. The pops themselves are in the log, each with the
number of the last set-back of the offset that it moved (`offset_set_backs`). The saved place is a position of the log
from which on there may be pops that the saved offsets lack. It lags by one save, because offsets and place are two
documents, and after a crash one may be older than the other. A start reads the checkpoints after the place, and moves
the offsets of their groups beyond them, except those from before a set-back. No message is given to a second consumer
before its time, and a group that was set back stays there.

The place is also saved when the log has grown, so that a start does not read a whole log without pops. A slave has its
master's offsets: its place is the end of its log when it asked for them.
"""

from collections.abc import Callable

from regulus.broker.groups.consumer_offsets import ConsumerOffsets
from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.message_store import MessageStore
from regulus.errors import CorruptRecord, HeaderError, StoreDamaged
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.record import pop_record
from regulus.record.pop_record import CK_TAG
from regulus.wire import encoded_table
from regulus.wire.encoded_table import Pieces
from regulus.wire.fastjson import loads

PLACE_STEP = 64 << 20
"""Bytes of the log after which a place is saved, even without pops."""

_KEY = "logPosition"


class PopPlaces:
    """The place to save. `changes` counts pops, and steps of the log, for saving."""

    def __init__(self, store: MessageStore, revive_topic: str, offsets: ConsumerOffsets, groups: SubscriptionGroups, *,
                 is_slave: bool) -> None:
        self._is_slave = is_slave
        self._followed = -1     # end of a slave's log when it asked for offsets
        self._pops = 0
        self._store = store
        self._revive_topic = revive_topic
        self._offsets = offsets
        self._groups = groups
        self._last = -1
        self._loaded = -1

    @property
    def changes(self) -> int:
        return self._pops + self._store.commit_log_max_offset() // PLACE_STEP

    def note(self) -> None:
        """Count a pop."""
        self._pops += 1

    def follow(self, log_end: int) -> None:
        """Note that the master's offsets were taken over; `log_end` is where the log here ended when they were
        requested."""
        self._pops += log_end != self._followed
        self._followed = log_end

    def document(self) -> Pieces:
        place = self._last if self._last >= 0 else self._loaded if self._loaded >= 0 else self._known_place()
        return encoded_table.document({_KEY: place})

    def begin_saving(self) -> Callable[[], None]:
        """The returned function is called when the document made now, and the current offsets, are saved."""
        place = self._known_place()

        def note_saved() -> None:
            self._last = place
        return note_saved

    def _known_place(self) -> int:
        """The position before which all pops are in the offsets."""
        if not self._is_slave:
            return self._store.commit_log_max_offset()
        return self._followed if self._followed >= 0 else max(self._loaded, 0)

    def load(self, text: str) -> None:
        """Take over a saved place. Raises HeaderError."""
        value = loads(text)
        place = value.get(_KEY) if isinstance(value, dict) else None
        if type(place) is not int or place < 0:
            raise HeaderError(f"the document of pops has no position of the log, {_KEY}")
        self._loaded = min(place, self._store.commit_log_max_offset())      # the log may have been cut since

    def pass_popped(self, now_ms: int) -> int:
        """At a start: move offsets beyond the pops after the saved place. Cost is proportional to the log after it.

        Returns the store time in ms of the last record about pops there, 0 if there is none.
        """
        stored_ms = 0
        if self._loaded < 0:
            return stored_ms
        for message in self._store.messages_holding(self._revive_topic.encode(), self._loaded):
            stored_ms = max(stored_ms, message.store_timestamp)
            number = names.number(message.properties.get(names.SET_BACKS))
            if number >= 0 and self._is_checkpoint(message):
                self._pass(message.physical_offset, number, now_ms)
        return stored_ms

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
        # A message after the checkpoint in the log is of a topic that was deleted since, and created again.
        is_same = bool(units) and units[0].queue_offset == checkpoint.offsets[-1] \
            and units[0].physical_offset < physical_offset
        # A group whose first pop this was may not be saved yet; one that was deleted has another number.
        if is_same and number >= self._offsets.set_back_number(key.group, key.topic, key.queue_id) \
                and self._groups.find(key.group, now_ms) is not None:
            self._offsets.restore(key.group, key.topic, key.queue_id, checkpoint.offsets[-1] + 1, number, now_ms)
