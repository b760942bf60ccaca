"""Stored records -> the buffers of columns, from which table readers build their tables.

A reader knows from the consume queues where records start. It gets, column by column, their fixed fields and the
positions of their variable ones; then it has the bytes of a column gathered into one buffer. No value becomes a Python
object on the way, so that one core processes more than a million records a second.

All buffers come from the caller: `data` is one log file or a piece of it; places are positions in `data`; `table` and
the other numbers are 64-bit, `offsets` 32-bit. Columns are stored one after the other: column c of row r of n rows is
number c * n + r. This module uses neither numpy nor Arrow. Interpreted it gives the same results, slowly; for
installations without compiled modules spark.numpy_columns does the same with numpy.

Source: see layout.
"""

from regulus.errors import CorruptRecord
from regulus.record import big_endian, byte_runs, layout
from regulus.record.byte_runs import Buffer
from regulus.record.message_record import check_start, find_parts

FIELDS = (
    "store_size", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp",
    "store_timestamp", "reconsume_times", "prepared_transaction_offset", "born_host_start", "store_host_start",
    "body_start", "body_end", "topic_start", "topic_end", "properties_start", "properties_end",
)
"""The columns of the table that `read_fields` fills, in order. sys_flag determines the size of each host."""

# Records are too far apart for the processor to guess the next one. It prefetches this many records ahead, line by
# line: their first bytes, and their properties, which begin about this many bytes before the next record.
_FETCHED_AHEAD = 8
_PROPERTIES_GUESS = 192
_HEAD_GUESS = 128
_LINE_SIZE = 64

# This many properties of a message are expected to have the names that they had in an earlier message.
_SHAPE_SIZE = 32

_FOUR_BYTES = 0xFFFF_FFFF
_EACH_TWO_BYTES = 0x0000_FFFF_0000_FFFF
_EACH_BYTE = 0x00FF_00FF_00FF_00FF
_EACH_DIGIT = 0x0F0F_0F0F_0F0F_0F0F
_EACH_ONE = 0x0101_0101_0101_0101
_ZEROS = int.from_bytes(b"00000000", "big")


def read_fields(data: Buffer, positions: memoryview, table: memoryview) -> None:
    """Fill `table` (len(FIELDS) columns) from the records that start at `positions`.

    Raises CorruptRecord or TruncatedRecord with the position of the first one that is not a record.
    """
    rows = len(positions)
    limit = len(data)
    for row in range(rows):
        if row + _FETCHED_AHEAD < rows:
            ahead = positions[row + _FETCHED_AHEAD]
            if _PROPERTIES_GUESS <= ahead < limit - _HEAD_GUESS:
                place = ahead - _PROPERTIES_GUESS
                while place < ahead + _HEAD_GUESS:
                    byte_runs.fetch_ahead(data, place)
                    place += _LINE_SIZE
        _read_record(data, positions[row], limit, table, row, rows)


def find_records(data: Buffer, positions: memoryview) -> int:
    """Find the starts of the records that fill `data` without gaps; returns their number, at most len(positions).

    Raises CorruptRecord or TruncatedRecord with the position of the first one that is not a record.
    """
    room = len(positions)
    limit = len(data)
    position = 0
    count = 0
    while position < limit and count < room:
        positions[count] = position
        position += check_start(data, position, limit)
        count += 1
    return count


def _read_record(data: Buffer, position: int, limit: int, table: memoryview, row: int, rows: int) -> None:
    size, flags, born_end, store_end, body_end, topic_start, topic_end = find_parts(data, position, limit)
    if not topic_end:
        raise CorruptRecord("blank at the end of a log file, no message", position)
    at = row
    table[at] = size
    at += rows
    table[at] = big_endian.int4(data, position + layout.BODY_CRC)
    at += rows
    table[at] = big_endian.int4(data, position + layout.QUEUE_ID)
    at += rows
    table[at] = big_endian.int4(data, position + layout.FLAG)
    at += rows
    table[at] = big_endian.int8(data, position + layout.QUEUE_OFFSET)
    at += rows
    table[at] = big_endian.int8(data, position + layout.PHYSICAL_OFFSET)
    at += rows
    table[at] = flags
    at += rows
    table[at] = big_endian.int8(data, position + layout.BORN_TIMESTAMP)
    at += rows
    table[at] = big_endian.int8(data, born_end + layout.STORE_TIMESTAMP)
    at += rows
    table[at] = big_endian.int4(data, store_end + layout.RECONSUME_TIMES)
    at += rows
    table[at] = big_endian.int8(data, store_end + layout.PREPARED_TRANSACTION_OFFSET)
    at += rows
    table[at] = position + layout.BORN_HOST
    at += rows
    table[at] = born_end + layout.STORE_HOST
    at += rows
    table[at] = store_end + layout.BODY
    at += rows
    table[at] = body_end
    at += rows
    table[at] = topic_start
    at += rows
    table[at] = topic_end
    at += rows
    table[at] = topic_end + layout.PROPERTIES_LENGTH_SIZE
    at += rows
    table[at] = position + size


def read_properties(data: Buffer, starts: memoryview, ends: memoryview, names: tuple[bytes, ...], counts: memoryview,
                    places: memoryview, offsets: memoryview, entries: memoryview) -> int:
    """Find the values of `names` in the property strings, and list all properties; returns the number listed.

    `places` has columns 2 * k for the starts of name k, 2 * k + 1 for the ends: -1 where a message does not have it. A
    later duplicate wins. A name that no message has leaves its columns unchanged; `counts` has the number of messages
    with each name.

    The entries of row r are numbers offsets[r] to offsets[r + 1]; `entries` has four columns of a quarter of its room
    each: name start, name end, value start, value end. Of duplicates in a row only the last value is listed, in the
    position of the first. Nothing is listed if `entries` has no room; otherwise it must have room for properties_max.
    """
    rows = len(starts)
    room = len(entries) >> 2
    joined = b"".join(names)
    # One byte each: the end of a name in `joined`. The names are ours, and short.
    name_ends = bytes([len(b"".join(names[:number + 1])) for number in range(len(names))])
    # Messages of one sender mostly have the same names in the same order, so each name is first compared with the one
    # at the same turn in an earlier message: its start, its size, its number among `names`. The last turn stays empty.
    shape = memoryview(bytearray(8 * 3 * (_SHAPE_SIZE + 1))).cast("q")
    total = 0
    for number in range(len(name_ends)):
        counts[number] = 0
    offsets[0] = 0
    for row in range(rows):
        total = _read_row(data, starts[row], ends[row], joined, name_ends, len(name_ends), counts, places, row, rows,
                          entries, room, total, shape)
        offsets[row + 1] = total
    return total


def _read_row(data: Buffer, start: int, limit: int, joined: bytes, name_ends: bytes, names: int, counts: memoryview,
              places: memoryview, row: int, rows: int, entries: memoryview, room: int, first: int,
              shape: memoryview) -> int:
    total = first
    turn = 0
    while start < limit:
        size = shape[turn + 1]
        separator = start + size
        is_known = (0 < size < limit - start and data[separator] == 1
                    and byte_runs.is_same_run(data, start, shape[turn], size))
        if not is_known:
            separator = _name_end(data, start, limit)
        end = byte_runs.find_byte(data, 2, separator, limit)
        if start < separator < end - 1:
            # The turns so far are the names of this row, each once; a name that is known at its turn is not a
            # duplicate.
            entry = total
            if is_known:
                number = shape[turn + 2]
            else:
                number = _number_of(data, start, separator - start, joined, name_ends, names)
                if room:
                    entry = _same_name(data, start, separator, entries, room, first, total)
                if entry == total and turn < 3 * _SHAPE_SIZE:
                    shape[turn] = start
                    shape[turn + 1] = separator - start
                    shape[turn + 2] = number
                    shape[turn + 4] = 0
            if entry == total and turn < 3 * _SHAPE_SIZE:
                turn += 3
            if number >= 0:
                _place(counts, places, number, row, rows, separator + 1, end)
            if room:
                entries[entry] = start
                entries[room + entry] = separator
                entries[2 * room + entry] = separator + 1
                entries[3 * room + entry] = end
                if entry == total:
                    total += 1
        start = end + 1
    return total


def _place(counts: memoryview, places: memoryview, number: int, row: int, rows: int, start: int, end: int) -> None:
    at = 2 * number * rows
    if not counts[number]:
        for index in range(at, at + 2 * rows):
            places[index] = -1
    at += row
    if places[at] < 0:
        counts[number] += 1
    places[at] = start
    places[at + rows] = end


def _number_of(data: Buffer, start: int, size: int, joined: bytes, name_ends: bytes, names: int) -> int:
    """The number of the name at `start`; -1 if it is not one of the names."""
    begin = 0
    for number in range(names):
        end = name_ends[number]
        if end - begin == size and _is_name(data, start, joined, begin, size):
            return number
        begin = end
    return -1


def _is_name(data: Buffer, start: int, joined: bytes, begin: int, size: int) -> bool:
    for index in range(size):  # noqa: SIM110 - a loop becomes C, a generator does not
        if data[start + index] != joined[begin + index]:
            return False
    return True


def _name_end(data: Buffer, start: int, limit: int) -> int:
    """The position of the next 0x01 or 0x02; `limit` when there is none."""
    while start < limit and data[start] != 1 and data[start] != 2:
        start += 1
    return start


def properties_max(starts: memoryview, ends: memoryview) -> int:
    """The largest number of entries that `read_properties` may list: each has at least a name, a value and their
    terminators."""
    total = 0
    for row in range(len(starts)):
        total += (ends[row] - starts[row] + 1) >> 2
    return total


def _same_name(data: Buffer, start: int, end: int, entries: memoryview, room: int, first: int, total: int) -> int:
    """The entry from `first` on with the name at `start`; `total` when the name is new."""
    size = end - start
    for entry in range(first, total):
        at = entries[entry]
        if entries[room + entry] - at == size and byte_runs.is_same_run(data, at, start, size):
            return entry
    return total


def lay_out(starts: memoryview, ends: memoryview, offsets: memoryview) -> int:
    """Fill `offsets`, one more than pieces, with the start of each piece when they are stored without gaps."""
    at = 0
    offsets[0] = 0
    for row in range(len(starts)):
        at += ends[row] - starts[row]
        offsets[row + 1] = at
    return at


def gather(data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview, target: memoryview) -> None:
    """Copy the pieces from starts[r] to ends[r] to `target`, where piece r begins at offsets[r]."""
    for row in range(len(starts)):
        size = ends[row] - starts[row]
        if size > 0:
            byte_runs.copy_piece(data, starts[row], target, offsets[row], size)


def read_words(data: Buffer, starts: memoryview, words: memoryview) -> None:
    """Fill `words` with the 8-byte numbers that begin at `starts`."""
    for row in range(len(starts)):
        words[row] = big_endian.int8(data, starts[row])


def write_ids(hosts: memoryview, physical_offsets: memoryview, target: memoryview) -> None:
    """Fill `target` with offset message ids, 32 upper-case hex digits each, of IPv4 hosts with ports, and offsets."""
    at = 0
    for row in range(len(hosts)):
        at = big_endian.put8(target, at, _digits(hosts[row] >> 32))
        at = big_endian.put8(target, at, _digits(hosts[row]))
        at = big_endian.put8(target, at, _digits(physical_offsets[row] >> 32))
        at = big_endian.put8(target, at, _digits(physical_offsets[row]))


def _digits(value: int) -> int:
    """The hex digits of the low four bytes as one eight-byte number: all at once, each digit in a byte of its own."""
    spread = value & _FOUR_BYTES
    spread = (spread | spread << 16) & _EACH_TWO_BYTES
    spread = (spread | spread << 8) & _EACH_BYTE
    spread = (spread | spread << 4) & _EACH_DIGIT
    # A digit above 9 becomes 16 or more when 6 is added; between "9" and "A" there are 7 other characters.
    is_letter = (spread + 6 * _EACH_ONE) >> 4 & _EACH_ONE
    return spread + _ZEROS + is_letter * 7
