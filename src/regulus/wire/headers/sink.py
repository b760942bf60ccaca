"""GET_SINK_MARKS (20004), a request of our own: how far the writers of a sink have come.

The answer's body is a JSON object: `<sinkId>/<partition>` to `{"seq", "topic", "queueId", "queueOffset",
"physicalOffset"}`, the last message of that writer that the broker stored.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header


@dataclass(frozen=True, slots=True)
class GetSinkMarksRequest(Header):
    sink_id: str
