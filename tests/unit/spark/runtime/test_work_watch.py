"""What Spark says of its work while it works."""

from pathlib import Path
from threading import Thread
from time import monotonic
from types import SimpleNamespace

import pyarrow as pa
import pytest

from regulus.spark.runtime.work import Work
from regulus.spark.runtime.work_watch import ServerNews, watched


@pytest.mark.spark
def test_rows_and_tasks_are_seen_while_a_query_runs(spark, tmp_path):
    """A query whose last task waits until the ones before it were seen."""
    go_on = tmp_path / "go-on"

    def wait(batches):
        import time

        for batch in batches:
            while batch.column(0)[0].as_py() >= 30 and not Path(go_on).exists():
                time.sleep(0.01)
            yield batch

    results: list[pa.Table] = []
    with watched(spark) as look:
        query = Thread(target=lambda: results.append(
            spark.range(0, 40, 1, 4).mapInArrow(wait, "id bigint").toArrow()))
        query.start()
        try:
            seen, deadline = None, monotonic() + 60
            while query.is_alive() and (seen is None or (seen.tasks_done, seen.rows) != (3, 30)):
                assert monotonic() < deadline, seen
                seen = look()
        finally:
            go_on.touch()
            query.join()
        deadline = monotonic() + 60
        while look() is not None:       # Spark's books are a little behind
            assert monotonic() < deadline
    assert seen is not None
    assert (seen.tasks_done, seen.tasks, seen.rows) == (3, 4, 30)
    assert seen.seconds > 0
    assert results[0].num_rows == 40


def test_news_of_a_server_are_of_the_query_that_runs():
    now = [5.0]
    news = ServerNews(lambda: now[0])

    def stage(tasks: int, done: int, size: int) -> SimpleNamespace:
        return SimpleNamespace(num_tasks=tasks, num_completed_tasks=done, num_bytes_read=size)

    assert news.work is None
    news([stage(4, 0, 0)], 2, "one", False)
    now[0] = 8.0
    news([stage(4, 3, 300), stage(2, 0, 7)], 2, "one", False)
    assert news.work == Work(tasks_done=3, tasks=6, rows=0, size=307, seconds=3.0)
    news([stage(4, 4, 300)], 0, "one", True)
    assert news.work is None
    news([stage(4, 1, 0)], 1, "two", False)
    assert news.work is not None
    assert news.work.seconds == 0
