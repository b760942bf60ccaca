"""The fast way for ordinary batches: their messages one after the other, without an object for each.

    if batch.read(request, topic, before, row, after):
        appended = store.append_batch(batch, now_ms)

As with single sends, an accepted batch becomes the same records, byte for byte, as by the general way
(`message_batch`); for everything else `read` returns False, and nothing was decided. The whole batch is checked before
its first message is returned.
"""

from collections.abc import Iterator
from zlib import crc32

from regulus.model.message import STRAIGHT_TEXT_SIZE_MAX, StraightMessage
from regulus.wire import big_endian
from regulus.wire.octets import put_number
from regulus.wire.remoting_command import RemotingCommand
from regulus.wire.row_digest import digest_on
from regulus.wire.straight_properties import StraightProperties

# Private names allow these to be typed constants in the compiled form.
_RECORD_SIZE_MIN = 22
_TEXT_SIZE_MAX = STRAIGHT_TEXT_SIZE_MAX
_NUMBER_SIZE_MAX = 20
_NAME_SIZE = len("UNIQ_KEY") + 1
_SUM_MASK = 0x7FFFFFFF


class StraightBatchReader:
    """`unusual`: names of properties that need a closer look.

    `message` is filled again for each message of the batch; the caller sets the fields that they have in common.
    `count` is their number. For numbered rows, `digest` continues from `digest_before`, with the body checksums that a
    store left in `message`, once the caller has iterated over all of them.
    """

    def __init__(self, unusual: frozenset[bytes]) -> None:
        self.message = StraightMessage()
        self.count = 0
        self.digest_before = 0
        self.digest = 0
        self._properties = StraightProperties(self.message, unusual)
        self._before = b""
        self._after = b""
        self._first_row = -1
        self._row = -1
        self._own_size = 0
        self._start = 0
        self._end = 0
        self._position = 0

    def read(self, command: RemotingCommand, topic: str, before: bytes, first_row: int, after: bytes) -> bool:
        """Whether the body of the request is a batch of at least one message of this topic, all of which can go the
        fast way.

        After the properties of each message come those of `before`, the number of its row and those of `after`; a
        `first_row` of -1 means no number.
        """
        message = self.message
        command.find_body()
        message.take_data(command.body_source)
        self._start = command.body_start
        self._end = command.body_end
        if not topic.isascii():
            return False
        message.topic = topic
        message.topic_text = topic.encode()
        self._before = before
        self._after = after
        self._first_row = first_row
        self.count = 0
        position = self._start
        while position < self._end:
            position = self._take(position)
            if position < 0 or not _is_ascii(message.text, message.text_size) or not self._properties.has_unique_key():
                return False
            self.count += 1
        return self.count > 0

    def __iter__(self) -> Iterator[StraightMessage]:
        """Iterate from the first message, any number of times, while the request is handled."""
        self.digest = self.digest_before
        self._position = self._start
        self._row = self._first_row
        return self

    def __next__(self) -> StraightMessage:
        message = self.message
        if self._position > self._start and self._first_row >= 0:
            self.digest = digest_on(digest_on(self.digest, message.body_crc), self._properties_sum())
        if self._position >= self._end:
            raise StopIteration
        self._position = self._take(self._position)
        self._own_size = message.text_size
        self._properties.append(self._before)
        if self._row >= 0:
            message.text_size = put_number(message.text, message.text_size, self._row)
            self._row += 1
        self._properties.append(self._after)
        return message

    def _properties_sum(self) -> int:
        """The checksum defined by `row_digest`: of the flag and the message's own properties without its unique key."""
        message = self.message
        text = message.text
        front = crc32(text[:message.unique_key_start - _NAME_SIZE], message.flag & 0xFFFFFFFF)
        return crc32(text[message.unique_key_end + 1:self._own_size], front) & _SUM_MASK

    def _take(self, start: int) -> int:
        """Take the message whose record begins at `start`; returns the start of the next one, -1 if it cannot go the
        fast way."""
        message = self.message
        data = message.data
        room = self._end - start
        if room < _RECORD_SIZE_MIN:
            return -1
        size = big_endian.int4(data, start)
        body_size = big_endian.int4(data, start + 16)
        if not _RECORD_SIZE_MIN <= size <= room or not 0 <= body_size <= size - _RECORD_SIZE_MIN:
            return -1
        message.flag = big_endian.int4(data, start + 12)
        message.body_start = start + 20
        message.body_end = message.body_start + body_size
        text_start = message.body_end + 2
        text_size = data[text_start - 2] << 8 | data[text_start - 1]
        text_end = text_start + text_size
        added = len(self._before) + _NUMBER_SIZE_MAX + len(self._after)
        if text_end > start + size or text_size + 1 + added > _TEXT_SIZE_MAX:
            return -1
        return start + size if self._properties.take(data, text_start, text_end) else -1


def _is_ascii(text: bytearray, size: int) -> bool:
    bits = 0
    for position in range(size):
        bits |= text[position]
    return bits < 0x80
