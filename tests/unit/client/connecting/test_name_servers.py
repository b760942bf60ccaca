import asyncio

import pytest

from regulus.client.config import ClientConfig
from regulus.client.connecting.connections import Connections
from regulus.client.connecting.name_servers import SILENT_S, NameServers, parse_addresses
from regulus.errors import ConfigError, HostUnknown, NoNameServer, WrongNameServer
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import ScriptedServer, closed_address, refused
from tests.virtual_time import in_virtual_time, now_ms


def test_addresses_are_separated_by_semicolons_or_commas():
    assert parse_addresses("a:1; b:2,[::1]:3;") == ("a:1", "b:2", "[::1]:3")


@pytest.mark.parametrize("text", ["", " ; ", "localhost", "host:port", "host:99999", None, ["a:1"]])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match="name server"):
        parse_addresses(text)


def route_request():
    return RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class Servers:
    """Name servers on the way to a test; an answer of None is silence."""

    def __init__(self, *scripts):
        self.servers = [ScriptedServer(script) for script in scripts]
        self.connections = Connections(ClientConfig(), lambda connection, commands: None, None)

    async def __aenter__(self):
        for server in self.servers:
            await server.start()
        return self

    async def __aexit__(self, *error):
        await self.connections.close()
        for server in self.servers:
            await server.stop()

    def name_servers(self, *more):
        """In this order, which is else left to chance."""
        addresses = (*more, *(server.address for server in self.servers))
        made = NameServers(addresses, self.connections)
        made._order = list(addresses)
        return made


async def test_who_closes_is_told_with_what_it_may_be():
    """A name server that takes TLS only, or the port of RocketMQ 5 clients."""
    closing = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    host, port = closing.sockets[0].getsockname()
    async with closing, Servers() as servers:
        with pytest.raises(NoNameServer) as raised:
            await servers.name_servers(f"{host}:{port}").request(route_request(), 5000)
    assert str(raised.value) == (
        f"no name server answers: connection to {host}:{port} closed before the answer; where it does so each time, it "
        "takes TLS only, wants a certificate of its clients, or is no name server, such as the port of RocketMQ 5 "
        "clients (grpc://host:port)")


def answers(command):
    return command.response(ResponseCode.SUCCESS)


def is_silent(command):
    return None


async def test_of_many_requests_at_once_each_tries_every_name_server():
    async with Servers(answers) as servers:
        for _ in range(20):
            asked = servers.name_servers(closed_address())
            got = await asyncio.gather(*(asked.request(route_request(), 1000) for _ in range(2)))
            assert [answer.code for answer in got] == [ResponseCode.SUCCESS] * 2


@in_virtual_time
async def test_every_name_server_is_tried_once_within_the_time():
    async with Servers(is_silent, is_silent, answers) as servers:
        asked = servers.name_servers()
        begun = now_ms()
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.SUCCESS
        assert 2000 <= now_ms() - begun <= 2040
        begun = now_ms()
        await asked.request(route_request(), 3000)      # the one that answered is asked first
        assert now_ms() == begun
        servers.servers[2].script = is_silent
        with pytest.raises(NoNameServer):
            await asked.request(route_request(), 3000)
        assert 3000 <= now_ms() - begun <= 3060
    assert [len(server.requests) for server in servers.servers] == [2, 2, 3]


async def test_a_broker_named_as_name_server_is_told():
    async with Servers(lambda command: refused(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)) as servers:
        with pytest.raises(WrongNameServer, match=r"127.0.0.1:\d+ is no name server, and a broker most likely"):
            await servers.name_servers().request(route_request(), 1000)


async def test_one_of_several_that_only_does_not_answer_may_yet_be_one():
    async with Servers(lambda command: refused(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)) as servers:
        with pytest.raises(NoNameServer) as raised:
            await servers.name_servers(closed_address()).request(route_request(), 1000)
        assert type(raised.value) is NoNameServer


async def test_a_host_that_is_not_there_is_told_apart_from_one_that_does_not_answer(monkeypatch):
    async def refuse(host, port, *_, **__):
        raise HostUnknown(f"no connection to {host}:{port}: Name or service not known")

    monkeypatch.setattr("regulus.client.connecting.connections.connect", refuse)
    async with Servers() as servers:
        with pytest.raises(WrongNameServer, match="no connection to nowhere:9876: Name or service not known"):
            await servers.name_servers("nowhere:9876").request(route_request(), 1000)


async def test_what_only_newer_name_servers_know_is_answered_as_it_is():
    async with Servers(lambda command: refused(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)) as servers:
        answer = await servers.name_servers().request(RemotingCommand.request(RequestCode.GET_NAMESRV_CONFIG), 1000)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def does_not_know(command):
    return refused(command, ResponseCode.TOPIC_NOT_EXIST)


async def test_a_topic_that_one_name_server_does_not_know_is_asked_of_the_others():
    async with Servers(does_not_know, does_not_know, answers) as servers:
        asked = servers.name_servers()
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.SUCCESS
        assert [len(server.requests) for server in servers.servers] == [1, 1, 1]
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.SUCCESS
        assert [len(server.requests) for server in servers.servers] == [1, 1, 2]


async def test_a_topic_that_no_name_server_knows_is_not_there():
    async with Servers(does_not_know, does_not_know) as servers:
        asked = servers.name_servers(closed_address())
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.TOPIC_NOT_EXIST
        assert [len(server.requests) for server in servers.servers] == [1, 1]


@in_virtual_time
async def test_a_name_server_that_is_silent_does_not_hold_up_that_a_topic_is_not_there():
    async with Servers(does_not_know, is_silent) as servers:
        asked = servers.name_servers()
        begun = now_ms()
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.TOPIC_NOT_EXIST
        assert 500 <= now_ms() - begun <= 520


@in_virtual_time
async def test_a_silent_name_server_costs_its_time_once_in_a_while_and_not_for_each_topic():
    async with Servers(does_not_know, is_silent) as servers:
        asked = servers.name_servers()
        begun = now_ms()
        for _ in range(10):
            assert (await asked.request(route_request(), 3000)).code == ResponseCode.TOPIC_NOT_EXIST
        assert now_ms() - begun <= 520
        servers.servers[1].script = answers
        await asyncio.sleep(SILENT_S)
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.SUCCESS


async def test_other_refusals_are_the_answer():
    async with Servers(lambda command: refused(command, ResponseCode.SYSTEM_ERROR), answers) as servers:
        asked = servers.name_servers()
        assert (await asked.request(route_request(), 3000)).code == ResponseCode.SYSTEM_ERROR
        deletion = RemotingCommand.request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
        servers.servers[0].script = does_not_know
        assert (await asked.request(deletion, 3000)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_each_doubt_begins_at_the_next_name_server():
    async with Servers(answers, answers, answers) as servers:
        asked = servers.name_servers()
        for doubts in range(1, 5):
            await asked.request(route_request(), 3000, doubts=doubts)
        assert [len(server.requests) for server in servers.servers] == [1, 2, 1]
        await asked.request(route_request(), 3000)      # of the one that answered last
        assert [len(server.requests) for server in servers.servers] == [1, 3, 1]
