"""Limits of a connection and of a listener."""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.transport.tls import TlsConfig
from regulus.wire.config_text import config_key
from regulus.wire.frame_reader import FRAME_SIZE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportConfig(TlsConfig):
    """Raises ConfigError for a value that makes no sense."""

    # Number and time
    bind_address: str = "0.0.0.0"
    """Address to listen at. `0.0.0.0`: all IPv4 addresses of the machine; `regulus up` has 127.0.0.1 instead."""
    connections_max: int = 10_000
    """[connections] Most at one port; the next one is closed at once."""
    accept_backlog: int = 1024
    """[connections] How many the system holds until they are accepted. More survives a rush of clients."""
    idle_time_max_ms: int = 120_000
    """[ms] A connection on which nothing was read or written for so long is closed. 0 keeps idle connections."""
    close_wait_max_ms: int = 2_000
    """[ms] How long a close waits for written data to be sent."""

    # Buffers
    write_buffer_high: int = 1 << 20
    """[bytes] Unsent answers of a connection above which its requests are not read."""
    write_buffer_low: int = 256 << 10
    """[bytes] Unsent answers of a connection at which reading its requests resumes."""
    write_buffer_max: int = 256 << 20
    """[bytes] Unsent answers of a connection above which it is closed. Less bounds memory, and cuts off slow readers
    sooner."""
    large_frames_size_max: int = 128 << 20
    """[bytes] Room for the requests above 64 KiB that are arriving, of all connections together; the next one waits
    unread."""
    unfinished_size_max: int = 64 << 20
    """[bytes] Room for all other requests that are arriving; above it the connection without progress for the longest
    time is closed."""
    frame_time_max_ms: int = 60_000
    """[ms] A request that takes longer to arrive as a whole closes its connection. More lets slow links finish, and
    slow attackers hold room."""

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
