"""ReceiveMessage: a long poll that pops messages and streams them to the client. Source: ReceiveMessageActivity."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable

from regulus.client.tasks import TaskGroup
from regulus.errors import CallRefused
from regulus.model import message_properties as names
from regulus.model.peer import Origin
from regulus.model.topics import SubscriptionGroupConfig
from regulus.proxy import popping, receiving, routing, settings
from regulus.proxy.brokers import Brokers
from regulus.proxy.caller import Caller
from regulus.proxy.catalog import Catalog
from regulus.proxy.clients import Clients
from regulus.proxy.config import ProxyConfig
from regulus.proxy.names import full_name, group_name, topic_name
from regulus.proxy.popping import PoppedMessage
from regulus.proxy.receipt_handle import PlacedReceipt
from regulus.proxy.received import message_id, to_message
from regulus.proxy.renewals import Renewed
from regulus.proxy.renewing import Renewing
from regulus.proxy.status import status
from regulus.wire.bodies import SubscriptionData
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code
from regulus.wire.grpc.times import set_ms
from regulus.wire.headers import PopMessageRequest
from regulus.wire.headers.pop_message import ANY_QUEUE, INIT_MAX

_log = logging.getLogger(__name__)

REFUSAL_REST_S = 0.5
"""Delay before a refusal whose cause lasts, as some clients ask again at once whatever the answer is."""
_LASTING = frozenset((Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND, Code.FORBIDDEN, Code.PROXY_TIMEOUT,
                      Code.INTERNAL_SERVER_ERROR, Code.UNAUTHORIZED, Code.TOO_MANY_REQUESTS, Code.NOT_IMPLEMENTED))
"""Refusals whose cause usually lasts for some time."""


def _heard(task: "asyncio.Task[list[PoppedMessage]]") -> None:
    """Mark the failure of a pop as seen: a call that waits for it gets it, and asyncio need not log it as well."""
    if not task.cancelled():
        task.exception()


class ReceiveCall:
    """Serves receives. `left_behind` counts the polls at brokers whose clients have gone away meanwhile."""

    def __init__(self, brokers: Brokers, catalog: Catalog, clients: Clients, renewing: Renewing, config: ProxyConfig,
                 now_ms: Callable[[], int]) -> None:
        self._brokers = brokers
        self._catalog = catalog
        self._clients = clients
        self._renewing = renewing
        self._config = config
        self._now_ms = now_ms
        self._tasks = TaskGroup()
        self._turn = 0
        self.left_behind = 0

    async def stop(self) -> None:
        await self._tasks.cancel()

    async def receive(self, request: messages.ReceiveMessageRequest,
                      caller: Caller) -> AsyncGenerator[messages.ReceiveMessageResponse, None]:
        """Yield the elements of the stream: the status, the messages, and the time of delivery as the last one.

        If the client does not take the last element, it drops the messages that it got. They would be renewed without
        ever being acknowledged, so all popped messages become visible to others soon. Messages that were sent count as
        deliveries, because one of them may be what makes the client fail. Those that were not sent do not count."""
        given: list[PlacedReceipt] = []
        waiting: deque[PoppedMessage] = deque()
        group = topic = ""
        try:
            try:
                topic = topic_name(full_name(request.message_queue.topic, caller.namespace))
                group = group_name(full_name(request.group, caller.namespace))
                waiting = deque(await self._received(request, caller, topic, group))
                yield messages.ReceiveMessageResponse(status=status(Code.OK if waiting else Code.MESSAGE_NOT_FOUND))
                while waiting:
                    given.append(waiting[0].handle)
                    yield self._element(waiting.popleft(), request, caller, topic, group)
            except CallRefused as error:
                yield await self.refusal(error)
            end = messages.ReceiveMessageResponse()
            set_ms(end.delivery_timestamp, self._now_ms())
            yield end
            given.clear()
        finally:
            for handle in given:
                self._renewing.drop((caller.key, group, handle.text()))
            self._renewing.release(group, topic, given)
            self._renewing.give_back(group, topic, [each.handle for each in waiting])

    async def refusal(self, error: CallRefused) -> messages.ReceiveMessageResponse:
        """The only element of a refused receive, after a delay of REFUSAL_REST_S if the cause lasts."""
        if error.code in _LASTING:
            await asyncio.sleep(REFUSAL_REST_S)
        return messages.ReceiveMessageResponse(status=status(error.code, str(error)))

    async def _received(self, request: messages.ReceiveMessageRequest, caller: Caller, topic: str,
                        group: str) -> list[PoppedMessage]:
        """Pop messages and return those that the client must get. Raises CallRefused."""
        now_ms = self._now_ms()
        wanted = receiving.subscription(topic, request.filter_expression, self._config)
        invisible_ms = receiving.invisible_ms(request, self._config)
        broker = await self._broker(request, topic)
        config = await self._catalog.group(group, topic)
        client = self._clients.heard(caller)
        client.client_type = client.client_type or (ClientType.PUSH_CONSUMER if request.auto_renew
                                                    else ClientType.SIMPLE_CONSUMER)
        client.group = client.group or group
        # born_time=0 has the broker use its own clock. If the clock here were ahead, the poll would outlive the call.
        pop = PopMessageRequest(
            consumer_group=group, topic=topic, queue_id=ANY_QUEUE, max_msg_nums=receiving.batch_size(request),
            invisible_time=invisible_ms, poll_time=receiving.poll_ms(request, caller, self._config, now_ms),
            born_time=0, init_mode=INIT_MAX, exp_type=wanted.expression_type,
            exp=wanted.sub_string, order=config.consume_message_orderly,
            attempt_id=receiving.attempt_id(request) if config.consume_message_orderly else None, broker_name=broker)
        popped = await self._pop(broker, pop, caller.origin)
        due = await self._that_are_due(popped, wanted, config, topic, caller.origin)
        if self._clients.knows(caller.key):
            return due
        self._renewing.give_back(group, topic, [each.handle for each in due])   # the client ended meanwhile
        return []

    async def _broker(self, request: messages.ReceiveMessageRequest, topic: str) -> str:
        """The broker that the client names, or else the next one with queues to read. Raises CallRefused."""
        names = routing.readable_brokers(await self._catalog.route(topic))
        if not names:
            raise CallRefused(Code.FORBIDDEN, f"topic {topic} has no queue that can be read")
        if request.message_queue.broker.name in names:
            return request.message_queue.broker.name
        self._turn += 1
        return names[self._turn % len(names)]

    async def _pop(self, broker: str, pop: PopMessageRequest, origin: Origin | None) -> list[PoppedMessage]:
        """Poll one broker. Raises CallRefused.

        If the client goes away or the time is over, the poll is withdrawn. Messages that it brings later are given
        back."""
        poll = popping.Poll(self._brokers, broker, pop, origin)
        task = self._tasks.spawn_with(poll.popped(), f"pop of {pop.consumer_group}", _heard)
        try:
            async with asyncio.timeout((pop.poll_time + popping.POP_MARGIN_MS) / 1000):
                return await asyncio.shield(task)
        except TimeoutError as error:
            self._leave(poll, task)
            raise CallRefused(Code.PROXY_TIMEOUT, f"broker {broker} did not answer a pop in time") from error
        except asyncio.CancelledError:
            self._leave(poll, task)
            raise

    def _leave(self, poll: popping.Poll, task: "asyncio.Task[list[PoppedMessage]]") -> None:
        self.left_behind += 1
        self._tasks.spawn(self._give_back_late(task, poll.request), f"late pop of {poll.request.consumer_group}")
        poll.withdraw()

    async def _give_back_late(self, task: "asyncio.Task[list[PoppedMessage]]", pop: PopMessageRequest) -> None:
        try:
            popped = await task
        except CallRefused:
            return
        finally:
            self.left_behind -= 1
        self._renewing.give_back(pop.consumer_group, pop.topic, [each.handle for each in popped])

    async def _that_are_due(self, popped: list[PoppedMessage], wanted: SubscriptionData,
                            config: SubscriptionGroupConfig, topic: str, origin: Origin | None) -> list[PoppedMessage]:
        """The popped messages that the client must get.

        A message with an unwanted tag is acknowledged instead, and one that failed too often becomes a dead letter. If
        the call is cancelled, the others are given back."""
        kept: list[PoppedMessage] = []
        left = deque(popped)
        is_cut_short = True
        try:
            while left:
                each = left.popleft()
                if await self._is_due(each, wanted, config, topic, origin):
                    kept.append(each)
            is_cut_short = False
        finally:
            if is_cut_short:
                self._renewing.give_back(config.group_name, topic, [each.handle for each in (*kept, *left)])
        return kept

    async def _is_due(self, each: PoppedMessage, wanted: SubscriptionData, config: SubscriptionGroupConfig, topic: str,
                      origin: Origin | None) -> bool:
        try:
            if not receiving.has_wanted_tag(each.message.properties.get(names.TAGS, ""), wanted):
                await popping.ack(self._brokers, config.group_name, topic, each.handle)
            elif each.message.reconsume_times >= settings.max_attempts(config):
                await popping.to_dead_letters(self._brokers, config.group_name, topic, each.handle,
                                              message_id(each.message), origin)
            else:
                return True
        except CallRefused as error:
            _log.warning("message %s of group %s is delivered although it should not be: %s", message_id(each.message),
                         config.group_name, error)
            return True
        return False

    def _element(self, popped: PoppedMessage, request: messages.ReceiveMessageRequest, caller: Caller, topic: str,
                 group: str) -> messages.ReceiveMessageResponse:
        text = popped.handle.text()
        if request.auto_renew and self._config.enable_proxy_auto_renew:
            self._renewing.add(Renewed(
                key=(caller.key, group, text), topic=topic, message_id=message_id(popped.message),
                handle=popped.handle, taken_at_ms=self._now_ms(), attempts=popped.message.reconsume_times))
        return messages.ReceiveMessageResponse(message=to_message(
            popped.message, topic, self._config.max_message_size, text))
