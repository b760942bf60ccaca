"""The units of the timer files, big-endian.

One record of the timer log, 52 bytes: a message that waits.

    offset  size  field
         0     4  size              52
         4     8  previous          position of the record before it in the same slot, -1 for none
        12     4  kind              bits: 1 always, 2 to be put back (its time is beyond the wheel), 4 takes another
                                    out, 8 entered again (ours; RocketMQ ignores it)
        16     8  entered_ms        when it was entered
        24     4  wait_ms           from then until its slot
        28     8  physical_offset   of the message in the commit log
        36     4  message_size
        40     4  topic_hash        Java hash of the topic where it goes
        44     8  reserved          0

When a file has less room than a record and its blank (16 bytes), a blank ends it: 4 bytes the size of the rest, 8 of
zeros, 4 BLANK_MAGIC.

One slot of the wheel, 32 bytes:

    offset  size  field
         0     8  time              of the slot, in units of the precision
         8     8  first             position of its first record, -1 for none
        16     8  last              of its last
        24     4  waiting
        28     4  magic             0

The checkpoint, 4096 bytes of which RocketMQ uses 56; the rest is ours, and zero where it wrote the file last:

    offset  size  field
         0     8  read_ms           all slots before are done
         8     8  timer_log_end     up to which the timer log was on disk
        16     8  queue_offset      of the timer topic: messages before it were entered
        24     8  master_offset     that of the master
        32    24  data version      state version, timestamp, counter
        56     8  log_position      of the commit log: deliveries of the slot `read_ms` since then are after it
        64     4  done              records of that slot that were done
        68     4  checksum          of the 68 bytes before
        72     4  version_checksum  of the data version. It distinguishes a damaged file from one that RocketMQ
                                    continued: it counts its changes there, and keeps our fields

Source: TimerLog, Slot, TimerWheel, TimerCheckpoint, TimerMessageStore.doEnqueue.
"""

from struct import Struct
from typing import NamedTuple

from regulus.record.checksum import crc32

RECORD_SIZE = 52
BLANK_SIZE = 16
BLANK_MAGIC = 0xCBD43194
SLOT_SIZE = 32
SLOTS = 2 * 604_800
"""The slots of the wheel. Half of them are ahead of the current time."""
CHECK_SIZE = 4096
NOWHERE = -1

DEFAULT_KIND = 1
ROLL_KIND = 2
DELETE_KIND = 4
AGAIN_KIND = 8
_KINDS_MAX = 0xF

_RECORD = Struct(">iqiqiqiiq")
_BLANK = Struct(">iqI")
SLOT = Struct(">qqqii")
_CHECK = Struct(">qqqqqqqqi")
_VERSION = slice(32, 56)
_SUMS = Struct(">II")


class TimerRecord(NamedTuple):
    """A message that waits. `previous` is set in a record that was read."""

    slot_ms: int
    """The time of its slot: `entered_ms` + `wait_ms`."""
    kind: int
    entered_ms: int
    physical_offset: int
    message_size: int
    topic_hash: int
    previous: int = NOWHERE


class TimerSlot(NamedTuple):
    time: int
    first: int = NOWHERE
    last: int = NOWHERE
    waiting: int = 0


class TimerCheck(NamedTuple):
    read_ms: int = 0
    timer_log_end: int = 0
    queue_offset: int = 0
    master_offset: int = 0
    state_version: int = 0
    version_timestamp: int = 0
    version_counter: int = 0
    log_position: int = NOWHERE
    """NOWHERE if RocketMQ wrote the file."""
    done: int = 0


def encode(record: TimerRecord, previous: int) -> bytes:
    """`previous` is where the record before it in its slot begins; NOWHERE for the first."""
    slot_ms, kind, entered_ms, physical_offset, message_size, topic_hash, _ = record
    return _RECORD.pack(RECORD_SIZE, previous, kind, entered_ms, slot_ms - entered_ms, physical_offset, message_size,
                        topic_hash, 0)


def decode(data: bytes | memoryview, position: int = 0) -> TimerRecord | None:
    """The record at `position`; None when there is none."""
    size, previous, kind, entered_ms, wait_ms, physical_offset, message_size, topic_hash, _ = _RECORD.unpack_from(
        data, position)
    if size != RECORD_SIZE or not 0 < kind <= _KINDS_MAX or physical_offset < 0 or previous < NOWHERE:
        return None
    return TimerRecord(entered_ms + wait_ms, kind, entered_ms, physical_offset, message_size, topic_hash, previous)


def blank(room: int) -> bytes:
    """The bytes that end a file with `room` bytes left."""
    return _BLANK.pack(room, 0, BLANK_MAGIC)


def encode_slot(slot: TimerSlot) -> bytes:
    return SLOT.pack(slot.time, slot.first, slot.last, slot.waiting, 0)


def decode_slot(data: bytes | memoryview, position: int = 0) -> TimerSlot:
    time, first, last, waiting, _ = SLOT.unpack_from(data, position)
    return TimerSlot(time, first, last, waiting)


def encode_check(check: TimerCheck) -> bytes:
    data = _CHECK.pack(*check)
    return (data + _SUMS.pack(crc32(data), crc32(data[_VERSION]))).ljust(CHECK_SIZE, b"\0")


def encode_told_check(check: TimerCheck) -> bytes:
    """The checkpoint as it is sent to a slave: RocketMQ's 56 bytes."""
    return _CHECK.pack(*check)[:56]


def decode_check(data: bytes) -> TimerCheck:
    """The checkpoint. Missing fields, and our fields if RocketMQ wrote the file, have their initial values; so do all
    fields if our last write is damaged."""
    size = _CHECK.size
    check = TimerCheck(*_CHECK.unpack(data[:size].ljust(size, b"\0")))
    if len(data) >= size + _SUMS.size:
        checksum, version_checksum = _SUMS.unpack_from(data, size)
        if checksum == crc32(data[:size]):
            return check
        if version_checksum == crc32(data[_VERSION]):
            return TimerCheck()
    return check._replace(log_position=NOWHERE, done=0)
