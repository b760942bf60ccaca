"""GET_BROKER_HA_STATUS: how far a master's slaves are, or how far a slave's copy is.

Source: HAService.getRuntimeInfo.
"""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire.remoting_command import RemotingCommand


def handle_get_broker_ha_status(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    return succeed(request, broker.ha_status(now_ms).encode())
