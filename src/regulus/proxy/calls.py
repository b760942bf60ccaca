"""Calls that get one answer: routes, heartbeats, sends, acknowledgements and all others that are not streams.

Each method takes a request and its caller, and returns the response or raises CallRefused.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from regulus.client.core.resend import names_a_gone_queue
from regulus.errors import CallRefused, HeaderError, MessageIllegal
from regulus.model import sys_flag
from regulus.model.message_id import parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Origin
from regulus.proxy import popping, receiving, routing, sending, settings, topic_types, transaction_id
from regulus.proxy.brokers import Brokers
from regulus.proxy.caller import Caller
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import Client, Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.names import full_name, group_name, topic_name
from regulus.proxy.renewing import Renewing
from regulus.proxy.sending import Sendable
from regulus.proxy.status import checked, code_of, common, status
from regulus.proxy.transaction_id import TransactionId
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import (
    ClientType,
    Code,
    Language,
    MessageType,
    TransactionResolution,
    TransactionSource,
)
from regulus.wire.headers import (
    EndTransactionRequest,
    RecallMessageRequest,
    RecallMessageResponse,
    SendMessageResponse,
)
from regulus.wire.remoting_command import RemotingCommand

SEND_TIMEOUT_MS = 3_000
"""How long a broker may take to answer a request that stores something."""
ENTRIES_MAX = 1_024
"""Acknowledgements in one call; a call with more is refused."""
AT_ONCE_MAX = 32
"""Requests to brokers that one call may have under way; the others of the call wait."""
_ENTRIES_PER_TURN = 512
"""Entries of a response that are built before other calls get a turn of the event loop."""
_STORED = (ResponseCode.SUCCESS, ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT,
           ResponseCode.SLAVE_NOT_AVAILABLE)
"""Answers to a send whose messages are stored, although perhaps not as safely as the broker is configured."""
_GONE_PAUSES_MS = (50, 100, 200, 400, 800)
"""Pauses before further attempts while a broker lacks a queue that the name servers still list."""
_HANDLE_SIZE_MAX = 1_024
"""Characters of a recall handle; a longer one is refused before it is decoded."""
_ENDINGS: dict[int, int] = {TransactionResolution.COMMIT: sys_flag.TRANSACTION_COMMIT,
                            TransactionResolution.ROLLBACK: sys_flag.TRANSACTION_ROLLBACK}

_Entry = TypeVar("_Entry", messages.MessageQueue, messages.Assignment)


class UnaryCalls:
    """Answers the calls. `now_ms` returns the time of day, and `own_port` is the port at which the proxy listens."""

    def __init__(self, brokers: Brokers, catalog: Catalog, clients: Clients, renewing: Renewing, config: ProxyConfig,
                 now_ms: Callable[[], int]) -> None:
        self._brokers = brokers
        self._catalog = catalog
        self._clients = clients
        self._renewing = renewing
        self._config = config
        self._now_ms = now_ms
        self._turns = itertools.count()
        self.own_port = config.grpc_server_port

    # --- routes ------------------------------------------------------------------------------------------------------

    async def query_route(self, request: messages.QueryRouteRequest, caller: Caller) -> messages.QueryRouteResponse:
        client = self._clients.get(caller.key)
        if client is not None and client.client_type in settings.LITE_CONSUMERS:
            # Java's client asks three times before it gives up, and then reports the text of the last refusal.
            raise CallRefused(Code.NOT_IMPLEMENTED, topic_types.NO_LITE_CONSUMERS)
        topic = topic_name(full_name(request.topic, caller.namespace))
        endpoints = routing.endpoints_of(request.endpoints, caller.authority, self.own_port)
        route, taken = await self._catalog.route(topic), await self._catalog.types(topic)
        await self._catalog.queues(topic)       # refuses a route with too many queues
        entries = routing.queue_entries(route, routing.echoed(request.topic), endpoints, taken)
        return messages.QueryRouteResponse(status=status(Code.OK), message_queues=await _in_turns(entries))

    async def query_assignment(self, request: messages.QueryAssignmentRequest,
                               caller: Caller) -> messages.QueryAssignmentResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        group = group_name(full_name(request.group, caller.namespace))
        endpoints = routing.endpoints_of(request.endpoints, caller.authority, self.own_port)
        route = await self._catalog.route(topic)
        await self._catalog.queues(topic)
        fifo = (await self._catalog.group(group, topic)).consume_message_orderly
        entries = await _in_turns(routing.assignments(route, routing.echoed(request.topic), endpoints, fifo))
        if not entries:
            raise CallRefused(Code.FORBIDDEN, f"topic {topic} has no queue that can be read")
        return messages.QueryAssignmentResponse(status=status(Code.OK), assignments=entries)

    # --- clients that begin and end ----------------------------------------------------------------------------------

    async def heartbeat(self, request: messages.HeartbeatRequest, caller: Caller) -> messages.HeartbeatResponse:
        """Record that a client lives. A client whose settings are unknown, as after a restart of the proxy, is accepted
        as well: it sends them again some minutes later."""
        client = self._clients.get(caller.key)
        kind = request.client_type if client is None or not client.client_type else client.client_type
        if kind in settings.CONSUMERS:
            group = group_name(full_name(request.group, caller.namespace))
            client = self._clients.heard(caller)
            client.group, client.client_type = group, kind
        elif kind == ClientType.PRODUCER:
            client = self._clients.heard(caller)
            client.client_type = kind
        else:
            raise CallRefused(Code.UNRECOGNIZED_CLIENT_TYPE,
                              f"client type {kind} is not served: producers, push and simple consumers are")
        return messages.HeartbeatResponse(status=status(Code.OK))

    async def notify_client_termination(self, request: messages.NotifyClientTerminationRequest,
                                        caller: Caller) -> messages.NotifyClientTerminationResponse:
        """Make the messages that the client holds of the named group visible to others soon. Other groups are left
        alone, because access control checked only the named one."""
        group = full_name(request.group, caller.namespace) if request.HasField("group") else ""
        client = self._clients.get(caller.key)
        if client is not None and client.group in ("", group):
            self._clients.forget(caller.key)
        self._renewing.release_client(caller.key, group)
        return messages.NotifyClientTerminationResponse(status=status(Code.OK))

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send_message(self, request: messages.SendMessageRequest, caller: Caller) -> messages.SendMessageResponse:
        if not request.messages:
            raise CallRefused(Code.MESSAGE_CORRUPTED, "the send has no message")
        names = [full_name(message.topic, caller.namespace) for message in request.messages]
        topic = topic_name(names[0])
        sendables = sending.sendables(request, topic, names, self._config, caller.peer, self._now_ms())
        queues = (await self._catalog.queues(topic)).publish_queues
        if not queues:
            raise CallRefused(Code.FORBIDDEN, f"topic {topic} has no queue that can be written")
        if self._config.enable_topic_message_type_check:
            taken = await self._catalog.types(topic)
            for each in sendables:
                topic_types.check(topic, taken, each.kind)
        if any(each.kind is MessageType.TRANSACTION for each in sendables):
            self._clients.sends_to(caller, topic)
        entries = await self._send_all(sendables, queues, caller.origin)
        codes = [entry.status.code for entry in entries]
        code = common(codes)
        text = entries[0].status.message if code == codes[0] else ""
        return messages.SendMessageResponse(status=status(code, text), entries=entries)

    async def _send_all(self, sendables: Sequence[Sendable], queues: Sequence[MessageQueue],
                        origin: Origin | None) -> list[messages.SendResultEntry]:
        """One entry for each message. After a failure the rest is not sent, because messages of a group must keep their
        order. Raises CallRefused if nothing was stored."""
        entries: list[messages.SendResultEntry] = []
        for batch in sending.batches(sendables, self._config.max_message_size):
            try:
                entries += await self._send(batch, queues, origin)
            except CallRefused as error:
                if not entries:
                    raise
                refusal = status(error.code, str(error))
                return entries + [messages.SendResultEntry(status=refusal, message_id=each.message.message_id)
                                  for each in sendables[len(entries):]]
        return entries

    def _queue_for(self, sendable: Sendable, queues: Sequence[MessageQueue]) -> MessageQueue:
        if sendable.message_group:
            return routing.queue_of_group(queues, sendable.message_group)
        return queues[next(self._turns) % len(queues)]

    async def _send(self, batch: Sequence[Sendable], queues: Sequence[MessageQueue],
                    origin: Origin | None) -> list[messages.SendResultEntry]:
        """Send one request to a broker; one entry for each of its messages. Raises CallRefused if none was stored."""
        queue, answer = await self._stored(batch, queues, origin)
        for pause_ms in _GONE_PAUSES_MS:
            if not names_a_gone_queue(answer.code, answer.remark):
                break
            self._catalog.doubt_route(queue.topic)
            queues = (await self._catalog.queues(queue.topic)).publish_queues or queues
            if queue in queues:
                await asyncio.sleep(pause_ms / 1000)
            queue, answer = await self._stored(batch, queues, origin)
        if answer.code not in _STORED:
            checked(answer)
        told = SendMessageResponse.decode(answer)
        return [self._entry(each, number, told, queue, answer) for number, each in enumerate(batch)]

    async def _stored(self, batch: Sequence[Sendable], queues: Sequence[MessageQueue],
                      origin: Origin | None) -> tuple[MessageQueue, RemotingCommand]:
        """The chosen queue and the broker's answer."""
        queue = self._queue_for(batch[0], queues)
        try:
            command = sending.send_command(batch, queue.broker_name, queue.queue_id)
            return queue, await self._brokers.ask(queue.broker_name, command, SEND_TIMEOUT_MS, origin)
        except MessageIllegal as error:
            raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, str(error)) from error

    def _entry(self, sendable: Sendable, number: int, told: SendMessageResponse, queue: MessageQueue,
               answer: RemotingCommand) -> messages.SendResultEntry:
        unique_key = sendable.message.message_id
        entry = messages.SendResultEntry(status=status(code_of(answer), answer.remark or ""), message_id=unique_key,
                                         transaction_id=told.transaction_id or "", offset=told.queue_offset + number,
                                         recall_handle=told.recall_handle or "")
        if sendable.sys_flag & sys_flag.TRANSACTION_PREPARED:
            entry.transaction_id = _half_id(unique_key, queue.broker_name, told)
        return entry

    async def recall_message(self, request: messages.RecallMessageRequest,
                             caller: Caller) -> messages.RecallMessageResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        if self._config.enable_topic_message_type_check:
            topic_types.check(topic, await self._catalog.types(topic), MessageType.DELAY)
        if not request.recall_handle or len(request.recall_handle) > _HANDLE_SIZE_MAX:
            raise CallRefused(Code.BAD_REQUEST, "the recall handle is missing or too long")
        header = RecallMessageRequest(producer_group=topic, topic=topic, recall_handle=request.recall_handle)
        answer = await self._brokers.ask(
            sending.broker_of_recall(request.recall_handle),
            RemotingCommand.request(RequestCode.RECALL_MESSAGE, header.ext()), SEND_TIMEOUT_MS, caller.origin)
        told = RecallMessageResponse.decode(checked(answer))
        return messages.RecallMessageResponse(status=status(Code.OK), message_id=told.msg_id)

    async def end_transaction(self, request: messages.EndTransactionRequest,
                              caller: Caller) -> messages.EndTransactionResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        half = transaction_id.parse(request.transaction_id)
        done = _ENDINGS.get(request.resolution)
        if done is not None:        # otherwise the client does not know yet, and the broker asks it again later
            header = EndTransactionRequest(
                producer_group=topic, tran_state_table_offset=half.half_offset, commit_log_offset=half.physical_offset,
                commit_or_rollback=done, from_transaction_check=request.source == TransactionSource.SOURCE_SERVER_CHECK,
                msg_id=half.unique_key, transaction_id=half.unique_key, topic=topic,
                broker_name=half.broker)
            command = RemotingCommand.request(RequestCode.END_TRANSACTION, header.ext())
            checked(await self._brokers.ask(half.broker, command, SEND_TIMEOUT_MS, caller.origin))
        return messages.EndTransactionResponse(status=status(Code.OK))

    async def sync_lite_subscription(self, request: messages.SyncLiteSubscriptionRequest,
                                     caller: Caller) -> messages.SyncLiteSubscriptionResponse:
        raise CallRefused(Code.NOT_IMPLEMENTED, topic_types.NO_LITE_CONSUMERS)

    # --- received messages -------------------------------------------------------------------------------------------

    async def ack_message(self, request: messages.AckMessageRequest, caller: Caller) -> messages.AckMessageResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        group = group_name(full_name(request.group, caller.namespace))
        if len(request.entries) > ENTRIES_MAX:
            raise CallRefused(Code.BAD_REQUEST, f"{len(request.entries)} entries; {ENTRIES_MAX} are the most")
        results: list[messages.AckMessageResultEntry] = []
        for start in range(0, len(request.entries), AT_ONCE_MAX):
            results += await asyncio.gather(*[self._ack_entry(entry, group, topic, caller)
                                              for entry in request.entries[start:start + AT_ONCE_MAX]])
        codes = [result.status.code for result in results]
        code = common(codes)
        text = results[0].status.message if results and code == codes[0] else ""
        return messages.AckMessageResponse(status=status(code, text), entries=results)

    async def _ack_entry(self, entry: messages.AckMessageEntry, group: str, topic: str,
                         caller: Caller) -> messages.AckMessageResultEntry:
        result = messages.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle)
        try:
            async with self._renewing.decided((caller.key, group, entry.receipt_handle)) as handle:
                await popping.ack(self._brokers, group, topic, handle)
            result.status.CopyFrom(status(Code.OK))
        except CallRefused as error:
            result.status.CopyFrom(status(error.code, str(error)))
        return result

    async def change_invisible_duration(self, request: messages.ChangeInvisibleDurationRequest,
                                        caller: Caller) -> messages.ChangeInvisibleDurationResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        group = group_name(full_name(request.group, caller.namespace))
        invisible_ms = receiving.changed_invisible_ms(request, self._config)
        client = self._clients.get(caller.key)
        if client is not None and _hurries_too_much(client, invisible_ms):
            invisible_ms = settings.retry_delay_ms(0)
        async with self._renewing.decided((caller.key, group, request.receipt_handle)) as handle:
            changed = await popping.change_invisible(self._brokers, group, topic, handle, invisible_ms,
                                                     suspend=request.suspend)
        return messages.ChangeInvisibleDurationResponse(status=status(Code.OK), receipt_handle=changed.text())

    async def forward_to_dead_letters(self, request: messages.ForwardMessageToDeadLetterQueueRequest,
                                      caller: Caller) -> messages.ForwardMessageToDeadLetterQueueResponse:
        topic = topic_name(full_name(request.topic, caller.namespace))
        group = group_name(full_name(request.group, caller.namespace))
        async with self._renewing.decided((caller.key, group, request.receipt_handle), live=False) as handle:
            await popping.to_dead_letters(self._brokers, group, topic, handle, request.message_id, caller.origin)
        return messages.ForwardMessageToDeadLetterQueueResponse(status=status(Code.OK))


def _half_id(unique_key: str, broker: str, told: SendMessageResponse) -> str:
    try:
        _, physical_offset = parse_offset_message_id(told.msg_id)
    except ValueError as error:
        raise HeaderError(f"broker {broker} does not say where the half message is stored: {error}") from error
    return TransactionId(unique_key, broker, told.queue_offset, physical_offset).text()


def _hurries_too_much(client: Client, invisible_ms: int) -> bool:
    """Whether a Node.js push consumer asks for a redelivery that comes too soon. It takes seconds for milliseconds or
    ignores the list of delays, so a failed message would come back at once, forever."""
    return (invisible_ms < settings.retry_delay_ms(0) and client.client_type == ClientType.PUSH_CONSUMER
            and client.language == Language.NODE_JS)


async def _in_turns(entries: Iterable[_Entry]) -> list[_Entry]:
    """All entries as a list, with pauses for other calls: a topic may have tens of thousands of queues."""
    made: list[_Entry] = []
    for entry in entries:
        made.append(entry)
        if not len(made) % _ENTRIES_PER_TURN:
            await asyncio.sleep(0)
    return made
