"""Counts, samples and rates."""

from regulus.broker.config import BrokerConfig
from regulus.broker.statistics import Statistics, StatisticsItem
from regulus.broker.topics import Topics
from regulus.model.topics import TopicConfig

DAY_MS = 86_400_000


def fresh(now_ms: int = 0) -> tuple[Statistics, Topics]:
    topics = Topics(BrokerConfig())
    topics.put(TopicConfig(topic_name="T"), 0)
    return Statistics(topics, "C", now_ms, now_ms), topics


def put(topics: Topics, count: int, size: int) -> None:
    topics.facts["T"].other_nums += count
    topics.facts["T"].other_size += size


def puts(statistics: Statistics) -> tuple[int, int]:
    """Of how many messages, and of how many bytes, all at once."""
    steps = statistics.puts_in_steps()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_sends_show_up_under_topic_and_cluster():
    statistics, topics = fresh()
    put(topics, 30, 3000)
    statistics.tick(10_000, 10_000)
    put(topics, 30, 3000)
    statistics.tick(20_000, 20_000)
    assert statistics.item("TOPIC_PUT_NUMS", "T").minute().sum == 60
    assert statistics.item("TOPIC_PUT_NUMS", "T").minute().tps == 3.0
    assert statistics.item("TOPIC_PUT_SIZE", "T").minute().avgpt == 100.0
    assert statistics.item("BROKER_PUT_NUMS", "C").value == 60
    assert statistics.item("TOPIC_PUT_NUMS", "U") is None


def test_rates_look_back_ten_seconds_a_minute_and_ten():
    statistics, topics = fresh()
    statistics.tick(0, 0)
    for second in range(10, 130, 10):
        put(topics, 10 if second > 120 - 10 else 100, 1)
        statistics.tick(second * 1000, second * 1000)
    # 10 of the last ten seconds, 510 of the last minute, and 1110 of the 120 s that there were.
    assert statistics.put_tps() == (1.0, 8.5, 9.25)


def test_gets_and_misses():
    statistics, _ = fresh()
    statistics.tick(0, 0)
    statistics.note_get("G", "T", 5, 500)
    statistics.note_miss()
    statistics.tick(10_000, 10_000)
    assert statistics.get_found_tps()[0] == 0.1
    assert statistics.get_miss_tps()[0] == 0.1
    assert statistics.get_transferred_tps()[0] == 0.5
    assert statistics.item("GROUP_GET_SIZE", "T@G").value == 500
    assert statistics.item("BROKER_GET_NUMS", "C").value == 5


def test_samples_come_only_when_they_are_due():
    statistics, _ = fresh()
    assert statistics.tick(0, 0) == 10_000
    assert statistics.tick(4_000, 4_000) == 6_000


def test_the_broker_s_sums_keep_what_a_deleted_topic_took():
    statistics, topics = fresh()
    put(topics, 7, 70)
    statistics.tick(0, 0)
    statistics.note_get("G", "T", 1, 1)
    facts = topics.facts["T"]
    topics.delete("T", 0)
    statistics.topic_deleted("T", facts.put_nums, facts.put_size)
    statistics.drop_pairs_of_topic("T")
    assert puts(statistics) == (7, 70)
    assert statistics.item("TOPIC_PUT_NUMS", "T") is None
    assert statistics.item("GROUP_GET_NUMS", "T@G") is None
    topics.put(TopicConfig(topic_name="U"), 0)
    topics.facts["U"].other_nums += 3
    statistics.tick(10_000, 10_000)
    assert statistics.item("BROKER_PUT_NUMS", "C").value == 10


def test_what_is_counted_for_the_first_time_was_nothing_at_the_last_sample():
    statistics, topics = fresh()
    statistics.tick(10_000, 10_000)
    put(topics, 30, 3000)
    statistics.tick(20_000, 20_000)
    assert statistics.item("TOPIC_PUT_NUMS", "T").minute().tps == 3.0


def test_a_minute_looks_back_six_samples_and_a_day_twenty_four():
    item = StatisticsItem(0)
    for number in range(1, 41):
        item.add(1)
        item.sample(number * 10_000, True, True)
    assert (item.minute().sum, item.hour().sum, item.day().sum) == (6, 6, 24)


def test_mornings_are_remembered():
    statistics, topics = fresh()
    put(topics, 2, 2)
    statistics.tick(1000, 1000)
    assert statistics.put_total_today_morning == 0
    put(topics, 5, 5)
    statistics.tick(DAY_MS, DAY_MS)
    assert (statistics.put_total_yesterday_morning, statistics.put_total_today_morning) == (0, 7)
    put(topics, 5, 5)
    statistics.tick(2 * DAY_MS, 2 * DAY_MS)
    assert (statistics.put_total_yesterday_morning, statistics.put_total_today_morning) == (7, 12)


def test_a_clock_that_is_set_moves_no_sample_and_turns_a_day_once():
    statistics, topics = fresh()
    statistics.tick(DAY_MS, 0)
    put(topics, 10, 100)
    assert statistics.tick(31 * DAY_MS, 4_000) == 6_000
    statistics.tick(31 * DAY_MS, 10_000)
    assert statistics.put_tps()[0] == 1.0
    assert statistics.put_total_today_morning == 10
    put(topics, 10, 100)
    statistics.tick(DAY_MS, 20_000)
    assert statistics.put_tps()[0] == 1.0
    assert statistics.put_total_today_morning == 10
    statistics.tick(2 * DAY_MS, 30_000)
    assert (statistics.put_total_yesterday_morning, statistics.put_total_today_morning) == (10, 20)


def test_samples_of_many_are_taken_in_steps(monkeypatch):
    monkeypatch.setattr("regulus.broker.statistics.SAMPLED_A_STEP", 2)
    statistics, topics = fresh()
    for number in range(9):
        topics.put(TopicConfig(topic_name=f"T{number}"), 0)
        topics.facts[f"T{number}"].other_nums = number + 1
        statistics.note_get("G", f"T{number}", 1, 100)
    steps = 1
    while statistics.tick(10_000, 10_000) == 0:
        steps += 1
    assert steps >= (len(topics.facts) + 2 * 9) // 2
    assert statistics.tick(10_001, 10_001) == 9_999
    assert statistics.item("TOPIC_PUT_NUMS", "T8").minute().sum == 9
    assert statistics.item("BROKER_PUT_NUMS", "C").value == 45
    assert statistics.item("GROUP_GET_NUMS", "T3@G").minute().sum == 1


def test_a_topic_that_goes_between_two_steps_is_counted_once(monkeypatch):
    monkeypatch.setattr("regulus.broker.statistics.SAMPLED_A_STEP", 1)
    statistics, topics = fresh()
    put(topics, 30, 3000)
    statistics.tick(10_000, 10_000)
    topics.delete("T", 0)
    statistics.topic_deleted("T", 30, 3000)
    while statistics.tick(10_000, 10_000) == 0:
        pass
    assert statistics.item("BROKER_PUT_NUMS", "C").value == 30
    assert statistics.item("TOPIC_PUT_NUMS", "T") is None


def test_what_is_deleted_takes_its_own_items_along():
    statistics, _ = fresh()
    for group in ("G", "H"):
        for topic in ("T", "U"):
            statistics.note_get(group, topic, 1, 10)
    statistics.topic_deleted("T", 0, 0)
    statistics.drop_pairs_of_topic("T")
    statistics.drop_pairs_of_group("H")
    assert {key for items in statistics.items.values() for key in items} == {"U@G"}
    statistics.drop_pairs_of_group("G")
    assert not any((*statistics.items.values(), statistics._pairs_of_topic, statistics._pairs_of_group))


def test_puts_of_many_topics_are_summed_in_steps(monkeypatch):
    monkeypatch.setattr("regulus.broker.statistics.SUMMED_A_STEP", 2)
    statistics, topics = fresh()
    topics.put_all([TopicConfig(topic_name=f"T{number}") for number in range(5)], 0)
    put(topics, 5, 50)
    assert len(list(statistics.puts_in_steps())) == len(topics) // 2
    assert puts(statistics) == (5, 50)


def test_what_comes_and_goes_between_steps_is_sampled_once(monkeypatch):
    monkeypatch.setattr("regulus.broker.statistics.SAMPLED_A_STEP", 2)
    statistics, _ = fresh()
    for number in range(5):
        statistics.add("GROUP_GET_NUMS", f"T@G{number}", 1)
    while statistics.tick(0, 0) == 0:
        pass
    statistics.drop_pairs_of_group("G1")
    statistics.add("GROUP_GET_NUMS", "T@G1", 7)
    assert statistics.tick(10_000, 10_000) == 0
    statistics.drop_pairs_of_group("G0")
    statistics.drop_pairs_of_group("G4")
    statistics.add("GROUP_GET_NUMS", "T@G9", 3)
    while statistics.tick(10_000, 10_000) == 0:
        pass
    assert sorted(map(id, statistics._in_turn)) == sorted(map(id, statistics.items["GROUP_GET_NUMS"].values()))
    for key, total in (("T@G1", 7), ("T@G2", 1), ("T@G3", 1), ("T@G9", 3)):
        statistics.add("GROUP_GET_NUMS", key, 1)
        assert statistics.item("GROUP_GET_NUMS", key).value == total + 1
    while statistics.tick(20_000, 20_000) == 0:
        pass
    assert [len(statistics.item("GROUP_GET_NUMS", f"T@G{number}")._minute) for number in (2, 3)] == [4, 4]
    assert statistics.item("GROUP_GET_NUMS", "T@G1").minute().sum == 8
