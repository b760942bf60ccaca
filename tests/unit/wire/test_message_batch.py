import struct
from array import array
from itertools import accumulate

import pytest

from regulus.errors import HeaderError, MessageIllegal
from regulus.model import message_properties
from regulus.model.message import Message
from regulus.wire import message_batch
from regulus.wire.row_digest import digest_of

EXAMPLE = bytes.fromhex("00000026000000000000000000000000000000026869000e6b01760257414954017472756502")


def test_the_layout() -> None:
    message = Message("T", b"hi", properties={"k": "v", "WAIT": "true"})
    assert message_batch.encode([message]) == EXAMPLE
    assert message_batch.decode(EXAMPLE) == [(0, b"hi", {"k": "v", "WAIT": "true"}, b"k\x01v\x02WAIT\x01true\x02")]


def test_a_batch_survives_the_way() -> None:
    messages = [Message("T", b"x" * size, tags="标", flag=-size) for size in range(5)]
    decoded = message_batch.decode(message_batch.encode(messages))
    assert [each[:3] for each in decoded] == [(each.flag, each.body, each.properties) for each in messages]


def test_no_bytes_are_no_messages() -> None:
    assert message_batch.decode(b"") == []


@pytest.mark.parametrize("cut", range(1, len(EXAMPLE)))
def test_a_batch_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(HeaderError, match="batch"):
        message_batch.decode(EXAMPLE[:cut])


@pytest.mark.parametrize(("position", "layout", "value"), [
    (0, ">i", 0), (0, ">i", -1), (0, ">i", 21), (0, ">i", 39), (0, ">i", 1 << 30),
    (16, ">i", -1), (16, ">i", -14), (16, ">i", 3000), (16, ">i", 17),
    (22, ">h", -1), (22, ">h", 15), (22, ">h", 32767),
])
def test_lengths_that_lie_are_refused(position: int, layout: str, value: int) -> None:
    data = bytearray(EXAMPLE)
    struct.pack_into(layout, data, position, value)
    with pytest.raises(HeaderError, match="batch"):
        message_batch.decode(bytes(data))


def test_properties_that_are_no_text_are_refused() -> None:
    with pytest.raises(HeaderError, match="UTF-8"):
        message_batch.decode(EXAMPLE[:24] + b"\xff" + EXAMPLE[25:])


def test_properties_that_are_too_long_are_refused() -> None:
    with pytest.raises(MessageIllegal, match="32767"):
        message_batch.encode([Message("T", b"", properties={"k": "v" * 32767})])


def test_a_batch_of_columns_is_that_of_the_messages():
    texts = [b"k\x01v\x02", b"", b"a\x01" + b"b" * 300 + b"\x02"]
    bodies = [b"one", b"\xff" * 200, b""]
    flags = [0, -2, 0x7FFFFFFF]

    def column(values: list[bytes]) -> tuple[memoryview, memoryview]:
        ends = array("i", accumulate((len(value) for value in values), initial=7))
        return memoryview(b"before " + b"".join(values)), memoryview(ends)

    columns = message_batch.ColumnBatch(*column(bodies), *column(texts), memoryview(array("i", flags)))
    for start, end in ((0, 3), (1, 2), (2, 3), (1, 1)):
        messages = [Message("T", body, flag=flag, properties=message_properties.parse(text.decode()))
                    for body, flag, text in zip(bodies, flags, texts, strict=True)][start:end]
        assert bytes(columns.encode(start, end)) == message_batch.encode(messages)
        assert columns.digest(start, end, 5) == digest_of(messages, 5)
    texts = [b"UNIQ_KEY\x0112\x02" + text for text in texts]
    columns = message_batch.ColumnBatch(*column(bodies), *column(texts), memoryview(array("i", flags)), 12)
    assert columns.digest(1, 3, 0) == digest_of(
        [Message("T", bodies[1], flag=-2), Message("T", b"", flag=0x7FFFFFFF, properties={"a": "b" * 300})])
