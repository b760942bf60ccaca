"""A stretch of the past goes into a topic, at its pace or at once, and no message of it twice."""

from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from regulus.client.sync import Admin
from regulus.errors import DataLoss, JobRefused
from regulus.model.topics import TopicConfig
from regulus.testing.running_server import ServerThread
from tests.archives import archive_store
from tests.stores import NOW, a_message, dispatch, open_store, small_config
from tests.unit.pipeline.shop import make_anew
from tests.unit.spark.sink.support import messages_of

pytestmark = [pytest.mark.spark, pytest.mark.jobs]
GOLDEN = Path(__file__).parents[3] / "golden" / "store-4.9.8"


RUNS = count()


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def request(spark, server, **wanted):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.replay import ReplayRequest
    from regulus.pipeline.jobs.sending import Target

    source = LogSource({"storePath": str(GOLDEN)})
    times = source.messages(spark, ["SOrder"], ("store_time",)).selectExpr(
        "unix_millis(min(store_time)) AS low", "unix_millis(max(store_time)) AS high").first()
    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (times["low"], times["high"] + 1))
    target = None if server is None else Target(
        name_server=server.name_server_address, sink_id=f"replay-{next(RUNS)}",
        expected_brokers=("broker-a",))
    return ReplayRequest(**{"source": source, "topics": ("SOrder",), "starting": start, "ending": end,
                            "into": "again", "target": target, "name": "rehearsal", **wanted})


def test_a_replay_that_broke_off_sends_what_is_missing(spark, regulus_server):
    from regulus.pipeline.jobs.replay import replay

    clock = Clock()
    replay(spark, request(spark, regulus_server, where="queue_id = 1"), clock, clock.sleep)
    report = replay(spark, request(spark, regulus_server, goes_on=True), clock, clock.sleep)
    assert report.messages == 12
    assert len(messages_of(regulus_server, "again", wait_for=17)) == 17


def test_a_range_is_replayed_once_however_often_the_same_replay_is_started(spark, regulus_server):
    from regulus.pipeline.jobs.replay import replay

    clock = Clock()
    wanted = request(spark, regulus_server)
    report = replay(spark, wanted, clock, clock.sleep)
    assert (report.messages, report.was_sent, clock.waits) == (17, True, [])
    replay(spark, request(spark, regulus_server, goes_on=True), clock, clock.sleep)
    messages = messages_of(regulus_server, "again", wait_for=17)
    assert len(messages) == 17
    rows = wanted.source.messages(spark, ["SOrder"], ("body", "queue_id", "queue_offset", "sharding_key")).collect()
    assert sorted(message.body for message in messages) == sorted(bytes(row["body"]) for row in rows)
    places = {message.properties["REPLAY_OF"].rsplit("/", 1)[0] for message in messages}
    assert places == {f"SOrder/{row['queue_id']}/{row['queue_offset']}" for row in rows}


def test_a_replay_goes_on_whichever_way_its_messages_are_read(spark, regulus_server, tmp_path):
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.replay import replay

    archive_store(GOLDEN, tmp_path / "archive")
    clock = Clock()
    replay(spark, request(spark, regulus_server), clock, clock.sleep)
    for options in ({"storePath": str(GOLDEN), "brokerName": "b1"}, {"archivePath": str(tmp_path / "archive")}):
        again = request(spark, regulus_server, goes_on=True, source=LogSource(options), is_dry_run=True)
        report = replay(spark, again, clock, clock.sleep)
        assert (report.messages, report.was_sent) == (0, False)


def test_at_a_speed_each_slice_waits_for_its_turn(spark, regulus_server):
    from regulus.pipeline.jobs.replay import SLICE_SECONDS, replay

    clock = Clock()
    wanted = request(spark, regulus_server)
    span = (wanted.ending - wanted.starting).total_seconds()
    speed = span / (2.5 * SLICE_SECONDS)        # three slices
    dry = replay(spark, request(spark, None, speed=speed), clock, clock.sleep)
    assert (dry.messages, dry.was_sent) == (17, False)
    assert 1 <= dry.slices <= 3
    report = replay(spark, request(spark, regulus_server, speed=speed), clock, clock.sleep)
    assert report.slices == dry.slices
    assert len(clock.waits) == report.slices - 1 or clock.waits
    assert all(wait % SLICE_SECONDS == 0 for wait in clock.waits)
    assert len(messages_of(regulus_server, "again", wait_for=17)) == 17


def test_messages_that_are_gone_when_their_turn_comes_end_a_replay(spark, tmp_path):
    """Of four slices with one message each; while the second waits, their topic is made anew."""
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.replay import ReplayRequest, replay
    from regulus.pipeline.jobs.sending import Target

    store = open_store(tmp_path)
    for number in range(4):
        store.append(a_message("t", b"%d" % number), NOW + number * 1000)
    dispatch(store)
    store.close()
    start = datetime.fromtimestamp(NOW / 1000, UTC)
    with ServerThread(tmp_path, store_config=small_config(tmp_path)) as server, \
            Admin(server.name_server_address) as admin:
        for name in ("t", "again"):
            admin.create_topic(TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1))
        clock = Clock()

        def sleep(seconds: float) -> None:
            clock.sleep(seconds)
            if len(clock.waits) == 1:
                make_anew(admin, "t")

        wanted = ReplayRequest(
            source=LogSource({"nameServer": server.name_server_address}), name="n", topics=("t",), starting=start,
            ending=start + timedelta(seconds=4), into="again", speed=0.2,
            target=Target(name_server=server.name_server_address, expected_brokers=("broker-a",)))
        with pytest.raises(DataLoss, match=r"of 2023-11-14T22:13:21[+]00:00 to 2023-11-14T22:13:22[+]00:00 there were "
                                           r"1 messages to send when the replay began, and 0 when .*; 1 of 4 were"):
            replay(spark, wanted, clock, sleep)
        assert [message.body for message in messages_of(server, "again")] == [b"0"]


def test_a_range_or_speed_that_cannot_be_is_refused(spark):
    from regulus.pipeline.jobs.replay import replay

    now = datetime.now(UTC)
    with pytest.raises(JobRefused, match="before it begins"):
        request(spark, None, starting=now, ending=now)
    with pytest.raises(JobRefused, match="give a number above 0"):
        request(spark, None, speed=0)
    with pytest.raises(JobRefused, match="replay a shorter range, or faster"):
        replay(spark, request(spark, None, speed=0.001, ending=now + timedelta(days=30)), Clock(), Clock().sleep)
