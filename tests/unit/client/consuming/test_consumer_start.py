"""What a consumer finds out before it joins: name servers that are not up yet are waited for."""

import asyncio
import socket

import pytest

from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming import consumer_start
from regulus.errors import NoNameServer, WrongNameServer
from tests.unit.client.scripted_servers import closed_address, scripted_cluster
from tests.virtual_time import in_virtual_time, now_ms


async def test_a_name_server_that_comes_late_is_waited_for():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        address = cluster.name_server.address
        await cluster.name_server.stop()
        instance = client_instance.acquire(address, ClientConfig(mq_client_api_timeout=30_000))
        try:
            fetching = asyncio.ensure_future(consumer_start.fetch_routes(instance, ["T", "U"]))
            await asyncio.sleep(0.1)        # so that it was asked for in vain
            await cluster.name_server.start(address)
            await fetching
            assert instance.known_route("T").publish_queues
            assert instance.known_route("U").publish_queues
        finally:
            await client_instance.release(instance)


@in_virtual_time
async def test_one_that_does_not_come_is_an_error_when_the_time_is_over():
    instance = client_instance.acquire(closed_address(), ClientConfig(mq_client_api_timeout=5_000))
    try:
        begun = now_ms()
        with pytest.raises(NoNameServer, match="no name server answers"):
            await consumer_start.fetch_routes(instance, ["T"])
        assert 3_500 < now_ms() - begun < 5_100
    finally:
        await client_instance.release(instance)


@in_virtual_time
async def test_a_host_that_does_not_exist_is_not_waited_for(monkeypatch):
    async def nowhere(*address, **named):       # a real resolver takes its time, and virtual time goes on meanwhile
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", nowhere)
    instance = client_instance.acquire("no-such-host.invalid:9876", ClientConfig())
    try:
        begun = now_ms()
        with pytest.raises(WrongNameServer):
            await consumer_start.fetch_routes(instance, ["T"])
        assert now_ms() == begun
    finally:
        await client_instance.release(instance)
