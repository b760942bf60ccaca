"""Checks held requests again when the access rules change.

Each step checks some of them, and none is answered before its check. A request that is no longer allowed is answered at
once, and not at its deadline.
"""

from collections import deque

from regulus.access.decision import Rules
from regulus.access.guard import Guard
from regulus.broker.held_requests import HeldRequest, HeldRequests
from regulus.broker.outcome import Notice, Reply
from regulus.wire.remoting_command import RemotingCommand

DECIDED_MAX = 128
"""Held requests that one step checks again; each costs the check of a signature."""


class HeldAccess:
    """Refusals go to `notices`."""

    def __init__(self, held_requests: HeldRequests, notices: deque[Notice]) -> None:
        self._held_requests = held_requests
        self._notices = notices
        self._rules: Rules | None = None
        self._undecided: deque[HeldRequest] = deque()
        self._decided_from = 0      # lower bound of sequence numbers that the new rules have checked

    def is_due(self, guard: Guard) -> bool:
        """Whether there is work since the last step."""
        return bool(self._undecided) or guard.rules is not self._rules

    def tick(self, guard: Guard) -> int | None:
        """Do one step. Returns 0 while there is more to do."""
        if guard.rules is not self._rules:
            self._rules = guard.rules
            self._undecided = deque(self._held_requests.all())
            self._decided_from = self._held_requests.sequence + 1
        for _ in range(min(DECIDED_MAX, len(self._undecided))):
            held = self._undecided.popleft()
            if not held.is_gone and (refusal := self.refusal(held, guard)) is not None:
                self._held_requests.leave(held)
                held.forget()
                self._notices.append(Notice(held.channel, Reply(refusal)))
        if self._undecided:
            return 0
        self._decided_from = 0
        return None

    def refusal(self, held: HeldRequest, guard: Guard) -> RemotingCommand | None:
        """The refusal for a request that was held before the rules changed and is no longer allowed; otherwise None."""
        if guard.rules is self._rules and held.sequence >= self._decided_from:
            return None
        denied = guard.again(held.request, held.peer)
        return None if denied is None else held.request.response(denied.code, denied.remark)
