"""The commit log as a whole, for an archive: GET_LOG_STATE, UPDATE_ARCHIVED_OFFSET, READ_COMMIT_LOG.

A read returns a slice of the log without decoding it. The slice ends after a whole record.
"""

from regulus.broker.archived_offset import IDENTITY_SIZE_MAX
from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.model.retention_rules import ArchiveGate
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    GetLogStateResponse,
    ReadCommitLogRequest,
    ReadCommitLogResponse,
    UpdateArchivedOffsetRequest,
)
from regulus.wire.remoting_command import RemotingCommand

READ_SIZE_MAX = 4 << 20
"""Bytes of one answer, whatever the request says."""


def handle_get_log_state(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    store = broker.store
    return succeed(request, ext=GetLogStateResponse(
        broker_name=broker.config.broker_name, min_physical_offset=store.commit_log_min_offset(),
        max_physical_offset=store.commit_log_max_offset(), flushed_physical_offset=store.flushed_offset,
        archived_physical_offset=broker.archived_offset.physical_offset,
        archive_gate=broker.config.archive_gate, archive_identity=broker.config.archive_identity).ext())


def handle_update_archived_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """The offset never exceeds what is on disk. If the gate waits for an archive, reports of others are refused."""
    header = UpdateArchivedOffsetRequest.decode(request)
    trusted = broker.config.archive_identity
    if broker.config.archive_gate is ArchiveGate.on and (not trusted or header.archive_identity != trusted):
        return refuse(request, ResponseCode.NO_PERMISSION,
                      f"archiveGate is on and opens only for the archive {trusted or '(none)'} (archiveIdentity), and "
                      f"this one is {header.archive_identity[:IDENTITY_SIZE_MAX] or '(without an identity)'}")
    fault = broker.archived_offset.advance(header.archived_physical_offset, broker.store.flushed_offset,
                                           header.archive_identity)
    if fault:
        return refuse(request, ResponseCode.INVALID_PARAMETER, fault)
    return succeed(request)


def handle_read_commit_log(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Records from an offset on, up to the end of a file or of what is on disk; no records at that end."""
    header = ReadCommitLogRequest.decode(request)
    store, offset = broker.store, header.physical_offset
    first, end = store.commit_log_min_offset(), store.flushed_offset
    if not first <= offset <= end:
        return refuse(request, ResponseCode.PULL_OFFSET_MOVED,
                      f"the log has no offset {offset}: on disk it reaches from {first} to {end}",
                      ReadCommitLogResponse(first if offset < first else end).ext())
    if header.size_max < 1:
        return refuse(request, ResponseCode.INVALID_PARAMETER, f"sizeMax is {header.size_max}: write 1 or more")
    read = store.read_log(offset, min(header.size_max, READ_SIZE_MAX), end)
    if read is None:
        return refuse(request, ResponseCode.INVALID_PARAMETER,
                      f"no record begins at {offset}: read from an offset that a read before named as its next")
    body = [read.data] if read.data else []
    return Reply(request.response(ResponseCode.SUCCESS, ext=ReadCommitLogResponse(read.next_offset).ext(), body=body))
