"""The official RocketMQ 5 clients of five languages at RocketMQ's own proxy and at ours.

The column of the real proxy proves the programs right. A case runs for some clients at the same time, on topics and
groups of their own; its result is asked for once for each client.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from admin import AdminTool
from bench5 import CHOSEN, FRONTS, Bench5
from clients import JAVA, ClientFailed, Event
from clients5 import JAVA5, PYTHON5, Client5
from conftest import NewRun
from fronts5 import start_front
from tests.certificates import Authority
from toolchain import make_clients5

PUSHING = tuple(client for client in CHOSEN if client.pushes)
CHANGING = tuple(client for client in CHOSEN if client.changes_invisible_time)
RECALLING = tuple(client for client in CHOSEN if client.recalls)
ASKING = tuple(client for client in CHOSEN if client.authority_variable)
pytestmark = pytest.mark.long
DELAY_MS = 4000
RECALLED_MS = 10_000    # how far away what is taken back is: a client has started and taken back by then
RETRIES = 2


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


def _recalled(bench: Bench5, client: Client5) -> tuple[list[Event], list[Event]]:
    topic, group = bench.topic(f"recall-{client.name}", "DELAY"), bench.group(f"G-recall-{client.name}")
    with bench.running(client, "receive", topic, group=group) as consumer:
        consumer.wait_for_start()
        said = bench.producing(client, topic, kind="delay", count=3, delay_ms=RECALLED_MS, recall=1)
        # Due after the others, which would have come before it.
        bench.producing(client, topic, kind="delay", count=1, delay_ms=RECALLED_MS + 2000, prefix="later")
        consumer.wait_for_bodies(["later-0"])
        consumer.finish()
        return said, consumer.messages()


@pytest.mark.parametrize("client", RECALLING, ids=lambda client: client.name)
def test_a_delayed_message_that_is_taken_back_never_comes(bench: Bench5, client: Client5) -> None:
    said, received = bench.outcomes(_recalled, RECALLING)[client.name]
    assert [event["body"] for event in said if event["event"] == "recalled"] == _bodies(3)
    assert [event["body"] for event in received] == ["later-0"]


def _over_tls(bench: Bench5, client: Client5) -> list[str]:
    topic, group = bench.topic(f"tls-{client.name}"), bench.group(f"G-tls-{client.name}")
    with bench.running(client, "receive", topic, group=group, tls=1) as consumer:
        consumer.wait_for_start()
        bench.producing(client, topic, kind="normal", count=4, tls=1)
        consumer.wait_for_bodies(_bodies(4))
        consumer.finish()
        return consumer.bodies()


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_what_is_sent_over_tls_is_received_over_tls(bench: Bench5, client: Client5) -> None:
    assert sorted(bench.outcomes(_over_tls, CHOSEN)[client.name]) == _bodies(4)


def _first_byte(bench: Bench5, client: Client5) -> bytes:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        with bench.running(client, "produce", "tls", endpoint=f"127.0.0.1:{listening.getsockname()[1]}", tls=1,
                           kind="normal", prefix="m", count=1):
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(60)
                return connection.recv(1)


@pytest.mark.parametrize("client", CHOSEN, ids=lambda client: client.name)
def test_a_client_whose_tls_is_on_begins_with_a_handshake(bench: Bench5, client: Client5) -> None:
    """The front takes plain text, too: what came through may have come in that."""
    assert bench.outcomes(_first_byte, CHOSEN)[client.name] == b"\x16"


def _disbelieving(bench: Bench5, client: Client5) -> str:
    other = Authority(bench.home(client), "another").pair.certificate
    try:
        bench.producing(client, bench.topic("tls-others"), kind="normal", count=1, tls=1, authority=other)
    except ClientFailed as problem:
        return str(problem)
    return "sent"


@pytest.mark.parametrize("client", ASKING, ids=lambda client: client.name)
def test_a_client_that_asks_whose_certificate_it_is_believes_no_other_authority(bench: Bench5, client: Client5) -> None:
    assert bench.outcomes(_disbelieving, ASKING)[client.name] != "sent"


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
