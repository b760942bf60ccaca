import pytest

from regulus.errors import TruncatedRecord
from regulus.record import store_checkpoint
from regulus.record.store_checkpoint import StoreCheckpoint


def test_a_checkpoint_is_a_page_long():
    checkpoint = StoreCheckpoint(1, 2, 3, 4, 5)
    data = store_checkpoint.encode(checkpoint)
    assert len(data) == 4096
    assert data[:40] == b"".join(number.to_bytes(8, "big") for number in (1, 2, 3, 4, 5))
    assert store_checkpoint.decode(data) == checkpoint


def test_what_is_surely_on_disk():
    assert StoreCheckpoint(10_000, 9_000, 5_000).min_timestamp == 6_000
    assert StoreCheckpoint(1_000, 9_000, 5_000).min_timestamp == 0


def test_a_checkpoint_cut_short_is_refused():
    with pytest.raises(TruncatedRecord):
        store_checkpoint.decode(bytes(39))
