"""Faults of jobs that judge by the log and send again, and of the archive."""

from tests.mutants import Mutant

_VERDICTS = "regulus/pipeline/steps/verdicts.py"
_FACTS = "regulus/pipeline/steps/message_facts.py"
_RECONCILE = "regulus/pipeline/jobs/reconcile.py"
_SENDING = "regulus/pipeline/jobs/sending.py"
_TABLES = "regulus/pipeline/tables/outside.py"
_JDBC = "regulus/pipeline/tables/jdbc.py"
_SQL = "regulus/pipeline/tables/sql.py"

_VERDICTS_TESTS = "tests/unit/pipeline/steps/test_verdicts.py::"
_LIMIT = (_VERDICTS_TESTS + "test_a_limit_is_kept_by_who_just_reaches_it",)
_KEYS_OF = "is_wanted OR has_wanted IS NULL AND nth = 0"
_RECALLED = (_VERDICTS_TESTS + "test_what_was_taken_back_while_it_waited_is_recalled_and_not_stuck_or_lost",)
_KEYS = (_VERDICTS_TESTS + "test_a_message_belongs_to_each_stub_that_one_of_its_keys_names",)
_DUE = (_VERDICTS_TESTS + "test_a_stub_that_is_not_due_is_not_lost",)
_RECONCILE_TESTS = "tests/unit/pipeline/jobs/test_reconcile.py::"
_RESEND = (_RECONCILE_TESTS + "test_what_is_not_due_young_without_a_time_or_beyond_the_cap_is_not_sent_and_told",)
_TABLES_TESTS = "tests/unit/pipeline/tables/test_outside.py::"
_ZONES = (_TABLES_TESTS + "test_a_time_that_does_not_say_its_zone_is_told_and_read_in_the_one_that_is_given",)
_SQLITE_KEYS = ("tests/unit/pipeline/tables/test_sqlite.py::test_a_key_is_read_as_it_is_kept_and_no_number_is_cut",)
_SQL_TESTS = "tests/unit/pipeline/tables/test_sql.py::"
_SQLITE_MARKS = (_SQL_TESTS + "test_a_column_of_whole_numbers_is_marked_where_it_holds_something_else",)
_POSTGRESQL = "tests/unit/pipeline/tables/test_jdbc.py::test_in_postgresql"
_PARTS = (_POSTGRESQL + "[a_table_is_cut_by_its_whole_numbers]",)
_MARKS = (_POSTGRESQL + "[rows_are_marked_by_exactly_their_key]",)
_REFUSED = (_TABLES_TESTS + "test_what_is_no_table_is_refused_in_a_sentence",)
_SENDING_TESTS = "tests/unit/pipeline/jobs/test_sending.py::"
_CLUSTER = (_SENDING_TESTS + "test_only_a_local_session_is_one_process",)
_UNSEEN = (_SENDING_TESTS + "test_rows_that_the_driver_does_not_see_are_missed",)
_TABLE = (_SENDING_TESTS + "test_where_no_disk_is_known_to_be_shared_rows_are_a_table_until_they_are_sent",)
_TASKS = "regulus/pipeline/range_tasks.py"
_TASKS_TESTS = "tests/unit/pipeline/test_range_tasks.py::"
_APART = (_TASKS_TESTS + "test_a_directory_that_not_all_tasks_share_is_refused_and_nothing_stays_in_it",)
_REDRIVE = "regulus/pipeline/jobs/redrive.py"
_REDRIVE_TESTS = "tests/unit/pipeline/jobs/test_redrive.py::"
_CLOCKS = (_REDRIVE_TESTS + "test_what_was_sent_again_may_seem_to_be_older_than_the_first_dead_letter",)
_ANEW = (_REDRIVE_TESTS + "test_a_dead_letter_that_is_older_than_its_topic_is_left_where_it_is",)
_SHORTENED = (_REDRIVE_TESTS + "test_what_retention_took_at_the_brokers_may_have_been_sent",)
_TOLD = (_SENDING_TESTS + "test_a_job_that_sends_is_told_which_brokers_there_are",)
_REPLAY_TESTS = "tests/unit/pipeline/jobs/test_replay.py::"
_GONE = (_REPLAY_TESTS + "test_messages_that_are_gone_when_their_turn_comes_end_a_replay",)
_LIVE_TESTS = "tests/unit/spark/live/test_brokers.py::"
_PARTED = (_LIVE_TESTS + "test_a_broker_that_goes_while_the_queues_are_asked_for_is_missed",)
_UNREADABLE = (_LIVE_TESTS + "test_messages_that_nobody_can_read_are_missed_by_who_wants_all",)
_EXPECTED = "regulus/client/administration/expected_brokers.py"
_OTHERS = ("tests/unit/client/administration/test_expected_brokers.py",)
_AUDIT_TESTS = "tests/unit/pipeline/jobs/test_audit.py::"
_COMPACT_TESTS = "tests/unit/pipeline/archive/test_compact.py::"
_FILES = "regulus/pipeline/archive/files.py"
_FILES_TESTS = "tests/unit/pipeline/archive/test_files.py::"
_SINK_TESTS = "tests/unit/spark/sink/test_transactions.py::"
_POWER = ("tests/crash/test_archive_power_cut.py",)
_OUTBOX_FACTS = "regulus/pipeline/steps/outbox_facts.py"
_OUTBOX_VERDICTS = "regulus/pipeline/steps/outbox_verdicts.py"
_OUTBOX_JOB = "regulus/pipeline/jobs/outbox_reconcile.py"
_OUTBOX_STEPS = "tests/unit/pipeline/steps/test_outbox_verdicts.py::"
_OUTBOX_AGAIN = (_OUTBOX_STEPS + "test_a_lost_stub_is_sent_again_by_the_rules_of_the_relay_or_it_is_said_why_not",)
_OUTBOX_PLACES = (_OUTBOX_STEPS + "test_a_place_whose_queue_was_not_read_or_has_lost_its_beginning_says_nothing",)
_OUTBOX_SINCE = (_OUTBOX_STEPS + "test_what_came_while_the_job_read_is_neither_lost_nor_unmade",)
_OUTBOX_KEPT = (_OUTBOX_STEPS + "test_a_message_that_is_older_than_stubs_are_kept_is_not_unmade",)
_OUTBOX_NOWHERE = (_OUTBOX_STEPS + "test_a_stub_without_a_place_is_lost_only_by_a_log_that_is_whole",)
_OUTBOX_TOLD = (_OUTBOX_STEPS + "test_an_effect_that_is_told_and_not_yet_confirmed_is_not_lost",)
_OUTBOX_TESTS = "tests/unit/pipeline/jobs/test_outbox_reconcile.py::"
_OUTBOX_ALIKE = (_OUTBOX_TESTS + "test_spark_and_the_relay_answer_alike",)
_OUTBOX_BROKERS = (_OUTBOX_TESTS + "test_a_stub_without_a_place_needs_all_brokers",)
_OUTBOX_SENT = (_OUTBOX_TESTS + "test_lost_messages_are_made_due_and_the_relay_sends_them_once",)
_OUTBOX_KILLED = (_OUTBOX_TESTS + "test_two_jobs_and_one_that_is_killed_make_each_stub_due_once",)

MUTANTS = [
    Mutant(name="late from the limit on", path=_VERDICTS, old='"applied_time") > limits.late_ms',
           new='"applied_time") >= limits.late_ms', tests=_LIMIT),
    Mutant(name="what was taken back is stuck", path=_VERDICTS,
           old='F.coalesce("is_recall", F.lit(False))', new="F.lit(False)", tests=_RECALLED),
    Mutant(name="a recall takes back what waits for another topic", path=_VERDICTS,
           old='F.concat(properties[names.REAL_TOPIC], F.lit("+"), F.col("message_id"))',
           new='F.concat(F.lit("t+"), F.col("message_id"))', tests=_RECALLED),
    Mutant(name="what was delivered is recalled", path=_VERDICTS,
           old="in_log & ~elsewhere & F.coalesce(", new="(F.col('recalled') > 0) & F.coalesce(", tests=_RECALLED),
    Mutant(name="what was to wait is late while it waits", path=_VERDICTS,
           old='F.greatest("born_time", "due_time")', new='F.col("born_time")',
           tests=(_VERDICTS_TESTS + "test_what_was_to_wait_is_late_by_when_it_was_due",)),
    Mutant(name="stuck from the limit on", path=_VERDICTS, old="tried & (last < overdue)",
           new="tried & (last <= overdue)",
           tests=_LIMIT),
    Mutant(name="no effect from the limit on", path=_VERDICTS, old="in_log & no_effect & (last < overdue)",
           new="in_log & no_effect & (last <= overdue)", tests=_LIMIT),
    Mutant(name="lost from the limit on", path=_VERDICTS, old='F.col("created_time") < overdue',
           new='F.col("created_time") <= overdue', tests=_LIMIT),
    Mutant(name="forgotten with the log's first message", path=_VERDICTS, old='F.col("created_time") < since',
           new='F.col("created_time") <= since', tests=_LIMIT),
    Mutant(name="twice from one effect on", path=_VERDICTS, old='F.col("effects") > 1', new='F.col("effects") >= 1',
           tests=_LIMIT),
    Mutant(name="a stub that is not due is lost", path=_VERDICTS, old="no_log & ~F.col", new="F.lit(False) & ~F.col",
           tests=_DUE),
    Mutant(name="one row that is not due speaks for its key", path=_VERDICTS, old="F.max(F.coalesce(due",
           new="F.min(F.coalesce(due", tests=_DUE),
    Mutant(name="only the first of a message's keys counts", path=_FACTS, old=_KEYS_OF,
           new="nth = 0", tests=_KEYS),
    Mutant(name="a message's first key counts beside its stub's", path=_FACTS,
           old=_KEYS_OF, new="is_wanted OR nth = 0", tests=_KEYS),
    Mutant(name="lost keys are sent once a row", path=_RECONCILE,
           old='.groupBy("key").agg(first).select("key", "stub.*")',
           new='.select("key", "created_time", "body", "tags")',
           tests=_RESEND),
    Mutant(name="the newest row of a key is sent", path=_RECONCILE, old="F.min_by(", new="F.max_by(", tests=_RESEND),
    Mutant(name="what is not due is sent", path=_RECONCILE, old='stubs.where("is_due").join', new="stubs.join",
           tests=_RESEND),
    Mutant(name="young stubs are sent", path=_RECONCILE, old="timedelta(milliseconds=limits.min_age_ms)",
           new="timedelta()",
           tests=_RESEND),
    Mutant(name="a stub without a time is sent", path=_RECONCILE,
           old='F.when(F.col("created_time").isNull(), NO_TIME).when(~old_enough', new="F.when(~old_enough",
           tests=_RESEND),
    Mutant(name="the newest are sent first", path=_RECONCILE, old='.orderBy("created_time", "key").limit',
           new='.orderBy(F.desc("created_time"), "key").limit', tests=_RESEND),
    Mutant(name="no cap", path=_RECONCILE, old='F.when(F.col("is_within").isNull(), BEYOND_CAP)', new="F.lit(None)",
           tests=_RESEND),
    Mutant(name="what was not sent is noted as sent", path=_RECONCILE,
           old='rows, count = plan.where("why_not IS NULL")', new="rows, count = plan", tests=_RESEND),
    Mutant(name="times of no zone are sent by", path=_RECONCILE, old="        if request.sends:\n",
           new="        if False:\n",
           tests=_RESEND),
    Mutant(name="a zone is not minded", path=_TABLES,
           old="    if zone is not None:\n        time =",
           new="    if zone == '':\n        time =",
           tests=_ZONES),
    Mutant(name="a zone that is none is taken", path=_TABLES, old='or not row["is_known"]:', new="or False:",
           tests=(_TABLES_TESTS + "test_a_zone_that_is_none_is_refused_by_its_name",)),
    Mutant(name="a secret is one as it is written alone", path=_TABLES, old="_SECRET.search(unquote(rest))",
           new="_SECRET.search(rest)", tests=_REFUSED),
    Mutant(name="only a parameter called password is a secret", path=_TABLES, old="((secret|token)[\\w.-]*|(password",
           new="((secretly)[\\w.-]*|(password", tests=_REFUSED),
    Mutant(name="a kind that is misspelt shows its password", path=_TABLES, old="if kind not in _WITHOUT_PASSWORDS",
           new="if kind in _HOW_TO_KEEP_PASSWORDS", tests=_REFUSED),
    Mutant(name="a SQLite key is read as it was declared", path=_TABLES,
           old="if sqlite_tables.KEY_TEXT in frame.columns:", new="if False:", tests=_SQLITE_KEYS),
    Mutant(name="a number of SQLite's is cut", path="regulus/pipeline/tables/sqlite.py",
           old="return int(value) if is_whole else None", new="return int(value)", tests=_SQLITE_KEYS),
    Mutant(name="a text that SQLite takes for another number marks its row", path=_SQL,
           old="    if str(found) != text:\n        return None\n    # SQLite stores", new="    # SQLite stores",
           tests=_SQLITE_MARKS),
    Mutant(name="a later run forgets what was sent", path=_SQL,
           old="func.coalesce(merged.excluded[name], table.c[name])", new="merged.excluded[name]",
           tests=(_SQL_TESTS + "test_in_sqlite",)),
    Mutant(name="manifests that cannot be listed are none", path="regulus/spark/archive/manifest.py",
           old="(path for directory in brokers for path in directory.iterdir() if path.suffix == \".json\")",
           new="home.glob(\"*/*.json\")", tests=("tests/unit/spark/archive/test_manifest.py",)),
    Mutant(name="seconds are ms", path="regulus/model/timestamps.py", old="number <= 0 or number >= YEAR_2000_MS",
           new="True", tests=("tests/unit/spark/test_option_values.py",)),
    Mutant(name="small tables are cut", path=_JDBC, old="count = min(count, (int(high)",
           new="count = max(count, (int(high)", tests=_PARTS),
    Mutant(name="a table is read in one piece", path=_JDBC, old="        if low is None:\n", new="        if True:\n",
           tests=_PARTS),
    Mutant(name="a time without a zone is an instant", path=_JDBC, old='"preferTimestampNTZ": "true"',
           new='"preferTimestampNTZ": "false"', tests=(_POSTGRESQL + "[a_table_is_read_with_its_types]",)),
    Mutant(name="a key with decimals is changed", path=_JDBC, old="if _has_decimals(kinds.get(key)) else",
           new="if False else", tests=(_POSTGRESQL + "[a_key_with_decimals_is_read_as_it_is_written]",)),
    Mutant(name="a password behind the table", path=_TABLES, old="_PASSWORD.search(rest)",
           new='_PASSWORD.search(rest.partition("#")[0])', tests=_REFUSED),
    Mutant(name="half of a run's verdicts stay", path=_SQL, old="_engine(kind, place).begin()",
           new='_engine(kind, place).execution_options(isolation_level="AUTOCOMMIT").connect()',
           tests=(_POSTGRESQL + "[a_failure_in_the_middle_leaves_the_tables_as_they_were]",)),
    Mutant(name="008 is 8", path=_SQL, old="None if str(found) != text or is_too_large", new="None if is_too_large",
           tests=_MARKS),
    Mutant(name="a number that no row can have", path=_SQL, old="found.bit_length() > bits",
           new="found.bit_length() > 999", tests=_MARKS),
    Mutant(name="verdicts are looked at when all is sent", path=_RECONCILE, old="        _check_writes(request)\n",
           new="        pass\n", tests=(_RECONCILE_TESTS + "test_nothing_is_sent_whose_verdict_cannot_be_kept",)),
    Mutant(name="many rows of one key", path=_SQL, old="    if [key] not in unique:\n", new="    if False:\n",
           tests=(_POSTGRESQL + "[a_table_of_another_shape_takes_no_verdicts]",)),
    Mutant(name="a cluster writes to its driver's disk", path=_SENDING, old='master.startswith("local[")',
           new='master.startswith("local")', tests=_CLUSTER),
    Mutant(name="a server's disk is taken for this program's", path=_SENDING,
           old="        return False\n    return master",
           new="        return True\n    return master", tests=_CLUSTER),
    Mutant(name="rows that the driver does not see are left out", path=_SENDING, old="    if kept != written:",
           new="    if kept > written:", tests=_UNSEEN),
    Mutant(name="what was written down for a run stays", path=_SENDING, old='f"DROP TABLE IF EXISTS {name}"',
           new='"SELECT 1"', tests=_TABLE),
    Mutant(name="one task that sees a directory speaks for all", path=_TASKS,
           old="if not all(tasks.run(_is_there", new="if not any(tasks.run(_is_there", tests=_APART),
    Mutant(name="whoever completes a commit does not look before it ends a half",
           path="regulus/spark/sink/transactions.py",
           old="TransactionState.COMMIT, looks_first=True)", new="TransactionState.COMMIT)",
           tests=(_SINK_TESTS + "test_who_completes_a_commit_ends_no_half_whose_message_is_there",)),
    Mutant(name="of a queue that retention emptied at the brokers nothing is missing", path=_RECONCILE,
           old="    since = _latest(_both_complete_since(since, own, at_brokers),\n"
               "                    _bounds_since(spark, where.beside, request.topic, at_brokers, now))\n",
           new="    since = _both_complete_since(since, own, at_brokers)\n",
           tests=(_RECONCILE_TESTS + "test_what_retention_took_at_the_brokers_is_not_lost",)),
    Mutant(name="a send that is on its way is lost", path=_RECONCILE, old="there(SCHEDULE_TOPIC, TIMER_TOPIC,",
           new="there(TIMER_TOPIC,", tests=(_RECONCILE_TESTS + "test_a_send_that_is_on_its_way_is_not_lost",)),
    Mutant(name="what was sent again is looked for since the newest dead letter", path=_REDRIVE,
           old='F.unix_millis(F.min("store_time"))', new='F.unix_millis(F.max("store_time"))',
           tests=_CLOCKS),
    Mutant(name="brokers' clocks are the same", path=_REDRIVE, old=" - _CLOCKS_APART_MAX", new="",
           tests=_CLOCKS),
    Mutant(name="a timer message that waits is lost", path=_RECONCILE, old="there(SCHEDULE_TOPIC, TIMER_TOPIC,",
           new="there(SCHEDULE_TOPIC,", tests=(_RECONCILE_TESTS + "test_a_timer_message_that_waits_is_not_lost",)),
    Mutant(name="what a topic had before it was made anew is lost", path=_RECONCILE,
           old=", *topics_made(bounds).values())", new=")",
           tests=(_RECONCILE_TESTS + "test_what_a_topic_had_before_it_was_made_anew_is_not_lost",)),
    Mutant(name="a dead letter that is older than its topic is sent", path=_REDRIVE,
           old="TOPIC_IS_NEWER: is_older,", new="TOPIC_IS_NEWER: F.lit(False),", tests=_ANEW),
    Mutant(name="a dead letter that is older than what is left of the log is sent", path=_REDRIVE,
           old="LOG_IS_NEWER: is_forgotten}", new="LOG_IS_NEWER: F.lit(False)}", tests=_SHORTENED),
    Mutant(name="a log that has nothing left may have had no dead letter", path=_REDRIVE,
           old="F.lit(True) if moment is None", new="F.lit(False) if moment is None", tests=_SHORTENED),
    Mutant(name="what an archive has of a shortened log counts for nothing", path=_REDRIVE,
           old='F.coalesce("archived", F.lit(0))', new="F.lit(0)", tests=_SHORTENED),
    Mutant(name="messages that nobody can read are not missed", path=_EXPECTED, old="        if queues:",
           new="        if False:", tests=_UNREADABLE),
    Mutant(name="queues that a topic had before are not missed", path=_EXPECTED,
           old="FORMER_QUEUES_MAX = 16", new="FORMER_QUEUES_MAX = 0", tests=_UNREADABLE),
    Mutant(name="a topic that is made anew meanwhile is not minded", path=_REDRIVE,
           old="if self.places.target.made(spark, self.topics) != self.made:", new="if False:", tests=_ANEW),
    Mutant(name="what is beyond a redrive's cap is sent", path=_REDRIVE, old='F.col("is_within").isNull()',
           new="F.lit(False)", tests=(_REDRIVE_TESTS + "test_what_is_beyond_the_cap_is_told",)),
    Mutant(name="a replay tells what it planned", path="regulus/pipeline/jobs/replay.py",
           old="        if found < count:",
           new="        if False:",
           tests=_GONE),
    Mutant(name="whoever sends need not name the brokers", path=_SENDING,
           old="    if sends and target is not None and not target.expected_brokers:", new="    if False:",
           tests=_TOLD),
    Mutant(name="the brokers that are read and sent to are any", path=_SENDING,
           old="            return self._expecting(source), None", new="            return source, None",
           tests=(_SENDING_TESTS + "test_all_that_reads_the_brokers_which_are_sent_to_expects_them",)),
    Mutant(name="a broker that is not expected passes", path=_EXPECTED, old="sorted(there - set(expected))",
           new="[]", tests=_OTHERS),
    Mutant(name="a slave speaks for its broker", path=_EXPECTED, old=" if MASTER in broker.broker_addrs", new="",
           tests=_OTHERS),
    Mutant(name="a broker that goes while queues are asked for is not missed",
           path="regulus/spark/live/brokers.py",
           old="        # Check once more, because the routes do not show a broker that went away in between.\n"
               "        self._check_brokers()\n",
           new="", tests=_PARTED),
    Mutant(name="a small table is of the brokers that are there", path="regulus/spark/small_tables.py",
           old="        if self._options.expected_brokers is not None:", new="        if False:",
           tests=("tests/unit/spark/test_small_tables.py::test_the_same_of_a_running_broker",)),
    Mutant(name="a dead letter of no known topic is sent", path=_REDRIVE, old='.isin(*targets), TOPIC_IS_NEWER',
           new='.isin(*targets, ""), TOPIC_IS_NEWER',
           tests=(_REDRIVE_TESTS + "test_a_dead_letter_of_no_known_topic_holds_up_no_other",)),
    Mutant(name="what came while the audit read is missing", path="regulus/pipeline/jobs/audit.py",
           old='before.select(*queue, "min_offset", "max_offset").join',
           new='after.select(*queue, "min_offset", "max_offset").join',
           tests=(_AUDIT_TESTS + "test_what_comes_or_goes_while_the_audit_reads_is_not_asked_for",)),
    # --- the archive -------------------------------------------------------------------------------------------------
    Mutant(name="an archive's files go before their manifest", path=_FILES, old='        step("unlink manifest")\n',
           new="        for name in gone:\n            (archive / name).unlink(missing_ok=True)\n"
               '        step("unlink manifest")\n',
           tests=(_FILES_TESTS + "test_a_manifest_goes_before_its_files",)),
    Mutant(name="files that another manifest names are removed", path=_FILES, old="sorted(gone - _named(archive))",
           new="sorted(gone)", tests=(_FILES_TESTS + "test_files_that_two_manifests_name_stay_with_the_other",)),
    Mutant(name="a manifest is not synced", path=_FILES, old="        os.fsync(file.fileno())", new="        pass",
           tests=_POWER),
    Mutant(name="no folder of an archive is synced", path=_FILES, old="        os.fsync(descriptor)",
           new="        pass", tests=_POWER),
    Mutant(name="the folders of archived files are not synced", path=_FILES,
           old="            folders |= _folders_of(archive, target)\n", new="", tests=_POWER),
    Mutant(name="the folders above an archived file's are not synced", path=_FILES,
           old="            folders |= _folders_of(archive, target)\n", new="            folders |= {target.parent}\n",
           tests=_POWER),
    Mutant(name="the folder of a manifest is not synced", path=_FILES,
           old="        for folder in sorted(_folders_of(archive, path)):\n            _sync_folder(folder)\n", new="",
           tests=_POWER),
    Mutant(name="the name of a new archive is not synced", path=_FILES,
           old="        path.mkdir(exist_ok=True)\n        _sync_folder(path.parent)\n",
           new="        path.mkdir(exist_ok=True)\n", tests=_POWER),
    Mutant(name="an archived file is not synced", path="regulus/pipeline/archive/parquet.py",
           old="        os.fsync(self._written.fileno())\n", new="", tests=_POWER),
    Mutant(name="a replaced manifest goes by its own age", path="regulus/pipeline/archive/compact.py",
           old="(archive / manifest_path(over)).stat()", new="(archive / manifest_path(part)).stat()",
           tests=(_COMPACT_TESTS + "test_what_was_replaced_stays_as_long_as_what_replaced_it_is_young",)),
    Mutant(name="one reject explains a hole of many messages", path="regulus/pipeline/archive/check.py",
           old="        is_known = bool(facts.unreadable) or before",
           new="        is_known = bool(facts.rejected) or before",
           tests=("tests/unit/pipeline/archive/test_check.py",)),
    Mutant(name="a run that the gate refused leaves its staging", path="regulus/pipeline/archive/run.py",
           old="# also after the gate has refused the run\n            archive_files.sweep(archive)",
           new="\n            if 'job' in locals():\n                archive_files.sweep(archive)",
           tests=("tests/unit/pipeline/archive/test_gate.py",)),
    Mutant(name="an archive goes on with a log that lost its end", path="regulus/pipeline/archive/run.py",
           old="        archive_check.check_same_log(self._archive, self._manifests, self._log)\n", new="",
           tests=("tests/unit/pipeline/archive/test_run.py",)),
    Mutant(name="any name in a log becomes a folder", path="regulus/pipeline/index/task.py",
           old="    return is_storable(topic, 0) and (", new="    return (",
           tests=("tests/unit/pipeline/index/test_rebuild.py",)),
    Mutant(name="pages of an archive are read unchecked", path="regulus/spark/archive/scan.py",
           old="page_checksum_verification=True", new="page_checksum_verification=False",
           tests=("tests/unit/spark/archive/test_scan.py",)),
    Mutant(name="a row group may lack rows", path="regulus/spark/archive/scan.py",
           old="            if left:  ", new="            if False:  ",
           tests=("tests/unit/spark/archive/test_scan.py",)),
    Mutant(name="topics that are no text are topics", path="regulus/pipeline/archive/task.py",
           old="is_bad[[reject.row for reject in nameless]] = True", new="pass",
           tests=("tests/unit/pipeline/archive/test_task.py",)),
    Mutant(name="a record of another topic is this one's", path="regulus/spark/columns/records.py",
           old="        matches &= self._has_its_topic(table)\n", new="",
           tests=("tests/unit/spark/store/test_scan.py",)),
    Mutant(name="a topic's first bytes are not compared", path="regulus/spark/columns/records.py",
           old="for end in range(len(name), 0, -8):", new="for end in range(len(name), len(name) - 8, -8):",
           tests=("tests/unit/spark/store/test_scan.py",)),
    # --- the outbox against the log ---------------------------------------------------------------------------------
    Mutant(name="backlog is what a place that is gone says", path=_OUTBOX_VERDICTS,
           old="resend_time=F.lit(0), is_behind=F.lit(False)", new="resend_time=F.lit(0)", tests=_OUTBOX_AGAIN),
    Mutant(name="a lost stub waits for its time", path=_OUTBOX_VERDICTS,
           old="resend_time=F.lit(0), is_behind=F.lit(False)", new="is_behind=F.lit(False)", tests=_OUTBOX_AGAIN),
    Mutant(name="what a consumer received is lost again", path=_OUTBOX_VERDICTS,
           old='F.col("again").isin(*_AGAIN)', new="F.lit(True)", tests=_OUTBOX_AGAIN),
    Mutant(name="a queue that was not read has lost all", path=_OUTBOX_VERDICTS,
           old='F.col("known_end").isNull() | F.col("end").isNull(), _NOT_READ',
           new='F.col("known_end").isNull() | F.col("end").isNull(), _GONE', tests=_OUTBOX_PLACES),
    Mutant(name="what retention removed is lost", path=_OUTBOX_VERDICTS, old='.when(at < F.col("begin"), _NOT_KEPT)',
           new="", tests=_OUTBOX_PLACES),
    Mutant(name="what came while the log was read is lost", path=_OUTBOX_VERDICTS,
           old='            .when(at >= F.col("known_end"), _SINCE)\n', new="", tests=_OUTBOX_SINCE),
    Mutant(name="what was committed while the log was read is unmade", path=_OUTBOX_FACTS,
           old='F.coalesce(F.col("queue_offset") < F.col("known_end"), F.lit(False))', new="F.lit(True)",
           tests=_OUTBOX_SINCE),
    Mutant(name="a message whose stub was removed is unmade", path=_OUTBOX_FACTS,
           old=" & (stored >= kept_since_ms)", new="", tests=_OUTBOX_KEPT),
    Mutant(name="any broker knows of a stub without a place", path=_OUTBOX_VERDICTS,
           old="F.lit(False) if limits.log_since_ms is None else F.coalesce(", new="F.coalesce(F.lit(True),",
           tests=_OUTBOX_NOWHERE),
    Mutant(name="a stub without a place is lost by files alone", path=_OUTBOX_JOB,
           old='is_whole = bool(request.brokers) and row["nowhere"] > 0', new="is_whole = True", tests=_OUTBOX_BROKERS),
    Mutant(name="an effect that is told is lost", path=_OUTBOX_VERDICTS,
           old='F.coalesce((F.size("told_groups") > 0) & are_told, F.lit(False))', new="F.lit(False)",
           tests=_OUTBOX_TOLD),
    Mutant(name="Spark takes one group that has passed for all", path=_OUTBOX_FACTS,
           old="(~has_passed | F.coalesce(lags, no))", new="(~has_passed)", tests=_OUTBOX_ALIKE),
    Mutant(name="Spark waits for a group that is done", path=_OUTBOX_FACTS,
           old='F.array_max(F.transform(held,', new='F.array_max(F.transform("receipts",', tests=_OUTBOX_ALIKE),
    Mutant(name="Spark does not see that a group never began", path=_OUTBOX_FACTS,
           old="F.when(F.coalesce(never_began, no)", new="F.when(no", tests=_OUTBOX_ALIKE),
    Mutant(name="a run has no cap", path=_OUTBOX_JOB, old="wanted = min(cap, report.lost_again)",
           new="wanted = report.lost_again", tests=_OUTBOX_SENT),
    Mutant(name="a job writes all in one transaction", path=_OUTBOX_JOB, old="key=lambda each: each[0])",
           new="key=lambda each: 0)", tests=_OUTBOX_KILLED),
    Mutant(name="rows of a topic that nobody asked for belong to nothing", path=_OUTBOX_JOB,
           old="    stubs = database.read(spark, tables.stubs, _STUB_COLUMNS)\n",
           new="    stubs = database.read(spark, tables.stubs, _STUB_COLUMNS).where(F.col('topic').isin('orders'))\n",
           tests=(_OUTBOX_TESTS + "test_what_nobody_committed_and_what_belongs_to_nothing_is_named",)),
]
