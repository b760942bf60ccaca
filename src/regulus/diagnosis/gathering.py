"""Gathers the facts of a diagnosis. All limits are named, and what is left out for a limit is counted."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches

from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.client.connecting.client_instance import now_ms
from regulus.client.connecting.name_servers import parse_addresses
from regulus.client.core.routes import MASTER_ID, Route, route_of
from regulus.diagnosis.asking import MEMBER_ANSWERS_WITHIN_S, Questions, all_of
from regulus.diagnosis.facts import (
    BrokerFacts,
    Facts,
    GroupFacts,
    MemberFacts,
    MessageFacts,
    NameServerFacts,
    Question,
    QueueFacts,
    TopicFacts,
)
from regulus.diagnosis.message_search import find_message, topic_of
from regulus.errors import ClientError, HeaderError, NoRoute
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import is_internal
from regulus.wire.bodies import ConsumerConnection
from regulus.wire.codes import ResponseCode

NAME_SERVERS_MAX = 8
BROKERS_MAX = 32
"""Brokers that are asked, slaves included, in the order of their names."""
TOPICS_MAX = 8
"""Topics of a group that are looked at when the question names none."""
GROUPS_MAX = 8
"""Groups of a topic that are looked at when the question names none."""
QUEUES_MAX = 64
"""Queues of a topic for which the group's offset is asked; that of the message comes first."""
MEMBERS_MAX = 32
"""Members that are asked for a report."""
NEAR_NAMES_MAX = 3

_TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The brokers, and the members that are connected to each."""

    brokers: tuple[BrokerFacts, ...]
    connections: tuple[tuple[BrokerFacts, ConsumerConnection | None], ...]


async def gather(name_server: str, config: ClientConfig, question: Question) -> list[Facts]:
    """The facts for each group and topic that the question is about. Raises ClientError when no name server answers,
    or when nothing says which topics or groups they are."""
    async with Admin(name_server, config) as admin:
        gatherer = Gatherer(admin, name_server, config)
        return await gatherer.facts(question)


class Gatherer:
    """Asks the servers through an admin client."""

    def __init__(self, admin: Admin, name_server: str, config: ClientConfig) -> None:
        self._admin = admin
        self._name_server = name_server
        self._config = config
        self._questions = Questions()

    async def facts(self, question: Question) -> list[Facts]:
        places = await self._places()
        topic = question.topic or await topic_of(self._admin, self._questions, question)
        groups = [question.group] if question.group else await self._groups_of(topic)
        every: list[Facts] = []
        for group in groups:
            cluster = await self._cluster(places, group)
            group_facts = await self._group(cluster, group)
            topics = [topic] if topic else await self._topics_of(group_facts, question)
            message: MessageFacts | None = None
            if question.message_text:
                message = await find_message(self._admin, self._questions, question, group, topics, cluster.brokers)
                if message.queue is not None:
                    topics = [message.queue.topic]
            for name in topics:
                topic_facts = await self._topic(name, group, cluster, message)
                every.append(Facts(now_ms=now_ms(), brokers=_of_topic_first(cluster.brokers, topic_facts),
                                   group=group_facts, topic=topic_facts, message=message))
        return [replace(each, unknown=tuple(dict.fromkeys(self._questions.unknown))) for each in every]

    # --- which group and topic ---------------------------------------------------------------------------------------

    async def _groups_of(self, topic: str) -> list[str]:
        if not topic:
            raise ClientError("name the group, or the topic of the message", ResponseCode.QUERY_NOT_FOUND)
        try:
            found = await self._questions.answer(self._admin.groups_of_topic(topic))
        except NoRoute:
            found = []
        if not found:
            raise ClientError(f"no group subscribes to topic {topic!r} or has an offset in it; name the group",
                              ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        return self._questions.within(found, GROUPS_MAX, f"groups of topic {topic}")

    async def _topics_of(self, group: GroupFacts, question: Question) -> list[str]:
        """Topics that members subscribe to, or in which the group has an offset."""
        found = {each.topic for member in group.members if member.info for each in member.info.subscription_set}
        found.update(group.subscriptions)
        stats = await self._questions.ask(f"in which topics group {group.name} has offsets",
                                          self._admin.consume_stats(group.name))
        found.update(queue.topic for queue in (stats.offset_table if stats else ()))
        topics = sorted(each for each in found if not is_internal(each))
        return self._questions.within(topics, TOPICS_MAX, f"topics of group {group.name}") or [""]

    # --- servers -----------------------------------------------------------------------------------------------------

    async def _places(self) -> list[tuple[str, int, str]]:
        """Name, id and address of each broker. Raises ClientError when no name server answers."""
        cluster = await self._questions.answer(self._admin.cluster_info())
        places = [(name, number, address) for name, data in sorted(cluster.broker_addr_table.items())
                  for number, address in sorted(data.broker_addrs.items())]
        return self._questions.within(places, BROKERS_MAX, "brokers")

    async def _cluster(self, places: Sequence[tuple[str, int, str]], group: str) -> _Cluster:
        brokers = tuple(await all_of(self._broker(*place, group) for place in places))
        asked = [each for each in brokers if not each.failure and _answers_for_members(each, brokers)]
        connections = await all_of(
            self._questions.ask(f"which members of {group} are connected to {each.text}",
                                self._connection(group, each)) for each in asked)
        return _Cluster(brokers, tuple((each, found) for each, found in zip(asked, connections, strict=True)))

    async def _connection(self, group: str, broker: BrokerFacts) -> ConsumerConnection:
        found = await self._admin.consumer_connection(group, broker_address=broker.address)
        return ConsumerConnection() if found is None else found

    async def _broker(self, name: str, number: int, address: str, group: str) -> BrokerFacts:
        broker = BrokerFacts(name=name, broker_id=number, address=address)
        try:
            state = await self._questions.answer(self._admin.broker_runtime_info(address))
        except ClientError as error:
            self._questions.note(f"the state of {broker.text}", error)
            if self._questions.unknown[-1].is_denied:
                return broker
            return replace(broker, failure=str(error))
        settings = await self._questions.ask(f"the settings of {broker.text}", self._admin.broker_config(address))
        broker = replace(broker, state=state, settings=settings or {})
        # All groups, because a broker creates a group that is asked for alone.
        configs = await self._questions.ask(f"the groups of {broker.text}", self._admin.group_configs(address))
        return broker if configs is None else replace(broker, group=configs.get(group), knows_groups=True)

    # --- the group ---------------------------------------------------------------------------------------------------

    async def _group(self, cluster: _Cluster, group: str) -> GroupFacts:
        said = [each for each in cluster.brokers if each.knows_groups]
        is_known = any(each.group is not None for each in said) if said else None
        near: tuple[str, ...] = ()
        if is_known is False:
            names = await self._questions.ask("the names of all groups", self._admin.list_groups())
            near = _near(group, names or ())
        answers = [(broker, found) for broker, found in cluster.connections if found is not None]
        members = _members(answers)
        asked = self._questions.within(list(members.values()), MEMBERS_MAX, f"members of group {group}")
        reports = await all_of(self._member(group, each) for each in asked)
        first = next((found for _, found in answers if found.connection_set), ConsumerConnection())
        return GroupFacts(
            name=group, is_known=is_known, near_names=near, are_members_known=bool(answers), members=tuple(reports),
            members_left_out=len(members) - len(asked), consume_type=first.consume_type or "",
            subscriptions=first.subscription_table, is_broadcast=first.message_model == "BROADCASTING")

    async def _member(self, group: str, member: MemberFacts) -> MemberFacts:
        try:
            info = await self._questions.answer(self._admin.consumer_running_info(group, member.client_id),
                                                MEMBER_ANSWERS_WITHIN_S)
        except (ClientError, HeaderError) as error:
            self._questions.note(f"the report of member {member.client_id}", error)
            return member
        return replace(member, info=info)

    # --- the topic ---------------------------------------------------------------------------------------------------

    async def _topic(self, name: str, group: str, cluster: _Cluster, message: MessageFacts | None) -> TopicFacts:
        if not name:
            return TopicFacts(name="")
        addresses = self._questions.within(parse_addresses(self._name_server), NAME_SERVERS_MAX, "name servers")
        views = tuple(await all_of(self._view(address, name) for address in addresses))
        data = next((each.route for each in views if each.route is not None), None)
        topic = TopicFacts(name=name, name_servers=views, route=data)
        if data is None:
            names = await self._questions.ask("the names of all topics", self._admin.list_topics())
            return replace(topic, near_names=_near(name, names or ()))
        try:
            route = route_of(name, data)
        except HeaderError as error:
            self._questions.note(f"the queues of {name}", error)
            return topic
        silent = {each.address for each in cluster.brokers if each.failure}
        queues = await self._queues(route, silent, group, message)
        put = await all_of(self._put_tps(address, name) for address in route.masters() if address not in silent)
        counted = [each for each in put if each is not None]
        stats = await self._questions.ask(f"how fast {group} consumes", self._admin.consume_stats(group, name))
        return replace(topic, queues=queues,
                       put_tps=sum(counted) if counted else None, consume_tps=stats.consume_tps if stats else None)

    async def _view(self, address: str, topic: str) -> NameServerFacts:
        """What this name server alone says about the topic."""
        async with AsyncExitStack() as closing:
            try:
                alone = await closing.enter_async_context(Admin(address, self._config))
                route = await self._questions.answer(alone.topic_route(topic))
            except NoRoute:
                return NameServerFacts(address=address)
            except (ClientError, HeaderError) as error:
                self._questions.note(f"the route of {topic} at name server {address}", error)
                return NameServerFacts(address=address, failure=str(error))
            return NameServerFacts(address=address, route=route)

    async def _queues(self, route: Route, silent: Collection[str], group: str,
                      message: MessageFacts | None) -> tuple[QueueFacts, ...]:
        """Readable queues, and that of the message, of brokers that are not `silent`."""
        ends = {}
        waiting = {}
        for address in [each for each in route.readable_addresses() if each not in silent]:
            found = await self._questions.ask(f"the queues of {route.topic} at {address}",
                                              self._admin.topic_stats(route.topic, broker_address=address))
            ends.update(found or {})
        spans = await self._questions.ask(f"how long messages wait for {group}",
                                          self._admin.consume_time_span(route.topic, group))
        for span in spans or ():
            waiting[span.message_queue] = span.delay_time
        wanted = [message.queue] if message is not None and message.queue in ends else []
        wanted += [queue for queue in sorted(ends) if queue in set(route.subscribe_queues) and queue not in wanted]
        wanted = self._questions.within(wanted, QUEUES_MAX, f"queues of topic {route.topic}")
        offsets = await all_of(self._offset(group, queue) for queue in wanted)
        return tuple(QueueFacts(queue=queue, min_offset=ends[queue].min_offset, max_offset=ends[queue].max_offset,
                                consumer_offset=offset, is_offset_known=is_known, waiting_ms=waiting.get(queue, 0))
                     for queue, (offset, is_known) in zip(wanted, offsets, strict=True))

    async def _offset(self, group: str, queue: MessageQueue) -> tuple[int | None, bool]:
        try:
            return await self._questions.answer(self._admin.group_offset(group, queue)), True
        except (ClientError, HeaderError) as error:
            self._questions.note(f"the offset of {group} in {queue.broker_name}/{queue.queue_id} of {queue.topic}",
                                 error)
            return None, False

    async def _put_tps(self, address: str, topic: str) -> float | None:
        """Messages a second in the last minute; None when the broker does not count them, which needs no note."""
        try:
            stats = await self._questions.answer(self._admin.broker_stats(address, _TOPIC_PUT_NUMS, topic))
        except (ClientError, HeaderError):
            return None
        return stats.stats_minute.tps


def _answers_for_members(broker: BrokerFacts, brokers: Iterable[BrokerFacts]) -> bool:
    """Members connect to masters, and to the slaves whose master is away."""
    return broker.broker_id == MASTER_ID or not any(
        each.name == broker.name and each.broker_id == MASTER_ID and not each.failure for each in brokers)


def _members(answers: Iterable[tuple[BrokerFacts, ConsumerConnection]]) -> dict[str, MemberFacts]:
    members: dict[str, MemberFacts] = {}
    for broker, found in answers:
        for each in found.connection_set:
            known = members.get(each.client_id)
            brokers = (*(known.brokers if known else ()), broker.name)
            members[each.client_id] = MemberFacts(
                client_id=each.client_id, address=each.client_addr or "", language=each.language or "",
                brokers=brokers)
    return members


def _near(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that are likely meant, also when only the case differs."""
    by_lower = {each.lower(): each for each in names if not is_internal(each)}
    return tuple(by_lower[each] for each in get_close_matches(name.lower(), by_lower, NEAR_NAMES_MAX))


def _of_topic_first(brokers: tuple[BrokerFacts, ...], topic: TopicFacts) -> tuple[BrokerFacts, ...]:
    """The brokers, with those of the route that no name server lists any more."""
    names = {each.broker_name for each in topic.route.broker_datas} if topic.route else set()
    return tuple(sorted(brokers, key=lambda each: (each.name not in names, each.name, each.broker_id)))

