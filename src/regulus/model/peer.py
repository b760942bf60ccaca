"""The other end of a connection, as handlers see it."""


class Peer:
    """`remote` and `local` are hosts in stored form: the peer's address, and the address at which it reached us.

    `user` is who asks over the connection, as a door has proved it; empty for nobody, and where there is no door.
    """

    def __init__(self, channel: int, remote: bytes, local: bytes, remote_text: str = "",
                 local_address: str = "", user: str = "") -> None:
        self.channel = channel
        self.remote = remote
        self.local = local
        self.remote_text = remote_text
        self.local_address = local_address
        self.user = user

    def of_user(self, user: str) -> "Peer":
        """The same connection, where this user asks over it."""
        if user == self.user:
            return self
        return Peer(self.channel, self.remote, self.local, self.remote_text, self.local_address, user)

    def __repr__(self) -> str:
        return f"Peer({self.channel}, {self.remote_text!r})"


class Origin:
    """Whose requests another asks: `remote` and `local` are hosts in stored form, as a peer's are, of the connection
    over which the one came to the other. `peer` is kept by who asks, so that it is made once a connection."""

    __slots__ = ("local", "peer", "remote")

    def __init__(self, remote: bytes, local: bytes) -> None:
        self.remote = remote
        self.local = local
        self.peer: Peer | None = None


def host_of(remote_text: str) -> str:
    """The address of a peer's `host:port`."""
    return remote_text.rpartition(":")[0].strip("[]") or remote_text
