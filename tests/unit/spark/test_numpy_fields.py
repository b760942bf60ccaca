import numpy as np
import pytest

from regulus.errors import CorruptRecord
from regulus.record import message_record
from regulus.record.message_columns import FIELDS
from regulus.spark.numpy_fields import read_fields
from tests.unit.spark.conftest import order

GOOD = message_record.encode(order(0))


def with_byte(position: int, value: int) -> bytes:
    return GOOD[:position] + bytes((value,)) + GOOD[position + 1:]


@pytest.mark.parametrize("bad", [
    bytes(len(GOOD)), GOOD[:-1], GOOD[:80], with_byte(0, 1), with_byte(3, 90), with_byte(36 + 3, 0x30),
    with_byte(84, 0x80), with_byte(86, 1), with_byte(88 + 6, 0xFF), with_byte(3, len(GOOD) - 1),
    message_record.blank(len(GOOD)) + bytes(len(GOOD) - 8),
])
def test_what_is_no_record_is_refused_with_its_place(bad):
    table = np.empty((len(FIELDS), 2), dtype=np.int64)
    with pytest.raises(CorruptRecord) as caught:
        read_fields(GOOD + bad, np.array([0, len(GOOD)], dtype=np.int64), table)
    assert caught.value.position == len(GOOD)
