"""What makes our clients for RocketMQ 5 lose, double or hoard what they were given."""

from tests.mutants import Mutant

_RECEIVING = "regulus/client/grpc/receiving.py"
_SESSION = "regulus/client/grpc/session.py"
_POPPED = "regulus/client/popped_consumption.py"
_OF_POPPED = ("tests/unit/client/test_popped_consumption.py",)
_OF_RECEIVING = ("tests/unit/client/grpc/test_receiving.py",)
_OF_SESSION = ("tests/unit/client/grpc/test_session.py",)

MUTANTS = (
    Mutant(name="what came before a stream broke is thrown away", path=_RECEIVING,
           old="                if not came:\n                    raise\n", new="                raise\n",
           tests=_OF_RECEIVING),
    Mutant(name="a server hands out more than was asked for", path=_RECEIVING,
           old="if len(came) > asked.messages_max:", new="if False:", tests=_OF_RECEIVING),
    Mutant(name="a limit that is none makes a dead letter of the first failure", path=_RECEIVING,
           old="policy.max_attempts if policy.max_attempts > 0 else DELIVERIES_MAX",
           new="policy.max_attempts or DELIVERIES_MAX", tests=_OF_RECEIVING),
    Mutant(name="the server is not told that a client ends", path=_SESSION,
           old="        was_told = self._is_open and self._is_told.is_set()\n",
           new="        was_told = False\n", tests=_OF_SESSION),
    Mutant(name="a client that is started anew tells no settings", path=_SESSION,
           old="(self._channels, self._calls, self._streams, self._routes)",
           new="(self._channels, self._calls, self._routes)", tests=_OF_SESSION),
    Mutant(name="a connection that was reset counts as one that never was", path=_SESSION,
           old='"failed to connect" in words.lower()', new='"connect" in words.lower()', tests=_OF_SESSION),
    Mutant(name="what is acknowledged is prolonged", path=_POPPED,
           old="            if popped not in self._under_way:\n                return ",
           new="            if False:\n                return ", tests=_OF_POPPED),
    Mutant(name="a word that nobody takes is said for ever", path=_POPPED,
           old="                if steady_ms() >= popped.deadline_ms:\n", new="                if False:\n",
           tests=_OF_POPPED),
)
