from regulus.model.message_queue import MessageQueue
from regulus.spark.archive_manifest import Manifest, Range
from regulus.spark.archive_plan import bounds, ends
from tests.archives import archive_store
from tests.unit.spark.conftest import order


def test_where_queues_begin_and_end(make_store, tmp_path):
    messages = [order(number) for number in range(40)] + [order(number, topic="%RETRY%g") for number in range(10)]
    archive_store(make_store(messages), tmp_path / "archive", range_size=1024)
    assert ends(str(tmp_path / "archive")) == {
        MessageQueue("orders", "broker-a", 0): 20, MessageQueue("orders", "broker-a", 1): 20,
        MessageQueue("%RETRY%g", "broker-a", 0): 5, MessageQueue("%RETRY%g", "broker-a", 1): 5}


def test_a_topic_made_anew_begins_behind_its_last_restart():
    def of(start, *stretches):
        return Manifest(range=Range("b", start, start + 10), records=0, rows=0, hidden=0, rejected=0,
                        queues={("t", 0): stretches}, files=())

    queue = MessageQueue("t", "b", 0)
    assert bounds([of(0, (3, 9)), of(10, (9, 12)), of(20, (0, 4)), of(30, (4, 6))]) == {queue: (0, 6, 20, False)}
    assert bounds([of(0, (3, 9)), of(10, (9, 12), (0, 4)), of(20, (4, 6))]) == {queue: (0, 6, 10, True)}
    assert bounds([of(0, (3, 9), (10, 12)), of(10, (15, 20))]) == {queue: (3, 20, 0, False)}
