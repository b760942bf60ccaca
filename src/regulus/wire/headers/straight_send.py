"""The fast way for ordinary sends, from frame to record without an object for any field.

`StraightSendReader` reads the short spelling of a send (see send_message) into a StraightMessage. It accepts only what
it understands with certainty, in the form that clients print, and returns False for everything else: then nothing was
decided, and the general way reads the request again. It may therefore be strict where the general way is lenient, never
the reverse. What it accepts becomes the same record, byte for byte.

`StraightAnswers` and `BinaryStraightAnswers` make the frames of the answers. These differ in five places only, so they
are made from one frame that the general way encoded.
"""

from regulus.model.java_numbers import INT_MAX
from regulus.model.message import STRAIGHT_TEXT_SIZE_MAX, StraightMessage
from regulus.wire import big_endian
from regulus.wire.header_json import cut, matches
from regulus.wire.headers.send_message import send_message_response
from regulus.wire.octets import put, put_number
from regulus.wire.remoting_command import ROCKETMQ, RemotingCommand
from regulus.wire.straight_properties import UNIQUE_KEY_SIZE_MAX, StraightProperties, run_end

# Private names allow these to be typed constants in the compiled form.
_ROCKETMQ = ROCKETMQ
_KEY_SIZE_MAX = UNIQUE_KEY_SIZE_MAX
_INT_MAX = INT_MAX
_DIGITS_MAX = 18
_TEXT_SIZE_MAX = STRAIGHT_TEXT_SIZE_MAX
_WHOLE = 0x1FF                  # bits of the fields a to i, all of which a straight send has
_PROPERTIES_BIT = 0x100
_UNUSUAL = -1
_NUMBER_SIZE_MAX = 20
_OPAQUE_AT = 8 + 5              # in a frame with a binary header without a remark
_EXT_SIZE_AT = 8 + 17
_HEX = b"0123456789ABCDEF"


class StraightSendReader:
    """`unusual`: names of properties that need a closer look. `stamp`: a property string added to those of each
    message.

    `message` holds what the last successful `read` took from its request; hosts, offsets and times are not set.
    """

    def __init__(self, unusual: frozenset[bytes], stamp: bytes) -> None:
        self.message = StraightMessage()
        self._properties = StraightProperties(self.message, unusual)
        self._stamp = stamp
        self._text = b""

    def read(self, command: RemotingCommand) -> bool:
        """Whether the request is a straight send; if so, `message` holds it."""
        text = command.ext_binary if command.serialize_type == _ROCKETMQ else command.ext_json
        if text is None or command.opaque < 0 or len(text) > _TEXT_SIZE_MAX - len(self._stamp):
            return False
        self._text = text
        if not (self._read_entries() if command.serialize_type == _ROCKETMQ else self._read_members()):
            return False
        self._properties.append(self._stamp)
        message = self.message
        command.find_body()
        message.take_data(command.body_source)
        message.body_start = command.body_start
        message.body_end = command.body_end
        return True

    def _read_members(self) -> bool:
        """Walk over the members of the JSON object, whose form `header_json.scan` has checked."""
        text = self._text
        self.message.reconsume_times = 0
        found = 0
        position = 1
        while text[position] == ord('"'):
            key = position + 1
            position = run_end(text, key)
            if position == key or text[position] != ord('"') or text[position + 2] != ord('"'):
                return False
            start = position + 3
            # Other fields have longer names, such as a signature, and do not matter here.
            is_field = position - key == 1
            if is_field and text[key] == ord("i"):
                position = self._properties.take_escaped(text, start)
                bit = _PROPERTIES_BIT if position > 0 else _UNUSUAL
            else:
                position = run_end(text, start)
                bit = self._take(text[key], start, position) if is_field else 0
            if bit == _UNUSUAL or text[position] != ord('"'):
                return False
            found |= bit
            if text[position + 1] == ord("}"):
                return found == _WHOLE and self._properties.has_unique_key()
            position += 2
        return False

    def _read_entries(self) -> bool:
        """Walk over the entries of a binary map, whose form `header_rocketmq.is_whole_ascii` has checked."""
        text = self._text
        self.message.reconsume_times = 0
        found = 0
        position = 0
        upto = len(self._text)
        while position < upto:
            size = text[position] << 8 | text[position + 1]
            key = position + 2
            start = key + size + 4
            end = start + big_endian.uint4(text, key + size)
            position = end
            # Other fields have longer names; an empty value counts as absent.
            if size != 1 or start == end:
                continue
            if text[key] == ord("i"):
                bit = _PROPERTIES_BIT if self._properties.take(text, start, end) else _UNUSUAL
            else:
                bit = self._take(text[key], start, end)
            if bit == _UNUSUAL:
                return False
            found |= bit
        return found == _WHOLE and self._properties.has_unique_key()

    def _take(self, key: int, start: int, end: int) -> int:
        """Take the value in [start, end); returns its bit, 0 for a value that is not needed, or _UNUSUAL."""
        if key == ord("b"):
            return self._take_topic(start, end)
        if ord("d") <= key <= ord("h") or key == ord("j") or key == ord("l"):
            return self._take_number(key, start, end)
        # Unit mode matters only for topics created for it; a batch has its own reader.
        if key == ord("k") or key == ord("m"):
            if matches(self._text, start, end, b"false", 5):
                return 0
            return 0 if key == ord("k") and matches(self._text, start, end, b"true", 4) else _UNUSUAL
        return 1 << (key - ord("a")) if key == ord("a") or key == ord("c") else 0 if key == ord("n") else _UNUSUAL

    def _take_topic(self, start: int, end: int) -> int:
        message = self.message
        known = message.topic_text
        if not matches(self._text, start, end, known, len(known)):
            topic = self._text[start:end]
            if not topic.isascii():
                return _UNUSUAL
            message.topic_text = topic
            message.topic = topic.decode()
        return 2

    def _take_number(self, key: int, start: int, end: int) -> int:
        text = self._text
        first = start + 1 if text[start] == ord("-") else start
        if first >= end or end - first > _DIGITS_MAX:
            return _UNUSUAL
        value = 0
        for position in range(first, end):
            if not ord("0") <= text[position] <= ord("9"):
                return _UNUSUAL
            value = value * 10 + (text[position] - ord("0"))
        if first != start:
            value = -value
        if key == ord("g"):
            self.message.born_timestamp = value
        elif value > _INT_MAX or value < -_INT_MAX - 1:
            return _UNUSUAL
        else:
            self._set_number(key, value)
        return 1 << (key - ord("a")) if key <= ord("h") else 0

    def _set_number(self, key: int, value: int) -> None:
        """Set a number. Queue counts and retries matter only for new topics and retry topics, whose sends are not
        straight."""
        message = self.message
        if key == ord("e"):
            message.queue_id = value
        elif key == ord("f"):
            message.sys_flag = value
        elif key == ord("h"):
            message.flag = value
        elif key == ord("j"):
            message.reconsume_times = value


class StraightAnswers:
    """Encodes a broker's answers to sends that were stored under one address in one region."""

    def __init__(self, store_host: bytes, region: str, trace_on: bool) -> None:
        # Numbers and texts that mark the five places; the rest of the frame may contain anything.
        sample = send_message_response(RemotingCommand(0, opaque=1_111_111_111), 0,
                                       store_host.hex().upper() + "#" * 16, 1_222_222_222, 1_333_333_333, "###",
                                       region, trace_on).encode()
        rest, _, self._end = sample.rpartition(b"1111111111")
        rest, _, self._after_key = rest.rpartition(b"###")
        rest, _, self._after_offset = rest.rpartition(b"1333333333")
        self._begin, _, self._after_queue = rest.rpartition(b"1222222222")
        self._begin, _, self._before_queue = self._begin.rpartition(b"#" * 16)
        room = len(sample) + 16 + 4 * _NUMBER_SIZE_MAX + _KEY_SIZE_MAX
        self._out = bytearray(room)
        self._out[:len(self._begin)] = self._begin

    def frame(self, message: StraightMessage, opaque: int, physical_offset: int, queue_offset: int) -> bytes:
        """The whole answer to the send of `message`, stored at these offsets."""
        out = self._out
        end = _put_hex(out, len(self._begin), physical_offset)
        end = put(out, end, self._before_queue, 0, len(self._before_queue))
        end = put_number(out, end, message.queue_id)
        end = put(out, end, self._after_queue, 0, len(self._after_queue))
        end = put_number(out, end, queue_offset)
        end = put(out, end, self._after_offset, 0, len(self._after_offset))
        end = put(out, end, message.text, message.unique_key_start, message.unique_key_end)
        end = put(out, end, self._after_key, 0, len(self._after_key))
        end = put_number(out, end, opaque)
        end = put(out, end, self._end, 0, len(self._end))
        big_endian.put4(out, 0, end - 4)
        big_endian.put4(out, 4, end - 8)
        return cut(out, 0, end)


class BinaryStraightAnswers:
    """The answers in the binary form, where each value follows its length, and the opaque comes first."""

    def __init__(self, store_host: bytes, region: str, trace_on: bool) -> None:
        request = RemotingCommand(0, serialize_type=ROCKETMQ)
        sample = send_message_response(request, 0, store_host.hex().upper() + "#" * 16, 1_222_222_222, 1_333_333_333,
                                       "###", region, trace_on).encode()
        rest = sample[:-len(b"\0\0\0\x03###")]
        rest, _, self._before_key = rest.rpartition(b"\0\0\0\x0a1333333333")
        rest, _, self._before_offset = rest.rpartition(b"\0\0\0\x0a1222222222")
        self._begin, _, self._before_queue = rest.rpartition(b"#" * 16)
        self._out = bytearray(len(sample) + 16 + 2 * _NUMBER_SIZE_MAX + _KEY_SIZE_MAX)
        self._out[:len(self._begin)] = self._begin

    def frame(self, message: StraightMessage, opaque: int, physical_offset: int, queue_offset: int) -> bytes:
        """The whole answer to the send of `message`, stored at these offsets."""
        out = self._out
        end = _put_hex(out, len(self._begin), physical_offset)
        end = put(out, end, self._before_queue, 0, len(self._before_queue))
        end = _put_sized_number(out, end, message.queue_id)
        end = put(out, end, self._before_offset, 0, len(self._before_offset))
        end = _put_sized_number(out, end, queue_offset)
        end = put(out, end, self._before_key, 0, len(self._before_key))
        big_endian.put4(out, end, message.unique_key_end - message.unique_key_start)
        end = put(out, end + 4, message.text, message.unique_key_start, message.unique_key_end)
        big_endian.put4(out, 0, end - 4)
        big_endian.put4(out, 4, _ROCKETMQ << 24 | (end - 8))
        big_endian.put4(out, _OPAQUE_AT, opaque)
        big_endian.put4(out, _EXT_SIZE_AT, end - _EXT_SIZE_AT - 4)
        return cut(out, 0, end)


def _put_sized_number(out: bytearray, position: int, value: int) -> int:
    """Write a number in decimal digits after their count; returns the position after it."""
    end = put_number(out, position + 4, value)
    big_endian.put4(out, position, end - position - 4)
    return end


def _put_hex(out: bytearray, position: int, value: int) -> int:
    """Write 16 hexadecimal digits; returns the position after them."""
    digits = _HEX
    for index in range(16):
        out[position + index] = digits[value >> (60 - 4 * index) & 15]
    return position + 16
