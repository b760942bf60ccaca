"""Faults of how clients end: with their producer's shutdown, with their process, with the interpreter."""

from tests.mutants import Mutant

_ACCEPTED = "regulus/client/accepted_sends.py"
_SHARED_LOOP = "regulus/client/shared_loop.py"
_PRODUCER_TESTS = "tests/unit/client/test_producer.py::"
_END_TESTS = "tests/unit/client/test_process_end.py::"
_LOOP_TESTS = ("tests/unit/client/test_other_loop.py",)
_THREADS_TESTS = ("tests/unit/client/test_real_threads.py",)
_ACCEPTED_TESTS = "tests/unit/client/test_accepted_sends.py::"
_STORES_ALL = (_PRODUCER_TESTS + "test_shutdown_stores_all_that_was_accepted",)
_CUTS_OFF = (_PRODUCER_TESTS + "test_shutdown_cuts_off_the_thousands_that_are_left_and_tells_their_number",)
_KEEPS = (_PRODUCER_TESTS + "test_what_shutdown_cuts_off_goes_to_whoever_keeps_failed_sends",)
_CANCELLED = (_PRODUCER_TESTS + "test_a_shutdown_that_is_cancelled_keeps_what_it_cuts_off_and_ends_the_keeper",)

MUTANTS = [
    Mutant(name="shutdown cuts off at once what was accepted", path=_ACCEPTED,
           old="        if await self._ends_within(wait_ms):\n", new="        if not self._count:\n",
           tests=_STORES_ALL),
    Mutant(name="shutdown comes before what the program began before it", path="regulus/client/producer.py",
           old="            await asyncio.sleep(0)      # of the tasks", new="            # of the tasks",
           tests=_STORES_ALL),
    Mutant(name="a producer that was idle once drops at its end what is under way", path=_ACCEPTED,
           old="        if self._is_closing and not self._count:\n", new="        if not self._count:\n",
           tests=(_ACCEPTED_TESTS + "test_a_producer_that_was_idle_between_its_sends_waits_for_those_under_way",)),
    Mutant(name="a send begins after the others were cut off", path=_ACCEPTED,
           old="        if self._is_over:\n            raise self.error(course)\n", new="",
           tests=(_ACCEPTED_TESTS + "test_what_comes_to_its_turn_after_the_others_were_cut_off_is_not_sent",)),
    Mutant(name="a send that ended as it was cut off is cancelled all the same", path=_ACCEPTED,
           old="            self.is_cut_off(task)       # it ended", new="            pass       # it ended",
           tests=(_ACCEPTED_TESTS + "test_a_send_that_ends_as_it_is_cut_off_is_not_cancelled_later",)),
    Mutant(name="who is left hears nothing of the end", path=_ACCEPTED,
           old="                    task.cancel()\n", new="                    pass\n", tests=_CUTS_OFF),
    Mutant(name="nobody is told how many sends are left", path=_ACCEPTED,
           old="            _log.warning(", new="            _log.debug(", tests=_CUTS_OFF),
    Mutant(name="a send that the program cancels is taken for one that was cut off", path=_ACCEPTED,
           old="        return task.uncancel() <= self._cut_off.pop(task)\n",
           new="        self._cut_off.pop(task)\n        return True\n",
           tests=(_PRODUCER_TESTS + "test_a_send_that_the_program_cancels_while_it_is_cut_off_is_cancelled",)),
    Mutant(name="what is cut off is not kept", path="regulus/client/core/kept_rules.py",
           old=" and not isinstance(error, SendCutOff)", new="", tests=_KEEPS),
    Mutant(name="a shutdown that is cancelled keeps nothing of what it cuts off", path="regulus/client/producer.py",
           old="                await self._accepted.ended(0)\n", new="                pass\n", tests=_CANCELLED),
    Mutant(name="a shutdown that is cancelled leaves its keeper at work", path="regulus/client/producer.py",
           old="                    await self._on_send_failed.shutdown()\n", new="                    pass\n",
           tests=_CANCELLED),
    Mutant(name="a shutdown waits twice for what is done with sends that it cut off", path="regulus/client/producer.py",
           old="            if not self._accepted.are_cut_off:", new="            if True:",
           tests=(_PRODUCER_TESTS + "test_a_shutdown_waits_once_for_what_is_done_with_sends_that_it_cut_off",)),
    Mutant(name="a second shutdown does not wait for one that was cancelled", path="regulus/client/producer.py",
           old="        await self._ending.over()\n        if self._instance is None and",
           new="        if self._instance is None and",
           tests=(_PRODUCER_TESTS + "test_a_second_shutdown_waits_for_one_that_was_cancelled",)),
    Mutant(name="a producer takes more while it is shut down", path=_ACCEPTED,
           old="        if self._is_closing:\n            raise", new="        if False:\n            raise",
           tests=(_PRODUCER_TESTS + "test_while_it_is_shut_down_a_producer_takes_no_more",)),
    Mutant(name="a process that ends without a shutdown drops its sends", path=_SHARED_LOOP,
           old="atexit.register(_end)\n", new="",
           tests=(_END_TESTS + "test_what_a_process_gave_to_be_sent_is_stored_however_it_ends",)),
    Mutant(name="a child of multiprocessing drops its sends", path=_SHARED_LOOP,
           old="            processes.Finalize(None, _end, exitpriority=0)", new="            pass",
           tests=(_END_TESTS + "test_so_it_is_with_a_child_of_multiprocessing",)),
    Mutant(name="a call at the end of the interpreter waits for ever", path=_SHARED_LOOP,
           old="    if sys.is_finalizing():\n", new="    if False:\n",
           tests=(_END_TESTS + "test_a_generator_that_ends_with_the_interpreter_waits_for_nothing",)),
    Mutant(name="nothing is kept any more once no thread takes anything", path="regulus/client/tasks.py",
           old="        return work()\n", new="        raise\n",
           tests=(_END_TESTS + "test_what_no_broker_takes_in_time_is_told_and_kept",)),
    Mutant(name="an event loop is run by a greenlet", path="regulus/client/real_threads.py",
           old="    if gevent is None:\n", new="    if True:\n", tests=_THREADS_TESTS),
    Mutant(name="threads that are greenlets do what a pool is for", path="regulus/client/real_threads.py",
           old="(count, name) if _gevent() is None else", new="(count, name) if True else",
           tests=_THREADS_TESTS),
    Mutant(name="a pool of real threads has one for each work", path="regulus/client/real_threads.py",
           old=" and self._started < self._count", new="", tests=_THREADS_TESTS),
    Mutant(name="a client is made where eventlet keeps its loop from running", path=_SHARED_LOOP,
           old="    real_threads.check()\n    result", new="    result",
           tests=_THREADS_TESTS),
    Mutant(name="a producer is used in another loop", path=_ACCEPTED,
           old="            self._home.check()\n", new="            pass\n", tests=_LOOP_TESTS),
    Mutant(name="a connection is used in another loop", path="regulus/client/connections.py",
           old="        if self._loop is not None:\n            raise elsewhere()\n", new="", tests=_LOOP_TESTS),
    Mutant(name="an instance is given back in another loop", path="regulus/client/client_instance.py",
           old="    if instance not in instances:\n        raise elsewhere()\n", new="", tests=_LOOP_TESTS),
    Mutant(name="a gRPC session is used in another loop", path="regulus/client/grpc/session.py",
           old="            self._home.check()\n", new="            pass\n", tests=_LOOP_TESTS),
    Mutant(name="a consumer does not know the loop in which it was started", path="regulus/client/tasks.py",
           old="            self._home.check()\n", new="            pass\n",
           tests=_LOOP_TESTS),
    Mutant(name="a consumer belongs to its first loop for ever", path="regulus/client/tasks.py",
           old="        self._home = self._task = None", new="        self._task = None",
           tests=("tests/unit/client/test_sync.py", "tests/unit/client/test_other_loop.py")),
    Mutant(name="a start waits for one in a loop that rests, of a consumer that pushes",
           path="regulus/client/push_consumer.py",
           old="        self._ending.check()\n        async with self._changing:\n"
               "            await self._ending.over()\n"
               "            if self._instance is not None or",
           new="        async with self._changing:\n            await self._ending.over()\n"
               "            if self._instance is not None or",
           tests=_LOOP_TESTS),
    Mutant(name="a consumer belongs to the loop in which its start failed, one that pushes",
           path="regulus/client/push_consumer.py", old="self._ending.came_to_nothing()", new="pass",
           tests=_LOOP_TESTS),
    Mutant(name="a start that is under way is of no loop, of a consumer that pushes",
           path="regulus/client/push_consumer.py", old="self._ending.begins()", new="pass", tests=_LOOP_TESTS),
    Mutant(name="a start waits for one in a loop that rests, of a consumer that is asked",
           path="regulus/client/simple_consumer.py",
           old="        self._ending.check()\n        async with self._changing:\n"
               "            await self._ending.over()\n"
               "            if self._receiver is None:",
           new="        async with self._changing:\n            await self._ending.over()\n"
               "            if self._receiver is None:",
           tests=_LOOP_TESTS),
    Mutant(name="a consumer belongs to the loop in which its start failed, one that is asked",
           path="regulus/client/simple_consumer.py", old="self._ending.came_to_nothing()", new="pass",
           tests=_LOOP_TESTS),
    Mutant(name="a start that is under way is of no loop, of a consumer that is asked",
           path="regulus/client/simple_consumer.py", old="self._ending.begins()", new="pass", tests=_LOOP_TESTS),
    Mutant(name="a shutdown waits for a start in a loop that rests, of a consumer that pushes",
           path="regulus/client/push_consumer.py",
           old="        self._ending.check()\n        if self._joining", new="        if self._joining",
           tests=_LOOP_TESTS),
    Mutant(name="a shutdown waits for a start in a loop that rests, of a consumer that is asked",
           path="regulus/client/simple_consumer.py",
           old="        self._ending.check()\n        async with self._changing:\n"
               "            await self._ending.over()\n"
               "            receiver, self",
           new="        async with self._changing:\n            await self._ending.over()\n            receiver, self",
           tests=_LOOP_TESTS),
    Mutant(name="an end that was begun in another loop is waited for", path="regulus/client/tasks.py",
           old="        self._home = HomeLoop()\n        self._task = task", new="        self._task = task",
           tests=("tests/unit/client/test_tasks.py",)),
]
