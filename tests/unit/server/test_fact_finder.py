"""What the broker is told of its disk."""

from pathlib import Path

from regulus.broker.config import BrokerConfig
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.broker.state import BrokerState
from regulus.server.fact_finder import LOOK_INTERVAL_MS, FactFinder
from regulus.store import disk
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore


def make(root: Path) -> tuple[BrokerState, FileMessageStore, FactFinder]:
    config = MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 16,
                                max_hash_slot_num=100, max_index_num=100)
    store = FileMessageStore(config)
    store.open()
    broker = BrokerState(BrokerConfig(), store)
    return broker, store, FactFinder(broker, store, config)


def test_the_disk_is_looked_at_now_and_then(tmp_path: Path) -> None:
    broker, store, finder = make(tmp_path / "store")
    finder.tick(1000)
    facts = broker.runtime_facts
    assert facts.disk_size > facts.disk_free > 0
    # What retention goes by, and df says.
    assert facts.commit_log_disk_ratio == facts.consume_queue_disk_ratio == disk.used_ratio(tmp_path)
    assert facts.commit_log_path == str(tmp_path / "store" / "commitlog")
    assert facts.store_config["storePathRootDir"] == str(tmp_path / "store")
    assert facts.store_config["mappedFileSizeCommitLog"] == "65536"
    finder.tick(1000 + LOOK_INTERVAL_MS - 1)
    assert broker.runtime_facts is facts
    finder.tick(1000 + LOOK_INTERVAL_MS)
    assert broker.runtime_facts is not facts
    store.close()


def test_a_disk_that_is_gone_leaves_the_facts_alone(tmp_path: Path) -> None:
    broker, store, _ = make(tmp_path / "store")
    elsewhere = MessageStoreConfig(store_path_root_dir=str(tmp_path / "gone"))
    FactFinder(broker, store, elsewhere).tick(1)
    assert broker.runtime_facts == RuntimeFacts()
    store.close()
