"""The address at which a client reaches a broker on the name server's machine.

Such a broker registers `0.0.0.0`, because no setting gives its outside address. The client reached the name server at
some address, and reaches that broker at the same one.
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
