"""Sends messages that become visible only when a local transaction has succeeded.

A *half message* is stored first, where no consumer sees it; then the local transaction runs; then the half is committed
or rolled back. When that last word does not come (the process died, the transaction's outcome is not known yet), the
broker asks any producer of the group, again and again, and the group's check callback answers from what the transaction
left behind, such as a row in its database.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from regulus.client.config import ProducerConfig
from regulus.client.connecting.client_instance import RequestHandler, now_ms
from regulus.client.core.message_check import check_message, check_priority_alone, check_topic
from regulus.client.core.resend import SendBudget
from regulus.client.foreign_calls import call_anywhere
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending.failed_sends import OnSendFailed
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError, ConfigError, HeaderError, MessageIllegal, RecordError
from regulus.model import message_properties as names
from regulus.model import sys_flag as flags
from regulus.model.message import Message, MessageExt
from regulus.model.message_id import host_text, parse_offset_message_id
from regulus.model.message_queue import MessageQueue
from regulus.record import message_record
from regulus.wire import compression
from regulus.wire.codes import RequestCode
from regulus.wire.headers import CheckTransactionStateRequest, EndTransactionRequest
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

NOWHERE = -1
"""The physical offset of a half message whose place only the server knows."""


class TransactionState(StrEnum):
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    UNKNOWN = "UNKNOWN"
    """The broker asks again later."""


_WIRE_STATES = {TransactionState.COMMIT: flags.TRANSACTION_COMMIT,
                TransactionState.ROLLBACK: flags.TRANSACTION_ROLLBACK}

Execute = Callable[[Message], TransactionState | Awaitable[TransactionState | None] | None]
"""The local transaction, called once its half message is stored; None and an exception both mean UNKNOWN.

A coroutine function runs in the event loop, any other function in a thread.
"""
Check = Callable[[MessageExt], TransactionState | Awaitable[TransactionState | None] | None]
"""What became of the local transaction of a message; called as `Execute`, perhaps in another process than that one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionProducerConfig(ProducerConfig):
    end_transaction_timeout: int = 3_000
    check_request_hold_max: int = 2_000     # questions of brokers that wait; more are left to the next check
    check_thread_max: int = 1               # calls of the check callback at the same time
    retry_half_without_answer: bool = False     # RocketMQ's way, which may leave several halves of one message

    def __post_init__(self) -> None:
        ProducerConfig.__post_init__(self)
        for key in ("end_transaction_timeout", "check_request_hold_max", "check_thread_max"):
            if getattr(self, key) < 1:
                raise ConfigError(f"{key} is {getattr(self, key)}; it must be 1 or more")


class HalfMessage(NamedTuple):
    """The ids by which a half message is ended, also from another process: text and numbers."""

    group: str
    topic: str
    broker_name: str
    queue_offset: int
    physical_offset: int
    message_id: str
    offset_message_id: str
    transaction_id: str = ""
    """By which it is ended over grpc://, where its place is the server's affair."""


class TransactionSendResult(NamedTuple):
    """`state` is what the local transaction said.

    `is_ended`: the broker has confirmed the end; when it has not, it will ask. `error` is what the transaction raised.
    """

    send_result: SendResult
    half: HalfMessage
    state: TransactionState
    is_ended: bool
    error: Exception | None = None


class TransactionProducer(Producer):
    """A producer of one group, all of whose members answer for each other's transactions.

        async with TransactionProducer("127.0.0.1:9876", "orders", check=was_it_booked) as producer:
            result = await producer.send_in_transaction(Message("Orders", b"..."), book)

    Ordinary sends work as with `Producer`. `topics` are those whose brokers may ask before this producer has sent
    anything there; without them a producer is known to a broker from its first send on.
    """

    def __init__(self, name_server: str, group: str, check: Check | None = None,
                 config: TransactionProducerConfig | None = None, *, topics: Iterable[str] = (),
                 on_send_failed: OnSendFailed | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError, MessageIllegal.

        `on_send_failed` is told of ordinary sends alone: a half message that is sent later would be another one.
        """
        self._transactions = config or TransactionProducerConfig()
        super().__init__(name_server, group, self._transactions, on_send_failed=on_send_failed)
        self._check = check
        self._topics = frozenset(topics)
        for topic in self._topics:
            check_topic(topic)
        self._checks_waiting = 0
        self._checking = asyncio.Semaphore(self._transactions.check_thread_max)
        self._half_retries = replace(self._retries, resends_without_answer=self._transactions.retry_half_without_answer)

    async def start(self) -> None:
        """Needs no network. Raises ConfigError for a malformed name server address, KeptFileUnusable."""
        await super().start()
        for topic in self._topics if self._grpc is None else ():
            self._tasks.spawn(self._greet_brokers(topic), f"brokers of {topic}")

    # --- transactions ------------------------------------------------------------------------------------------------

    async def send_in_transaction(self, message: Message, execute: Execute, *,
                                  timeout_ms: int | None = None) -> TransactionSendResult:
        """Store the half message, run the local transaction, and end it as that says.

        Raises as `send`; then the local transaction has not run. What comes after the half message raises nothing:
        what the broker does not hear now it asks for later. A half that may not survive the loss of its master is
        rolled back, and its transaction does not run.
        """
        with self._accepted:
            send_result, half = await self._send_half(message, None, None, timeout_ms)
            state, error = TransactionState.ROLLBACK, None
            if send_result.send_status is SendStatus.SEND_OK:
                state, error = await _state_of(execute, message)
                if error is not None:
                    _log.warning("the local transaction of %s failed; the broker will ask for it", half, exc_info=error)
            return TransactionSendResult(send_result, half, state, await self._end_or_log(half, state, False), error)

    async def send_half(self, message: Message, *, queue: MessageQueue | None = None, immunity_s: int | None = None,
                        timeout_ms: int | None = None) -> HalfMessage:
        """Store a half message, to be ended by `end_transaction`, here or elsewhere.

        `immunity_s`: for how many seconds the broker does not ask; whoever ends it later than that must say that it
        answers a check. Raises as `send`. A send without an answer is not repeated elsewhere, as the first one may have
        left a half too: SendFailed, and the check finds out.
        """
        with self._accepted:
            _, half = await self._send_half(message, queue, immunity_s, timeout_ms)
        return half

    async def end_transaction(self, half: HalfMessage, state: TransactionState, *, from_check: bool = False,
                              timeout_ms: int | None = None) -> None:
        """Commit a half message or roll it back; UNKNOWN does nothing.

        A Regulus broker takes the same end twice; one of RocketMQ delivers a message twice that is committed twice.
        Raises BrokerRefused when there is no such half, or it ended otherwise; ConnectFailed, ConnectionLost and
        RequestTimeout, after which the end may have been taken.
        """
        wire_state = _WIRE_STATES.get(state)
        if wire_state is None:
            return
        timeout_ms = timeout_ms or self._transactions.end_transaction_timeout
        if self._grpc is not None:
            await self._grpc.end_transaction(
                half.topic, half.message_id, half.transaction_id, commits=state is TransactionState.COMMIT,
                from_check=from_check, timeout_ms=timeout_ms, broker_name=half.broker_name)
            return
        request = EndTransactionRequest(
            producer_group=half.group, topic=half.topic, tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset, commit_or_rollback=wire_state, from_transaction_check=from_check,
            msg_id=half.message_id, transaction_id=half.message_id, broker_name=half.broker_name or None)
        await self._running().request(await self._address(half),
                                      RemotingCommand.request(RequestCode.END_TRANSACTION, request.ext()),
                                      timeout_ms)

    async def _send_half(self, message: Message, queue: MessageQueue | None, immunity_s: int | None,
                         timeout_ms: int | None) -> tuple[SendResult, HalfMessage]:
        check_message(message, self.config.max_message_size)
        keys = (self._grpc or self._running()).unique_keys
        keys.give(message, now_ms())
        properties = {**message.properties, names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: self.group}
        properties.pop(names.DELAY_TIME_LEVEL, None)
        check_priority_alone(properties)
        if immunity_s is not None:
            if immunity_s < 0:
                raise MessageIllegal(f"immunity_s is {immunity_s}; it must be 0 or more")
            properties[names.CHECK_IMMUNITY_TIME] = str(immunity_s)
        half = Message(message.topic, message.body, properties=properties, flag=message.flag)
        self._check_choice(queue, None)
        result = await self._send(half, queue, timeout_ms)
        if self._grpc is not None:
            return result, HalfMessage(self.group, message.topic, result.message_queue.broker_name, result.queue_offset,
                                       NOWHERE, result.message_id, "", result.transaction_id)
        try:
            _, physical_offset = parse_offset_message_id(result.offset_message_id)
        except ValueError as error:
            raise ClientError(f"the broker answered with an id that names no place: {error}") from error
        return result, HalfMessage(self.group, message.topic, result.message_queue.broker_name, result.queue_offset,
                                   physical_offset, result.message_id, result.offset_message_id)

    def _budget(self, message: Message | Sequence[Message]) -> SendBudget:
        """One of two halves of a message without an answer stays open: a half is sent again only on request."""
        is_half = isinstance(message, Message) and message.properties.get(names.TRANSACTION_PREPARED) == "true"
        return self._half_retries if is_half else self._retries

    async def _end_or_log(self, half: HalfMessage, state: TransactionState, from_check: bool) -> bool:
        if state is TransactionState.UNKNOWN:
            return False
        try:
            await self.end_transaction(half, state, from_check=from_check)
        except ClientError as error:
            _log.warning("%s of %s was not confirmed; the broker will ask: %s", state, half, error)
            return False
        return True

    async def _address(self, half: HalfMessage) -> str:
        """Of the broker that has the half: by its name, as the route has it now, or where the half was stored.

        A broker of RocketMQ 4.9 asks without its name, and may have moved since: if there is only one, that is it.
        """
        host, _ = parse_offset_message_id(half.offset_message_id)
        stored_at = host_text(host)
        try:
            route = await self._routes.known_or_asked(half.topic)
        except ClientError as error:
            _log.info("no route to %s, trying the address at which it was stored: %s", half, error)
            return stored_at
        masters = route.masters()
        if half.broker_name:
            return route.master(half.broker_name) or stored_at
        return masters[0] if len(masters) == 1 else stored_at

    # --- questions of brokers ----------------------------------------------------------------------------------------

    def topics(self) -> Iterable[str]:
        return self._topics.union(super().topics())

    def request_handlers(self) -> dict[int, RequestHandler]:
        return {RequestCode.CHECK_TRANSACTION_STATE: self._on_check} if self._check is not None else {}

    async def _on_check(self, command: RemotingCommand) -> RemotingCommand | None:
        """Ask the check callback and end the transaction; the question itself is not answered."""
        message, half = _question(command)
        if half.group != self.group or self is not self._answering_member():
            return None
        said = await self._checked(message, half)
        if said is not None:
            await self._end_or_log(half, said, True)
        return None

    async def _on_recover(self, message: MessageExt, transaction_id: str, target: str) -> None:
        """The same over grpc://; it is ended where it was asked."""
        if self._check is None:
            return
        assert self._grpc is not None
        half = HalfMessage(self.group, message.topic, "", message.queue_offset, NOWHERE, message.message_id, "",
                           transaction_id)
        said = await self._checked(message, half)
        if said not in (None, TransactionState.UNKNOWN):
            try:
                await self._grpc.end_transaction(
                    half.topic, half.message_id, transaction_id, commits=said is TransactionState.COMMIT,
                    from_check=True, timeout_ms=self._transactions.end_transaction_timeout, target=target)
            except ClientError as error:
                _log.warning("%s of %s was not confirmed; the broker will ask again: %s", said, half, error)

    async def _checked(self, message: MessageExt, half: HalfMessage) -> TransactionState | None:
        """What the check callback says; None where too many of them wait."""
        if self._checks_waiting >= self._transactions.check_request_hold_max:
            _log.warning("%d checks wait already; %s is left to the next one", self._checks_waiting, half)
            return None
        self._checks_waiting += 1
        try:
            async with self._checking:
                assert self._check is not None
                state, error = await _state_of(self._check, message)
        finally:
            self._checks_waiting -= 1
        if error is not None:
            _log.warning("the check of %s failed; the broker will ask again", half, exc_info=error)
        return state

    def _answering_member(self) -> "TransactionProducer | None":
        """A broker asks a process once, which may have several producers of the group; the first one answers."""
        return next((member for member in self._running().members
                     if isinstance(member, TransactionProducer) and member.group == self.group
                     and member._check is not None), None)

    async def _greet_brokers(self, topic: str) -> None:
        try:
            await self._routes.known_or_asked(topic)
        except ClientError as error:
            _log.info("the brokers of %s are not known yet: %s", topic, error)


async def _state_of(callback: Callable[[M], object], message: M) -> tuple[TransactionState, Exception | None]:
    """What a callback says; UNKNOWN when it raises or says nothing."""
    said, error = await call_anywhere(callback, message)
    if error is None and said is not None and not isinstance(said, TransactionState):
        error = TypeError(f"a transaction's callback returned a {type(said).__name__}: return a TransactionState")
    if error is not None and not isinstance(error, Exception):
        cause, error = error, RuntimeError(f"a transaction's callback ended with {type(error).__name__}")
        error.__cause__ = cause
    return said if isinstance(said, TransactionState) else TransactionState.UNKNOWN, error


def _question(command: RemotingCommand) -> tuple[MessageExt, HalfMessage]:
    """What a broker asks for. Raises HeaderError when it cannot be read."""
    header = CheckTransactionStateRequest.decode(command)
    try:
        message = message_record.decode(command.body)
    except RecordError as error:
        raise HeaderError(f"the check names a message that cannot be read: {error}") from error
    if message.sys_flag & flags.COMPRESSED:
        message.body = compression.decompress(message.body, message.sys_flag)
    offset_message_id = header.offset_msg_id or f"{message.store_host.hex().upper()}{header.commit_log_offset:016X}"
    try:
        parse_offset_message_id(offset_message_id)
    except ValueError as error:
        raise HeaderError(f"the check names no place of a half message: {error}") from error
    return message, HalfMessage(
        message.properties.get(names.PRODUCER_GROUP, ""), message.topic, header.broker_name or "",
        header.tran_state_table_offset, header.commit_log_offset, message.message_id or header.msg_id or "",
        offset_message_id)
