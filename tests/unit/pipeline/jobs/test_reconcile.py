"""What was promised, what was sent, what was done; and the lost sent again, once."""

import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from regulus.client.sync import Admin, Producer
from regulus.errors import JobRefused
from regulus.model.message import Message
from regulus.model.topics import TIMER_TOPIC, TopicConfig
from regulus.testing.running_server import ServerThread
from tests.frames import small_table
from tests.stores import a_message, dispatch, fill, open_store, small_config
from tests.unit.pipeline.shop import GROUP, TOPIC, Shop, make_anew, restarted_without_epochs, send_orders
from tests.unit.spark.sink.support import messages_of

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """Stubs of all orders but o7; and of `gone`, which was never sent, and of `young`, which may still be. None is
    older than the shop's topics; a run is an hour later."""
    path = tmp_path / "stubs.sqlite"
    now = round(time.time() * 1000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT PRIMARY KEY, made_ms INTEGER, content TEXT, state TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?, ?, NULL)", [
            *((f"o{number}", now, f"order o{number}") for number in range(7)),
            ("gone", now, "order gone"), ("young", now + 7_200_000, "order young")])
        connection.commit()
    return path


def reconciled(spark, shop: Shop, stubs: Path, *, is_real: bool = False, columns: dict[str, str | None] | None = None,
               **wanted):
    from regulus.pipeline.jobs.reconcile import ReconcileRequest, ResendLimits, StubColumns, reconcile
    from regulus.pipeline.jobs.sending import Target
    from regulus.pipeline.tables.outside import parse_outside_table, read_keys

    run = round(time.time() * 1000)
    target = Target(name_server=shop.name_server, expected_brokers=("broker-a",), dedup_key="keys")
    return reconcile(spark, ReconcileRequest(
        **{"source": shop.source, "topic": TOPIC, "group": GROUP,
           "stubs": parse_outside_table(f"sqlite:{stubs}#stubs"),
           "columns": StubColumns(**{"key": "id", "created": "made_ms", "body": "content", "mark": "state",
                                     "due": "state IS NULL OR state <> 'VOID'", **(columns or {})}),
           "effects": read_keys(spark, parse_outside_table(shop.effects_text), "id", "billed_ms", "applied_time"),
           "verdicts": parse_outside_table(f"sqlite:{stubs}#verdicts"),
           "limits": ResendLimits(min_age_ms=600_000, cap=100),
           "target": target if is_real else None, **wanted}),
        datetime.now(UTC) + timedelta(hours=1), run)


def test_a_dry_run_changes_nothing(spark, shop, stubs):
    report = reconciled(spark, shop, stubs)
    assert report.counts == {"fine": 6, "dead letter": 1, "unmade": 1, "lost": 1, "waiting": 1}
    assert report.sentence().endswith("nothing sent, nothing written: this was a dry run")
    with closing(sqlite3.connect(stubs)) as connection:
        assert connection.execute("SELECT count(*) FROM stubs WHERE state IS NOT NULL").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'verdicts'").fetchone() == (0,)
    report.close()


@pytest.mark.parametrize(("columns", "limits", "missing"), [
    ({"body": None}, True, "the column with the message's body"),
    ({"created": None, "due": None}, True,
     "the column with the time when a stub was made, the condition that makes a stub due"),
    ({}, False, "a minimal age and a cap")])
def test_nothing_is_sent_by_a_guess(spark, shop, stubs, columns, limits, missing):
    wanted = {} if limits else {"limits": None}
    with pytest.raises(JobRefused, match=f"this is not said: {missing}$"):
        reconciled(spark, shop, stubs, is_real=True, columns=columns, **wanted)


@pytest.mark.parametrize(("key", "made_ms", "content", "reason"), [
    ("hollow", None, "", "1 of 2 lost stubs have nothing in column 'content'"),
    (None, None, "x", "1 stubs have a key that is missing"),
    ("fresh", 1_764_000_000, "x", "1 stubs have a time in column 'made_ms' before the year 2000, such as 1970")],
    ids=["no body", "no key", "seconds for ms"])
def test_a_stub_that_cannot_be_sent_as_it_is_refuses_the_run(spark, shop, stubs, key, made_ms, content, reason):
    before = len(messages_of(shop.server, TOPIC))
    with closing(sqlite3.connect(stubs)) as connection:
        made_ms = made_ms or round(time.time() * 1000)
        connection.execute("INSERT INTO stubs VALUES (?, ?, ?, NULL)", (key, made_ms, content))
        connection.commit()
    with pytest.raises(JobRefused, match=reason):
        reconciled(spark, shop, stubs, is_real=True)
    assert len(messages_of(shop.server, TOPIC)) == before


@pytest.mark.parametrize(("verdicts", "columns", "reason"), [
    ("sqlite:{stubs}#kept", {}, "table kept may have many rows of one 'key'"),
    ("parquet:{stubs}", {}, "parquet: tables are only read"),
    ("sqlite:{stubs}#verdicts", {"mark": "status"}, "table stubs has no column 'status'")])
def test_nothing_is_sent_whose_verdict_cannot_be_kept(spark, shop, stubs, verdicts, columns, reason):
    from regulus.pipeline.tables.outside import parse_outside_table

    before = len(messages_of(shop.server, TOPIC))
    with closing(sqlite3.connect(stubs)) as connection:
        connection.execute("CREATE TABLE kept(key TEXT, verdict TEXT, decided_ms INTEGER, sent_ms INTEGER)")
    with pytest.raises(JobRefused, match=reason):
        reconciled(spark, shop, stubs, is_real=True, columns=columns,
                   verdicts=parse_outside_table(verdicts.format(stubs=stubs)))
    assert len(messages_of(shop.server, TOPIC)) == before


def test_what_is_not_due_young_without_a_time_or_beyond_the_cap_is_not_sent_and_told(spark, shop, tmp_path):
    """In a topic of their own; `twice` has two rows, of which the older one is sent, once; one of `fourth` is void."""
    from regulus.pipeline.jobs.reconcile import ResendLimits

    now = round(time.time() * 1000)
    path = tmp_path / "returns.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT, made TEXT, content TEXT, state TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?, ?, ?)", [
            ("other", "2026-01-01T00:00:00", "x", None), ("void", "2026-01-01T00:00:00Z", "void", "VOID"),
            ("fourth", "2026-01-01T00:00:00Z", "fourth before", "VOID"),
            ("timeless", None, "timeless", None), ("young", str(now), "young", None),
            ("third", "2026-01-03 00:00:00", "third", None), ("twice", "2026-01-02T00:00:00", "newer", None),
            ("twice", "2026-01-01T00:30:00+01:00", "older", None), ("fourth", "2026-01-04T00:00:00Z", "fourth", None)])
        connection.commit()

    def make_topic(server: ServerThread) -> None:
        send_orders(Shop(server, shop.bills), "r0 other", "first second", topic="returns")

    wanted = {"topic": "returns", "effects": None, "group": None, "late_ms": 1_000,
              "limits": ResendLimits(min_age_ms=2 * 3_600_000, cap=2)}

    def run(zone: str | None = None, **more):
        report = reconciled(spark, shop, path, columns={"created": "made", "zone": zone, "mark": None},
                            **wanted, **more)
        report.close()
        return report

    with restarted_without_epochs(tmp_path / "store", make_topic) as server:
        shop = Shop(server, shop.bills)
        with pytest.raises(JobRefused, match="3 stubs have a time in column 'made' that says no time zone"):
            run(is_real=True)
        assert run().counts == {"fine": 1, "not due": 1, "unmade": 1, "lost": 5}
        report = run("Europe/Paris", is_real=True)
        assert report.sent == 2
        assert dict(report.left_out) == {"beyond the cap of a run": 1, "has no time": 1, "not old enough yet": 1}
        assert "2 sent again, 1 not sent: beyond the cap of a run, 1 not sent: has no time" in report.sentence()
        found = messages_of(server, "returns", wait_for=4)
        assert {(each.keys, each.body) for each in found if "RESEND_OF" in each.properties} == {
            ("twice", b"older"), ("third", b"third")}
        with closing(sqlite3.connect(path)) as connection:
            sent = connection.execute("SELECT key FROM verdicts WHERE sent_ms IS NOT NULL ORDER BY key").fetchall()
        assert sent == [("third",), ("twice",)]
        report = run("Europe/Paris", is_real=True)
        assert (report.sent, report.left_out) == (1, {"has no time": 1, "not old enough yet": 1})
        found = messages_of(server, "returns", wait_for=5)
        assert [each.body for each in found if each.keys == "fourth"] == [b"fourth"]


def test_the_lost_are_sent_once_and_the_verdicts_are_written(spark, shop, stubs):
    before = len(messages_of(shop.server, TOPIC))
    report = reconciled(spark, shop, stubs, is_real=True)
    assert (report.sent, report.written) == (1, 3)
    report.close()
    message = max(messages_of(shop.server, TOPIC, wait_for=before + 1), key=lambda each: each.physical_offset)
    assert (message.keys, message.body, message.properties["RESEND_OF"]) == ("gone", b"order gone", "gone")
    verdicts = {"gone": "lost", "o1": "dead letter", "o7": "unmade"}
    with closing(sqlite3.connect(stubs)) as connection:
        assert dict(connection.execute("SELECT key, verdict FROM verdicts")) == verdicts
        assert dict(connection.execute("SELECT id, state FROM stubs WHERE state IS NOT NULL")) == {
            key: verdict for key, verdict in verdicts.items() if key != "o7"}
        assert connection.execute("SELECT count(*) FROM verdicts WHERE sent_ms IS NOT NULL").fetchone() == (1,)

    report = reconciled(spark, shop, stubs, is_real=True)
    assert report.sent == 0
    assert "lost" not in report.counts
    assert len(messages_of(shop.server, TOPIC)) == before + 1
    report.close()


def test_what_only_the_brokers_have_is_not_lost(spark, shop, tmp_path):
    from regulus.pipeline.jobs.log_source import LogSource

    send_orders(shop, "d1", "d2", topic="deliveries")
    shutil.copytree(shop.store, tmp_path / "copy")
    send_orders(shop, "d3", topic="deliveries")
    deliveries = tmp_path / "deliveries.sqlite"
    with closing(sqlite3.connect(deliveries)) as connection:
        connection.execute("CREATE TABLE stubs(id TEXT, made_ms INTEGER, content TEXT, state TEXT)")
        connection.executemany("INSERT INTO stubs VALUES (?, ?, 'delivery', NULL)", [
            (f"d{number}", round(time.time() * 1000)) for number in range(1, 5)])
        connection.commit()
    wanted = {"is_real": True, "topic": "deliveries", "effects": None, "verdicts": None,
              "source": LogSource({"storePath": str(tmp_path / "copy"), "brokerName": "of-a-copy"})}

    def run(**more):
        report = reconciled(spark, shop, deliveries, **wanted, **more)
        sends = {row["key"]: row["sends"] for row in report.frame.collect()}
        report.close()
        return report.counts, report.sent, sends

    found = {"fine": 3, "lost": 1}, {"d1": 1, "d2": 1, "d3": 1, "d4": 0}
    assert run() == (found[0], 1, found[1])
    assert run() == ({"fine": 4}, 0, dict.fromkeys(found[1], 1))
    assert run(is_dry_run=True)[:2] == ({"fine": 4}, None)


def only_gone(stubs: Path) -> None:
    """Leaves one stub, older than any log."""
    with closing(sqlite3.connect(stubs)) as connection:
        connection.execute("DELETE FROM stubs WHERE id <> 'gone'")
        connection.execute("UPDATE stubs SET made_ms = 1000000000000")
        connection.commit()


def test_what_retention_took_at_the_brokers_is_not_lost(spark, shop, stubs, tmp_path):
    """The files that are read lack what the brokers had; and of its queue these have nothing any more that tells."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.sending import Target

    copy, brokers = tmp_path / "copy", tmp_path / "brokers"
    for root, first, others in ((copy, 100, 0), (brokers, 0, 60)):
        opened = open_store(root)
        fill(opened, 1, topic=TOPIC, first=first)
        fill(opened, others, topic="TopicB")
        opened.close()
    min((brokers / "commitlog").iterdir()).unlink()
    only_gone(stubs)

    def make_topic(server: ServerThread) -> None:
        with Admin(server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))

    with restarted_without_epochs(brokers, make_topic, store_config=small_config(brokers)) as server:
        target = Target(name_server=server.name_server_address, expected_brokers=("broker-a",))
        report = reconciled(spark, shop, stubs, source=LogSource({"storePath": str(copy)}), target=target,
                            effects=None, group=None)
        report.close()
        assert (report.counts, report.sent) == ({"forgotten": 1, "unmade": 1}, 0)
        assert messages_of(server, TOPIC) == []


def test_a_send_that_is_on_its_way_is_not_lost(spark, shop, stubs, tmp_path):
    """Its topic does not have it for two hours."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.sending import Target

    only_gone(stubs)
    with ServerThread(tmp_path / "server") as server:
        with Producer(server.name_server_address, "shop") as producer:
            producer.send(Message(TOPIC, b"order o0", "", "o0"))
            producer.send(Message(TOPIC, b"order gone", "", "gone", {"DELAY": "18"}))
        where = server.name_server_address
        report = reconciled(spark, shop, stubs, source=LogSource({"nameServer": where}), effects=None, group=None,
                            target=Target(name_server=where, expected_brokers=("broker-a",)))
        report.close()
        assert (report.counts, report.sent) == ({"fine": 1, "unmade": 1}, 0)


def test_a_timer_message_that_waits_is_not_lost(spark, shop, stubs, tmp_path):
    """RocketMQ 5 keeps it in a topic of its own; a Regulus broker takes none."""
    from regulus.pipeline.jobs.log_source import LogSource

    due_ms = round(time.time() * 1000) + 48 * 3_600_000
    opened = open_store(tmp_path / "timers")
    fill(opened, 1, topic=TOPIC, first=100)
    waiting = a_message(TIMER_TOPIC, KEYS="gone", REAL_TOPIC=TOPIC, REAL_QID="0", TIMER_OUT_MS=str(due_ms))
    opened.append(waiting, round(time.time() * 1000))
    dispatch(opened)
    opened.close()
    only_gone(stubs)
    report = reconciled(spark, shop, stubs, source=LogSource({"storePath": str(tmp_path / "timers")}), group=None,
                        effects=small_table(spark, [], "key string, applied_time timestamp"))
    report.close()
    assert report.counts == {"waiting": 1, "unmade": 1}


def test_what_a_topic_had_before_it_was_made_anew_is_not_lost(spark, shop, stubs, tmp_path):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.sending import Target

    with ServerThread(tmp_path / "server") as server:
        where = server.name_server_address
        wanted = {"source": LogSource({"nameServer": where}), "effects": None, "group": None,
                  "target": Target(name_server=where, expected_brokers=("broker-a",))}
        with Admin(where) as admin:
            send_orders(Shop(server, shop.bills), "gone")
            with closing(sqlite3.connect(stubs)) as connection:
                connection.execute("DELETE FROM stubs WHERE id NOT IN ('gone', 'o1')")
                connection.execute("UPDATE stubs SET made_ms = ?", (round(time.time() * 1000),))
                connection.commit()
            first = reconciled(spark, shop, stubs, is_dry_run=True, **wanted)
            assert first.counts == {"fine": 1, "lost": 1}
            make_anew(admin, TOPIC)
        second = reconciled(spark, shop, stubs, **wanted)
        assert (second.counts, second.sent) == ({"forgotten": 2}, 0)
        for report in (first, second):
            report.close()


def test_a_key_that_no_message_has_is_refused(spark, shop, stubs):
    with closing(sqlite3.connect(stubs)) as connection:
        connection.execute("INSERT INTO stubs VALUES ('order 7', 0, 'order 7', NULL)")
        connection.commit()
    with pytest.raises(JobRefused, match="1 stubs have a key that is missing, empty or has a space, such as 'order 7'"):
        reconciled(spark, shop, stubs)


RECORDS = "topic string, broker_name string, queue_id int, queue_offset bigint, offset_message_id string"


def test_a_record_read_in_two_ways_is_one_and_halves_keep_both(spark):
    from regulus.model.topics import TRANS_HALF_TOPIC
    from regulus.pipeline.jobs.reconcile import _each_once

    rows = [(topic, name, 0, 5, "H5") for topic in (TOPIC, TRANS_HALF_TOPIC) for name in ("a", "b")]
    once = _each_once(small_table(spark, [*rows, (TOPIC, "b", 0, 5, "OTHER")], RECORDS)).collect()
    assert sorted((row["topic"], row["offset_message_id"]) for row in once) == [
        (TRANS_HALF_TOPIC, "H5"), (TRANS_HALF_TOPIC, "H5"), (TOPIC, "H5"), (TOPIC, "OTHER")]


def test_from_when_on_the_log_is_complete_where_two_places_were_read(spark):
    from regulus.pipeline.jobs.reconcile import _both_complete_since

    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def rows(name: str, *offsets: int):
        return small_table(spark, [(TOPIC, name, 0, offset, f"H{offset}", noon + timedelta(hours=offset))
                                   for offset in offsets], RECORDS + ", store_time timestamp")

    read = rows("of-a-copy", 0, 1, 2)
    assert _both_complete_since(None, read, rows("broker-a", 2, 3)) is None
    assert _both_complete_since(None, read, rows("broker-a", 3, 4)) == noon + timedelta(hours=3)
    assert _both_complete_since(noon, read, rows("broker-a", 2, 3)) == noon
    assert _both_complete_since(noon, read, rows("broker-a")) == noon
