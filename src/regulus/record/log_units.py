"""Walk a piece of the commit log record by record: what consume queues, index and archive need of each, as columns.

The walk makes no object for a record, so that one core processes more than a million records a second. A row of `table`
is one record. Columns are stored one after the other: with room for n rows, column c of row r is number c * n + r:

    position         where the record starts in the piece
    size             bytes of the whole record
    topic            number of the topic in `topics`
    queue_id
    queue_offset
    sys_flag
    store_timestamp
    tags_code        what the consume queue unit keeps: the tags' hash, the delivery time in the schedule topic
    entries          how many index entries the record has; their key hashes are the next ones of `hashes`
    flaw             0, or why the record is damaged: BODY_FLAW, ZEROS_FLAW; only looked for when asked to

Records are read, and considered damaged, as in dispatch_request.

Source: see layout, consume_queue_unit and index_entry.
"""

from regulus.errors import CorruptRecord, RecordError
from regulus.model.delay_level import UNKNOWN_LEVEL_DELAY_MS
from regulus.model.java_hash import java_hash
from regulus.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK
from regulus.model.topics import SCHEDULE_TOPIC
from regulus.record import big_endian, layout
from regulus.record.byte_runs import Buffer
from regulus.record.checksum import crc32
from regulus.record.message_record import find_parts

FIELDS = ("position", "size", "topic", "queue_id", "queue_offset", "sys_flag", "store_timestamp", "tags_code",
          "entries", "flaw")
BODY_FLAW = 1
ZEROS_FLAW = 2
FLAWS = ("", "body and its checksum differ", "properties end in zeros")

_TRANSACTION_MASK = TRANSACTION_MASK
_TRANSACTION_ROLLBACK = TRANSACTION_ROLLBACK
_UNKNOWN_DELAY = UNKNOWN_LEVEL_DELAY_MS
_SCHEDULE_TOPIC = SCHEDULE_TOPIC.encode()
_CRC_MASK = 0x7FFFFFFF
_HASH_MASK = 0xFFFFFFFF
_POSITIVE_MAX = 0x7FFFFFFF


class LogWalk:
    """The state of a walk: its position, and the topics found so far."""

    def __init__(self, delays_ms: tuple[int, ...], check_crc: bool, with_tags: bool, with_index: bool) -> None:
        """`delays_ms`: the delay of each level in the broker's settings. `with_index`: whether keys are hashed.

        `with_tags`: whether tags are hashed; otherwise `tags_code` is filled in for the schedule topic alone.
        """
        self.topics: dict[bytes, int] = {}
        """Topic to number; topics are numbered in the order in which they were found."""
        self.position = 0
        """The end of the last record of the last piece walked."""
        self.hashes_used = 0
        """Number of `hashes` filled for the last piece."""
        self.is_blank = False
        """Whether there is a blank at `position`: the file has no more records."""
        self.fault: RecordError | None = None
        """Why there is no record at `position`; None when the walk ended at its limit, at a blank or for lack of
        room."""
        self._delays_ms = delays_ms
        self._check_crc = check_crc
        self._with_tags = with_tags
        self._with_index = with_index
        self._seeds: list[int] = []
        self._schedule_number = -1
        self._last_topic = b""
        self._last_number = -1

    def walk(self, data: Buffer, view: Buffer, start: int, limit: int, base: int, table: memoryview, room: int,
             hashes: memoryview) -> int:
        """Walk the records from `start`; returns the number of rows of `table` filled.

        Ends at `limit`, at `room` rows, or when `hashes` may be too small for the next record's entries. `view` is
        `data` again; its first byte is at `base` in the log. A record that states a position other than its own is not
        accepted.
        """
        self.position = start
        self.is_blank = False
        self.fault = None
        self.hashes_used = 0
        row = 0
        while row < room and self.position < limit:
            try:
                size = self._read(data, view, self.position, limit, base, table, row, room, hashes, len(hashes))
            except RecordError as error:
                self.fault = error
                break
            if size <= 0:
                self.is_blank = size == 0
                break
            self.position += size
            row += 1
        return row

    def _read(self, data: Buffer, view: Buffer, position: int, limit: int, base: int, table: memoryview, row: int,
              room: int, hashes: memoryview, hashes_max: int) -> int:
        """The record's size; 0 for a blank, -1 when there is no room for its hashes."""
        size, flags, born_end, store_end, body_end, topic_start, topic_end = find_parts(view, position, limit)
        if not topic_end:
            return 0
        end = position + size
        properties_start = topic_end + layout.PROPERTIES_LENGTH_SIZE
        place = big_endian.int8(view, position + layout.PHYSICAL_OFFSET)
        if place != base + position:
            raise CorruptRecord(f"record says it is at {place}", position)
        flaw = 0
        if self._check_crc:
            checksum = crc32(data[store_end + layout.BODY:body_end])
            if checksum & _CRC_MASK != big_endian.int4(view, position + layout.BODY_CRC):
                flaw = 1
            elif properties_start < end and view[end - 1] == 0:
                flaw = 2
        topic = self._topic(data, view, topic_start, topic_end)
        used = self.hashes_used
        store_timestamp = big_endian.int8(view, born_end + layout.STORE_TIMESTAMP)
        tags_code = 0
        if self._with_tags or self._with_index or topic == self._schedule_number:
            tags_code = self._read_properties(data, view, properties_start, end, topic, flags, store_timestamp, hashes,
                                              hashes_max)
        if self.hashes_used < used:
            self.hashes_used = used
            return -1
        at = row
        table[at] = position
        at += room
        table[at] = size
        at += room
        table[at] = topic
        at += room
        table[at] = big_endian.int4(view, position + layout.QUEUE_ID)
        at += room
        table[at] = big_endian.int8(view, position + layout.QUEUE_OFFSET)
        at += room
        table[at] = flags
        at += room
        table[at] = store_timestamp
        at += room
        table[at] = tags_code
        at += room
        table[at] = self.hashes_used - used
        at += room
        table[at] = flaw
        return size

    def _topic(self, data: Buffer, view: Buffer, start: int, end: int) -> int:
        """The number of the topic with the name in [start, end): mostly that of the record before."""
        size = end - start
        if self._last_number >= 0 and size == len(self._last_topic) and _is_name(view, start, self._last_topic, size):
            return self._last_number
        name = bytes(data[start:end])
        number = self.topics.get(name, -1)
        if number < 0:
            number = len(self.topics)
            self.topics[name] = number
            self._seeds.append(_hash_text(name.decode("utf-8", "replace") + "#", 0))
            if name == _SCHEDULE_TOPIC:
                self._schedule_number = number
        self._last_topic = name
        self._last_number = number
        return number

    def _read_properties(self, data: Buffer, view: Buffer, start: int, limit: int, topic: int, flags: int,
                         store_timestamp: int, hashes: memoryview, hashes_max: int) -> int:
        """The tags code; adds the record's hashes, or sets `hashes_used` to -1 when there is no room for them."""
        tags_start = keys_start = unique_start = delay_start = 0
        tags_end = keys_end = unique_end = delay_end = 0
        while start < limit:
            end = start
            while end < limit and view[end] != 2:
                end += 1
            # A name is one of the four when its terminator is in the right place; a later duplicate wins.
            size = end - start
            if size > 5 and view[start + 4] == 1:
                if _is_name(view, start, b"TAGS", 4):
                    tags_start, tags_end = start + 5, end
                elif _is_name(view, start, b"KEYS", 4):
                    keys_start, keys_end = start + 5, end
            elif size > 9 and view[start + 8] == 1 and _is_name(view, start, b"UNIQ_KEY", 8):
                unique_start, unique_end = start + 9, end
            elif size > 6 and view[start + 5] == 1 and _is_name(view, start, b"DELAY", 5):
                delay_start, delay_end = start + 6, end
            start = end + 1
        if self._with_index and (flags & _TRANSACTION_MASK) != _TRANSACTION_ROLLBACK:
            if self.hashes_used + 2 + ((keys_end - keys_start) >> 1) > hashes_max:
                self.hashes_used = -1
                return 0
            if unique_end:
                self._add_hash(data, view, unique_start, unique_end, topic, hashes)
            while keys_start < keys_end:
                end = keys_start
                while end < keys_end and view[end] != 32:
                    end += 1
                if end > keys_start:
                    self._add_hash(data, view, keys_start, end, topic, hashes)
                keys_start = end + 1
        if topic == self._schedule_number and delay_end:
            level = bytes(data[delay_start:delay_end])
            number = int(level) if level.isdigit() and len(level) < 10 else 0
            if number > 0:
                return store_timestamp + self._delay(number)
        return _hash_bytes(data, view, tags_start, tags_end, 0) if tags_end else 0

    def _delay(self, level: int) -> int:
        if not self._delays_ms:
            return _UNKNOWN_DELAY
        return self._delays_ms[min(level, len(self._delays_ms)) - 1]

    def _add_hash(self, data: Buffer, view: Buffer, start: int, end: int, topic: int, hashes: memoryview) -> None:
        """Add the hash that index_entry.key_hash computes of index_entry.index_key."""
        value = _hash_bytes(data, view, start, end, self._seeds[topic])
        if value < 0:
            value = -value if -value <= _POSITIVE_MAX else 0
        hashes[self.hashes_used] = value
        self.hashes_used += 1


def _hash_bytes(data: Buffer, view: Buffer, start: int, end: int, seed: int) -> int:
    """Java's hash of the UTF-8 text, continued from `seed`, the hash of the text before it."""
    value = seed
    index = start
    while end - index >= 4:
        # Four letters at a time: otherwise each step waits for the product of the one before.
        if (view[index] | view[index + 1] | view[index + 2] | view[index + 3]) > 127:
            return _hash_text(bytes(data[start:end]).decode("utf-8", "replace"), seed)
        value = (value * 923521 + view[index] * 29791 + view[index + 1] * 961 + view[index + 2] * 31
                 + view[index + 3]) & _HASH_MASK
        index += 4
    while index < end:
        if view[index] > 127:
            return _hash_text(bytes(data[start:end]).decode("utf-8", "replace"), seed)
        value = (value * 31 + view[index]) & _HASH_MASK
        index += 1
    return _signed(value)


def _hash_text(text: str, seed: int) -> int:
    value = java_hash(text)
    # h(a + b) = h(a) * 31 ** len(b) + h(b), where characters beyond U+FFFF count twice.
    for character in text:
        seed = (seed * 31) & _HASH_MASK
        if ord(character) > 0xFFFF:
            seed = (seed * 31) & _HASH_MASK
    return _signed((value + seed) & _HASH_MASK)


def _signed(value: int) -> int:
    return value - _HASH_MASK - 1 if value > _POSITIVE_MAX else value


def _is_name(view: Buffer, start: int, name: bytes, size: int) -> bool:
    for index in range(size):  # noqa: SIM110 - a loop becomes C, a generator does not
        if view[start + index] != name[index]:
            return False
    return True
