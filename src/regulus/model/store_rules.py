"""What a broker and its store must agree on, once: the broker's settings are such rules, and the store is given them.

Names are RocketMQ's keys in snake_case.

Source: MessageStoreConfig.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from regulus.errors import ConfigError
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.retention_rules import RetentionRules


class FlushDiskType(StrEnum):
    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRules(RetentionRules):
    """Raises ConfigError for a value that makes no sense."""

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    message_delay_level: str = DEFAULT_LADDER

    delay_ladder_ms: tuple[int, ...] = field(init=False, repr=False)
    """The delay of each level, from `message_delay_level`."""

    def __post_init__(self) -> None:
        RetentionRules.__post_init__(self)   # with slots, super() would look for a class that is gone
        if self.flush_disk_type not in tuple(FlushDiskType):
            raise ConfigError(f"flushDiskType is {self.flush_disk_type!r}: write {' or '.join(FlushDiskType)}")
        object.__setattr__(self, "flush_disk_type", FlushDiskType(self.flush_disk_type))
        object.__setattr__(self, "delay_ladder_ms", parse_ladder(self.message_delay_level))

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == FlushDiskType.SYNC_FLUSH
