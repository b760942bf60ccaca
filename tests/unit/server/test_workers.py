import threading

import pytest

from regulus.server.workers import Line, ThreadWorkers


def test_a_line_does_one_after_the_other_and_lines_do_not_wait() -> None:
    workers = ThreadWorkers()
    opened, done = threading.Event(), []
    waits = workers.line(Line.QUEUES).submit(opened.wait, 5)
    behind = workers.line(Line.QUEUES).submit(done.append, "behind")
    workers.line(Line.FLUSH).submit(done.append, "beside").result(60)
    assert done == ["beside"]
    assert not behind.done()
    opened.set()
    assert waits.result(60)
    workers.shutdown()
    assert done == ["beside", "behind"]


def test_a_line_is_the_same_at_each_call_and_names_its_thread() -> None:
    workers = ThreadWorkers()
    assert workers.line(Line.FLUSH) is workers.line(Line.FLUSH)
    names = workers.line(Line.DOCUMENTS).submit(lambda: threading.current_thread().name).result(60)
    assert names.startswith("regulus-documents")
    workers.shutdown()


def test_a_line_has_its_thread_before_its_first_work_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker does not start where the system gives it no threads, instead of losing its flusher later."""
    workers = ThreadWorkers()
    line = workers.line(Line.FLUSH)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert line.submit(lambda: "done").result(60) == "done"
    with pytest.raises(OSError, match=r"no thread for documents .*ulimit -u or TasksMax"):
        workers.line(Line.DOCUMENTS)
    monkeypatch.undo()
    assert workers.line(Line.DOCUMENTS).submit(lambda: "later").result(60) == "later"
    workers.shutdown()
