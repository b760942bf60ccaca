"""The other end of a connection, as handlers see it."""


class Peer:
    """`remote` and `local` are hosts in stored form: the peer's address, and the address at which it reached us."""

    def __init__(self, channel: int, remote: bytes, local: bytes, remote_text: str = "",
                 local_address: str = "") -> None:
        self.channel = channel
        self.remote = remote
        self.local = local
        self.remote_text = remote_text
        self.local_address = local_address

    def __repr__(self) -> str:
        return f"Peer({self.channel}, {self.remote_text!r})"
