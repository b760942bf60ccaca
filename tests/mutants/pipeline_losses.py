"""Faults of what the pipeline says of losses: at beginnings and ends, in archives, between a plan and its reads."""

from tests.mutants import Mutant

_ENDS = "regulus/spark/store_ends.py"
_ENDS_TESTS = "tests/unit/spark/test_store_ends.py::"
_BEFORE = (_ENDS_TESTS + "test_what_a_closed_store_lost_before_a_queue_is_told_and_counted",)
_AUDIT_TESTS = "tests/unit/pipeline/test_audit.py::"
_ARCHIVE_TESTS = "tests/unit/pipeline/test_archive.py::"
_FILES_TESTS = "tests/unit/pipeline/test_archive_files.py::"
_COMPACT_TESTS = "tests/unit/pipeline/test_archive_compact.py::"
_ROTTEN = (_COMPACT_TESTS + "test_bytes_that_rotted_get_no_checksum_that_agrees_with_them",)

MUTANTS = [
    Mutant(name="a moment is taken by way of seconds in floating point", path="regulus/model/timestamps.py",
           old="    return (moment - _EPOCH) // _MS", new="    return int((moment - _EPOCH).total_seconds() * 1000)",
           tests=("tests/unit/model/test_timestamps.py", "tests/unit/spark/test_push_down.py")),
    Mutant(name="compaction puts rotten rows together", path="regulus/pipeline/archive_compact.py",
           old="        _check_file(archive, file)\n", new="", tests=_ROTTEN),
    Mutant(name="compaction puts rotten rejects together", path="regulus/pipeline/archive_compact.py",
           old="            _check_file(Path(task.archive), source)\n", new="", tests=_ROTTEN),
    Mutant(name="what a queue lacks at its beginning is passed over", path=_ENDS,
           old="        if record is not None and record.physical_offset < place:", new="        if False:",
           tests=_BEFORE),
    Mutant(name="a log from its first byte on proves nothing", path=_ENDS,
           old="        if begin == 0 and not queue.begins_with_filler():", new="        if False:",
           tests=(_ENDS_TESTS + "test_a_log_from_its_first_message_on_has_what_a_queue_lacks",)),
    Mutant(name="a queue that its broker began later lacks messages", path=_ENDS,
           old="        if begin == 0 and not queue.begins_with_filler():", new="        if begin == 0:",
           tests=(_ENDS_TESTS + "test_a_log_from_its_first_message_on_has_what_a_queue_lacks",)),
    Mutant(name="a log file that could not be deleted is a part of the log", path=_ENDS,
           old="            return max(pieces[0].start, self._table.log_start)",
           new="            return pieces[0].start",
           tests=(_ENDS_TESTS + "test_a_log_file_that_retention_could_not_delete_is_no_part_of_the_log",)),
    Mutant(name="the first of several log files of RocketMQ proves something", path=_ENDS,
           old="        return pieces[1].start if len(pieces) > 1 else pieces[0].start",
           new="        return pieces[0].start", tests=_BEFORE),
    Mutant(name="a former topic's first number is that of the new one", path=_ENDS,
           old="            first = record.queue_offset if self._is_of_this_topic(queue, record) else 0",
           new="            first = record.queue_offset",
           tests=(_ENDS_TESTS + "test_a_topic_made_anew_begins_behind_the_former_one",)),
    Mutant(name="a copy of a running broker lost what its queues begin behind", path=_ENDS,
           old="        return Missing(first, low, cause, self.left is Left.CLOSED) if first < low else None",
           new="        return Missing(first, low, cause, True) if first < low else None",
           tests=(_ENDS_TESTS + "test_a_copy_of_a_running_broker_may_have_queues_that_begin_later_than_its_log",)),
    Mutant(name="a read from the beginning is silent about what is lost before it",
           path="regulus/spark/read_bounds.py", old="    return [] if lost is None else [lost]", new="    return []",
           tests=_BEFORE),
    Mutant(name="a read from behind the beginning fails for what is lost before it",
           path="regulus/spark/read_bounds.py",
           old="    lost = state.gap_before(queue) if start == state.low else None",
           new="    lost = state.gap_before(queue)",
           tests=(_ENDS_TESTS + "test_what_is_read_from_behind_the_beginning_misses_nothing_before_it",)),
    Mutant(name="the audit does not count what is lost before a queue", path="regulus/pipeline/audit.py",
           old='"missing_before + missing_behind AS missing"', new='"missing_behind AS missing"',
           tests=("tests/unit/pipeline/test_audit.py::test_what_is_lost_before_a_queue_fails_the_audit",)),
    Mutant(name="files whose manifests are lost are what a killed run left", path="regulus/pipeline/archive_files.py",
           old="    _check_leftovers(archive, unnamed)\n", new="",
           tests=(_FILES_TESTS + "test_files_whose_manifests_are_lost_are_kept",)),
    Mutant(name="what a killed expiry left is a lost manifest's", path="regulus/pipeline/archive_files.py",
           old="or (parts and end <= parts[0].start):", new="or False:",
           tests=(_FILES_TESTS + "test_what_a_killed_job_left_is_swept_wherever_it_was_killed",)),
    Mutant(name="a replay takes what it sent for the past", path="regulus/pipeline/replay.py",
           old="        return self.into is None or self.into in self.topics", new="        return False",
           tests=("tests/unit/pipeline/test_replay.py::test_a_replay_does_not_replay_what_it_sent",)),
    Mutant(name="a queue whose broker goes while the audit reads is not asked for", path="regulus/pipeline/audit.py",
           old='.join(begins, queue, "left")', new=".join(begins, queue)",
           tests=(_AUDIT_TESTS + "test_a_queue_whose_broker_goes_while_the_audit_reads_is_missed",)),
    Mutant(name="the last range alone tells whose log it is", path="regulus/pipeline/archive_check.py",
           old="for manifest in reversed(manifests) if manifest.rows), None)",
           new="for manifest in manifests[-1:]), None)",
           tests=(_ARCHIVE_TESTS + "test_another_store_is_refused_where_the_last_range_has_no_row",)),
    Mutant(name="a tag that brokers divide narrows a read", path="regulus/spark/push_down.py",
           old="if found and all(map(_is_one_tag, found)):", new="if found:",
           tests=("tests/unit/spark/test_push_down.py",)),
    Mutant(name="a damaged record ends the table of queues", path="regulus/spark/small_tables.py",
           old="        except (RecordError, DataLoss):", new="        except DataLoss:",
           tests=("tests/unit/spark/test_small_tables.py",)),
]
