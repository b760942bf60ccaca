"""What is held was let in by the rules of then: when they change, all of it is decided anew.

A part of it is decided in each step, and none is answered before. Who may no longer ask hears so at once, and not when
the time is up.
"""

from collections import deque

from regulus.access.decision import Rules
from regulus.access.guard import Guard
from regulus.broker.held_requests import HeldRequest, HeldRequests
from regulus.broker.outcome import Notice, Reply
from regulus.wire.remoting_command import RemotingCommand

DECIDED_MAX = 128
"""Held requests that are decided anew in one step; each costs a signature."""


class HeldAccess:
    """`notices` takes what those hear who may no longer ask."""

    def __init__(self, held_requests: HeldRequests, notices: deque[Notice]) -> None:
        self._held_requests = held_requests
        self._notices = notices
        self._rules: Rules | None = None
        self._undecided: deque[HeldRequest] = deque()
        self._decided_from = 0      # in the sequence of all that were held: those before are in doubt

    def is_due(self, guard: Guard) -> bool:
        """Whether there is something to do since the last step."""
        return bool(self._undecided) or guard.rules is not self._rules

    def tick(self, guard: Guard) -> int | None:
        """Do a step. 0 while there is more to do."""
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
        """Of one that was held before the rules changed, and may no longer ask."""
        if guard.rules is self._rules and held.sequence >= self._decided_from:
            return None
        denied = guard.again(held.request, held.peer)
        return None if denied is None else held.request.response(denied.code, denied.remark)
