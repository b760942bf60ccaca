"""The address of the broker as its answers contain it."""

from regulus.broker.state import BrokerState
from regulus.model.message_id import host_text
from regulus.model.peer import Peer


def broker_address(broker: BrokerState, peer: Peer) -> str:
    """The configured address, otherwise the one at which the client reached the broker."""
    if broker.config.broker_ip1:
        return f"{broker.config.broker_ip1}:{broker.config.listen_port}"
    return host_text(peer.local)
