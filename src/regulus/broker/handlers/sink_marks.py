"""GET_SINK_MARKS, RELEASE_SINK_MARKS: how far the writers of a sink are, and that the sink is finished."""

from regulus.broker.handlers.answer import succeed
from regulus.broker.outcome import Outcome
from regulus.broker.sink_marks import mark_value
from regulus.broker.state import BrokerState
from regulus.model.peer import Peer
from regulus.wire import fastjson
from regulus.wire.headers import GetSinkMarksRequest, ReleaseSinkMarksRequest
from regulus.wire.remoting_command import RemotingCommand


def handle_get_sink_marks(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    asked = GetSinkMarksRequest.decode(request)
    marks = broker.sink_marks.of_sink(asked.sink_id, asked.from_batch)
    body = fastjson.dumps({sink: mark_value(mark) for sink, mark in marks.items()})
    return succeed(request, body.encode("utf-8", "replace"))


def handle_release_sink_marks(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    broker.sink_marks.release(ReleaseSinkMarksRequest.decode(request).sink_id)
    return succeed(request)
