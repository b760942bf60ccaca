"""Administration of consumer groups: settings, members, progress, offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from regulus.client.administration.admin_base import answers_of
from regulus.client.administration.topic_admin import TopicAdmin
from regulus.client.consuming.group_retry_limit import group_config, set_group_retry_limit
from regulus.client.core.message_check import check_group
from regulus.errors import BrokerRefused
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import (
    SYSTEM_GROUP_PREFIX,
    SYSTEM_GROUPS,
    SubscriptionGroupConfig,
    dlq_topic,
    retry_topic,
)
from regulus.wire.bodies import (
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    GetConsumerStatusBody,
    OffsetWrapper,
    ProducerConnection,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    ResetOffsetBody,
    SubscriptionGroupWrapper,
    encode_subscription_group_config,
)
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    CloneGroupOffsetRequest,
    ConsumeMessageDirectlyRequest,
    DeleteSubscriptiongroupRequest,
    DeleteTopicInBrokerRequest,
    DeleteTopicInNamesrvRequest,
    GetConsumerConnectionListRequest,
    GetConsumerRunningInfoRequest,
    GetConsumeStatsRequest,
    GetProducerConnectionListRequest,
    InvokeBrokerToGetConsumerStatusRequest,
    InvokeBrokerToResetOffsetRequest,
    QueryConsumeTimeSpanRequest,
    UpdateConsumerOffsetRequest,
)

RELAY_TIMEOUT_MS = 12_000
"""Longer than the 10 s that the broker waits for the client to which it passes the request on."""

LATEST = -1
"""The `timestamp_ms` of a reset to the end of the queue."""


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """How far a group has consumed. `online`: at least one member is connected."""

    group: str
    online: bool
    members: int
    consume_tps: float
    offsets: dict[MessageQueue, OffsetWrapper]

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed yet."""
        return sum(each.broker_offset - each.consumer_offset for each in self.offsets.values())


class GroupAdmin(TopicAdmin):
    """All methods raise BrokerRefused when a server refuses, and ClientError when it does not answer."""

    async def create_group(self, config: SubscriptionGroupConfig, *, cluster: str | None = None,
                           broker_address: str | None = None) -> None:
        """Create or change the group on one broker, on a cluster, or everywhere; attributes that `config` does not name
        stay. Raises ConfigError for a bad name."""
        check_group(config.group_name)
        addresses = [broker_address] if broker_address else await self.master_addresses(cluster)
        body = encode_subscription_group_config(replace(
            config, attributes={f"+{name}": value for name, value in config.attributes.items()}))
        for address in addresses:
            await self._request(address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)

    async def delete_group(self, group: str, *, clean_offset: bool = True, cluster: str | None = None) -> None:
        """Delete the group with its retry and dead-letter topics, and with `clean_offset` also its offsets."""
        header = DeleteSubscriptiongroupRequest(group_name=group, clean_offset=clean_offset)
        for address in await self.master_addresses(cluster):
            await self._request(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header.ext())
            for topic in (retry_topic(group), dlq_topic(group)):
                await self._request(address, RequestCode.DELETE_TOPIC_IN_BROKER,
                                    DeleteTopicInBrokerRequest(topic).ext())
        for topic in (retry_topic(group), dlq_topic(group)):
            await self._tell_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV,
                                          DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster).ext())

    async def group_configs(self, broker_address: str) -> dict[str, SubscriptionGroupConfig]:
        """All groups of a broker with their settings."""
        answer = await self._request(broker_address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return SubscriptionGroupWrapper.decode(answer.body).subscription_group_table

    async def group_config(self, group: str, broker_address: str) -> SubscriptionGroupConfig | None:
        """The group's settings at a broker, None when it does not know the group."""
        return await group_config(self._running(), group, broker_address)

    async def list_groups(self) -> list[str]:
        """Sorted names of the groups that brokers know, except the brokers' own."""
        tables = await answers_of(self.group_configs(address) for address in (await self.readable_brokers()).values())
        return sorted(name for name in set().union(*tables)
                      if name not in SYSTEM_GROUPS and not name.startswith(SYSTEM_GROUP_PREFIX))

    # --- members -----------------------------------------------------------------------------------------------------

    async def consumer_connection(self, group: str, *, broker_address: str | None = None) -> ConsumerConnection | None:
        """The consumers of the group that are connected to one broker, or to the first broker that has any; None when
        there are none."""
        header = GetConsumerConnectionListRequest(group)
        for address in [broker_address] if broker_address else await self._group_readers(group):
            try:
                answer = await self._request(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header.ext())
            except BrokerRefused as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
            else:
                return ConsumerConnection.decode(answer.body)
        return None

    async def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """The connected producers of the group that send to the topic. Raises BrokerRefused when there are none;
        NoRoute."""
        route = await self._fresh_route(topic)
        header = GetProducerConnectionListRequest(group)
        answers = await answers_of(self._request(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header.ext())
                                   for address in route.readable_addresses())
        return ProducerConnection.decode(answers[0].body)

    async def consumer_running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """A member's own report: queues, cache, rates, settings."""
        header = GetConsumerRunningInfoRequest(consumer_group=group, client_id=client_id)
        answers = await answers_of(
            self._request(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header.ext(), timeout_ms=RELAY_TIMEOUT_MS)
            for address in await self._group_readers(group))
        return ConsumerRunningInfo.decode(answers[0].body)

    async def consume_message_directly(self, group: str, client_id: str, offset_message_id: str,
                                       broker_address: str) -> ConsumeMessageDirectlyResult:
        """Have a member's listener called once with a stored message; offsets and retries are not touched."""
        header = ConsumeMessageDirectlyRequest(consumer_group=group, client_id=client_id, msg_id=offset_message_id)
        answer = await self._request(broker_address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header.ext(),
                                     timeout_ms=RELAY_TIMEOUT_MS)
        return ConsumeMessageDirectlyResult.decode(answer.body)

    async def consumer_status(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[MessageQueue, int]]:
        """The offsets as each member knows them: client id -> queue -> next offset to consume."""
        header = InvokeBrokerToGetConsumerStatusRequest(topic=topic, group=group, client_addr=client_id)
        route = await self._fresh_route(topic)
        answers = await answers_of(
            self._request(address, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header.ext(),
                          timeout_ms=RELAY_TIMEOUT_MS) for address in route.readable_addresses()[:1])
        return GetConsumerStatusBody.decode(answers[0].body).consumer_table

    # --- progress ----------------------------------------------------------------------------------------------------

    async def consume_stats(self, group: str, topic: str | None = None, *, masters_only: bool = False) -> ConsumeStats:
        """Offsets of brokers and group for each queue, of all brokers. If a master is down its slave answers, which may
        be behind, unless `masters_only`."""
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        addresses = await self._group_readers(group, masters_only=masters_only)
        answers = await answers_of(self._request(address, RequestCode.GET_CONSUME_STATS, header.ext())
                                   for address in addresses)
        parts = [ConsumeStats.decode(answer.body) for answer in answers]
        table = {queue: offset for part in parts for queue, offset in part.offset_table.items()}
        return ConsumeStats(offset_table=table, consume_tps=sum(part.consume_tps for part in parts))

    async def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """How far a group has consumed, and whether it is online."""
        stats = await self.consume_stats(group, topic)
        connection = await self.consumer_connection(group)
        members = 0 if connection is None else len(connection.connection_set)
        return GroupProgress(group, connection is not None, members, stats.consume_tps, stats.offset_table)

    async def consume_time_span(self, topic: str, group: str) -> list[QueueTimeSpan]:
        """The age in ms of the next message to consume in each queue."""
        header = QueryConsumeTimeSpanRequest(topic=topic, group=group)
        route = await self._fresh_route(topic)
        answers = await answers_of(self._request(address, RequestCode.QUERY_CONSUME_TIME_SPAN, header.ext())
                                   for address in route.readable_addresses())
        return [span for answer in answers
                for span in QueryConsumeTimeSpanBody.decode(answer.body).consume_time_span_set]

    # --- offsets -----------------------------------------------------------------------------------------------------

    async def reset_offset_by_timestamp(self, topic: str, group: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Let the group continue at the first message stored at or after a time; -1 (LATEST): at the end of each queue.

        Returns the new offset of each queue. Members that are online continue there at once; when none is online, the
        offsets are computed and stored by this client.
        """
        route = await self._fresh_route(topic)
        header = InvokeBrokerToResetOffsetRequest(topic=topic, group=group, timestamp=timestamp_ms)
        offsets: dict[MessageQueue, int] = {}
        for address in await self._masters_of(topic):
            try:
                answer = await self._request(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.ext(),
                                             timeout_ms=RELAY_TIMEOUT_MS)
            except BrokerRefused as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
                mine = [queue for queue in route.subscribe_queues if route.master(queue.broker_name) == address]
                found = {queue: await self._offset_at(queue, timestamp_ms) for queue in mine}
                await self.set_offsets(group, found)
                offsets.update(found)
            else:
                offsets.update(ResetOffsetBody.decode(answer.body).offset_table)
        return offsets

    async def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let the group continue at an offset of one queue."""
        header = InvokeBrokerToResetOffsetRequest(topic=queue.topic, group=group, timestamp=LATEST,
                                                  queue_id=queue.queue_id, offset=offset)
        try:
            await self._request(await self._queue_address(queue), RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
                                header.ext(), timeout_ms=RELAY_TIMEOUT_MS)
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            await self.set_offsets(group, {queue: offset})

    async def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets of a group that is offline; members that are online would overwrite them."""
        for queue, offset in offsets.items():
            header = UpdateConsumerOffsetRequest(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id,
                                                 commit_offset=offset, broker_name=queue.broker_name)
            await self._request(await self._queue_address(queue), RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())

    async def clone_offsets(self, source_group: str, target_group: str, topic: str) -> None:
        """Let one group continue where another one is."""
        header = CloneGroupOffsetRequest(src_group=source_group, dest_group=target_group, topic=topic, offline=True)
        for address in await self._masters_of(topic):
            await self._request(address, RequestCode.CLONE_GROUP_OFFSET, header.ext())

    async def set_retry_limit(self, group: str, retry_max_times: int) -> None:
        """Change how often the group tries a message again; its other settings stay."""
        await set_group_retry_limit(self._running(), group, retry_max_times, await self.master_addresses())

    async def _offset_at(self, queue: MessageQueue, timestamp_ms: int) -> int:
        return await self.max_offset(queue) if timestamp_ms == LATEST else await self.search_offset(queue, timestamp_ms)
