import zlib

import pytest

from regulus.record.checksum import crc32


@pytest.mark.parametrize("size", [0, 1, 15, 16, 63, 64, 1024, 100_001])
def test_the_sum_is_that_of_zlib(size):
    data = bytes(index * 7 & 0xFF for index in range(size))
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)[size // 3:]) == zlib.crc32(data[size // 3:])
