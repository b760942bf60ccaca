import pytest

from regulus.errors import CorruptRecord
from regulus.record.synced_mark import SyncedMark, decode, encode

MARK = SyncedMark(start=4096, size=120, store_timestamp=1_700_000_000_000, checksum=0x8D2A5F31)


def test_a_mark_comes_back() -> None:
    assert decode(encode(MARK)) == MARK
    assert MARK.end == 4216


@pytest.mark.parametrize("data", [b"", b"\n", b"4096 120\n", b"a b c d e\n", encode(MARK)[:-3], b"1" + encode(MARK),
                                  encode(MARK).replace(b"120", b"121")])
def test_what_is_no_whole_mark_is_told(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode(data)


def test_a_mark_fits_no_shorter_head() -> None:
    assert not MARK.fits(b"")
