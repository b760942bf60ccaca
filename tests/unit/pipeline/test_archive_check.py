import pytest

from regulus.errors import ArchiveFailed
from regulus.pipeline.archive_check import check_joins, ends_after, ends_of, holes, without
from regulus.pipeline.archive_task import RangeFacts
from regulus.spark.archive_manifest import Manifest, Range


def facts(start=0, end=100, reached=None, queues=None, rejected=None) -> RangeFacts:
    return RangeFacts(range=Range("b", start, end), reached=end if reached is None else reached, records=0, hidden=0,
                      rejected=0, unreadable=(), queues=queues or {}, rejected_offsets=rejected or {}, files=(),
                      staged=(), rejects=None, staged_rejects="")


def test_ranges_must_join_up():
    check_joins([facts(0, 100), facts(100, 200)], 0)
    with pytest.raises(ArchiveFailed, match="should join up at 100"):
        check_joins([facts(0, 100), facts(150, 200)], 0)
    with pytest.raises(ArchiveFailed, match="was read from 0 to 120"):
        check_joins([facts(0, 100, reached=120)], 0)


def test_queues_go_on_where_the_manifest_before_ends():
    key = ("t", 0)
    assert holes(facts(queues={key: ((5, 9),)}), {key: 5}, None) == []
    assert holes(facts(queues={key: ((6, 9),)}), {key: 5}, None) == [("t", 0, 5, 6)]
    assert holes(facts(queues={key: ((3, 9),)}), {key: 5}, None) == [("t", 0, 3, 5)]
    assert holes(facts(queues={key: ((5, 7), (9, 12))}), {key: 5}, None) == [("t", 0, 7, 9)]
    assert holes(facts(queues={key: ((5, 7), (0, 3))}), {key: 5}, None) == []


def test_a_queue_that_was_not_seen_before_begins_anywhere_or_where_it_must():
    key = ("t", 0)
    assert holes(facts(queues={key: ((5, 9),)}), {}, None) == []
    assert holes(facts(queues={key: ((5, 9),)}), {}, 0) == [("t", 0, 0, 5)]


def test_where_queues_end():
    def manifest(queues):
        return Manifest(range=Range("b", 0, 1), records=0, rows=0, hidden=0, rejected=0, queues=queues, files=())

    assert ends_of([manifest({("t", 0): ((0, 5),), ("u", 1): ((3, 4),)}), manifest({("t", 0): ((5, 6), (0, 2))})]) == {
        ("t", 0): 2, ("u", 1): 4}
    assert ends_after(facts(queues={("t", 0): ((0, 5),)}, rejected={("t", 0): (5, 6), ("u", 0): (0,)})) == {
        ("t", 0): 7, ("u", 0): 1}


def test_what_is_left_of_a_range():
    assert without((0, 10), []) == [(0, 10)]
    assert without((0, 10), [(2, 3), (5, 20)]) == [(0, 2), (3, 5)]
    assert without((0, 10), [(0, 10)]) == []
    assert without((5, 10), [(0, 5), (10, 12)]) == [(5, 10)]
