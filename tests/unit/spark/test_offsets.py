import pytest

from regulus.errors import DataLoss, OptionError
from regulus.spark.offsets import check_queues, format_offsets, parse_offsets, resolve_end, resolve_start

OFFSETS = {("orders", 1): 190, ("orders", 0): 23, ("a", 10): 0, ("a", 9): 1}
QUEUE = ("orders", 0)


def test_the_text_is_canonical():
    assert format_offsets(OFFSETS, "b") == (
        '{"v":1,"topics":{"a":{"queues":{"b":{"9":1,"10":0}}},"orders":{"queues":{"b":{"0":23,"1":190}}}}}')


@pytest.mark.parametrize("text", [
    format_offsets({("orders", 0): 23, ("orders", 1): -2}, "b"),
    '{"orders":{"b":{"0":23,"1":-2}}}', '{"orders":{"0":23,"1":-2}}',
])
def test_three_forms_are_read(text):
    assert parse_offsets(text, "startingOffsets", "b") == {("orders", 0): 23, ("orders", 1): -2}


@pytest.mark.parametrize(("text", "fault"), [
    ("[1]", "no JSON object"), ('{"orders":5}', "not an object of queues"), ('{"orders":{"0":"5"}}', "'0': '5'"),
    ('{"orders":{"zero":5}}', "'zero'"), ('{"orders":{"0":-4}}', "-4"), ('{"orders":{"0":true}}', "True"),
    ('{"orders":{"c":{"0":5}}}', "broker 'c'"), ('{"orders":{"b":5}}', "'b': 5"),
])
def test_other_forms_are_refused(text, fault):
    with pytest.raises(OptionError, match=fault):
        parse_offsets(text, "startingOffsets", "b")


def test_the_queues_must_be_those_that_are_read():
    check_queues({QUEUE: 1}, [QUEUE], "startingOffsets")
    with pytest.raises(OptionError, match="missing orders/1; unknown orders/0"):
        check_queues({QUEUE: 1}, [("orders", 1)], "startingOffsets")


@pytest.mark.parametrize(("offset", "start"), [(-2, 10), (10, 10), (15, 15), (20, 20)])
def test_a_start_in_the_queue(offset, start):
    assert resolve_start(offset, 10, 20, QUEUE, True) == start


@pytest.mark.parametrize(("offset", "start"), [(9, 10), (21, 20)])
def test_a_start_outside_the_queue_is_data_loss(offset, start):
    with pytest.raises(DataLoss, match="orders/0"):
        resolve_start(offset, 10, 20, QUEUE, True)
    assert resolve_start(offset, 10, 20, QUEUE, False) == start


@pytest.mark.parametrize("offset", [-1, -3])
def test_a_start_cannot_be_latest_or_the_groups(offset):
    with pytest.raises(OptionError, match="orders/0"):
        resolve_start(offset, 10, 20, QUEUE, False)


@pytest.mark.parametrize(("offset", "end"), [(-1, 20), (20, 20), (15, 15), (5, 10)])
def test_an_end_in_the_queue(offset, end):
    assert resolve_end(offset, 10, 20, QUEUE, True) == end


def test_an_end_beyond_the_queue_is_data_loss():
    with pytest.raises(DataLoss, match="beyond"):
        resolve_end(21, 10, 20, QUEUE, True)
    assert resolve_end(21, 10, 20, QUEUE, False) == 20


def test_an_end_cannot_be_earliest():
    with pytest.raises(OptionError, match="-2"):
        resolve_end(-2, 10, 20, QUEUE, True)
