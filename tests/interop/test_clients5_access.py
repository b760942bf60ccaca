"""The official RocketMQ 5 clients with credentials: before users (ACL 2.0) at ours, in a broker and by itself, and at
RocketMQ's proxy, and before accounts (ACL 1.0), which RocketMQ's proxy of 5.3.3 knows no more, at ours."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from bench5 import CHOSEN, Bench5, guard
from clients5 import Client5
from conftest import NewRun
from fronts5 import start_guarded
from guards import BILLING, refusal
from toolchain import make_clients5

__all__ = ["guard"]

pytestmark = pytest.mark.long
BODIES = ["m-0", "m-1", "m-2"]


class Try(NamedTuple):
    """What somebody tries who may not, and for want of what. Without a topic or a group: at those of the client."""

    wants: str
    deed: str
    signs: dict[str, str] = BILLING
    topic: str = ""
    group: str = ""


ANOTHER_SECRET = {**BILLING, "secret_key": "another-secret"}
TRIES = (
    Try("the secret", "produce", ANOTHER_SECRET), Try("the secret", "receive", ANOTHER_SECRET),
    Try("a known key", "produce", {**BILLING, "access_key": "nobody"}), Try("a key", "produce", {}),
    Try("the topic", "produce", topic="forbidden"), Try("the topic", "receive", topic="forbidden"),
    Try("the group", "receive", group="G-forbidden"),
)
UNSEEN = {("go5", "the group"): "failed to sync settings during startUp: EOF"}
"""What it says that does not read why its stream of settings ended."""


def _topic(client: Client5) -> str:
    return f"allowed-{client.name}"


def _group(client: Client5) -> str:
    return f"G-allowed-{client.name}"


@pytest.fixture(scope="module")
def bench(guard: tuple[str, str], new_run: NewRun) -> Iterator[Bench5]:
    make_clients5()
    kind, name = guard
    with ExitStack() as stack:
        home = new_run(f"front5-{kind}-{name}")
        front, admin = start_guarded(kind, name, stack, home, {_topic(client): "PUB|SUB" for client in CHOSEN},
                                     [_group(client) for client in CHOSEN])
        bench = Bench5(front, admin, new_run)
        bench.topic("forbidden")
        bench.group("G-forbidden")
        for client in CHOSEN:
            bench.topic(_topic(client))
            bench.group(_group(client))
        yield bench


def _signed(bench: Bench5, client: Client5) -> dict[str, list[str]]:
    topic, group, found = _topic(client), _group(client), {}
    for deed in ("receive", "push") if client.pushes else ("receive",):
        with bench.running(client, deed, topic, group=group, **BILLING) as consumer:
            consumer.wait_for_start()
            bench.producing(client, topic, kind="normal", count=len(BODIES), **BILLING)
            consumer.wait_for_bodies(BODIES)
            consumer.finish()
            found[deed] = sorted(consumer.bodies())
    return found


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_a_client_with_credentials_sends_receives_and_pushes(bench: Bench5, client: Client5) -> None:
    deeds = ("receive", "push") if client.pushes else ("receive",)
    assert bench.outcomes(_signed, CHOSEN)[client.name] == dict.fromkeys(deeds, BODIES)


def _refused(bench: Bench5, client: Client5) -> list[tuple[Try, list[str], str]]:
    """Of each try: the events, and all that the client wrote."""
    found = []
    for each in TRIES:
        with bench.running(client, each.deed, each.topic or _topic(client), group=each.group or _group(client),
                           kind="normal", prefix="refused", count=1, **each.signs) as running:
            written = running.wait_for_failure()
            found.append((each, [event["event"] for event in running.events], written))
    return found


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_a_client_that_may_not_is_refused_and_told_why(guard: tuple[str, str], bench: Bench5, client: Client5) -> None:
    for each, events, written in bench.outcomes(_refused, CHOSEN)[client.name]:
        assert not {"sent", "message"} & set(events), each
        told = refusal(guard, each.wants, each.group or each.topic)
        assert UNSEEN.get((client.name, each.wants), told) in written, each
