import pyarrow as pa
import pytest

from regulus.client.core.queue_selector import select_by_hash
from regulus.errors import RowRefused
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.spark.sink.lanes import ROWS_PER_TURN, Lanes
from regulus.spark.sink.rows import rows_of

QUEUES = tuple(MessageQueue("orders", broker, number) for broker in ("broker-a", "broker-b") for number in range(2))


def lanes(partition: int = 0, batch: int = 0, topic: str | None = "orders") -> Lanes:
    return Lanes(partition=partition, batch=batch, topic=topic, queues_of=lambda name: [
        MessageQueue(name, queue.broker_name, queue.queue_id) for queue in QUEUES])


def places(table: Lanes, sizes: list[int], columns: dict[str, list] | None = None) -> dict[int, tuple]:
    """Where each row, known by its body, goes and under which number, when they come in batches of these sizes."""
    found, first = {}, 0
    for size in sizes:
        taken = {name: values[first:first + size] for name, values in (columns or {}).items()}
        batch = pa.RecordBatch.from_pydict({"body": [b"%d" % row for row in range(first, first + size)], **taken})
        rows, runs = table.runs(rows_of(batch, first, "0" * 28, "task"))
        first += size
        for run in runs:
            for row in range(run.start, run.end):
                queue = run.lane.queue
                found[int(rows.bodies[row].as_py())] = (queue.topic, queue.broker_name, queue.queue_id,
                                                        run.lane.next_row, run.delay_level)
                run.lane.next_row += 1
    return found


def test_runs_of_rows_go_to_one_queue_after_another():
    found = places(lanes(), [4 * ROWS_PER_TURN + 1])
    assert [found[turn * ROWS_PER_TURN][1:4] for turn in range(5)] == [
        ("broker-a", 0, 0), ("broker-a", 1, 0), ("broker-b", 0, 0), ("broker-b", 1, 0), ("broker-a", 0, ROWS_PER_TURN)]


def test_tasks_and_batches_start_at_different_queues():
    assert {places(lanes(partition, batch), [1])[0][1:3] for partition, batch in ((0, 0), (1, 0), (1, 1), (1, 2))} == {
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)}


@pytest.mark.parametrize("columns", [
    {},
    {"sharding_key": [f"s{row % 7}" if row % 3 else None for row in range(3000)]},
    {"queue_id": [row % 2 if row % 5 else None for row in range(3000)]},
    {"topic": [f"t{row % 3}" for row in range(3000)]},
    {"topic": [f"t{row % 3}" for row in range(3000)], "sharding_key": [f"s{row % 7}" for row in range(3000)],
     "delay_level": [row % 11 // 10 for row in range(3000)]},
])
def test_places_do_not_depend_on_how_the_rows_are_cut(columns):
    topic = None if "topic" in columns else "orders"
    whole = places(lanes(topic=topic), [3000], columns)
    assert whole == places(lanes(topic=topic), [1, 999, 700, 1300], columns)
    numbers: dict[tuple, list[int]] = {}
    for place in whole.values():
        numbers.setdefault(place[:3], []).append(place[3])
    assert all(sorted(each) == list(range(len(each))) for each in numbers.values())


def test_a_sharding_key_chooses_as_java_does():
    keys = [f"customer-{number}" for number in range(50)]
    found = places(lanes(), [50], {"sharding_key": keys})
    for row, key in enumerate(keys):
        queue = select_by_hash(QUEUES, Message("orders", b"x"), key)
        assert found[row][1:3] == (queue.broker_name, queue.queue_id)


def test_rows_of_a_key_keep_their_order():
    found = places(lanes(), [100], {"sharding_key": [f"s{row % 3}" for row in range(100)]})
    for key in range(3):
        numbers = [found[row][3] for row in range(key, 100, 3)]
        assert numbers == sorted(numbers)


def test_a_queue_that_is_not_there_is_refused():
    with pytest.raises(RowRefused, match="row 1 of task 4 names queue 9; topic orders has 0 to 1"):
        places(lanes(partition=4), [2], {"queue_id": [0, 9]})
