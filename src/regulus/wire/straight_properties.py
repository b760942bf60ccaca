"""The properties of an ordinary message: copied from one property string to another without a map.

They are written into a StraightMessage's `text`, and the values of tags, keys and unique key are noted on the way. A
message goes the fast way only if the general way, which makes a map, would write back the same bytes: no empty name or
value, no name twice, no name that needs a closer look.
"""

from regulus.model.message import StraightMessage
from regulus.wire.header_json import cut, matches
from regulus.wire.octets import put

UNIQUE_KEY_SIZE_MAX = 255
"""A longer unique key takes the general way; those of clients have 32 characters."""

# Private names allow these to be typed constants in the compiled form.
_KEY_SIZE_MAX = UNIQUE_KEY_SIZE_MAX
_FIRST_UNUSUAL_BIT = 16
_UNIQ_KEY_BIT, _TAGS_BIT, _KEYS_BIT, _WAIT_BIT = 1, 2, 4, 8


class StraightProperties:
    """The properties of `message`. `unusual` are the names that need a closer look."""

    def __init__(self, message: StraightMessage, unusual: frozenset[bytes]) -> None:
        self.message = message
        self._unusual = unusual
        self._names_seen = 0

    def take_escaped(self, text: bytes, position: int) -> int:
        """Copy the property string, whose separators are escapes here. Returns the position of the closing quote, or 0
        if the message cannot go the fast way.

        Other escapes, an empty name or value, or a name that occurs twice, need the general way, which makes a map.
        """
        out = self.message.text
        self._begin()
        size = 0
        while text[position] != ord('"'):
            name = size
            end = run_end(text, position)
            size = put(out, size, text, position, end)
            if size == name or not _is_escaped(text, end, ord("1")):
                return 0
            out[size] = 1
            value = size + 1
            position = end + 6
            end = run_end(text, position)
            size = put(out, value, text, position, end)
            if size == value or not self._note(name, value, size):
                return 0
            position = end
            if text[end] == ord("\\"):
                if not _is_escaped(text, end, ord("2")):
                    return 0
                position = end + 6
            out[size] = 2
            size += 1
        self.message.text_size = size
        return position

    def take(self, text: bytes | bytearray, position: int, upto: int) -> bool:
        """Like `take_escaped`, for a property string whose separators are not escaped; returns whether the message can
        go the fast way."""
        out = self.message.text
        self._begin()
        size = 0
        while position < upto:
            name = size
            end = _field_end(text, position, upto)
            size = put(out, size, text, position, end)
            if size == name or end == upto or text[end] != 1:
                return False
            out[size] = 1
            value = size + 1
            position = end + 1
            end = _field_end(text, position, upto)
            size = put(out, value, text, position, end)
            if size == value or not self._note(name, value, size) or (end < upto and text[end] != 2):
                return False
            position = end + 1
            out[size] = 2
            size += 1
        self.message.text_size = size
        return True

    def append(self, text: bytes) -> None:
        """Append a property string whose names are not among those taken; the caller knows that it fits."""
        message = self.message
        message.text_size = put(message.text, message.text_size, text, 0, len(text))

    def has_unique_key(self) -> bool:
        """Whether there is a unique key that answers can repeat unchanged."""
        message = self.message
        size = message.unique_key_end - message.unique_key_start
        return 0 < size <= _KEY_SIZE_MAX and _stands_as_it_is(message.text, message.unique_key_start,
                                                              message.unique_key_end)

    def _begin(self) -> None:
        message = self.message
        self._names_seen = 0
        message.unique_key_end = message.tags_end = message.keys_end = 0
        message.unique_key_start = message.tags_start = message.keys_start = 0
        message.waits = True
        message.is_ordered = False

    def _note(self, name: int, value: int, end: int) -> bool:
        """Note the value of a property between these positions of the text; False if the message cannot go the fast
        way."""
        message = self.message
        out = message.text
        size = value - 1 - name
        bit = 0
        if size == 8 and matches(out, name, name + 8, b"UNIQ_KEY", 8):
            message.unique_key_start = value
            message.unique_key_end = end
            bit = _UNIQ_KEY_BIT
        elif size == 4 and matches(out, name, name + 4, b"TAGS", 4):
            if not _stands_as_it_is(out, value, end):
                return False
            message.tags_start = value
            message.tags_end = end
            bit = _TAGS_BIT
        elif size == 4 and matches(out, name, name + 4, b"KEYS", 4):
            message.keys_start = value
            message.keys_end = end
            bit = _KEYS_BIT
        elif size == 4 and matches(out, name, name + 4, b"WAIT", 4):
            message.waits = not matches(out, value, end, b"false", 5)
            bit = _WAIT_BIT
        else:
            bit = self._bit_of_other(cut(out, name, name + size))
            if size == 13 and matches(out, name, name + 13, b"__SHARDINGKEY", 13):
                message.is_ordered = True
        if bit == 0 or self._names_seen & bit:
            return False
        self._names_seen |= bit
        return True

    def _bit_of_other(self, name: bytes) -> int:
        """A bit for a name, 0 for an unusual name. Two names may share a bit; then the general way finds out whether
        they are equal."""
        if name in self._unusual:
            return 0
        return _FIRST_UNUSUAL_BIT << (hash(name) & 31)


def run_end(text: bytes, position: int) -> int:
    """The position of the next quote or backslash; a scanned header has one."""
    while text[position] != ord('"') and text[position] != ord("\\"):
        position += 1
    return position


def _field_end(text: bytes | bytearray, position: int, end: int) -> int:
    """The position of the next separator of a property string, or the end."""
    while position < end and text[position] > 2:
        position += 1
    return position


def is_separator(text: bytes, position: int) -> bool:
    """Whether the backslash at `position` begins the escape of a separator of property strings."""
    return _is_escaped(text, position, ord("1")) or _is_escaped(text, position, ord("2"))


def _is_escaped(text: bytes, position: int, digit: int) -> bool:
    """Whether the control character of this number is spelled at `position`."""
    return text[position] == ord("\\") and text[position + 1] == ord("u") and text[position + 5] == digit \
        and text[position + 2] == ord("0") and text[position + 3] == ord("0") and text[position + 4] == ord("0")


def _stands_as_it_is(text: bytes | bytearray, start: int, end: int) -> bool:
    """Whether JSON, UTF-8 and Java's hash leave these characters unchanged."""
    others = 0
    # All characters are examined without a branch, so that the compiled loop processes many at once.
    for position in range(start, end):
        character = text[position]
        others |= (character < 0x20) | (character > 0x7E) | (character == 0x22) | (character == 0x5C)
    return others == 0
