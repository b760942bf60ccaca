"""What a broker knows of a group becomes watermarks and alarms."""

from dataclasses import replace

import pytest
from sqlalchemy import insert

from regulus.client.config import ProducerConfig, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.sending.producer import Producer
from regulus.errors import ConfigError, ReliabilityRefused
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue
from regulus.nameserver.config import NamesrvConfig
from regulus.reliability import delivery_log, outbox_table, tables
from regulus.reliability.alarms import AlarmKind, raise_alarm
from regulus.reliability.broker_watch import QUIET_ROUNDS, BrokerWatch
from regulus.reliability.delivery_log import MadeAnew
from regulus.reliability.outbox_table import Position
from regulus.reliability.relay import DueStubs, RelayConfig
from regulus.server.name_server import NameServer
from regulus.transport.config import TransportConfig
from tests.waiting import until

from .consumed import FROM_FIRST
from .deliveries import rows
from .shop import make_due, place_orders, set_stub, stub

HOST = "127.0.0.1"


@pytest.fixture
async def send(regulus_server):
    async with Producer(regulus_server.name_server_address, "shop") as producer:
        async def send(*bodies):
            return [await producer.send(Message("orders", body.encode())) for body in bodies]
        yield send


@pytest.fixture
async def watch(engine, regulus_server):
    """Looks only when it is told to."""
    watch = BrokerWatch(engine, regulus_server.name_server_address, ["billing"], interval_ms=3_600_000)
    await watch._admin.start()
    yield watch
    await watch._admin.shutdown()


def watermarks(engine):
    return {(group, queue): offset for group, topic, queue, offset in rows(
        engine, tables.watermarks, "consumer_group", "topic", "queue_id", "queue_offset_max") if topic == "orders"}


def alarms(engine):
    return rows(engine, tables.alarms, "kind", "subject", "detail")


def open_alarms(engine):
    return [key for key, in rows(engine, tables.alarms, "open_key") if key is not None]


def consumer(server, listener, **values):
    consumer = PushConsumer(server.name_server_address, "billing", listener, replace(FROM_FIRST, **values))
    consumer.subscribe("orders")
    return consumer


async def test_stored_offsets_are_watermarks_and_retries_move_none(engine, regulus_server, send, watch):
    seen = []

    def listen(messages, context):
        seen.extend(messages)
        context.delay_level_when_next_consume = 1
        is_first = messages[0].body == b"0" and not messages[0].reconsume_times
        return ConsumeStatus.RECONSUME_LATER if is_first else ConsumeStatus.CONSUME_SUCCESS

    sent = await send(*"0123456789")
    await watch.look()
    assert watermarks(engine) == {}
    async with consumer(regulus_server, listen):
        await until(lambda: len(seen) >= 11)
    await watch.look()
    ends = {("billing", each.message_queue.queue_id): each.queue_offset + 1 for each in sent}
    assert watermarks(engine) == ends
    assert {topic for topic, in rows(engine, tables.watermarks, "topic")} == {"orders"}


@pytest.mark.parametrize(("values", "is_forgotten"), [
    ({}, True), ({"queue_offset": 4}, False), ({"topic": "bills"}, False), ({"broker_name": "broker-b"}, False),
    ({"queue_id": 1}, False), ({"status": "CONFIRMED"}, False), ({"is_manual": True}, False)])
def test_places_are_forgotten_from_the_end_of_the_queue_on_and_of_what_waits(engine, values, is_forgotten):
    place_orders(engine, "1")
    set_stub(engine, "1", **{"broker_name": "broker-a", "queue_id": 0, "queue_offset": 5, **values})
    with engine.begin() as connection:
        outbox_table.forget_places(connection, MessageQueue("orders", "broker-a", 0), 5)
    assert (stub(engine, "1").queue_offset is None) is is_forgotten


async def test_the_last_message_of_a_quiet_queue_is_sent_again_where_its_confirmation_is_lost(
        engine, regulus_server, send, watch):
    seen = []

    def listen(messages, context):
        seen.extend(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    place_orders(engine, "1")
    due = DueStubs(engine, RelayConfig())
    due.claim()
    (sent,) = await send("1")
    queue = sent.message_queue
    due.store([Position("1", 1, queue.broker_name, queue.queue_id, sent.queue_offset)])
    make_due(engine)
    await watch.look()
    assert due.review().claimed == []
    async with consumer(regulus_server, listen):
        await until(lambda: seen)
    make_due(engine)
    await watch.look()
    assert [each.message_id for each in due.review().claimed] == ["1"]


async def test_a_queue_that_ends_before_what_was_received_begins_anew(engine, regulus_server, send, watch):
    """A topic that was made anew, or a broker that has the state of yesterday."""
    (sent,) = await send("1")
    queue = sent.message_queue
    place = {"topic": queue.topic, "broker_name": queue.broker_name, "queue_id": queue.queue_id}
    seen = []

    def listen(messages, context):
        seen.extend(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer(regulus_server, listen):
        await until(lambda: seen)
    with engine.begin() as connection:
        connection.execute(insert(tables.watermarks).values(consumer_group="billing", queue_offset_max=900,
                                                            move_time=7, **place))
    place_orders(engine, "gone", "backlog")
    set_stub(engine, "gone", send_count=1, queue_offset=800, **place)
    set_stub(engine, "backlog", send_count=1, queue_offset=0, **place)
    await watch.look()
    assert watermarks(engine)["billing", queue.queue_id] == 1
    assert (stub(engine, "gone").queue_offset, stub(engine, "backlog").queue_offset) == (None, 0)


def test_a_watermark_that_moved_meanwhile_is_not_lowered(engine):
    queue = MessageQueue("orders", "broker-a", 0)
    with engine.begin() as connection:
        delivery_log.raise_watermarks(connection, "billing", {queue: 901})
        assert not delivery_log.lower_watermark(connection, "billing", MadeAnew(queue, 900, 5, 1))
    assert watermarks(engine) == {("billing", 0): 901}


def away(*_):
    raise OSError("the database is away")


class Refusal:
    """A listener that gives up each message at once."""

    def __init__(self):
        self.given_up = []

    def __call__(self, messages, context):
        self.given_up.extend(messages)
        context.delay_level_when_next_consume = -1
        return ConsumeStatus.RECONSUME_LATER


async def test_dead_letters_that_grow_are_told_until_they_rest(engine, regulus_server, send, watch):
    refuse = Refusal()
    await watch.look()
    async with consumer(regulus_server, refuse):
        await send("1", "2")
        await until(lambda: len(refuse.given_up) >= 2)
    await watch.look()
    assert alarms(engine) == [("DEAD_LETTERS", "billing", "2 messages that the group gave up came to the 0 before")]
    for _ in range(QUIET_ROUNDS - 1):
        await watch.look()
    assert open_alarms(engine) == ["DEAD_LETTERS billing"]
    await watch.look()
    assert open_alarms(engine) == []


async def test_dead_letters_that_could_not_be_told_are_told_by_the_next_look(engine, regulus_server, send, watch,
                                                                             monkeypatch):
    refuse = Refusal()
    await watch.look()
    async with consumer(regulus_server, refuse):
        await send("1")
        await until(lambda: refuse.given_up)
    with monkeypatch.context() as patched:
        patched.setattr("regulus.reliability.broker_watch.raise_alarm", away)
        with pytest.raises(OSError):
            await watch.look()
    await watch.look()
    assert open_alarms(engine) == ["DEAD_LETTERS billing"]
    for _ in range(QUIET_ROUNDS - 1):
        await watch.look()
    with monkeypatch.context() as patched:
        patched.setattr("regulus.reliability.broker_watch.close_alarm", away)
        with pytest.raises(OSError):
            await watch._note_dead_letters(watch._groups[0])
    await watch.look()
    assert open_alarms(engine) == []


async def test_what_lay_among_the_dead_letters_before_is_no_growth(engine, regulus_server, send, watch):
    refuse = Refusal()
    async with consumer(regulus_server, refuse):
        await send("1")
        await until(lambda: len(refuse.given_up) >= 1)
    await watch.look()
    assert alarms(engine) == []


async def test_an_orderly_queue_that_stands_still_is_told_until_it_goes_on(engine, regulus_server, send, watch):
    tries = []
    works = []

    def listen(messages, context):
        tries.append(messages[0].body)
        return ConsumeStatus.CONSUME_SUCCESS if works else ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    await send("1")
    async with consumer(regulus_server, listen, consume_orderly=True, suspend_current_queue_time_millis=10) as billing:
        await until(lambda: len(tries) >= 5)
        await watch.look()
        assert [(kind, subject) for kind, subject, _ in alarms(engine)] == [("BLOCKED_QUEUE", "billing")]
        works.append(True)
        done = len(tries) + 1
        await until(lambda: len(tries) >= done)
        await until(lambda: billing.running_info().properties["PROP_BLOCKED_QUEUES"] == "0")
        await watch.look()
    assert open_alarms(engine) == []


async def test_a_name_server_that_is_away_is_told_once_and_asked_again(engine, caplog):
    async with BrokerWatch(engine, "127.0.0.1:1", ["billing"], interval_ms=1) as watch:
        for _ in range(3):
            await watch.look()
        assert watch.restarts == 0
    told = [record.getMessage() for record in caplog.records if record.name == "regulus.reliability.broker_watch"]
    assert len(told) == 1
    assert told[0].startswith("brokers are away (")


async def test_the_watch_looks_by_itself(engine, regulus_server, send):
    seen = []

    def listen(messages, context):
        seen.extend(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    await send("1")
    async with consumer(regulus_server, listen):
        await until(lambda: bool(seen))
    async with BrokerWatch(engine, regulus_server.name_server_address, ["billing"], interval_ms=10):
        await until(lambda: bool(watermarks(engine)))


async def test_missing_tables_are_told_at_start(engine):
    with engine.begin() as connection:
        tables.watermarks.drop(connection)
    with pytest.raises(ReliabilityRefused, match="no table regulus_watermark"):
        await BrokerWatch(engine, "127.0.0.1:1", ["billing"]).start()


@pytest.mark.parametrize(("values", "says"), [({"groups": []}, "groups is empty"), ({"groups": "billing"}, "one text"),
                                              ({"groups": ["billing"], "interval_ms": 0}, "interval_ms is 0")])
def test_limits_are_told(engine, values, says):
    with pytest.raises(ConfigError, match=says):
        BrokerWatch(engine, "127.0.0.1:1", **values)


async def test_brokers_that_are_away_are_told_once(engine, caplog):
    """The name server is there, and knows none."""
    alone = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), TransportConfig(bind_address=HOST))
    await alone.start()
    with engine.begin() as connection:
        raise_alarm(connection, AlarmKind.BLOCKED_QUEUE, "billing", "")
    async with BrokerWatch(engine, f"{HOST}:{alone.port}", ["billing"], interval_ms=3_600_000) as watch:
        for _ in range(2):
            await watch.look()
    await alone.stop()
    told = [record.getMessage() for record in caplog.records if record.name == "regulus.reliability.broker_watch"]
    assert told == [
        ("brokers are away (no broker is registered with the name server; start one first): how far groups are is "
         "asked again until one answers")]
    assert open_alarms(engine) == ["BLOCKED_QUEUE billing"]


WATCHS_ACCOUNT = """accounts:
- accessKey: watch-of-shop
  secretKey: its-secret-key
  topicPerms:
  - TBW102=PUB
  - orders=PUB|SUB
  - "%DLQ%billing=SUB"
  groupPerms:
  - billing=SUB
"""
WATCH = PushConsumerConfig(access_key="watch-of-shop", secret_key="its-secret-key",
                           consume_from_where=FROM_FIRST.consume_from_where)


async def test_a_watch_signs_what_it_asks(engine, make_guarded_server, caplog):
    address = make_guarded_server(WATCHS_ACCOUNT).name_server_address
    keys = ProducerConfig(access_key=WATCH.access_key, secret_key=WATCH.secret_key)
    async with Producer(address, "shop", keys) as producer:
        await producer.send(Message("orders", b"1"))
    consumed = []

    def consume(messages, context):
        consumed.extend(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(address, "billing", consume, WATCH)
    consumer.subscribe("orders")
    async with consumer:
        await until(lambda: consumed)
    watch = BrokerWatch(engine, address, ["billing"], client_config=WATCH)
    await watch._admin.start()
    await watch.look()
    await watch._admin.shutdown()
    assert 1 in watermarks(engine).values()
    assert "do not say how" not in caplog.text
