"""Where groups go on to pop, also after a kill: behind what is in flight.

A pop moves its group's offset, and offsets are saved now and then. The pops themselves are in the log, each with the
number of the last set-back of the offset that it moved (`offset_set_backs`). So beside the offsets it is saved from
where on the log knows of pops that the saved offsets may not know of: at the round before the last that was saved, as
offsets and this are two documents, of which a crash may leave one older than the other. A start reads the checkpoints
behind that place, and moves the offsets of their groups behind them, but for those of before a set-back: no message is
handed out to a second consumer before its time, and a group that was set back stays there.

A place is noted when the log has grown, too, so that a start does not read all of a log of which nobody pops. A slave
has its master's offsets: its place is where its log ended when it asked for them.
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
"""Bytes of the log after which a place is noted though nobody popped."""

_KEY = "logPosition"


class PopPlaces:
    """`changes` counts pops, and steps of the log, for saving."""

    def __init__(self, store: MessageStore, revive_topic: str, offsets: ConsumerOffsets, groups: SubscriptionGroups, *,
                 is_slave: bool) -> None:
        self._is_slave = is_slave
        self._followed = -1     # where a slave's log ended when it asked
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
        """A group popped something."""
        self._pops += 1

    def follow(self, log_end: int) -> None:
        """The master's offsets were taken over, who was asked for them when the log here ended there."""
        self._pops += log_end != self._followed
        self._followed = log_end

    def document(self) -> Pieces:
        place = self._last if self._last >= 0 else self._loaded if self._loaded >= 0 else self._known_place()
        return encoded_table.document({_KEY: place})

    def begin_saving(self) -> Callable[[], None]:
        """To be called when the document that is made now is saved, and the offsets of now with it."""
        place = self._known_place()

        def note_saved() -> None:
            self._last = place
        return note_saved

    def _known_place(self) -> int:
        """All pops before it are in the offsets."""
        if not self._is_slave:
            return self._store.commit_log_max_offset()
        return self._followed if self._followed >= 0 else max(self._loaded, 0)

    def load(self, text: str) -> None:
        """Raises HeaderError."""
        value = loads(text)
        place = value.get(_KEY) if isinstance(value, dict) else None
        if type(place) is not int or place < 0:
            raise HeaderError(f"the document of pops has no place of the log, {_KEY}")
        self._loaded = min(place, self._store.commit_log_max_offset())      # which was cut since

    def pass_popped(self, now_ms: int) -> int:
        """At a start: proportional to the log behind the place that was saved. When the last record of pops was stored
        there, 0 for none."""
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
        # Behind it in the log lie the messages of a topic that was deleted since, and made anew.
        is_same = bool(units) and units[0].queue_offset == checkpoint.offsets[-1] \
            and units[0].physical_offset < physical_offset
        # A group whose first pop this was may not be saved yet; one that was deleted has another number.
        if is_same and number >= self._offsets.set_back_number(key.group, key.topic, key.queue_id) \
                and self._groups.find(key.group, now_ms) is not None:
            self._offsets.restore(key.group, key.topic, key.queue_id, checkpoint.offsets[-1] + 1, number, now_ms)
