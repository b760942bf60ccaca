"""The state of a broker. Handlers read and change it; the server carries out what it asks for.

Messages to clients that did not just ask, including answers to held requests, are in `notices` until the server sends
them. What must be saved is in `kept_parts`. The time of day comes in as `now_ms`, for stamps. Durations use
`steady_ms`, a clock that never jumps, which the server sets whenever it passes the time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from regulus.access.decision import Denied, Need
from regulus.access.guard import Guard
from regulus.access.needs import ending_needs
from regulus.broker.access_documents import AccessDocuments
from regulus.broker.archived_offset import ArchivedOffset
from regulus.broker.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, unserved_in
from regulus.broker.chance import Chance
from regulus.broker.config import BrokerConfig
from regulus.broker.delay_schedule import DelaySchedule
from regulus.broker.filters.consumer_filters import ConsumerFilters
from regulus.broker.groups.clients import Client, Clients, LostMember
from regulus.broker.groups.consumer_offsets import Ahead, ConsumerOffsets
from regulus.broker.groups.notices import GroupNotices
from regulus.broker.groups.queue_locks import QueueLocks
from regulus.broker.groups.request_modes import RequestModes
from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.held_access import HeldAccess
from regulus.broker.held_requests import ANY_QUEUE, HeldRequests
from regulus.broker.homes import Homes
from regulus.broker.kept_parts import KeptPart, When
from regulus.broker.long_answers import LongAnswers
from regulus.broker.message_store import MessageStore
from regulus.broker.outcome import Notice, Reply
from regulus.broker.pop.empty_pops import EmptyPops
from regulus.broker.pop.flights import PopFlights
from regulus.broker.pop.orders import PopOrders
from regulus.broker.pop.places import PopPlaces
from regulus.broker.pop.revival import PopRevival
from regulus.broker.request_latencies import RequestLatencies
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.broker.send_facts import SendFacts
from regulus.broker.settings_changes import SettingsChanges
from regulus.broker.sink_marks import SinkMarks
from regulus.broker.statistics import Statistics
from regulus.broker.storing import Storing
from regulus.broker.timers.timers import Timers
from regulus.broker.topics import REVIVE_QUEUE_NUMS, Topics
from regulus.broker.transactions import Transactions
from regulus.broker.users import Users
from regulus.errors import HeaderError
from regulus.model import permission
from regulus.model.happenings import EventTexts
from regulus.model.message_id import UniqueKeySource, host_bytes
from regulus.model.peer import Peer
from regulus.model.receipt_handle import ORDER_REVIVE_QUEUE_ID, is_popped_retry_topic
from regulus.model.store_result import Arrival
from regulus.model.topics import DataVersion
from regulus.record.pop_record import CheckpointKey
from regulus.wire import encoded_table
from regulus.wire.bodies import HARuntimeInfo, RegisterBrokerBody, TopicRouteData
from regulus.wire.codes import RequestCode
from regulus.wire.remoting_command import RemotingCommand

HELD_ANSWERED_MAX = 128
"""Held requests that run again in one step; each costs as much as a pull."""
HELD_LOOKED_MAX = 1_000_000
"""Bytes of properties, each counted as often as a filter evaluates it, after which a step runs no more held requests.
They take some ms."""

TOPICS_DOCUMENT = "topics"
SUBSCRIPTION_GROUP_DOCUMENT = "subscriptionGroup"
CONSUMER_OFFSET_DOCUMENT = "consumerOffset"
DELAY_OFFSET_DOCUMENT = "delayOffset"
TIMER_COUNTS_DOCUMENT = "timermetrics"
CONSUMER_FILTER_DOCUMENT = "consumerFilter"
ARCHIVE_DOCUMENT = "regulusArchive"
SINK_MARKS_DOCUMENT = "regulusSinkMarks"
POP_PLACES_DOCUMENT = "regulusPops"
POP_ORDERS_DOCUMENT = "consumerOrderInfo"
REQUEST_MODES_DOCUMENT = "messageRequestMode"
TOPIC_EPOCHS_DOCUMENT = "regulusTopicEpochs"
OFFSET_SET_BACKS_DOCUMENT = "regulusOffsetSetBacks"
ACCESS_DOCUMENT = "regulusAccess"

OWN_DOCUMENTS = (OFFSET_SET_BACKS_DOCUMENT, DELAY_OFFSET_DOCUMENT, TOPIC_EPOCHS_DOCUMENT, SINK_MARKS_DOCUMENT,
                 ARCHIVE_DOCUMENT, ACCESS_DOCUMENT, POP_ORDERS_DOCUMENT)
"""Documents that a slave asks of a Regulus master only, after its topics and before all others. The numbers of
set-backs are thus older than the offsets they go with. RocketMQ has the delay offsets, but not what is noted next to
them; its slaves do not ask for orders of pops."""


class RouteAsk(NamedTuple):
    """A question to a name server about a topic's route. `answer` makes the answer for `channel` from the route, or
    None."""

    topic: str
    channel: int
    answer: Callable[[TopicRouteData | None], RemotingCommand]


class BrokerState:
    """`now_ms` and `steady_ms` are the times of the start by either clock. `seed` determines the random choice of
    queues, and ids.

    `is_retention_wanted`, `is_queue_cleaning_wanted`: an operator asked to delete expired files of the log, or parts of
    queues that are no longer needed. The server does it and resets them. `retention_report` is the result.

    `complaints` has a sentence for each fault of the server, such as a slow loop or a failing disk.

    `parted` says how a slave's log differs from its master's; empty when it does not. Such a log is not read: the
    master does not have its last messages, and gives their offsets to others.

    `guard` has the rules by which requests are checked, None when all requests are allowed. `access_documents` are the
    accounts, if the rules come from them.

    `route_asks` are questions for a name server that the server sends.

    `latencies` are counted if the page of metrics is on.

    `ha_status` returns, for a time of day, how far slaves are, or the link to the master; the server sets it.
    """

    def __init__(self, config: BrokerConfig, store: MessageStore, *, now_ms: int = 0, steady_ms: int = 0,
                 seed: int = 0) -> None:
        self.steady_ms = steady_ms
        self.store = store
        self.settings = SettingsChanges()
        self.topics = Topics(config, self.settings, store.keep_batches)
        self.subscription_groups = SubscriptionGroups(config.auto_create_subscription_group, self.settings)
        self.consumer_offsets = ConsumerOffsets(self.settings)
        self.users = Users(config, self.settings)
        self.clients = Clients()
        self.consumer_filters = ConsumerFilters(config, now_ms)
        self.held_requests = HeldRequests()
        self.sink_marks = SinkMarks(store, config.sink_marks_max)
        self.homes = Homes(self.topics, self.subscription_groups)
        self.storing = Storing(SendFacts(config, store, self.topics.facts), self.homes.is_there)
        self.delay_schedule = DelaySchedule(store, config.delay_ladder_ms, self.storing)
        self.timers = Timers(config, store, self.storing)
        self.pop_flights = PopFlights(config, store, self.storing, now_ms)
        self.statistics = Statistics(self.topics, config.broker_cluster_name, now_ms, steady_ms)
        self.pop_revival = PopRevival(store, self.storing, self.timers, self.pop_flights, self.topics,
                                      self.subscription_groups, self.consumer_offsets, self.statistics.ends)
        self.pop_orders = PopOrders()
        self.vain_pops = EmptyPops(self.consumer_offsets, self.pop_orders)
        self.request_modes = RequestModes(self.settings)
        self.route_asks: deque[RouteAsk] = deque()
        self.pop_places = PopPlaces(store, self.pop_flights.revive_topic, self.consumer_offsets,
                                    self.subscription_groups, is_slave=config.is_slave)
        self.queue_locks = QueueLocks()
        self.archived_offset = ArchivedOffset()
        self.notices: deque[Notice] = deque()
        self.group_notices = GroupNotices(self.clients, self.subscription_groups, self.notices)
        self.held_access = HeldAccess(self.held_requests, self.notices)
        self.long_answers = LongAnswers(self.notices, self.settings)
        self.transactions = Transactions(config, store, self.storing, self.consumer_offsets, self.clients, self.notices,
                                         steady_ms, self.may_end)
        self.dead_letters = EventTexts()
        """Messages that became dead letters, for the log."""
        self.chance = Chance(seed)
        self.runtime_facts = RuntimeFacts()
        self.config_version = DataVersion()
        self.is_retention_wanted = False
        self.is_queue_cleaning_wanted = False
        self.retention_report: Mapping[str, str] = {}
        self.complaints: Sequence[str] = ()
        self.parted = ""
        self.ha_status: Callable[[int], HARuntimeInfo] = self._status_alone
        self.access_documents: AccessDocuments | None = None
        self.guard: Guard | None = None
        self.latencies: RequestLatencies | None = None
        self._seed = seed
        self._unique_keys_made = 0
        self._pops = 0
        self.kept_parts = self._kept_parts()
        if config.is_slave:
            self.consumer_offsets.be_copy()
            self.sink_marks.be_copy()
        self.set_config(config)

    def set_config(self, config: BrokerConfig) -> None:
        """Take over settings, at the start or while running, and compute what the send path needs."""
        self.config = config
        self.send_facts = self.storing.facts = SendFacts(config, self.store, self.topics.facts)
        self.subscription_groups.auto_create = config.auto_create_subscription_group
        self.transactions.config = config
        self.timers.config = config
        self.consumer_filters.config = config
        self._unique_keys = UniqueKeySource(self.send_facts.store_host[:-4] or b"\0\0\0\0", self._seed & 0xFFFF,
                                            self._seed >> 16 & 0x7FFFFFFF)

    def log_compared(self, difference: str) -> None:
        """Note how a slave's log differs from that of its master, which may be a new one."""
        self.parted = difference
        self.timers.forget_master()

    def _status_alone(self, now_ms: int) -> HARuntimeInfo:
        """Status until the server sets its own."""
        return HARuntimeInfo(master=not self.config.is_slave,
                             master_commit_log_max_offset=self.store.commit_log_max_offset())

    def make_unique_key(self, now_ms: int) -> str:
        """A key for a message whose client made none."""
        month = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        self._unique_keys_made += 1
        return self._unique_keys.unique_key(now_ms - int(month.timestamp()) * 1000, self._unique_keys_made)

    # --- who may do what ---------------------------------------------------------------------------------------------

    def denial(self, peer: Peer, needs: tuple[Need, ...]) -> Denied | None:
        """The refusal of permissions that a request needs besides those that the door has checked; None if it is
        allowed."""
        return None if self.guard is None else self.guard.denial_of(peer, needs)

    def may_end(self, client: Client, topic: str) -> bool:
        """Whether a client may end transactions of a topic. If ends of transactions need no signature, an unknown
        client may: the operator accepts its unsigned heartbeats."""
        if self.guard is not None and not client.user and not self.guard.rules.looks_at(RequestCode.END_TRANSACTION):
            return True
        return self.guard is None or self.guard.denial(client.user, client.remote_text, ending_needs(topic)) is None

    # --- what goes out -----------------------------------------------------------------------------------------------

    @property
    def registration_changed(self) -> int:
        """Differs from before when topics must be registered again."""
        return self.topics.changes

    def register_body(self, names: Iterable[str], version: DataVersion,
                      gone: list[str] | None = None) -> RegisterBrokerBody:
        """Body that registers these topics. A topic has no more permission than its broker."""
        mask = self.config.broker_permission | permission.INHERIT | permission.PRIORITY
        wrapper = replace(self.topics.wrapper(mask, names), data_version=version)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper, filter_server_list=[],
                                  regulus_gone_topics=gone)

    # --- what comes in -----------------------------------------------------------------------------------------------

    def channel_closed(self, channel: int, now_ms: int) -> None:
        """Forget the clients, held requests and long answers of a closed connection."""
        self.held_requests.drop_channel(channel)
        self.long_answers.drop_channel(channel)
        for member in self.clients.channel_closed(channel):
            self._member_cut_off(member, now_ms)

    def _member_cut_off(self, member: LostMember, now_ms: int) -> None:
        if member.is_gone and self.config.unlock_queues_on_close:
            self.queue_locks.unlock_closed(member.group, member.client_id, member.channel)
        self.member_left(member.group, now_ms)

    def member_left(self, group: str, now_ms: int) -> None:
        """Note that a consumer left the group."""
        self.group_notices.note(group)
        if self.clients.consumer_group(group) is None:
            self.consumer_filters.group_left(group, now_ms)

    def message_arrived(self, arrivals: Sequence[Arrival], now_ms: int) -> None:
        """Answer requests that waited for messages that are visible now."""
        self.held_requests.wake(arrivals)
        self._answer_ready(now_ms)

    def queue_changed(self, topic: str, queue_id: int) -> None:
        """Wake requests that wait in a queue, or in its whole topic, at the next tick. For changes other than an
        arrival: a reset, or a queue that orders of pops have freed."""
        self.held_requests.wake_queue(topic, queue_id)
        self.held_requests.wake_queue(topic, ANY_QUEUE)

    def forget_topic(self, topic: str) -> None:
        """Forget the offsets and orders of a topic that was deleted."""
        for group in self.consumer_offsets.groups_of(topic):
            self.pop_orders.remove(topic, group)
        self.consumer_offsets.remove_topic(topic)

    def forget_group(self, group: str, now_ms: int) -> None:
        """Forget the offsets and orders of a group. Its popped retry messages are skipped, so that a group that is
        created again does not get them."""
        topics = self.consumer_offsets.topics_of(group)
        for topic in topics:
            self.pop_orders.remove(topic, group)
        self.consumer_offsets.remove_group(group, now_ms)
        for topic in [each for each in topics if is_popped_retry_topic(each, group)]:
            config = self.topics.get(topic)
            for queue_id in range(config.read_queue_nums if config is not None else 0):
                self.consumer_offsets.commit(group, topic, queue_id, self.store.known_max_offset(topic, queue_id),
                                             now_ms)

    def give_back(self, key: CheckpointKey, offsets: Iterable[int], revive_queue_id: int, invisible_time: int,
                  now_ms: int) -> bool:
        """Give back messages of a pop that reached no client: others get them soon, without counting a delivery. False
        when one of them cannot be given back. `revive_queue_id` and `invisible_time` are those of the receipt."""
        if revive_queue_id == ORDER_REVIVE_QUEUE_ID:
            told_ms = key.pop_time + invisible_time
            given = [self.pop_orders.give_back(key.topic, key.group, key.queue_id, offset, key.pop_time, told_ms,
                                               now_ms) for offset in offsets]
        else:
            flight = self.pop_flights.find(key)
            given = [flight is not None and self.pop_revival.give_back(flight, offset) for offset in offsets]
        return all(given)

    @property
    def wants_tick(self) -> bool:
        """Whether there is work for a tick that the last one did not see."""
        return (self.held_requests.has_ready or len(self.long_answers) > 0 or self.pop_revival.is_hurried
                or self.clients.is_leaving or (self.guard is not None and self.held_access.is_due(self.guard)))

    def tick(self, now_ms: int) -> int | None:
        """Do timed work. Returns ms until the next call, 0 when more work is due now."""
        steady_ms = self.steady_ms
        is_master = not self.config.is_slave    # A slave gets its master's deliveries and questions with the log.
        wait_ms = self.delay_schedule.tick(now_ms) if is_master else None
        timers_ms = self.timers.tick(now_ms)
        pops_ms = self._tick_pops(now_ms) if is_master else ()
        self.held_requests.wake_expired(steady_ms)
        decide_ms = None if self.guard is None else self.held_access.tick(self.guard)
        self._answer_ready(now_ms)
        lost, clients_ms = self.clients.tick(steady_ms)
        for group in lost:
            self.member_left(group, now_ms)
        for member in self.clients.leave_some():
            self._member_cut_off(member, now_ms)
        waits = (wait_ms, timers_ms, *pops_ms, clients_ms,
                 self.transactions.tick(now_ms, steady_ms) if is_master else None, self.queue_locks.tick(steady_ms),
                 decide_ms, 0 if self.clients.is_leaving else None,
                 self.statistics.tick(now_ms, steady_ms), self.held_requests.wait_ms(steady_ms),
                 self.group_notices.tick(steady_ms), self.long_answers.tick(), self.consumer_filters.tick(now_ms))
        return min([wait for wait in waits if wait is not None])

    def _tick_pops(self, now_ms: int) -> tuple[int | None, ...]:
        host = self.own_host
        self.pop_orders.forget_unused(now_ms)
        for topic, queue_id in self.pop_orders.take_free(now_ms):
            if self.config.enable_notify_after_pop_order_lock_release:
                self.queue_changed(topic, queue_id)
        return (self.pop_orders.wait_ms(now_ms), self.pop_flights.tick(host, now_ms),
                self.pop_revival.tick(host, now_ms, is_v2=self.config.enable_retry_topic_v2))

    @property
    def own_host(self) -> bytes:
        """Address under which the broker stores messages that no client sent."""
        return self.send_facts.store_host or host_bytes("127.0.0.1", self.config.listen_port)

    def next_revive_queue(self) -> int:
        """Queue that notes the next pop; the queues take turns."""
        self._pops += 1
        return self._pops % REVIVE_QUEUE_NUMS

    def _answer_ready(self, now_ms: int) -> None:
        """Answer some held requests that were woken; the next tick continues at once."""
        held_requests = self.held_requests
        held_requests.looked = 0
        self.vain_pops.begin_step()
        for _ in range(HELD_ANSWERED_MAX):
            # One after the other: when an answer fails, the others are still ready.
            for held in held_requests.take_ready(1):
                if self.guard is not None and (refusal := self.held_access.refusal(held, self.guard)) is not None:
                    self.notices.append(Notice(held.channel, Reply(refusal)))
                    continue
                log_end, unsent, code = self.store.commit_log_max_offset(), held.unsent, held.request.code
                answer = held.answer(now_ms)
                if answer is not None:
                    if self.latencies is not None:
                        self.latencies.note(code, answer.code, self.steady_ms - held.since_ms, is_long_polling=True)
                    # A pop is in the log before its messages are sent.
                    has_written = self.store.commit_log_max_offset() > log_end
                    durable_at = self.storing.durable_at() if has_written else 0
                    self.notices.append(Notice(held.channel, Reply(answer, durable_at, is_firm=True, unsent=unsent)))
            if not held_requests.has_ready or held_requests.looked >= HELD_LOOKED_MAX:
                break

    # --- what is saved -----------------------------------------------------------------------------------------------

    def _kept_parts(self) -> tuple[KeptPart, ...]:
        """The parts, in the order in which they are loaded."""
        topics, groups, offsets, marks = self.topics, self.subscription_groups, self.consumer_offsets, self.sink_marks
        filters = self.consumer_filters
        archived, at_once, later = self.archived_offset, When.AT_ONCE, When.LATER
        # A document is not written for an archive that never reported, or for epochs without topics. The first sink
        # marks are saved before any send is answered: a broker without a document of them had no writers.
        return (
            KeptPart(name=TOPICS_DOCUMENT, part=topics, when=at_once, load=topics.load, tables=(topics.encoded,)),
            KeptPart(name=TOPIC_EPOCHS_DOCUMENT, part=topics.epochs, when=at_once, load=topics.epochs.load,
                     tables=(topics.epochs.encoded, topics.epochs.encoded_deleted), saved=topics.epochs.changes),
            KeptPart(name=SUBSCRIPTION_GROUP_DOCUMENT, part=groups, when=at_once, load=groups.load,
                     tables=(groups.encoded,)),
            KeptPart(name=REQUEST_MODES_DOCUMENT, part=self.request_modes, when=at_once,
                     load=self.request_modes.load, saved=0),
            # Before the offsets: an offset that was set back or deleted, and has no number, counts as an older one.
            KeptPart(name=OFFSET_SET_BACKS_DOCUMENT, part=offsets.set_backs, when=later, load=offsets.set_backs.load,
                     tables=(offsets.set_backs.encoded,), saved=offsets.set_backs.changes,
                     urgent=lambda: offsets.set_backs.last_removal),
            KeptPart(name=CONSUMER_OFFSET_DOCUMENT, part=offsets, when=later, load=offsets.load,
                     tables=(offsets.encoded,), urgent=lambda: offsets.last_removal,
                     behind=OFFSET_SET_BACKS_DOCUMENT),
            KeptPart(name=DELAY_OFFSET_DOCUMENT, part=self.delay_schedule, when=later, load=self.delay_schedule.load),
            KeptPart(name=TIMER_COUNTS_DOCUMENT, part=self.timers.counts, when=later, load=self.timers.counts.load,
                     saved=0),
            KeptPart(name=CONSUMER_FILTER_DOCUMENT, part=filters, when=later, load=filters.load,
                     tables=(filters.encoded,), saved=filters.changes),
            # After the offsets: it says from which offset on the log knows pops better than they do.
            KeptPart(name=POP_PLACES_DOCUMENT, part=self.pop_places, when=When.FIRST_AT_ONCE,
                     load=self.pop_places.load, behind=CONSUMER_OFFSET_DOCUMENT,
                     begin_saving=self.pop_places.begin_saving),
            KeptPart(name=POP_ORDERS_DOCUMENT, part=self.pop_orders, when=later, load=self.pop_orders.load,
                     tables=(self.pop_orders.encoded,), saved=0, urgent=lambda: self.pop_orders.last_removal),
            KeptPart(name=ARCHIVE_DOCUMENT, part=archived, when=later, saved=archived.changes,
                     load=lambda text: archived.load(text, self.store.commit_log_max_offset())),
            KeptPart(name=SINK_MARKS_DOCUMENT, part=marks, when=When.FIRST_AT_ONCE, load=marks.load,
                     tables=(marks.encoded,)),
            KeptPart(name=ACCESS_DOCUMENT, part=self.users, when=at_once, load=self.users.load,
                     saved=self.users.changes),
        )

    def documents(self) -> dict[str, str]:
        """All documents by the name of their file, which count as saved."""
        documents = {kept.name: encoded_table.text(kept.part.document()) for kept in self.kept_parts}
        for kept in self.kept_parts:
            kept.begin_saving()()
        return documents

    def load_documents(self, documents: dict[str, str]) -> None:
        """Take over what an earlier broker saved; missing and empty documents are skipped. Raises HeaderError."""
        for kept in self.kept_parts:
            text = documents.get(kept.name)
            if text and text.strip():
                try:
                    kept.load(text)
                except HeaderError as error:
                    raise HeaderError(f"{kept.name}.json: {error}") from error
        self.transactions.load()

    def lower_offsets(self, now_ms: int) -> None:
        """At a start, after documents and log are loaded: lower offsets that are beyond the end of the log."""
        self.consumer_offsets.lower_to(self.store.known_max_offset, now_ms)
        self.pop_orders.lower_to(self.store.known_max_offset)
        self.pop_revival.lower_done(now_ms)
        self.pop_flights.know_from(self.pop_places.pass_popped(now_ms) + 1)

    def follow(self, documents: Mapping[str, str], log_end: int, now_ms: int, *, is_copy: bool) -> list[Ahead]:
        """Take over the documents of this slave's master, by name. One of OWN_DOCUMENTS is missing if the master lacks
        it or it is unchanged. Returns the offsets here that the master must learn. Raises HeaderError.

        `log_end`: where the log here ended when the master was asked. `is_copy`: the log here is known to be a copy of
        the master's. Until then equal offsets may be different messages, and neither side takes over offsets.
        """
        gone = self.topics.follow(documents[TOPICS_DOCUMENT], now_ms)
        gone_groups = self.subscription_groups.follow(documents[SUBSCRIPTION_GROUP_DOCUMENT], now_ms)
        if (epochs := documents.get(TOPIC_EPOCHS_DOCUMENT)) is not None:
            gone += self.topics.epochs.follow(epochs)
        for topic in gone:
            self.forget_topic(topic)
        for group in gone_groups:
            self.forget_group(group, now_ms)
        ahead = self.consumer_offsets.follow(documents[CONSUMER_OFFSET_DOCUMENT],
                                             documents.get(OFFSET_SET_BACKS_DOCUMENT), now_ms) if is_copy else []
        if is_copy:
            self.delay_schedule.follow(documents[DELAY_OFFSET_DOCUMENT])
            self.pop_places.follow(log_end)
            if (orders := documents.get(POP_ORDERS_DOCUMENT)) is not None:
                self.pop_orders.follow(orders)
        if (archive := documents.get(ARCHIVE_DOCUMENT)) is not None:
            self.archived_offset.follow(archive, self.store.commit_log_max_offset())
        if (modes := documents.get(REQUEST_MODES_DOCUMENT)) is not None:
            self.request_modes.follow(modes)
        if (users := documents.get(ACCESS_DOCUMENT)) is not None:
            self.users.follow(users)
        self.sink_marks.follow(documents.get(SINK_MARKS_DOCUMENT), is_marked=OFFSET_SET_BACKS_DOCUMENT in documents)
        return ahead

    def unserved_attributes(self) -> list[str]:
        """A sentence for each attribute of another broker's topics and groups that this broker does not implement."""
        return [f"topic {config.topic_name}: {fault}" for config in self.topics.table.values()
                for fault in unserved_in(TOPIC_ATTRIBUTES, config.attributes)] + [
                f"group {config.group_name}: {fault}" for config in self.subscription_groups.table.values()
                for fault in unserved_in(GROUP_ATTRIBUTES, config.attributes)]

    def settings_saved(self, count: int) -> None:
        """Note that topics and groups are on disk as they were after this many changes."""
        self.settings.saved = count
        self.topics.settings_saved()
        self.subscription_groups.settings_saved()
        self.users.settings_saved()
