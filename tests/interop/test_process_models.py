"""Our clients in the processes of others: workers of gunicorn, uvicorn and Celery, with gevent too.

Each request stores one message and begins ten sends that nobody asks for; the workers are told to end at once after the
last request. All is stored.
"""

import os
import socket
import subprocess
import sysconfig
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from child_process import ChildProcess
from conftest import NewRun
from ports import free_ports
from regulus_server import RegulusServer
from toolchain import HERE, our_environment, workers_python

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig

REQUESTS = 100
READY_WITHIN_S = 60.0

WEB: dict[str, tuple[str, ...]] = {
    "gunicorn sync": ("gunicorn", "-w", "2", "-b", "127.0.0.1:{port}", "wsgi_app:application"),
    "gunicorn gthread": ("gunicorn", "-w", "2", "-k", "gthread", "--threads", "4", "-b", "127.0.0.1:{port}",
                         "wsgi_app:application"),
    "gunicorn gevent": ("gunicorn", "-w", "2", "-k", "gevent", "-b", "127.0.0.1:{port}", "wsgi_app:application"),
    "gunicorn preload": ("gunicorn", "-w", "2", "--preload", "-b", "127.0.0.1:{port}", "wsgi_app:application"),
    "uvicorn": ("uvicorn", "--port", "{port}", "asgi_app:application"),
    "uvicorn workers": ("uvicorn", "--workers", "2", "--port", "{port}", "asgi_app:application"),
}


@pytest.fixture(scope="module")
def broker(new_run: NewRun) -> Iterator[RegulusServer]:
    server = RegulusServer(new_run("regulus"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def stored(broker: RegulusServer) -> Iterator[Any]:
    """How many messages came since."""
    with Admin(broker.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="Web"))

        def count() -> int:
            return sum(offsets.max_offset for offsets in admin.topic_stats("Web").values())

        before = count()
        yield lambda: count() - before


def environment(broker: RegulusServer, **more: str) -> dict[str, str]:
    """The packages that we need ourselves come last, after those of the workers."""
    ours = our_environment()
    return {**ours, "PYTHONPATH": os.pathsep.join([ours["PYTHONPATH"], str(HERE / "workers"),
                                                   sysconfig.get_path("platlib")]),
            "NAMESRV_ADDR": broker.name_server_address, **more}


def asked(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        body: bytes = answer.read()
    return body


def await_port(process: ChildProcess, port: int) -> int:
    """The messages that are sent until it answers."""
    until = time.monotonic() + READY_WITHIN_S
    while True:
        process.check_alive()
        try:
            asked(port)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.1)
        else:
            return 11


@pytest.mark.parametrize("model", WEB)
def test_web_workers(model: str, broker: RegulusServer, stored: Any, new_run: NewRun) -> None:
    [port] = free_ports(1)
    program, *words = [word.format(port=port) for word in WEB[model]]
    home = new_run(program)
    process = ChildProcess(model, [str(workers_python()), "-m", program, *words], home / "log", environment(broker),
                           home)
    try:
        first = await_port(process, port)
        with ThreadPoolExecutor(8) as callers:
            pids = set(callers.map(lambda _: asked(port), range(REQUESTS)))
        process.stop()
    finally:
        process.kill()
    assert stored() == first + REQUESTS * 11
    assert b"" not in pids


def test_celery_prefork(broker: RegulusServer, stored: Any, new_run: NewRun) -> None:
    home = new_run("celery")
    folder = home / "queue"
    folder.mkdir()
    settings = environment(broker, CELERY_FOLDER=str(folder))
    python = str(workers_python())
    process = ChildProcess("celery", [python, "-m", "celery", "-A", "celery_app", "worker", "--pool", "prefork",
                                      "--concurrency", "2", "--without-mingle", "--without-gossip",
                                      "--without-heartbeat"], home / "log", settings, home)
    caller = ("from celery_app import work\n"
              f"results = [work.delay() for _ in range({REQUESTS})]\n"
              "print([result.get(timeout=60) for result in results])\n")
    try:
        subprocess.run([python, "-c", caller], env=settings, cwd=home, timeout=90, check=True)
        process.stop()
    finally:
        process.kill()
    assert stored() == REQUESTS * 11


def test_all_blocking_clients_beside_greenlets(broker: RegulusServer, new_run: NewRun) -> None:
    home = new_run("gevent")
    with Admin(broker.name_server_address) as admin:
        for topic in ("Green", "NothingComes"):
            admin.create_topic(TopicConfig(topic_name=topic))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))       # and listens never
        away = f"127.0.0.1:{closed.getsockname()[1]}"
        done = subprocess.run([str(workers_python()), str(HERE / "workers" / "gevent_clients.py"), away, str(home)],
                              env=environment(broker), cwd=home, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
