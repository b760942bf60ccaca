"""Detect what RocketMQ 5.5 keeps in RocksDB besides the files that are read here, by names and files alone.

    rocksdbstore                                        timers, open halves and keys; every 5.5 makes it, an unused one
                                                        has one empty log (nothing else, if it was killed at once)
    consumequeue/RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC       half messages that no other broker reads
    consumequeue/rmq_sys_wheel_timer                    has messages that the timer log lacks, if RocksDB drove them
    kvStore                                             pops in flight
    config/lmqConsumerOffset.json                       the offsets of all groups, once enableLmq is on

Source: MessageRocksDBStorage, TransMessageRocksDBStore, TimerMessageRocksDBStore, PopConsumerRocksdbStore,
LmqConsumerOffsetManager.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from regulus.errors import HeaderError, StoreDamaged
from regulus.model.topics import ROCKSDB_HALF_TOPIC, TIMER_TOPIC
from regulus.record import consume_queue_unit, timer_units
from regulus.record.consume_queue_unit import UNIT_SIZE
from regulus.record.synced_mark import HEAD_SIZE
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.json_file import JsonFiles
from regulus.store.log_heads import head_at
from regulus.store.mapped_file_queue import file_name
from regulus.wire.bodies import ConsumerOffsetSerializeWrapper

OFFSETS_DOCUMENT, LMQ_OFFSETS_DOCUMENT = "consumerOffset", "lmqConsumerOffset"
ENTERED_WITHIN_MS = 5_000
"""A broker whose wheel holds the timers has entered each of them by then."""

_DATABASE_FILE = re.compile(r"\d+\.(?:sst|log)")


def rocksdb_parts(config: MessageStoreConfig) -> list[str]:
    """What is kept where, and what is lost without it: one clause each. Raises StoreDamaged for a document of
    offsets."""
    return [clause for clause in (_database(config.root), _halves(config.root), _timers(config), _pops(config.root),
                                  _offsets(config.root / "config")) if clause]


def _database(root: Path) -> str:
    folder = root / "rocksdbstore"
    if any(_DATABASE_FILE.fullmatch(name) and disk.file_size(folder / name) for name in disk.names(folder)):
        return (f"{folder} is in use (timerRocksDBEnable, transRocksDBEnable or indexRocksDBEnable): timers that wait "
                "would never come or those that came would come again, and half messages would not be asked for")
    return ""


def _halves(root: Path) -> str:
    folder = root / "consumequeue" / ROCKSDB_HALF_TOPIC
    if any(disk.names(folder / queue) for queue in disk.names(folder, directories=True)):
        return (f"{folder} has half messages (transWriteOriginTransHalfEnable=false): those that are open would never "
                "be asked for or delivered")
    return ""


def _timers(config: MessageStoreConfig) -> str:
    """RocksDB drove the timers if the first of them is not in the timer log, although the note, written every second,
    is much later."""
    if not disk.is_directory(config.root / "rocksdbstore") or _has_timer_record(config.root / "timerlog"):
        return ""
    folder = config.consume_queue_directory / TIMER_TOPIC / "0"
    stored_ms = _first_stored_ms(folder, config.commit_log_directory)
    noted = disk.read_file(config.root / "config" / "timercheck") or b""
    noted_ms = timer_units.decode_check(noted).version_timestamp if len(noted) >= timer_units.CHECK_SIZE else 0
    if stored_ms is None or noted_ms < stored_ms + ENTERED_WITHIN_MS:
        return ""
    return (f"{folder} has messages of which {config.root / 'timerlog'} knows nothing (timerRocksDBEnable): those that "
            "wait would never come or those that came would come again")


def _has_timer_record(folder: Path) -> bool:
    return any(timer_units.decode(head) is not None
               for head in (disk.read_at(folder / name, 0, timer_units.RECORD_SIZE) for name in disk.names(folder))
               if len(head) == timer_units.RECORD_SIZE)


def _first_stored_ms(folder: Path, log_folder: Path) -> int | None:
    """When the first message of a queue was stored; None when there is none, or the log no longer has it."""
    for name in disk.names(folder)[:1]:
        data = disk.read_at(folder / name, 0, UNIT_SIZE)
        unit = consume_queue_unit.decode(data) if len(data) == UNIT_SIZE else None
        log_names = disk.names(log_folder)
        if unit is None or not unit.size or not log_names:
            return None
        file_size = disk.file_size(log_folder / log_names[0])
        place = unit.physical_offset % max(file_size, 1)
        log_name = file_name(unit.physical_offset - place)
        if log_name in log_names:
            head = head_at(disk.read_at(log_folder / log_name, place, HEAD_SIZE), 0, unit.physical_offset)
            return head.store_timestamp if head is not None else None
    return None


def _pops(root: Path) -> str:
    folder = root / "kvStore"
    if disk.names(folder):
        return (f"{folder} has pops in flight (popConsumerKVServiceEnable): messages that were popped would come again "
                "from the log, acknowledged ones too")
    return ""


def _offsets(folder: Path) -> str:
    count = offsets_ahead(folder)
    if count:
        return (f"{folder / LMQ_OFFSETS_DOCUMENT}.json is further on than {OFFSETS_DOCUMENT}.json in {count} queues of "
                "groups (enableLmq): these groups would consume again what they have consumed")
    return ""


def offsets_ahead(folder: Path) -> int:
    """In how many queues groups are further ahead in the document to which enableLmq moves all offsets. Raises
    StoreDamaged."""
    known = dict(_rows(folder, OFFSETS_DOCUMENT))
    return sum(offset > known.get(place, 0) for place, offset in _rows(folder, LMQ_OFFSETS_DOCUMENT))


def _rows(folder: Path, name: str) -> Iterator[tuple[tuple[str, int], int]]:
    text = JsonFiles(folder).load(name)
    try:
        wrapper = ConsumerOffsetSerializeWrapper.decode(text.encode()) if text else ConsumerOffsetSerializeWrapper()
    except HeaderError as error:
        raise StoreDamaged(f"{folder / name}.json cannot be read: {error}") from error
    for key, queues in wrapper.offset_table.items():
        for queue_id, offset in queues.items():
            yield (key, queue_id), offset
