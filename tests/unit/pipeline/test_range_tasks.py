import gc
import os

import pytest

from regulus.errors import DataLoss, OptionError
from regulus.pipeline.range_tasks import LocalTasks, Look, SeenTasks, SparkTasks, check_shared
from regulus.spark.archive.manifest import Range


def doubled(number: int, attempt: str) -> int:
    assert attempt
    if number < 0:
        raise DataLoss(f"{number} is gone")
    return 2 * number


def test_results_come_in_the_order_of_the_tasks():
    assert LocalTasks().run(doubled, [3, 1, 2]) == [6, 2, 4]
    assert LocalTasks().run(doubled, []) == []


@pytest.mark.spark
def test_the_same_with_spark(spark):
    tasks = SparkTasks(spark)
    assert tasks.parallelism == 2
    assert tasks.run(doubled, [3, 1, 2]) == [6, 2, 4]
    assert tasks.run(doubled, []) == []
    with pytest.raises(DataLoss, match=r"^-1 is gone$"):
        tasks.run(doubled, [1, -1])


def kept_from_collection(number: int, attempt: str) -> tuple[int, int]:
    return os.getpid(), gc.get_freeze_count()


@pytest.mark.spark
def test_a_worker_does_not_look_at_its_imports_behind_each_task(spark):
    counts = SparkTasks(spark).run(kept_from_collection, list(range(6)))
    assert os.getpid() not in dict(counts)
    assert min(kept for _, kept in counts) > 10_000


class Apart(LocalTasks):
    """The last of its two cores has another disk."""

    parallelism = 2

    def run(self, work, tasks):
        return [work(task, "0") for task in [*tasks[:-1], Look(f"/elsewhere{tasks[-1].path}")]]


def test_a_directory_that_not_all_tasks_share_is_refused_and_nothing_stays_in_it(tmp_path):
    check_shared(LocalTasks(), tmp_path / "new" / "one")
    with pytest.raises(OptionError, match=f"do not see what is written into {tmp_path} here: name a directory that"):
        check_shared(Apart(), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_bytes_of_tasks_are_told_before_they_begin():
    told: list[object] = []
    tasks = SeenTasks(LocalTasks(), told.append)

    def work(task: Range, attempt: str) -> int:
        told.append(task.start)
        return task.end

    assert tasks.run(work, [Range("b", 0, 30), Range("b", 30, 100)]) == [30, 100]
    assert told == [100, 0, 30]
    assert tasks.parallelism == 1
