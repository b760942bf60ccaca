"""The page of a running server: what Prometheus and a probe see."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from regulus.broker.config import BrokerConfig
from regulus.errors import ConfigError
from regulus.model.metrics_config import MetricsConfig
from regulus.nameserver.config import NamesrvConfig
from regulus.server.assembly import BrokerServer, Regulus
from regulus.server.metrics_page import STEP_S, MetricsPageServer, bind_page
from regulus.server.name_server import NameServer
from regulus.server.watchdog import Watchdog
from regulus.testing.running_server import small_store
from regulus.transport.config import TransportConfig
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.transport.listener import bind
from regulus.wire.codes import RequestCode
from regulus.wire.headers import PullMessageRequest, SendMessageRequest, UpdateAndCreateTopicRequest
from regulus.wire.metrics_text import GAUGE, MetricsPage
from regulus.wire.remoting_command import RemotingCommand

HOST = "127.0.0.1"
PAGE = MetricsConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)
TRANSPORT = TransportConfig(bind_address=HOST)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def get(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    """Status, headers and body."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(f"GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split(" ")[1]), head, body


async def scrape(port: int) -> Samples:
    status, _, text = await get(port, "/metrics")
    assert status == 200
    return {(sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum of the series that have these labels."""
    found = [number for (each, theirs), number in samples.items() if each == name and labels.items() <= theirs]
    assert found, f"no {name} with {labels}"
    return sum(found)


def regulus(tmp_path: Path, **settings: object) -> Regulus:
    return Regulus(BrokerConfig(listen_port=0, **settings), small_store(tmp_path),
                   NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TRANSPORT, metrics_config=PAGE)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Regulus]:
    server = regulus(tmp_path)
    await server.start()
    yield server
    await server.stop()


def page_port(server: Regulus | BrokerServer | NameServer) -> int:
    metrics = server.broker_server.metrics if isinstance(server, Regulus) else server.metrics
    assert metrics is not None
    return metrics.port


@pytest.fixture
async def client(server: Regulus) -> AsyncIterator[Connection]:
    connection = await connect(HOST, server.broker_server.port)
    yield connection
    connection.close()


async def ask(client: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return await client.request(RemotingCommand.request(int(code), ext, body), 10_000)


async def send(client: Connection, topic: str) -> None:
    header = SendMessageRequest("PG", topic, queue_id=0, properties={"UNIQ_KEY": "K"}, born_timestamp=1)
    answer = await ask(client, RequestCode.SEND_MESSAGE_V2, header.ext_for(RequestCode.SEND_MESSAGE_V2), b"hello")
    assert answer.code == 0


async def test_requests_are_counted_by_code_and_answer(server: Regulus, client: Connection) -> None:
    for _ in range(3):
        await send(client, "TopicA")
    refused = await ask(client, RequestCode.SEND_MESSAGE_V2, SendMessageRequest(
        "PG", "SCHEDULE_TOPIC_XXXX", queue_id=0).ext_for(RequestCode.SEND_MESSAGE_V2))
    samples = await scrape(page_port(server))
    name = "rocketmq_rpc_latency_milliseconds_count"
    assert value(samples, name, request_code="send_message_v2", response_code="success", is_long_polling="false",
                 protocol_type="remoting", result="success") == 3
    assert refused.code == 16
    assert value(samples, name, request_code="send_message_v2", response_code="no_permission") == 1
    assert value(samples, "regulus_refused_requests_total") == 1
    assert value(samples, "rocketmq_messages_in_total", topic="TopicA", message_type="normal") == 3


async def test_creations_are_timed_until_they_are_saved(server: Regulus, client: Connection) -> None:
    header = UpdateAndCreateTopicRequest(topic="New", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4,
                                         perm=6, topic_filter_type="SINGLE_TAG")
    assert (await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, header.ext())).code == 0
    samples = await scrape(page_port(server))
    assert value(samples, "rocketmq_topic_create_execution_time_milliseconds_count", invocation_status="success",
                 is_system="false") == 1
    assert value(samples, "rocketmq_rpc_latency_milliseconds_count", request_code="update_and_create_topic") == 1


async def test_the_wait_of_a_long_poll_is_part_of_its_time(server: Regulus, client: Connection) -> None:
    await send(client, "TopicA")
    pull = PullMessageRequest("G", "TopicA", 0, 1, sys_flag=2 | 4, subscription="*", suspend_timeout_millis=60_000,
                              expression_type="TAG", max_msg_nums=1)
    waiting = asyncio.ensure_future(ask(client, RequestCode.PULL_MESSAGE, pull.ext()))
    while not len(server.broker_server.broker.held_requests):
        await asyncio.sleep(0.001)
    await send(client, "TopicA")
    assert (await waiting).code == 0
    samples = await scrape(page_port(server))
    assert value(samples, "rocketmq_rpc_latency_milliseconds_count", request_code="pull_message",
                 response_code="success", is_long_polling="true") == 1


async def test_a_broker_without_the_key_opens_no_port_and_counts_no_request(tmp_path: Path) -> None:
    server = Regulus(BrokerConfig(listen_port=0), small_store(tmp_path),
                     NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TRANSPORT)
    await server.start()
    assert server.broker_server.metrics is None
    assert server.broker_server.broker.latencies is None
    await server.stop()


async def test_the_forms_of_the_page(server: Regulus) -> None:
    _, head, _ = await get(page_port(server), "/metrics")
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    _, head, text = await get(page_port(server), "/metrics", "application/openmetrics-text;version=1.0.0")
    assert "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8" in head
    assert text.endswith("# EOF\n")
    _, _, text = await get(page_port(server), "/metrics?name[]=rocketmq_topic_number")
    assert [line.split("{")[0] for line in text.splitlines() if line[0] != "#"] == ["rocketmq_topic_number"]
    assert (await get(page_port(server), "/"))[0] == 404


async def test_one_process_has_one_page(server: Regulus) -> None:
    samples = await scrape(page_port(server))
    assert value(samples, "regulus_nameserver_brokers") == 1
    assert value(samples, "regulus_ready") == 1


async def test_a_server_that_serves_is_ready(server: Regulus) -> None:
    assert (await get(page_port(server), "/healthz"))[::2] == (200, "ok\n")
    status, head, text = await get(page_port(server), "/readyz")
    assert (status, json.loads(text)) == (200, {"ready": True, "reasons": []})
    assert "Content-Type: application/json" in head


async def test_a_broker_that_takes_no_messages_is_not_ready(server: Regulus) -> None:
    server.broker_server.store.stop_writes("the disk failed")
    status, _, text = await get(page_port(server), "/readyz")
    assert (status, json.loads(text)["reasons"]) == (503, ["the store takes no messages: the disk failed"])
    assert value(await scrape(page_port(server)), "regulus_ready") == 0
    assert (await get(page_port(server), "/healthz"))[0] == 200


async def test_a_broker_that_no_name_server_knows_is_not_ready(tmp_path: Path) -> None:
    free = bind(HOST, 0)
    server = BrokerServer(BrokerConfig(listen_port=0, namesrv_addr=f"{HOST}:{free.getsockname()[1]}"),
                          small_store(tmp_path), transport_config=TRANSPORT, metrics_config=PAGE)
    await server.start()
    status, _, text = await get(page_port(server), "/readyz")
    assert (status, json.loads(text)["reasons"]) == (503, ["no name server knows this broker"])
    await server.stop()
    free.close()


async def test_a_slave_is_ready_when_it_is_linked_to_its_master(tmp_path: Path) -> None:
    names = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), TRANSPORT)
    await names.start()
    server = BrokerServer(BrokerConfig(listen_port=0, broker_role="SLAVE", broker_id=1,
                                       namesrv_addr=f"{HOST}:{names.port}"),
                          small_store(tmp_path), transport_config=TRANSPORT, metrics_config=PAGE)
    await server.start()
    _, _, text = await get(page_port(server), "/readyz")
    assert "this slave is not linked to its master" in json.loads(text)["reasons"]
    samples = await scrape(page_port(server))
    assert value(samples, "regulus_master_linked") == 0
    await server.stop()
    await names.stop()


async def test_a_name_server_has_a_page_of_its_own() -> None:
    names = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST, need_wait_for_service=True), TRANSPORT,
                       metrics_config=PAGE)
    await names.start()
    status, _, text = await get(page_port(names), "/readyz")
    assert (status, json.loads(text)["reasons"]) == (
        503, ["the name server waits for brokers to register (needWaitForService)"])
    assert value(await scrape(page_port(names)), "regulus_nameserver_topics") == 0
    await names.stop()


async def test_a_port_that_is_taken_ends_the_start_and_frees_the_others(tmp_path: Path) -> None:
    taken = bind(HOST, 0)
    taken.listen()
    config = MetricsConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=taken.getsockname()[1])
    server = Regulus(BrokerConfig(listen_port=0), small_store(tmp_path),
                     NamesrvConfig(listen_port=0, bind_address=HOST), transport_config=TRANSPORT, metrics_config=config)
    with pytest.raises(OSError, match="in use"):
        await server.start()
    taken.close()
    again = regulus(tmp_path)
    await again.start()
    await again.stop()


def test_an_address_that_cannot_be_the_page_s_is_named_with_its_keys() -> None:
    """The address may be brokerIP1, at which the broker itself does not listen."""
    with pytest.raises(OSError, match=r"metricsPromExporterHost.*203\.0\.113\.5:0: Cannot assign") as refused:
        bind_page(bind, PAGE, "203.0.113.5")
    assert refused.value.errno == errno.EADDRNOTAVAIL


async def test_the_page_is_made_in_turns_with_others() -> None:
    """Between two steps the loop serves others, and nobody else's page is begun."""
    server = MetricsPageServer(PAGE, bind(HOST, 0), Watchdog())
    under_way: list[int] = []
    steps = 0

    def fill(page: MetricsPage) -> Iterator[None]:
        nonlocal steps
        under_way.append(1)
        assert len(under_way) == 1
        loop = asyncio.get_running_loop()
        for _ in range(5):
            end = loop.time() + 2 * STEP_S
            while loop.time() < end:
                pass
            steps += 1
            yield
        page.family("done", GAUGE, "", {}).add(1)
        under_way.pop()

    server.sources.append(fill)
    await server.start()
    seen = set()

    async def others() -> None:
        while steps < 10:
            seen.add(steps)
            await asyncio.sleep(0)

    first, second, _ = await asyncio.gather(get(server.port, "/metrics"), get(server.port, "/metrics"), others())
    assert first[2] == second[2]
    assert seen >= set(range(1, 10))
    await server.stop()


def test_a_label_of_the_configuration_is_on_every_series() -> None:
    with pytest.raises(ConfigError):
        MetricsConfig(metrics_label="cluster:mine")
