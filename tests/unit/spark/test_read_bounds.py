import pytest

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.options import parse_options
from regulus.spark.read_bounds import (
    LOSSES_NAMED_MAX,
    QueueState,
    batch_bounds,
    data_loss,
    missing_before,
    starting_offsets,
)
from regulus.spark.read_plan import Gap

Q0, Q1 = (MessageQueue("orders", "b", number) for number in range(2))
T5, T6, T7 = (946_684_800_000 + number for number in (5, 6, 7))
STATES = {Q0: QueueState(10, 20, 7), Q1: QueueState(0, 5, 7)}


class Queues:
    """A place that knows what the test says."""

    def __init__(self, times=None, groups=None):
        self._times = times or {}
        self._groups = groups or {}

    def queues(self):
        return sorted(STATES)

    def states(self, queues):
        return {queue: STATES[queue] for queue in queues}

    def offsets_at(self, times):
        return {queue: self._times[queue, time] for queue, time in times.items()}

    def group_offsets(self, queues):
        return {queue: self._groups.get(queue) for queue in queues}


def options_of(streaming=False, **options):
    return parse_options({"nameServer": "a:1", "topic": "orders", **options}, streaming=streaming)


def bounds(place=None, **options):
    ranges, gaps = batch_bounds(options_of(**options), place or Queues())
    return {unit.queue: (unit.start, unit.end) for unit in ranges}, [(gap.start, gap.end) for gap in gaps]


def starts(place=None, streaming=True, **options):
    return starting_offsets(options_of(streaming, **options), place or Queues(), sorted(STATES), STATES,
                            is_stream=streaming)[0]


def offsets(first, second):
    return f'{{"orders":{{"b":{{"0":{first},"1":{second}}}}}}}'


def test_a_batch_reads_all():
    assert bounds() == ({Q0: (10, 20), Q1: (0, 5)}, [])


def test_a_batch_reads_between_offsets():
    assert bounds(startingOffsets=offsets(12, -2), endingOffsets=offsets(-1, 3))[0] == {Q0: (12, 20), Q1: (0, 3)}


def test_an_empty_range_is_left_out():
    assert bounds(startingOffsets=offsets(20, 2), endingOffsets=offsets(-1, 2))[0] == {}


@pytest.mark.parametrize(("option", "text", "fault"), [
    ("startingOffsets", offsets(9, 0), "orders/b/0: message 9 is gone, no longer kept: the first message there is 10"),
    ("startingOffsets", offsets(25, 0), "orders/b/0: messages 20 to 24 are gone, the queue ends at 20"),
    ("endingOffsets", offsets(25, 5), "orders/b/0: messages 20 to 24 are gone, the queue ends at 20"),
])
def test_what_is_gone_is_data_loss(option, text, fault):
    with pytest.raises(DataLoss, match=fault):
        bounds(**{option: text})
    ranges, gaps = bounds(**{option: text, "failOnDataLoss": "false"})
    assert (Q1 in ranges, gaps) == (True, [])
    assert len(bounds(**{option: text, "failOnDataLoss": "report"})[1]) == 1


def test_data_loss_names_the_first_losses_and_counts_the_others():
    with pytest.raises(DataLoss, match=r"^orders/b/0: message 9 is gone, .*; orders/b/1: messages 5 to 6 are gone, .*; "
                                       "set failOnDataLoss"):
        bounds(startingOffsets=offsets(9, 7))
    gaps = [Gap(MessageQueue("orders", "b", number), 0, 1, "because") for number in range(LOSSES_NAMED_MAX + 2)]
    assert str(data_loss(gaps[:LOSSES_NAMED_MAX])).partition("; set")[0] == "; ".join(map(str, gaps[:LOSSES_NAMED_MAX]))
    text = str(data_loss(gaps))
    assert str(gaps[LOSSES_NAMED_MAX - 1]) + "; and 2 more; set failOnDataLoss" in text
    assert str(gaps[LOSSES_NAMED_MAX]) not in text


@pytest.mark.parametrize(("options", "fault"), [
    ({"startingOffsets": offsets(-1, 0)}, "cannot be -1"), ({"endingOffsets": offsets(-2, 0)}, "cannot be -2"),
    ({"startingOffsets": offsets(-3, 0)}, "'consumerGroup' must name the group"),
    ({"startingOffsets": '{"orders":{"b":{"0":1}}}'}, "missing orders/b/1; unknown none"),
])
def test_offsets_that_mean_nothing_are_refused(options, fault):
    with pytest.raises(OptionError, match=fault):
        bounds(**options)


def test_a_time_beats_offsets_and_one_for_all_beats_those_for_each():
    place = Queues({(Q0, T5): 15, (Q1, T5): 2, (Q0, T6): 16, (Q1, T7): 3})
    assert bounds(place, startingTimestamp=str(T5), startingOffsets=offsets(11, 1))[0] == {Q0: (15, 20), Q1: (2, 5)}
    assert bounds(place, startingOffsetsByTimestamp=offsets(T6, T7), startingOffsets=offsets(11, 1))[0] == {
        Q0: (16, 20), Q1: (3, 5)}
    for option in ("starting", "ending"):
        both = {f"{option}Timestamp": str(T5), f"{option}OffsetsByTimestamp": offsets(T6, T7)}
        assert bounds(place, **both) == bounds(place, **{f"{option}Timestamp": str(T5)})
    assert bounds(place, endingTimestamp=str(T5))[0] == {Q0: (10, 15), Q1: (0, 2)}


def test_a_time_that_no_message_reaches():
    place = Queues({(Q0, T5): 20, (Q1, T5): 2})
    assert bounds(place, startingTimestamp=str(T5))[0] == {Q1: (2, 5)}
    with pytest.raises(OptionError, match="orders/b/0 has no message stored at or after"):
        bounds(place, startingTimestamp=str(T5), startingOffsetsByTimestampStrategy="error")


def test_where_a_stream_starts():
    assert starts() == {Q0: 20, Q1: 5}
    assert starts(startingOffsets="earliest") == {Q0: 10, Q1: 0}
    assert starts(startingOffsets=offsets(-1, -2)) == {Q0: 20, Q1: 0}


def test_a_group_that_never_was_in_a_queue_starts_as_without_group():
    place = Queues(groups={Q0: 12})
    assert starts(place, consumerGroup="g") == {Q0: 12, Q1: 5}
    assert starts(place, streaming=False, consumerGroup="g") == {Q0: 12, Q1: 0}
    assert starts(place, consumerGroup="g", startingOffsets=offsets(-3, -2)) == {Q0: 12, Q1: 0}


def test_a_group_whose_messages_are_gone_is_data_loss():
    with pytest.raises(DataLoss, match="messages 3 to 9 are gone"):
        starts(Queues(groups={Q0: 3}), consumerGroup="g")


def test_nothing_is_missing_within_a_queue():
    assert [missing_before(Q0, offset, STATES[Q0]) for offset in (10, 15, 20)] == [[], [], []]
