import threading

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
