"""Access control before the handlers of a server: each request is checked here, and passed on or refused.

A server without access control has no Door: its handlers are called directly. With a Door, a request's fields are
decoded once, by the Door, and its handler reads the same text, so that both see the same request. Only a send like one
that was allowed before stays encoded (`access.signed_sends`), and can go the fast way.
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
    """`rules` returns the rules in force. `needs_of` is the table of the server. Requests of `open_codes` are always
    allowed, signed or not. `happenings` gets the denied requests, and the rules that denied them."""

    def __init__(self, rules: Callable[[], Rules], needs_of: Callable[[RemotingCommand], tuple[Need, ...]],
                 open_codes: frozenset[int] = frozenset()) -> None:
        self._rules = rules
        self._needs_of = needs_of
        self._open_codes = open_codes
        self._signed_sends = SignedSends()
        self.happenings = Happenings()

    def denial(self, request: RemotingCommand, peer: Peer) -> Denied | None:
        """None when the request is allowed."""
        if request.code in self._open_codes:
            return None
        verdict = self._verdict(request, peer)
        return verdict if isinstance(verdict, Denied) else None

    def guard(self, handle: Handle) -> Handle:
        """The handler behind the access check. A one-way request that is denied is dropped."""
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
        """Note a denial, here or during handling."""
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
        """Remember a send that was allowed for the topic that it names; otherwise the next one like it is decided
        again."""
        user = request.ext.get(ACCESS_KEY, "")
        secret = rules.secret_of(user)
        if secret is None:
            return
        try:
            needs = self._needs_of(request)
        except HeaderError:
            return      # from a white address, so its fields were not read: the handler will refuse it
        if len(needs) == 1 and needs[0].kind is ResourceKind.TOPIC and needs[0].actions == PUB:
            self._signed_sends.remember(peer.channel, rules, user, secret, needs[0].name)
