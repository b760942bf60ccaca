"""The address at which the asker reaches a broker.

A broker beside its name server registers `0.0.0.0`, because no setting says what it is called from outside. Whoever
asks has reached us at an address, and reaches that broker there too.
"""

from regulus.model.peer import Peer

_ANY_HOST = "0.0.0.0:"


def reached_address(address: str, peer: Peer) -> str:
    if not address.startswith(_ANY_HOST) or not peer.local_address:
        return address
    host = f"[{peer.local_address}]" if ":" in peer.local_address else peer.local_address
    return f"{host}:{address[len(_ANY_HOST):]}"


def reached_addresses(addresses: dict[int, str], peer: Peer) -> dict[int, str]:
    return {broker_id: reached_address(address, peer) for broker_id, address in addresses.items()}
