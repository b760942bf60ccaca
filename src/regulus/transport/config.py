"""Limits of a connection and of a listener."""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.transport.tls import TlsConfig
from regulus.wire.config_text import config_key
from regulus.wire.frame_reader import FRAME_SIZE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig(TlsConfig):
    """Sizes are bytes, times are ms."""

    bind_address: str = "0.0.0.0"
    connections_max: int = 10_000           # of one listener; the next one is closed at once
    idle_time_max_ms: int = 120_000         # closed when neither read nor written so long; 0 keeps idle ones
    accept_backlog: int = 1024
    write_buffer_high: int = 1 << 20        # above it the peer's requests are not read
    write_buffer_low: int = 256 << 10       # at or below it they are read again
    write_buffer_max: int = 256 << 20       # a peer with more unread bytes is disconnected
    large_frames_size_max: int = 128 << 20  # total of unfinished frames above 64 KiB; further ones wait, unread
    unfinished_size_max: int = 64 << 20     # received bytes of all others; above it the longest inactive is closed
    frame_time_max_ms: int = 60_000         # closed when a frame takes longer to arrive
    close_wait_max_ms: int = 2_000          # how long closing waits until written bytes have left

    def __post_init__(self) -> None:
        TlsConfig.__post_init__(self)       # super() does not know a class with slots
        for name in ("connections_max", "accept_backlog", "write_buffer_high", "write_buffer_max",
                     "unfinished_size_max", "frame_time_max_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{config_key(name)} is {getattr(self, name)}: write 1 or more")
        if self.large_frames_size_max < FRAME_SIZE_MAX + 4:
            raise ConfigError(f"largeFramesSizeMax is {self.large_frames_size_max}: write {FRAME_SIZE_MAX + 4} or "
                              "more, so that the largest frame can come")
        if self.idle_time_max_ms < 0:
            raise ConfigError(f"idleTimeMaxMs is {self.idle_time_max_ms}: write 0 (never) or more")
        if not 0 <= self.write_buffer_low < self.write_buffer_high < self.write_buffer_max:
            raise ConfigError("writeBufferLow, writeBufferHigh and writeBufferMax must grow in this order")
