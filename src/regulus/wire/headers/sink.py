"""GET_SINK_MARKS (20004), a request of our own: how far the writers of a sink have come.

The answer's body is a JSON object: `<sinkId>/<partition>` to `{"seq", "topic", "queueId", "queueOffset",
"physicalOffset", "rowDigest"}`, the last message of that writer that the broker stored, and the digest of its batch up
to there. With `from_batch` only writers that have come to that batch are told.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True)
class GetSinkMarksRequest(Header):
    sink_id: str
    from_batch: Long = 0
