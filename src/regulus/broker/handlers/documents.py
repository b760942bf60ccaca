"""GET_DOCUMENT: documents for which RocketMQ has no request, for the slaves of a Regulus broker."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import ACCESS_DOCUMENT, BrokerState
from regulus.model.peer import Peer
from regulus.wire import encoded_table
from regulus.wire.codes import ResponseCode
from regulus.wire.frame_reader import FRAME_SIZE_MAX, HEADER_SIZE_MAX
from regulus.wire.headers import GetDocumentRequest, GetDocumentResponse
from regulus.wire.remoting_command import RemotingCommand

DOCUMENT_SIZE_MAX = FRAME_SIZE_MAX - HEADER_SIZE_MAX
"""Bytes of the largest document; clients close the connection at a larger frame."""


def handle_get_document(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    asked = GetDocumentRequest.decode(request)
    kept = next((kept for kept in broker.kept_parts if kept.name == asked.name), None)
    if kept is None:
        return refuse(request, ResponseCode.INVALID_PARAMETER, f"this broker keeps no document {asked.name}")
    version = f"{broker.statistics.boot_timestamp}-{kept.part.changes}"
    # It has secrets; without a door the broker does not know that the sender is a broker of the cluster.
    is_kept_back = kept.name == ACCESS_DOCUMENT and broker.guard is None
    body = b"" if version == asked.version or is_kept_back else b"".join(encoded_table.joined(kept.part.document()))
    if len(body) > DOCUMENT_SIZE_MAX:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"the document {kept.name} has {len(body)} bytes, more than {DOCUMENT_SIZE_MAX}")
    return succeed(request, body, ext=GetDocumentResponse(version).ext())
