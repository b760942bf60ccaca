"""What brokers remember of a sink's batch, held against what its tasks had to send.

A broker appends nothing that its mark stands for, and compares rows with what is stored as soon as they come up to the
mark. What it cannot see is what does not come: an attempt that ends before the mark, and tasks that the batch has no
more. That is looked at here, for a task when its rows are answered, and for the batch before it is committed.
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
"""Field of the answer to rows that were stored before: how far their writer has come."""
OTHER_DATA = ("the data are others, or divided among other tasks. What is stored already was not sent again; what "
              "differs needs a new sinkId, or in a batch write a higher jobId")

Ask = Callable[[str, str, RemotingCommand], RemotingCommand]
"""The answer of a broker, by name, that serves a topic."""


def lane_name(sink_id: str, queue: MessageQueue, partition: int) -> str:
    """SINK of what a task sends to a queue."""
    return f"{sink_id}/{queue.topic}.{queue.queue_id}/{partition}"


def note_stored(lane: Lane, end: int, _: MessageQueue, answer: RemotingCommand) -> None:
    """The lane's rows up to `end` are stored; when they were before, the broker tells how far it has come."""
    row = answer.ext.get(MARK, "").partition("/")[2]
    lane.rows_stored = max(lane.rows_stored, end, int(row) + 1 if row.isdigit() else 0)


def check_ends(lanes: Iterable[Lane], sink_id: str, where: str) -> None:
    """All rows of a task are answered. Raises SinkRefused when an earlier attempt stored more than there are now."""
    for lane in lanes:
        if lane.rows_stored > lane.next_row:
            queue = lane.queue
            raise SinkRefused(
                f"{queue.broker_name} has {lane.rows_stored} rows of {where} of sink {sink_id} in queue "
                f"{queue.queue_id} of {queue.topic}, and this time there are {lane.next_row}: {OTHER_DATA}")


def check_begin(ask: Ask, broker_name: str, topic: str, sink_id: str, batch: int) -> None:
    """Raises SinkRefused when a broker has begun a later batch, so that this one is not the sink's next."""
    for lane, mark in _marks_from(ask, broker_name, topic, sink_id, batch + 1).items():
        raise SinkRefused(f"sink {sink_id} has come to batch {mark.batch} at {broker_name}, with {mark.row + 1} rows "
                          f"in {lane}, and this is batch {batch}: the checkpoint is not the sink's; give a new sinkId")


def check_batch(ask: Ask, sink_id: str, batch: int, brokers: Iterable[tuple[str, str]],
                used: set[tuple[str, str]], tasks: int) -> None:
    """All tasks of a batch are done; `used` are the lanes that had rows, by broker and name.

    Raises SinkRefused when brokers, each with a topic that it serves, have rows of the batch in others: it has come in
    another division than before, and some of its rows may be stored twice.
    """
    for broker_name, topic in brokers:
        for lane, mark in _marks_from(ask, broker_name, topic, sink_id, batch).items():
            if mark.batch > batch or (broker_name, lane) not in used:
                raise SinkRefused(
                    f"{broker_name} has {mark.row + 1} rows of batch {mark.batch} of sink {sink_id} in {lane}, and "
                    f"this time batch {batch} came with {tasks} tasks and none of it: {OTHER_DATA}")


def release(ask: Ask, sink_id: str, brokers: Iterable[tuple[str, str]]) -> None:
    """The sink is done and never comes again: its marks need not push out those of others. Raises ClientError."""
    for broker_name, topic in brokers:
        request = RemotingCommand.request(RequestCode.RELEASE_SINK_MARKS, ReleaseSinkMarksRequest(sink_id).ext())
        answer = ask(broker_name, topic, request)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark, broker_name)


def _marks_from(ask: Ask, broker_name: str, topic: str, sink_id: str, batch: int) -> dict[str, SinkMark]:
    """The marks of a sink's lanes that have come to a batch, by name.

    Raises SinkRefused when the broker keeps none, and ClientError.
    """
    request = RemotingCommand.request(RequestCode.GET_SINK_MARKS, GetSinkMarksRequest(sink_id, batch).ext())
    answer = ask(broker_name, topic, request)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise SinkRefused(f"{broker_name} is not a Regulus broker and does not remember what a sink sent, so "
                          "deliveryGuarantee=exactlyOnce cannot be kept: use transactional, or atLeastOnce")
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark, broker_name)
    return {lane: mark for lane, mark in sink_marks_of(answer.body).items() if mark.batch >= batch}
