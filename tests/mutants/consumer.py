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
    Mutant(name="what a lost queue holds is sent back", path=_OWNED,
           old="return [] if self.is_given_up else [", new="return [", tests=_OWNED_TESTS),
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
           old=" or self.locked_until_ms <= now_ms:", new=":", tests=_ORDERED_TESTS),
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
           old="        if self.is_busy or self.is", new="        if self.is", tests=_ORDERED_TESTS),
    Mutant(name="one retry of an ordered message is lost", path=_ORDERED,
           old="each.reconsume_times >= limit for", new="each.reconsume_times + 1 >= limit for",
           tests=_ORDERED_TESTS),
    Mutant(name="an orderly failure is no try", path=_ORDERED,
           old="message.reconsume_times += 1", new="pass", tests=_ORDERED_TESTS),
    Mutant(name="an unread message is called like any other", path=_ORDERED,
           old="self._unreadable.update(unreadable)", new="pass", tests=_ORDERED_TESTS),
    Mutant(name="a dead letter that nobody took is passed over", path=_ORDERED,
           old="        self._done(taken)\n", new="        self._done(self._current)\n", tests=_ORDERED_TESTS),
    # --- what becomes of messages ------------------------------------------------------------------------------------
    Mutant(name="a refused send-back counts as done", path=_CALLS,
           old="self._finished(owned, [*done, *_without(failed, kept)])", new="self._finished(owned, [*done, *failed])",
           tests=_CALLS_TESTS),
    Mutant(name="what no broker takes back is tried never again", path=_CALLS,
           old="        self._retry_here_later(owned, kept)\n\n    async def _send_back_all",
           new="\n    async def _send_back_all", tests=_CALLS_TESTS),
    Mutant(name="a refused send-back after the consume timeout counts as done", path=_CALLS,
           old="        work.is_expired = not kept\n        self._finished(owned, _without(messages, kept))",
           new="        work.is_expired = True\n        self._finished(owned, messages)", tests=_CALLS_TESTS),
    Mutant(name="a call that expires and fails is sent back twice", path=_CALLS,
           old="        if work.is_expiring:\n            self._finished(owned, done)\n        elif", new="        if",
           tests=_CALLS_TESTS),
    Mutant(name="an unreadable message passes as done", path=_CALLS,
           old="            self._finished(owned, taken)\n", new="            self._finished(owned, messages)\n",
           tests=_CALLS_TESTS),
    Mutant(name="an unreadable message reaches the listener", path=_CALLS,
           old="return _without(fresh, bad)", new="return list(fresh)", tests=_CALLS_TESTS),
    Mutant(name="an unreadable message is no error", path="regulus/client/core/received.py",
           old="unreadable[message.queue_offset] = str(error)", new="pass",
           tests=(*_CALLS_TESTS, "tests/unit/client/core/test_received.py")),
    Mutant(name="a blocked queue is silent", path=_CALLS,
           old="if blocked is not None:", new="if False:", tests=_CALLS_TESTS),
    Mutant(name="a listener without a return is silent", path=_CALLS,
           old="if isinstance(status, ConsumeStatus) or self._is_told_of_returns:", new="if True:", tests=_CALLS_TESTS),
    Mutant(name="a bad record in a pull is skipped", path=_PULLER,
           old="self._receiver.pulled(self._owned, [bad], {offset: str(error)}, header.next_begin_offset)",
           new="self._owned.pulled((), header.next_begin_offset)",
           tests=(*_CALLS_TESTS, "tests/unit/client/test_queue_puller.py")),
    # --- queues come and go ------------------------------------------------------------------------------------------
    Mutant(name="queues are unlocked before their offsets are stored", path=_CONSUMPTION,
           old="        for _ in range(STORES_MAX):\n",
           new="        if self._locks is not None:\n"
               "            await self._locks.unlock([owned.queue for owned in leaving])\n"
               "        for _ in range(STORES_MAX):\n",
           tests=_CONSUMPTION_TESTS),
    Mutant(name="a queue is unlocked while its call runs", path=_CONSUMPTION,
           old="free = [owned.queue for owned in leaving if owned.is_settled]",
           new="free = [owned.queue for owned in leaving]", tests=_CONSUMPTION_TESTS),
    Mutant(name="a hand-over does not wait for the call", path=_CONSUMPTION,
           old="owned.is_settled or owned.settle_until_ms <= now):", new="True):", tests=_CONSUMPTION_TESTS),
    Mutant(name="a retaken queue forgets the call that still runs", path=_CONSUMPTION,
           old="self._unfinished[owned.queue] = unfinished", new="pass", tests=_CONSUMPTION_TESTS),
    Mutant(name="a reset makes a second call", path=_CONSUMPTION,
           old="fresh = self._taking_of(owned.queue, offset, locked_until_ms, owned, is_reset=True)",
           new="fresh = self._taking_of(owned.queue, offset, locked_until_ms, None, is_reset=True)",
           tests=_CONSUMPTION_TESTS),
    Mutant(name="a reset taking is not given up", path=_CONSUMPTION,
           old="        self._drop(owned)\n        fresh", new="        self._stop_pulling(owned)\n        fresh",
           tests=_CONSUMPTION_TESTS),
    Mutant(name="a reset of a queue that is handed over is lost", path=_CONSUMPTION,
           old="owned.reset(offset)     # stored by its release", new="pass", tests=_CONSUMPTION_TESTS),
    Mutant(name="locks are not renewed", path=_CONSUMPTION,
           old="elif owned.lock_renewed(asked_ms, asked_ms + TRUSTED_MS):", new="elif True:",
           tests=_CONSUMPTION_TESTS),
    Mutant(name="a lock of another member is ours until it lapses", path=_CONSUMPTION,
           old="                if queue in said:\n                    owned.lock_lost()\n", new="",
           tests=_CONSUMPTION_TESTS),
    Mutant(name="a moved offset drops what is cached", path=_CONSUMPTION,
           old="if offset >= owned.next_offset and not is_reset:", new="if False:", tests=_CONSUMPTION_TESTS),
    Mutant(name="a broker that tells no members ends the rebalance", path=_REBALANCER,
           old="                failures.append(str(error))\n                continue\n",
           new="                raise\n", tests=_CONSUMPTION_TESTS),
    # --- offsets and tasks -------------------------------------------------------------------------------------------
    Mutant(name="a timer stores what it read before", path=_OFFSETS,
           old="            for owned in queues:\n                offset = owned.to_store(steady_ms())\n",
           new="            for owned, offset in [(each, each.to_store(steady_ms())) for each in queues]:\n",
           tests=_OFFSET_TESTS),
    Mutant(name="two stores of one broker overtake each other", path=_OFFSETS,
           old="async with self._writing[broker_name]:", new="if True:", tests=_OFFSET_TESTS),
    Mutant(name="a cancelled write meets the next one", path=_OFFSETS,
           old="await asyncio.shield(self._tasks.spawn(self._store(queues), f\"write {self._path}\"))",
           new="await self._store(queues)", tests=_OFFSET_TESTS),
    Mutant(name="a cancellation out of a listener ends its worker", path=_WORKERS,
           old="except (Exception, asyncio.CancelledError) as error:", new="except Exception as error:",
           tests=("tests/unit/client/test_listener_workers.py",)),
    Mutant(name="a task that dies stays dead", path=_TASKS,
           old="                self.restarts += 1\n", new="                raise\n",
           tests=("tests/unit/client/test_tasks.py",)),
]
