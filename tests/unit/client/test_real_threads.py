"""Threads of the system, where gevent has put greenlets in their place: its part is played here."""

import asyncio
import sys
import threading
import types
from concurrent.futures import wait

import pytest

from regulus.client import real_threads, shared_loop
from regulus.client.sync import Admin
from regulus.client.tasks import in_thread
from regulus.errors import ClientError


@pytest.fixture
def started(monkeypatch):
    """The names of the threads that were started by what was there before greenlets."""
    names = []

    def start_new_thread(function, arguments):
        def run():
            names.append(threading.get_ident())
            function(*arguments)
        threading.Thread(target=run, daemon=True).start()

    originals = {"start_new_thread": start_new_thread, "allocate_lock": threading.Lock}
    gevent = types.ModuleType("gevent.monkey")
    gevent.is_module_patched = lambda name: name == "threading"
    gevent.get_original = lambda module, name: originals[name]
    monkeypatch.setitem(sys.modules, "gevent.monkey", gevent)
    return names


def test_a_thread_is_one_of_the_system(started):
    ran = threading.Event()
    real_threads.start(ran.set, "x")
    assert ran.wait(60)
    assert len(started) == 1


def test_a_pool_has_no_more_threads_than_it_may_and_does_all_work(started):
    pool = real_threads.pool(3, "x")
    gate = threading.Barrier(4)
    futures = [pool.submit(gate.wait, 60) for _ in range(3)]
    later = [pool.submit(pow, 2, number) for number in range(50)]
    failing = pool.submit(next, iter(()))
    gate.wait(60)
    wait([*futures, *later, failing], 60)
    assert [future.result() for future in later] == [2 ** number for number in range(50)]
    assert isinstance(failing.exception(), StopIteration)
    assert len(started) == 3
    pool.shutdown()


async def test_a_pool_serves_an_event_loop(started):
    asyncio.get_running_loop().set_default_executor(real_threads.pool(2, "x"))
    assert await in_thread(threading.get_ident) in started


def test_without_gevent_a_pool_is_the_usual_one():
    assert type(real_threads.pool(1, "x")).__module__ == "concurrent.futures.thread"


def test_where_eventlet_has_taken_the_threads_a_client_is_refused_in_one_sentence(monkeypatch):
    shared_loop.call(lambda: None)      # the loop is there already: what comes later is refused, too
    eventlet = types.ModuleType("eventlet.patcher")
    eventlet.is_monkey_patched = lambda name: name == "thread"
    monkeypatch.setitem(sys.modules, "eventlet.patcher", eventlet)
    with pytest.raises(ClientError, match="eventlet has replaced threads by greenlets"):
        Admin("127.0.0.1:9876")


def test_where_no_thread_can_be_started_a_client_is_refused(monkeypatch):
    def cannot(target, name):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(shared_loop, "_loops", [])
    monkeypatch.setattr(real_threads, "start", cannot)
    with pytest.raises(ClientError, match="a blocking client needs a thread, which cannot be started here: can't st"):
        Admin("127.0.0.1:9876")
