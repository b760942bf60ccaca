from datetime import datetime

from regulus.client.core.unique_key_time import search_from_ms
from regulus.client.unique_key import UniqueKeys

NOW = int(datetime(2026, 3, 20, 12).timestamp() * 1000)


def test_a_key_of_this_month_tells_when_it_was_made():
    made = NOW - 5 * 86_400_000
    assert search_from_ms(UniqueKeys("10.0.0.1").make(made), NOW) == made - 1000


def test_a_time_in_the_future_means_last_month():
    made = int(datetime(2026, 2, 25, 12).timestamp() * 1000)
    assert search_from_ms(UniqueKeys("10.0.0.1").make(made), NOW) == made - 1000


def test_text_that_is_no_key_is_searched_from_the_beginning():
    assert search_from_ms("order-17", NOW) == 0
