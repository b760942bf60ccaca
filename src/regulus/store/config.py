"""What a message store can be told. RocketMQ's keys in snake_case; sizes in bytes, times in ms."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from regulus.errors import ConfigError
from regulus.model import delay_level
from regulus.record.consume_queue_unit import UNIT_SIZE

_FILE_SIZE_MAX = 0x7FFFFFFF


class FlushDiskType(StrEnum):
    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStoreConfig:
    """Raises ConfigError for a value that no store can work with."""

    store_path_root_dir: str = ""                   # empty: ~/store
    store_path_commit_log: str = ""                 # empty: commitlog in the root
    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * UNIT_SIZE   # rounded up to whole units
    message_index_enable: bool = True
    message_index_safe: bool = False                # after a crash, redispatch from the last index file on disk too
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_message_size: int = 4 << 20                 # of a body, as stored
    message_delay_level: str = delay_level.DEFAULT_LADDER
    check_crc_on_recover: bool = True

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout: int = 5000
    flush_interval_commit_log: int = 500            # ASYNC_FLUSH
    flush_interval_consume_queue: int = 1000
    flush_consume_queue_least_pages: int = 2        # fewer dirty pages wait for the thorough flush
    flush_consume_queue_thorough_interval: int = 60_000

    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 65_536
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40    # percent of physical memory
    max_filter_message_size: int = 16_000           # bytes of consume queue that one filtered read may pass over
    default_query_max_num: int = 32
    max_msgs_num_batch: int = 64                    # records that one index query may return

    mapped_files_max: int = 4096                    # more are unmapped, the longest unused first

    def __post_init__(self) -> None:
        delay_level.parse_ladder(self.message_delay_level)
        if self.flush_disk_type not in tuple(FlushDiskType):
            raise ConfigError(f"flush_disk_type is {self.flush_disk_type!r}: choose one of {', '.join(FlushDiskType)}")
        if "," in self.store_path_commit_log:
            raise ConfigError(f"store_path_commit_log is {self.store_path_commit_log!r}: here a commit log lies in one "
                              "directory; move its files into one")
        self._check("mapped_file_size_commit_log", 4096, _FILE_SIZE_MAX)
        self._check("mapped_file_size_consume_queue", UNIT_SIZE, _FILE_SIZE_MAX - UNIT_SIZE)
        self._check("max_hash_slot_num", 1, _FILE_SIZE_MAX)
        self._check("max_index_num", 2, _FILE_SIZE_MAX)
        self._check("max_message_size", 1, 1 << 30)
        self._check("mapped_files_max", 16, 1 << 20)

    def _check(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if not low <= value <= high:
            raise ConfigError(f"{name} is {value}: it must lie between {low} and {high}")

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
        """The configured size, rounded up to whole units."""
        return -(-self.mapped_file_size_consume_queue // UNIT_SIZE) * UNIT_SIZE

    @property
    def delays_ms(self) -> tuple[int, ...]:
        return delay_level.parse_ladder(self.message_delay_level)

    @property
    def is_sync_flush(self) -> bool:
        return self.flush_disk_type == FlushDiskType.SYNC_FLUSH
