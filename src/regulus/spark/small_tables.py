"""The tables of what a store or its brokers have besides messages: queues, offsets, topics, groups.

One task reads a table. A row is a dict with all columns of its table.

Source: TopicConfigManager, SubscriptionGroupManager, ConsumerOffsetManager, TopicStatsTable, ConsumeStats.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import numpy as np

from regulus.client.administration.expected_brokers import check_brokers
from regulus.client.config import ClientConfig
from regulus.client.sync import Admin
from regulus.errors import BrokerRefused, DataLoss, HeaderError, NoRoute, RecordError, StoreDamaged
from regulus.model.message_queue import MessageQueue
from regulus.model.timestamps import dated
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.spark.credentials import credentials_of
from regulus.spark.options import ReadOptions
from regulus.spark.store.ends import StoreEnds
from regulus.spark.store.files import ConsumeQueueFiles, StoreFiles
from regulus.spark.unit_tables import units_of
from regulus.wire.bodies import ConsumerOffsetSerializeWrapper, SubscriptionGroupWrapper, TopicConfigSerializeWrapper
from regulus.wire.codes import ResponseCode
from regulus.wire.json_fields import JsonBody

Row: TypeAlias = dict[str, Any]
Document = TypeVar("Document", bound=JsonBody)

SMALL_TABLES = ("queues", "offsets", "topics", "groups")


def rows(options: ReadOptions, environment: Mapping[str, str]) -> Iterator[Row]:
    """The rows of `options.table`; only of the selected topics, if the table has topics.

    Raises OptionError, StoreDamaged, or ClientError when no name server or broker answers.
    """
    place: _Store | _Brokers = _Store(options) if options.store_path else _Brokers(options, environment)
    match options.table:
        case "queues":
            return place.queues()
        case "offsets":
            return place.offsets()
        case "topics":
            return place.topics()
        case _:
            return place.groups()


class _Store:
    """The files of a store and its documents."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._files = StoreFiles(options.store_path)

    def queues(self) -> Iterator[Row]:
        epochs = self._files.topic_epochs()
        ends = StoreEnds(self._files)
        for topic in self._chosen():
            gone = {queue_id for queue_id in ends.queue_ids(topic) if ends.missing(self._files.queue(topic, queue_id))}
            for queue in self._queues(topic, gone):
                low, high = queue.bounds(self._files.log)
                missing = _missing(ends, queue)
                yield {**self._place(queue), "min_offset": low, "max_offset": high, "message_count": high - low,
                       "first_store_time": self._store_time(queue, low, high),
                       "last_store_time": self._store_time(queue, high - 1, high),
                       "bytes": sum(int(np.sum(units_of(queue, *span)["size"], dtype=np.int64))
                                    for span in queue.spans(low, high)),
                       "topic_made_time": _time(epochs.get(topic, 0)),
                       **missing}

    def offsets(self) -> Iterator[Row]:
        chosen = set(self._chosen())
        table = self._document("consumerOffset", ConsumerOffsetSerializeWrapper).offset_table
        for name, by_queue in sorted(table.items()):
            topic, _, group = name.partition("@")
            if topic not in chosen:
                continue
            ends = {queue.queue_id: (queue, *queue.bounds(self._files.log)) for queue in self._files.queues(topic)}
            for queue_id, offset in sorted(by_queue.items()):
                end, seen = 0, None
                if queue_id in ends:
                    queue, low, end = ends[queue_id]
                    seen = self._store_time(queue, offset - 1, end) if offset > low else None
                yield {"consumer_group": group, "topic": topic, "broker_name": self._options.broker_name,
                       "queue_id": queue_id, "consumer_offset": offset, "max_offset": end, "lag": end - offset,
                       "last_consumed_store_time": seen}

    def topics(self) -> Iterator[Row]:
        chosen = set(self._chosen())
        table = self._document("topics", TopicConfigSerializeWrapper).topic_config_table
        return (_topic_row(table[name], self._options.broker_name) for name in sorted(chosen & set(table)))

    def groups(self) -> Iterator[Row]:
        table = self._document("subscriptionGroup", SubscriptionGroupWrapper).subscription_group_table
        return (_group_row(config, self._options.broker_name) for _, config in sorted(table.items()))

    def _chosen(self) -> list[str]:
        return self._options.selection.topics_of(self._files.topics())

    def _queues(self, topic: str, others: Collection[int]) -> list[ConsumeQueueFiles]:
        """The topic's queues, and also the `others`, whose files may be gone."""
        known = {queue.queue_id: queue for queue in self._files.queues(topic)}
        known |= {queue_id: self._files.queue(topic, queue_id) for queue_id in others if queue_id not in known}
        there = {MessageQueue(topic, self._options.broker_name, queue_id): queue for queue_id, queue in known.items()}
        return [there[queue] for queue in self._options.selection.queues_of(there)] if there else []

    def _place(self, queue: ConsumeQueueFiles) -> Row:
        return {"topic": queue.topic, "broker_name": self._options.broker_name, "queue_id": queue.queue_id}

    def _store_time(self, queue: ConsumeQueueFiles, offset: int, end: int) -> datetime | None:
        """When the message at `offset` was stored; None where it is gone or damaged, or was never there."""
        if not 0 <= offset < end:
            return None
        try:
            return _time(self._files.log.store_timestamp(queue.unit(offset).physical_offset))
        except (RecordError, DataLoss):
            return None

    def _document(self, name: str, body: type[Document]) -> Document:
        path = self._files.path / "config" / f"{name}.json"
        try:
            return body.decode(path.read_bytes())
        except FileNotFoundError:
            return body()
        except HeaderError as error:
            raise StoreDamaged(f"{path} is damaged: {error}; the broker keeps the text before in {path.name}.bak"
                               ) from error


class _Brokers:
    """The brokers of a name server."""

    def __init__(self, options: ReadOptions, environment: Mapping[str, str]) -> None:
        self._options = options
        credentials = credentials_of(options, environment)
        self._config = ClientConfig(access_key=credentials.access_key, secret_key=credentials.secret_key,
                                    tls=credentials.tls)

    def queues(self) -> Iterator[Row]:
        with self._admin() as admin:
            for topic in self._chosen(admin):
                with suppress(NoRoute):     # a topic that was deleted after it was listed
                    stats = admin.topic_stats(topic)
                    # One queue of each broker gives the topic's epoch there; a queue that cannot be read gives none.
                    made = {name: admin.queue_states([queue])[queue].topic_epoch
                            for name, queue in {queue.broker_name: queue for queue in admin.queues(topic)}.items()}
                    for queue in self._options.selection.queues_of(stats) if stats else ():
                        offset = stats[queue]
                        first = admin.earliest_store_time(queue) if offset.max_offset > offset.min_offset else 0
                        yield {**queue._asdict(), "min_offset": offset.min_offset, "max_offset": offset.max_offset,
                               "message_count": offset.max_offset - offset.min_offset, "bytes": None,
                               "first_store_time": _time(first),
                               "last_store_time": _time(offset.last_update_timestamp),
                               "topic_made_time": _time(made.get(queue.broker_name, 0)),
                               "missing_before": None, "missing_behind": None, "missing_cause": None,
                               "is_lost": None}

    def offsets(self) -> Iterator[Row]:
        with self._admin() as admin:
            chosen = set(self._chosen(admin))
            for group in [self._options.consumer_group] if self._options.consumer_group else self._groups(admin):
                yield from self._group_offsets(admin, group, chosen)

    def topics(self) -> Iterator[Row]:
        with self._admin() as admin:
            chosen = set(self._chosen(admin))
            for name, address in self._masters(admin):
                table = admin.topic_configs(address)
                yield from (_topic_row(table[topic], name) for topic in sorted(chosen & set(table)))

    def groups(self) -> Iterator[Row]:
        with self._admin() as admin:
            for name, address in self._masters(admin):
                for _, config in sorted(admin.group_configs(address).items()):
                    yield _group_row(config, name)

    def _group_offsets(self, admin: Admin, group: str, chosen: set[str]) -> Iterator[Row]:
        try:
            table = admin.consume_stats(group).offset_table
        except (NoRoute, BrokerRefused) as error:
            # A group that never had members has no retry topic, and its brokers know no offsets of it.
            if isinstance(error, BrokerRefused) and error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return
        for queue, offset in sorted(table.items()):
            if queue.topic in chosen:
                yield {"consumer_group": group, **queue._asdict(), "consumer_offset": offset.consumer_offset,
                       "max_offset": offset.broker_offset, "lag": offset.broker_offset - offset.consumer_offset,
                       "last_consumed_store_time": _time(offset.last_timestamp)}

    def _groups(self, admin: Admin) -> list[str]:
        """The groups for which a broker has settings, which it has for groups that have consumed at some time."""
        return sorted({group for _, address in self._masters(admin) for group in admin.group_configs(address)})

    def _masters(self, admin: Admin) -> list[tuple[str, str]]:
        """The name and address of each broker's master."""
        table = admin.cluster_info().broker_addr_table
        return sorted((name, data.broker_addrs[0]) for name, data in table.items() if 0 in data.broker_addrs)

    def _chosen(self, admin: Admin) -> list[str]:
        return self._options.selection.topics_of(set(admin.list_topics()), self._options.name_server)

    @contextmanager
    def _admin(self) -> Iterator[Admin]:
        """An Admin. Raises ClientError when the brokers, at the beginning or the end, are not the expected ones."""
        with Admin(self._options.name_server, self._config) as admin:
            self._check_brokers(admin)
            yield admin
            self._check_brokers(admin)

    def _check_brokers(self, admin: Admin) -> None:
        if self._options.expected_brokers is not None:
            check_brokers(self._options.expected_brokers, admin.cluster_info())


def _missing(ends: StoreEnds, queue: ConsumeQueueFiles) -> Row:
    """What is missing before the queue's first message and behind its last; where some is lost, that alone."""
    found = {"missing_before": ends.missing_before(queue), "missing_behind": ends.missing(queue)}
    is_lost = any(each is not None and each.is_loss for each in found.values())
    told = {name: each for name, each in found.items() if each is not None and each.is_loss == is_lost}
    return {**{name: told[name].next - told[name].first if name in told else 0 for name in found},
            "missing_cause": "; ".join(each.cause for each in told.values()) or None, "is_lost": is_lost}


def _topic_row(config: TopicConfig, broker_name: str) -> Row:
    return {"topic": config.topic_name, "broker_name": broker_name, "read_queue_nums": config.read_queue_nums,
            "write_queue_nums": config.write_queue_nums, "perm": config.perm, "is_order": config.order,
            "topic_sys_flag": config.topic_sys_flag, "attributes": _pairs(config.attributes)}


def _group_row(config: SubscriptionGroupConfig, broker_name: str) -> Row:
    return {"consumer_group": config.group_name, "broker_name": broker_name, "consume_enable": config.consume_enable,
            "consume_broadcast_enable": config.consume_broadcast_enable,
            "consume_message_orderly": config.consume_message_orderly, "retry_queue_nums": config.retry_queue_nums,
            "retry_max_times": config.retry_max_times, "consume_timeout_minute": config.consume_timeout_minute,
            "attributes": _pairs(config.attributes)}


def _pairs(attributes: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(attributes.items())


def _time(timestamp_ms: int) -> datetime | None:
    """The time; None for 0 and less, which mean that there is no message."""
    return datetime.fromtimestamp(dated(timestamp_ms) / 1000, UTC) if timestamp_ms > 0 else None
