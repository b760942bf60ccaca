"""Whole servers that speak nothing but TLS: name server, master, slave, and our clients."""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from regulus.broker.config import BrokerConfig
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.listener import ConsumeStatus
from regulus.client.send_result import SendStatus
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError
from regulus.model.broker_role import BrokerRole
from regulus.model.message import Message
from regulus.nameserver.config import NamesrvConfig
from regulus.server import ha_client
from regulus.server.assembly import BrokerServer
from regulus.server.name_server import NameServer
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.transport.tls import TlsConfig, TlsMode
from tests.certificates import Authority
from tests.waiting import until

HOST = "127.0.0.1"


def store_config(path: Path) -> MessageStoreConfig:
    return MessageStoreConfig(store_path_root_dir=str(path), mapped_file_size_commit_log=1 << 20,
                              mapped_file_size_consume_queue=2000, max_hash_slot_num=500, max_index_num=2000)


async def test_master_slave_name_server_and_clients_speak_tls_and_prove_who_they_are(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(ha_client, "RETRY_S", 0.05)
    authority = Authority(tmp_path / "certificates")
    server, client = authority.issue("server"), authority.issue("client")
    trusted = str(authority.pair.certificate)
    both = {"tls_enable": True, "tls_client_trust_cert_path": trusted, "tls_client_cert_path": str(client.certificate),
            "tls_client_key_path": str(client.key)}
    transport = TransportConfig(
        bind_address=HOST, tls_server_mode=TlsMode.ENFORCING, tls_server_cert_path=str(server.certificate),
        tls_server_key_path=str(server.key), tls_server_auth_client=True, tls_server_trust_cert_path=trusted,
        tls_ha_enable=True, **both)
    tls = TlsConfig(**both)
    async with AsyncExitStack() as stack:
        name_server = NameServer(NamesrvConfig(listen_port=0, bind_address=HOST), transport)
        await name_server.start()
        stack.push_async_callback(name_server.stop)
        address = f"{HOST}:{name_server.port}"

        async def start(name: str, role: BrokerRole, number: int) -> BrokerServer:
            config = BrokerConfig(broker_id=number, listen_port=0, broker_ip1=HOST, namesrv_addr=address,
                                  broker_role=role, register_name_server_period=50, ha_send_heartbeat_interval=100,
                                  slave_timeout=10_000)
            broker = BrokerServer(config, store_config(tmp_path / name), transport_config=transport)
            await broker.start()
            stack.push_async_callback(broker.stop)
            return broker

        master = await start("master", BrokerRole.SYNC_MASTER, 0)
        slave = await start("slave", BrokerRole.SLAVE, 1)
        await until(lambda: slave._replication.is_linked)
        body = os.urandom(100_000)
        async with Producer(address, "shop", ProducerConfig(tls=tls, send_msg_timeout=20_000)) as producer:
            sent = [await producer.send(Message("Orders", body)) for _ in range(20)]
        assert {each.send_status for each in sent} == {SendStatus.SEND_OK}
        assert slave.store.commit_log_max_offset() == master.store.commit_log_max_offset() > 20 * 100_000
        received: list[bytes] = []

        async def listen(messages: list[Any], context: object) -> ConsumeStatus:
            received.extend(each.body for each in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = PushConsumer(address, "kitchen", listen, PushConsumerConfig(
            tls=tls, consume_from_where="CONSUME_FROM_FIRST_OFFSET"))   # type: ignore[arg-type]
        consumer.subscribe("Orders")
        async with consumer:
            await until(lambda: len(received) == 20)
        assert received == [body] * 20
        without = TlsConfig(tls_enable=True, tls_client_trust_cert_path=trusted)
        for refused in (ClientConfig(), ClientConfig(tls=without)):
            with pytest.raises(ClientError):
                async with Admin(address, refused) as admin:
                    await admin.cluster_info()
        reader, writer = await asyncio.open_connection(HOST, master._replication.port)
        writer.write(b"\0" * 8)     # a slave that speaks plain text
        assert await reader.read() == b""
        writer.close()
    assert "its TLS handshake failed" in caplog.text
