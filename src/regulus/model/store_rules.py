"""The settings that a broker and its store share: the broker's settings extend them, and the store is given them.

Names are RocketMQ's keys in snake_case.

Source: MessageStoreConfig.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from regulus.errors import ConfigError
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.retention_rules import HOUR_MS, RetentionRules

TIMER_PRECISIONS_MS = (100, 200, 500, 1000)
TIMER_SLOTS_MAX = 604_800 - 60
"""The number of ticks that the timer wheel covers."""


class FlushDiskType(StrEnum):
    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRules(RetentionRules):
    """Settings shared by broker and store; raises ConfigError for an invalid value."""

    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    message_delay_level: str = DEFAULT_LADDER

    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1_000
    """The tick of messages that have a delivery time: 100, 200, 500 or 1000. Existing timer files keep their tick."""
    timer_max_delay_sec: int = 259_200                  # a message with a longer delay is refused
    timer_roll_window_slot: int = 172_800               # ticks; a longer wait is appended to the log again on the way

    delay_ladder_ms: tuple[int, ...] = field(init=False, repr=False)
    """The delay of each level, from `message_delay_level`."""

    def __post_init__(self) -> None:
        RetentionRules.__post_init__(self)   # with slots, super() would look for a class that no longer exists
        if self.flush_disk_type not in tuple(FlushDiskType):
            raise ConfigError(f"flushDiskType is {self.flush_disk_type!r}: write {' or '.join(FlushDiskType)}")
        if self.timer_precision_ms not in TIMER_PRECISIONS_MS:
            raise ConfigError(f"timerPrecisionMs is {self.timer_precision_ms}: write "
                              f"{', '.join(map(str, TIMER_PRECISIONS_MS))}")
        if self.timer_max_delay_sec < 1:
            raise ConfigError(f"timerMaxDelaySec is {self.timer_max_delay_sec}: write 1 or more")
        if self.timer_roll_window_slot < 2:
            raise ConfigError(f"timerRollWindowSlot is {self.timer_roll_window_slot}: write 2 or more")
        object.__setattr__(self, "flush_disk_type", FlushDiskType(self.flush_disk_type))
        object.__setattr__(self, "delay_ladder_ms", parse_ladder(self.message_delay_level))

    @property
    def timer_window_ms(self) -> int:
        """The longest time that a message waits at one position of the log: at most two thirds of the time that files
        of the log are kept."""
        kept_ms = max(self.file_reserved_time, 1) * HOUR_MS * 2 // 3
        return min(min(self.timer_roll_window_slot, TIMER_SLOTS_MAX) * self.timer_precision_ms, kept_ms)

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == FlushDiskType.SYNC_FLUSH
