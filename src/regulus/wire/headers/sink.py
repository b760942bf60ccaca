"""GET_SINK_MARKS (20004) and RELEASE_SINK_MARKS (20006), requests of Regulus's own for sinks that write without
duplicates.

GET_SINK_MARKS asks how far the writers of a sink have come. The body of its answer is a JSON object:
`<sinkId>/<partition>` to `{"seq", "topic", "queueId", "queueOffset", "physicalOffset", "rowDigest"}`, the last message
of that writer that the broker stored, and the digest of its batch up to that message. With `from_batch`, the answer has
only writers that have reached that batch.

RELEASE_SINK_MARKS says that the sink has written everything, so that its writers are forgotten before those of other
sinks.
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
