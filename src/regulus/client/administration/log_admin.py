"""A broker's commit log as a whole: its state, its bytes, and how far an archive has it.

Only a Regulus broker answers these; another one refuses with REQUEST_CODE_NOT_SUPPORTED.
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
"""The most that a broker gives at a time."""


class LogRead(NamedTuple):
    """Stored records one behind the other, as `record.message_record` decodes them."""

    data: bytes | memoryview
    next_offset: int


class LogAdmin(AdminBase):
    """`broker_address` is that of a master, `host:port`."""

    async def log_state(self, broker_address: str) -> GetLogStateResponse:
        """From where to where the log reaches, and up to where it is on disk and archived."""
        return GetLogStateResponse.decode(await self._request(broker_address, RequestCode.GET_LOG_STATE))

    async def update_archived_offset(self, broker_address: str, physical_offset: int,
                                     archive_identity: str = "") -> None:
        """Tell that everything below the offset is in this archive; with the archive gate on, the broker may delete it.

        Raises BrokerRefused when that goes beyond what is on disk, or the gate waits for another archive.
        """
        header = UpdateArchivedOffsetRequest(physical_offset, archive_identity)
        await self._request(broker_address, RequestCode.UPDATE_ARCHIVED_OFFSET, header.ext())

    async def read_commit_log(self, broker_address: str, physical_offset: int,
                              size_max: int = LOG_READ_SIZE) -> LogRead:
        """Whole records from the offset on, which is where one begins; no bytes at the end of what is on disk.

        Raises BrokerRefused with code PULL_OFFSET_MOVED for an offset that the log does not have any more, or not yet.
        """
        header = ReadCommitLogRequest(physical_offset=physical_offset, size_max=size_max)
        answer = await self._request(broker_address, RequestCode.READ_COMMIT_LOG, header.ext())
        return LogRead(answer.body_view, ReadCommitLogResponse.decode(answer).next_physical_offset)
