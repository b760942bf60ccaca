from regulus.pipeline.archive.status import broker_states
from regulus.spark.archive.manifest import ArchivedFile, Manifest, QueueFacts, Range


def manifest(broker: str, start: int, end: int) -> Manifest:
    file = ArchivedFile(path="p", topic="t", day="d", rows=3, size=10, sha256="", log_bytes=1,
                        queues={0: QueueFacts(0, 3, 3, 5, 100 + end)})
    return Manifest(range=Range(broker, start, end), records=4, rows=3, hidden=0, rejected=1, queues={}, files=(file,))


def test_one_state_a_broker():
    first, second = broker_states([manifest("a", 0, 10), manifest("a", 10, 20), manifest("a", 30, 40),
                                   manifest("b", 5, 9)])
    assert (first.start, first.end, first.gaps, first.ranges, first.rows, first.rejected, first.size,
            first.newest_ms) == (0, 40, 1, 3, 9, 3, 30, 140)
    assert second.as_dict()["broker_name"] == "b"
    assert broker_states([]) == []
