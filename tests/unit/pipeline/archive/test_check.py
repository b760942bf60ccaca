import pytest

from regulus.errors import ArchiveFailed
from regulus.pipeline.archive.check import QueueEnds, check_contiguity, check_joins, ends_of, holes, settled, without
from regulus.pipeline.archive.task import RangeFacts
from regulus.spark.archive.manifest import Manifest, Range, Stretch
from regulus.spark.store.files import CommitLogFiles


def placed(queues):
    """With places in the log by the order of the stretches; `"rejected"` as the third value marks a reject."""
    return {key: tuple(Stretch(each[0], each[1], 10 * number, len(each) > 2) for number, each in enumerate(stretches))
            for key, stretches in (queues or {}).items()}


def facts(start=0, end=100, reached=None, queues=None, rejected=0) -> RangeFacts:
    return RangeFacts(range=Range("b", start, end), reached=end if reached is None else reached, records=0, hidden=0,
                      rejected=rejected, unreadable=(), queues=placed(queues), files=(),
                      staged=(), rejects=None, staged_rejects="")


def test_ranges_must_join_up():
    check_joins([facts(0, 100), facts(100, 200)], 0)
    with pytest.raises(ArchiveFailed, match="should join up at 100"):
        check_joins([facts(0, 100), facts(150, 200)], 0)
    with pytest.raises(ArchiveFailed, match="was read from 0 to 120"):
        check_joins([facts(0, 100, reached=120)], 0)


def manifest(queues, start=0, unreadable=0) -> Manifest:
    return Manifest(range=Range("b", start, start + 10), records=0, rows=0, hidden=0, rejected=unreadable,
                    queues=placed(queues), files=(), unreadable=unreadable)


KEY = ("t", 0)


def holes_behind(end: int, *stretches: tuple[int, int]):
    return holes(facts(queues={KEY: stretches}), QueueEnds([manifest({KEY: ((0, end),)})], None))


def test_queues_go_on_where_the_manifest_before_ends():
    assert holes_behind(5, (5, 9)) == []
    assert holes_behind(5, (6, 9)) == [("t", 0, 5, 6)]
    assert holes_behind(5, (3, 9)) == [("t", 0, 3, 5)]
    assert holes_behind(5, (5, 7), (9, 12)) == [("t", 0, 7, 9)]
    assert holes_behind(5, (5, 7), (0, 3)) == []


R = "rejected"


def test_rejects_explain_a_hole_when_they_are_all_of_it(store):
    before, log = QueueEnds([manifest({KEY: ((0, 5),)})], None), CommitLogFiles(store / "commitlog")
    check_contiguity(facts(queues={KEY: ((5, 6, R), (6, 7, R), (7, 9))}), before, {}, log)
    with pytest.raises(ArchiveFailed, match="t/0: messages 5 to 5 are not in the log"):
        check_contiguity(facts(queues={KEY: ((6, 7, R), (7, 9))}, rejected=1), before, {}, log)


@pytest.mark.parametrize(("found", "kept", "unreadable"), [
    ([(5, 6, R), (6, 9)], [(5, 6), (6, 9)], 0),
    ([(5, 6, R), (6, 7, R)], [(5, 7)], 0),
    ([(5, 9), (0, 1, R), (1, 4)], [(5, 9), (0, 1), (1, 4)], 0),
    ([(7, 8, R), (8, 9)], [(7, 8), (8, 9)], 0),
    ([(7, 8, R), (9, 10)], [(9, 10)], 1),
    ([(5, 9), (1 << 60, (1 << 60) + 1, R)], [(5, 9)], 1),
])
def test_a_reject_counts_where_the_records_around_it_agree(found, kept, unreadable):
    before = QueueEnds([manifest({KEY: ((0, 5),)})], None)
    told = settled(facts(queues={KEY: found}, rejected=1), before, {})
    assert [each[:2] for each in told.queues[KEY]] == kept
    assert len(told.unreadable) == told.unplaced == unreadable


def test_a_queue_that_was_not_seen_before_begins_anywhere_or_where_it_must():
    assert holes(facts(queues={KEY: ((5, 9),)}), QueueEnds([], None)) == []
    assert holes(facts(queues={KEY: ((5, 9),)}), QueueEnds([], 0)) == [("t", 0, 0, 5)]


def test_where_queues_end():
    ends = QueueEnds([manifest({KEY: ((0, 5),), ("u", 1): ((3, 4),)}), manifest({KEY: ((5, 6), (0, 2))})], None)
    assert (ends.expected(KEY), ends.expected(("u", 1)), ends.expected(("v", 0))) == (2, 4, None)
    ends.pass_range(facts(queues={KEY: ((2, 5),)}))
    assert ends.expected(KEY) == 5
    assert ends_of(placed({KEY: ((0, 5), (5, 6, R), (6, 7, R)), ("u", 0): ((9, 10, R), (0, 1, R))})) == {
        KEY: 7, ("u", 0): 1}


def test_what_could_not_be_read_explains_holes_until_the_queue_is_seen_again():
    ends = QueueEnds([manifest({KEY: ((0, 5),)}), manifest({}, start=10, unreadable=1),
                      manifest({("u", 0): ((0, 1),)}, start=20)], None)
    assert ends.may_be_unreadable(KEY)
    assert not ends.may_be_unreadable(("u", 0))
    ends.pass_range(facts(start=30, queues={KEY: ((7, 9),)}))
    assert not ends.may_be_unreadable(KEY)


def test_what_is_left_of_a_range():
    assert without((0, 10), []) == [(0, 10)]
    assert without((0, 10), [(2, 3), (5, 20)]) == [(0, 2), (3, 5)]
    assert without((0, 10), [(0, 10)]) == []
    assert without((5, 10), [(0, 5), (10, 12)]) == [(5, 10)]
