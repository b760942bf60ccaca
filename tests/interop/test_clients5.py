"""The official RocketMQ 5 clients of five languages at RocketMQ's own proxy and at ours.

The column of the real proxy proves the programs right. A case runs for some clients at the same time, on topics and
groups of their own; its result is asked for once for each client.
"""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from admin import AdminTool
from clients import JAVA, Event, RunningClient
from clients5 import CLIENTS5, JAVA5, PYTHON5, Client5
from conftest import NewRun, Outcomes, for_each_client
from fronts5 import Front, start_front
from toolchain import make_clients5

# REGULUS_INTEROP_FRONTS=java-5.3.3 proves the tests themselves on the real proxy alone.
FRONTS = tuple(os.environ.get("REGULUS_INTEROP_FRONTS", "regulus java-5.3.3").split())
_CHOSEN = os.environ.get("REGULUS_INTEROP_CLIENTS", "").split()
CHOSEN = tuple(client for client in CLIENTS5 if not _CHOSEN or client.name in _CHOSEN)
PUSHING = tuple(client for client in CHOSEN if client.pushes)
CHANGING = tuple(client for client in CHOSEN if client.changes_invisible_time)
pytestmark = pytest.mark.long
DELAY_MS = 4000
RETRIES = 2


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
        return client.produce(self.home(client), endpoint=self.front.endpoint, topic=topic, prefix="m", **options)

    def running(self, client: Client5, deed: str, topic: str, **options: object) -> RunningClient:
        return RunningClient(client, self.home(client), deed, {"endpoint": self.front.endpoint, "topic": topic,
                                                               **options})

    def _outcomes(self, case: Callable[["Bench5", Client5], Any], clients: tuple[Client5, ...]) -> Outcomes:
        return for_each_client(clients, functools.partial(case, self))


@pytest.fixture(scope="module", params=FRONTS)
def bench(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Bench5]:
    make_clients5()
    with ExitStack() as stack:
        front = start_front(request.param, stack, new_run(f"front5-{request.param}"))
        admin = stack.enter_context(AdminTool("5.3.3", new_run("mqadmin"), front.name_server))
        yield Bench5(front, admin, new_run)


def _bodies(count: int) -> list[str]:
    return [f"m-{index}" for index in range(count)]


def _sent(events: list[Event]) -> dict[str, Event]:
    return {event["body"]: event for event in events if event["event"] == "sent"}


def _filtered(bench: Bench5, client: Client5, option: str, expression: str) -> tuple[list[Event], list[Event]]:
    topic, group = bench.topic(f"{option}-{client.name}"), bench.group(f"G-{option}-{client.name}")
    with bench.running(client, "receive", topic, group=group, **{option: expression}) as consumer:
        consumer.wait_for_start()
        sent = bench.producing(client, topic, kind="normal", count=12, tags="A,B,C")
        consumer.wait_until(lambda: sum(event["event"] == "acked" for event in consumer.events) >= 8, "8 messages")
        consumer.finish()
        return sent, consumer.messages()


def _tags(bench: Bench5, client: Client5) -> tuple[list[Event], list[Event]]:
    return _filtered(bench, client, "tag", "A || B")


def _sql(bench: Bench5, client: Client5) -> tuple[list[Event], list[Event]]:
    return _filtered(bench, client, "sql", "index >= 4")


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_what_is_sent_is_received_once_by_its_tag(bench: Bench5, client: Client5) -> None:
    sent, received = bench.outcomes(_tags, CHOSEN)[client.name]
    ids = {body: event["id"] for body, event in _sent(sent).items()}
    assert len(set(ids.values())) == 12
    got = [(event["body"], event["id"], event["tag"], event["attempt"]) for event in received]
    assert sorted(got) == sorted((f"m-{index}", ids[f"m-{index}"], "AB"[index % 3], 1)
                                 for index in range(12) if index % 3 < 2)


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_what_is_sent_is_received_once_by_its_properties(bench: Bench5, client: Client5) -> None:
    _, received = bench.outcomes(_sql, CHOSEN)[client.name]
    assert sorted(event["body"] for event in received) == sorted(f"m-{index}" for index in range(4, 12))


def _ordered(bench: Bench5, client: Client5) -> list[Event]:
    topic = bench.topic(f"fifo-{client.name}", "FIFO")
    group = bench.group(f"G-fifo-{client.name}", in_order=True)
    with bench.running(client, "receive", topic, group=group) as consumer:
        consumer.wait_for_start()
        bench.producing(client, topic, kind="fifo", count=12, message_groups="x,y")
        consumer.wait_for_bodies(_bodies(12))
        consumer.finish()
        return consumer.messages()


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_messages_of_a_group_come_in_order(bench: Bench5, client: Client5) -> None:
    received = bench.outcomes(_ordered, CHOSEN)[client.name]
    assert [event["body"] for event in received if event["group"] == "x"] == [f"m-{i}" for i in range(0, 12, 2)]
    assert [event["body"] for event in received if event["group"] == "y"] == [f"m-{i}" for i in range(1, 12, 2)]


def _delayed(bench: Bench5, client: Client5) -> tuple[list[Event], list[Event]]:
    topic, group = bench.topic(f"delay-{client.name}", "DELAY"), bench.group(f"G-delay-{client.name}")
    with bench.running(client, "receive", topic, group=group) as consumer:
        consumer.wait_for_start()
        sent = bench.producing(client, topic, kind="delay", count=3, delay_ms=DELAY_MS)
        consumer.wait_for_bodies(_bodies(3))
        consumer.finish()
        return sent, consumer.messages()


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_a_delayed_message_is_never_early(bench: Bench5, client: Client5) -> None:
    sent, received = bench.outcomes(_delayed, CHOSEN)[client.name]
    assert sorted(event["body"] for event in received) == _bodies(3)
    for event in received:
        due = _sent(sent)[event["body"]]["due"]
        assert due > 0
        assert event["at"] >= due, f"{due - event['at']} ms early"


def _transactions(bench: Bench5, client: Client5) -> tuple[list[Event], list[Event]]:
    topic, group = bench.topic(f"trans-{client.name}", "TRANSACTION"), bench.group(f"G-trans-{client.name}")
    with (bench.running(client, "receive", topic, group=group) as consumer,
          bench.running(client, "produce", topic, prefix="m", kind="transaction", count=3,
                        ends="commit,rollback,none") as producer):
        consumer.wait_for_start()
        consumer.wait_for_bodies(["m-0", "m-2"])
        producer.finish()
        consumer.finish()
        return producer.events, consumer.messages()


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_transactions_are_ended_once_and_an_orphan_is_asked_for(bench: Bench5, client: Client5) -> None:
    said, received = bench.outcomes(_transactions, CHOSEN)[client.name]
    assert {event["body"] for event in said if event["event"] == "checked"} == {"m-2"}
    assert sorted(event["body"] for event in received) == ["m-0", "m-2"]


def _changed(bench: Bench5, client: Client5) -> list[Event]:
    topic, group = bench.topic(f"change-{client.name}"), bench.group(f"G-change-{client.name}")
    with bench.running(client, "receive", topic, group=group, invisible_ms=60000, change_ms=10000) as consumer:
        consumer.wait_for_start()
        bench.producing(client, topic, kind="normal", count=1)
        consumer.wait_until(lambda: any(event["event"] == "acked" for event in consumer.events), "the second attempt")
        consumer.finish()
        return consumer.events


@pytest.mark.parametrize("client", CHANGING, ids=lambda client: client.name)
def test_a_changed_invisible_time_counts_from_the_change(bench: Bench5, client: Client5) -> None:
    events = bench.outcomes(_changed, CHANGING)[client.name]
    attempts = [event for event in events if event["event"] == "message"]
    (changed,) = [event for event in events if event["event"] == "changed"]
    assert [event["attempt"] for event in attempts] == [1, 2]
    # Counted by the server from when it heard of it, which was some time within the call.
    assert 9000 <= attempts[1]["at"] - changed["at"] < 40000


def _retried(bench: Bench5, client: Client5) -> list[Event]:
    topic, group = bench.topic(f"retry-{client.name}"), bench.group(f"G-retry-{client.name}")
    with bench.running(client, "push", topic, group=group, fail=RETRIES) as consumer:
        consumer.wait_for_start()
        bench.producing(client, topic, kind="normal", count=2)
        consumer.wait_until(lambda: len(consumer.messages()) >= 2 * (RETRIES + 1), "every attempt")
        consumer.finish()
        return consumer.messages()


@pytest.mark.parametrize("client", PUSHING, ids=lambda client: client.name)
def test_a_push_consumer_that_fails_is_asked_again(bench: Bench5, client: Client5) -> None:
    received = bench.outcomes(_retried, PUSHING)[client.name]
    for body in _bodies(2):
        assert [event["attempt"] for event in received if event["body"] == body] == [1, 2, 3]


def _dead(bench: Bench5, client: Client5) -> tuple[list[Event], list[str]]:
    topic, group = bench.topic(f"dead-{client.name}"), bench.group(f"G-dead-{client.name}", retries=1)
    dead = bench.topic(f"%DLQ%{group}")
    reader = JAVA["5.3.3"]
    with (bench.running(client, "push", topic, group=group, fail=-1) as consumer,
          reader.consume(bench.home(client), namesrv=bench.name_server, topic=dead, group=f"R-{group}") as letters):
        consumer.wait_for_start()
        letters.wait_for_start()
        bench.producing(client, topic, kind="normal", count=1)
        letters.wait_for_bodies(["m-0"])
        consumer.finish()
        letters.finish()
        return consumer.messages(), letters.bodies()


@pytest.mark.parametrize("client", PUSHING, ids=lambda client: client.name)
def test_a_message_that_always_fails_becomes_a_dead_letter(bench: Bench5, client: Client5) -> None:
    received, letters = bench.outcomes(_dead, PUSHING)[client.name]
    assert [event["attempt"] for event in received] == [1, 2]
    assert letters == ["m-0"]


def test_two_languages_share_a_group(bench: Bench5) -> None:
    topic, group = bench.topic("shared"), bench.group("G-shared")
    with (bench.running(JAVA5, "push", topic, group=group) as one,
          bench.running(PYTHON5, "push", topic, group=group) as other):
        one.wait_for_start()
        other.wait_for_start()
        bench.producing(PYTHON5, topic, kind="normal", count=40)
        one.wait_until(lambda: (other.take_available(), len(one.bodies()) + len(other.bodies()) >= 40)[1],
                       "all with the other")
        one.finish()
        other.finish()
    assert sorted(one.bodies() + other.bodies()) == sorted(_bodies(40))


def _from_remoting(bench: Bench5, client: Client5) -> tuple[list[str], list[str]]:
    topic, group = bench.topic(f"both-{client.name}"), bench.group(f"G-both-{client.name}")
    old = JAVA["4.9.8"]
    with (bench.running(client, "receive", topic, group=group) as new_consumer,
          old.consume(bench.home(client), namesrv=bench.name_server, topic=topic, group=f"O-{group}") as old_consumer):
        new_consumer.wait_for_start()
        old_consumer.wait_for_start()
        bench.producing(client, topic, kind="normal", count=4)
        old.produce(bench.home(client), namesrv=bench.name_server, topic=topic, group="P", prefix="old", count=4)
        expected = [*_bodies(4), *(f"old-{index}" for index in range(4))]
        new_consumer.wait_for_bodies(expected)
        old_consumer.wait_for_bodies(expected)
        new_consumer.finish()
        old_consumer.finish()
        return new_consumer.bodies(), old_consumer.bodies()


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_clients_of_4_and_5_read_each_other(bench: Bench5, client: Client5) -> None:
    by_new, by_old = bench.outcomes(_from_remoting, CHOSEN)[client.name]
    expected = sorted([*_bodies(4), *(f"old-{index}" for index in range(4))])
    assert sorted(by_new) == expected
    assert sorted(by_old) == expected
