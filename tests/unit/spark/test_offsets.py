import json

import pytest

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.offsets import (
    at_brokers,
    check_queues,
    offsets_object,
    parse_epochs,
    parse_offsets,
    parse_times,
)

QUEUE = MessageQueue("orders", "b", 0)
OTHER = MessageQueue("orders", "b", 1)
OFFSETS = {OTHER: 190, QUEUE: 23, MessageQueue("a", "b", 10): 0, MessageQueue("a", "b", 9): 1,
           MessageQueue("orders", "a", 0): 7}
EPOCHS = {("a", "b"): 0, ("orders", "a"): 0, ("orders", "b"): 17}
CANONICAL = ('{"v":1,"topics":{"a":{"epoch":{"b":0},"queues":{"b":{"9":1,"10":0}}},'
             '"orders":{"epoch":{"a":0,"b":17},"queues":{"a":{"0":7},"b":{"0":23,"1":190}}}}}')


@pytest.mark.parametrize("offsets", [OFFSETS, dict(reversed(OFFSETS.items()))])
def test_the_object_is_canonical(offsets):
    assert json.dumps(offsets_object(offsets, EPOCHS), separators=(",", ":")) == CANONICAL


def test_the_canonical_text_is_read():
    assert parse_offsets(CANONICAL, "startingOffsets") == OFFSETS
    assert parse_epochs(CANONICAL, "startingOffsets") == EPOCHS


def test_epochs_may_be_left_out():
    text = '{"v":1,"topics":{"orders":{"queues":{"b":{"0":23}}}}}'
    assert parse_offsets(text, "startingOffsets") == {QUEUE: 23}
    assert parse_epochs(text, "startingOffsets") == parse_epochs('{"orders":{"0":1}}', "startingOffsets") == {}


def test_the_form_of_other_connectors_is_read():
    assert parse_offsets('{"orders":{"b":{"0":23,"1":-2}}}', "startingOffsets") == {QUEUE: 23, OTHER: -2}


def test_the_broker_may_be_left_out_where_there_is_one():
    offsets = parse_offsets('{"orders":{"0":23,"1":-2}}', "startingOffsets")
    for by_partition in (False, True):
        assert at_brokers(offsets, [QUEUE, OTHER], "startingOffsets", by_partition=by_partition) == {
            QUEUE: 23, OTHER: -2}
    with pytest.raises(OptionError, match="does not say the broker of orders/0: b and c have the topic"):
        at_brokers(offsets, [QUEUE, QUEUE._replace(broker_name="c")], "startingOffsets", by_partition=False)


def test_a_topic_that_no_broker_has_stays_for_the_check():
    offsets = at_brokers({MessageQueue("other", "", 0): 1}, [QUEUE], "startingOffsets", by_partition=False)
    with pytest.raises(OptionError, match="missing orders/b/0; unknown other/0"):
        check_queues(offsets, [QUEUE], "startingOffsets")


@pytest.mark.parametrize(("text", "fault"), [
    ("[1]", "not a JSON object"), ('{"orders":5}', "not an object of queues"), ('{"orders":{"0":"5"}}', "'0': '5'"),
    ('{"orders":{"zero":5}}', "'zero'"), ('{"orders":{"0":-4}}', "-4"), ('{"orders":{"0":true}}', "True"),
    ('{"orders":{"b":5,"c":{"0":5}}}', "has 5 for topic"), ('{"orders":{"b":5}}', "'b': 5"),
])
def test_other_forms_are_refused(text, fault):
    with pytest.raises(OptionError, match=fault):
        parse_offsets(text, "startingOffsets")


def test_times_are_no_offsets():
    assert parse_times('{"orders":{"b":{"0":1700000000000}}}', "o") == {QUEUE: 1_700_000_000_000}
    with pytest.raises(OptionError, match="-1"):
        parse_times('{"orders":{"b":{"0":-1}}}', "o")


def test_the_queues_must_be_those_that_are_read():
    check_queues({QUEUE: 1}, [QUEUE], "startingOffsets")
    with pytest.raises(OptionError, match="missing orders/b/1; unknown orders/b/0"):
        check_queues({QUEUE: 1}, [OTHER], "startingOffsets")
