"""Faults of calls of what an application handed over, where that gives something to be awaited."""

from tests.mutants import Mutant

_CALLS = "regulus/client/foreign_calls.py"
_CALLS_TESTS = ("tests/unit/client/test_foreign_calls.py",)
_INBOX_TESTS = (("tests/unit/reliability/test_inbox.py::"
                 "test_an_effect_that_is_a_coroutine_function_has_not_happened_and_is_not_told_as_done"),)

MUTANTS = [
    Mutant(name="what a listener in a thread gives to be awaited is not",
           path="regulus/client/consuming/listener_workers.py",
           old="call_from_thread(self._loop, self._listener,", new="call(self._listener,",
           tests=(("tests/unit/client/consuming/test_listener_workers.py::"
                   "test_what_a_listener_gives_to_be_awaited_is_awaited_in_the_loop"),)),
    Mutant(name="what a callback in a thread gives to be awaited is not", path=_CALLS,
           old="return await call_in_loop(_awaited, said) if _is_to_be_awaited(said) else (said, error)",
           new="return said, error", tests=_CALLS_TESTS),
    Mutant(name="a thread waits for a loop that has ended", path=_CALLS,
           old="    except (CancelledError, RuntimeError) as ended:", new="    except ZeroDivisionError as ended:",
           tests=_CALLS_TESTS),
    Mutant(name="an effect that did not run is confirmed", path="regulus/reliability/inbox.py",
           old="                    run_plain(self._effect, connection",
           new="                    self._effect(connection",
           tests=_INBOX_TESTS),
    Mutant(name="one of several effects that did not run is confirmed", path="regulus/reliability/inbox.py",
           old="                run_plain(self._effect, connection, part",
           new="                self._effect(connection, part",
           tests=_INBOX_TESTS),
    Mutant(name="an alarm that a coroutine function did not tell counts as told",
           path="regulus/reliability/alarm_loop.py", old="foreign_calls.run_plain, self._channel.send,",
           new="self._channel.send,",
           tests=(("tests/unit/reliability/test_alarm_loop.py::"
                   "test_a_channel_whose_send_is_a_coroutine_function_has_told_nothing"),)),
]
