"""Faults of dead letters: sent twice, lost, out of order; causes that keep a message from being stored."""

from tests.mutants import Mutant

_RULES = "regulus/model/redrive.py"
_PLAN = "regulus/client/administration/dead_letters.py"
_SENDS = "regulus/client/administration/dead_letter_sends.py"
_CAUSES = "regulus/model/failure_causes.py"
_SEND_BACK = "regulus/client/consuming/send_back.py"
_HANDLER = "regulus/broker/handlers/consumer_send_msg_back.py"

_RULES_TESTS = ("tests/unit/model/test_redrive.py",)
_PLAN_TESTS = ("tests/unit/client/administration/test_dead_letters.py",)
_CAUSES_TESTS = ("tests/unit/model/test_failure_causes.py",)
_SEND_BACK_TESTS = ("tests/unit/client/consuming/test_send_back.py",)
_HANDLER_TESTS = ("tests/unit/broker/handlers/test_consumer_send_msg_back.py",)
_COMMAND = "tests/unit/cli/test_dead.py::test_"


def _sends(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/unit/client/administration/test_dead_letter_sends.py::test_{name}" for name in names)


MUTANTS = [
    # --- rules -------------------------------------------------------------------------------------------------------
    Mutant(name="a letter is sent without its place", path=_RULES, old="    return kept | {REDRIVE_OF: place}",
           new="    return kept", tests=_RULES_TESTS),
    Mutant(name="a letter keeps what is no longer true", path=_RULES, old="if name not in _NOT_KEPT and not",
           new="if not", tests=_RULES_TESTS),
    Mutant(name="a letter goes to the topic from which it was popped again", path=_RULES,
           old="    return normal_topic(next(", new="    return str(next(", tests=_RULES_TESTS),
    Mutant(name="a topic of copies shows what was sent", path=_RULES,
           old="not topic.startswith(COPY_PREFIXES) and", new="", tests=_RULES_TESTS),
    Mutant(name="a letter as old as the log is not in it", path=_RULES, old="store_ms < since", new="store_ms <= since",
           tests=_RULES_TESTS),
    Mutant(name="a log with nothing left had no letter", path=_RULES, old="since is None or",
           new="since is not None and",
           tests=_RULES_TESTS),
    Mutant(name="a topic is as old as at the broker that made it first", path=_RULES,
           old="max(made.get(queue.topic, 0), queue.made_ms)", new="queue.made_ms if queue.topic not in made else "
           "min(made[queue.topic], queue.made_ms)", tests=_RULES_TESTS),
    Mutant(name="a log is complete since its newest queue begins", path=_RULES,
           old="min(begins.get(", new="max(begins.get(", tests=_RULES_TESTS),
    # --- plans -------------------------------------------------------------------------------------------------------
    Mutant(name="a letter that was sent is sent", path=_PLAN, old="rules.SENT_BEFORE: letter.place in seen.sent",
           new="rules.SENT_BEFORE: False", tests=_PLAN_TESTS),
    Mutant(name="a letter that is older than its topic is sent without Spark", path=_PLAN,
           old="rules.is_older(letter.store_ms, seen.since_made, letter.topic)", new="False", tests=_PLAN_TESTS),
    Mutant(name="a letter that is older than the log is sent without Spark", path=_PLAN,
           old="rules.is_older(letter.store_ms, seen.since_log, letter.topic)", new="False", tests=_PLAN_TESTS),
    Mutant(name="the cap counts nothing", path=_PLAN, old="            room -= 1\n", new="", tests=_PLAN_TESTS),
    Mutant(name="clocks of brokers are the same without Spark", path=_PLAN, old=" - rules.CLOCKS_APART_MAX_MS", new="",
           tests=_PLAN_TESTS),
    Mutant(name="what was sent is looked for since the newest letter", path=_PLAN,
           old="min(letter.store_ms for letter in chosen)", new="max(letter.store_ms for letter in chosen)",
           tests=_PLAN_TESTS),
    Mutant(name="a body says what was sent", path=_PLAN,
           old="return [message for message in messages if rules.REDRIVE_OF in message.properties]",
           new="return [message for message in messages if message.properties.setdefault(rules.REDRIVE_OF, 'p3')]",
           tests=_PLAN_TESTS),
    Mutant(name="any number of letters is planned", path=_PLAN, old="if len(chosen) >= LETTERS_MAX:", new="if False:",
           tests=_PLAN_TESTS),
    Mutant(name="any amount is read", path=_PLAN, old="if size > SCAN_SIZE_MAX:", new="if False:", tests=_PLAN_TESTS),
    Mutant(name="the brokers of a run are any", path=_PLAN, old="        check_brokers(wish.brokers, cluster)",
           new="        pass", tests=(_COMMAND + "brokers_that_are_away_or_not_named_are_missed",)),
    Mutant(name="queues that cannot be read have nothing", path=_PLAN,
           old="        check_all_is_readable(", new="        dict(",
           tests=(_COMMAND + "queues_that_cannot_be_read_may_have_what_was_sent",)),
    Mutant(name="a topic that was made again counts as whole", path=_PLAN,
           old="since_made = {} if wish.to_topic else made", new="since_made: dict[str, int] = {}",
           tests=(_COMMAND + "a_letter_that_is_older_than_its_topic_is_not_sent",)),
    Mutant(name="what others sent meanwhile is sent", path=_PLAN,
           old="self.to_send = [letter for letter in self.to_send if letter.place in still]", new="pass",
           tests=_sends("what_others_sent_since_the_plan_is_not_sent")),
    # --- sends -------------------------------------------------------------------------------------------------------
    Mutant(name="a topic that is made again after the plan is sent to", path=_SENDS,
           old="        if await made_of(self._admin, topics) != made:", new="        if False:",
           tests=_sends("a_topic_that_is_created_again_after_the_plan_is_refused")),
    Mutant(name="a send that is under way is cut off", path=_SENDS, old="await asyncio.shield(sending)",
           new="await sending", tests=_sends("a_run_that_is_cancelled_ends_after_its_send_and_the_next_one_goes_on")),
    Mutant(name="a letter behind one that was not sent overtakes it", path=_SENDS,
           old="            self._held.add((topic, key))", new="            pass",
           tests=_sends("messages_of_one_sharding_key_stay_in_order")),
    Mutant(name="a run goes on whatever fails", path=_SENDS, old="if self._failures >= FAILURES_MAX:", new="if False:",
           tests=_sends("a_run_stops_when_several_sends_fail_one_after_another")),
    Mutant(name="an answer that cannot be read is a refusal", path=_SENDS,
           old="    if isinstance(error, AnswerUnreadable):\n        return False", new="    if isinstance(error, "
           "AnswerUnreadable):\n        return True", tests=_sends("whether_a_failed_send_stored_nothing")),
    Mutant(name="a send without an answer stored nothing", path=_SENDS,
           old="    return isinstance(error, (BrokerRefused,",
           new="    return isinstance(error, (ClientError, BrokerRefused,",
           tests=_sends("whether_a_failed_send_stored_nothing")),
    Mutant(name="a first letter that is delayed did not come back", path=_SENDS,
           old="for topic in (*_DELAYED, *sorted", new="for topic in (*sorted",
           tests=_sends("a_first_letter_that_comes_back_keeps_the_others")),
    Mutant(name="a first letter that is dead once more did not come back", path=_SENDS,
           old=" or home == dlq_topic(self._group)", new="",
           tests=_sends("a_first_letter_that_comes_back_keeps_the_others")),
    Mutant(name="first letters that nobody consumes let the others go", path=_SENDS, old="            if not left:\n",
           new="            if True:\n",
           tests=(_COMMAND + "letters_that_nobody_consumes_stop_a_run_after_its_first",)),
    # --- causes ------------------------------------------------------------------------------------------------------
    Mutant(name="causes have no limit together", path=_CAUSES, old="min(CAUSES_SIZE_MAX, names", new="max(0, names",
           tests=_CAUSES_TESTS),
    Mutant(name="causes leave no room for others", path=_CAUSES, old=" - ROOM_FOR_OTHERS", new="", tests=_CAUSES_TESTS),
    Mutant(name="the cause goes before the stack", path=_CAUSES,
           old="CAUSE_STACK if CAUSE_STACK in kept else next(iter(kept))", new="next(iter(kept))",
           tests=_HANDLER_TESTS),
    Mutant(name="all attempts are kept", path=_CAUSES, old="[-ATTEMPTS_MAX:]", new="", tests=_CAUSES_TESTS),
    Mutant(name="what separates properties stays in a cause", path=_CAUSES, old="text.translate(_SEPARATORS)",
           new="text", tests=_CAUSES_TESTS),
    Mutant(name="a consumer without causes sends them", path=_SEND_BACK,
           old="told(cause) if self._config.with_causes else (None, None)", new="told(cause)", tests=_SEND_BACK_TESTS),
    Mutant(name="the client's own copy has no cause", path=_SEND_BACK, old="        if self._config.with_causes:\n",
           new="        if False:\n", tests=_SEND_BACK_TESTS),
    Mutant(name="the broker drops the cause", path=_HANDLER, old="    if header.regulus_cause:", new="    if False:",
           tests=_HANDLER_TESTS),
    Mutant(name="a cause keeps a message from being stored", path=_HANDLER,
           old="appended.status == PutStatus.MESSAGE_ILLEGAL and without", new="False and without",
           tests=(_COMMAND + "a_message_that_fills_a_file_of_the_log_becomes_a_letter_without_its_cause",)),
]
