import json

import pytest

from regulus.errors import OptionError
from regulus.model.message_queue import MessageQueue
from regulus.spark.marks import Mark
from regulus.spark.read_plan import is_another_topic
from regulus.spark.readers.stream_offset import StreamOffset

Q0, Q1 = (MessageQueue("orders", "b", number) for number in range(2))
WRITTEN = ('{"v":1,"topics":{"orders":{"epoch":{"b":7},"queues":{"b":{"0":10,"1":0}},"last":{"b":{"0":[5000,"C0"]}},'
           '"bytes":{"b":{"0":812}}}},'
           '"began":{"v":1,"topics":{"orders":{"epoch":{"b":7},"queues":{"b":{"0":3}}}}}}')


def test_an_offset_is_what_was_written():
    offset = StreamOffset.parse(json.loads(WRITTEN))
    assert (offset.positions, offset.marks, offset.sizes) == ({Q0: 10, Q1: 0}, {Q0: Mark(5000, "C0")}, {Q0: 812})
    assert (offset.began.positions, offset.began.marks, offset.is_initial) == ({Q0: 3}, {}, False)
    assert json.dumps(offset.object(), separators=(",", ":")) == WRITTEN


@pytest.mark.parametrize("last", ['{"b":{"0":5}}', '{"b":[1]}', '{"b":{"x":[1,"a"]}}', '{"b":{"0":[1]}}'])
def test_marks_of_another_form_are_refused(last):
    text = f'{{"v":1,"topics":{{"orders":{{"queues":{{"b":{{"0":10}}}},"last":{last}}}}}}}'
    with pytest.raises(OptionError, match="store time and id of each queue"):
        StreamOffset.parse(json.loads(text))


@pytest.mark.parametrize("sizes", ['{"b":5}', '{"b":[1]}', '{"b":{"x":5}}', '{"b":{"0":0}}', '{"b":{"0":1.5}}'])
def test_sizes_of_another_form_are_refused(sizes):
    text = f'{{"v":1,"topics":{{"orders":{{"queues":{{"b":{{"0":10}}}},"bytes":{sizes}}}}}}}'
    with pytest.raises(OptionError, match="not a number above 0 of each queue"):
        StreamOffset.parse(json.loads(text))


@pytest.mark.parametrize(("known", "found", "expected"), [
    (7, 9, True), (-1, -5, True), (7, 7, False), (0, 7, False), (7, 0, False), (-5, 7, False), (7, -1, False)])
def test_epochs_of_brokers_and_archives_tell_nothing_of_each_other(known, found, expected):
    assert is_another_topic(known, found) is expected
