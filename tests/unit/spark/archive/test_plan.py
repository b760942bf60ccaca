"""What an archive has of each queue, and what it lacks, as its manifests say."""

from dataclasses import replace

from regulus.model.message_queue import MessageQueue
from regulus.spark.archive.manifest import ArchivedFile, Manifest, QueueFacts, Range, Stretch
from regulus.spark.archive.plan import LostEnds, QueueBounds, bounds, ends, lost, lost_ends
from regulus.spark.task_parts import FOREVER, Wanted
from tests.archives import archive_store
from tests.unit.spark.conftest import order

QUEUE = MessageQueue("t", "b", 0)


def stretch(numbers):
    """Of the offsets, and `"rejected"` for messages that the archive has not."""
    first, behind, *rejected = numbers
    return Stretch(first, behind, 0, bool(rejected))


def manifest_of(start, *stretches, size=10, times=None):
    """Of a range of the log with stretches of one queue; `times` are those of the first and the last message."""
    files = ()
    if times is not None:
        facts = QueueFacts(min(each[0] for each in stretches), max(each[1] for each in stretches), 1, *times)
        files = (ArchivedFile(path="", topic="t", day="", rows=1, size=1, sha256="", log_bytes=1, queues={0: facts}),)
    return Manifest(range=Range("b", start, start + size), records=0, rows=0, hidden=0, rejected=0,
                    queues={("t", 0): tuple(map(stretch, stretches))}, files=files)


def test_where_queues_begin_and_end(make_store, tmp_path):
    messages = [order(number) for number in range(40)] + [order(number, topic="%RETRY%g") for number in range(10)]
    archive_store(make_store(messages), tmp_path / "archive", range_size=1024)
    assert ends(str(tmp_path / "archive")) == {
        MessageQueue("orders", "broker-a", 0): 20, MessageQueue("orders", "broker-a", 1): 20,
        MessageQueue("%RETRY%g", "broker-a", 0): 5, MessageQueue("%RETRY%g", "broker-a", 1): 5}


def test_a_topic_made_anew_begins_behind_its_last_restart():
    of = manifest_of
    assert bounds([of(0, (3, 9)), of(10, (9, 12)), of(20, (0, 4)), of(30, (4, 6))]) == {
        QUEUE: QueueBounds(0, 6, 20, epoch=20)}
    assert bounds([of(0, (3, 9)), of(10, (9, 12), (0, 4)), of(20, (4, 6))]) == {
        QUEUE: QueueBounds(0, 6, 10, is_mixed=True, epoch=10)}
    assert bounds([of(0, (3, 9), (10, 12)), of(10, (15, 20))]) == {QUEUE: QueueBounds(3, 20)}


def test_all_queues_of_a_topic_have_one_epoch():
    """Whenever each of them had its first message after the topic was made anew."""
    def of(start, **stretches):
        return replace(manifest_of(start), queues={
            ("t", int(name[1:])): (stretch(each),) for name, each in stretches.items()})

    def epochs(*manifests):
        return [(each.epoch, each.is_past) for _, each in sorted(bounds(manifests).items())]

    old, first, second = of(0, q0=(0, 5), q1=(0, 5)), of(10, q0=(0, 3)), of(20, q0=(3, 6), q1=(0, 2), q2=(0, 1))
    assert epochs(old, first) == [(10, False), (10, True)]
    assert epochs(old, first, second) == [(10, False)] * 3
    assert bounds([old, first, second])[MessageQueue("t", "b", 1)] == QueueBounds(0, 2, 20, epoch=10)
    again = of(30, q1=(0, 1))
    assert epochs(old, first, second, again) == [(30, True), (30, False), (30, True)]


def test_when_the_last_message_was_stored():
    of = manifest_of
    assert bounds([of(0, (0, 4), times=(100, 300)), of(10, (4, 6), times=(200, 250))])[QUEUE].time_last == 300
    assert bounds([of(0, (0, 4), times=(100, 300)), of(10, (0, 6), times=(200, 250))])[QUEUE].time_last == 250


def holes(manifests, **window):
    wanted = {QUEUE: Wanted(0, **{"start": 0, "end": FOREVER, **window})}
    return [(gap.start, gap.end) for gap in lost(manifests, wanted)]


def test_holes_between_stretches_are_lost_where_they_are_wanted():
    archived = [manifest_of(0, (3, 9), (10, 12)), manifest_of(10, (15, 20)), manifest_of(30, (25, 30))]
    assert holes(archived) == [(9, 10), (12, 15), (20, 25)]
    assert holes(archived, start=13, end=22) == [(13, 15), (20, 22)]
    assert holes(archived, start=15, end=20) == []
    causes = [gap.cause for gap in lost(archived, {QUEUE: Wanted(0, 0, FOREVER)})]
    assert ["_rejects" in cause for cause in causes] == [True, True, False]
    assert "left the log before they were archived" in causes[2]


def test_a_topic_made_anew_is_no_hole():
    archived = [manifest_of(0, (0, 9)), manifest_of(10, (9, 12), (0, 4)), manifest_of(20, (1, 2), (3, 6))]
    assert holes(archived) == [(2, 3)]
    assert holes([manifest_of(0, (0, 2), (5, 9)), manifest_of(10, (0, 4), (4, 9))], log_start=10) == []


def test_a_hole_of_another_time_is_not_wanted():
    archived = [manifest_of(0, (0, 4), times=(100, 200)), manifest_of(10, (5, 9), times=(300, 400))]
    assert holes(archived, time_start=401) == []
    assert holes(archived, time_end=100) == []
    assert holes(archived, time_start=250, time_end=260) == [(4, 5)]


R = "rejected"


def test_rejected_messages_are_lost_at_the_ends_too():
    archived = [manifest_of(0, (3, 5, R), (5, 9)), manifest_of(10, (9, 10, R)), manifest_of(20, (10, 12), (12, 13, R))]
    assert bounds(archived) == {QUEUE: QueueBounds(3, 13)}
    assert holes(archived) == [(3, 5), (9, 10), (12, 13)]
    assert holes(archived, start=4, end=12) == [(4, 5), (9, 10)]
    assert holes([manifest_of(0, (0, 2, R))]) == [(0, 2)]
    assert lost_ends(archived) == [(QUEUE, LostEnds(2, 1))]
    assert lost_ends([manifest_of(0, (0, 2, R))]) == [(QUEUE, LostEnds(0, 2))]
    assert lost_ends([manifest_of(0, (0, 2), (2, 3, R), (3, 4))]) == []


def test_each_topic_of_a_name_has_ends_of_its_own():
    archived = [manifest_of(0, (0, 9), (9, 10, R)), manifest_of(10, (0, 1, R), (1, 4))]
    assert holes(archived) == [(9, 10), (0, 1)]
    assert lost_ends(archived) == [(QUEUE, LostEnds(0, 1)), (QUEUE, LostEnds(1, 0))]


def test_a_rejected_message_is_of_a_time_between_its_ranges():
    archived = [manifest_of(0, (0, 4), times=(100, 200)), manifest_of(10, (4, 5, R)),
                manifest_of(20, (5, 9), times=(300, 400))]
    assert holes(archived, time_start=301) == holes(archived, time_end=200) == []
    assert holes(archived, time_start=250, time_end=260) == holes(archived, time_end=201) == [(4, 5)]
    assert holes(archived[:2], time_start=9_999) == [(4, 5)]
