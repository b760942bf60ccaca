"""Access checks during handling, for resources that a request does not name, and for decisions made later.

The first check covers what the request itself names. Only its handling shows the owner of the message that it refers
to, the client that is asked about a message, and whether a held request may still be answered. These checks use the
rules in force at that moment.
"""

from collections.abc import Callable

from regulus.access.decision import Denied, Need, Rules
from regulus.model.peer import Peer, host_of
from regulus.wire.remoting_command import RemotingCommand


class Guard:
    """`rules` returns the rules in force. `again` decides a whole request as the first check does; None allows it.
    `note` is called with each denied part of a request."""

    def __init__(self, rules: Callable[[], Rules], again: Callable[[RemotingCommand, Peer], Denied | None],
                 note: Callable[[RemotingCommand, Peer, Denied], None]) -> None:
        self._rules = rules
        self.again = again
        self._note = note

    @property
    def rules(self) -> Rules:
        return self._rules()

    def denial(self, user: str, remote_text: str, needs: tuple[Need, ...]) -> Denied | None:
        """None when the user at this `host:port` is allowed all needs."""
        verdict = self._rules().permit(user, host_of(remote_text), needs)
        return verdict if isinstance(verdict, Denied) else None

    def denial_of_part(self, request: RemotingCommand, peer: Peer, need: Need) -> Denied | None:
        """Like `denial`, for one resource named in the request that the first check has not read; it is reported like a
        denial of that check."""
        denied = self.denial_of(peer, (need,))
        if denied is not None:
            self._note(request, peer, denied)
        return denied

    def denial_of(self, peer: Peer, needs: tuple[Need, ...]) -> Denied | None:
        return self.denial(peer.user, peer.remote_text, needs)
