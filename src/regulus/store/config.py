"""Settings of a message store, next to the `StoreRules` of its broker. Names are RocketMQ's keys in snake_case."""

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

    # Directories and file sizes
    store_path_root_dir: str = ""
    """Directory of all files of the broker. Empty: `~/store`."""
    store_path_commit_log: str = ""
    """Directory of the log, for example on a disk of its own. Empty: `commitlog` in the directory above."""
    mapped_file_size_commit_log: int = 1 << 30
    """[bytes] Size of a file of the log. Must match the existing files. Less lets old messages be deleted in smaller
    parts, and needs more files."""
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE
    """[bytes] Size of a file of a queue, rounded up to whole units of 20 bytes. Must match the existing files."""
    mapper_file_size_batch_consume_queue: int = 300_000 * BATCH_UNIT_SIZE
    """[bytes] Size of a file of a queue of `queue.type=BatchCQ`, rounded up to whole units of 46 bytes. Must match the
    existing files."""
    mapped_file_size_timer_log: int = 100 << 20
    """[bytes] Size of a file of the log of timers. Must match the existing files."""
    mapped_files_max: int = 4096
    """[files] How many are mapped at once; beyond that the longest unused are unmapped. More uses more of the address
    space and of the limit of open files."""

    # Start and repair
    check_crc_on_recover: bool = True
    """Whether a start compares the checksums of the bodies that it reads. Off is faster and overlooks damaged
    bodies."""
    cut_damaged_log: int = -1
    """[physical offset] Damage at which this start may cut the log, as an earlier start named it. -1: nothing is
    cut."""
    take_what_is_readable: bool = False
    """On: a store opens without the parts that RocketMQ 5.5 keeps in RocksDB, and a warning counts what is left out.
    Off: such a store is refused."""

    # Index
    message_index_enable: bool = True
    """Whether messages can be found by key and id. Off saves the index files and the time to write them."""
    message_index_safe: bool = False
    """On: a start after a crash also reads the log from the last record of the index on, which takes longer. Index
    files that a power cut may have damaged are rebuilt in either case."""
    max_hash_slot_num: int = 5_000_000
    """[slots] Hash slots of an index file. More finds a key faster and makes each file larger, by 4 bytes a slot."""
    max_index_num: int = 20_000_000
    """[entries] Entries of an index file, of 20 bytes each. More makes fewer and larger files."""
    max_msgs_num_batch: int = 64
    """[records] Most that one search of the index returns."""
    max_filter_message_size: int = 16_000
    """[bytes] Part of a queue that one filtered read may skip without a match. More finds rare messages in fewer
    requests, each of which takes longer."""

    # Flushing
    flush_interval_commit_log: int = 500
    """[ms] Pause between two flushes of the log with `ASYNC_FLUSH`: what a power cut may take. A killed process loses
    nothing."""
    sync_flush_timeout: int = 2500
    """[ms] Longest that a send waits for the disk with `SYNC_FLUSH`; after it the send is answered
    `FLUSH_DISK_TIMEOUT`, and its message stays stored. RocketMQ's 5,000 is more than its clients wait by default."""
    flush_interval_consume_queue: int = 1000
    """[ms] Pause between two flushes of the queues. More leaves a start after a crash more to check and rebuild."""
    flush_consume_queue_least_pages: int = 2
    """[pages] A queue with fewer changed pages waits for the thorough flush. More saves writes with many quiet
    queues."""
    flush_consume_queue_thorough_interval: int = 60_000
    """[ms] Pause between two thorough flushes, which write every changed queue and the checkpoint. More leaves a start
    after a crash more of the log to check."""

    def __post_init__(self) -> None:
        for path in (self.store_path_root_dir, self.store_path_commit_log):
            if fault := address_fault(path):
                raise ConfigError(fault)
        if "," in self.store_path_commit_log:
            raise ConfigError(f"storePathCommitLog is {self.store_path_commit_log!r}: a commit log is in one "
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
        """The configured size for queues of batches, rounded up to whole units."""
        return -(-self.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
