"""GET_SINK_MARKS (20004) and RELEASE_SINK_MARKS (20006), requests of our own: how far the writers of a sink have come,
and that all that it had to write is written, so that they are forgotten before others.

The body of the first answer is a JSON object: `<sinkId>/<partition>` to `{"seq", "topic", "queueId", "queueOffset",
"physicalOffset", "rowDigest"}`, the last message of that writer that the broker stored, and the digest of its batch up
to there. With `from_batch` only writers that have come to that batch are told.
"""

from dataclasses import dataclass

from regulus.wire.ext_fields import Header, Long


@dataclass(frozen=True, slots=True)
class GetSinkMarksRequest(Header):
    sink_id: str
    from_batch: Long = 0


@dataclass(frozen=True, slots=True)
class ReleaseSinkMarksRequest(Header):
    sink_id: str
