"""Fixtures of the interoperability tests: everything fetched first, servers shared by the tests of one module."""

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from admin import AdminTool
from clients import CLIENTS, Client
from real_rocketmq import RealRocketMQ
from regulus_server import RegulusServer
from toolchain import BUILD, MakeFailed, ToolMissing, make_everything

Server = RealRocketMQ | RegulusServer

AT_THE_SAME_TIME = 3
SESSIONS_KEPT = 6

# REGULUS_INTEROP_SERVERS=java-5.3.3 proves the tests themselves on the real broker alone.
SERVERS = tuple(os.environ.get("REGULUS_INTEROP_SERVERS", "regulus java-5.3.3 java-4.9.8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.interop)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Makes the toolchain before the first test: a download takes longer than a test may.

    Ends the run with the sentence that names the mend; nothing is skipped because a tool is missing.
    """
    wanted = any(Path(__file__).parent in item.path.parents for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    try:
        make_everything()
    except (ToolMissing, MakeFailed) as problem:
        pytest.exit(str(problem), returncode=1)


def make_server(name: str, run: Path, **overrides: Any) -> Server:
    """A server by its name: `regulus`, or `java-<version>`."""
    if name == "regulus":
        return RegulusServer(run, **overrides)
    return RealRocketMQ(name.removeprefix("java-"), run, **overrides)


NewRun = Callable[[str], Path]


@pytest.fixture(scope="session")
def new_run() -> NewRun:
    """Makes directories for stores, logs and homes below build/interop/runs; the last sessions are kept."""
    runs = BUILD / "runs"
    session = runs / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    for old in sorted(runs.glob("*"))[:-SESSIONS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)      # a run beside this one may be at it as well
    made = itertools.count(1)

    def make(name: str) -> Path:
        directory = session / f"{next(made):02}-{name}"
        directory.mkdir(parents=True)
        return directory

    return make


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Server]:
    """A running name server and broker with delay levels of one second, and topics made by the first send."""
    started = make_server(request.param, new_run(request.param))
    try:
        started.start()
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def admin(server: Server, new_run: NewRun) -> Iterator[AdminTool]:
    """mqadmin of 5.3.3 on the shared server."""
    with AdminTool("5.3.3", new_run("mqadmin"), server.name_server_address) as tool:
        yield tool


class Outcomes:
    """What one deed gave for each client; the error of a failed one is raised where its result is asked for."""

    def __init__(self, futures: dict[str, Future[Any]]) -> None:
        self._futures = futures

    def __getitem__(self, name: str) -> Any:
        return self._futures[name].result()


def for_each_client(clients: Sequence[Client], deed: Callable[[Client], Any]) -> Outcomes:
    """Do it for all clients, some at the same time: most of a deed is waiting, but its start takes a processor."""
    with ThreadPoolExecutor(AT_THE_SAME_TIME) as pool:
        return Outcomes({client.name: pool.submit(deed, client) for client in clients})


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    chosen: Client = request.param
    return chosen
