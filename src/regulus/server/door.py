"""Stands before the handlers of a server: each request passes here, or is refused.

A server without access control has no door: its handlers are called as if there were none. With one, a request's fields
are read as text once, by the door, and its handler reads the same text, so that both mean the same request. Only a send
like one that was let in before is left as it came (`access.signed_sends`), and can go the straight way.
"""

from collections.abc import Callable
from typing import Any

from regulus.access.decision import Denied, Need, RequestFacts, ResourceKind, Rules, Verdict
from regulus.access.needs import PUB
from regulus.access.signed_sends import SignedSends
from regulus.broker.outcome import NO_REPLY, Outcome, refuse
from regulus.errors import HeaderError
from regulus.model.happenings import Happenings
from regulus.model.peer import Peer, host_of
from regulus.server.refusals import request_name
from regulus.wire.acl_signature import ACCESS_KEY
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

Handle = Callable[[RemotingCommand, Peer, Any, int], Outcome]
DENIED = "denied by access control"
_SENDS = frozenset((RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE))


class Door:
    """`rules` tells those that hold now. `needs_of` is the table of the room. Whoever asks one of the `open_codes`
    is let in, signed or not. `happenings` has who was denied, and by which rule."""

    def __init__(self, rules: Callable[[], Rules], needs_of: Callable[[RemotingCommand], tuple[Need, ...]],
                 open_codes: frozenset[int] = frozenset()) -> None:
        self._rules = rules
        self._needs_of = needs_of
        self._open_codes = open_codes
        self._signed_sends = SignedSends()
        self.happenings = Happenings()

    def denial(self, request: RemotingCommand, peer: Peer) -> Denied | None:
        """None when the request may pass."""
        if request.code in self._open_codes:
            return None
        verdict = self._verdict(request, peer)
        return verdict if isinstance(verdict, Denied) else None

    def guard(self, handle: Handle) -> Handle:
        """The same, behind the door; it is told who asks. A one-way request that is denied is dropped."""
        passes = self._signed_sends.passes

        def handle_allowed(request: RemotingCommand, peer: Peer, state: Any, now_ms: int) -> Outcome:
            if passes(request, peer.channel, self._rules()):
                return handle(request, peer, state, now_ms)
            if request.code in self._open_codes:
                return handle(request, peer, state, now_ms)
            verdict = self._verdict(request, peer)
            if not isinstance(verdict, Denied):
                return handle(request, peer.of_user(verdict.user), state, now_ms)
            return NO_REPLY if request.is_oneway else refuse(request, verdict.code, verdict.remark)
        return handle_allowed

    def _verdict(self, request: RemotingCommand, peer: Peer) -> Verdict:
        verdict = self._decide(request, peer)
        if isinstance(verdict, Denied):
            self.note(request, peer, verdict)
        return verdict

    def note(self, request: RemotingCommand, peer: Peer, denied: Denied) -> None:
        """Here or behind the door."""
        self.happenings.note(DENIED, f"{request_name(request.code)} of {peer.remote_text}: {denied.rule}")

    def _decide(self, request: RemotingCommand, peer: Peer) -> Verdict:
        rules = self._rules()
        try:
            facts = RequestFacts(code=request.code, source=host_of(peer.remote_text), ext=request.ext,
                                 body=request.body_view, needs=lambda: self._needs_of(request))
        except HeaderError as error:
            return Denied("its fields cannot be read", int(ResponseCode.SYSTEM_ERROR), str(error))
        verdict = rules.decide(facts)
        if request.code in _SENDS and not isinstance(verdict, Denied):
            self._remember(request, peer, rules)
        return verdict

    def _remember(self, request: RemotingCommand, peer: Peer, rules: Rules) -> None:
        """A send that was let in for the topic that it names; of others the next one like it is decided anew."""
        user = request.ext.get(ACCESS_KEY, "")
        secret = rules.secret_of(user)
        if secret is None:
            return
        try:
            needs = self._needs_of(request)
        except HeaderError:
            return      # from a white address, for which nobody has read them: the handler will refuse it
        if len(needs) == 1 and needs[0].kind is ResourceKind.TOPIC and needs[0].actions == PUB:
            self._signed_sends.remember(peer.channel, rules, user, secret, needs[0].name)
