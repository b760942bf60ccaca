"""Compares what brokers remember of a sink's batch with what its tasks had to send.

A broker does not append the rows up to its mark again, and when they have come up to the mark it compares them with
what is stored. It cannot notice what does not come: an attempt that ends before the mark, or a task that the batch no
longer has. This module checks that, for a task when its rows are answered, and for the batch before it is committed.
"""

from collections.abc import Callable, Iterable

from regulus.client.administration.sink_admin import SinkMark, sink_marks_of
from regulus.errors import BrokerRefused, SinkRefused
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink.lanes import Lane
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetSinkMarksRequest, ReleaseSinkMarksRequest
from regulus.wire.remoting_command import RemotingCommand

MARK = "mark"
"""Field of the answer to rows that were stored before. It says how far their writer has come."""
OTHER_DATA = ("the data are others, or divided among other tasks. What is stored already was not sent again; what "
              "differs needs a new sinkId, or in a batch write a higher jobId")

Ask = Callable[[str, str, RemotingCommand], RemotingCommand]
"""Gives the answer of a broker. The arguments are its name, a topic that it serves, and the request."""


def lane_name(sink_id: str, queue: MessageQueue, partition: int) -> str:
    """The property SINK of the messages that a task sends to a queue."""
    return f"{sink_id}/{queue.topic}.{queue.queue_id}/{partition}"


def note_stored(lane: Lane, end: int, _: MessageQueue, answer: RemotingCommand) -> None:
    """Note that the lane's rows up to `end` are stored, or more, when the answer has a mark from an earlier attempt."""
    row = answer.ext.get(MARK, "").partition("/")[2]
    lane.rows_stored = max(lane.rows_stored, end, int(row) + 1 if row.isdigit() else 0)


def check_ends(lanes: Iterable[Lane], sink_id: str, where: str) -> None:
    """Check a task whose rows are all answered. Raises SinkRefused when an earlier attempt stored more than this."""
    for lane in lanes:
        if lane.rows_stored > lane.next_row:
            queue = lane.queue
            raise SinkRefused(
                f"{queue.broker_name} has {lane.rows_stored} rows of {where} of sink {sink_id} in queue "
                f"{queue.queue_id} of {queue.topic}, and this time there are {lane.next_row}: {OTHER_DATA}")


def check_begin(ask: Ask, broker_name: str, topic: str, sink_id: str, batch: int) -> None:
    """Raises SinkRefused when a broker has begun a later batch than this one."""
    for lane, mark in _marks_from(ask, broker_name, topic, sink_id, batch + 1).items():
        raise SinkRefused(f"sink {sink_id} has come to batch {mark.batch} at {broker_name}, with {mark.row + 1} rows "
                          f"in {lane}, and this is batch {batch}: the checkpoint is not the sink's; give a new sinkId")


def check_batch(ask: Ask, sink_id: str, batch: int, brokers: Iterable[tuple[str, str]],
                used: set[tuple[str, str]], tasks: int) -> None:
    """Check a batch whose tasks are all done; `used` are the lanes that had rows, by broker and name.

    `brokers` are names, each with a topic that the broker serves. Raises SinkRefused when one has rows of the batch in
    other lanes: the batch was divided differently before, and some of its rows may be stored twice.
    """
    for broker_name, topic in brokers:
        for lane, mark in _marks_from(ask, broker_name, topic, sink_id, batch).items():
            if mark.batch > batch or (broker_name, lane) not in used:
                raise SinkRefused(
                    f"{broker_name} has {mark.row + 1} rows of batch {mark.batch} of sink {sink_id} in {lane}, and "
                    f"this time batch {batch} came with {tasks} tasks and none of it: {OTHER_DATA}")


def release(ask: Ask, sink_id: str, brokers: Iterable[tuple[str, str]]) -> None:
    """Forget the marks of a sink that never comes again, so that they do not push out others. Raises ClientError."""
    for broker_name, topic in brokers:
        request = RemotingCommand.request(RequestCode.RELEASE_SINK_MARKS, ReleaseSinkMarksRequest(sink_id).ext())
        answer = ask(broker_name, topic, request)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, broker_name)


def _marks_from(ask: Ask, broker_name: str, topic: str, sink_id: str, batch: int) -> dict[str, SinkMark]:
    """The marks of a sink's lanes at this batch or later, by name.

    Raises SinkRefused when the broker does not keep marks, and ClientError.
    """
    request = RemotingCommand.request(RequestCode.GET_SINK_MARKS, GetSinkMarksRequest(sink_id, batch).ext())
    answer = ask(broker_name, topic, request)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise SinkRefused(f"{broker_name} is not a Regulus broker and does not remember what a sink sent, so "
                          "deliveryGuarantee=exactlyOnce cannot be kept: use transactional, or atLeastOnce")
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark, broker_name)
    return {lane: mark for lane, mark in sink_marks_of(answer.body).items() if mark.batch >= batch}
