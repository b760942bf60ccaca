from pathlib import Path

from regulus.record.store_checkpoint import StoreCheckpoint
from regulus.store.checkpoint_file import CheckpointFile


def test_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file = CheckpointFile(path)
    file.log_flushed(10_000)
    file.queues_flushed(9_000)
    file.index_flushed(8_000)
    file.save()
    assert path.stat().st_size == 4096
    again = CheckpointFile(path)
    again.load()
    assert again.checkpoint == file.checkpoint
    assert again.checkpoint.min_timestamp == 6_000


def test_times_only_grow(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint")
    file.log_flushed(10)
    file.log_flushed(5)
    file.queues_flushed(10)
    file.queues_flushed(5)
    file.index_flushed(10)
    file.index_flushed(5)
    assert file.checkpoint == StoreCheckpoint(physic_msg_timestamp=10, logics_msg_timestamp=10, index_msg_timestamp=10)


def test_a_missing_or_short_file_is_all_zero(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "checkpoint")
    file.load()
    assert file.checkpoint.min_timestamp == 0
    (tmp_path / "checkpoint").write_bytes(b"\x01" * 7)
    file.load()
    assert file.checkpoint.physic_msg_timestamp == 0
