"""Stored records -> the buffers of columns: what a table reader makes of a piece of the log.

A reader says where records start (it knows from the consume queues) and gets, column by column, their fixed fields and
the places of their variable ones; then it has the bytes of a column gathered into one buffer. No value becomes a Python
object on the way, so that a million records a second and more pass on one core.

All buffers come from the caller: `data` is one log file or a piece of it; places are positions in `data`; `table` and
the other numbers are 64-bit, `offsets` 32-bit. Columns lie one behind the other: column c of row r of n rows is number
c * n + r. This module knows neither numpy nor Arrow. Interpreted it gives the same results, slowly; for installations
without compiled modules spark.plain_columns does the same with numpy.

Source: see message_record.
"""

from regulus.errors import CorruptRecord
from regulus.record.message_record import (
    MAGIC_BLANK,
    MAGIC_V2,
    Buffer,
    check_start,
    find_body_end,
    find_topic_end,
)

FIELDS = (
    "store_size", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag", "born_timestamp",
    "store_timestamp", "reconsume_times", "prepared_transaction_offset", "born_host_start", "store_host_start",
    "body_start", "body_end", "topic_start", "topic_end", "properties_start", "properties_end",
)
"""The columns of the table that `read_fields` fills, in order. A host's size is told by sys_flag."""

# Up to this size, bytes go faster one by one than as a slice; interpreted, never.
_SHORT_MAX = 0 if __file__.endswith(".py") else 64

_BLANK = MAGIC_BLANK
_V2 = MAGIC_V2


def read_fields(data: Buffer, positions: memoryview, table: memoryview) -> None:
    """Fill `table` (len(FIELDS) columns) from the records that start at `positions`.

    Raises CorruptRecord or TruncatedRecord with the position of the first record that is none.
    """
    rows = len(positions)
    limit = len(data)
    for row in range(rows):
        _read_record(data, positions[row], limit, table, row, rows)


def find_records(data: Buffer, positions: memoryview) -> int:
    """Where the records begin that fill `data` one behind the other: how many there are, of at most len(positions).

    Raises CorruptRecord or TruncatedRecord with the position of the first that is none.
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
    size = check_start(data, position, limit)
    magic = _int4(data, position + 4)
    if magic == _BLANK:
        raise CorruptRecord("blank at the end of a log file, no message", position)
    flags = _int4(data, position + 36)
    born_end = position + (68 if flags & 0x10 else 56)
    store_end = born_end + (28 if flags & 0x20 else 16)
    topic_at = find_body_end(data, position, store_end + 16, position + size)
    topic_end = find_topic_end(data, position, topic_at, position + size)
    at = row
    table[at] = size
    at += rows
    table[at] = _int4(data, position + 8)
    at += rows
    table[at] = _int4(data, position + 12)
    at += rows
    table[at] = _int4(data, position + 16)
    at += rows
    table[at] = _int8(data, position + 20)
    at += rows
    table[at] = _int8(data, position + 28)
    at += rows
    table[at] = flags
    at += rows
    table[at] = _int8(data, position + 40)
    at += rows
    table[at] = _int8(data, born_end)
    at += rows
    table[at] = _int4(data, store_end)
    at += rows
    table[at] = _int8(data, store_end + 4)
    at += rows
    table[at] = position + 48
    at += rows
    table[at] = born_end + 8
    at += rows
    table[at] = store_end + 16
    at += rows
    table[at] = topic_at
    at += rows
    table[at] = topic_at + (2 if magic == _V2 else 1)
    at += rows
    table[at] = topic_end
    at += rows
    table[at] = topic_end + 2
    at += rows
    table[at] = position + size


# The two readers stand here once more because a call into another compiled module costs more than what they do.
def _int4(data: Buffer, position: int) -> int:
    value = data[position]
    if value > 127:
        value -= 256
    value = (value << 8) | data[position + 1]
    value = (value << 8) | data[position + 2]
    return (value << 8) | data[position + 3]


def _int8(data: Buffer, position: int) -> int:
    value = _int4(data, position)
    value = (value << 8) | data[position + 4]
    value = (value << 8) | data[position + 5]
    value = (value << 8) | data[position + 6]
    return (value << 8) | data[position + 7]


def locate_properties(data: Buffer, starts: memoryview, ends: memoryview, names: tuple[bytes, ...],
                      places: memoryview) -> None:
    """Find the values of `names` in the property strings; `places` has columns 2 * k for starts, 2 * k + 1 for ends.

    Start and end are -1 where a message does not have the property. A later duplicate wins.
    """
    rows = len(starts)
    for index in range(2 * len(names) * rows):
        places[index] = -1
    joined = b"".join(names)
    # One byte each: where in `joined` a name ends. The names are ours, and short.
    name_ends = bytes([len(b"".join(names[:number + 1])) for number in range(len(names))])
    for row in range(rows):
        _locate_in_row(data, starts[row], ends[row], joined, name_ends, len(name_ends), places, row, rows)


def _locate_in_row(data: Buffer, start: int, limit: int, joined: bytes, name_ends: bytes, names: int,
                   places: memoryview, row: int, rows: int) -> None:
    while start < limit:
        separator = _name_end(data, start, limit)
        end = _value_end(data, separator, limit)
        if start < separator < end - 1:
            number = _number_of(data, start, separator - start, joined, name_ends, names)
            if number >= 0:
                places[2 * number * rows + row] = separator + 1
                places[(2 * number + 1) * rows + row] = end
        start = end + 1


def _number_of(data: Buffer, start: int, size: int, joined: bytes, name_ends: bytes, names: int) -> int:
    """Which of the names stands there; -1 for none."""
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
    """Where the next 0x01 or 0x02 stands; `limit` when there is none."""
    while start < limit and data[start] != 1 and data[start] != 2:
        start += 1
    return start


def _value_end(data: Buffer, name_end: int, limit: int) -> int:
    """Where the entry ends whose name ends at `name_end`, without its 0x02."""
    while name_end < limit and data[name_end] != 2:
        name_end += 1
    return name_end


def properties_max(starts: memoryview, ends: memoryview) -> int:
    """How many entries `list_properties` may find: one has at least a name, a value and what ends them."""
    total = 0
    for row in range(len(starts)):
        total += (ends[row] - starts[row] + 1) >> 2
    return total


def list_properties(data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview, places: memoryview,
                    room: int) -> int:
    """List all properties of all rows; the entries of row r are numbers offsets[r] to offsets[r + 1].

    `places` has four columns of `room` entries: name start, name end, value start, value end. Returns how many entries
    there are. Of duplicates in a row only the last value is listed.
    """
    total = 0
    offsets[0] = 0
    for row in range(len(starts)):
        total = _list_row(data, starts[row], ends[row], places, room, total)
        offsets[row + 1] = total
    return total


def _list_row(data: Buffer, start: int, limit: int, places: memoryview, room: int, first: int) -> int:
    total = first
    while start < limit:
        separator = _name_end(data, start, limit)
        end = _value_end(data, separator, limit)
        if start < separator < end - 1:
            entry = _same_name(data, start, separator, places, room, first, total)
            places[entry] = start
            places[room + entry] = separator
            places[2 * room + entry] = separator + 1
            places[3 * room + entry] = end
            if entry == total:
                total += 1
        start = end + 1
    return total


def _same_name(data: Buffer, start: int, end: int, places: memoryview, room: int, first: int, total: int) -> int:
    """The entry from `first` on that has the name at `start`; `total` when it is new."""
    size = end - start
    for entry in range(first, total):
        if places[room + entry] - places[entry] == size and _is_same(data, start, places[entry], size):
            return entry
    return total


def _is_same(data: Buffer, left: int, right: int, size: int) -> bool:
    for index in range(size):  # noqa: SIM110 - a loop becomes C, a generator does not
        if data[left + index] != data[right + index]:
            return False
    return True


def gather(data: Buffer, starts: memoryview, ends: memoryview, offsets: memoryview, target: memoryview) -> None:
    """Copy the pieces from starts[r] to ends[r] to `target`, where piece r begins at offsets[r]."""
    for row in range(len(starts)):
        start = starts[row]
        size = ends[row] - start
        at = offsets[row]
        if size > _SHORT_MAX:
            target[at:at + size] = data[start:start + size]
        else:
            for index in range(size):
                target[at + index] = data[start + index]
