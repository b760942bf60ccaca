from pathlib import Path

import pytest

from regulus.errors import ConfigError
from regulus.store.config import MessageStoreConfig


def test_paths_follow_the_root() -> None:
    config = MessageStoreConfig(store_path_root_dir="/data/store")
    assert config.commit_log_directory == Path("/data/store/commitlog")
    assert config.consume_queue_directory == Path("/data/store/consumequeue")
    assert config.index_directory == Path("/data/store/index")


def test_the_commit_log_may_lie_elsewhere() -> None:
    config = MessageStoreConfig(store_path_root_dir="/data", store_path_commit_log="/fast/log")
    assert config.commit_log_directory == Path("/fast/log")


def test_the_default_root_is_in_the_home_directory() -> None:
    assert MessageStoreConfig().root == Path.home() / "store"


def test_consume_queue_files_hold_whole_units() -> None:
    assert MessageStoreConfig(mapped_file_size_consume_queue=1270).consume_queue_file_size == 1280
    assert MessageStoreConfig().consume_queue_file_size == 6_000_000


def test_defaults_are_those_of_rocketmq() -> None:
    assert MessageStoreConfig().mapped_file_size_commit_log == 1 << 30


@pytest.mark.parametrize(("settings", "key"), [
    ({"mapped_file_size_commit_log": 100}, "mappedFileSizeCommitLog"),
    ({"mapped_file_size_consume_queue": 10}, "mappedFileSizeConsumeQueue"),
    ({"max_hash_slot_num": 0}, "maxHashSlotNum"),
    ({"max_index_num": 1}, "maxIndexNum"),
    ({"mapped_files_max": 0}, "mappedFilesMax"),
    ({"store_path_commit_log": "/a,/b"}, "storePathCommitLog")])
def test_impossible_values_are_refused_by_the_name_that_stands_in_the_file(settings: dict[str, object],
                                                                          key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key} is "):
        MessageStoreConfig(**settings)  # type: ignore[arg-type]
