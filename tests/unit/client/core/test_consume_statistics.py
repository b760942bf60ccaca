from regulus.client.core.consume_statistics import TopicStatistics


def test_rates_compare_now_with_the_last_minute():
    statistics = TopicStatistics()
    statistics.sample(0)
    statistics.pulled_messages(100, 20)
    statistics.consumed(90, 10, 300)
    statistics.consumed(0, 0, 100)
    rates = statistics.rates(10_000)
    assert (rates.pull_tps, rates.pull_rt) == (10.0, 20.0)
    assert (rates.consume_ok_tps, rates.consume_failed_tps, rates.consume_rt) == (9.0, 1.0, 200.0)
    assert rates.failed == 10


def test_what_is_older_than_a_minute_no_longer_counts():
    statistics = TopicStatistics()
    statistics.consumed(600, 0, 1)
    statistics.sample(0)
    for moment in range(10_000, 90_000, 10_000):
        statistics.sample(moment)
    assert statistics.rates(90_000).consume_ok_tps == 0.0


def test_without_a_reading_there_are_no_rates():
    statistics = TopicStatistics()
    statistics.consumed(5, 0, 1)
    assert statistics.rates(1000).consume_ok_tps == 0.0
