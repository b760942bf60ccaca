"""Faults of the push consumer: who owns a queue, what counts, what is stored, and what comes again."""

from tests.mutants import Mutant

_OWNED = "regulus/client/core/owned_queue.py"
_ORDERED = "regulus/client/core/ordered_queue.py"
_CALLS = "regulus/client/calls.py"
_CONSUMPTION = "regulus/client/consumption.py"
_OFFSETS = "regulus/client/offset_store.py"
_WORKERS = "regulus/client/listener_workers.py"
_PULLER = "regulus/client/queue_puller.py"
_REBALANCER = "regulus/client/rebalancer.py"
_TASKS = "regulus/client/tasks.py"

_OWNED_TESTS = ("tests/unit/client/core/test_owned_queue.py",)
_ORDERED_TESTS = ("tests/unit/client/core/test_ordered_queue.py",)
_PROPERTY_TESTS = ("tests/property/test_owned_queues.py",)
_CALLS_TESTS = ("tests/unit/client/test_calls.py",)
_CONSUMPTION_TESTS = ("tests/unit/client/test_consumption.py",)
_OFFSET_TESTS = ("tests/unit/client/test_offset_store.py",)

MUTANTS = [
    # --- one taking --------------------------------------------------------------------------------------------------
    Mutant(name="a late result counts for the next owner", path=_OWNED,
           old="        if self.is_given_up:\n            return\n        commit", new="        commit",
           tests=_OWNED_TESTS),
    Mutant(name="an offset goes back within a taking", path=_OWNED,
           old="if commit > self.commit_offset:", new="if True:", tests=_OWNED_TESTS),
    Mutant(name="offsets are stored again and again", path=_OWNED,
           old=" or self.commit_offset == self._stored_offset:", new=":", tests=_OWNED_TESTS),
    Mutant(name="a queue that was given up is stored", path=_OWNED,
           old="if self.is_given_up or self.commit_offset ==", new="if self.commit_offset ==", tests=_OWNED_TESTS),
    Mutant(name="a settling queue forgets its reset", path=_OWNED,
           old="        self.commit_offset = offset\n        self._stored", new="        self._stored",
           tests=_OWNED_TESTS),
    Mutant(name="a pull that finds nothing passes over what is cached", path=_OWNED,
           old="if self.cache.count == 0 and next", new="if next", tests=_OWNED_TESTS),
    # --- in order ----------------------------------------------------------------------------------------------------
    Mutant(name="no rest after an orderly failure", path=_ORDERED,
           old="self._suspended_until_ms = now_ms + rest_ms", new="pass", tests=_ORDERED_TESTS),
    Mutant(name="a rest ends when something arrives", path=_ORDERED,
           old="if self._suspended_until_ms > now_ms:", new="if False:", tests=_PROPERTY_TESTS),
    Mutant(name="a queue is consumed without its lock", path=_ORDERED,
           old=" or self.locked_until_ms <= now_ms or", new=" or", tests=_ORDERED_TESTS),
    Mutant(name="a lock is trusted although it had lapsed", path=_ORDERED,
           old="        if self.locked_until_ms <= asked_ms:\n            return False\n", new="",
           tests=_ORDERED_TESTS),
    Mutant(name="offsets are stored without the lock", path=_ORDERED,
           old="return super().to_store(now_ms) if self.is_locked(now_ms) else None",
           new="return super().to_store(now_ms)", tests=_PROPERTY_TESTS),
    Mutant(name="two calls at once after a reset", path=_ORDERED,
           old="self._after = after.unfinished() if after is not None else None", new="self._after = None",
           tests=_PROPERTY_TESTS),
    Mutant(name="two calls at once in a queue", path=_ORDERED,
           old="        if self.is_busy or not", new="        if not", tests=_ORDERED_TESTS),
    Mutant(name="one retry of an ordered message is lost", path=_ORDERED,
           old="each.reconsume_times >= limit for", new="each.reconsume_times + 1 >= limit for",
           tests=_ORDERED_TESTS),
    Mutant(name="an orderly failure is no try", path=_ORDERED,
           old="message.reconsume_times += 1", new="pass", tests=_ORDERED_TESTS),
    Mutant(name="an unread message is called like any other", path=_ORDERED,
           old="self._unreadable.update(unreadable)", new="pass", tests=_ORDERED_TESTS),
    Mutant(name="a dead letter that nobody took is passed over", path=_ORDERED,
           old="        self._done(taken)\n", new="        self._done(self._current)\n", tests=_ORDERED_TESTS),
]
