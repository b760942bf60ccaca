"""Faults of how Spark looks at a store, and of what is told: little memory, ends that disagree, archives, pages."""

from tests.mutants import Mutant

_FILES = "regulus/spark/store_files.py"
_SCAN = "regulus/spark/store_scan.py"
_MEMORY_TESTS = ("tests/unit/spark/test_worker_memory.py",)
_SCAN_TESTS = "tests/unit/spark/test_store_scan.py::"
_ENDS = "regulus/spark/store_ends.py"
_ENDS_TESTS = "tests/unit/spark/test_store_ends.py::"
_LOST = (_ENDS_TESTS + "test_what_a_closed_store_lost_at_an_end_is_told_and_counted",)
_OPEN = (_ENDS_TESTS + "test_a_store_that_was_copied_from_a_running_broker_is_told_of_and_read",)
_AHEAD = (_ENDS_TESTS + "test_a_checkpoint_that_is_ahead_of_the_log_is_a_loss_of_a_closed_store",)
_ANEW = (_ENDS_TESTS + "test_a_topic_that_was_made_anew_does_not_miss_the_messages_of_the_former_one",)
_BORDERS = (_SCAN_TESTS + "test_records_are_read_over_the_borders_of_what_is_mapped",)

MUTANTS = [
    Mutant(name="all of a log file is mapped", path=_FILES,
           old="end = min(piece.size, max(start + WINDOW_BYTES, within + size))",
           new="end = piece.size", tests=_MEMORY_TESTS),
    Mutant(name="a record that lies across two windows is read in the first", path=_SCAN,
           old="end = row + 1 + int(are_cut[0]) if len(are_cut) else begin_there", new="end = begin_there",
           tests=_BORDERS),
    Mutant(name="a record that is larger than a window is cut short", path=_FILES,
           old="return self.window(physical_offset, size)", new="return self.window(physical_offset)",
           tests=_BORDERS),
    Mutant(name="what cannot be mapped is an error of the system", path=_FILES,
           old="        if error.errno == errno.ENOMEM:", new="        if False:", tests=_MEMORY_TESTS),
    Mutant(name="units without records are leftovers", path=_ENDS,
           old="            if not self._is_lost(tail, unit.physical_offset, unit.size):", new="            if True:",
           tests=_LOST),
    Mutant(name="leftovers of a cut queue are lost messages", path=_ENDS,
           old="            return not tail.has_record_over(place)", new="            return True",
           tests=(_ENDS_TESTS + "test_leftovers_of_a_queue_that_was_cut_are_no_messages",)),
    Mutant(name="records without units are nobody's", path=_ENDS,
           old="        if last is None or last.queue_offset < end or", new="        if True or last is None or",
           tests=_LOST),
    Mutant(name="a rotten record between others is passed over", path=_ENDS,
           old="            self.bad.append((self._doubtful,", new="            list((self._doubtful,", tests=_LOST),
    Mutant(name="a queue whose folder is gone is not asked for", path="regulus/spark/store_plan.py",
           old="        return there | {queue_id", new="        return there or {queue_id", tests=_LOST),
    Mutant(name="a batch ends in silence before what is lost", path="regulus/spark/read_bounds.py",
           old="            gaps.append(lost)", new="            pass", tests=_LOST),
    Mutant(name="a stream goes on in silence before what is lost", path="regulus/spark/stream_planner.py",
           old="            raise data_loss(lost)", new="            return",
           tests=(_ENDS_TESTS + "test_a_stream_that_has_read_all_fails_for_what_is_lost_behind_it",)),
    Mutant(name="a stream has no row for what is lost at an end", path="regulus/spark/stream_planner.py",
           old="                gaps.append(lost)", new="                pass", tests=_LOST),
    Mutant(name="what a running broker's copy is ahead by is lost", path=_ENDS,
           old="not (store.path / \"abort\").exists()", new="True", tests=_OPEN),
    Mutant(name="a copy without its root is a closed store", path=_ENDS,
           old="(store.path / \"checkpoint\").exists() and not", new="not",
           tests=(_ENDS_TESTS + "test_a_copy_without_the_files_of_the_root_may_be_of_a_running_broker",)),
    Mutant(name="a checkpoint ahead of the log is believed", path=_ENDS,
           old="        if synced <= self._tail.last_timestamp:", new="        if True:", tests=_AHEAD),
    Mutant(name="a former topic's messages are missed", path=_ENDS,
           old="        return first is not None and first < record.physical_offset",
           new="        return first is None or first < record.physical_offset", tests=_ANEW),
    Mutant(name="a store is compared while a broker writes it", path=_ENDS,
           old="    if is_in_use(str(store.path)):", new="    if False:",
           tests=(_ENDS_TESTS + "test_a_store_that_a_broker_writes_is_not_compared",)),
    Mutant(name="the audit passes over lost ends", path="regulus/pipeline/audit.py",
           old='holds="NOT is_lost"', new='holds="true"',
           tests=("tests/unit/pipeline/test_audit.py::test_what_is_lost_at_the_end_of_a_queue_fails_the_audit",)),
    Mutant(name="an archive does not say what lies behind its log", path="regulus/pipeline/archive.py",
           old="            self.report.units_behind = sum(", new="            sum(",
           tests=("tests/unit/pipeline/test_archive.py::test_units_that_point_behind_the_end_of_the_log_are_told",)),
    Mutant(name="a hole of the log is told by its outer ends", path=_FILES,
           old="        if not 0 <= index < len(self.pieces) - 1:", new="        if True:",
           tests=("tests/unit/spark/test_store_files.py::test_a_gap_between_files_is_damage_unless_the_rest_is_wanted",)),
    Mutant(name="a condition knows the shown columns alone", path="regulus/cli/spark.py",
           old="    return [name for name in COLUMNS if name in words]", new="    return []",
           tests=("tests/unit/cli/test_spark.py::test_a_condition_may_speak_of_columns_that_are_not_shown",)),
    Mutant(name="the folder's key is a column of the files", path="regulus/spark/archive_manifest.py",
           old='return f"{MESSAGES}/dt={day}/', new='return f"{MESSAGES}/topic={quote(topic)}/',
           tests=("tests/unit/pipeline/test_archive_layout.py",)),
    Mutant(name="a file begins with its topic", path="regulus/spark/archive_manifest.py",
           old="{part.text}@{_name_part(part.broker_name)}@{_name_part(topic)}",
           new="{_name_part(topic)}@{_name_part(part.broker_name)}@{part.text}",
           tests=("tests/unit/pipeline/test_archive_layout.py::test_pandas",)),
    Mutant(name="long names are as long as they are", path="regulus/spark/archive_manifest.py",
           old="    if len(quoted) <= NAME_PART_MAX:", new="    if True:",
           tests=("tests/unit/spark/test_archive_manifest.py",)),
    Mutant(name="a balanced ledger says that all has ended", path="regulus/pipeline/report_page.py",
           old="if waiting or behind else", new="if waiting else",
           tests=("tests/unit/pipeline/test_report_page.py::test_the_headline_is_true_of_the_tables_below_it",)),
    Mutant(name="the ladder takes copies from keys", path="regulus/pipeline/report_page.py",
           old="max(0, sent - failed)", new="sent - failed",
           tests=("tests/unit/pipeline/test_report_page.py",)),
    Mutant(name="the copies of dead keys are not told", path="regulus/pipeline/report_page.py",
           old='if totals["dead_again"] else ""', new='if False else ""',
           tests=("tests/unit/pipeline/test_report_page.py",)),
]
