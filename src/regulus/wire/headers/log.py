"""GET_LOG_STATE (20001), UPDATE_ARCHIVED_OFFSET (20002), READ_COMMIT_LOG (20003).

Requests of Regulus's own, for programs that read the commit log itself, such as an archive. RocketMQ has no such
requests; its broker answers them with REQUEST_CODE_NOT_SUPPORTED.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True, kw_only=True)
class GetLogStateResponse(Header):
    """Offsets of the log, and the state of its archive.

    Physical offsets: of the first byte kept, after the last byte written, after the last byte on disk, and the offset
    up to which the log is archived (-1: not at all). `archive_gate` is `on` or `off`; `archive_identity` is that of the
    archive which opens it.
    """

    broker_name: str
    min_physical_offset: Long
    max_physical_offset: Long
    flushed_physical_offset: Long
    archived_physical_offset: Long
    archive_gate: str
    archive_identity: str = ""


@dataclass(frozen=True, slots=True)
class UpdateArchivedOffsetRequest(Header):
    """Reports that everything below the offset is in the archive with this identity."""

    archived_physical_offset: Long
    archive_identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommitLogRequest(Header):
    """`physical_offset` is where a record begins; `size_max` in bytes."""

    physical_offset: Long
    size_max: int


@dataclass(frozen=True, slots=True)
class ReadCommitLogResponse(Header):
    """The body has whole records; the next read begins at `next_physical_offset`."""

    next_physical_offset: Long
