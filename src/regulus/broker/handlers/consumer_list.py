"""GET_CONSUMER_LIST_BY_GROUP: client ids of the consumers of a group."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import GetConsumerListByGroupRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_get_consumer_list_by_group(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                      now_ms: int) -> Outcome:
    group = GetConsumerListByGroupRequest.decode(request).consumer_group
    consumers = broker.clients.consumer_group(group)
    if consumers is None:
        return refuse(request, ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    return succeed(request, consumers.encoded_ids())
