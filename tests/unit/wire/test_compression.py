import zlib

import pytest

from regulus.errors import MessageIllegal
from regulus.model import sys_flag
from regulus.wire import compression

BODY = b"an ordinary body, an ordinary body, an ordinary body " * 100
TYPES = [0, sys_flag.COMPRESSION_LZ4, sys_flag.COMPRESSION_ZSTD, sys_flag.COMPRESSION_ZLIB]


@pytest.mark.parametrize("type_bits", TYPES)
@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_a_body_survives_the_way(type_bits: int, body: bytes) -> None:
    packed = compression.compress(body, type_bits)
    assert compression.decompress(packed, sys_flag.COMPRESSED | type_bits) == body


def test_a_body_that_is_not_compressed_is_given_back() -> None:
    assert compression.decompress(BODY, sys_flag.COMPRESSION_ZSTD) is BODY


def test_no_type_is_zlib() -> None:
    assert compression.decompress(zlib.compress(BODY), sys_flag.COMPRESSED) == BODY


@pytest.mark.parametrize("type_bits", TYPES)
def test_a_bomb_is_refused(type_bits: int) -> None:
    bomb = compression.compress(bytes(1_000_000), type_bits)
    assert len(bomb) < 10_000
    with pytest.raises(MessageIllegal, match="grows beyond 999999"):
        compression.decompress(bomb, sys_flag.COMPRESSED | type_bits, 999_999)
    assert len(compression.decompress(bomb, sys_flag.COMPRESSED | type_bits, 1_000_000)) == 1_000_000


@pytest.mark.parametrize("type_bits", TYPES)
def test_a_stream_that_is_cut_short_is_refused(type_bits: int) -> None:
    packed = compression.compress(BODY, type_bits)
    for cut in (0, 1, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(MessageIllegal):
            compression.decompress(packed[:cut], sys_flag.COMPRESSED | type_bits)


@pytest.mark.parametrize("type_bits", TYPES)
def test_garbage_is_refused(type_bits: int) -> None:
    with pytest.raises(MessageIllegal, match="is no"):
        compression.decompress(b"this was never compressed", sys_flag.COMPRESSED | type_bits)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="0x400"):
        compression.decompress(BODY, sys_flag.COMPRESSED | 0x400)
    with pytest.raises(MessageIllegal, match="0x700"):
        compression.compress(BODY, 0x700)
