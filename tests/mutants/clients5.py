"""What makes our clients for RocketMQ 5 lose, double or hoard what they were given."""

from tests.mutants import Mutant

_RECEIVING = "regulus/client/consuming/grpc_receiver.py"
_SESSION = "regulus/client/grpc/session.py"
_POPPED = "regulus/client/consuming/popped_consumption.py"
_OF_POPPED = ("tests/unit/client/consuming/test_popped_consumption.py",)
_OF_RECEIVING = ("tests/unit/client/consuming/test_grpc_receiver.py",)
_REMOTING = "regulus/client/consuming/remoting_receiver.py"
_OF_SIMPLE = ("tests/unit/client/consuming/test_simple_consumer.py",)
_OF_GIVEN_UP = ("tests/property/test_given_up_receives.py",)
_OF_SESSION = ("tests/unit/client/grpc/test_session.py",)

MUTANTS = (
    Mutant(name="what came before a receive was given up is hidden, over grpc", path=_RECEIVING,
           old='self._returning.spawn(self._give_back(came, asked, place), f"late messages of {self._group}")',
           new="pass", tests=_OF_RECEIVING),
    Mutant(name="a client that ends does not wait for what is given back, over grpc", path=_RECEIVING,
           old="            await self._returning.finish(self._timeout_ms)\n", new="            pass\n",
           tests=_OF_RECEIVING),
    Mutant(name="what is given back over grpc is counted", path="regulus/proxy/calls.py",
           old="suspend=request.suspend)", new="suspend=False)", tests=_OF_SIMPLE),
    Mutant(name="a receive that waits at the end waits on", path=_REMOTING,
           old="            waiting.cancel()\n", new="            pass\n", tests=_OF_SIMPLE),
    Mutant(name="what a receive took that was given up is hidden", path=_REMOTING,
           old="            instance.spawn(self._give_back_late(instance, asking), "
               "f\"late pop of {self._member.group}\")\n", new="", tests=_OF_GIVEN_UP),
    Mutant(name="what comes too late is counted", path=_REMOTING,
           old="broker_name=handle.broker_name, suspend=True)", new="broker_name=handle.broker_name)",
           tests=_OF_GIVEN_UP),
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
