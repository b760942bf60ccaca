"""Faults of outbox, relay and inbox: messages without their business, sends without end, effects that come twice."""

from tests.mutants import Mutant

_TABLE = "regulus/reliability/outbox_table.py"
_TABLES = "regulus/reliability/tables.py"
_OUTBOX = "regulus/reliability/outbox.py"
_RELAY_LOOP = "regulus/reliability/relay_loop.py"
_INBOX = "regulus/reliability/inbox.py"
_APPLYING = "regulus/reliability/applying.py"
_EFFECT = "regulus/reliability/effect_transaction.py"
_JUDGES = "regulus/reliability/judges.py"
_RULES = "regulus/model/resend_rules.py"
_DEAD_LETTERS = "regulus/reliability/dead_letters.py"
_WATCH = "regulus/reliability/broker_watch.py"
_STUB_PURGE = "regulus/reliability/stub_purge.py"
_ALARMS = "regulus/reliability/alarms.py"
_ALARM_LOOP = "regulus/reliability/alarm_loop.py"
_LOG = "regulus/reliability/delivery_log.py"

_OUTBOX_TESTS = ("tests/unit/reliability/test_outbox.py",)
_RELAY_TESTS = ("tests/unit/reliability/test_relay.py",)
_LOOP_TESTS = ("tests/unit/reliability/test_relay_loop.py",)
_EFFECT_TESTS = ("tests/unit/reliability/test_effect_transaction.py",)
_INBOX_TESTS = ("tests/unit/reliability/test_inbox.py",)
_TABLE_TESTS = ("tests/unit/reliability/test_decision_table.py",)
_GROUP_TESTS = ("tests/unit/reliability/test_groups.py",)
_CONFIRMS_TESTS = ("tests/unit/reliability/test_confirms.py",)
_REVIEW_TESTS = ("tests/unit/reliability/test_review.py",)
_LOG_TESTS = ("tests/unit/reliability/test_delivery_log.py",)
_DEAD_LETTER_TESTS = ("tests/unit/reliability/test_dead_letters.py",)
_WATCH_TESTS = ("tests/unit/reliability/test_broker_watch.py",)
_STUB_PURGE_TESTS = ("tests/unit/reliability/test_stub_purge.py",)
_ALARM_TESTS = ("tests/unit/reliability/test_alarms.py",)
_ALARM_LOOP_TESTS = ("tests/unit/reliability/test_alarm_loop.py",)
_LEDGER_TESTS = ("tests/unit/reliability/test_ledger.py",)
_REDIS_TESTS = ("tests/interop/test_redis_claims.py",)
_KILLS = "tests/unit/reliability/test_kills.py::"
_KILLED_AT_A_STEP = f"{_KILLS}test_killed_at_a_step_what_is_committed_is_booked_once"
_KILLED_RELAYS = f"{_KILLS}test_w5_relays_that_die_one_after_another_send_no_more_than_they_may"
_WINDOWS = "tests/unit/reliability/test_windows.py::"

MUTANTS = [
    # --- outbox -----------------------------------------------------------------------------------------------------
    Mutant(name="a connection that commits each statement takes stubs", path=_OUTBOX,
           old="    if tables.commits_each_statement(dialect, driver_connection):", new="    if False:",
           tests=_OUTBOX_TESTS),
    Mutant(name="a transaction begun by hand is not seen", path=_TABLES,
           old="    return not _has_begun(driver_connection)", new="    return True", tests=_OUTBOX_TESTS),
    Mutant(name="properties leave no room for the broker's own", path=_OUTBOX,
           old="    if size > names.PROPERTIES_SIZE_MAX - PROPERTIES_RESERVE:", new="    if False:",
           tests=_OUTBOX_TESTS),
    # --- relay ------------------------------------------------------------------------------------------------------
    Mutant(name="a claim does not count its send", path=_TABLE,
           old="        (stubs.c.send_count, count),", new="       ", tests=_RELAY_TESTS),
    Mutant(name="a claim is no lease", path=_TABLE,
           old="(stubs.c.resend_time, now_ms() + interval)", new="(stubs.c.resend_time, now_ms())", tests=_RELAY_TESTS),
    Mutant(name="a stub has no last send", path=_RULES,
           old="facts[\"send_count\"] >= limits.attempts_max", new="facts[\"send_count\"] < 0", tests=_REVIEW_TESTS),
    Mutant(name="what is put off has no end", path=_RULES, old=" | (facts[\"first_send_time\"] < limits.sent_since_ms)",
           new="", tests=_REVIEW_TESTS),
    Mutant(name="what a consumer has is sent again", path=_RULES,
           old="(facts[\"log_time\"] >= limits.fresh_since_ms, ResendAction.WAIT),", new="", tests=_REVIEW_TESTS),
    Mutant(name="what was received last counts as passed", path=_TABLE,
           old="exists()).where(watermarks.c.queue_offset_max > stubs.c.queue_offset)\n    lagging",
           new="exists()).where(watermarks.c.queue_offset_max >= stubs.c.queue_offset)\n    lagging",
           tests=_REVIEW_TESTS),
    Mutant(name="backlog is sent again", path=_TABLE,
           old="stubs.c.queue_offset.is_not(None) & (~passed | lagging)", new="false()", tests=_REVIEW_TESTS),
    Mutant(name="one group that has passed is enough", path=_TABLE, old="(~passed | lagging)", new="(~passed)",
           tests=_REVIEW_TESTS),
    Mutant(name="a quiet queue stands still at once", path=_RULES,
           old="\n         & (facts[\"first_send_time\"] < limits.moves_since_ms)", new="", tests=_REVIEW_TESTS),
    Mutant(name="a group that never began is not told", path=_TABLE, old="(_has_open_group_without(true()),",
           new="(false(),", tests=_REVIEW_TESTS),
    Mutant(name="a group that is gone keeps an alarm open", path=_TABLE,
           old="select(func.max(watermarks.c.move_time))", new="select(func.min(watermarks.c.move_time))",
           tests=_ALARM_TESTS),
    Mutant(name="the receipt of a group that is done holds a stub back", path=_TABLE,
           old="message_log.c.message_id == stubs.c.message_id, ~done)",
           new="message_log.c.message_id == stubs.c.message_id)",
           tests=_REVIEW_TESTS),
    Mutant(name="backlog is counted as sent", path="regulus/reliability/relay.py",
           old="again = by_action[ResendAction.RESEND]", new="again = by_action[ResendAction.POSTPONE] + "
           "by_action[ResendAction.RESEND]", tests=_REVIEW_TESTS),
    Mutant(name="an alarm is raised each time", path="regulus/reliability/alarms.py",
           old="\"open_key\": key} for key", new="\"open_key\": None} for key", tests=_REVIEW_TESTS),
    Mutant(name="what is done is sent again", path=_TABLE,
           old="    return (stubs.c.status == literal(UNCONFIRMED, literal_execute=True), ~stubs.c.is_manual)",
           new="    return (~stubs.c.is_manual,)", tests=_RELAY_TESTS),
    Mutant(name="relays wait for one another's rows", path=_TABLE,
           old=".order_by(stubs.c.resend_time).with_for_update(skip_locked=True))",
           new=".order_by(stubs.c.resend_time))", tests=_RELAY_TESTS),
    Mutant(name="a late answer overwrites the place of the latest send", path=_TABLE,
           old="stubs.c.send_count == bindparam(\"its_count\"))", new="bindparam(\"its_count\") > 0)",
           tests=_RELAY_TESTS),
    Mutant(name="a late answer overwrites the place of the latest send, by arrays", path=_TABLE,
           old="(stubs.c.message_id == its_id) & (stubs.c.send_count == its_count))",
           new="stubs.c.message_id == its_id)", tests=_RELAY_TESTS),
    Mutant(name="the place of a send waits for the effect", path=_TABLE,
           old="with_for_update(of=stubs, skip_locked=True)", new="with_for_update(of=stubs)", tests=_RELAY_TESTS),
    Mutant(name="a place that had to wait is forgotten", path="regulus/reliability/relay.py",
           old="        self._unplaced.extend(_Unplaced(position, PLACE_TRIES_MAX) for position in left)\n", new="",
           tests=_RELAY_TESTS),
    Mutant(name="a place waits without end", path="regulus/reliability/relay.py",
           old="each.position in left and each.tries_left > 1)", new="each.position in left)", tests=_RELAY_TESTS),
    Mutant(name="a stub is due while its message waits at the broker", path="regulus/reliability/relay.py",
           old="            _put_off_delayed(connection, claimed)\n", new="", tests=_LOOP_TESTS),
    Mutant(name="a place among those that wait is compared with watermarks", path=_RELAY_LOOP,
           old="None if delays.has_delay(stub.message.properties) else ", new="", tests=_LOOP_TESTS),
    Mutant(name="a copy waits anew", path="regulus/reliability/relay.py",
           old="if row.send_count == 1 else delays.without_delay(properties)", new="", tests=_LOOP_TESTS),
    Mutant(name="new stubs without end keep others from being sent again", path=_RELAY_LOOP,
           old=" or self._is_review_due():", new=":", tests=_LOOP_TESTS),
    Mutant(name="one bad message holds up its batch", path=_RELAY_LOOP,
           old="            if len(batch) > 1:\n", new="            if False:\n", tests=_LOOP_TESTS),
    # --- inbox ------------------------------------------------------------------------------------------------------
    Mutant(name="a confirmation takes what is confirmed", path=_JUDGES,
           old="where(_ITS_STUB, stubs.c.status == UNCONFIRMED, ~exists().where(_ITS_ROWS))",
           new="where(_ITS_STUB, ~exists().where(_ITS_ROWS))", tests=_TABLE_TESTS),
    Mutant(name="an unconfirmed stub that another claimed is a success", path=_JUDGES,
           old="return Outcome.DONE if CONFIRMED in (of_stub, status) else Outcome.BUSY", new="return Outcome.DONE",
           tests=_TABLE_TESTS),
    Mutant(name="a failed effect keeps its claim", path=_APPLYING,
           old="self._claims.finish if outcome in SETTLED else self._claims.release",
           new="self._claims.finish", tests=_TABLE_TESTS),
    Mutant(name="an effect may commit", path=_EFFECT, old="    event.listen(connection, \"commit\", _refuse)",
           new="    event.listen(connection, \"rollback\", id)", tests=_EFFECT_TESTS),
    Mutant(name="what a refused commit leaves is committed by the next", path=_EFFECT,
           old="    connection.dialect.do_rollback(connection.connection)\n", new="", tests=_EFFECT_TESTS),
    Mutant(name="an effect may roll back by the driver", path=_EFFECT, old="    except DBAPIError as error:\n",
           new="    except DBAPIError as error:\n        return\n", tests=_EFFECT_TESTS),
    Mutant(name="an effect may roll back by the driver, on PostgreSQL", path=_LOG,
           old="    if judged is not None:", new="    if False:", tests=_EFFECT_TESTS),
    Mutant(name="without Redis nothing is applied", path=_APPLYING,
           old="            self._are_claims_away = True\n            return True",
           new="            self._are_claims_away = True\n            return None", tests=_TABLE_TESTS),
    Mutant(name="another's claim is given back", path="regulus/reliability/claims.py",
           old="if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end",
           new="return redis.call('DEL', KEYS[1])", tests=_REDIS_TESTS),
    Mutant(name="a stub of several groups is confirmed by the first", path=_JUDGES,
           old="stubs.c.status == UNCONFIRMED, ~exists().where(_ITS_ROWS))",
           new="stubs.c.status == UNCONFIRMED)", tests=_GROUP_TESTS),
    Mutant(name="a group's row is confirmed twice", path=_JUDGES,
           old="confirmations.c.status == UNCONFIRMED, exists()", new="exists()", tests=_GROUP_TESTS),
    Mutant(name="two last groups do not see each other", path=_JUDGES,
           old="    connection.execute(_touch(), {\"its_id\": message_id})\n", new="", tests=_GROUP_TESTS),
    Mutant(name="a stub is confirmed while a group is open", path=_JUDGES,
           old="stubs.c.status == UNCONFIRMED, ~is_open)", new="stubs.c.status == UNCONFIRMED)", tests=_GROUP_TESTS),
    Mutant(name="an inbox row that is there lets the effect happen", path=_JUDGES,
           old="Taken.WHOLLY if inserted.rowcount == 1 else Taken.NOT", new="Taken.WHOLLY", tests=_CONFIRMS_TESTS),
    Mutant(name="another message of an id that is applied is a success", path=_JUDGES,
           old="applied is not None and applied != _digest(delivery)", new="False", tests=_CONFIRMS_TESTS),
    Mutant(name="a lost confirmation is not made again", path=_INBOX,
           old="        if outcome in SETTLED:\n            self._confirm(delivery)",
           new="        if outcome is Outcome.APPLIED:\n            self._confirm(delivery)", tests=_CONFIRMS_TESTS),
    Mutant(name="an effect without a judge", path=_INBOX,
           old="            if taken:\n                with effect",
           new="            if True:\n                with effect", tests=_TABLE_TESTS),
    Mutant(name="claims come before the receipt", path=_INBOX,
           old="        _in_place(self._receive, deliveries)\n",
           new="        [self._win(each) for each in deliveries]\n        _in_place(self._receive, deliveries)\n",
           tests=_TABLE_TESTS),
    Mutant(name="a stray makes dead letters of what came with it", path=_APPLYING,
           old="    if len(strays) == count and all(", new="    if all(", tests=_INBOX_TESTS),
    Mutant(name="a stray holds up what came behind it", path=_INBOX,
           old="outcome = self.apply(delivery)\n            if outcome is Outcome.BUSY:",
           new="outcome = self.apply(delivery)\n            if outcome not in SETTLED:", tests=_INBOX_TESTS),
    Mutant(name="the inbox forgets what copies may still come of", path="regulus/reliability/inbox_purge.py",
           old="    check_keep_ms(keep_ms, policy or ResendPolicy())\n", new="",
           tests=("tests/unit/reliability/test_inbox_purge.py",)),
    # --- receipts ---------------------------------------------------------------------------------------------------
    Mutant(name="a watermark goes back", path=_LOG,
           old="where=given.queue_offset_max > watermarks.c.queue_offset_max)",
           new="where=given.queue_offset_max >= 0)",
           tests=_LOG_TESTS),
    Mutant(name="a retry moves the watermark", path=_LOG,
           old="    return delivery.queue.topic == delivery.message.topic", new="    return True", tests=_LOG_TESTS),
    Mutant(name="a receipt stays behind its effect", path=_LOG,
           old="    connection.execute(_forget(), {\"its_id\": delivery.message_id, \"its_group\": "
               "delivery.consumer_group})", new="    _forget()", tests=_LOG_TESTS),
    Mutant(name="a receipt stays behind its effect in PostgreSQL", path=_LOG,
           old="delete(message_log).where(message_log.c.message_id == _given(\"message_id\", String),",
           new="delete(message_log).where(message_log.c.queue_id < 0,", tests=_TABLE_TESTS),
    Mutant(name="the receipt of what is done stays", path=_APPLYING,
           old="(is_parked or outcome in SETTLED):", new="is_parked:", tests=_TABLE_TESTS),
    Mutant(name="a later receipt is not told", path=_LOG,
           old="    return {name: statement.excluded[name] for name in _RECEIVED_ANEW}",
           new="    return {\"topic\": \"\"}", tests=_LOG_TESTS),
    # --- deaths -----------------------------------------------------------------------------------------------------
    Mutant(name="a send is counted when it was made", path="regulus/reliability/relay.py",
           old="        with self._engine.begin() as connection:\n            return _claimed(",
           new="        with self._engine.connect() as connection:\n            return _claimed(",
           tests=(_KILLED_RELAYS,)),
    Mutant(name="a claim of the dead never ends", path="regulus/reliability/claims.py",
           old=", nx=True, px=self.lease_ms)", new=", nx=True)", tests=_REDIS_TESTS),
    Mutant(name="an effect is committed before its confirmation", path=_INBOX,
           old="                self._effect(connection, delivery.message)\n",
           new="                with self._engine.begin() as other:\n"
               "                    self._effect(other, delivery.message)\n",
           tests=(f"{_KILLED_AT_A_STEP}[postgresql-before C6]",)),
    Mutant(name="a confirmation is committed before its effect", path=_INBOX,
           old="            taken = self._judge.takes(connection, delivery)\n            if taken:\n"
               "                self._effect",
           new="            with self._engine.begin() as other:\n"
               "                taken = self._judge.takes(other, delivery)\n            if taken:\n"
               "                self._effect",
           tests=(f"{_KILLED_AT_A_STEP}[postgresql-during C5]",)),
    Mutant(name="a copy is applied although the stub is confirmed", path=_JUDGES,
           old="        if _confirm_alone(connection, delivery.message_id):\n            return Taken.WHOLLY",
           new="        _confirm_alone(connection, delivery.message_id)\n        if True:\n"
               "            return Taken.WHOLLY", tests=(f"{_KILLED_AT_A_STEP}[sqlite-after C6]",)),
    Mutant(name="a receipt holds a stub back for ever", path=_RULES,
           old="(facts[\"log_time\"] >= limits.fresh_since_ms, ResendAction.WAIT)",
           new="(facts[\"log_time\"] >= 0, ResendAction.WAIT)",
           tests=(f"{_WINDOWS}test_w9_what_is_received_and_comes_no_more_is_sent_again_and_told",)),
    Mutant(name="what the broker lost is backlog for ever", path=_TABLE,
           old="stubs.c.queue_offset.is_not(None) & (~passed | lagging)", new="stubs.c.queue_offset.is_not(None)",
           tests=(f"{_WINDOWS}test_w7_a_message_that_the_broker_lost_is_sent_again",)),
    # --- by hand, and the ledger ------------------------------------------------------------------------------------
    Mutant(name="a human ends what a consumer ended before", path="regulus/reliability/operator.py",
           old="update(stubs).where(stubs.c.message_id == message_id, stubs.c.status == UNCONFIRMED)",
           new="update(stubs).where(stubs.c.message_id == message_id)",
           tests=("tests/unit/reliability/test_operator.py",)),
    Mutant(name="a confirmed stub needs no proof", path="regulus/reliability/ledger.py",
           old="        if is_proven or is_by_hand:", new="        if True:", tests=_LEDGER_TESTS),
    Mutant(name="one group's proof is that of all", path="regulus/reliability/ledger.py",
           old="all(proofs[group] for group in wanted)", new="any(proofs[group] for group in wanted)",
           tests=_LEDGER_TESTS),
    Mutant(name="a second effect is not seen", path="regulus/reliability/ledger.py",
           old="    if any(count > 1 for count in proofs.values()):", new="    if False:", tests=_LEDGER_TESTS),
    # --- alarms -----------------------------------------------------------------------------------------------------
    Mutant(name="a cause that comes back is the same alarm", path=_ALARMS,
           old="{\"open_key\": None, \"closed_time\": now_ms()}", new="{\"closed_time\": now_ms()}",
           tests=_ALARM_TESTS),
    Mutant(name="two relays raise the same alarms crosswise", path=_ALARMS,
           old="for key in sorted(by_key)]", new="for key in by_key]", tests=_ALARM_TESTS),
    Mutant(name="a claim of alarms is no lease", path=_ALARMS,
           old="update(alarms).values(due_time=now_ms() + lease_ms)", new="update(alarms).values(due_time=now_ms())",
           tests=_ALARM_TESTS),
    Mutant(name="an alarm that was told is told again", path=_ALARMS,
           old="select(alarms.c.alarm_id).where(alarms.c.sent_time.is_(None), ", new="select(alarms.c.alarm_id).where(",
           tests=_ALARM_TESTS),
    Mutant(name="one group that moves ends the alarm of its queue", path=_TABLE,
           old="_over_open_groups(func.min(watermarks.c.move_time))",
           new="_over_open_groups(func.max(watermarks.c.move_time))",
           tests=_ALARM_TESTS),
    Mutant(name="the alarm of a stub that is open ends", path=_ALARMS,
           old="stubs.c.status != UNCONFIRMED)", new="stubs.c.version > 0)", tests=_ALARM_TESTS),
    Mutant(name="what one channel missed counts as told", path=_ALARM_LOOP,
           old="if alarm.alarm_id not in missed]", new="]", tests=_ALARM_LOOP_TESTS),
    Mutant(name="a channel gets again what another missed", path=_ALARM_LOOP,
           old="if alarm.alarm_id not in self._taken]", new="]", tests=_ALARM_LOOP_TESTS),
    Mutant(name="a channel that failed does not rest", path=_ALARM_LOOP,
           old="        if time.monotonic() < self._rests_until:", new="        if False:", tests=_ALARM_LOOP_TESTS),
    Mutant(name="a redirected webhook is a success", path="regulus/reliability/alarm_channels.py",
           old="build_opener(_NoRedirects)", new="build_opener()",
           tests=("tests/unit/reliability/test_alarm_channels.py",)),
    # --- what brokers know ------------------------------------------------------------------------------------------
    Mutant(name="what is done is left to a human for a dead copy", path=_DEAD_LETTERS,
           old="stubs.c.status == UNCONFIRMED, ~stubs.c.is_manual,", new="~stubs.c.is_manual,",
           tests=_DEAD_LETTER_TESTS),
    Mutant(name="a dead letter of a group that is done counts", path=_DEAD_LETTERS,
           old="consumer_group == consumer_group, confirmations.c.status == UNCONFIRMED)",
           new="consumer_group == consumer_group)", tests=_DEAD_LETTER_TESTS),
    Mutant(name="a group is past what it is to consume next", path=_WATCH,
           old="offset.consumer_offset for", new="offset.consumer_offset + 1 for", tests=_WATCH_TESTS),
    Mutant(name="a group is never past the last message of a queue", path=_WATCH,
           old="{queue: offset.consumer_offset for", new="{queue: offset.consumer_offset - 1 for", tests=_WATCH_TESTS),
    Mutant(name="offsets of retries are watermarks", path=_WATCH,
           old="if not queue.topic.startswith(RETRY_PREFIX)}", new="}", tests=_WATCH_TESTS),
    Mutant(name="the first dead letter of a group is no growth", path=_WATCH,
           old="            offsets = {}    # none ever came", new="            return", tests=_WATCH_TESTS),
    Mutant(name="a queue that is made anew keeps its watermark", path=_WATCH,
           old="if known.get(queue, 0) > offset.broker_offset]", new="if False]", tests=_WATCH_TESTS),
    Mutant(name="a watermark that moved meanwhile is lowered", path=_LOG,
           old="        watermarks.c.queue_offset_max == anew.watermark\n", new="        true()\n", tests=_WATCH_TESTS),
    Mutant(name="a place behind the end of its queue is kept", path=_WATCH,
           old="            outbox_table.forget_places(connection, each.queue, each.end)\n", new="            pass\n",
           tests=_WATCH_TESTS),
    Mutant(name="dead letters that could not be told are forgotten", path=_WATCH,
           old="        await asyncio.to_thread(self._write, group.tell_dead_letters, count)\n"
               "        group.told_dead_letters(count)\n",
           new="        group.told_dead_letters(count)\n"
               "        await asyncio.to_thread(self._write, group.tell_dead_letters, count)\n", tests=_WATCH_TESTS),
    Mutant(name="a text that no database stores fails what comes with it", path=_TABLES,
           old="text.replace(\"\\0\", \"\\ufffd\").encode(errors=\"replace\").decode()[:size_max]",
           new="text[:size_max]", tests=_RELAY_TESTS),
    Mutant(name="a webhook's secret with the end of its line comes into the log",
           path="regulus/reliability/alarm_channels.py", old="_is_plain(name) and _is_plain(value)", new="True",
           tests=("tests/unit/reliability/test_alarm_channels.py",)),
    Mutant(name="an effect whose stub was removed is called unmade", path="regulus/reliability/ledger.py",
           old="max(since_ms, known_since)", new="since_ms", tests=_LEDGER_TESTS),
    Mutant(name="a proof is removed before its stub", path="regulus/reliability/inbox_purge.py",
           old="keep_ms: int = INBOX_KEEP_MS", new="keep_ms: int = 30 * 86_400_000", tests=_LEDGER_TESTS),
    # --- removal ----------------------------------------------------------------------------------------------------
    Mutant(name="what was sent lately is removed", path=_STUB_PURGE,
           old="stubs.c.resend_time < before, ", new="", tests=_STUB_PURGE_TESTS),
    Mutant(name="what is under way is removed", path=_STUB_PURGE,
           old="stubs.c.resend_time < before, stubs.c.status != UNCONFIRMED)", new="stubs.c.resend_time < before)",
           tests=_STUB_PURGE_TESTS),
    Mutant(name="a stub goes while its copies may come", path=_STUB_PURGE,
           old="    check_keep_ms(keep_ms, policy or ResendPolicy())\n", new="", tests=_STUB_PURGE_TESTS),
    Mutant(name="receipts of what is under way are removed", path=_STUB_PURGE,
           old="message_log.c.message_id, stubs.c.status != UNCONFIRMED)", new="message_log.c.message_id)",
           tests=_STUB_PURGE_TESTS),
    Mutant(name="an alarm that nobody was told of is removed", path=_STUB_PURGE,
           old="alarms.c.sent_time.is_not(None) & (", new="(", tests=_STUB_PURGE_TESTS),
    Mutant(name="a copy may come for no longer than a broker keeps it", path="regulus/reliability/retry_policy.py",
           old="BROKER_KEEPS_MS + RETRIES_MS + policy.age_max_ms", new="BROKER_KEEPS_MS", tests=_STUB_PURGE_TESTS),
    Mutant(name="what waits for its retry counts as nobody's", path="regulus/reliability/retry_policy.py",
           old="        if self.stale_ms <= self.retry_gap_ms + self.lease_ms:", new="        if False:",
           tests=("tests/unit/reliability/test_retry_policy.py",)),
]
