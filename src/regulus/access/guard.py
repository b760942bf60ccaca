"""What is asked of the rules behind the door, for what a request does not name or what is decided later.

A door decides what a request says. Whose the message is at which it points, who is asked of a message, and whether what
is held may still be answered, is known behind it only: there the same rules are asked, those of that moment.
"""

from collections.abc import Callable

from regulus.access.decision import Denied, Need, Rules
from regulus.model.peer import Peer, host_of
from regulus.wire.remoting_command import RemotingCommand


class Guard:
    """`rules` tells those that hold now. `again` decides a whole request as the door does; None lets it pass. `note` is
    told of a part of a request that was denied."""

    def __init__(self, rules: Callable[[], Rules], again: Callable[[RemotingCommand, Peer], Denied | None],
                 note: Callable[[RemotingCommand, Peer, Denied], None]) -> None:
        self._rules = rules
        self.again = again
        self._note = note

    @property
    def rules(self) -> Rules:
        return self._rules()

    def denial(self, user: str, remote_text: str, needs: tuple[Need, ...]) -> Denied | None:
        """None when the user, at this `host:port`, has what is needed."""
        verdict = self._rules().permit(user, host_of(remote_text), needs)
        return verdict if isinstance(verdict, Denied) else None

    def denial_of_part(self, request: RemotingCommand, peer: Peer, need: Need) -> Denied | None:
        """The same of one thing that the request names, which the door has not read; told as what the door denies."""
        denied = self.denial_of(peer, (need,))
        if denied is not None:
            self._note(request, peer, denied)
        return denied

    def denial_of(self, peer: Peer, needs: tuple[Need, ...]) -> Denied | None:
        return self.denial(peer.user, peer.remote_text, needs)
