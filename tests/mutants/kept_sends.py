"""Faults of the sends that failed for good: what is kept, in which order, by whom it is sent again, and how often."""

from tests.mutants import Mutant

_FILE = "regulus/client/sending/kept_file.py"
_KEPT = "regulus/client/sending/kept_sends.py"
_PRODUCER = "regulus/client/sending/producer.py"
_FAILED = "regulus/client/sending/failed_sends.py"
_RULES = "regulus/client/core/kept_rules.py"
_CLAIM = "regulus/client/sending/file_claim.py"

_FILE_TESTS = ("tests/unit/client/sending/test_kept_file.py",)
_FAILED_TESTS = ("tests/unit/client/sending/test_failed_sends.py",)
_RULES_TESTS = ("tests/unit/client/core/test_kept_rules.py",)
_CLAIM_TESTS = ("tests/unit/client/sending/test_file_claim.py",)


def _kept(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/unit/client/sending/test_kept_sends.py::test_{name}" for name in names)


_KILLED = _kept("a_kill_loses_nothing_that_was_said_to_be_kept")

MUTANTS = [
    # --- keeping -----------------------------------------------------------------------------------------------------
    Mutant(name="a send is said to be kept before it is written", path=_KEPT,
           old="        refusal = await written\n", new="        refusal = None\n", tests=_KILLED),
    Mutant(name="who waits for a writing that had a fault waits for ever", path=_KEPT,
           old="            finally:\n                for (_, written)",
           new="            except KeptFileUnusable:\n                raise\n            else:\n"
               "                for (_, written)",
           tests=_kept("a_fault_while_a_send_is_kept_is_an_error_of_the_send_and_nobody_waits_for_ever")),
    Mutant(name="what a closing producer could not send is given up", path=_KEPT,
           old="        if isinstance(error, ClientClosed):\n            return False\n", new="",
           tests=_kept("a_producer_that_is_closed_meanwhile_gives_nothing_up_and_counts_nothing")),
    Mutant(name="a commit of kept sends is not synced", path=_FILE,
           old="PRAGMA synchronous = FULL", new="PRAGMA synchronous = OFF", tests=_FILE_TESTS),
    Mutant(name="a file of kept sends holds any number", path=_FILE,
           old="    if count_then > config.sends_max:\n", new="    if False:\n", tests=_FILE_TESTS),
    Mutant(name="a file of kept sends holds any size", path=_FILE,
           old="    if size_then > config.size_max:\n", new="    if False:\n", tests=_FILE_TESTS),
    Mutant(name="a call is kept in part", path=_FILE,
           old="count_then = count + len(sends)", new="count_then = count + 1", tests=_FILE_TESTS),
    Mutant(name="a full file drops a send silently", path=_KEPT,
           old="        if refusal is not None:\n", new="        if False:\n", tests=_kept(
               "a_full_file_refuses_and_says_what_failed")),
    Mutant(name="kept messages are anybody's to read", path=_FILE, old="0o600", new="0o644", tests=_FILE_TESTS),
    Mutant(name="another database is taken for a file of kept sends", path=_FILE,
           old="if application != _APPLICATION_ID:", new="if False:", tests=_FILE_TESTS),
    Mutant(name="a message is kept without its key", path=_PRODUCER,
           old="        for message in failed.messages:\n            running.unique_keys.give(message, now)\n", new="",
           tests=_FAILED_TESTS),
    Mutant(name="what can never be stored is kept", path=_RULES,
           old="error.code == ResponseCode.MESSAGE_ILLEGAL or ", new="", tests=_RULES_TESTS),
    Mutant(name="what is stored already is kept", path=_RULES,
           old="is_stored(error) or ", new="", tests=_RULES_TESTS),
    Mutant(name="a failed send is said to be kept whatever the hook says", path=_FAILED,
           old="    if answer is not True:\n", new="    if False:\n", tests=_FAILED_TESTS),
    Mutant(name="batches that follow a failed one are not kept", path=_PRODUCER,
           old="self._after_failure(batches[number:]", new="self._after_failure(batches[number:number + 1]",
           tests=_FAILED_TESTS),
    Mutant(name="a delay begins anew when what is kept is sent", path=_KEPT,
           old="encode([at_its_time(message, now) for message in batch])", new="encode(batch)",
           tests=_kept("a_delay_goes_on_while_its_message_is_kept")),
    Mutant(name="a kept message waits by the second of its delays", path=_RULES,
           old="((names.TIMER_DELAY_SEC, 1000), (names.TIMER_DELAY_MS, 1))",
           new="((names.TIMER_DELAY_MS, 1), (names.TIMER_DELAY_SEC, 1000))", tests=_RULES_TESTS),
    # --- sending again -----------------------------------------------------------------------------------------------
    Mutant(name="kept sends go newest first", path=_FILE,
           old='                           "ORDER BY send_id LIMIT 1", lane)',
           new='                           "ORDER BY send_id DESC LIMIT 1", lane)', tests=_FILE_TESTS),
    Mutant(name="a queue whose broker is away holds its topic back", path=_FILE,
           old='return topic if queue is None else f"{topic} {queue.broker_name}/{queue.queue_id}"\n',
           new="return topic\n", tests=_kept("a_chosen_queue_whose_broker_is_away_holds_nothing_else_back")),
    Mutant(name="what fails is overtaken", path=_KEPT,
           old="        self._rests[head.lane] = self._rest_after(failures, counted=counted)\n        return False\n",
           new="        await asyncio.to_thread(self._opened().failed, head.send_id, 0, '', 0, is_given_up=True)\n"
               "        return True\n",
           tests=_kept("nothing_overtakes_what_fails_and_each_topic_has_an_order_of_its_own")),
    Mutant(name="a kept batch is sent as its first message", path=_KEPT,
           old="decode(head.topic, messages), head.queue", new="decode(head.topic, messages)[:1], head.queue",
           tests=_kept("a_batch_is_sent_again_as_one_and_to_the_queue_that_was_chosen")),
    Mutant(name="a kept send forgets its queue", path=_KEPT,
           old="decode(head.topic, messages), head.queue", new="decode(head.topic, messages), None",
           tests=_kept("a_batch_is_sent_again_as_one_and_to_the_queue_that_was_chosen")),
    Mutant(name="what is stored goes out again while its row stays", path=_KEPT,
           old="        async with self._sending:\n            await self._settle()\n",
           new="        async with self._sending:\n",
           tests=_kept("what_is_stored_and_not_removed_yet_is_removed_before_anything_is_sent")),
    Mutant(name="two send what is kept at once", path=_KEPT,
           old="        async with self._sending:\n            await self._settle()\n",
           new="        if True:\n            await self._settle()\n",
           tests=_kept("two_at_once_in_one_process_send_each_once")),
    Mutant(name="kept sends need no claim", path=_KEPT,
           old="            return self._claim.take()\n", new="            return True\n",
           tests=_kept("sends_under_way_are_not_sent_by_another")),
    Mutant(name="a claim is anybody's", path=_CLAIM,
           old="        except BlockingIOError:\n            os.close(descriptor)\n            return False\n",
           new="        except BlockingIOError:\n            pass\n", tests=_CLAIM_TESTS),
    Mutant(name="a forked child keeps its parent's claim", path=_CLAIM,
           old="        claim.forget()\n", new="        pass\n", tests=_CLAIM_TESTS),
    Mutant(name="a forked child ends its parent's claim", path=_CLAIM,
           old="        claim.forget()\n", new="        claim.release()\n", tests=_CLAIM_TESTS),
    # --- given up ----------------------------------------------------------------------------------------------------
    Mutant(name="an outage uses up the attempts", path=_RULES,
           old="    return not isinstance(cause, ConnectFailed | ", new="    return not isinstance(cause, ",
           tests=_RULES_TESTS),
    Mutant(name="a kept send is tried for ever", path=_KEPT,
           old="attempts >= self.config.attempts_max or ", new="", tests=_kept(
               "after_its_attempts_a_send_is_given_up_told_once_and_the_next_one_goes")),
    Mutant(name="starts in a row use up the attempts", path=_KEPT,
           old="        return _Rest(head.attempts, steady_ms() + left) if left > 0 else None\n",
           new="        return None\n", tests=_kept(
               "a_process_that_starts_again_and_again_uses_up_no_attempts")),
    Mutant(name="an outage keeps a send for ever", path=_KEPT,
           old=" or head.kept_time < too_old\n", new="\n", tests=_kept("what_is_too_old_is_given_up_after_a_last_try")),
    Mutant(name="a resent send is given up for its old age", path=_FILE,
           old="attempts = 0, kept_time = ? WHERE", new="attempts = ? * 0 WHERE", tests=_FILE_TESTS),
    Mutant(name="who raised when told is told no more", path=_KEPT,
           old="                           exc_info=raised)\n                return\n",
           new="                           exc_info=raised)\n", tests=_kept(
               "who_is_told_and_raises_is_told_again_and_of_the_end_too")),
]
