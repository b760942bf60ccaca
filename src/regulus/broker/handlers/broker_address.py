"""The address under which a broker names itself in an answer."""

from regulus.broker.state import BrokerState
from regulus.model.message_id import host_text
from regulus.model.peer import Peer


def broker_address(broker: BrokerState, peer: Peer) -> str:
    """The configured address, else the one at which the asker reached us."""
    if broker.config.broker_ip1:
        return f"{broker.config.broker_ip1}:{broker.config.listen_port}"
    return host_text(peer.local)
