"""Transactional messages, which this broker does not serve yet: END_TRANSACTION."""

from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

NOT_SERVED = "transactional messages are not served by this broker yet"


def handle_end_transaction(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return refuse(request, ResponseCode.NO_PERMISSION, NOT_SERVED)
