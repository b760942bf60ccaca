import json

from regulus.client import client_instance
from regulus.client.config import ClientConfig
from regulus.client.group_retry_limit import group_config, set_group_retry_limit
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
