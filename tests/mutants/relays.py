"""Faults of relays: one part that stops the other, burnt claims, looks at all that waits, clocks that are local."""

from tests.mutants import Mutant

_TABLE = "regulus/reliability/outbox_table.py"
_TABLES = "regulus/reliability/tables.py"
_RELAY = "regulus/reliability/relay.py"
_LOOP = "regulus/reliability/relay_loop.py"
_BACKGROUND = "regulus/reliability/background.py"
_OUTBOX = "regulus/reliability/outbox.py"

_OUTBOX_TESTS = ("tests/unit/reliability/test_outbox.py",)
_RELAY_TESTS = ("tests/unit/reliability/test_relay.py",)
_LOOP_TESTS = "tests/unit/reliability/test_relay_loop.py::"
_TABLES_TESTS = ("tests/unit/reliability/test_tables.py",)
_MARIADB_TESTS = ("tests/interop/test_mariadb_relays.py",)

MUTANTS = [
    Mutant(name="new stubs wait for a review", path=_LOOP, old="                    count, _ = await self._relay_new()",
           new="                    count = await self.relay_due()",
           tests=(f"{_LOOP_TESTS}test_w26_new_stubs_leave_whatever_becomes_of_reviews",)),
    Mutant(name="the two parts of a relay wait for one another", path=_LOOP, old="Rounds(\"outbox review\")",
           new="self._first_sends", tests=(f"{_LOOP_TESTS}test_w26_new_stubs_leave_whatever_becomes_of_reviews",)),
    Mutant(name="what a cancelled round claimed stays counted", path=_LOOP,
           old="                await self._give_back(claims_of(taking.result()))", new="                pass",
           tests=(f"{_LOOP_TESTS}test_what_was_claimed_for_a_round_that_was_cancelled_is_given_back",)),
    Mutant(name="a cancelled round ends with its claim's fault", path=_LOOP,
           old="        except DBAPIError as error:\n            _log.warning(\"%d messages of the outbox were claimed",
           new="        except KeyError as error:\n            _log.warning(\"%d messages of the outbox were claimed",
           tests=(f"{_LOOP_TESTS}test_a_claim_that_cannot_be_given_back_is_told_and_ends_no_cancellation",)),
    Mutant(name="one batch that fails costs all others their places", path=_LOOP, old="return_exceptions=True",
           new="return_exceptions=False",
           tests=(f"{_LOOP_TESTS}test_a_batch_that_fails_in_a_way_of_its_own_costs_no_other_its_place",)),
    Mutant(name="a batch that fails is not told", path=_LOOP,
           old="            if isinstance(each, BaseException):\n                raise each\n",
           new="            pass\n",
           tests=(f"{_LOOP_TESTS}test_a_batch_that_fails_in_a_way_of_its_own_costs_no_other_its_place",)),
    Mutant(name="a claim is sent as often as a producer likes", path=_LOOP, old="retry_without_answer=False",
           new="retry_without_answer=True",
           tests=(f"{_LOOP_TESTS}test_a_broker_that_stands_still_stores_no_more_copies_than_were_counted",)),
    Mutant(name="places are lost while the database is away", path=_LOOP, old="range(STORE_TRIES_MAX - 1)",
           new="range(0)", tests=(f"{_LOOP_TESTS}test_a_place_is_written_down_when_the_database_lets_it",)),
    Mutant(name="new stubs wait for the places of others", path=_RELAY,
           old="        return in_transaction(self._engine, self._claim)",
           new="        self._place_left()\n        return in_transaction(self._engine, self._claim)",
           tests=_RELAY_TESTS),
    Mutant(name="places that could not be written once are forgotten", path=_RELAY,
           old="        left = {each.position for each in tried}", new="        left = set()", tests=_RELAY_TESTS),
    Mutant(name="a claim that is given back is counted", path=_TABLE,
           old="(stubs.c.send_count, stubs.c.send_count - 1)", new="(stubs.c.send_count, stubs.c.send_count)",
           tests=_RELAY_TESTS),
    Mutant(name="what is given back was another's meanwhile", path=_TABLE,
           old="bindparam(\"its_id\"), *_of_its_claim())\n", new="bindparam(\"its_id\"))\n", tests=_RELAY_TESTS),
    Mutant(name="an answer from before a human's retry is that of the send behind it", path=_TABLE,
           old="                stubs.c.first_send_time == first_send_time))",
           new="                stubs.c.first_send_time > 0))", tests=_RELAY_TESTS),
    Mutant(name="what is delayed has the place of nobody's claim", path=_RELAY,
           old=" + put_off_ms.get(each.message_id, 0))", new=")", tests=_RELAY_TESTS),
    Mutant(name="what is new again has a first send", path=_TABLE,
           old="case((stubs.c.send_count > 1, stubs.c.first_send_time))", new="stubs.c.first_send_time",
           tests=_RELAY_TESTS),
    Mutant(name="a first send waits for its time", path=_TABLE, old="_free(stubs.c.send_count == _NEVER)",
           new="_free((stubs.c.send_count == _NEVER) & (stubs.c.resend_time <= now_ms()))", tests=_RELAY_TESTS),
    Mutant(name="relays have whatever isolation there is", path=_BACKGROUND,
           old="    return engine.execution_options(isolation_level=\"READ COMMITTED\")", new="    return engine",
           tests=_RELAY_TESTS),
    Mutant(name="a conflict ends a round", path=_BACKGROUND, old="            if not is_conflict(error):",
           new="            if True:", tests=_RELAY_TESTS),
    Mutant(name="stub and order may go to two databases", path=_OUTBOX,
           old="    if len(engines) > 1 and not session.twophase:", new="    if False:", tests=_OUTBOX_TESTS),
    Mutant(name="what is to be prepared tells of its commit", path=_OUTBOX,
           old=" and not isinstance(connection.get_transaction(), TwoPhaseTransaction):", new=":", tests=_OUTBOX_TESTS),
    Mutant(name="tables are looked for in one schema alone", path=_TABLES,
           old="inspector.get_columns(table.name, _schema(connection))", new="inspector.get_columns(table.name)",
           tests=_OUTBOX_TESTS),
    Mutant(name="a clock that changes within a statement", path=_TABLES, old="epoch FROM statement_timestamp()",
           new="epoch FROM clock_timestamp()", tests=_TABLES_TESTS),
    Mutant(name="a review looks at all that waits", path=_TABLE, old="_free(stubs.c.resend_time <= now)",
           new="_free(stubs.c.resend_time - now <= 0)", tests=_TABLES_TESTS),
    Mutant(name="MariaDB looks through what is new for what is due", path=_TABLE,
           old="    if connection.dialect.name not in MYSQL:\n        return connection.execute(due",
           new="    if True:\n        return connection.execute(due", tests=_MARIADB_TESTS),
    Mutant(name="MariaDB walks through all that wait to see their counts", path=_TABLE,
           old=".group_by(stubs.c.status, stubs.c.is_manual, stubs.c.send_count)", new=".group_by(stubs.c.send_count)",
           tests=_MARIADB_TESTS),
    Mutant(name="MariaDB's times are local", path=_TABLES, old="utc_timestamp(3)", new="now(3)", tests=_MARIADB_TESTS),
    Mutant(name="a relay signs nothing", path=_LOOP, old="replace(producer_config or ProducerConfig(),",
           new="replace(ProducerConfig(),", tests=(f"{_LOOP_TESTS}test_a_relay_signs_what_it_sends",)),
    Mutant(name="a blocking relay signs nothing", path=_LOOP,
           old="Relay(engine, name_server, group, config, producer_config)",
           new="Relay(engine, name_server, group, config)",
           tests=(f"{_LOOP_TESTS}test_a_relay_sends_once_for_each_claim_whatever_its_producer_was_told",)),
    Mutant(name="a relay's producer sends twice for one claim", path=_LOOP, old="retry_without_answer=False))",
           new="retry_without_answer=True))",
           tests=(f"{_LOOP_TESTS}test_a_relay_sends_once_for_each_claim_whatever_its_producer_was_told",)),
    Mutant(name="a watch signs nothing", path="regulus/reliability/broker_watch.py",
           old="Admin(name_server, client_config)", new="Admin(name_server)",
           tests=("tests/unit/reliability/test_broker_watch.py::test_a_watch_signs_what_it_asks",)),
]
