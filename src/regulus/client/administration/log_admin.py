"""Reads a broker's commit log as a whole: its state, its bytes, and how far an archive has copied it.

Only a Regulus broker answers these requests; another broker refuses with REQUEST_CODE_NOT_SUPPORTED.
"""

from typing import NamedTuple

from regulus.client.administration.admin_base import AdminBase
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    GetLogStateResponse,
    ReadCommitLogRequest,
    ReadCommitLogResponse,
    UpdateArchivedOffsetRequest,
)

LOG_READ_SIZE = 4 << 20
"""The most bytes that a broker sends at a time."""


class LogRead(NamedTuple):
    """Consecutive stored records, which `record.message_record` decodes."""

    data: bytes | memoryview
    next_offset: int


class LogAdmin(AdminBase):
    """`broker_address` is the `host:port` of a master."""

    async def log_state(self, broker_address: str) -> GetLogStateResponse:
        """The begin and end of the log, and the offsets up to which it is on disk and archived."""
        return GetLogStateResponse.decode(await self._request(broker_address, RequestCode.GET_LOG_STATE))

    async def update_archived_offset(self, broker_address: str, physical_offset: int,
                                     archive_identity: str = "") -> None:
        """Report that everything below the offset is in this archive; with the archive gate on, the broker may then
        delete it.

        Raises BrokerRefused when the offset is not on disk yet, or the gate waits for another archive.
        """
        header = UpdateArchivedOffsetRequest(physical_offset, archive_identity)
        await self._request(broker_address, RequestCode.UPDATE_ARCHIVED_OFFSET, header.ext())

    async def read_commit_log(self, broker_address: str, physical_offset: int,
                              size_max: int = LOG_READ_SIZE) -> LogRead:
        """Whole records from the offset on, where a record must begin; no bytes at the end of the part on disk.

        Raises BrokerRefused with code PULL_OFFSET_MOVED for an offset that the log no longer has, or does not have yet.
        """
        header = ReadCommitLogRequest(physical_offset=physical_offset, size_max=size_max)
        answer = await self._request(broker_address, RequestCode.READ_COMMIT_LOG, header.ext())
        return LogRead(answer.body_view, ReadCommitLogResponse.decode(answer).next_physical_offset)
