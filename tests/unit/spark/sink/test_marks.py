"""What is stored, held against what there was to store; that tasks and commits do so is in test_task."""

import json

import pytest

from regulus.errors import BrokerRefused, SinkRefused
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink.lanes import Lane
from regulus.spark.sink.marks import check_batch, check_begin, check_ends, lane_name, note_stored
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand

QUEUE = MessageQueue("T", "a", 2)


class Brokers:
    """Brokers by name, with the SEQ of each lane."""

    def __init__(self, **seqs: dict[str, str]) -> None:
        self.seqs = seqs
        self.asked: list[tuple[str, str, str]] = []

    def ask(self, broker: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        assert command.code == RequestCode.GET_SINK_MARKS
        batch = int(command.ext["fromBatch"])
        self.asked.append((broker, topic, command.ext["sinkId"]))
        marks = {lane: {"seq": seq, "topic": "T", "queueId": 2, "queueOffset": 0, "physicalOffset": 0}
                 for lane, seq in self.seqs[broker].items() if int(seq.partition("/")[0]) >= batch}
        return command.response(0, body=json.dumps(marks).encode())


def answer(**ext: str) -> RemotingCommand:
    return RemotingCommand.request(310, {}).response(0, ext=ext)


def test_a_lane_hears_how_far_the_broker_is():
    lane = Lane(QUEUE)
    note_stored(lane, 10, QUEUE, answer())
    assert lane.rows_stored == 10
    note_stored(lane, 12, QUEUE, answer(mark="3/29"))
    note_stored(lane, 14, QUEUE, answer())
    assert lane.rows_stored == 30


@pytest.mark.parametrize(("rows", "stored", "is_refused"), [(5, 5, False), (0, 0, False), (5, 6, True), (5, 500, True)])
def test_a_task_ends_where_the_broker_does(rows, stored, is_refused):
    lanes = [Lane(QUEUE, next_row=1, rows_stored=1), Lane(QUEUE, next_row=rows, rows_stored=stored)]
    if not is_refused:
        check_ends(lanes, "S", "batch 3, task 1")
        return
    with pytest.raises(SinkRefused, match=f"a has {stored} rows of batch 3, task 1 of sink S in queue 2 of T, and this "
                                          f"time there are {rows}"):
        check_ends(lanes, "S", "batch 3, task 1")


def test_a_batch_does_not_begin_behind_a_later_one():
    brokers = Brokers(a={"S/T.0/0": "7/41"})
    check_begin(brokers.ask, "a", "T", "S", 7)
    check_begin(brokers.ask, "a", "T", "S", 8)
    with pytest.raises(SinkRefused, match=r"sink S has come to batch 7 at a, with 42 rows in S/T\.0/0, and this "):
        check_begin(brokers.ask, "a", "T", "S", 6)
    assert brokers.asked == [("a", "T", "S")] * 3


def test_a_batch_has_rows_only_where_its_tasks_had_some():
    lane = lane_name("S", QUEUE, 0)
    brokers = Brokers(a={lane: "7/9", "S/T.2/1": "6/9"}, b={lane: "7/9"})
    check_batch(brokers.ask, "S", 7, [("a", "T")], {("a", lane)}, 1)
    check_batch(brokers.ask, "S", 7, [("a", "T"), ("b", "T")], {("a", lane), ("b", lane)}, 1)
    for batch, used in ((7, {("a", lane)}), (7, {("b", lane)}), (6, {("a", lane), ("b", lane)})):
        with pytest.raises(SinkRefused, match=r"has 10 rows of batch \d of sink S in S/T\.2/\d, and this time batch "
                                              f"{batch} came with 1 tasks and none of it"):
            check_batch(brokers.ask, "S", batch, [("a", "T"), ("b", "T")], used, 1)


@pytest.mark.parametrize(("code", "error"), [
    (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, SinkRefused), (ResponseCode.SYSTEM_ERROR, BrokerRefused)])
def test_a_broker_without_marks_is_told(code, error):
    with pytest.raises(error):
        check_begin(lambda broker, topic, command: command.response(int(code), "no"), "a", "T", "S", 0)
