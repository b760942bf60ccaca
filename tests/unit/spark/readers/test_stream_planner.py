"""What a stream reads next, of a place whose queues a test moves; no Spark, no clock."""

import json

import pytest

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.marks import Mark
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import QueueState
from regulus.spark.read_plan import Missing, ReadRange
from regulus.spark.readers.stream_planner import StreamPlanner

Q0, Q1, Q2 = (MessageQueue("orders", "b", number) for number in range(3))


class Queues:
    """A place as the test says; one task reads all."""

    def __init__(self, **states):
        self.table = {Q0: QueueState(0, 10, 7), Q1: QueueState(5, 20, 7)}
        self.groups = {}
        self.size = 100.0
        self.written = {}

    def queues(self):
        return sorted(self.table)

    def states(self, queues):
        return {queue: self.table[queue] for queue in queues}

    def group_offsets(self, queues):
        return {queue: self.groups.get(queue) for queue in queues}

    def marks(self, offsets):
        found = {}
        for queue, offset in offsets.items():
            if self.table[queue].low <= offset < self.table[queue].high:
                found[queue] = self.written.get((queue, offset), Mark(5_000, f"{queue.queue_id}-{offset}"))
        return found

    def offsets_at(self, times):
        """Only what was written anew is later."""
        return {queue: min((offset for (other, offset), mark in self.written.items()
                            if other == queue and mark.store_time >= time), default=self.table[queue].high)
                for queue, time in times.items()}

    def write_anew(self, queue, first, high):
        """The queue was cut at `first`, and has messages up to `high` again."""
        self.written = {(queue, offset): Mark(9_000, f"new-{offset}") for offset in range(first, high)}
        self.table[queue] = self.table[queue]._replace(high=high)

    def record_sizes(self, ranges):
        return [self.size] * len(ranges)

    def partitions(self, ranges, gaps, *, cores, sizes):
        assert cores is None
        self.divided_by = sizes
        return [ReadRange(tuple(ranges), tuple(gaps))]


class Rig:
    """A planner with a place and a clock that stands still."""

    def __init__(self, place=None, **options):
        self.place = place or Queues()
        self.seconds = 100.0
        read = parse_options({"nameServer": "a:1", "topic": "orders", **options}, streaming=True)
        self.planner = StreamPlanner(read, self.place, lambda: self.seconds, lambda: 65_000, self.pause)

    def pause(self, seconds):
        self.seconds += seconds

    def latest(self, start, *, is_limited=True):
        return self.planner.latest(json.loads(json.dumps(start)), is_limited=is_limited)

    def ranges(self, start, end):
        return [(unit.queue_id, unit.start, unit.end) for part in self.planner.partitions(start, end)
                for unit in part.units]

    def gaps(self, start, end):
        return [(gap.queue.queue_id, gap.start, gap.end) for part in self.planner.partitions(start, end)
                for gap in part.gaps]


def positions(offset):
    return [number for queues in offset["topics"]["orders"]["queues"].values() for number in queues.values()]


def test_a_stream_starts_at_the_end_and_reads_what_comes():
    rig = Rig()
    start = rig.planner.initial()
    assert json.dumps(start, separators=(",", ":")) == (
        '{"v":1,"topics":{"orders":{"epoch":{"b":7},"queues":{"b":{"0":10,"1":20}},'
        '"last":{"b":{"0":[5000,"0-9"],"1":[5000,"1-19"]}}}},"initial":true}')
    start = rig.latest(start)
    assert positions(start) == [10, 20]
    assert rig.latest(start) == start
    rig.place.table[Q1] = QueueState(5, 22, 7)
    end = rig.latest(start)
    assert positions(end) == [10, 22]
    assert rig.ranges(start, end) == [(1, 20, 22)]
    assert rig.planner.partitions(end, end) == []


def test_the_first_batch_begins_where_it_was_planned_to_however_often_the_start_is_asked():
    rig = Rig()
    start = rig.planner.initial()
    rig.place.table[Q0] = QueueState(0, 15, 7)
    assert rig.planner.initial() == start
    end = rig.latest(start)
    assert rig.ranges(start, end) == [(0, 10, 15)]
    restarted = Rig(rig.place)
    rig.place.table[Q0] = QueueState(0, 99, 7)
    again = restarted.planner.initial()
    assert positions(again) == [99, 20]
    assert restarted.ranges(again, end) == [(0, 10, 15)]
    then = restarted.latest(end)
    assert "began" not in then
    assert restarted.ranges(end, then) == [(0, 15, 99)]


@pytest.mark.parametrize("is_limited", [True, False])
def test_a_batch_is_divided_by_the_sizes_of_when_it_was_planned(is_limited):
    rig = Rig(startingOffsets='{"orders":{"0":4,"1":20}}')
    start = rig.planner.initial()
    rig.place.size = 120.4
    end = rig.latest(start, is_limited=is_limited)
    rig.place.size = 5000.0
    restarted = Rig(rig.place)
    assert restarted.ranges(start, end) == [(0, 4, 10)]
    assert rig.place.divided_by == {Q0: 120}
    rig.place.table[Q1] = QueueState(5, 22, 7)
    then = restarted.latest(end)
    assert restarted.ranges(end, then) == [(1, 20, 22)]
    assert rig.place.divided_by == {Q1: 5000}


def test_a_batch_of_a_version_that_kept_no_sizes_is_divided_by_those_of_now():
    rig = Rig(startingOffsets="earliest")
    start = rig.planner.initial()
    end = rig.latest(start)
    del end["topics"]["orders"]["bytes"]
    assert rig.ranges(start, end) == [(0, 0, 10), (1, 5, 20)]
    assert rig.place.divided_by is None


def test_a_first_batch_of_nothing_stays_one_of_nothing():
    rig = Rig()
    end = rig.latest(rig.planner.initial())
    rig.place.table[Q0] = QueueState(0, 15, 7)
    restarted = Rig(rig.place)
    assert restarted.planner.partitions(restarted.planner.initial(), end) == []
    assert restarted.ranges(end, restarted.latest(end)) == [(0, 10, 15)]


def test_a_stream_starts_where_the_group_is():
    place = Queues()
    place.groups = {Q0: 4}
    assert positions(Rig(place, consumerGroup="billing").planner.initial()) == [4, 20]


def test_progress_under_keys_that_nobody_else_finds_is_refused():
    keys = {"accessKey": "reader", "secretKey": "hunter2"}
    with pytest.raises(OptionError, match="give option 'credentials', env:NAME") as raised:
        Rig(consumerGroup="billing", **keys)
    assert "hunter2" not in str(raised.value)
    assert positions(Rig(**keys).planner.initial()) == [10, 20]
    place = "file:/etc/rocketmq/keys"
    rig = Rig(startingOffsets="earliest", consumerGroup="billing", credentials=place)
    rig.planner.initial()
    assert rig.planner.report()["lag"]["read"] == {
        "nameServer": "a:1", "consumerGroup": "billing", "credentials": place}


def test_both_limits_hold():
    rig = Rig(startingOffsets="earliest", maxOffsetsPerTrigger="10")
    start = rig.planner.initial()
    assert sum(positions(rig.latest(start))) - sum(positions(start)) == 10
    assert positions(rig.latest(start, is_limited=False)) == [10, 20]
    rig = Rig(startingOffsets="earliest", maxBytesPerTrigger="500")
    assert sum(positions(rig.latest(start))) - sum(positions(start)) == 5


def test_few_messages_wait_but_not_for_ever():
    rig = Rig(startingOffsets="earliest", minOffsetsPerTrigger="30", maxTriggerDelay="10s")
    start = rig.planner.initial()
    first = rig.latest(start)
    assert positions(first) == [10, 20]
    rig.place.table[Q0] = QueueState(0, 15, 7)
    assert rig.latest(first) == first
    rig.seconds += 10
    assert positions(rig.latest(first)) == [15, 20]


def test_enough_messages_do_not_wait():
    rig = Rig(minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    start = rig.planner.initial()
    rig.place.table[Q0] = QueueState(0, 15, 7)
    assert positions(rig.latest(start)) == [15, 20]


def test_what_comes_after_the_freeze_is_not_read():
    rig = Rig(startingOffsets="earliest", maxOffsetsPerTrigger="20", minOffsetsPerTrigger="1000")
    start = rig.planner.initial()
    rig.planner.freeze()
    rig.place.table[Q0] = QueueState(0, 99, 7)
    rig.place.table[Q2] = QueueState(0, 5, 7)
    first = rig.latest(start)
    second = rig.latest(first)
    assert positions(second) == [10, 20]
    assert rig.latest(second) == second


def test_a_new_queue_is_read_from_its_beginning():
    rig = Rig()
    start = rig.planner.initial()
    rig.place.table[Q2] = QueueState(3, 8, 7)
    rig.place.table[Q0] = QueueState(0, 11, 7)
    entered = rig.latest(start)
    assert positions(entered) == [11, 20, 3]
    assert rig.ranges(start, entered) == [(0, 10, 11)]
    then = rig.latest(entered)
    assert rig.ranges(entered, then) == [(2, 3, 8)]


def test_messages_that_retention_took_are_data_loss():
    for option, gaps in (("true", None), ("false", []), ("report", [(0, 2, 6)])):
        rig = Rig(startingOffsets='{"orders":{"0":2,"1":5}}', failOnDataLoss=option)
        start = rig.planner.initial()
        rig.place.table[Q0] = QueueState(6, 10, 7)
        end = rig.latest(start)
        if gaps is None:
            with pytest.raises(DataLoss, match="orders/b/0: messages 2 to 5 are gone, no longer kept"):
                rig.planner.partitions(start, end)
            continue
        assert rig.ranges(start, end) == [(0, 6, 10), (1, 5, 20)]
        assert rig.gaps(start, end) == gaps


BOTH_GONE = r"^orders/b/0: messages? .*; orders/b/1: messages? "


@pytest.mark.parametrize(("now", "told"), [
    ({Q0: QueueState(12, 15, 7), Q1: QueueState(22, 25, 7)}, BOTH_GONE),
    ({Q0: QueueState(0, 10, 7, Missing(10, 13, "its file is lost", True)),
      Q1: QueueState(5, 20, 7, Missing(20, 21, "its file is lost", True))}, BOTH_GONE),
    ({Q0: QueueState(0, 9, 7), Q1: QueueState(5, 18, 7)}, BOTH_GONE),
    ({Q2: QueueState(0, 9, 7)}, "^orders/b/0 is no longer there, .*; orders/b/1 is no longer there, "),
], ids=["deleted by retention", "lost behind the end", "cut", "away"])
def test_data_loss_names_each_queue_that_is_hit(now, told):
    rig = Rig(retryTimeout="5s")
    start = rig.latest(rig.planner.initial())
    rig.place.table = now

    def read_twice():
        for _ in range(2):      # some faults are waited for
            rig.planner.partitions(start, rig.latest(start))
            rig.seconds += 6

    with pytest.raises(DataLoss, match=told):
        read_twice()


def test_topics_made_anew_are_named_once_each():
    rig = Rig()
    start = rig.planner.initial()
    rig.place.table = {Q0: QueueState(0, 30, 9), Q1: QueueState(0, 2, 9)}
    with pytest.raises(DataLoss) as raised:
        rig.latest(start)
    assert str(raised.value).count("topic 'orders' on broker b was deleted") == 1


def test_a_start_before_the_first_message_is_reported_by_the_first_batch():
    place = Queues()
    place.table[Q0] = QueueState(6, 10, 7)
    rig = Rig(place, startingOffsets='{"orders":{"0":2,"1":20}}', failOnDataLoss="report")
    start = rig.planner.initial()
    assert positions(start) == [2, 20]
    assert rig.gaps(start, rig.latest(start)) == [(0, 2, 6)]


def test_a_topic_made_anew_is_data_loss_of_its_own_kind():
    for option, gaps in (("true", None), ("false", []), ("report", [(0, 10, 11)])):
        rig = Rig(failOnDataLoss=option)
        start = rig.planner.initial()
        rig.place.table = {Q0: QueueState(0, 30, 9), Q1: QueueState(0, 2, 9)}
        if gaps is None:
            with pytest.raises(DataLoss, match=r"was deleted and created again .epoch 7, now 9."):
                rig.latest(start)
            continue
        end = rig.latest(start)
        assert rig.ranges(start, end) == [(0, 0, 30), (1, 0, 2)]
        assert rig.gaps(start, end)[:1] == gaps
        assert rig.latest(end) == end


@pytest.mark.parametrize(("option", "gaps"), [("false", []), ("report", [(0, 10, 11), (1, 20, 21)])])
def test_of_a_topic_made_anew_with_fewer_queues_only_those_are_read(option, gaps):
    """And one that it gets later from its beginning."""
    rig = Rig(failOnDataLoss=option)
    start = rig.latest(rig.planner.initial())
    rig.place.table = {Q0: QueueState(0, 3, 9)}
    end = rig.latest(start)
    assert (positions(end), rig.ranges(start, end)) == ([3], [(0, 0, 3)])
    assert sorted(rig.gaps(start, end)) == gaps
    assert "1" not in end["topics"]["orders"]["last"]["b"]
    rig.place.table[Q1] = QueueState(0, 5, 9)
    entered = rig.latest(end)
    assert (positions(entered), rig.ranges(end, entered)) == ([3, 0], [])
    then = rig.latest(entered)
    assert rig.ranges(entered, then) == [(1, 0, 5)]


def test_a_broker_without_epochs_raises_no_alarm():
    rig = Rig()
    start = rig.planner.initial()
    rig.place.table = {Q0: QueueState(0, 12, 0), Q1: QueueState(0, 20, 0)}
    end = rig.latest(start)
    assert positions(end) == [12, 20]
    assert end["topics"]["orders"]["epoch"] == {"b": 7}


def test_a_queue_that_ends_earlier_than_read_is_data_loss_when_it_stays_so():
    rig = Rig(retryTimeout="5s")
    start = rig.latest(rig.planner.initial())
    rig.place.table[Q0] = QueueState(0, 8, 7)
    assert rig.latest(start) == start
    rig.seconds += 5
    with pytest.raises(DataLoss, match="orders/b/0: messages 8 to 9 are gone, the queue ends at 8"):
        rig.latest(start)


def test_a_replica_that_is_behind_for_a_moment_is_no_loss():
    rig = Rig(retryTimeout="5s")
    start = rig.latest(rig.planner.initial())
    for high in (8, 10, 9):
        rig.place.table[Q0] = QueueState(0, high, 7)
        assert rig.latest(start) == start
        rig.seconds += 4


def test_without_failing_a_queue_that_ends_earlier_is_read_on_from_there():
    rig = Rig(failOnDataLoss="report", retryTimeout="5s")
    start = rig.planner.initial()
    rig.planner.freeze()
    rig.place.table[Q0] = QueueState(0, 8, 7)
    end = rig.latest(start)
    assert positions(end) == [8, 20]
    assert (rig.ranges(start, end), rig.gaps(start, end)) == ([], [(0, 8, 10)])


def test_a_queue_that_is_away_is_waited_for():
    rig = Rig(retryTimeout="5s")
    start = rig.latest(rig.planner.initial())
    gone = rig.place.table.pop(Q0)
    assert rig.latest(start) == start
    rig.seconds += 4
    rig.place.table[Q0] = gone
    rig.latest(start)
    del rig.place.table[Q0]
    rig.seconds += 4
    assert rig.latest(start) == start
    rig.seconds += 5
    with pytest.raises(DataLoss, match="orders/b/0 is no longer there, where 10 is to be read next"):
        rig.latest(start)


def test_a_query_goes_on_from_its_checkpoint():
    rig = Rig()
    start = {"v": 1, "topics": {"orders": {"epoch": {"b": 7}, "queues": {"b": {"0": 3, "1": 20}}}}}
    end = rig.latest(start)
    assert rig.ranges(start, end) == [(0, 3, 10)]
    assert Rig().ranges(start, end) == [(0, 3, 10)]


@pytest.mark.parametrize(("checkpoint", "fault"), [
    ({"orders": {"0": 3}}, "is not one of this source"),
    ({"v": 1, "topics": {"payments": {"queues": {"b": {"0": 3}}}}}, "is of topic 'payments', which this query"),
    ({"v": 1, "topics": {"orders": {"queues": {"other": {"0": 3}}}}}, "the checkpoint of another cluster"),
    ({"v": 1, "topics": {"orders": {"queues": {"b": {"0": "3"}}}}}, "checkpoint's offset"),
])
def test_a_checkpoint_of_something_else_is_refused(checkpoint, fault):
    with pytest.raises(OptionError, match=fault):
        Rig().latest(checkpoint)


def test_what_is_waiting_is_reported():
    rig = Rig(startingOffsets="earliest", maxOffsetsPerTrigger="10", consumerGroup="billing")
    assert rig.planner.report() is None
    start = rig.planner.initial()
    rig.latest(start)
    report = rig.planner.report()
    assert positions(report) == [10, 20]
    assert report["lag"] == {
        "asOf": 65_000, "recordBytes": {"orders/b/0": 100, "orders/b/1": 100},
        "waitingSince": {"orders/b/0": 5_000, "orders/b/1": 5_000},
        "read": {"nameServer": "a:1", "consumerGroup": "billing", "credentials": ""}}


# --- a log that was cut ----------------------------------------------------------------------------------------------


def test_a_log_that_was_cut_and_grew_again_is_data_loss_that_names_both_messages():
    rig = Rig()
    start = rig.latest(rig.planner.initial())
    rig.place.write_anew(Q0, 7, 30)
    for planner in (rig, Rig(rig.place)):
        with pytest.raises(DataLoss, match=(
                r"orders/b/0: message 9 was 0-9, stored at 1970-01-01T00:00:05.000\+00:00 when it was read, and now "
                r"it is new-9, stored at 1970-01-01T00:00:09.*from 7 to 9 was not read; .* to continue from there")):
            planner.latest(start)


@pytest.mark.parametrize(("option", "gaps"), [("false", []), ("report", [(0, 7, 10)])])
def test_without_failing_a_log_that_was_cut_is_read_on_from_the_cut(option, gaps, caplog):
    rig = Rig(failOnDataLoss=option)
    start = rig.latest(rig.planner.initial())
    rig.place.write_anew(Q0, 7, 30)
    rig.place.table[Q1] = QueueState(5, 22, 7)
    back = rig.latest(start)
    assert (rig.ranges(start, back), rig.gaps(start, back)) == ([(1, 20, 22)], gaps)
    assert "orders/b/0: message 9 was 0-9" in caplog.text
    assert "continues from 7" in caplog.text
    then = rig.latest(back)
    assert (rig.ranges(back, then), rig.gaps(back, then)) == ([(0, 7, 30)], [])
    assert rig.latest(then) == then


def test_a_gap_where_the_log_was_cut_says_which_message_stood_there():
    rig = Rig(failOnDataLoss="report")
    start = rig.latest(rig.planner.initial())
    rig.place.write_anew(Q0, 7, 30)
    [part] = rig.planner.partitions(start, rig.latest(start))
    assert "message 9 was 0-9, stored at 1970-01-01T00:00:05" in part.gaps[0].cause


@pytest.mark.parametrize("time", [1_000, 5_000])
def test_a_clock_that_was_set_back_hides_no_cut(time):
    """No message is later than the one that was read; at least the one in its place was not."""
    rig = Rig(failOnDataLoss="false")
    start = rig.latest(rig.planner.initial())
    rig.place.write_anew(Q0, 7, 30)
    rig.place.written = {place: Mark(time, mark.id) for place, mark in rig.place.written.items()}
    assert positions(rig.latest(start)) == [9, 20]


def test_an_offset_without_marks_goes_on_and_gets_one():
    rig = Rig()
    rig.place.write_anew(Q0, 7, 30)
    start = {"v": 1, "topics": {"orders": {"epoch": {"b": 7}, "queues": {"b": {"0": 10, "1": 20}}}}}
    end = rig.latest(start)
    assert rig.ranges(start, end) == [(0, 10, 30)]
    assert end["topics"]["orders"]["last"] == {"b": {"0": [9_000, "new-29"]}}


def test_a_message_that_retention_took_proves_no_cut():
    rig = Rig()
    start = rig.latest(rig.planner.initial())
    rig.place.table[Q0] = QueueState(10, 12, 7)
    assert rig.ranges(start, rig.latest(start)) == [(0, 10, 12)]


def test_an_offset_behind_what_is_gone_has_no_mark():
    """That of an earlier message would tell of a cut."""
    rig = Rig(failOnDataLoss="false")
    start = rig.latest(rig.planner.initial())
    rig.place.table[Q0] = QueueState(12, 12, 7)
    end = rig.latest(start)
    assert positions(end) == [12, 20]
    assert end["topics"]["orders"]["last"] == {"b": {"1": [5_000, "1-19"]}}


def test_a_queue_that_does_not_move_is_not_asked_again(monkeypatch):
    rig = Rig()
    start = rig.latest(rig.planner.initial())
    with monkeypatch.context() as patch:
        patch.setattr(rig.place, "marks", None)
        assert rig.latest(start) == start
    rig.place.write_anew(Q0, 7, 30)
    with pytest.raises(DataLoss, match="message 9 was 0-9"):
        rig.latest(start)


def test_a_lost_end_is_reported_once_although_its_broker_goes_and_comes():
    rig = Rig(failOnDataLoss="report")
    start = rig.latest(rig.planner.initial())
    short = rig.place.table[Q0]._replace(missing=Missing(10, 15, "the log was cut", True))
    rig.place.table[Q0] = short
    end = rig.latest(start)
    assert rig.gaps(start, end) == [(0, 10, 15)]
    del rig.place.table[Q0]
    rig.planner._looked_at = None
    assert rig.latest(end) == end
    rig.place.table[Q0] = short
    rig.planner._looked_at = None
    assert rig.latest(end) == end


# --- from an archive to its brokers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, -1, -5000])
def test_the_checkpoint_of_an_archive_goes_on_at_the_brokers(epoch):
    """Their epochs tell nothing of each other; from now on the broker's counts."""
    archive = Queues()
    archive.table = {queue: state._replace(topic_epoch=epoch) for queue, state in archive.table.items()}
    start = Rig(archive).planner.initial()
    rig = Rig()
    rig.place.table[Q0] = QueueState(0, 12, 7)
    end = rig.latest(start)
    assert rig.ranges(start, end) == [(0, 10, 12)]
    rig.place.table[Q0] = QueueState(0, 12, 9)
    with pytest.raises(DataLoss, match=r"was deleted and created again .epoch 7, now 9."):
        rig.latest(end)


def test_marks_tell_a_topic_made_anew_where_epochs_do_not():
    archive = Queues()
    archive.table = {queue: state._replace(topic_epoch=-1) for queue, state in archive.table.items()}
    start = Rig(archive).planner.initial()
    rig = Rig()
    rig.place.write_anew(Q0, 0, 12)
    with pytest.raises(DataLoss, match="or the topic was created again, and what was stored since then from 0 to 9"):
        rig.latest(start)


# --- brokers that are away when a query starts -----------------------------------------------------------------------


class Returning(Queues):
    """Queue 0 is away for so many looks."""

    def __init__(self, looks, *, all_away=False):
        super().__init__()
        self.looks = looks
        self.all_away = all_away
        self.everything = dict(self.table)

    def queues(self):
        self.looks -= 1
        if self.looks > 0 and self.all_away:
            raise OptionError("the cluster has no topic 'orders'")
        self.table = {queue: state for queue, state in self.everything.items() if self.looks <= 0 or queue != Q0}
        return sorted(self.table)


CHECKPOINT = {"v": 1, "topics": {"orders": {"epoch": {"b": 7}, "queues": {"b": {"0": 3, "1": 20}}}}}


@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("all_away", [False, True])
def test_a_query_that_starts_waits_for_a_broker_that_is_away(is_frozen, all_away):
    rig = Rig(Returning(5, all_away=all_away), retryTimeout="5s")
    if is_frozen:
        rig.planner.freeze()
    end = rig.latest(CHECKPOINT)
    assert rig.ranges(CHECKPOINT, end) == [(0, 3, 10)]


@pytest.mark.parametrize(("all_away", "error"), [(False, DataLoss), (True, OptionError)])
def test_a_query_that_starts_does_not_wait_for_ever(all_away, error):
    rig = Rig(Returning(1_000, all_away=all_away), retryTimeout="5s")
    with pytest.raises(error, match="orders"):
        rig.latest(CHECKPOINT)
    assert 105 <= rig.seconds < 107


def test_a_topic_that_was_never_there_is_refused_at_once():
    rig = Rig(Returning(1_000, all_away=True), retryTimeout="5s")
    with pytest.raises(OptionError):
        rig.planner.initial()
    assert rig.seconds == 100
