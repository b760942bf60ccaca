"""Where groups go on to pop, also after a kill: behind what is in flight.

A pop moves its group's offset, and offsets are saved now and then. The pops themselves are in the log. So beside the
offsets it is saved from where on the log knows of pops that the saved offsets may not know of: at the round before the
last, as offsets and this are two documents, of which a crash may leave one older than the other. A start reads the
checkpoints behind that place, and moves the offsets of their groups behind them: no message is handed out to a second
consumer before its time.
"""

from regulus.broker.consumer_offsets import NOT_FOUND, ConsumerOffsets
from regulus.broker.message_store import MessageStore
from regulus.errors import CorruptRecord
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.record import pop_record
from regulus.record.pop_record import CK_TAG
from regulus.wire import encoded_table
from regulus.wire.encoded_table import Pieces
from regulus.wire.fastjson import loads

_KEY = "logPosition"


class PopPlaces:
    """`changes` counts pops, for saving."""

    def __init__(self, store: MessageStore, revive_topic: str, offsets: ConsumerOffsets) -> None:
        self.changes = 0
        self._store = store
        self._revive_topic = revive_topic
        self._offsets = offsets
        self._last = self._before = -1
        self._loaded = -1

    def note(self) -> None:
        """A group popped something."""
        self.changes += 1

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
            if self._is_checkpoint(message):
                self._pass(message.physical_offset, now_ms)

    def _is_checkpoint(self, message: MessageExt) -> bool:
        return (message.tags == CK_TAG and names.TIMER_DEL_UNIQUE_KEY not in message.properties
                and self._revive_topic in (message.topic, message.properties.get(names.REAL_TOPIC)))

    def _pass(self, physical_offset: int, now_ms: int) -> None:
        message = self._store.look_message(physical_offset)
        if message is None:
            return
        try:
            checkpoint = pop_record.decode_checkpoint(message.body)
        except CorruptRecord:
            return
        key = checkpoint.key
        behind = max(checkpoint.offsets, default=-1) + 1
        known = self._offsets.query(key.group, key.topic, key.queue_id)
        # One that begins further on is of before the group was set back, or behind messages that nobody wanted.
        is_next = known == NOT_FOUND or key.start_offset <= known < behind
        if is_next and behind <= self._store.max_offset(key.topic, key.queue_id):
            self._offsets.commit(key.group, key.topic, key.queue_id, behind, now_ms)
