import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from regulus.client.config import ClientConfig, MessageModel, PushConsumerConfig
from regulus.client.connecting import client_instance
from regulus.client.consuming.group_retry_limit import GROUP_LIMIT, RetryLimit, group_config, set_group_retry_limit
from regulus.model.topics import SubscriptionGroupConfig
from regulus.wire.bodies import SubscriptionGroupWrapper, encode_subscription_group_config
from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.client.scripted_servers import refused, scripted_cluster

KNOWN = SubscriptionGroupConfig(group_name="G", retry_max_times=16, consume_broadcast_enable=False)


def broker_5(command):
    if command.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
        return command.response(ResponseCode.SUCCESS, body=encode_subscription_group_config(KNOWN))
    return command.response(ResponseCode.SUCCESS)


def broker_4(command):
    if command.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
        return refused(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    body = SubscriptionGroupWrapper(subscription_group_table={"G": KNOWN}).encode()
    return command.response(ResponseCode.SUCCESS, body=body)


async def set_limit(others, limit):
    """The settings that reached the broker."""
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=others)
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        await set_group_retry_limit(instance, "G", limit, [broker.address])
        await client_instance.release(instance)
    return [json.loads(each.body) for each in broker.requests_of(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)]


async def test_the_limit_changes_and_the_other_settings_stay():
    for broker in (broker_5, broker_4):
        (settings,) = await set_limit(broker, 5)
        assert (settings["retryMaxTimes"], settings["consumeBroadcastEnable"]) == (5, False)


async def test_a_limit_that_is_set_already_is_left_alone():
    assert await set_limit(broker_5, 16) == []


async def test_a_group_that_the_broker_does_not_know_is_made():
    def unknown(command):
        if command.code == RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG:
            return refused(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return command.response(ResponseCode.SUCCESS)
    (settings,) = await set_limit(unknown, 3)
    assert (settings["groupName"], settings["retryMaxTimes"]) == ("G", 3)


async def test_settings_of_a_group_are_none_where_it_is_unknown():
    def unknown(command):
        return refused(command, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
    async with scripted_cluster() as cluster:
        broker = await cluster.add_broker("a", others=unknown)
        instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
        assert await group_config(instance, "G", broker.address) is None
        await client_instance.release(instance)


@asynccontextmanager
async def limit_of(cluster, **settings):
    """A member's limit of 3, and the instance that it hears of routes by."""
    instance = client_instance.acquire(cluster.name_server.address, ClientConfig())
    limit = RetryLimit(instance, "G", PushConsumerConfig(max_reconsume_times=3, **settings), lambda: ["T"])
    try:
        yield limit, instance
    finally:
        await limit.close()
        await client_instance.release(instance)


def told(broker):
    return [json.loads(each.body)["retryMaxTimes"]
            for each in broker.requests_of(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)]


async def test_requests_carry_the_limit_to_brokers_that_were_not_told():
    async with scripted_cluster() as cluster, limit_of(cluster) as (limit, instance):
        a = await cluster.add_broker("a", others=broker_5)
        await instance.fetch_route("T")
        assert (limit.at("a"), limit.anywhere()) == (3, 3)
        await limit.tell()
        assert told(a) == [3]
        assert (limit.at("a"), limit.at("b"), limit.anywhere()) == (GROUP_LIMIT, 3, GROUP_LIMIT)
        await cluster.add_broker("b", others=broker_5)
        await instance.fetch_route("T")
        assert limit.anywhere() == 3


async def test_where_no_broker_is_known_requests_carry_the_limit():
    async with scripted_cluster() as cluster, limit_of(cluster) as (limit, _):
        await limit.tell()
        assert (limit.at("a"), limit.anywhere()) == (3, 3)


async def test_a_broker_that_comes_later_is_told_then_and_others_are_left_alone():
    async with scripted_cluster() as cluster, limit_of(cluster) as (limit, instance):
        a = await cluster.add_broker("a", others=broker_5)
        await instance.fetch_route("T")
        await limit.tell()
        limit.start()
        b = await cluster.add_broker("b", others=broker_5)
        await instance.fetch_route("T")
        limit.routes_changed()
        async with asyncio.timeout(10):
            while limit.at("b") != GROUP_LIMIT:
                await asyncio.sleep(0)
        assert (told(a), told(b)) == ([3], [3])


async def test_a_broker_that_comes_back_elsewhere_keeps_what_it_was_told_since():
    async with scripted_cluster() as cluster, limit_of(cluster) as (limit, instance):
        await cluster.add_broker("a", others=broker_5)
        await instance.fetch_route("T")
        await limit.tell()
        moved = await cluster.add_broker("a", others=broker_5)
        await instance.fetch_route("T")
        await limit.tell()
        assert told(moved) == []


async def test_a_broker_that_does_not_take_the_limit_keeps_no_other_from_it(caplog):
    def refuses(command):
        return refused(command, ResponseCode.NO_PERMISSION)
    async with scripted_cluster() as cluster, limit_of(cluster) as (limit, instance):
        await cluster.add_broker("a", others=refuses)
        b = await cluster.add_broker("b", others=broker_5)
        await instance.fetch_route("T")
        await limit.tell()
        assert told(b) == [3]
        assert (limit.at("a"), limit.at("b"), limit.anywhere()) == (3, GROUP_LIMIT, 3)
    assert "the retry limit of group G could not be set at a, so each request carries it" in caplog.text


@pytest.mark.parametrize(("settings", "carried"), [
    ({"share_max_reconsume_times": False}, 3), ({"message_model": MessageModel.BROADCASTING}, 3)])
async def test_a_member_that_keeps_its_limit_to_itself_tells_nobody(settings, carried):
    async with scripted_cluster() as cluster, limit_of(cluster, **settings) as (limit, instance):
        broker = await cluster.add_broker("a", others=broker_5)
        await instance.fetch_route("T")
        await limit.tell()
        assert told(broker) == []
        assert (limit.at("a"), limit.anywhere()) == (carried, carried)
