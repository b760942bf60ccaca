"""Faults of the Spark sink: rows taken for stored that are not, and half messages that nobody ends."""

from tests.mutants import Mutant

_MARKS = "regulus/spark/sink/marks.py"
_TASK = "regulus/spark/sink/task.py"
_TRANSACTIONS = "regulus/spark/sink/transactions.py"
_COMMITS = "regulus/spark/sink/commits.py"
_DIGEST = "regulus/wire/row_digest.py"
_ROWS = "regulus/spark/sink/rows.py"
_ROUTES = "regulus/spark/sink/routes.py"

_TASK_TESTS = "tests/unit/spark/sink/test_task.py::"
_MARK_TESTS = ("tests/unit/spark/sink/test_marks.py", "tests/unit/spark/sink/test_task.py")
_TRANSACTION_TESTS = ("tests/unit/spark/sink/test_transactions.py",)
_DIGEST_TESTS = ("tests/unit/wire/test_row_digest.py", "tests/unit/broker/test_sink_marks.py")

MUTANTS = [
    Mutant(name="a sink that is done does not say so", path=_TASK,
           old="                release(sender.ask, sink_id, brokers)\n", new="",
           tests=("tests/unit/spark/sink/test_task.py",)),
    # --- rows that are not stored ------------------------------------------------------------------------------------
    Mutant(name="a task with fewer rows than before is well", path=_MARKS,
           old="if lane.rows_stored > lane.next_row:", new="if False:", tests=_MARK_TESTS),
    Mutant(name="a task does not hear how far the broker is", path=_MARKS,
           old="int(row) + 1 if row.isdigit() else 0)", new="0)", tests=_MARK_TESTS),
    Mutant(name="a batch in another division is well", path=_MARKS,
           old="if mark.batch > batch or (broker_name, lane) not in used:", new="if mark.batch > batch:",
           tests=_MARK_TESTS),
    Mutant(name="a batch during which another writer went on is well", path=_MARKS,
           old="if mark.batch > batch or (broker_name, lane) not in used:",
           new="if (broker_name, lane) not in used and mark.batch == batch:", tests=_MARK_TESTS),
    Mutant(name="nobody looks at a batch before it is committed", path=_TASK,
           old="            _check_batch(reports, sink_id, batch, brokers, sender)\n", new="            pass\n",
           tests=("tests/unit/spark/sink/test_task.py",)),
    Mutant(name="a batch without rows is not looked at", path=_TASK,
           old="if not brokers and options.topic is not None:", new="if False:",
           tests=("tests/unit/spark/sink/test_task.py",)),
    Mutant(name="a new checkpoint begins under an old sink", path=_MARKS,
           old="_marks_from(ask, broker_name, topic, sink_id, batch + 1).items():\n        raise",
           new="{}.items():\n        raise", tests=_MARK_TESTS),
    Mutant(name="keys and tags do not tell rows apart", path=_DIGEST,
           old="    return crc32(counted, flag & 0xFFFFFFFF) & _SUM_MASK", new="    return 0", tests=_DIGEST_TESTS),
    Mutant(name="the order of rows does not tell them apart", path=_DIGEST,
           old="return (digest * 31 + number) & _DIGEST_MASK", new="return (digest + number) & _DIGEST_MASK",
           tests=_DIGEST_TESTS),
    Mutant(name="each of two tasks that begin at once goes by the route that it has seen", path=_ROUTES,
           old="            entries = self._entries(topic)\n        return",
           new="            entries = [_entry(0, current)]\n        return",
           tests=("tests/unit/spark/sink/test_routes.py",)),
    Mutant(name="requests have no largest size", path=_ROWS,
           old='self._ends[start] + size_max, side="right"', new='self._ends[start] + (1 << 40), side="right"',
           tests=("tests/unit/spark/sink/test_task.py::test_large_rows_travel_alone",)),
    # --- halves ------------------------------------------------------------------------------------------------------
    Mutant(name="halves of a batch that failed are not rolled back", path=_TASK,
           old="        roll_back(options, sink_id, halves, client_config(options, environment))", new="        pass",
           tests=_TRANSACTION_TESTS),
    Mutant(name="halves of a batch whose commit failed are rolled back", path=_TASK,
           old="if options.is_transactional and len(done) < len(reports):", new="if options.is_transactional:",
           tests=_TRANSACTION_TESTS),
    Mutant(name="halves that come again are not rolled back at the commit", path=_TRANSACTIONS,
           old="            await self.roll_back(halves)\n", new="            pass\n", tests=_TRANSACTION_TESTS),
    Mutant(name="halves of a task that failed are not rolled back", path=_TASK,
           old="        roll_back(self._options, self._attempt.sink_id, self._halves, self._client)",
           new="        pass", tests=_TRANSACTION_TESTS),
    Mutant(name="other rows of a decided batch are passed over", path=_TRANSACTIONS,
           old="if one.count != other.count or not (only_counts or one == other):", new="if one.count != other.count:",
           tests=_TRANSACTION_TESTS),
    Mutant(name="fewer rows of a decided batch are passed over", path=_TRANSACTIONS,
           old="if one.count != other.count or not (only_counts or one == other):",
           new="if not (only_counts or one == other):", tests=_TRANSACTION_TESTS),
    Mutant(name="the next record of the commit topic stands for one that is gone", path=_COMMITS,
           old="if not messages or messages[0].queue_offset != place:", new="if not messages:",
           tests=("tests/unit/spark/sink/test_commits.py",)),
    Mutant(name="a commit whose answer is lost is said again though the message is there", path=_TRANSACTIONS,
           old="if state is TransactionState.COMMIT and await self._is_visible_if_asked(half):", new="if False:",
           tests=_TRANSACTION_TESTS),
    Mutant(name="a half whose answer is lost is sent again", path=_TASK,
           old="repeats=not options.is_transactional, client=client)", new="repeats=True, client=client)",
           tests=_TRANSACTION_TESTS),
    Mutant(name="rows of a transaction are told apart by their bodies alone", path=_COMMITS,
           old="key=blake2b(own.encode()).digest()", new="key=blake2b(b'').digest()", tests=_TRANSACTION_TESTS),
    Mutant(name="a batch takes the number of the stream that it is written in", path="regulus/spark/sink/writer.py",
           old='sink_id=options.sink_id or "", batch=options.job_id,',
           new='sink_id=options.sink_id or "", batch=int(context.getLocalProperty(_BATCH_ID) or options.job_id),',
           tests=("tests/unit/spark/sink/test_writer.py",)),
    # --- rows that differ --------------------------------------------------------------------------------------------
    Mutant(name="rows that differ in where their columns end have one key", path="regulus/spark/sink/order.py",
           old="*map(_escaped, texts)", new="*texts", tests=("tests/unit/spark/sink/test_order.py",)),
    Mutant(name="a backslash before a separator is its escape", path="regulus/spark/sink/order.py",
           old="doubled = pc.replace_substring(texts, _ESCAPE, _ESCAPE * 2)", new="doubled = texts",
           tests=("tests/unit/spark/sink/test_order.py",)),
    # --- what a message may be ---------------------------------------------------------------------------------------
    Mutant(name="a large row is a batch of one", path=_TASK,
           old="                if records.size(start, end) > REQUEST_SIZE_MAX:", new="                if False:",
           tests=(_TASK_TESTS + "test_a_body_may_be_as_large_as_the_broker_says_and_an_error_names_its_own_size",)),
    Mutant(name="a delay level that no broker has is taken for its last", path=_TASK,
           old="        if run.delay_level > levels:", new="        if False:",
           tests=(_TASK_TESTS + "test_a_delay_level_that_the_broker_does_not_have_is_refused_with_those_that_it_has",)),
    Mutant(name="all brokers have eighteen delay levels", path=_TASK,
           old="    return len(parse_ladder(settings.get(", new="    return 18 or len(parse_ladder(settings.get(",
           tests=(_TASK_TESTS + "test_a_longer_ladder_of_a_broker_is_followed",)),
]
