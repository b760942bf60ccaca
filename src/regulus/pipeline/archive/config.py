"""What an archive job is told."""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.local_path import address_fault
from regulus.spark.options import DEFAULT_BROKER_NAME
from regulus.transport.tls import PLAIN, TlsConfig

RANGE_SIZE_MIN = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """A table that shows the archive's files, by the names that pyiceberg uses."""

    table: str                              # namespace.name
    catalog: str = "default"
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    """`store_path` is read where Spark's tasks run, `archive_path` written there."""

    store_path: str
    archive_path: str
    broker_name: str = DEFAULT_BROKER_NAME
    name_server: str = ""                   # of the running broker; empty for a stopped store or a backup
    access_key: str = ""
    secret_key: str = ""
    tls: TlsConfig = PLAIN
    message_delay_level: str = DEFAULT_LADDER   # of a stopped store; a running broker tells its own
    range_size: int = 256 << 20             # bytes of log a task and a manifest
    accept_gaps: bool = False               # archive what is there although messages are missing
    beside_the_gate: bool = False           # archive although the broker's gate waits for another archive
    iceberg: IcebergTable | None = None

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for path in (self.store_path, self.archive_path):
            if fault := address_fault(path):
                raise ConfigError(fault)
        if self.range_size < RANGE_SIZE_MIN:
            raise ConfigError(f"a range of the log has {self.range_size} bytes: it must have {RANGE_SIZE_MIN} or more")
        if not self.broker_name:
            raise ConfigError("the broker's name is empty: the archive keeps the log of each broker under its name")
        if self.broker_name in (".", ".."):
            raise ConfigError(f"the broker's name is {self.broker_name!r}, which no folder can have")
        parse_ladder(self.message_delay_level)
