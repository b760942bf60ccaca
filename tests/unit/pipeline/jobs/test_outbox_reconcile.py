"""The tables of an outbox against the log of a real broker, and lost messages sent again by the relay, once."""

import asyncio
import random
import shutil
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, insert, select

from regulus.client.sync import Admin, Producer
from regulus.errors import JobRefused, ReliabilityRefused, TopicMissing
from regulus.model.message import Message
from regulus.model.topics import TopicConfig
from regulus.pipeline.jobs.log_source import LogSource
from regulus.reliability import outbox_table, tables
from regulus.reliability.relay_loop import Relay
from regulus.reliability.retry_policy import ResendPolicy
from regulus.testing.running_server import ServerThread
from tests.unit.pipeline import postgresql
from tests.unit.reliability.shop import place_orders, set_stub, shop, stub
from tests.unit.spark.sink.support import messages_of

pytestmark = [pytest.mark.spark, pytest.mark.jobs]

MINUTE = 60_000

of_one_database = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
"""What is the same in all: it is of the log."""


@pytest.fixture(scope="module")
def postgresql_address() -> Iterator[str]:
    with postgresql.running() as address:
        yield address.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Of a database with empty tables."""
    address = f"sqlite:///{tmp_path}/shop.sqlite"
    engine = create_engine(request.getfixturevalue("postgresql_address") if request.param == "postgresql" else address)
    with engine.begin() as connection:
        for metadata in (shop, tables.metadata):
            metadata.drop_all(connection)
            metadata.create_all(connection)
    yield engine
    engine.dispose()


def reconciled(spark, engine, source, **wanted):
    from regulus.pipeline.jobs.outbox_reconcile import OutboxRequest, reconcile_outbox
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    report = reconcile_outbox(spark, OutboxRequest(source=source, database=OutboxDatabase(engine), **wanted))
    report.close()
    return report


@asynccontextmanager
async def relay_of(engine, server):
    """One that works only when it is asked to."""
    relay = Relay(engine, server.name_server_address)
    await relay._producer.start()
    yield relay
    await relay._producer.shutdown()


def relayed(engine, server) -> int:
    async def once() -> int:
        async with relay_of(engine, server) as relay:
            return await relay.relay_due()

    return asyncio.run(once())


@contextmanager
def broker(path: Path) -> Iterator[ServerThread]:
    """Which has the topic, with one queue."""
    with ServerThread(path) as server:
        with Admin(server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        yield server


def live(server: ServerThread) -> LogSource:
    return LogSource({"nameServer": server.name_server_address})


@pytest.fixture
def lost(engine: Engine, tmp_path: Path) -> Iterator[ServerThread]:
    """A broker that lost its disk after the orders 1, 2 and 3 were sent, of which 1 is confirmed; it has one message,
    of no outbox."""
    with broker(tmp_path / "before") as server:
        place_orders(engine, "1", "2", "3")
        assert relayed(engine, server) == 3
    set_stub(engine, "1", status="CONFIRMED")
    with broker(tmp_path / "store") as server:
        with Producer(server.name_server_address, "shop") as producer:
            producer.send(Message("orders", b"another"))
        yield server


def test_lost_messages_are_made_due_and_the_relay_sends_them_once(spark, engine, lost):
    assert relayed(engine, lost) == 0
    capped = reconciled(spark, engine, live(lost), cap=1)
    assert (capped.counts, capped.due, capped.left_out) == ({"fine": 1, "lost": 2}, 1, {"beyond the cap of a run": 1})
    assert relayed(engine, lost) == 1
    second = reconciled(spark, engine, live(lost), cap=10)
    assert second.counts == {"fine": 1, "lost": 1, "waiting": 1}
    assert second.sentence().startswith("1 fine, 1 lost, 1 waiting; 1 due now, for the relay to send; brokers")
    assert relayed(engine, lost) == 1
    third = reconciled(spark, engine, live(lost), cap=10)
    assert (third.counts, third.due, relayed(engine, lost)) == ({"fine": 1, "waiting": 2}, 0, 0)
    assert sorted(message.body for message in messages_of(lost, "orders", wait_for=3)) == [b"2", b"3", b"another"]
    assert [stub(engine, each).send_count for each in "123"] == [1, 2, 2]


def test_two_jobs_and_one_that_is_killed_make_each_stub_due_once(spark, engine, lost, monkeypatch):
    from regulus.pipeline.jobs import outbox_reconcile
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    first, second = (reconciled(spark, engine, live(lost)).frame.where("is_again").repartition(2, "message_id")
                     for _ in range(2))
    make_due, calls = outbox_table.make_due, []

    def killed_at_the_second(connection, gone):
        calls.append(make_due(connection, gone))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(outbox_table, "make_due", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        outbox_reconcile.write_due(OutboxDatabase(engine), first)
    monkeypatch.undo()
    versions = sorted(stub(engine, each).version for each in "23")
    assert (calls, versions) == ([1, 1], [3, 4])        # that of the second partition is undone
    assert outbox_reconcile.write_due(OutboxDatabase(engine), second) == 1
    assert outbox_reconcile.write_due(OutboxDatabase(engine), first) == 0
    assert relayed(engine, lost) == 2
    assert relayed(engine, lost) == 0


@of_one_database
def test_each_broker_says_what_lies_in_its_own_queues(spark, engine, lost):
    """The place of 3 is at a broker that is away."""
    set_stub(engine, "3", broker_name="broker-b")
    report = reconciled(spark, engine, live(lost), cap=10)
    assert (report.counts, report.due) == ({"fine": 1, "lost": 1, "unknown": 1}, 1)
    assert stub(engine, "3").queue_offset is not None


@of_one_database
def test_a_stub_without_a_place_needs_all_brokers(spark, engine, lost):
    for each in "23":
        set_stub(engine, each, queue_offset=None, resend_time=0, first_send_time=1 << 50)
    assert reconciled(spark, engine, live(lost)).counts == {"fine": 1, "unknown": 2}
    known = reconciled(spark, engine, live(lost), brokers=("broker-a",))
    assert (known.counts, known.left_out) == ({"fine": 1, "lost": 2}, {"has no place, and comes due by itself": 2})
    # What was sent before the topic was made, no log can tell.
    set_stub(engine, "3", first_send_time=1)
    assert reconciled(spark, engine, live(lost), brokers=("broker-a",)).counts == {"fine": 1, "lost": 1, "unknown": 1}
    with pytest.raises(Exception, match="expected brokers are away: broker-b"):
        reconciled(spark, engine, live(lost), brokers=("broker-a", "broker-b"))


@of_one_database
def test_what_nobody_committed_and_what_belongs_to_nothing_is_named(spark, engine, tmp_path):
    with broker(tmp_path / "store") as server:
        place_orders(engine, "1", "2")
        assert relayed(engine, server) == 2
        with engine.begin() as connection:
            connection.execute(tables.stubs.delete().where(tables.stubs.c.message_id == "2"))
        place_orders(engine, "4", topic="bills")
        with engine.begin() as connection:
            connection.execute(insert(tables.confirmations), [
                {"message_id": each, "consumer_group": "g", "status": "UNCONFIRMED"} for each in "34"])
        report = reconciled(spark, engine, live(server))
        assert report.counts == {"orphaned": 1, "unmade": 1, "waiting": 2}
        assert [(row["message_id"], row["verdict"]) for row in report.not_good.collect()] == [
            ("3", "orphaned"), ("2", "unmade")]
        assert reconciled(spark, engine, live(server), topics=("orders",), keep_ms=0).counts == {
            "orphaned": 1, "waiting": 1}


@of_one_database
def test_the_files_of_a_store_say_it_too(spark, engine, lost, tmp_path):
    shutil.copytree(lost.store_path, tmp_path / "copy")
    files = LogSource({"storePath": str(tmp_path / "copy")})
    assert reconciled(spark, engine, files).counts == {"fine": 1, "lost": 2}


@of_one_database
def test_what_cannot_be_judged_is_refused(spark, engine, lost):
    with pytest.raises(JobRefused, match="an archive does not tell where its queues end"):
        reconciled(spark, engine, LogSource({"archivePath": "/archive"}))
    with pytest.raises(TopicMissing, match="has no topic 'oders': did you mean 'orders'"):
        reconciled(spark, engine, live(lost), topics=("oders",))
    with engine.begin() as connection:
        tables.attempts.drop(connection)
    with pytest.raises(ReliabilityRefused, match="the database has no table regulus_attempt"):
        reconciled(spark, engine, live(lost))


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_password_is_in_no_text(spark, engine, capfd):
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    if engine.dialect.name != "postgresql":
        pytest.skip("of another server a wrong password would not do")
    database = OutboxDatabase(create_engine(engine.url.set(password="tell-nobody")))
    frame = database.read(spark, tables.stubs, ("message_id", "version"))
    assert frame.collect() == []
    frame.explain("extended")
    with engine.begin() as connection:
        tables.stubs.drop(connection)
    with pytest.raises(JobRefused, match="regulus_stub cannot be read") as refused:
        database.read(spark, tables.stubs, ("message_id",))
    texts = (*capfd.readouterr(), str(refused.value), repr(refused.value.__cause__), repr(frame), database.name)
    assert "regulus_stub" in "".join(texts)
    assert all("tell-nobody" not in text for text in texts)


# --- the same answers as the relay's ---------------------------------------------------------------------------------


def draw(chance: random.Random, now: int) -> dict[str, list[dict[str, object]]]:
    """Rows of all tables, with times some minutes beside each limit of the rules."""
    policy = ResendPolicy()
    ages = [MINUTE, *(limit + beside for limit in (policy.down_ms, policy.stale_ms, policy.age_max_ms)
                      for beside in (-5 * MINUTE, 5 * MINUTE))]

    def time() -> int:
        return now - chance.choice(ages)

    groups, queues, made = ("a", "b", "c"), (0, 1), {table: [] for table in tables.metadata.tables}
    for number in range(300):
        message_id = f"m{number}"
        made["regulus_stub"].append({
            "message_id": message_id, "topic": chance.choice(("orders", "bills")), "tags": "", "body": b"x",
            "properties": "", "flag": 0, "status": chance.choice(("UNCONFIRMED",) * 8 + ("CONFIRMED", "VOIDED")),
            "send_count": chance.choice((1, 2, 15, 16, 17)), "resend_time": chance.choice((time(), now + 5 * MINUTE)),
            "first_send_time": chance.choice((None, time())), "broker_name": "a", "queue_id": chance.choice(queues),
            "queue_offset": chance.choice((None, 9, 10, 11)), "create_time": time(),
            "is_manual": chance.random() < 0.1, "version": 1})
        for group in chance.sample(groups, chance.choice((0, 0, 1, 2))):
            made["regulus_confirmation"].append({
                "message_id": message_id, "consumer_group": group,
                "status": chance.choice(("UNCONFIRMED", "UNCONFIRMED", "CONFIRMED"))})
        for group in chance.sample(groups, chance.choice((0, 0, 0, 1, 2))):
            made["regulus_message_log"].append({
                "message_id": message_id, "consumer_group": group, "topic": "orders", "broker_name": "a", "queue_id": 0,
                "queue_offset": 1, "reconsume_times": 0, "create_time": now, "receive_time": time()})
    for group in groups:
        for queue in chance.sample(queues, chance.choice((1, 2))):
            made["regulus_watermark"].append({
                "consumer_group": group, "topic": "orders", "broker_name": "a", "queue_id": queue,
                "queue_offset_max": chance.choice((9, 10, 11)), "move_time": time()})
    return made


@pytest.mark.parametrize("seed", range(2))
def test_spark_and_the_relay_answer_alike(spark, engine, seed):
    from regulus.pipeline.jobs.outbox_reconcile import _STUB_COLUMNS
    from regulus.pipeline.steps.outbox_facts import accounts, action_of, group_rows, receipt_rows
    from regulus.pipeline.tables.outbox_database import OutboxDatabase

    database, policy = OutboxDatabase(engine), ResendPolicy()
    now = database.now_ms()
    made = draw(random.Random(seed), now)
    with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            if made[table.name]:
                connection.execute(insert(table), made[table.name])
    with engine.begin() as connection:
        relay = {each.message_id: each.action for each in outbox_table.review(connection, policy, 1_000)}
    rows = [group_rows(database.read(spark, tables.confirmations, ("message_id", "consumer_group", "status"))),
            receipt_rows(database.read(spark, tables.message_log, ("message_id", "consumer_group", "receive_time")))]
    known = accounts(database.read(spark, tables.stubs, _STUB_COLUMNS), rows,
                     database.read(spark, tables.watermarks, [each.name for each in tables.watermarks.columns]))
    found = {row[0]: row[1] for row in known.select("message_id", action_of(policy.limits(now))).collect()}
    due = {each["message_id"] for each in made["regulus_stub"]
           if each["status"] == "UNCONFIRMED" and not each["is_manual"] and each["resend_time"] <= now}
    assert set(relay) == due
    assert {message_id: found[message_id] for message_id in due} == relay
    assert {action for message_id, action in found.items() if message_id not in due} == {"NOTHING", "WAIT"}
    assert set(relay.values()) == {"WAIT", "MANUAL", "POSTPONE", "CONSUMER_DOWN", "RESEND", "RESEND_AND_TELL"}
    with engine.connect() as connection:
        assert len(found) == len(connection.execute(select(tables.stubs.c.message_id)).all()) == 300
