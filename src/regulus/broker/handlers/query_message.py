"""Reads messages and offsets without consuming.

QUERY_MESSAGE, VIEW_MESSAGE_BY_ID, SEARCH_OFFSET_BY_TIMESTAMP, GET_MAX_OFFSET, GET_MIN_OFFSET,
GET_EARLIEST_MSG_STORETIME.
"""

from collections.abc import Set

from regulus.broker.handlers.answer import succeed
from regulus.broker.long_answers import Steps
from regulus.broker.outcome import Outcome, Reply, refuse
from regulus.broker.state import BrokerState
from regulus.model.java_numbers import LONG_MAX
from regulus.model.peer import Peer
from regulus.record import big_endian, layout
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import (
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    QueryMessageRequest,
    QueryMessageResponse,
    SearchOffsetByTimestampRequest,
    SearchOffsetByTimestampResponse,
    UnreadableRecords,
    ViewMessageByIdRequest,
)
from regulus.wire.remoting_command import RemotingCommand

QUERY_MESSAGE_NUMS_MAX = 1024
"""Messages that one query collects, at most, whatever the client asks for."""
QUERY_SIZE_MAX = 8 << 20
"""Bytes of one answer, unless its newest message alone has more. Clients accept frames of at most 16 MiB."""


def handle_query_message(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = QueryMessageRequest.decode(request)
    count_max = broker.config.default_query_max_num if header.unique_key_query else header.max_num
    count_max = min(count_max, QUERY_MESSAGE_NUMS_MAX)
    return broker.long_answers.begin(request, peer, _found(request, header, count_max, broker))


def _found(request: RemotingCommand, header: QueryMessageRequest, count_max: int, broker: BrokerState) -> Steps:
    before = LONG_MAX if header.regulus_before is None else header.regulus_before
    result = yield from broker.store.query_message_in_steps(header.topic, header.key, count_max,
                                                            header.begin_timestamp, header.end_timestamp, before)
    records = _newest(result.buffers)
    unreadable = _count_behind(records, result.unreadable)
    more = UnreadableRecords(regulus_unreadable=unreadable).ext() if unreadable else {}
    if not records:
        remark = (f"{unreadable} index entries point at records that cannot be read" if unreadable else
                  "can not find message, maybe time range not correct")
        return request.response(ResponseCode.QUERY_NOT_FOUND, remark, more)
    ext = QueryMessageResponse(index_last_update_timestamp=result.index_last_update_timestamp,
                               index_last_update_phyoffset=result.index_last_update_physical_offset).ext()
    return request.response(ResponseCode.SUCCESS, ext={**ext, **more}, body=records)


def handle_view_message_by_id(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    physical_offset = ViewMessageByIdRequest.decode(request).offset
    record = broker.store.record_bytes(physical_offset)
    if record is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical_offset}")
    return Reply(request.response(ResponseCode.SUCCESS, body=[record]))


def handle_search_offset_by_timestamp(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    header = SearchOffsetByTimestampRequest.decode(request)
    upper = (header.boundary_type or "").upper() == "UPPER"
    queue_offset = broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp, upper)
    return succeed(request, ext=SearchOffsetByTimestampResponse(offset=queue_offset).ext())


def handle_get_max_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = GetMaxOffsetRequest.decode(request)
    queue_offset = broker.store.max_offset(header.topic, header.queue_id)
    return succeed(request, ext=GetMaxOffsetResponse(offset=queue_offset).ext())


def handle_get_min_offset(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    header = GetMinOffsetRequest.decode(request)
    queue_offset = broker.store.min_offset(header.topic, header.queue_id)
    return succeed(request, ext=GetMinOffsetResponse(offset=queue_offset).ext())


def handle_get_earliest_msg_storetime(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    """-1 when the queue is empty."""
    header = GetEarliestMsgStoretimeRequest.decode(request)
    first = broker.store.min_offset(header.topic, header.queue_id)
    timestamp = broker.store.store_timestamp(header.topic, header.queue_id, first)
    return succeed(request, ext=GetEarliestMsgStoretimeResponse(timestamp=timestamp).ext())


def _count_behind(records: list[memoryview], offsets: Set[int]) -> int:
    """Number of offsets after the first record; a query for older messages finds the others."""
    oldest = big_endian.int8(records[0], layout.PHYSICAL_OFFSET) if records else -1
    return sum(offset > oldest for offset in offsets)


def _newest(records: list[memoryview]) -> list[memoryview]:
    """The newest records, as many as fit into one answer."""
    size = 0
    for index in range(len(records) - 1, -1, -1):
        size += len(records[index])
        if size > QUERY_SIZE_MAX and index < len(records) - 1:
            return records[index + 1:]
    return records
