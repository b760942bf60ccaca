from pathlib import Path

import pytest

from regulus.errors import StoreNewer
from regulus.store.later_formats import refuse_later_formats
from tests.stores import NOW, a_message, open_store, small_config


@pytest.mark.parametrize(("path", "said"), [
    ("consumequeue/CURRENT", "RocksDB"), ("consumequeue/000012.sst", "rebuilt from the log"),
    ("consumequeue_ext/T/0/00000000000000000000", "enableConsumeQueueExt"), ("dledger-n0/data/0", "DLedger"),
    ("config/rdb/CURRENT", "no tool of RocketMQ"), ("config/topics/CURRENT", "rocksDBConfigToJson")])
def test_what_lies_there_tells_the_format(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).touch()
    with pytest.raises(StoreNewer, match=said):
        refuse_later_formats(small_config(tmp_path))


def test_where_only_the_attribute_stands_nothing_stops_a_start(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/topics.json").write_text(
        '{"topicConfigTable":{"B":{"attributes":{"queue.type": "BatchCQ"}}}}')
    (tmp_path / "batchconsumequeue").mkdir()
    store = open_store(tmp_path)
    store.append(a_message("B"), NOW)
    store.close()
    again = open_store(tmp_path)
    assert again.max_offset("B", 0) == 1


def test_a_store_in_files_is_fine(tmp_path: Path) -> None:
    for path in ("consumequeue/TopicA/0/00000000000000000000", "batchconsumequeue/T/0/00000000000000000000",
                 "commitlog/00000000000000000000", "config/topics.json", "timerwheel",
                 "compaction/position-checkpoint", "abort.bak", "rocksdbstore/000004.log"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    refuse_later_formats(small_config(tmp_path))
    refuse_later_formats(small_config(tmp_path / "none"))


def test_empty_folders_that_a_tool_left_are_no_configuration(tmp_path: Path) -> None:
    for name in ("topics", "subscriptionGroups", "consumerOffsets", "rdb"):
        (tmp_path / "config" / name).mkdir(parents=True)
    refuse_later_formats(small_config(tmp_path))
