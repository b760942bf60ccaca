"""Settings of an archive job."""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.local_path import address_fault
from regulus.spark.options import DEFAULT_BROKER_NAME
from regulus.transport.tls import PLAIN, TlsConfig

RANGE_SIZE_MIN = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable:
    """An Iceberg table that shows the archive's files. Names are those of pyiceberg."""

    table: str
    """`namespace.name`"""
    catalog: str = "default"
    """Name of the catalog, as in pyiceberg's configuration."""
    properties: tuple[tuple[str, str], ...] = ()
    """Properties of the catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    """The settings of an archive job. Raises ConfigError for an invalid value."""

    store_path: str
    """Directory of the broker's store, read where Spark's tasks run."""
    archive_path: str
    """Directory of the archive, written where Spark's tasks run."""
    broker_name: str = DEFAULT_BROKER_NAME
    """Name under which the archive keeps the log of this broker."""
    name_server: str = ""
    """Name server of the running broker. Empty: the store is a stopped one or a backup."""
    access_key: str = ""
    """With `secret_key`: the account by which requests to the broker are signed."""
    secret_key: str = ""
    """Secret of that account."""
    tls: TlsConfig = PLAIN
    """TLS towards broker and name server."""
    message_delay_level: str = DEFAULT_LADDER
    """Delay levels of a stopped store; a running broker reports its own."""
    range_size: int = 256 << 20
    """[bytes] Part of the log for each task and manifest. More makes fewer and larger files."""
    accept_gaps: bool = False
    """On: a run archives the messages that are there, although others are missing. Off: it refuses."""
    beside_the_gate: bool = False
    """On: a run archives although the broker's gate waits for another archive, and reports nothing to the broker."""
    iceberg: IcebergTable | None = None
    """Iceberg table that shows the files of the archive. None: no table."""

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
