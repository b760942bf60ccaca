"""A record whose queue offset rotted is rejected by a rebuild: no checksum covers the number, and it became a place."""

import pytest

from regulus.pipeline.index.rebuild import rotten
from regulus.pipeline.index.task import Stretch
from regulus.pipeline.range_tasks import LocalTasks
from regulus.record.consume_queue_unit import FILLER, decode_all
from tests.store_ends import write
from tests.stores import fill, open_store
from tests.unit.pipeline.index.test_rebuild import SMALL, ThreeAtATime, rebuild, used_queues

COUNT = 60
QUEUE_ID, QUEUE_OFFSET = 12, 20
"""Where a record has them."""


@pytest.fixture
def store(tmp_path):
    """One queue of `TopicA` and one of `TopicB`, by turns."""
    opened = open_store(tmp_path / "store")
    for number in range(0, COUNT, 4):
        fill(opened, 4, first=number)
        fill(opened, 1, topic="TopicB", first=number)
    opened.close()
    return tmp_path / "store"


def places(root, topic="TopicA"):
    from regulus.spark.store.files import StoreFiles

    files = StoreFiles(str(root))
    queue = files.queue(topic, 0)
    return [queue.unit(offset).physical_offset for offset in range(*queue.bounds(files.log))]


def units(root):
    """The units of each queue, without those of places that were never written."""
    found = {}
    for path, data in used_queues(root).items():
        found.setdefault(path.rpartition("/")[0], []).extend(decode_all(data))
    return {path: [unit for unit in of_queue if unit.size] for path, of_queue in found.items()}


@pytest.mark.parametrize("tasks", [None, ThreeAtATime()])
@pytest.mark.parametrize("offset", [7, 5_000, 1 << 20, 1 << 40, (1 << 63) - 1, -1, -(1 << 63)])
@pytest.mark.parametrize("number", [0, 1, 30, COUNT - 1])
def test_one_rotten_offset_costs_one_message(store, tmp_path, tasks, offset, number):
    broker = units(store)
    write(store, places(store)[number] + QUEUE_OFFSET, offset.to_bytes(8, "big", signed=True))
    report = rebuild(store, tmp_path / "out", tasks, **SMALL)
    expected = {path: list(of_queue) for path, of_queue in broker.items()}
    expected["consumequeue/TopicA/0"][number] = FILLER
    if number == COUNT - 1:
        del expected["consumequeue/TopicA/0"][number]
    assert units(tmp_path / "out") == expected
    assert (report.rejected, report.made_anew) == (1, 0)
    assert "1 records rejected" in str(report)


@pytest.mark.parametrize(("number", "offset"), [(1, 0), (30, 0), (30, 61), (30, 31), (30, 29), (COUNT - 2, COUNT - 1)])
def test_a_number_that_others_have_is_rotten_as_well(store, tmp_path, number, offset):
    broker = units(store)["consumequeue/TopicA/0"]
    write(store, places(store)[number] + QUEUE_OFFSET, offset.to_bytes(8, "big"))
    report = rebuild(store, tmp_path / "out", **SMALL)
    broker[number] = FILLER
    assert units(tmp_path / "out")["consumequeue/TopicA/0"] == broker
    assert (report.rejected, report.made_anew) == (1, 0)


def test_a_queue_that_may_have_begun_again_is_told_of(store, tmp_path):
    """The last number of a queue became 0: so would a topic begin that was made anew."""
    write(store, places(store)[-1] + QUEUE_OFFSET, bytes(8))
    report = rebuild(store, tmp_path / "out", **SMALL)
    assert report.made_anew == 1
    assert "1 queues begin at a later place of the log" in str(report)


@pytest.mark.parametrize(("numbers", "offsets"), [
    *((numbers, offsets) for numbers in ((10, 11, 12), (0, 1, 2), (57, 58, 59), (3, 30, 59))
      for offsets in ((1 << 40, 1 << 20, 1 << 50), (1 << 40, (1 << 40) + 1, (1 << 40) + 2))),
    ((10, 11, 12), (0, 0, 0)), ((0, 1, 2), (0, 0, 0)), ((3, 30, 40), (0, 0, 0))])
def test_several_rotten_offsets_cost_no_more(store, tmp_path, numbers, offsets):
    broker = units(store)["consumequeue/TopicA/0"]
    wrong = [number for number, offset in zip(numbers, offsets, strict=True) if number != offset]
    for number, offset in zip(numbers, offsets, strict=True):
        write(store, places(store)[number] + QUEUE_OFFSET, offset.to_bytes(8, "big"))
    report = rebuild(store, tmp_path / "out", **SMALL)
    made = units(tmp_path / "out")["consumequeue/TopicA/0"]
    assert [unit for unit in made if unit != FILLER] == [
        unit for number, unit in enumerate(broker) if number not in wrong]
    assert report.rejected == len(wrong)
    assert sum(len(data) for data in used_queues(tmp_path / "out").values()) < 4_000


class Watched(LocalTasks):
    """Notes the queues' files after each pass over the log."""

    def __init__(self, output):
        self.output = output
        self.files = []

    def run(self, work, tasks):
        done = super().run(work, tasks)
        self.files.append(sorted(int(path.name) for path in (self.output / "consumequeue").glob("*/*/*")))
        return done


@pytest.mark.parametrize("offset", [5_000, 1 << 40, (1 << 63) - 1])
def test_no_file_is_made_for_a_number_that_no_log_could_have(store, tmp_path, offset):
    write(store, places(store)[30] + QUEUE_OFFSET, offset.to_bytes(8, "big"))
    watched = Watched(tmp_path / "out")
    rebuild(store, tmp_path / "out", watched, **SMALL)
    assert max(max(files) for files in watched.files if files) < COUNT * 20


@pytest.mark.parametrize("queue_id", [1, 9, 1 << 30])
def test_a_rotten_queue_id_leaves_its_queue_whole(store, tmp_path, queue_id):
    broker = units(store)["consumequeue/TopicA/0"]
    write(store, places(store)[30] + QUEUE_ID, queue_id.to_bytes(4, "big"))
    rebuild(store, tmp_path / "out", **SMALL)
    broker[30] = FILLER
    assert units(tmp_path / "out")["consumequeue/TopicA/0"] == broker


def test_a_topic_made_anew_is_told_from_a_rotten_offset(tmp_path):
    opened = open_store(tmp_path / "store")
    fill(opened, 30)
    opened.delete_topic("TopicA")
    fill(opened, 20, first=500)
    opened.close()
    broker = units(tmp_path / "store")
    write(tmp_path / "store", places(tmp_path / "store")[7] + QUEUE_OFFSET, (1 << 40).to_bytes(8, "big"))
    report = rebuild(tmp_path / "store", tmp_path / "out", **SMALL)
    broker["consumequeue/TopicA/0"][7] = FILLER
    assert units(tmp_path / "out") == broker
    assert (report.rejected, report.made_anew) == (1, 1)


def of(*numbers):
    """Stretches, 1000 bytes of the log for each message."""
    found, place = [], 0
    for first, behind in numbers:
        found.append(Stretch(first, behind, place, place + 1000 * (behind - first - 1)))
        place += 1000 * (behind - first)
    return found


@pytest.mark.parametrize(("stretches", "bad"), [
    ([(0, 9), (9, 12)], []),
    ([(0, 9), (12, 15)], []),
    ([(0, 9), (500, 501), (10, 20)], [1]),
    ([(0, 9), (500, 501)], [1]),
    ([(0, 9), (0, 1), (10, 20)], [1]),
    ([(0, 9), (0, 1)], []),
    ([(0, 9), (0, 5), (5, 7)], []),
    ([(0, 9), (3, 4), (800, 801), (11, 20)], [1, 2]),
    ([(500, 501), (1, 20)], [0]),
    ([(0, 30), (9, 12)], [1]),
])
def test_what_is_rotten(stretches, bad):
    found = of(*stretches)
    assert rotten(found, holes_max=10, restart_max=0) == [found[number] for number in bad]
