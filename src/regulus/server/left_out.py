"""What a start with `takeWhatIsReadable` leaves out of a store that RocketMQ 5.5 kept partly in RocksDB, counted.

The log has all of it: the halves and what ended them are messages, and so are timers.
"""

from collections.abc import Iterator

from regulus.broker.timers.timers import Timers
from regulus.errors import RecordError, StoreDamaged
from regulus.model import message_properties as names
from regulus.model.message import MessageExt
from regulus.model.message_filter import EVERYTHING
from regulus.model.topics import ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC, TIMER_TOPIC
from regulus.record import message_record
from regulus.store.file_message_store import FileMessageStore
from regulus.store.rocksdb_parts import offsets_ahead, rocksdb_parts

LOOKED_AT_MAX = 1_000_000
"""Messages of one topic; what lies behind them is not counted."""
_AT_ONCE = 32
_BYTES_AT_ONCE = 1 << 20


def left_out(store: FileMessageStore, timers: Timers, now_ms: int) -> str:
    """A sentence with numbers; empty where nothing of RocketMQ's lies there. At a start: proportional to the halves
    and timers that the log has. Raises StoreDamaged for a document of offsets."""
    if not rocksdb_parts(store.config):
        return ""
    queues = offsets_ahead(store.config.root / "config")
    try:
        counts = ", ".join((_halves(store), *_timers(store, timers, now_ms)))
    except (StoreDamaged, RecordError) as error:
        counts = f"half messages and timers that cannot be counted ({error})"
    if _is_longer(store):
        counts += f" (of the first {LOOKED_AT_MAX} messages of each topic)"
    return ("takeWhatIsReadable is set, and what RocketMQ 5.5 kept in RocksDB or in lmqConsumerOffset.json is left "
            f"out: {counts}, {queues} queues in which a group is set back to an earlier consumer offset; pops that "
            "were in flight come again from the log")


def _halves(store: FileMessageStore) -> str:
    ended = {names.number(message.properties.get(names.TRANSACTION_HALF_OFFSET))
             for message in _messages(store, ROCKSDB_OP_HALF_TOPIC)}
    count = sum(message.physical_offset not in ended for message in _messages(store, ROCKSDB_HALF_TOPIC))
    return f"{count} open half messages that are never asked for"


def _timers(store: FileMessageStore, timers: Timers, now_ms: int) -> Iterator[str]:
    entered = {record.physical_offset for record in store.timers.waiting()}
    never = again = 0
    for message in _messages(store, TIMER_TOPIC):
        is_to_come = names.number(message.properties.get(names.TIMER_OUT_MS)) >= now_ms
        if message.queue_offset >= timers.queue_offset:
            again += not is_to_come
        elif is_to_come:
            never += message.physical_offset not in entered
    yield f"{never} timers that never come"
    yield f"{again} timers that are due and come now, whether they have come before or not"


def _is_longer(store: FileMessageStore) -> bool:
    return any(store.max_offset(topic, 0) - store.min_offset(topic, 0) > LOOKED_AT_MAX
               for topic in (ROCKSDB_HALF_TOPIC, ROCKSDB_OP_HALF_TOPIC, TIMER_TOPIC))


def _messages(store: FileMessageStore, topic: str) -> Iterator[MessageExt]:
    """Of its one queue. Raises StoreDamaged, RecordError."""
    offset = store.min_offset(topic, 0)
    end = min(store.max_offset(topic, 0), offset + LOOKED_AT_MAX)
    while offset < end:
        found = store.get_message(topic, 0, offset, min(_AT_ONCE, end - offset), _BYTES_AT_ONCE, EVERYTHING)
        for buffer in found.buffers:
            yield from message_record.decode_all(buffer)
        if found.next_begin_offset <= offset:
            return
        offset = found.next_begin_offset
