"""Administration of topics and of their queues."""

import asyncio
from contextlib import suppress

from regulus.client.administration.admin_base import AdminBase, answers_of
from regulus.client.core.message_check import check_topic
from regulus.errors import NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import AUTO_CREATE_TOPIC, TopicConfig
from regulus.wire.bodies import GroupList, KVTable, TopicConfigSerializeWrapper, TopicList, TopicOffset, TopicStatsTable
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    DeleteKvConfigRequest,
    DeleteTopicInBrokerRequest,
    DeleteTopicInNamesrvRequest,
    GetEarliestMsgStoretimeRequest,
    GetEarliestMsgStoretimeResponse,
    GetKvConfigRequest,
    GetKvConfigResponse,
    GetKvlistByNamespaceRequest,
    GetMaxOffsetRequest,
    GetMaxOffsetResponse,
    GetMinOffsetRequest,
    GetMinOffsetResponse,
    GetTopicsByClusterRequest,
    GetTopicStatsInfoRequest,
    PutKvConfigRequest,
    QueryTopicConsumeByWhoRequest,
    SearchOffsetByTimestampRequest,
    SearchOffsetByTimestampResponse,
    UpdateAndCreateTopicRequest,
)
from regulus.wire.remoting_command import RemotingCommand

_ROUTE_POLL_INTERVAL = 0.01


class TopicAdmin(AdminBase):
    """All methods raise BrokerRefused when a server refuses, and ClientError when it cannot be asked."""

    async def create_topic(self, config: TopicConfig, *, cluster: str | None = None,
                           broker_address: str | None = None) -> None:
        """Create the topic, or change it, on one broker, on a cluster, or everywhere; waits until its route is known.

        Raises MessageIllegal for a name that cannot be used.
        """
        check_topic(config.topic_name)
        addresses = [broker_address] if broker_address else await self.master_addresses(cluster)
        for address in addresses:
            await self.set_topic_config(address, config)
        await self._wait_for_route(config.topic_name, addresses)

    async def set_topic_config(self, broker_address: str, config: TopicConfig) -> None:
        """Create or change the topic on one broker."""
        attributes = ",".join(f"+{name}={value}" for name, value in sorted(config.attributes.items()))
        header = UpdateAndCreateTopicRequest(
            topic=config.topic_name, default_topic=AUTO_CREATE_TOPIC, read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums, perm=config.perm, topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag, order=config.order, attributes=attributes or None)
        await self._request(broker_address, RequestCode.UPDATE_AND_CREATE_TOPIC, header.ext())

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete the topic from all masters (of one cluster) and from the name servers; its messages go too."""
        for address in await self.master_addresses(cluster):
            await self._request(address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequest(topic).ext())
        await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV,
                                      DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster).ext())

    async def list_topics(self, cluster: str | None = None) -> list[str]:
        """Names of all topics, or of those of one cluster, sorted."""
        if cluster is None:
            command = RemotingCommand.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        else:
            command = RemotingCommand.request(RequestCode.GET_TOPICS_BY_CLUSTER,
                                              GetTopicsByClusterRequest(cluster).ext())
        return sorted(TopicList.decode((await self._ask_name_server(command)).body).topic_list)

    async def topic_configs(self, broker_address: str) -> dict[str, TopicConfig]:
        """All topics of a broker with their settings."""
        answer = await self._request(broker_address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return TopicConfigSerializeWrapper.decode(answer.body).topic_config_table

    async def system_topics(self, broker_address: str) -> list[str]:
        """Names of the topics that a broker keeps for itself."""
        answer = await self._request(broker_address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def topic_stats(self, topic: str, *, broker_address: str | None = None,
                          masters_only: bool = False) -> dict[MessageQueue, TopicOffset]:
        """First and next offset and last store time of each queue, over all brokers or of one. Where a master is away
        its slave answers, which may be behind, unless `masters_only`. Raises NoRoute."""
        addresses = [broker_address] if broker_address else []
        if not addresses:
            route = await self._fresh_route(topic)
            addresses = route.masters() if masters_only else route.readable_addresses()
        tables = await answers_of(self._topic_stats_of(address, topic) for address in addresses)
        return {queue: offset for table in tables for queue, offset in table.offset_table.items()}

    async def groups_of_topic(self, topic: str) -> list[str]:
        """Groups that subscribe to the topic or have an offset in it. Raises NoRoute."""
        route = await self._fresh_route(topic)
        header = QueryTopicConsumeByWhoRequest(topic)
        answers = await answers_of(self._request(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header.ext())
                                   for address in route.readable_addresses())
        return sorted({group for answer in answers for group in GroupList.decode(answer.body).group_list})

    # --- queues ------------------------------------------------------------------------------------------------------

    async def max_offset(self, queue: MessageQueue) -> int:
        """The queue offset that the next message will get. Raises NoRoute."""
        header = GetMaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        answer = await self._request(await self._queue_address(queue), RequestCode.GET_MAX_OFFSET, header.ext())
        return GetMaxOffsetResponse.decode(answer).offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue offset of the first message that is kept. Raises NoRoute."""
        header = GetMinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name)
        answer = await self._request(await self._queue_address(queue), RequestCode.GET_MIN_OFFSET, header.ext())
        return GetMinOffsetResponse.decode(answer).offset

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The queue offset of the first message stored at or after a time; the next offset when all are older."""
        header = SearchOffsetByTimestampRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms,
                                                broker_name=queue.broker_name)
        answer = await self._request(await self._queue_address(queue), RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                                     header.ext())
        return SearchOffsetByTimestampResponse.decode(answer).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Store time in ms of the first message that is kept; -1 when there is none."""
        header = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id,
                                                broker_name=queue.broker_name)
        answer = await self._request(await self._queue_address(queue), RequestCode.GET_EARLIEST_MSG_STORETIME,
                                     header.ext())
        return GetEarliestMsgStoretimeResponse.decode(answer).timestamp

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRoute."""
        return sorted((await self._fresh_route(topic)).subscribe_queues)

    # --- the name servers' own table ---------------------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        await self._tell_name_servers(RequestCode.PUT_KV_CONFIG,
                                      PutKvConfigRequest(namespace=namespace, key=key, value=value).ext())

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Raises BrokerRefused with code QUERY_NOT_FOUND when there is none."""
        command = RemotingCommand.request(RequestCode.GET_KV_CONFIG,
                                          GetKvConfigRequest(namespace=namespace, key=key).ext())
        return GetKvConfigResponse.decode(await self._ask_name_server(command)).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        await self._tell_name_servers(RequestCode.DELETE_KV_CONFIG,
                                      DeleteKvConfigRequest(namespace=namespace, key=key).ext())

    async def kv_namespace(self, namespace: str) -> dict[str, str]:
        """Raises BrokerRefused with code QUERY_NOT_FOUND when the namespace is empty."""
        command = RemotingCommand.request(RequestCode.GET_KVLIST_BY_NAMESPACE,
                                          GetKvlistByNamespaceRequest(namespace).ext())
        return KVTable.decode((await self._ask_name_server(command)).body).table

    # -----------------------------------------------------------------------------------------------------------------

    async def _topic_stats_of(self, address: str, topic: str) -> TopicStatsTable:
        answer = await self._request(address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequest(topic).ext())
        return TopicStatsTable.decode(answer.body)

    async def _queue_address(self, queue: MessageQueue) -> str:
        route = self._running().known_route(queue.topic)
        address = route.any_address(queue.broker_name) if route is not None else None
        if address is None:
            address = (await self._running().fetch_route(queue.topic)).any_address(queue.broker_name)
        if address is None:
            raise NoRoute(f"broker {queue.broker_name} does not serve topic {queue.topic}")
        return address

    async def _wait_for_route(self, topic: str, addresses: list[str]) -> None:
        """A broker answers before the name server has heard of the topic; what comes next usually needs the route."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.config.mq_client_api_timeout / 1000
        while loop.time() < until:
            with suppress(NoRoute):     # not yet: asked again until the time is up
                if set((await self._fresh_route(topic)).masters()).issuperset(addresses):
                    return
            await asyncio.sleep(_ROUTE_POLL_INTERVAL)
