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

    # Flushing and delay levels
    flush_disk_type: FlushDiskType = FlushDiskType.ASYNC_FLUSH
    """`SYNC_FLUSH`: a send is answered when its message is on disk, one flush for all that wait. `ASYNC_FLUSH`: it is
    answered at once, and a power cut may take what was not flushed yet."""
    message_delay_level: str = DEFAULT_LADDER
    """Delays of the levels of delayed messages and retries, in `ms`, `s`, `m`, `h` or `d`. With fewer levels than
    before, messages at a level that is gone wait until it is back; each start counts them."""

    # Messages at a time of their own
    timer_wheel_enable: bool = True
    """Whether messages may have a delivery time of their own. Off refuses them."""
    timer_precision_ms: int = 1_000
    """[ms] Tick of delivery times: 100, 200, 500 or 1000. Less is more exact and wakes the broker more often. Files
    with waiting messages keep the tick that they have."""
    timer_max_delay_sec: int = 259_200
    """[s] Longest delay. A message that is to wait longer is refused."""
    timer_roll_window_slot: int = 172_800
    """[ticks] Time after which a waiting message is written to the log again, so that old files can be deleted. Less
    writes more often; more than two thirds of `file_reserved_time` has no effect."""

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
