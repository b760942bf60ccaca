"""The settings of a message store besides the `StoreRules` that it shares with the broker.

RocketMQ's keys in snake_case; sizes in bytes, times in ms.
"""

from dataclasses import dataclass
from pathlib import Path

from regulus.errors import ConfigError
from regulus.model.local_path import address_fault
from regulus.record.batch_unit import UNIT_SIZE as BATCH_UNIT_SIZE
from regulus.record.consume_queue_unit import UNIT_SIZE

_FILE_SIZE_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStoreConfig:
    """Settings of a store; raises ConfigError for an invalid value."""

    store_path_root_dir: str = ""                   # empty: ~/store
    store_path_commit_log: str = ""                 # empty: commitlog in the root
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE   # rounded up to whole units
    mapper_file_size_batch_consume_queue: int = 300_000 * BATCH_UNIT_SIZE   # likewise, of queue.type=BatchCQ
    message_index_enable: bool = True
    message_index_safe: bool = False                # after a crash, redispatch from the last index file on disk too
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    check_crc_on_recover: bool = True
    cut_damaged_log: int = -1                       # offset at which a start may cut the log, once it has named it
    take_what_is_readable: bool = False             # start without the data that RocketMQ 5.5 keeps in RocksDB

    sync_flush_timeout: int = 2500          # RocketMQ's 5,000 is more than its clients wait by default
    flush_interval_commit_log: int = 500            # ASYNC_FLUSH
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2        # fewer dirty pages wait for the thorough flush
    flush_consume_queue_thorough_interval: int = 60_000

    mapped_file_size_timer_log: int = 100 << 20

    max_filter_message_size: int = 16_000           # bytes of consume queue that one filtered read may pass over
    max_msgs_num_batch: int = 64                    # records that one index query may return

    mapped_files_max: int = 4096                    # above it, the least recently used files are unmapped

    def __post_init__(self) -> None:
        for path in (self.store_path_root_dir, self.store_path_commit_log):
            if fault := address_fault(path):
                raise ConfigError(fault)
        if "," in self.store_path_commit_log:
            raise ConfigError(f"storePathCommitLog is {self.store_path_commit_log!r}: here a commit log is in one "
                              "directory; move its files into one")
        for key, number, low, high in (
                ("mappedFileSizeCommitLog", self.mapped_file_size_commit_log, 4096, _FILE_SIZE_MAX),
                ("mappedFileSizeConsumeQueue", self.mapped_file_size_consume_queue, UNIT_SIZE,
                 _FILE_SIZE_MAX - UNIT_SIZE),
                ("mapperFileSizeBatchConsumeQueue", self.mapper_file_size_batch_consume_queue, BATCH_UNIT_SIZE,
                 _FILE_SIZE_MAX - BATCH_UNIT_SIZE),
                ("maxHashSlotNum", self.max_hash_slot_num, 1, _FILE_SIZE_MAX),
                ("mappedFileSizeTimerLog", self.mapped_file_size_timer_log, 4096, _FILE_SIZE_MAX),
                ("maxIndexNum", self.max_index_num, 2, _FILE_SIZE_MAX),
                ("mappedFilesMax", self.mapped_files_max, 16, 1 << 20)):
            if not low <= number <= high:
                raise ConfigError(f"{key} is {number}: write a number from {low} to {high}")

    @property
    def root(self) -> Path:
        return Path(self.store_path_root_dir).expanduser() if self.store_path_root_dir else Path.home() / "store"

    @property
    def commit_log_directory(self) -> Path:
        return Path(self.store_path_commit_log).expanduser() if self.store_path_commit_log else self.root / "commitlog"

    @property
    def consume_queue_directory(self) -> Path:
        return self.root / "consumequeue"

    @property
    def index_directory(self) -> Path:
        return self.root / "index"

    @property
    def consume_queue_file_size(self) -> int:
        """The configured size of a file, rounded up to whole units."""
        return -(-self.mapped_file_size_consume_queue // UNIT_SIZE) * UNIT_SIZE

    @property
    def batch_consume_queue_directory(self) -> Path:
        return self.root / "batchconsumequeue"

    @property
    def batch_consume_queue_file_size(self) -> int:
        """The configured size of a file of a queue of batches, rounded up to whole units."""
        return -(-self.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
