"""A front with what cases make and run there, and which fronts and clients they run for."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from admin import AdminTool
from clients import Event, RunningClient
from clients5 import CLIENTS5, Client5
from conftest import NewRun, Outcomes, for_each_client
from fronts5 import Front

# REGULUS_INTEROP_FRONTS=java-5.3.3 proves the tests themselves on the real proxy alone.
FRONTS = tuple(os.environ.get("REGULUS_INTEROP_FRONTS", "regulus java-5.3.3").split())
_CHOSEN = os.environ.get("REGULUS_INTEROP_CLIENTS", "").split()
_ALONE = ("regulus-before-regulus", "regulus-before-java-5.3.3") if "regulus" in FRONTS else ()
GUARDED = (*(("users", front) for front in (*FRONTS, *_ALONE)),
           *(("accounts", front) for front in FRONTS if front == "regulus"))
"""What asks who somebody is, and at which front. RocketMQ's proxy of 5.3.3 knows accounts no more."""
CHOSEN = tuple(client for client in CLIENTS5 if not _CHOSEN or client.name in _CHOSEN)
Case = Callable[["Bench5", Client5], Any]


@pytest.fixture(scope="module", params=GUARDED, ids="-".join)
def guard(request: pytest.FixtureRequest) -> tuple[str, str]:
    """One of GUARDED."""
    chosen: tuple[str, str] = request.param
    return chosen


class Bench5:
    """One front, what the cases need made there, and the results of the cases."""

    def __init__(self, front: Front, admin: AdminTool, new_run: NewRun) -> None:
        self.front, self.name_server, self._admin, self._new_run = front, front.name_server, admin, new_run
        self.outcomes = functools.cache(self._outcomes)

    def topic(self, name: str, kind: str = "NORMAL") -> str:
        said = self._admin.run("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "4", "-w", "4",
                               "-a", f"+message.type={kind}")
        assert "success" in said, said
        return name

    def group(self, name: str, *, in_order: bool = False, retries: int = 16) -> str:
        said = self._admin.run("updateSubGroup", "-c", "DefaultCluster", "-g", name, "-r", str(retries),
                               "-o", str(in_order).lower())
        assert "success" in said, said
        return name

    def home(self, client: Client5) -> Path:
        return self._new_run(client.name)

    def producing(self, client: Client5, topic: str, **options: object) -> list[Event]:
        with self.running(client, "produce", topic, **{"prefix": "m", **options}) as producer:
            producer.wait_for_end()
            return producer.events

    def running(self, client: Client5, deed: str, topic: str, *, authority: Path | None = None,
                **options: object) -> RunningClient:
        """`authority`: of the certificates that it believes, where it asks for any."""
        return RunningClient(client, self.home(client), deed,
                             {"endpoint": self.front.endpoint, "topic": topic, **options},
                             client.trusting(authority or self.front.authority))

    def _outcomes(self, case: Case, clients: tuple[Client5, ...]) -> Outcomes:
        return for_each_client(clients, functools.partial(case, self))
