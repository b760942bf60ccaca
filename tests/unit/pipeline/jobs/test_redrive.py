"""Dead letters go back once, however often they are asked to."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from regulus.cli.dead import dead
from regulus.client.sync import Admin, Producer
from regulus.errors import JobRefused, TopicMissing
from regulus.model.message import Message, MessageExt
from regulus.model.topics import TopicConfig
from regulus.testing.running_server import ServerThread
from tests.archives import archive_store
from tests.stores import NOW, a_message, dispatch, fill, open_store, small_config
from tests.unit.pipeline.shop import GROUP, TOPIC, Shop, make_anew, restarted_without_epochs
from tests.unit.spark.sink.support import messages_of

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
AT = "; brokers: broker-a"


def run_id() -> int:
    return round(datetime.now(UTC).timestamp() * 1000)


def target(server: ServerThread, guarantee: str = "exactlyOnce"):
    from regulus.pipeline.jobs.sending import Target
    from regulus.spark.sink.options import DeliveryGuarantee

    return Target(name_server=server.name_server_address, expected_brokers=("broker-a",),
                  guarantee=DeliveryGuarantee(guarantee))


def redriven(spark, shop: Shop, **wanted):
    from regulus.pipeline.jobs.redrive import RedriveRequest, redrive

    run = run_id()
    is_real = wanted.pop("is_real", False)
    request = RedriveRequest(source=wanted.pop("source", shop.source), group=wanted.pop("group", GROUP),
                             target=target(shop.server) if is_real else None, **wanted)
    return redrive(spark, request, run)


def test_a_dry_run_sends_nothing_a_run_sends_once_and_a_second_run_nothing(spark, shop, tmp_path):
    sent_before = len(messages_of(shop.server, TOPIC))
    report = redriven(spark, shop)
    assert report.counts == {(TOPIC, "to send"): 1}
    assert report.sentence() == "1 to send, 0 sent before"
    assert len(messages_of(shop.server, TOPIC)) == sent_before

    report = redriven(spark, shop, is_real=True, report=str(tmp_path / "report"))
    assert report.counts == {(TOPIC, "sent"): 1}
    kept = spark.read.parquet(str(tmp_path / "report"))
    assert [(row["keys"], row["status"], row["run"] > 0) for row in kept.collect()] == [("o1", "to send", True)]
    again = messages_of(shop.server, TOPIC, wait_for=sent_before + 1)
    message = again[-1] if again[-1].keys == "o1" else max(again, key=lambda each: each.physical_offset)
    assert (message.keys, message.tags, message.body, message.reconsume_times) == ("o1", "A", b"order o1", 0)
    assert message.properties["customer"] == "c1"
    assert message.properties["REDRIVE_OF"].startswith(f"%DLQ%{GROUP}/0/0/7F000001")
    assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC", "DELAY"} & set(message.properties)

    for source in (shop.source, shop.live_source):
        report = redriven(spark, shop, is_real=True, source=source)
        assert report.sentence() == "0 sent, 1 sent before" + AT
    assert len(messages_of(shop.server, TOPIC)) == sent_before + 1


def test_what_the_brokers_have_is_not_sent_again_for_files_that_lack_it(spark, shop, tmp_path):
    from regulus.pipeline.jobs.log_source import LogSource

    copy, archive = tmp_path / "copy", tmp_path / "archive"
    shutil.copytree(shop.store, copy)
    archive_store(copy, archive)
    sources = (LogSource({"storePath": str(copy), "brokerName": "of-a-copy"}), LogSource({"archivePath": str(archive)}),
               shop.source, shop.live_source)
    chosen = {"is_real": True, "from_retries": True, "where": "keys = 'o2'"}
    before = len(messages_of(shop.server, TOPIC))
    assert redriven(spark, shop, source=sources[0], **chosen).counts == {(TOPIC, "sent"): 1}
    for source in sources:
        assert redriven(spark, shop, source=source, **chosen).sentence() == "0 sent, 1 sent before" + AT, source.name
        dry = redriven(spark, shop, source=source, is_dry_run=True, **chosen)
        assert dry.sentence() == "0 to send, 1 sent before" + AT
    assert len(messages_of(shop.server, TOPIC, wait_for=before + 1)) == before + 1


def dead_letter(shop: Shop, name: str, group: str = "returning", **properties: str) -> None:
    """One of a group whose letters come when a test wants them."""
    with Producer(shop.name_server, "shop") as producer:
        producer.send(Message(f"%DLQ%{group}", b"return " + name.encode(), "", name, properties))


def test_what_was_sent_before_a_later_dead_letter_came_is_not_sent_again(spark, shop):
    dead_letter(shop, "r1", RETRY_TOPIC=TOPIC)
    assert redriven(spark, shop, group="returning", is_real=True).sentence() == "1 sent, 0 sent before" + AT
    dead_letter(shop, "r2", RETRY_TOPIC=TOPIC)
    assert redriven(spark, shop, group="returning", is_real=True).sentence() == "1 sent, 1 sent before" + AT
    assert redriven(spark, shop, group="returning", is_real=True).sentence() == "0 sent, 2 sent before" + AT


@pytest.mark.parametrize("changes", [{}, {"topic": "NULL"}])
def test_a_dead_letter_of_no_known_topic_holds_up_no_other(spark, shop, changes):
    dead_letter(shop, "lone")
    before = len(messages_of(shop.server, TOPIC))
    report = redriven(spark, shop, group="returning", where="keys = 'lone'", changes=changes, is_real=True)
    assert set(report.counts) == {("", "no such topic")}
    assert len(messages_of(shop.server, TOPIC)) == before


def test_topics_are_those_of_the_brokers_that_are_sent_to(spark, shop, regulus_server):
    from regulus.pipeline.jobs.redrive import RedriveRequest, redrive

    request = RedriveRequest(source=shop.source, group=GROUP, target=target(regulus_server), is_dry_run=True)
    assert redrive(spark, request, 1).counts == {(TOPIC, "no such topic"): 1}


def test_conditions_changes_and_the_cap_choose_what_goes_where(spark, shop):
    none = redriven(spark, shop, where="reconsume_times > 5")
    assert none.counts == {}
    other = redriven(spark, shop, changes={"topic": "'repairs'"})
    assert other.counts == {("repairs", "no such topic"): 1}
    retries = redriven(spark, shop, from_retries=True, cap=2)
    assert retries.count("to send") == 2


def test_what_is_beyond_the_cap_is_told(spark, shop):
    for name in ("first", "second", "third"):
        dead_letter(shop, name, "capped", RETRY_TOPIC=TOPIC)
    chosen = {"group": "capped", "cap": 1}
    assert redriven(spark, shop, **chosen).counts == {(TOPIC, "to send"): 1, (TOPIC, "beyond the cap"): 2}
    report = redriven(spark, shop, is_real=True, **chosen)
    assert report.sentence() == "1 sent, 0 sent before, 2 not sent: beyond the cap of a run" + AT
    found = messages_of(shop.server, TOPIC)
    assert [each.keys for each in found if each.keys in ("first", "second", "third")] == ["first"]
    assert redriven(spark, shop, is_real=True, **chosen).counts == {
        (TOPIC, "sent"): 1, (TOPIC, "sent before"): 1, (TOPIC, "beyond the cap"): 1}


def test_a_dead_letter_that_is_older_than_its_topic_is_left_where_it_is(spark, regulus_server):
    """Its topic was deleted and made anew, and what was sent again is gone with the one before."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.redrive import RedriveRequest, planned, redrive

    where = regulus_server.name_server_address
    request = RedriveRequest(source=LogSource({"nameServer": where}), group="g", target=target(regulus_server))
    with Admin(where) as admin, Producer(where, "shop") as producer:
        for name in ("t", "%DLQ%g"):
            admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        producer.send(Message("%DLQ%g", b"old", "", "old", {"RETRY_TOPIC": "t"}))
        assert redrive(spark, request, 1).counts == {("t", "sent"): 1}
        before = planned(spark, request)
        make_anew(admin, "t")
        producer.send(Message("%DLQ%g", b"new", "", "new", {"RETRY_TOPIC": "t"}))
        with pytest.raises(JobRefused, match="a topic was created again while its messages were read"):
            before.check(spark)
    report = redrive(spark, request, 2)
    assert report.counts == {("t", "sent"): 1, ("t", "topic is newer"): 1}
    assert ", 1 not sent: older than the topic, which was created again" in report.sentence()
    assert [message.body for message in messages_of(regulus_server, "t", wait_for=1)] == [b"new"]
    named = replace(request, changes={"topic": "origin_topic"})
    assert redrive(spark, named, 3).counts == {("t", "sent"): 1, ("t", "sent before"): 1}


def test_what_was_sent_again_may_seem_to_be_older_than_the_first_dead_letter(spark, tmp_path):
    """By the clock of another broker, which is half an hour behind."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.redrive import RedriveRequest, planned

    def append(*messages: tuple[MessageExt, int]) -> None:
        store = open_store(tmp_path)
        for message, minutes in messages:
            store.append(message, NOW + minutes * 60_000)
        dispatch(store)
        store.close()

    def plan() -> list[tuple[str, str]]:
        request = RedriveRequest(source=LogSource({"storePath": str(tmp_path)}), group="g")
        rows = planned(spark, request).rows.orderBy("store_time").collect()
        return [(row["dead_letter"], row["status"]) for row in rows]

    append((a_message("t"), -90), *((a_message("%DLQ%g", RETRY_TOPIC="t"), minutes) for minutes in (0, 180)))
    (first, status), (_, other) = plan()
    assert status == other == "to send"
    append((a_message("t", REDRIVE_OF=first), -30))
    assert [status for _, status in plan()] == ["sent before", "to send"]


@pytest.mark.parametrize("has_archive", [False, True])
@pytest.mark.parametrize("is_left", [True, False], ids=["some is left", "nothing is left"])
def test_what_retention_took_at_the_brokers_may_have_been_sent(spark, tmp_path, has_archive, is_left):
    """Of two dead letters in files one was sent again, before what is left of the log of its topic; an archive that was
    made in time has it."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.redrive import RedriveRequest, planned, redrive

    letters, brokers = tmp_path / "letters", tmp_path / "brokers"
    opened = open_store(letters)
    for minutes in (-60, 60):
        opened.append(a_message("%DLQ%g", RETRY_TOPIC="TopicA"), NOW + minutes * 60_000)
    dispatch(opened)
    opened.close()
    source = LogSource({"storePath": str(letters)})
    plan = planned(spark, RedriveRequest(source=source, group="g"))
    first, _ = sorted(row["dead_letter"] for row in plan.rows.collect())
    opened = open_store(brokers)
    opened.append(a_message("TopicA", REDRIVE_OF=first), NOW - 30 * 60_000)
    dispatch(opened)
    fill(opened, 60, topic="TopicA" if is_left else "TopicB")
    opened.close()
    if has_archive:
        archive_store(letters, tmp_path / "archive", broker_name="of-letters")
        archive_store(brokers, tmp_path / "archive")
        source = LogSource({"archivePath": str(tmp_path / "archive")})

    def make_topic(server: ServerThread) -> None:
        with Admin(server.name_server_address) as admin:
            admin.create_topic(TopicConfig(topic_name="TopicA", read_queue_nums=1, write_queue_nums=1))

    def counts(**wanted) -> dict[tuple[str, str], int]:
        with restarted_without_epochs(brokers, make_topic, store_config=small_config(brokers)) as server:
            return redrive(spark, RedriveRequest(source=source, group="g", target=target(server), is_dry_run=True,
                                                 **wanted), 1).counts

    assert counts() == {("TopicA", "sent before"): 1, ("TopicA", "to send"): 1}
    min((brokers / "commitlog").iterdir()).unlink()
    if has_archive:
        assert counts() == {("TopicA", "sent before"): 1, ("TopicA", "to send"): 1}
    elif is_left:
        assert counts() == {("TopicA", "log is newer"): 1, ("TopicA", "to send"): 1}
    else:
        assert counts() == {("TopicA", "log is newer"): 2}
        assert counts(changes={"topic": "origin_topic"}) == {("TopicA", "to send"): 2}


def test_what_cannot_be_redriven_is_refused(spark, shop, tmp_path):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.redrive import RedriveRequest, redrive

    with pytest.raises(JobRefused, match="column 'born_time' cannot be set; these can: topic, body"):
        redriven(spark, shop, changes={"born_time": "now()"})
    with pytest.raises(TopicMissing, match="has no %DLQ%nobody: no message of group 'nobody' ever became"):
        redrive(spark, RedriveRequest(source=shop.source, group="nobody"), 1)
    with pytest.raises(JobRefused, match="an archive lags behind the log"):
        redrive(spark, RedriveRequest(source=LogSource({"archivePath": str(tmp_path)}), group=GROUP), 1)


def test_the_command_without_spark_finds_the_same(spark, regulus_server):
    """Both read the same log by the same rules, and each sees what the other sent."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.redrive import RedriveRequest, redrive

    where = regulus_server.name_server_address
    command = {"NAMESRV_ADDR": where}
    request = RedriveRequest(source=LogSource({"nameServer": where}), group="g", target=target(regulus_server))

    def both() -> dict[tuple[str, str], int]:
        dry_run = CliRunner().invoke(dead, ["redrive", "g", "--dry-run", "--output", "json"], env=command)
        found = {(row["topic"], row["status"]): row["letters"] for row in json.loads(dry_run.stdout)["counts"]}
        assert redrive(spark, replace(request, is_dry_run=True), 1).counts == found
        return found

    def letters(*origins: tuple[str, str]) -> None:
        for key, origin in origins:
            properties = {"RETRY_TOPIC": origin, "CAUSE_17": "c", "CAUSE_STACK": "s"}
            producer.send(Message("%DLQ%g", b"x", "", key, properties))

    with Admin(where) as admin, Producer(where, "shop") as producer:
        for name in ("t", "u", "%DLQ%g", "%RETRY%g_t"):
            admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        letters(("before", "u"))
        make_anew(admin, "u")
        letters(("popped", "%RETRY%g_t"), ("retried", "%RETRY%other"), ("gone", "nowhere"), ("first", "t"))
        assert both() == {("u", "topic is newer"): 1, ("t", "to send"): 2, ("%RETRY%other", "no such topic"): 1,
                          ("nowhere", "no such topic"): 1}
        sent = CliRunner().invoke(dead, ["redrive", "g", "-y", "--brokers", "broker-a"], env=command)
        assert "2 sent, 0 sent before" in sent.output
        assert both()[("t", "sent before")] == 2
        letters(("second", "t"))
        assert redrive(spark, request, run_id()).count("sent") == 1
        assert both()[("t", "sent before")] == 3
    found = messages_of(regulus_server, "t", wait_for=3)
    assert sorted(each.keys for each in found) == ["first", "popped", "second"]
    assert not any(name.startswith("CAUSE_") for each in found for name in each.properties)
