"""Faults around effects: done by hearsay, one effect for many messages, audits and tables that hide what is missing."""

from tests.mutants import Mutant

_APPLYING = "regulus/reliability/applying.py"
_CLAIMS = "regulus/reliability/claims.py"
_INBOX = "regulus/reliability/inbox.py"
_JUDGES = "regulus/reliability/judges.py"

_SEND = "regulus/broker/handlers/send_message.py"
_DUPLICATES = "regulus/pipeline/steps/duplicates.py"
_RETRIES = "regulus/pipeline/steps/retries.py"
_LOG = "regulus/reliability/delivery_log.py"

_SETTLED = "regulus/reliability/settled.py"
_TABLES = "regulus/reliability/tables.py"
_MIGRATIONS = "regulus/reliability/migrations/__init__.py"
_STEPS = "regulus/reliability/migrations/steps.py"
_DEAD_LETTERS = "regulus/reliability/dead_letters.py"
_INBOX_PURGE = "regulus/reliability/inbox_purge.py"
_LEDGER = "regulus/reliability/ledger.py"

_EFFECT = "regulus/reliability/effect_transaction.py"
_CONFIRMS = "regulus/reliability/confirms.py"

_SHARED_TESTS = ("tests/unit/reliability/test_shared_commits.py",)
_COROUTINES_TESTS = ("tests/unit/reliability/test_shared_coroutines.py",)
_SETTLED_TESTS = ("tests/unit/reliability/test_settled.py",)
_TABLE_TESTS = ("tests/unit/reliability/test_decision_table.py",)
_ASYNC_TESTS = ("tests/unit/reliability/test_inbox_async.py",)
_CONFIRMS_TESTS = ("tests/unit/reliability/test_confirms.py",)
_REDIS_TESTS = ("tests/interop/test_redis_claims.py",)
_KILLED_HOLDER = ("tests/unit/reliability/test_kills.py::"
                  "test_w10_with_two_databases_a_claim_of_the_dead_is_neither_done_nor_kept"
                  "[sqlite-a file-during C5]")
_MARIADB_WITHOUT_TABLE = "tests/interop/test_mariadb_outbox.py::test_a_table_that_is_gone_is_named"
_OUTBOX_DATABASE = "regulus/pipeline/outbox_database.py"
_OUTBOX_PARTS = ("tests/unit/pipeline/test_outbox_database.py",)

MUTANTS = [
    Mutant(name="an effect without a row of the inbox is done", path=_JUDGES,
           old="        if applied is None:\n            return Outcome.BUSY", new="        if applied is None:\n"
               "            return Outcome.DONE", tests=_TABLE_TESTS),
    Mutant(name="a holder that was killed is done, with two databases", path=_JUDGES,
           old="        if applied is None:\n            return Outcome.BUSY", new="        if applied is None:\n"
               "            return Outcome.DONE", tests=(_KILLED_HOLDER,)),
    Mutant(name="rows of the inbox without a digest are of other messages", path=_JUDGES,
           old="applied.digest not in (None, _digest(delivery))", new="applied.digest != _digest(delivery)",
           tests=_CONFIRMS_TESTS),
    Mutant(name="done in Redis is held", path=_APPLYING,
           old="is_ours or self._claims.is_done(delivery.message_id)", new="is_ours", tests=_TABLE_TESTS),
    Mutant(name="held in Redis is done", path=_CLAIMS,
           old="self._client.eval, _IS_DONE, 1, self._prefix + message_id, _DONE) == 1",
           new="self._client.exists, self._prefix + message_id) == 1", tests=_REDIS_TESTS),
    Mutant(name="the key of what is done stays a holder's", path=_CLAIMS,
           old="redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])", new="redis.call('PEXPIRE', KEYS[1], ARGV[3])",
           tests=_REDIS_TESTS),
    Mutant(name="another's claim is called done", path=_CLAIMS,
           old="if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET'",
           new="if redis.call('GET', KEYS[1]) then redis.call('SET'", tests=_REDIS_TESTS),
    Mutant(name="a copy whose claim is another's tells the stub's database nothing", path=_INBOX,
           old="        if outcome in SETTLED:\n            self._confirm(delivery)",
           new="        if token and outcome in SETTLED:\n            self._confirm(delivery)", tests=_TABLE_TESTS),
    Mutant(name="a coroutine whose claim is another's makes the effect", path=_INBOX,
           old="            effect = self._decide if claim.is_open else self._see\n",
           new="            effect = self._decide\n", tests=_ASYNC_TESTS),
    # --- effects that share a commit --------------------------------------------------------------------------------
    Mutant(name="each effect of a call is a commit", path=_APPLYING,
           old="return len(deliveries) > 1 and time.monotonic()", new="return False and time.monotonic()",
           tests=_SHARED_TESTS),
    Mutant(name="effects share a commit however long they take", path=_APPLYING,
           old="(_spent_ms(parts[0].begun) >= TOGETHER_MS_MAX) or ", new="", tests=_SHARED_TESTS),
    Mutant(name="SQLite ends a transaction with its first savepoint", path=_EFFECT,
           old="        connection.exec_driver_sql(\"BEGIN\")", new="        pass", tests=_SHARED_TESTS),
    Mutant(name="what failed among others stays", path=_EFFECT,
           old="    connection.exec_driver_sql(f\"ROLLBACK TO SAVEPOINT {_SHARED}\")\n", new="",
           tests=_SHARED_TESTS),
    Mutant(name="a savepoint that an effect left open is the next one's", path=_APPLYING,
           old="            effect_transaction.keep_nested(connection)\n", new="", tests=_SHARED_TESTS),
    Mutant(name="a savepoint that an effect which failed left open is the next one's", path=_EFFECT,
           old="        nested.rollback()\n", new="        break\n", tests=_SHARED_TESTS),
    Mutant(name="one that fails takes the others with it", path=_APPLYING,
           old="        effect_transaction.undo_shared(connection)\n", new="        raise part.error\n",
           tests=_SHARED_TESTS),
    Mutant(name="one that ends a shared transaction is done", path=_EFFECT,
           old="    _release(connection, _SHARED)\n", new="    pass\n", tests=_SHARED_TESTS),
    Mutant(name="after a deadlock a call goes on in a transaction that is gone", path=_APPLYING,
           old="not isinstance(part.error, Exception) or is_passing(part.error)",
           new="not isinstance(part.error, Exception)", tests=_SHARED_TESTS),
    Mutant(name="a deadlock is an effect's failure", path=_APPLYING,
           old="if part.error is not None and not is_passing(part.error)]", new="if part.error is not None]",
           tests=_SHARED_TESTS),
    Mutant(name="after a deadlock effects share commits as before", path=_APPLYING,
           old="            self._alone_until = time.monotonic() + ALONE_S\n", new="            pass\n",
           tests=_SHARED_TESTS),
    Mutant(name="what a lost commit held is done", path=_INBOX,
           old="        self._settle_shared(parts, error is None)", new="        self._settle_shared(parts, True)",
           tests=_SHARED_TESTS),
    Mutant(name="what was applied before a commit was lost is told as applied", path=_APPLYING,
           old="        if error is None:\n            for part in parts:",
           new="        if True:\n            for part in parts:",
           tests=_SHARED_TESTS),
    Mutant(name="in order a call goes on behind one that failed", path=_APPLYING,
           old=" or (is_ordered and not parts[-1].is_applied)", new="", tests=_SHARED_TESTS),
    Mutant(name="a failure makes dead letters of strays that come with it", path=_APPLYING,
           old="        if not self._busy and not self._failed and all(", new="        if not self._busy and all(",
           tests=_SHARED_TESTS),
    Mutant(name="a call goes on with a database that is away", path=_INBOX,
           old="            log_unwritten(delivery, unwritten)\n            raise error from None\n"
               "        if not isinstance(error, Exception):\n            raise error\n        return error\n\n\n"
               "class ApplyOnceAsync",
           new="            log_unwritten(delivery, unwritten)\n        return error\n\n\nclass ApplyOnceAsync",
           tests=_SHARED_TESTS),
    Mutant(name="stubs are confirmed one by one", path=_APPLYING,
           old="        if len(deliveries) > 1 and isinstance(", new="        if False and isinstance(",
           tests=_SHARED_TESTS),
    Mutant(name="confirmations that met a deadlock are lost", path=_APPLYING,
           old="            if not isinstance(error, DBAPIError) or not is_conflict(error):\n",
           new="            if True:\n",
           tests=_SHARED_TESTS),
    Mutant(name="of coroutines what was cancelled keeps its claims", path=_INBOX,
           old="await asyncio.shield(asyncio.to_thread(self._settle_shared, parts, is_committed))", new="pass",
           tests=_COROUTINES_TESTS),
    Mutant(name="of coroutines what failed among others stays", path=_INBOX,
           old="await connection.run_sync(self._undo, part)", new="pass",
           tests=_COROUTINES_TESTS),
    Mutant(name="what undoes an effect is taken for its first statement",
           path="regulus/testing/crash_points/doors.py",
           old="            connection.info.pop(_EFFECT, None)      # or", new="            # or",
           tests=("tests/unit/testing/crash_points/test_doors.py",)),
    Mutant(name="pages of stubs are filled", path=_TABLES,
           old="    postgresql_with={\"fillfactor\": STUB_FILL_PERCENT},\n", new="",
           tests=("tests/unit/reliability/test_migrations.py",)),
    Mutant(name="migrations leave pages of stubs filled",
           path="regulus/reliability/migrations/versions/v0009_room_for_changes.py",
           old="ALTER TABLE regulus_stub SET (fillfactor = 50)", new="SELECT 50",
           tests=("tests/unit/reliability/test_migrations.py",)),
    # --- batches of Java --------------------------------------------------------------------------------------------
    Mutant(name="what comes twice in a batch is stored once", path=_SEND,
           old="            message.properties_text = _ended(text) + text_behind\n", new="            pass\n",
           tests=("tests/golden/test_batches.py",)),
    Mutant(name="what a batch says of all lies in the order in which it was sent", path=_SEND,
           old="for name in in_map_order(behind)", new="for name in behind", tests=("tests/golden/test_batches.py",)),
    Mutant(name="the first property of a batch is part of a message's last", path=_SEND,
           old="return text + _PROPERTY_END if text and", new="return text if text and",
           tests=("tests/golden/test_batches.py",)),
    Mutant(name="a batch is one message by its unique key", path=_LOG,
           old="    message_id = message.properties.get(names.BUSINESS_ID, \"\")",
           new="    message_id = message.properties.get(names.UNIQUE_KEY, \"\")",
           tests=("tests/unit/reliability/test_java_batches.py",)),
    Mutant(name="what has no business id goes by its unique key", path=_LOG,
           old="    message_id = message.properties.get(names.BUSINESS_ID, \"\")",
           new="    message_id = message.properties.get(names.BUSINESS_ID, message.message_id)",
           tests=("tests/unit/reliability/test_java_batches.py",)),
    Mutant(name="a batch is one message that was sent again and again", path=_DUPLICATES,
           old=".groupBy(\"topic\", \"message_id\", \"nth\")",
           new=".withColumn(\"nth\", F.lit(1)).groupBy(\"topic\", \"message_id\", \"nth\")",
           tests=("tests/unit/pipeline/steps/test_duplicates.py",)),
    Mutant(name="of a batch that failed one message is counted", path=_RETRIES,
           old=".groupBy(*of_id, \"first_copy\")", new=".groupBy(*of_id)",
           tests=("tests/unit/pipeline/steps/test_retries.py",)),
    Mutant(name="the dead letter of what was popped is another message", path=_RETRIES,
           old="F.when(all_say, F.col(\"origin\"))", new="F.col(\"origin\")",
           tests=("tests/unit/pipeline/steps/test_retries.py",)),
    # --- audits -----------------------------------------------------------------------------------------------------
    Mutant(name="an audit ends at the present, whoever writes", path=_SETTLED,
           old="    if since is None or since >= latest:", new="    if True:", tests=_SETTLED_TESTS),
    Mutant(name="an audit reads on where it said that it ended", path=_LEDGER,
           old="    until_ms = found.until_ms\n", new="", tests=_SETTLED_TESTS),
    Mutant(name="who may not be seen is not told", path=_SETTLED,
           old="_unknown_writers(writers.unknown, table) if writers.unknown else \"\")", new="\"\")",
           tests=_SETTLED_TESTS),
    Mutant(name="an audit does not wait for SQLite's writer", path=_SETTLED,
           old="exec_driver_sql(\"BEGIN IMMEDIATE\")", new="exec_driver_sql(\"BEGIN\")", tests=_SETTLED_TESTS),
    Mutant(name="effects that come late are in no audit", path=_LEDGER,
           old="[] if effects is None else [settled(effects, inbox)]", new="[]", tests=_SETTLED_TESTS),
    Mutant(name="an audit keeps to what it saw when it asked who writes", path=_SETTLED,
           old="        connection.exec_driver_sql(\"ROLLBACK AND CHAIN\")", new="        pass", tests=_SETTLED_TESTS),
    Mutant(name="an audit takes back what its transaction wrote", path=_SETTLED,
           old="    if keeps and own.has_written:", new="    if False:", tests=_SETTLED_TESTS),
    Mutant(name="an audit takes a second connection", path=_SETTLED,
           old="    now = connection.execute(select(now_ms())).scalar_one()\n",
           new="    with connection.engine.connect() as other:\n"
               "        now = other.execute(select(now_ms())).scalar_one()\n", tests=_SETTLED_TESTS),
    Mutant(name="a time that is two moments is the later", path=_SETTLED,
           old="UNION SELECT 60", new="UNION SELECT 59", tests=("tests/interop/test_mariadb_zones.py",)),
    Mutant(name="who reads holds an audit back", path=_SETTLED,
           old="held.mode = 'RowExclusiveLock'", new="held.mode IN ('RowExclusiveLock', 'AccessShareLock')",
           tests=_SETTLED_TESTS),
    # --- tables -----------------------------------------------------------------------------------------------------
    Mutant(name="tables are made in the server's default engine", path=_TABLES,
           old=", \"mysql_engine\": \"InnoDB\"", new="", tests=("tests/unit/reliability/test_tables.py",)),
    Mutant(name="an engine that keeps what is rolled back will do", path=_TABLES,
           old="    if loose is not None:", new="    if False:", tests=("tests/interop/test_mariadb_engines.py",)),
    Mutant(name="migrations make tables in the server's default engine", path=_STEPS,
           old=", **_TRANSACTIONAL)", new=")", tests=("tests/interop/test_mariadb_engines.py",)),
    Mutant(name="a migration that was cut short cannot be begun again", path=_STEPS,
           old="    if not _found().has_table(name):", new="    if True:",
           tests=("tests/unit/reliability/test_migrations.py",)),
    Mutant(name="tables that an earlier call did not come to are never made", path=_MIGRATIONS,
           old="all(map(found.has_table, tables.metadata.tables))", new="found.has_table(\"regulus_alarm\")",
           tests=("tests/unit/reliability/test_migrations.py",)),
    Mutant(name="an index that was not come to is never made", path=_TABLES,
           old="    metadata.create_all(connection)\n    create_indexes(connection)",
           new="    metadata.create_all(connection)", tests=("tests/unit/reliability/test_migrations.py",)),
    Mutant(name="a table that is gone is the database's own words", path="regulus/reliability/outbox.py",
           old="        if is_missing_table(error):", new="        if False:",
           tests=("tests/unit/reliability/test_outbox.py",)),
    Mutant(name="any failure of the database is a table that is gone", path="regulus/reliability/outbox.py",
           old="        if is_missing_table(error):", new="        if True:",
           tests=("tests/unit/reliability/test_outbox.py",)),
    Mutant(name="MariaDB's tables that are gone are not known", path="regulus/reliability/database_errors.py",
           old="= \"42P01\", 1146", new="= \"42P01\", 1147", tests=(_MARIADB_WITHOUT_TABLE,)),
    Mutant(name="parts of an outbox are cut at one place again and again", path=_OUTBOX_DATABASE,
           old="behind = on.where(cut_by >= ends[-1]) if ends else on", new="behind = on", tests=_OUTBOX_PARTS),
    Mutant(name="rows of one moment end the cutting", path=_OUTBOX_DATABASE,
           old="            end = connection.execute(on.where(cut_by > end)).scalar_one_or_none()",
           new="            end = None", tests=_OUTBOX_PARTS),
    Mutant(name="the last part of an outbox has an end", path=_OUTBOX_DATABASE,
           old="for end in ends), None]\n        return", new="for end in ends), name < literal(ends[-1], cut_by.type)]"
               "\n        return", tests=_OUTBOX_PARTS),
    Mutant(name="a sign of a driver stays in the text for Spark", path=_OUTBOX_DATABASE,
           old="text.replace(\"%%\", \"%\")", new="text", tests=_OUTBOX_PARTS),
    # --- poolers ----------------------------------------------------------------------------------------------------
    Mutant(name="what a pooler makes of prepared statements is the password's fault",
           path="regulus/reliability/database_errors.py",
           old="    if getattr(error.orig, \"sqlstate\", None) in _NOT_PREPARED_HERE:", new="    if False:",
           tests=("tests/unit/reliability/test_database_errors.py",)),
    Mutant(name="an address gives the driver a text for a number", path="regulus/cli/database.py",
           old="    if said is None or url", new="    if True or url", tests=("tests/unit/cli/test_outbox.py",)),
    Mutant(name="None in an address is a text", path="regulus/cli/database.py",
           old="None if said == \"None\" else int(said)", new="5", tests=("tests/interop/test_pgbouncer.py",)),
    # --- what is mended or removed ----------------------------------------------------------------------------------
    Mutant(name="a dead letter that was mended takes its stub from the relays again", path=_DEAD_LETTERS,
           old="not _is_mended(connection, business_id(message), told) and park(", new="park(",
           tests=("tests/unit/reliability/test_dead_letters.py",)),
    Mutant(name="what a human sent again is mended whatever becomes of it", path=_DEAD_LETTERS,
           old=" alarms.c.detail == told,", new="", tests=("tests/unit/reliability/test_dead_letters.py",)),
    Mutant(name="what is removed while an audit reads is lost", path=_LEDGER,
           old="            if stub.message_id not in left:\n                continue ",
           new="            if False:\n                continue ", tests=("tests/unit/reliability/test_ledger.py",)),
    Mutant(name="a removal holds up receipts", path="regulus/reliability/stub_purge.py",
           old="    engine = read_committed(engine)\n", new="",
           tests=("tests/interop/test_mariadb_relays.py::test_a_purge_holds_up_no_commit_of_the_business",)),
    Mutant(name="the inbox takes the proofs of a service's own stubs", path=_INBOX_PURGE,
           old="    if has_stubs:", new="    if False:", tests=("tests/unit/reliability/test_inbox_purge.py",)),
    Mutant(name="a cancelled listener gives no claim back that waits for a thread", path=_INBOX,
           old="await asyncio.shield(asyncio.to_thread(self._settle, delivery, claim, outcome, begun))",
           new="await asyncio.to_thread(self._settle, delivery, claim, outcome, begun)", tests=_ASYNC_TESTS),
]
