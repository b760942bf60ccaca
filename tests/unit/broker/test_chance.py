"""Chance spreads, and repeats itself for the same seed."""

from collections import Counter

from regulus.broker.chance import Chance


def test_the_same_seed_gives_the_same_numbers():
    assert [Chance(7).below(1000) for _ in range(3)] == [Chance(7).below(1000)] * 3
    first, second = Chance(1), Chance(2)
    assert [first.below(1000) for _ in range(5)] != [second.below(1000) for _ in range(5)]


def test_numbers_are_spread_evenly():
    chance = Chance(3)
    counts = Counter(chance.below(8) for _ in range(8000))
    assert set(counts) == set(range(8))
    assert min(counts.values()) > 800


def test_there_is_one_choice_of_one_or_none():
    assert [Chance(1).below(limit) for limit in (1, 0, -1)] == [0, 0, 0]
