import json

import pytest

from regulus.client.administration.admin import Admin
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import HalfMessage, TransactionState
from regulus.errors import SinkRefused
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from regulus.spark.sink import commits
from regulus.spark.sink.commits import STUCK_MS, Attempt, CommitTopic, Decision, RowSum, verdict
from tests.unit.client.scripted_group import Shelf
from tests.unit.client.scripted_servers import scripted_cluster

MINE = Attempt("S", 7, 0, "a")
ROWS = {"T": RowSum(5, (1 << 64) - 1)}


@pytest.mark.parametrize(("decision", "state"), [
    (Decision(-1), TransactionState.UNKNOWN),
    (Decision(6), TransactionState.UNKNOWN),
    (Decision(8), TransactionState.ROLLBACK),
    (Decision(7, {"0": "another"}), TransactionState.ROLLBACK),
    (Decision(7, {"1": "a"}), TransactionState.ROLLBACK),
    (Decision(7, {"0": "a"}, committed_ms=1000), TransactionState.UNKNOWN),
    (Decision(7, {"0": "a"}, committed_ms=1000 - STUCK_MS), TransactionState.COMMIT),
    (Decision(7, {"0": "a"}, committed_ms=1000 - STUCK_MS, is_done=True), TransactionState.UNKNOWN),
])
def test_a_broker_is_told_what_was_decided(decision, state):
    assert verdict(MINE, decision, 1001) is state


def test_an_attempt_is_known_by_its_text():
    assert Attempt.parse(str(MINE)) == MINE
    for text in ("", "S/7/0", "S/x/0/a", "S/7/x/a", "S/7/0/a/b"):
        assert Attempt.parse(text) is None


def test_rows_are_told_from_others_in_whatever_order_they_come():
    one, two, three = (RowSum.of(b"%d" % number, 0, {"KEYS": "k"}) for number in range(3))
    assert one + two + three == three + (one + two) != one + two
    assert (one + two + three).count == 3
    others = [RowSum.of(b"0", 0, {}), RowSum.of(b"0", 1, {"KEYS": "k"}), RowSum.of(b"0", 0, {"KEYS": "l"})]
    assert len({one, two, three, *others}) == 6
    assert RowSum.of(b"0", 0, {"UNIQ_KEY": "X", "KEYS": "k"}) == one
    # What is changed between two rows shows.
    assert one + RowSum.of(b"1", 0, {"KEYS": "l"}) != RowSum.of(b"0", 0, {"KEYS": "l"}) + two


def half(number: int) -> HalfMessage:
    return HalfMessage("G", "T", "broker-a", number, 100 * number, f"{number:032X}", f"7F00000100002A9F{number:016X}")


async def test_the_first_decision_of_a_batch_holds(regulus_server, monkeypatch):
    monkeypatch.setattr(commits, "HALVES_PER_RECORD", 2)
    address = regulus_server.name_server_address
    async with Admin(address) as admin, Producer(address, "G") as producer:
        topic = CommitTopic(admin, "commits", "S")
        assert await topic.decision(7) == Decision(-1)
        await topic.create()
        await topic.create()
        assert await topic.decision(7) == Decision(-1)
        await topic.append_commit(producer, 7, {"0": "a"}, [half(number) for number in range(5)], ROWS)
        await topic.append_commit(producer, 7, {"0": "b"}, [half(9)], {})
        await producer.send(Message("commits", b"nonsense"))
        other = CommitTopic(admin, "commits", "other")
        await other.append_commit(producer, 9, {"0": "x"}, [], {})
        decision = await topic.decision(7)
        assert (decision.latest, decision.attempts, decision.is_done) == (7, {"0": "a"}, False)
        assert decision.rows == ROWS
        assert await topic.halves(decision, "G") == [half(number) for number in range(5)]
        await topic.append_done(producer, 7)
        await topic.append_commit(producer, 8, {"0": "c"}, [], {})
        assert (await topic.decision(7)).is_done
        decisions = [await topic.decision(batch) for batch in (6, 7, 8, 9)]
        assert [each.attempts for each in decisions] == [None, {"0": "a"}, {"0": "c"}, None]
        assert [each.latest for each in decisions] == [8, 8, 8, 8]


async def test_a_decision_is_found_behind_many_others(regulus_server):
    address = regulus_server.name_server_address
    async with Admin(address) as admin, Producer(address, "G") as producer:
        topic = CommitTopic(admin, "commits", "S")
        await topic.create()
        for batch in range(100):
            await topic.append_commit(producer, batch, {"0": str(batch)}, [], {})
        assert (await topic.decision(3)).attempts == {"0": "3"}


async def test_no_other_record_stands_for_one_that_is_gone():
    """A broker may answer with what it has behind the place that was asked for: halves of another batch."""
    shelf = Shelf()
    shelf.put(b"the record that is gone")
    shelf.put(json.dumps({"sink": "S", "batch": 8, "halves": commits._packed([half(9)])}).encode())
    del shelf.messages[0]
    async with scripted_cluster(queue_count=1) as cluster:
        await cluster.add_broker("broker-a", others=shelf)
        async with Admin(cluster.name_server.address) as admin:
            with pytest.raises(SinkRefused, match="the commit topic T has no record at 0 any more"):
                await CommitTopic(admin, "T", "S").halves(Decision(7, {"0": "a"}, halves_at=(0,)), "G")


async def test_a_topic_with_several_queues_keeps_no_order(regulus_server):
    async with Admin(regulus_server.name_server_address) as admin:
        await admin.create_topic(TopicConfig(topic_name="commits"))
        with pytest.raises(SinkRefused, match="4 queues"):
            await CommitTopic(admin, "commits", "S").decision(7)
