"""Where names stand in RocketMQ's Bloom filter."""

import pytest

from regulus.record.bloom_positions import bloom_positions, murmur3_64


@pytest.mark.parametrize(("text", "hash_"), [
    # Of the reference implementation, MurmurHash3_x64_128 with seed 0.
    ("", 0), ("hello", 0xCBD8A7B341BD9B02), ("The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
])
def test_the_hash_is_that_of_others(text, hash_):
    assert murmur3_64(text.encode()) == hash_


def test_a_group_has_the_places_that_rocketmq_gave_it():
    """Taken from its consumerFilter.json."""
    assert bloom_positions("FilterGroup#Filtered", 32, 20) == ((39, 109, 34), 112)


@pytest.mark.parametrize(("names", "percent", "positions", "bits"), [(32, 20, 3, 112), (1, 99, 1, 8), (64, 1, 7, 616)])
def test_the_map_is_as_large_as_names_and_errors_ask_for(names, percent, positions, bits):
    found = bloom_positions("G#T", names, percent)
    assert (len(found.bit_pos), found.bit_num) == (positions, bits)
    assert all(0 <= position < bits for position in found.bit_pos)


@pytest.mark.parametrize(("name", "positions"), [
    ("gr\u00fcppe#T", (81, 102, 11)),
    ("a?#T", (3, 34, 71)), ("a\ud800#T", (3, 34, 71))])      # half a character is a question mark, as in Java
def test_a_name_is_hashed_in_utf_8(name, positions):
    assert bloom_positions(name, 32, 20).bit_pos == positions
