"""What clients of a process share, and how a client instance answers brokers."""

import asyncio
import json
from dataclasses import replace

import pytest

from regulus.client import tasks
from regulus.client.config import ClientConfig
from regulus.client.connecting import client_instance
from regulus.errors import BrokerRefused, ClientClosed, ClientError, HeaderError
from regulus.wire.acl_signature import signature
from regulus.wire.bodies import ConsumerData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.client.scripted_servers import refused, scripted_cluster


class Member:
    """A member that counts what it hears."""

    def __init__(self, group, is_consumer=False, handlers=None, topics=()):
        self.group = group
        self.is_consumer = is_consumer
        self.handlers = handlers or {}
        self.topic_names = topics
        self.route_changes = 0

    def consumer_data(self):
        return ConsumerData(group_name=self.group) if self.is_consumer else None

    def topics(self):
        return self.topic_names

    def routes_changed(self):
        self.route_changes += 1

    def request_handlers(self):
        return self.handlers


async def test_clients_with_the_same_settings_share_an_instance_until_the_last_is_gone():
    async with scripted_cluster() as cluster:
        address = cluster.name_server.address
        one = client_instance.acquire(address, ClientConfig())
        two = client_instance.acquire(address, ClientConfig())
        other = client_instance.acquire(address, ClientConfig(unit_name="east"))
        assert one is two
        assert one is not other
        await client_instance.release(one)
        await one.route("T")
        await client_instance.release(two)
        with pytest.raises(ClientError):
            await one.fetch_route("T")
        assert client_instance.acquire(address, ClientConfig()) is not one
        await client_instance.release(other)


async def test_consumers_of_one_group_get_instances_of_their_own_and_producers_need_not():
    async with scripted_cluster() as cluster:
        address = cluster.name_server.address
        members = [Member("G", is_consumer=True), Member("G", is_consumer=True), Member("G"), Member("G")]
        instances = [client_instance.acquire(address, ClientConfig(), member) for member in members]
        assert instances[0] is not instances[1]
        assert instances[2] is instances[3] is instances[0]
        assert instances[0].client_id != instances[1].client_id
        for instance, member in zip(instances, members, strict=True):
            await client_instance.release(instance, member)


async def test_a_member_gives_its_instance_back_once_however_often_it_says_so():
    async with scripted_cluster() as cluster:
        address = cluster.name_server.address
        leaving, staying = Member("A"), Member("B")
        instance = client_instance.acquire(address, ClientConfig(), leaving)
        assert client_instance.acquire(address, ClientConfig(), staying) is instance
        await asyncio.gather(*(client_instance.release(instance, leaving) for _ in range(3)))
        assert (instance.users, instance.members) == (1, [staying])
        await instance.fetch_route("T")
        await client_instance.release(instance, staying)


async def test_a_release_that_is_cancelled_closes_the_instance_nevertheless():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=lambda command: None)
        member = Member("A")
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        await instance.fetch_route("T")
        await instance.connections.get(broker.address)
        release = asyncio.ensure_future(client_instance.release(instance, member))
        async with asyncio.timeout(10):
            while not broker.requests_of(RequestCode.UNREGISTER_CLIENT):
                await asyncio.sleep(0)
            release.cancel()
            await asyncio.wait([release])
        assert release.cancelled()
        assert instance.users == 0
        assert instance.connections.open_addresses() == []
        assert {task.get_name() for task in asyncio.all_tasks()}.isdisjoint({"heartbeats", "refresh routes"})
        await client_instance.release(instance, member)
        assert instance.users == 0


async def test_what_a_forked_child_finds_of_its_parent_says_so_and_closes_nothing():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        member = Member("A")
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        await instance.fetch_route("T")
        connection = await instance.connections.get(broker.address)
        tasks = instance._tasks
        client_instance._leave_all_behind()     # what a fork calls in the child
        with pytest.raises(ClientClosed, match="before this process was forked"):
            await instance.route("T")
        await client_instance.release(instance, member)
        assert connection.is_open
        assert [task.cancelled() for task in tasks.all()] == [False, False]
        own = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        assert own is not instance
        await client_instance.release(own, member)
        await tasks.cancel()
        connection.abort()


async def test_routes_that_no_member_names_are_forgotten_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(client_instance, "ROUTES_MAX", 4)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        named = ["N1", "N2", "N3"]
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), Member("A", topics=named))
        for topic in named:
            await instance.fetch_route(topic)
        for number in range(40):
            await instance.fetch_route(f"T{number}")
            instance.doubt_route(f"T{number}")
            assert len(instance._routes) <= 6
            assert instance.known_route(f"T{number}") is not None
        assert len(instance._doubted) <= 7
        assert all(instance.known_route(topic) is not None for topic in named)
        assert instance.known_route("T0") is None
        assert len((await instance.route("T0")).publish_queues) == 4
        await client_instance.release(instance, instance.members[0])


async def test_a_route_that_cannot_be_used_names_the_name_server():
    async with scripted_cluster(queue_count=1_000_000_000) as cluster:
        await cluster.add_broker("a")
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        with pytest.raises(HeaderError, match=rf"name server {cluster.name_server.address} told a route of topic 'T'"):
            await instance.fetch_route("T")
        cluster.name_server.script = lambda command: command.response(ResponseCode.SUCCESS, body=b'{"queueDatas":7}')
        with pytest.raises(HeaderError, match=rf"name server {cluster.name_server.address} told a route of topic 'T'"):
            await instance.fetch_route("T")
        await client_instance.release(instance)


async def test_a_named_instance_has_a_client_id_that_stays():
    async with scripted_cluster() as cluster:
        config = ClientConfig(instance_name="one", client_ip="10.0.0.5")
        instance = client_instance.acquire(cluster.name_server.address, config)
        assert instance.client_id == "10.0.0.5@one"
        await client_instance.release(instance)


async def test_a_client_id_is_given_once_a_group_whatever_the_other_settings_are():
    config = ClientConfig(instance_name="x", client_ip="10.0.0.5")
    one = client_instance.acquire("127.0.0.1:1", config, Member("CG", is_consumer=True))
    for address, settings in [("localhost:1", {}), ("127.0.0.1:1", {"connect_timeout": 7})]:
        with pytest.raises(ClientError, match="give each its own instance_name"):
            client_instance.acquire(address, replace(config, **settings), Member("CG", is_consumer=True))
    other = client_instance.acquire("localhost:1", config, Member("other", is_consumer=True))
    assert len(client_instance._instances[asyncio.get_running_loop()]) == 2
    await client_instance.release(one)
    await client_instance.release(other)


async def test_a_heartbeat_names_every_group_and_its_subscriptions():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        members = [Member("PG"), Member("CG", is_consumer=True)]
        for member in members:
            instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        await instance.fetch_route("T")
        await instance.heartbeat()
        body = json.loads(broker.requests_of(RequestCode.HEART_BEAT)[-1].body)
        assert body["clientID"] == instance.client_id
        assert [each["groupName"] for each in body["producerDataSet"]] == ["PG"]
        assert [each["groupName"] for each in body["consumerDataSet"]] == ["CG"]
        for member in members:
            await client_instance.release(instance, member)


async def test_members_hear_of_changed_routes_and_only_of_those():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        member = Member("CG", is_consumer=True)
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        await instance.fetch_route("T")
        await instance.fetch_route("T")
        assert member.route_changes == 1
        await cluster.add_broker("b")
        await instance.fetch_route("T")
        assert member.route_changes == 2
        await client_instance.release(instance, member)


async def test_routes_in_use_are_refreshed():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        member = Member("CG", is_consumer=True, topics=("T",))
        config = ClientConfig(poll_name_server_interval=5)
        instance = client_instance.acquire(cluster.name_server.address, config, member)
        async with asyncio.timeout(10):
            while len(cluster.name_server.requests) < 3:
                await asyncio.sleep(0.001)
        await client_instance.release(instance, member)


async def test_a_refresh_of_routes_that_dies_is_told_and_begins_anew(monkeypatch, caplog):
    monkeypatch.setattr(tasks, "RESTART_MS_MIN", 1)
    refresh, failures = client_instance.ClientInstance._refresh_route, [KeyError("a fault of ours")]

    async def fails_once(self, topic):
        if failures:
            raise failures.pop()
        await refresh(self, topic)
    monkeypatch.setattr(client_instance.ClientInstance, "_refresh_route", fails_once)
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        member = Member("CG", is_consumer=True, topics=("T",))
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig(poll_name_server_interval=5),
                                           member)
        async with asyncio.timeout(10):
            while len(cluster.name_server.requests) < 2:
                await asyncio.sleep(0.001)
        assert instance.restarts == 1
        await client_instance.release(instance, member)
    assert "task refresh routes died" in caplog.text


async def ask_client(broker, code, ext=None):
    """A request of the broker to its only client, and the answer."""
    return await broker.connections[0].request(RemotingCommand.request(code, ext), 5000)


async def test_brokers_requests_reach_the_group_that_they_name():
    async def running(command):
        return command.response(ResponseCode.SUCCESS, body=b"it runs")

    async def failing(command):
        raise HeaderError("a field is missing")

    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a")
        members = [Member("GOOD", True, {code: running}), Member("BAD", True, {code: failing})]
        for member in members:
            instance = client_instance.acquire(cluster.name_server.address, ClientConfig(), member)
        await instance.request(broker.address, RemotingCommand.request(RequestCode.HEART_BEAT))
        assert (await ask_client(broker, code, {"consumerGroup": "GOOD"})).body == b"it runs"
        answer = await ask_client(broker, code, {"consumerGroup": "BAD"})
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "a field is missing")
        answer = await ask_client(broker, code, {"consumerGroup": "OTHER"})
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        for member in members:
            await client_instance.release(instance, member)


async def test_a_refusal_names_the_broker_and_its_words():
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=lambda command: refused(command, ResponseCode.NO_PERMISSION))
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        with pytest.raises(BrokerRefused, match=f"{broker.address} answered 16: as the test wants it") as caught:
            await instance.request(broker.address, RemotingCommand.request(RequestCode.GET_BROKER_CONFIG))
        assert (caught.value.code, caught.value.address) == (ResponseCode.NO_PERMISSION, broker.address)
        await client_instance.release(instance)


async def test_with_an_access_key_every_request_is_signed():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        config = ClientConfig(access_key="me", secret_key="secret")
        instance = client_instance.acquire(cluster.name_server.address, config)
        await instance.fetch_route("T")
        await client_instance.release(instance)
    (request,) = cluster.name_server.requests
    assert request.ext["AccessKey"] == "me"
    assert request.ext["Signature"] == signature(request.ext, request.body, "secret")


async def test_doubts_of_routes_that_never_came_are_forgotten_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(client_instance, "ROUTES_MAX", 4)
    async with scripted_cluster() as cluster:
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        for number in range(40):
            instance.doubt_route(f"T{number}")
            assert len(instance._doubted) <= 4
        assert "T39" in instance._doubted
        await client_instance.release(instance)


async def test_a_doubted_route_is_asked_for_again_but_not_all_the_time():
    async with scripted_cluster() as cluster:
        await cluster.add_broker("a")
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        await instance.fetch_route("T")
        await cluster.add_broker("b")
        for _ in range(5):
            instance.doubt_route("T")
        async with asyncio.timeout(10):
            while len(instance.known_route("T").brokers) < 2:
                await asyncio.sleep(0.001)
        assert len(cluster.name_server.requests) == 2
        await client_instance.release(instance)


async def test_a_doubted_route_is_asked_of_another_name_server():
    """The one that was asked has not heard yet that a broker is gone."""
    async with scripted_cluster() as behind, scripted_cluster() as cluster:
        await cluster.add_broker("a")
        behind.addresses |= {"a": cluster.brokers["a"].address, "gone": "127.0.0.1:1"}
        addresses = behind.name_server.address, cluster.name_server.address
        instance = client_instance.acquire(";".join(addresses), ClientConfig())
        instance.name_servers._order = list(addresses)      # which is else left to chance
        assert set((await instance.fetch_route("T")).brokers) == {"a", "gone"}
        instance.doubt_route("T")
        async with asyncio.timeout(10):
            while len(instance.known_route("T").brokers) > 1:
                await asyncio.sleep(0.001)
        await client_instance.release(instance)


async def test_a_broker_that_registers_between_two_questions_is_found():
    async with scripted_cluster() as cluster:
        answer = cluster.name_server.script

        def registers_meanwhile(command):
            answered = answer(command)
            if command.ext.get("topic") == "TBW102":
                cluster.topics_unknown.clear()
            return answered
        cluster.name_server.script = registers_meanwhile
        cluster.topics_unknown = {"T", "TBW102"}
        await cluster.add_broker("a")
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        assert len((await instance.publish_route("T", "TBW102", 4)).publish_queues) == 4
        await client_instance.release(instance)
