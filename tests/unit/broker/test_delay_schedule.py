"""Messages come back when their wait is over."""

from dataclasses import replace
from itertools import pairwise

import pytest

from regulus.broker import delay_schedule
from regulus.broker.config import BrokerConfig
from regulus.broker.delay_schedule import DELIVERIES_PER_TICK_MAX, POLL_MS, DelaySchedule
from regulus.broker.send_facts import SendFacts
from regulus.broker.storing import Storing
from regulus.broker.topics import Topics
from regulus.errors import HeaderError
from regulus.model.message import MessageExt
from regulus.model.store_result import Appended, PutStatus
from regulus.testing.memory_store import MemoryStore
from regulus.wire import encoded_table

LADDER = "50ms 1s 10s"
MINUTE_MS = 60_000


class Clockwork:
    def __init__(self, ladder: str = LADDER) -> None:
        config = BrokerConfig(message_delay_level=ladder)
        self.store = MemoryStore(config)
        self.topics = Topics(config)
        self.storing = Storing(SendFacts(config, self.store, self.topics.facts))
        self.schedule = DelaySchedule(self.store, config.delay_ladder_ms, self.storing)

    def park(self, level: int, now_ms: int, count: int = 1, topic: str = "T") -> None:
        for _ in range(count):
            self.store.append(MessageExt("SCHEDULE_TOPIC_XXXX", b"x", {
                "DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": "0"}, queue_id=level - 1), now_ms)
        self.store.dispatch(10_000)

    def tick(self, now_ms: int) -> int:
        wait_ms = self.schedule.tick(now_ms)
        self.store.dispatch(10_000)
        return wait_ms

    def delivered(self, topic: str = "T") -> int:
        return self.store.max_offset(topic, 0)


@pytest.fixture
def clockwork() -> Clockwork:
    return Clockwork()


def test_a_message_comes_back_when_it_is_due_and_not_before(clockwork):
    clockwork.park(2, 1000)
    assert clockwork.tick(1999) == 1
    assert clockwork.delivered() == 0
    clockwork.tick(2000)
    assert clockwork.delivered() == 1
    clockwork.tick(5000)
    assert clockwork.delivered() == 1


def test_a_quiet_schedule_rests(clockwork):
    assert clockwork.tick(0) == POLL_MS
    clockwork.park(3, 0)
    assert clockwork.tick(0) == POLL_MS
    assert clockwork.tick(9_970) == 30


def test_levels_do_not_wait_for_each_other(clockwork):
    clockwork.park(3, 0)
    clockwork.park(1, 0, topic="U")
    clockwork.tick(50)
    assert (clockwork.delivered(), clockwork.delivered("U")) == (0, 1)


def test_one_tick_does_a_bounded_amount_of_work(clockwork):
    clockwork.park(1, 0, DELIVERIES_PER_TICK_MAX + 10)
    assert clockwork.tick(50) == 0
    assert clockwork.delivered() == DELIVERIES_PER_TICK_MAX
    assert clockwork.tick(50) > 0
    assert clockwork.delivered() == DELIVERIES_PER_TICK_MAX + 10


def test_a_crowded_level_does_not_keep_the_others_waiting(clockwork):
    clockwork.park(1, 0, 10 * DELIVERIES_PER_TICK_MAX)
    clockwork.park(2, 0, topic="U")
    assert clockwork.tick(2000) == 0
    assert clockwork.delivered("U") == 0
    assert clockwork.tick(2000) == 0
    assert clockwork.delivered("U") == 1


def test_what_the_store_refuses_is_tried_again(clockwork):
    clockwork.park(1, 0, 2)
    clockwork.store.refusal = "full"
    assert clockwork.tick(50) == POLL_MS
    clockwork.store.refusal = ""
    clockwork.tick(150)
    assert clockwork.delivered() == 2


def test_a_clock_that_was_turned_back_delays_nothing_longer(clockwork):
    clockwork.park(2, 100_000)
    clockwork.tick(1000)
    assert clockwork.delivered() == 1


def test_a_message_without_a_home_is_passed_over(clockwork):
    clockwork.park(1, 0, topic="RMQ_SYS_TRANS_HALF_TOPIC")
    clockwork.park(1, 0)
    clockwork.tick(50)
    assert clockwork.delivered("RMQ_SYS_TRANS_HALF_TOPIC") == 0
    assert clockwork.delivered() == 1


def test_progress_is_saved_and_kept_within_the_queues(clockwork):
    clockwork.park(1, 0, 2)
    clockwork.tick(50)
    assert clockwork.schedule.progress() == {1: (2, 2)}
    again = DelaySchedule(clockwork.store, (50, 1000, 10_000), clockwork.storing)
    again.load(encoded_table.text(clockwork.schedule.document()))
    assert again.offset_table == {1: 2}
    again.load('{"offsetTable":{1:99,2:5,77:1}}')
    assert again.offset_table == {1: 2, 2: 0}


def test_what_came_since_progress_was_saved_comes_again_and_nothing_is_lost_or_early(clockwork):
    clockwork.park(2, 0)
    clockwork.tick(1000)
    saved = encoded_table.text(clockwork.schedule.document())
    clockwork.park(2, 1000)
    clockwork.tick(2000)
    clockwork.park(2, 2000)
    assert clockwork.delivered() == 2
    clockwork.schedule = DelaySchedule(clockwork.store, (50, 1000, 10_000), clockwork.storing)
    clockwork.schedule.load(saved)
    clockwork.tick(2999)
    assert clockwork.delivered() == 3
    clockwork.tick(3000)
    assert clockwork.delivered() == 4


def test_deliveries_are_counted(clockwork):
    clockwork.topics.create_if_absent("T", 1, 0)
    clockwork.park(1, 0, 3)
    clockwork.tick(50)
    assert clockwork.topics.facts["T"].put_nums == 3


def test_what_is_larger_than_a_limit_that_was_lowered_since_is_delivered(rig):
    rig.send("T", b"x" * 100, properties={"DELAY": "1", "UNIQ_KEY": "K"})
    rig.broker.set_config(replace(rig.broker.config, max_message_size=10))
    rig.run(2_000)
    assert [message.body for message in rig.stored("T")] == [b"x" * 100]


def test_what_the_store_never_takes_does_not_hold_up_those_behind_it(clockwork):
    clockwork.park(1, 0)
    clockwork.park(1, 0, topic="U")
    take = clockwork.store.append
    clockwork.store.append = lambda message, now_ms: take(message, now_ms) if message.topic == "U" else Appended(
        PutStatus.MESSAGE_ILLEGAL, remark="too long for a file of the log")
    clockwork.tick(50)
    assert (clockwork.delivered(), clockwork.delivered("U")) == (0, 1)
    assert clockwork.schedule.progress() == {1: (2, 2)}
    assert clockwork.storing.put_failed_times == 1


def test_a_damaged_queue_does_not_hold_up_its_level_and_loses_nothing(clockwork):
    clockwork.park(1, 0)
    clockwork.park(1, 0, topic="U")
    clockwork.store.damaged["T", 0] = "queue 0 of T has a gap"
    clockwork.tick(50)
    assert clockwork.delivered("U") == 1
    assert clockwork.schedule.progress() == {1: (2, 2), 3: (0, 1)}
    clockwork.tick(10_050)
    assert clockwork.schedule.progress()[3] == (1, 2)
    clockwork.store.damaged.clear()
    clockwork.tick(20_049)
    assert clockwork.delivered() == 0
    clockwork.tick(20_050)
    assert clockwork.delivered() == 1


def started_anew(clockwork: Clockwork) -> None:
    saved = encoded_table.text(clockwork.schedule.document())
    clockwork.schedule = DelaySchedule(clockwork.store, (50, 1000, 10_000), clockwork.storing)
    clockwork.schedule.load(saved)


def test_what_lies_in_a_missing_file_keeps_nobody_and_comes_after_the_start_that_has_it_again(clockwork):
    clockwork.park(1, 0, 3)
    clockwork.park(2, 0, 2)
    behind = clockwork.store.commit_log_max_offset()
    clockwork.park(1, 0, topic="U")
    clockwork.store.missing = range(behind)
    for _ in range(2):
        clockwork.tick(1000)
        assert (clockwork.delivered(), clockwork.delivered("U")) == (0, 1)
        started_anew(clockwork)
    clockwork.store.missing = ()
    clockwork.tick(1001)
    assert clockwork.delivered() == 3, "one level at a time"
    started_anew(clockwork)
    clockwork.tick(1002)
    assert clockwork.delivered() == 5
    assert "regulusMissing" not in encoded_table.text(clockwork.schedule.document())
    started_anew(clockwork)
    clockwork.tick(2000)
    assert (clockwork.delivered(), clockwork.delivered("U")) == (5, 1)


def test_much_that_was_missing_comes_in_parts_and_waits_for_a_store_that_refuses(clockwork, monkeypatch):
    monkeypatch.setattr(delay_schedule, "AGAIN_PER_TICK_MAX", 4)
    clockwork.park(1, 0, 10)
    clockwork.store.missing = range(clockwork.store.commit_log_max_offset())
    clockwork.tick(50)
    started_anew(clockwork)
    clockwork.store.missing = ()
    clockwork.store.refusal = "full"
    changes = clockwork.schedule.changes
    assert clockwork.tick(51) == POLL_MS
    assert clockwork.schedule.changes == changes
    clockwork.store.refusal = ""
    for delivered in (4, 8):
        assert clockwork.tick(52) == 0
        assert clockwork.delivered() == delivered
    started_anew(clockwork)
    assert clockwork.tick(53) == POLL_MS
    assert clockwork.delivered() == 10


def test_two_runs_of_what_is_missing_are_noted_as_one(clockwork):
    clockwork.park(1, 0, 2)
    clockwork.store.missing = range(1 << 20)
    clockwork.tick(50)
    clockwork.park(1, 50, 2)
    clockwork.tick(100)
    assert '"regulusMissing":[[1,0,4]]' in "".join(encoded_table.text(clockwork.schedule.document()).split())


@pytest.mark.parametrize("places", ["{}", "[1]", "[[1,2]]", '[[1,2,"3"]]'])
def test_places_that_are_none_are_refused(clockwork, places):
    with pytest.raises(HeaderError, match="regulusMissing is not a list"):
        clockwork.schedule.load(f'{{"offsetTable":{{}},"regulusMissing":{places}}}')


def test_the_longer_a_queue_is_damaged_the_fewer_copies_are_made_for_it() -> None:
    clockwork = Clockwork(BrokerConfig().message_delay_level)
    clockwork.store.damaged["T", 0] = "queue 0 of T has a gap"
    clockwork.park(1, 0)
    waits = copies_of_a_day(clockwork)
    assert waits[:8] == [0, 1, 1, 2, 4, 8, 10, 20]      # of the levels there are
    assert set(waits[8:]) == {30}
    assert len(waits) < 60
    clockwork.store.damaged.clear()
    for minute in range(24 * 60, 24 * 60 + 31):
        clockwork.tick(minute * MINUTE_MS)
    assert clockwork.delivered() == 1
    clockwork.store.damaged["T", 0] = "queue 0 of T has a gap again"
    clockwork.park(1, 25 * 60 * MINUTE_MS)
    assert copies_of_a_day(clockwork, 25 * 60)[:4] == [0, 1, 1, 2]


def copies_of_a_day(clockwork: Clockwork, begin: int = 0) -> list[int]:
    """Minutes from each copy to the next."""
    copied = [begin]
    count = copies(clockwork)
    for minute in range(begin, begin + 24 * 60):
        clockwork.tick(minute * MINUTE_MS + 2_000)
        if copies(clockwork) > count:
            count += 1
            copied.append(minute)
    return [behind - before for before, behind in pairwise(copied)]


def copies(clockwork: Clockwork) -> int:
    return sum(end for _, end in clockwork.schedule.progress().values())


def test_only_so_many_damaged_queues_are_remembered(clockwork, monkeypatch):
    monkeypatch.setattr(delay_schedule, "DAMAGED_QUEUES_MAX", 3)
    for number in range(10):
        clockwork.store.damaged[f"T{number}", 0] = "has a gap"
        clockwork.park(1, 0, topic=f"T{number}")
    clockwork.tick(50)
    assert len(clockwork.schedule._damaged_since) == 3
    assert clockwork.schedule.progress()[3] == (0, 10)


def test_what_is_not_due_is_not_delivered_whatever_is_noted_as_missing(clockwork):
    clockwork.park(3, 0)
    clockwork.schedule.load('{"offsetTable":{"3":0},"regulusMissing":[[3,0,32],[1,-5,9]]}')
    clockwork.tick(50)
    assert clockwork.delivered() == 0
    clockwork.tick(10_000)
    assert clockwork.delivered() == 1
    assert "regulusMissing" not in encoded_table.text(clockwork.schedule.document())


def test_levels_that_a_shorter_ladder_lacks_are_told_and_go_on_with_a_longer_one(clockwork):
    clockwork.park(1, 0)
    clockwork.park(3, 0, count=2)
    clockwork.park(3, 5_000, count=3)
    clockwork.tick(10_000)
    assert clockwork.delivered() == 3
    assert [*clockwork.schedule.warnings()] == []
    saved = clockwork.schedule.document()
    for ladder, delivered in (("50ms 1s", 3), (LADDER, 6)):
        config = BrokerConfig(message_delay_level=ladder)
        clockwork.schedule = DelaySchedule(clockwork.store, config.delay_ladder_ms, clockwork.storing)
        clockwork.schedule.load(encoded_table.text(saved))
        told = [*clockwork.schedule.warnings()]
        clockwork.tick(MINUTE_MS)
        assert clockwork.delivered() == delivered
        assert [sentence[:66] for sentence in told] == (
            ["messages wait at delay level 3 (3 of them), and messageDelayLevel h"[:66]] if ladder != LADDER else [])
        saved = clockwork.schedule.document()
