"""Read a few properties of a record in place, without making a message or a dict.

The result is that of `message_properties.parse`: a property counts when it has a name and a value, and a later
duplicate wins.
"""

from regulus.errors import RecordError
from regulus.model.message_properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from regulus.record import byte_runs
from regulus.record.byte_runs import Buffer
from regulus.record.layout import PROPERTIES_LENGTH_SIZE
from regulus.record.message_record import find_parts

UNREADABLE = -1

_NAME_END = ord(NAME_VALUE_SEPARATOR)
_PROPERTY_END = ord(PROPERTY_SEPARATOR)
_UNREADABLE = UNREADABLE
_LENGTH_SIZE = PROPERTIES_LENGTH_SIZE


def read_named(view: Buffer, position: int, end: int, names: list[bytes], values: list[str | None]) -> int:
    """Set `values` to the values of `names`, None for a missing one; returns the bytes of all properties.

    UNREADABLE is returned when view[position:end] is not a whole record.
    """
    try:
        size, _, _, _, _, _, topic_end = find_parts(view, position, end)
    except RecordError:
        return _UNREADABLE
    if not topic_end:
        return _UNREADABLE
    count = len(names)
    for place in range(count):
        values[place] = None
    first = start = topic_end + _LENGTH_SIZE
    upto = position + size
    while start < upto:
        segment_end = byte_runs.find_byte(view, _PROPERTY_END, start, upto)
        separator = byte_runs.find_byte(view, _NAME_END, start, segment_end)
        if start < separator < segment_end - 1:
            for place in range(count):
                if byte_runs.is_run(view, start, separator - start, names[place]):
                    values[place] = byte_runs.text_of_run(view, separator + 1, segment_end)
        start = segment_end + 1
    return upto - first
