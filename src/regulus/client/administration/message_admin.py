"""Finds messages by offset id, unique key, key, or offset in a queue."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from regulus.client.administration.group_admin import GroupAdmin
from regulus.client.connecting.client_instance import now_ms
from regulus.client.core.inner_batches import from_offset, is_inner_batch, unwrap
from regulus.client.core.routes import Route
from regulus.client.core.unique_key_time import search_from_ms
from regulus.errors import BrokerRefused, ClientError, NoRoute
from regulus.model import sys_flag as flags
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import MessageExt
from regulus.model.message_id import host_text, parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire import compression
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    PullMessageRequest,
    PullMessageResponse,
    QueryMessageRequest,
    UnreadableRecords,
    ViewMessageByIdRequest,
)
from regulus.wire.remoting_command import RemotingCommand

TOOLS_GROUP = "TOOLS_CONSUMER"
QUERY_TIMEOUT_FACTOR = 3
JAVA_ANSWER_MAX = 64
"""The most messages that a RocketMQ broker returns for a query (its maxMsgsNumBatch)."""


class Pulled(NamedTuple):
    """The result of a pull: messages, and where to pull next. `min_offset` and `max_offset` are the queue's."""

    messages: list[MessageExt]
    next_offset: int
    min_offset: int
    max_offset: int


class FoundMessages(list[MessageExt]):
    """Messages, oldest first. `cut`: there are older ones that were not requested, or that the broker cannot find.
    `unreadable`: the number of further messages in a broker's index whose records are damaged or missing."""

    def __init__(self, messages: Iterable[MessageExt] = ()) -> None:
        super().__init__(messages)
        self.cut = False
        self.unreadable = 0

    @property
    def unreadable_text(self) -> str:
        """A sentence about the unreadable messages; empty when there are none."""
        if not self.unreadable:
            return ""
        return (f"{self.unreadable} index entries point at records that cannot be read; the broker's log names what is "
                "damaged there")


class MessageAdmin(GroupAdmin):
    """Finds and pulls messages; their bodies are unpacked."""

    async def view_message(self, message_id: str, topic: str | None = None) -> MessageExt:
        """The message of an offset id or, with its topic, of a unique key. Raises ClientError when there is none."""
        if topic is None:
            try:
                return await self.message_by_offset_id(message_id)
            except ClientError as error:
                raise ClientError(f"{error}; to find a message by its unique key, name its topic",
                                  error.code) from error
        found = await self.messages_by_unique_key(topic, message_id)
        if found:
            return found[0]
        if found.unreadable:
            raise ClientError(f"no message {message_id} in topic {topic!r} that can be read: {found.unreadable_text}")
        # A unique key has as many digits as an offset id, so it may look like one and name any address. Only brokers of
        # the topic are contacted.
        addresses = (await self._fresh_route(topic)).readable_addresses()
        with suppress(ValueError):
            host, _ = parse_offset_message_id(message_id)
            if host_text(host) in addresses:
                return await self.message_by_offset_id(message_id)
        raise ClientError(f"no message {message_id} in topic {topic!r}", ResponseCode.NO_MESSAGE)

    async def message_by_offset_id(self, offset_message_id: str) -> MessageExt:
        """The message with this offset id, which consists of a broker's address and a physical offset."""
        try:
            host, physical_offset = parse_offset_message_id(offset_message_id)
        except ValueError as error:
            raise ClientError(str(error), ResponseCode.NO_MESSAGE) from error
        header = ViewMessageByIdRequest(offset=physical_offset)
        answer = await self._request(host_text(host), RequestCode.VIEW_MESSAGE_BY_ID, header.ext())
        return unpacked(message_record.decode(answer.body))

    async def messages_by_unique_key(self, topic: str, unique_key: str) -> FoundMessages:
        """All messages with this unique key, oldest first: retries and repeated sends make copies. Raises NoRoute."""
        begin = search_from_ms(unique_key, now_ms())

        def matches(message: MessageExt) -> bool:
            return message.message_id == unique_key
        found = await self._query(topic, unique_key, 32, begin, LONG_MAX, matches, unique=True)
        if not found and begin > 0:
            found = await self._query(topic, unique_key, 32, 0, LONG_MAX, matches, unique=True)
        return found

    async def messages_by_key(self, topic: str, key: str, *, max_num: int = 64, begin_ms: int = 0,
                              end_ms: int = LONG_MAX) -> FoundMessages:
        """Messages that have this key among their KEYS, stored between two times: the newest `max_num`, oldest first.
        Raises NoRoute."""
        return await self._query(topic, key, max_num, begin_ms, end_ms,
                                 lambda message: message.topic == topic and key in message.keys.split(" "))

    async def message_at(self, queue: MessageQueue, queue_offset: int) -> MessageExt:
        """The message at an offset of a queue. Raises ClientError when there is none."""
        pulled = await self.pull(queue, queue_offset, 1)
        for message in pulled.messages:
            if message.queue_offset == queue_offset:
                return message
        held = (f"has {pulled.min_offset} to {pulled.max_offset - 1}" if pulled.max_offset > pulled.min_offset
                else "is empty")
        raise ClientError(f"no message at offset {queue_offset} of queue {queue.queue_id} of {queue.topic} on "
                          f"{queue.broker_name}, which {held}", ResponseCode.NO_MESSAGE)

    async def pull(self, queue: MessageQueue, queue_offset: int, max_num: int = 32, *, expression: str = "*",
                   suspend_ms: int = 0) -> Pulled:
        """Messages from an offset on; no group's offset is touched.

        With `suspend_ms` the broker may wait that long for a new one. An offset out of range gives no messages and a
        corrected `next_offset`.
        """
        sys_flag = flags.PULL_SUBSCRIPTION | (flags.PULL_SUSPEND if suspend_ms else 0)
        header = PullMessageRequest(TOOLS_GROUP, queue.topic, queue.queue_id, queue_offset, max_num, sys_flag, 0,
                                    suspend_ms, expression, 0, "TAG", broker_name=queue.broker_name)
        address = await self._queue_address(queue)
        answer = await self._running().connections.request(
            address, RemotingCommand.request(RequestCode.PULL_MESSAGE, header.ext()),
            suspend_ms + self.config.mq_client_api_timeout)
        if answer.code not in _PULLED:
            raise BrokerRefused(answer.code, answer.remark, address)
        place = PullMessageResponse.decode(answer)
        records = [unpacked(message) for message in message_record.decode_all(answer.body)] if answer.body else []
        messages = [each for record in records for each in (unwrap(record) if is_inner_batch(record) else (record,))]
        if records and records[0].queue_offset < queue_offset:
            messages = from_offset(messages, queue_offset)
        return Pulled(messages, place.next_begin_offset, place.min_offset, place.max_offset)

    # -----------------------------------------------------------------------------------------------------------------

    async def _query(self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int,
                     matches: Callable[[MessageExt], bool], *, unique: bool = False) -> FoundMessages:
        route: Route = await self._fresh_route(topic)
        addresses = route.readable_addresses()
        if not addresses:
            raise NoRoute(f"no broker of topic {topic!r} can be read")
        header = QueryMessageRequest(topic=topic, key=key, max_num=max_num + 1, begin_timestamp=begin_ms,
                                     end_timestamp=end_ms, unique_key_query=unique)
        found = FoundMessages()
        failure: ClientError | None = None
        answered = False
        for address in addresses:
            try:
                await self._query_broker(address, header, matches, found)
                answered = True
            except ClientError as error:
                failure = error
        if failure is not None and not answered:
            raise failure
        found.sort(key=lambda message: (message.store_timestamp, message.queue_offset))
        found.cut |= len(found) > max_num
        del found[:-max_num]
        return found

    async def _query_broker(self, address: str, header: QueryMessageRequest, matches: Callable[[MessageExt], bool],
                            found: FoundMessages) -> None:
        """Add the messages that one broker finds, page by page from the newest on, until there is one more than
        wanted."""
        seen: set[int] = set()
        count = 0
        while count < header.max_num:
            answer = await self._running().connections.request(
                address, RemotingCommand.request(RequestCode.QUERY_MESSAGE, header.ext()),
                QUERY_TIMEOUT_FACTOR * self.config.mq_client_api_timeout)
            found.unreadable += UnreadableRecords.decode(answer).regulus_unreadable
            if answer.code == ResponseCode.QUERY_NOT_FOUND:
                return
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerRefused(answer.code, answer.remark, address)
            messages = message_record.decode_all(answer.body)
            page = [message for message in messages if message.physical_offset not in seen]
            if not page:
                # RocketMQ pages by seconds, not by positions. If one second fills an answer, older messages of that
                # second cannot be reached.
                found.cut |= len(messages) >= min(header.max_num, JAVA_ANSWER_MAX)
                return
            if header.unique_key_query:
                found += filter(matches, map(unpacked, page))
                return
            seen.update(message.physical_offset for message in page)
            fitting = [unpacked(message) for message in page if matches(message)]
            found += fitting
            count += len(fitting)
            oldest = min(page, key=lambda message: message.physical_offset)
            header = replace(header, regulus_before=oldest.physical_offset,
                             end_timestamp=min(header.end_timestamp, oldest.store_timestamp))


_PULLED = (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
           ResponseCode.PULL_OFFSET_MOVED)


def unpacked(message: MessageExt) -> MessageExt:
    if message.sys_flag & flags.COMPRESSED:
        message.body = compression.decompress(message.body, message.sys_flag)
    return message
