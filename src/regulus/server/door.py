"""Stands before the handlers of a server: each request passes here, or is refused.

A server without access control has no door: its handlers are called as if there were none. With one, a request's fields
are read as text once, by the door, and its handler reads the same text, so that both mean the same request; a send then
takes the general way and not the straight one.
"""

from collections.abc import Callable
from typing import Any

from regulus.access.decision import Denied, Need, RequestFacts, Rules, Verdict
from regulus.broker.outcome import NO_REPLY, Outcome, refuse
from regulus.errors import HeaderError
from regulus.model.happenings import Happenings
from regulus.model.peer import Peer
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

Handle = Callable[[RemotingCommand, Peer, Any, int], Outcome]
DENIED = "denied by access control"


class Door:
    """`rules` tells those that hold now. `needs_of` is the table of the room. Whoever asks one of the `open_codes`
    is let in, signed or not. `happenings` has who was denied, and by which rule."""

    def __init__(self, rules: Callable[[], Rules], needs_of: Callable[[RemotingCommand], tuple[Need, ...]],
                 open_codes: frozenset[int] = frozenset()) -> None:
        self._rules = rules
        self._needs_of = needs_of
        self._open_codes = open_codes
        self.happenings = Happenings()

    def denial(self, request: RemotingCommand, peer: Peer) -> Denied | None:
        """None when the request may pass."""
        if request.code in self._open_codes:
            return None
        verdict = self._decide(request, peer)
        if not isinstance(verdict, Denied):
            return None
        self.happenings.note(DENIED, f"request {request.code} of {peer.remote_text}: {verdict.rule}")
        return verdict

    def guard(self, handle: Handle) -> Handle:
        """The same, behind the door. A one-way request that is denied is dropped."""
        def handle_allowed(request: RemotingCommand, peer: Peer, state: Any, now_ms: int) -> Outcome:
            denied = self.denial(request, peer)
            if denied is None:
                return handle(request, peer, state, now_ms)
            return NO_REPLY if request.is_oneway else refuse(request, denied.code, denied.remark)
        return handle_allowed

    def _decide(self, request: RemotingCommand, peer: Peer) -> Verdict:
        try:
            facts = RequestFacts(code=request.code, source=source_of(peer), ext=request.ext, body=request.body_view,
                                 needs=lambda: self._needs_of(request))
        except HeaderError as error:
            return Denied("its fields cannot be read", int(ResponseCode.SYSTEM_ERROR), str(error))
        return self._rules().decide(facts)


def source_of(peer: Peer) -> str:
    """The address of a peer without its port."""
    return peer.remote_text.rpartition(":")[0].strip("[]") or peer.remote_text
