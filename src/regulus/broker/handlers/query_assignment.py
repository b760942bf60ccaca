"""Assigns queues to the members of a group at the broker: QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE,
GET_ALL_MESSAGE_REQUEST_MODE.

A topic may have queues at other brokers, which only the name server knows. The server asks it, and the answer is sent
when it has replied.

Source: QueryAssignmentProcessor.
"""

from regulus.broker.groups.request_modes import POP, PULL
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import decode_named
from regulus.broker.outcome import HOLD, Outcome, refuse
from regulus.broker.state import BrokerState, RouteAsk
from regulus.model import permission
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.model.topics import is_retry_topic
from regulus.wire.bodies import (
    MessageQueueAssignment,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
    TopicRouteData,
)
from regulus.wire.codes import ResponseCode
from regulus.wire.remoting_command import RemotingCommand

ASKS_MAX = 10_000
"""Requests that wait for a name server, at most."""
BROADCASTING = "BROADCASTING"
_STRATEGIES = ("AVG", "AVG_BY_CIRCLE")


def handle_query_assignment(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    body = decode_named(QueryAssignmentRequestBody, request)
    if len(broker.route_asks) >= ASKS_MAX:
        return refuse(request, ResponseCode.SYSTEM_BUSY, "too many requests wait for a name server")

    def answer(route: TopicRouteData | None) -> RemotingCommand:
        """Answer with the assignment. Without a route the client keeps what it has."""
        queues = None if route is None else _assigned(_queues(body.topic, route), body, broker)
        mode = broker.request_modes.find(body.topic, body.consumer_group).mode
        found = None if queues is None else [
            MessageQueueAssignment(message_queue=queue, mode=mode) for queue in queues]
        return request.response(ResponseCode.SUCCESS, body=QueryAssignmentResponseBody(
            message_queue_assignments=found).encode())

    broker.route_asks.append(RouteAsk(body.topic, peer.channel, answer))
    return HOLD


def _queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Queues that may be read, in Java's order."""
    with_master = {broker.broker_name for broker in route.broker_datas if 0 in broker.broker_addrs}
    queues = [MessageQueue(topic, each.broker_name, queue_id) for each in route.queue_datas
              if permission.is_readable(each.perm) and each.broker_name in with_master
              for queue_id in range(each.read_queue_nums)]
    return sorted(queues, key=lambda queue: (queue.broker_name.encode("utf-16-be"), queue.queue_id))


def _assigned(queues: list[MessageQueue], body: QueryAssignmentRequestBody,
              broker: BrokerState) -> list[MessageQueue] | None:
    if body.message_model == BROADCASTING:
        return queues
    consumers = broker.clients.consumer_group(body.consumer_group)
    if consumers is None or body.strategy_name not in _STRATEGIES:
        return None
    ids = sorted(set(consumers.client_ids()), key=lambda client_id: client_id.encode("utf-16-be", "surrogatepass"))
    mode = broker.request_modes.find(body.topic, body.consumer_group)
    if mode.mode == POP:
        return _for_pop(queues, ids, body, mode.pop_share_queue_num)
    return _of_member(queues, ids, body.client_id, body.strategy_name)


def _for_pop(queues: list[MessageQueue], ids: list[str], body: QueryAssignmentRequestBody,
             shared: int) -> list[MessageQueue]:
    """For each member one entry per broker, which means any of its queues. If `shared` limits sharing, the queues of
    the member and those of that many members after it."""
    if shared <= 0 or shared >= len(ids) - 1:
        names = dict.fromkeys(queue.broker_name for queue in queues)
        return [MessageQueue(body.topic, name, -1) for name in names]
    if body.client_id not in ids or not queues:
        return []
    index = ids.index(body.client_id)
    if len(ids) > len(queues):
        return [queues[index % len(queues)]]
    found: dict[MessageQueue, None] = {}
    for step in range(shared + 1):
        member = ids[(index + step) % len(ids)]
        found |= dict.fromkeys(_of_member(queues, ids, member, body.strategy_name or ""))
    return list(found)


def _of_member(queues: list[MessageQueue], ids: list[str], member: str, strategy: str) -> list[MessageQueue]:
    if member not in ids:
        return []
    index = ids.index(member)
    if strategy == "AVG_BY_CIRCLE":
        return queues[index::len(ids)]
    size, more = divmod(len(queues), len(ids))
    begin = index * size + min(index, more)
    return queues[begin:begin + size + (index < more)]


def handle_set_message_request_mode(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                    now_ms: int) -> Outcome:
    mode = decode_named(SetMessageRequestModeRequestBody, request)
    if is_retry_topic(mode.topic):
        return refuse(request, ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
    if broker.topics.get(mode.topic) is None:
        return refuse(request, ResponseCode.TOPIC_NOT_EXIST, f"topic[{mode.topic}] not exist")
    if broker.subscription_groups.find(mode.consumer_group, now_ms) is None:
        return refuse(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
    if mode.mode not in (PULL, POP):
        return refuse(request, ResponseCode.INVALID_PARAMETER, f"the mode is {mode.mode[:40]!r}: say {PULL} or {POP}")
    if broker.request_modes.is_full:
        return refuse(request, ResponseCode.SYSTEM_ERROR, "there are too many modes: let groups pull, which needs none")
    broker.request_modes.put(mode)
    return succeed(request)


def handle_get_all_message_request_mode(request: RemotingCommand, peer: Peer, broker: BrokerState,
                                        now_ms: int) -> Outcome:
    return succeed(request, broker.request_modes.wrapper().encode())


