"""The other end of a connection, as handlers see it."""


class Peer:
    """One connection. `remote` and `local` are hosts in stored form: the peer's address, and the address at which it
    reached us.

    `user` is the authenticated user of the connection; empty for an anonymous one, and where access is not checked.
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
        """This connection, with `user` as the one that asks."""
        if user == self.user:
            return self
        return Peer(self.channel, self.remote, self.local, self.remote_text, self.local_address, user)

    def __repr__(self) -> str:
        return f"Peer({self.channel}, {self.remote_text!r})"


class Origin:
    """The client for which another client or proxy asks.

    `remote` and `local` are hosts in stored form, as in a Peer, of the connection between the two. `peer` is cached by
    the asking side, so that it is made once for each connection.
    """

    __slots__ = ("local", "peer", "remote")

    def __init__(self, remote: bytes, local: bytes) -> None:
        self.remote = remote
        self.local = local
        self.peer: Peer | None = None


def host_of(remote_text: str) -> str:
    """The address in a peer's `host:port`."""
    return remote_text.rpartition(":")[0].strip("[]") or remote_text
