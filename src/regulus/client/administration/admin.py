"""Looks into and changes a running system: topics, groups, offsets, messages, brokers.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic(TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8))
            print((await admin.progress("billing")).lag)
"""

from collections.abc import Mapping

from regulus.client.administration.bulk_admin import BulkAdmin
from regulus.client.administration.log_admin import LogAdmin
from regulus.client.administration.message_admin import MessageAdmin
from regulus.client.administration.sink_admin import SinkAdmin
from regulus.wire.bodies import BrokerStatsData, ConsumeStatsList, HARuntimeInfo, KVTable, ProducerTableInfo
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    AddWritePermOfBrokerRequest,
    GetBrokerConsumeStatsRequest,
    ViewBrokerStatsDataRequest,
    WipeWritePermOfBrokerRequest,
)


class Admin(MessageAdmin, LogAdmin, SinkAdmin, BulkAdmin):
    """All methods raise BrokerRefused when a server refuses, and ClientError when it cannot be asked."""

    async def broker_runtime_info(self, broker_address: str) -> dict[str, str]:
        """What a broker says of itself, under RocketMQ's names (`putTps`, `brokerVersionDesc`, ...)."""
        answer = await self._request(broker_address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return dict(sorted(KVTable.decode(answer.body).table.items()))

    async def ha_status(self, broker_address: str) -> HARuntimeInfo:
        """How far the slaves of a master are, or the copy of a slave."""
        return HARuntimeInfo.decode((await self._request(broker_address, RequestCode.GET_BROKER_HA_STATUS)).body)

    async def broker_config(self, broker_address: str) -> dict[str, str]:
        """A broker's settings, under RocketMQ's names."""
        answer = await self._request(broker_address, RequestCode.GET_BROKER_CONFIG)
        lines = (line.partition("=") for line in answer.body.decode().splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, _, value in lines}

    async def update_broker_config(self, broker_address: str, values: Mapping[str, str]) -> None:
        """Change settings of a running broker."""
        body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
        await self._request(broker_address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def broker_stats(self, broker_address: str, stats_name: str, stats_key: str) -> BrokerStatsData:
        """A counter of a broker over the last minute, hour and day, such as TOPIC_PUT_NUMS of a topic."""
        header = ViewBrokerStatsDataRequest(stats_name=stats_name, stats_key=stats_key)
        answer = await self._request(broker_address, RequestCode.VIEW_BROKER_STATS_DATA, header.ext())
        return BrokerStatsData.decode(answer.body)

    async def broker_consume_stats(self, broker_address: str, *, is_order: bool = False) -> ConsumeStatsList:
        """The progress of all groups of a broker."""
        answer = await self._request(broker_address, RequestCode.GET_BROKER_CONSUME_STATS,
                                     GetBrokerConsumeStatsRequest(is_order).ext())
        return ConsumeStatsList.decode(answer.body)

    async def producers(self, broker_address: str) -> ProducerTableInfo:
        """All producers that are connected to a broker, by group."""
        answer = await self._request(broker_address, RequestCode.GET_ALL_PRODUCER_INFO)
        return ProducerTableInfo.decode(answer.body)

    async def wipe_write_permission(self, broker_name: str) -> None:
        """Let no producer choose a broker, until `add_write_permission`; what it has can still be consumed."""
        await self._tell_name_servers(RequestCode.WIPE_WRITE_PERM_OF_BROKER,
                                      WipeWritePermOfBrokerRequest(broker_name).ext())

    async def add_write_permission(self, broker_name: str) -> None:
        """Let producers choose the broker again."""
        await self._tell_name_servers(RequestCode.ADD_WRITE_PERM_OF_BROKER,
                                      AddWritePermOfBrokerRequest(broker_name).ext())

    async def clean_unused_topics(self, broker_address: str) -> None:
        """Remove the queues of topics that were deleted."""
        await self._request(broker_address, RequestCode.CLEAN_UNUSED_TOPIC)

    async def clean_expired_consume_queues(self, broker_address: str) -> None:
        """Remove what the queues do not need any more since the log begins later, and empty queues that their topic no
        longer has."""
        await self._request(broker_address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def delete_expired_commit_log(self, broker_address: str) -> None:
        """Remove log files that are past their retention now instead of at the set hour."""
        await self._request(broker_address, RequestCode.DELETE_EXPIRED_COMMITLOG)
