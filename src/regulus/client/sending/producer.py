"""Sends messages.

A send chooses a queue, waits for its turn there, waits for the broker's answer and, when an attempt fails, tries again
elsewhere while its time budget lasts. A returned result means that the message is stored. An error means that it may or
may not be stored (a lost answer looks like a lost request), and that the application is responsible for it again,
unless `on_send_failed` took it over.

A turn consists of a place among the requests to the broker, and room for the message's bytes among all sends under way.
A send gives both back before it waits for a place at another broker, so that a waiting send holds nothing that others
wait for. While a broker is down its sends keep their places; the sends that wait behind them then still have all their
time when it is back.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from regulus.client.config import ProducerConfig
from regulus.client.connecting import client_instance
from regulus.client.connecting.client_instance import ClientInstance, RequestHandler, steady_ms
from regulus.client.connecting.limited_room import LimitedRoom
from regulus.client.core import batching
from regulus.client.core.addresses import Protocol, split_protocol
from regulus.client.core.kept_rules import is_worth_keeping
from regulus.client.core.message_check import check_group, check_message, check_topic
from regulus.client.core.queue_selector import QueueSelector, check_selected
from regulus.client.core.resend import (
    RETRY_CODES,
    SendBudget,
    is_of_a_gone_queue,
    is_worth_a_retry,
)
from regulus.client.core.routes import Route
from regulus.client.core.send_course import SendCourse
from regulus.client.grpc_extra import imports_grpc
from regulus.client.send_result import SendResult, SendStatus
from regulus.client.sending import recalls
from regulus.client.sending.accepted_sends import AcceptedSends
from regulus.client.sending.failed_sends import FailedSend, OnSendFailed, SendKeeper, hand_over
from regulus.client.sending.gathered_sends import GatheredSends, split_result
from regulus.client.sending.outgoing import Outgoing
from regulus.client.sending.publish_routes import PublishRoutes
from regulus.client.sending.send_attempt import attempt
from regulus.client.sending.send_queues import SendQueues
from regulus.client.sending.send_turns import SendTurns
from regulus.client.started import Started
from regulus.client.tasks import Ending, HomeLoop, TaskGroup
from regulus.errors import (
    AnswerUnreadable,
    BrokerRefused,
    ClientClosed,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    ConnectRefused,
    MessageIllegal,
    NoMaster,
    PartlySent,
    RequestTimeout,
    RequestTooLarge,
)
from regulus.model.message import Message, MessageExt
from regulus.model.message_properties import SHARDING_KEY
from regulus.model.message_queue import MessageQueue
from regulus.wire.bodies import ConsumerData
from regulus.wire.codes import ResponseCode

if TYPE_CHECKING:
    from regulus.client.sending.grpc_sender import GrpcSender

_ONE_ATTEMPT = SendBudget(attempts=1)

_COMPRESS_IN_THREAD_FROM = 256 << 10
"""Bodies of this size and above are compressed in a thread, because that takes some ms and would block the event
loop."""

_MESSAGES_A_PLACE = 2
"""Messages of a batch that count as one request: a batch saves a broker about half of the work."""

_BATCH_PLACES_MAX = 128
"""The most places that one batch takes, so that two batches can be under way however large they are."""


class Producer(Started):
    """A producer of one group.

        async with Producer("127.0.0.1:9876", "my-group") as producer:
            result = await producer.send(Message("my-topic", b"hello"))

    The address names name servers, or is `grpc://host:port` of a broker's gRPC port or a proxy. Any number of sends may
    be called at the same time. They share one connection to each broker, on which at most
    `back_pressure_for_async_send_num` are under way; the others wait for their turn, in the order of the calls.
    """

    def __init__(self, name_server: str, group: str, config: ProducerConfig | None = None, *,
                 on_send_failed: OnSendFailed | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError.

        `on_send_failed` is called for each send that failed for good, and may take it over, as `KeptSends` does.
        """
        check_group(group)
        self.group = group
        self.config = config or ProducerConfig()
        self._name_server = name_server
        self._on_send_failed = on_send_failed
        self._instance: ClientInstance | None = None
        self._grpc: GrpcSender | None = None
        self._was_shut_down = False
        self._queues = SendQueues(self.config)
        self._turns = SendTurns(self.config.back_pressure_for_async_send_size,
                                self.config.back_pressure_for_async_send_num)
        self._routes = PublishRoutes(self.config, self._turns, self._running)
        same_broker = self.config.retry_as_async_send
        self._retries = SendBudget(attempts=1 + (self.config.retry_times_when_send_async_failed if same_broker
                                                 else self.config.retry_times_when_send_failed),
                                   attempt_timeout_max_ms=self.config.send_msg_max_timeout_per_request,
                                   java_budget=self.config.java_budget,
                                   resends_without_answer=self.config.retry_without_answer)
        codes = self.config.retry_response_codes
        self._retry_codes = frozenset[int]() if same_broker else RETRY_CODES if codes is None else codes
        self._tasks = TaskGroup()
        self._accepted = AcceptedSends(group)
        self._ending = Ending()
        self._gathered = GatheredSends(self.config, self._send_together, self._tasks)
        self._thread_size = max(_COMPRESS_IN_THREAD_FROM, self.config.compress_msg_body_over_howmuch)

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the producer: over rocketmq:// without the network; over grpc:// it waits until a server has sent its
        settings. Raises ConfigError for a malformed address, MissingExtra, KeptFileUnusable; ConnectFailed,
        BrokerRefused."""
        await self._ending.over()
        if self._instance is not None or self._grpc is not None:
            self._accepted.check_loop()
            return
        is_started = False
        self._accepted = AcceptedSends(self.group, HomeLoop())
        try:
            await self._connect()
            if isinstance(self._on_send_failed, SendKeeper):
                await self._on_send_failed.start(self._send_kept)
            is_started = True
        finally:
            if not is_started:
                await self._disconnect()

    async def _connect(self) -> None:
        protocol, rest = split_protocol(self._name_server)
        if protocol is Protocol.REMOTING:
            self._instance = client_instance.acquire(rest, self.config, self)
            return
        with imports_grpc():
            from regulus.client.sending.grpc_sender import GrpcSender
        self._grpc = GrpcSender(rest, self.config, self._queues, self.topics, self._on_recover)
        await self._grpc.start()

    async def _disconnect(self) -> None:
        """Close the connections. The attributes are cleared first, because this may run twice, and a cancellation must
        not leave a released instance behind."""
        instance, self._instance = self._instance, None
        sender, self._grpc = self._grpc, None
        if sender is not None:
            await sender.close()
        if instance is not None:
            await client_instance.release(instance, self)

    async def shutdown(self) -> None:
        """Send what was accepted, unregister, and close connections that no other client uses.

        Sends that have not ended within `await_termination_millis_when_shutdown` raise SendCutOff, unless they are
        kept; new sends raise ClientClosed at once. If this call is cancelled, the sends are cut off at once; a second
        shutdown waits until everything is done.
        """
        instance = self._instance
        if instance is not None and instance.is_left_behind:     # a forked child: the sends under way are the parent's
            self._instance = None
            self._tasks = TaskGroup()
            self._accepted = AcceptedSends(self.group)
            self._ending = Ending()
            return
        await self._ending.over()
        if self._instance is None and self._grpc is None:
            return
        self._accepted.check_loop()
        try:
            await asyncio.sleep(0)      # lets tasks begin that the program created before this call
            self._accepted.close()
            self._gathered.send_all()
            await self._accepted.ended(self.config.await_termination_millis_when_shutdown)
        finally:
            await self._ending.over()       # another call may have come first
            if self._instance is not None or self._grpc is not None:
                await self._ending.carry_out(self._end, f"end of producer {self.group}")

    async def _end(self) -> None:
        try:
            self._accepted.close()
            if not self._accepted.are_cut_off:      # a cancelled shutdown has not waited: cut off the rest now
                await self._accepted.ended(0)
            if pending := self._tasks.all():
                await asyncio.wait(pending)
        finally:
            try:
                if isinstance(self._on_send_failed, SendKeeper):
                    await self._on_send_failed.shutdown()
            finally:
                self._was_shut_down = True
                await self._disconnect()

    @property
    def client_id(self) -> str:
        return self._grpc.client_id if self._grpc is not None else self._running().client_id

    # --- sending -----------------------------------------------------------------------------------------------------

    async def send(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
                   argument: object = None, timeout_ms: int | None = None) -> SendResult:
        """Store one message; the message gets its unique key, and its body is not changed.

        Without `queue` and `selector` the queue is chosen in turn, and failures are retried on another broker. With one
        of them (ordered sends) there is one attempt. `argument` is passed to the selector. `timeout_ms` is an overall
        deadline: unlike `send_msg_timeout` it includes the wait for the send's turn.

        Raises MessageIllegal before anything is sent; NoRoute, NoNameServer; BrokerRefused for an answer that is not
        retried; SendFailed when all attempts failed, or an answer cannot be read; Throttled and TooManyRequests when
        the time budget is too short; SendKept or SendNotKept instead of these when failed sends are kept.
        """
        check_message(message, self.config.max_message_size)
        self._check_choice(queue, selector)
        with self._accepted:
            if selector is not None:
                queues = (await self._routes.known_or_asked(message.topic)).publish_queues
                queue = check_selected(queues, selector(queues, message, argument))
            if self.config.auto_batch and timeout_ms is None and self._grpc is None:
                self._running()
                future = self._gathered.add(message, queue)
                if future is not None:
                    return await future
            return await self._send_or_hand_over(message, queue, timeout_ms)

    async def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue | None = None,
                         timeout_ms: int | None = None) -> SendResult:
        """Store several messages of one topic in one request, next to each other in one queue; all of them or none.

        The result has their ids in order, joined by commas, and the queue offset of the first. Raises like `send`;
        MessageIllegal also when the messages cannot be one batch.
        """
        self._check_batch(messages)
        self._check_choice(queue, None)
        with self._accepted:
            return await self._send_or_hand_over(messages, queue, timeout_ms)

    async def send_in_batches(self, messages: Iterable[Message], *, size_max: int = 1 << 20) -> list[SendResult]:
        """Store any number of messages of one topic, cut into batches of at most `size_max` bytes, one after another.

        Returns the result of each batch, as from `send_batch`. Raises like `send_batch`, with MessageIllegal before
        anything is sent; PartlySent when a batch fails and those before it are stored. When failed sends are kept, all
        batches that are not stored are kept.
        """
        listed = list(messages)
        if listed:
            self._check_batch(listed)
        with self._accepted:
            return await self._send_each(listed, list(batching.split(listed, size_max)))

    async def _send_each(self, listed: Sequence[Message], batches: Sequence[Sequence[Message]]) -> list[SendResult]:
        results: list[SendResult] = []
        stored = 0
        for number, batch in enumerate(batches):
            try:
                results.append(await self._send(batch, None, None))
            except (ClientError, MessageIllegal) as error:
                told = await self._after_failure(batches[number:], None, error)
                if not stored:
                    raise told from told.__cause__
                raise PartlySent(results=results, stored=stored, count=len(listed), cause=told) from told
            stored += len(batch)
        return results

    def _check_choice(self, queue: MessageQueue | None, selector: QueueSelector | None) -> None:
        if self._grpc is not None and (queue is not None or selector is not None):
            raise MessageIllegal("over grpc:// the server chooses the queue: messages with the same value of property "
                                 f"{SHARDING_KEY} keep their order")

    def _check_batch(self, messages: Sequence[Message]) -> None:
        batching.check_batch(messages)
        for message in messages:
            check_message(message, self.config.max_message_size)

    async def send_oneway(self, message: Message, *, queue: MessageQueue | None = None,
                          selector: QueueSelector | None = None, argument: object = None) -> None:
        """Write one message to the broker's connection without waiting for an answer: it may be lost unnoticed.

        Raises MessageIllegal, NoRoute, NoNameServer, ConnectFailed, which are found out on this side.
        """
        check_message(message, self.config.max_message_size)
        self._check_remoting("a send without an answer")
        with self._accepted:
            await self._send_oneway(message, queue, selector, argument)

    async def _send_oneway(self, message: Message, queue: MessageQueue | None, selector: QueueSelector | None,
                           argument: object) -> None:
        instance = self._running()
        route = await self._routes.known_or_asked(message.topic)
        if selector is not None:
            queue = check_selected(route.publish_queues, selector(route.publish_queues, message, argument))
        elif queue is None:
            queue = self._queues.turn(message.topic).select(route.publish_queues)
        outgoing = await self._outgoing(message)
        try:
            await instance.connections.send_oneway(_master(route, queue), outgoing.command(queue, oneway=True),
                                                   self.config.send_msg_timeout)
        except RequestTooLarge as error:
            raise MessageIllegal(f"the message does not fit: {error}") from error

    async def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a delayed message, by the `recall_handle` of its send result; returns its id. A second recall does
        no harm.

        Raises MessageIllegal for a text that is not a handle of that topic; NoRoute, NoMaster; BrokerRefused, also when
        its time has come (ILLEGAL_OPERATION) or the broker does not allow recalls (NO_PERMISSION, recallMessageEnable);
        ConnectFailed, ConnectionLost, RequestTimeout, after which the message may be taken back or not;
        AnswerUnreadable.
        """
        timeout_ms = self.config.send_msg_timeout if timeout_ms is None else timeout_ms
        if self._grpc is not None:
            return await self._grpc.recall(topic, recall_handle, timeout_ms)
        route = await self._routes.known_or_asked(topic)
        return await recalls.recall(self._running(), route, self.group, recall_handle, timeout_ms)

    async def fetch_publish_message_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that take sends. Raises NoRoute, NoNameServer."""
        check_topic(topic)
        self._check_remoting("listing a topic's queues")
        return (await self._routes.known_or_asked(topic)).publish_queues

    def owed_ms(self) -> int:
        """ms that a shutdown may take for the sends that have not ended; 0 when there are none."""
        return self._accepted.may_last_ms(self.config.await_termination_millis_when_shutdown)

    async def end_with_process(self) -> None:
        await self.shutdown()

    # --- what a client instance asks of its members ------------------------------------------------------------------

    def consumer_data(self) -> ConsumerData | None:
        return None

    def topics(self) -> Iterable[str]:
        return self._queues.turns

    def routes_changed(self) -> None:
        pass

    def request_handlers(self) -> dict[int, RequestHandler]:
        return {}

    # --- sends that fail for good ------------------------------------------------------------------------------------

    async def _send_or_hand_over(self, message: Message | Sequence[Message], queue: MessageQueue | None,
                                 timeout_ms: int | None) -> SendResult:
        try:
            return await self._send(message, queue, timeout_ms)
        except ClientError as error:
            batch = [message] if isinstance(message, Message) else message
            told = await self._after_failure([batch], queue, error)
            raise told from told.__cause__

    async def _after_failure(self, batches: Sequence[Sequence[Message]], queue: MessageQueue | None,
                             error: ClientError | MessageIllegal) -> ClientError | MessageIllegal:
        """The error that the caller gets: the failure, or what the hook did with the messages."""
        hook, running = self._on_send_failed, self._grpc or self._instance
        if hook is None or running is None or isinstance(error, MessageIllegal) or not is_worth_keeping(error):
            return error
        failed = FailedSend(batches, queue, error)
        now = client_instance.now_ms()
        for message in failed.messages:
            running.unique_keys.give(message, now)
        told = await hand_over(hook, failed)
        if told is not error:
            told.__cause__ = error
        return told

    async def _send_kept(self, messages: Sequence[Message], queue: MessageQueue | None) -> SendResult:
        return await self._send(messages[0] if len(messages) == 1 else messages, queue, None)

    # --- one send ----------------------------------------------------------------------------------------------------

    async def _send(self, message: Message | Sequence[Message], wanted: MessageQueue | None,
                    timeout_ms: int | None) -> SendResult:
        """Try until the message is stored. Only this function steers a send; the rules for its decisions are in
        `core`."""
        if isinstance(message, Message):
            topic, size, weight = message.topic, batching.content_size(message), 1
        else:
            topic, size = message[0].topic, sum([batching.content_size(each) for each in message])
            weight = min(1 + len(message) // _MESSAGES_A_PLACE, _BATCH_PLACES_MAX)
        config = self.config
        course = SendCourse(topic, self._budget(message) if wanted is None else _ONE_ATTEMPT,
                            config.send_msg_timeout if timeout_ms is None else timeout_ms,
                            timeout_ms is not None or config.java_budget, steady_ms())
        turns, queues, under_way = self._turns, self._queues, self._turns.under_way
        outgoing: Outgoing | None = None
        held: LimitedRoom | None = None
        task = self._accepted.begin(course)
        try:
            if self._grpc is not None:
                return await self._grpc.send([message] if isinstance(message, Message) else message, course)
            while True:
                instance = self._running()
                route = instance.known_route(topic)
                if route is None or not route.publish_queues:
                    route = await self._routes.find(course)
                queue = wanted or queues.choose(route, course.last_broker)
                address = route.master(queue.broker_name)
                places = instance.connections.places(address or queue.broker_name)
                if places is not held:
                    if held is not None:
                        under_way.give_back(size)
                        held.give_back(weight)
                        held = None
                    if not turns.begin(places, weight, size):
                        await turns.wait_turn(places, weight, size, course)
                        if wanted is None and queues.is_better_elsewhere(route, queue.broker_name, course):
                            under_way.give_back(size)
                            places.give_back(weight)
                            continue
                    held = places
                if not queues.back_off.is_idle and not await queues.rest(queue.broker_name, course):
                    break
                if outgoing is None:
                    outgoing = await self._outgoing(message)
                begun = steady_ms()
                attempt_timeout = course.begin_attempt(queue.broker_name, begun, is_alone=route.has_one_publisher)
                if attempt_timeout <= 0:
                    break
                try:
                    result = await attempt(self._running, queues, outgoing, address, queue, attempt_timeout, begun)
                except ClientError as error:
                    if not self._tries_again(course, error, queue.broker_name, begun):
                        if course.stored is not None:
                            return course.stored
                        raise
                    if is_of_a_gone_queue(error):
                        await self._routes.without(queue, course)
                else:
                    if result.send_status is SendStatus.SEND_OK or not config.retry_another_broker_when_not_store_ok:
                        return result
                    course.stored = result
                if course.is_over(steady_ms()):
                    break
            return course.end(steady_ms())
        except asyncio.CancelledError:
            if self._accepted.is_cut_off(task):
                raise self._accepted.error(course) from course.failure
            raise
        finally:
            self._accepted.end(task)
            if held is not None:
                under_way.give_back(size)
                held.give_back(weight)

    def _budget(self, message: Message | Sequence[Message]) -> SendBudget:
        """The division of time among the attempts of this send."""
        return self._retries

    def _tries_again(self, course: SendCourse, error: ClientError, broker_name: str, begun_ms: int) -> bool:
        """Whether another attempt follows after this error. Raises SendFailed."""
        course.failure = error
        now = steady_ms()
        if isinstance(error, BrokerRefused):
            if not is_of_a_gone_queue(error):
                return is_worth_a_retry(error, self._retry_codes)
            self._running().doubt_route(course.topic)
            if course.budget is _ONE_ATTEMPT or self.config.retry_as_async_send:
                return False
            course.was_refused()
            return True
        if isinstance(error, AnswerUnreadable):
            raise course.failed_for_good(now) from error
        if isinstance(error, ConnectionLost | RequestTimeout) and not course.budget.resends_without_answer:
            raise course.failed_for_good(now) from error
        if isinstance(error, ConnectRefused) and self.config.retry_refused_connection:
            course.was_refused()
            self._queues.back_off.refused(broker_name, begun_ms, now)
        return isinstance(error, ConnectFailed | ConnectionLost | RequestTimeout | NoMaster)

    # --- batches of concurrent sends ---------------------------------------------------------------------------------

    async def _send_together(self, messages: Sequence[Message],
                             queue: MessageQueue | None) -> Sequence[SendResult | BaseException]:
        try:
            if len(messages) == 1:
                return [await self._send(messages[0], queue, None)]
            return split_result(await self._send(messages, queue, None), messages)
        except (MessageIllegal, ClientError) as error:
            if len(messages) > 1 and error.code == ResponseCode.MESSAGE_ILLEGAL:
                # One of the messages breaks a rule, and none was stored. The others are sent without it.
                return [await self._alone(message, queue) for message in messages]
            return await asyncio.gather(*(self._after_failure([[message]], queue, error) for message in messages))

    async def _alone(self, message: Message, queue: MessageQueue | None) -> SendResult | BaseException:
        """The result or the error of one message. The error must not be raised, because other messages of the batch may
        be stored, and their callers must get their results."""
        [result] = await asyncio.gather(self._send_or_hand_over(message, queue, None), return_exceptions=True)
        return result

    # -----------------------------------------------------------------------------------------------------------------

    async def _outgoing(self, message: Message | Sequence[Message]) -> Outgoing:
        unique_keys, now = self._running().unique_keys, client_instance.now_ms()
        if not isinstance(message, Message):
            return Outgoing.batch(message, self.group, self.config, unique_keys, now)
        if len(message.body) < self._thread_size:
            return Outgoing.single(message, self.group, self.config, unique_keys, now)
        unique_keys.give(message, now)      # here, because the counter belongs to this thread
        return await self._running().packing(Outgoing.single, message, self.group, self.config, unique_keys, now)

    async def _on_recover(self, message: MessageExt, transaction_id: str, target: str) -> None:
        """A server asks about a transaction; only the transaction producer answers."""

    def _check_remoting(self, what: str) -> None:
        if self._grpc is not None:
            raise ClientError(f"{what} is not possible over grpc://; give the address of name servers, rocketmq://")

    def _running(self) -> ClientInstance:
        if self._instance is None:
            raise ClientClosed(f"producer {self.group} was shut down" if self._was_shut_down else
                               f"producer {self.group} is not running; use `async with` or call start() first")
        return self._instance


def _master(route: Route, queue: MessageQueue) -> str:
    address = route.master(queue.broker_name)
    if address is None:
        raise ConnectFailed(f"broker {queue.broker_name} has no master")
    return address
