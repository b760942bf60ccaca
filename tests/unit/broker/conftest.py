"""A broker without server or disk, and the requests of a client to it."""

from dataclasses import dataclass, field

import pytest

from regulus.access.accounts import Account, parse_grants
from regulus.access.guard import Guard
from regulus.access.plain_rules import PlainRules
from regulus.access.white_addresses import WhiteAddresses
from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.groups.notices import NOTICE_INTERVAL_MS
from regulus.broker.outcome import Hold, Outcome, Reply
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.peer import Peer
from regulus.model.store_result import Arrival
from regulus.record import message_record
from regulus.testing.memory_store import MemoryStore
from regulus.wire import message_batch
from regulus.wire.bodies import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from regulus.wire.codes import RequestCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    PullMessageRequest,
    QueryConsumerOffsetRequest,
    SendMessageRequest,
    UpdateConsumerOffsetRequest,
)
from regulus.wire.remoting_command import RemotingCommand

START_MS = 1_700_000_000_000
STEADY_START_MS = 5_000_000
LOCAL = host_bytes("10.0.0.1", 10911)


def peer(channel: int = 1, address: str = "10.0.0.5") -> Peer:
    return Peer(channel, host_bytes(address, 40000), LOCAL, f"{address}:40000", "10.0.0.1")


@dataclass
class Rig:
    """`now_ms` is the time of day, and moves only when a test moves it; the steady time moves with it, but when the
    clock is set."""

    broker: BrokerState
    store: MemoryStore
    now_ms: int = START_MS
    peer: Peer = field(default_factory=peer)
    arrivals: list[Arrival] = field(default_factory=list)
    wall_ahead_ms: int = START_MS - STEADY_START_MS

    def set_clock(self, jump_ms: int) -> None:
        """Somebody sets the clock of the machine so much forward, or back."""
        self.now_ms += jump_ms
        self.wall_ahead_ms += jump_ms

    def tell_time(self) -> int:
        """As the server does before each batch of requests and each tick."""
        self.broker.steady_ms = self.now_ms - self.wall_ahead_ms
        return self.now_ms

    def be_guarded(self, **topics: str) -> None:
        """Requests are of users, each of whom may do with topics what is written: `alice="TopicA=PUB,TopicB=SUB"`. Who
        asks is the first one, unless a request says otherwise."""
        accounts = {user: Account(access_key=user, secret_key="secret-of-it", white_addresses=WhiteAddresses(),
                                  topics=parse_grants(grants.split(",") if grants else []))
                    for user, grants in topics.items()}
        rules = PlainRules(WhiteAddresses(), accounts)
        self.broker.guard = Guard(lambda: rules, lambda request, peer: None, lambda request, peer, denied: None)
        self.peer = self.peer.of_user(next(iter(topics), ""))

    def handle(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, oneway: bool = False,
               version: int = 479, peer: Peer | None = None) -> Outcome:
        request = RemotingCommand.request(int(code), ext, body, oneway=oneway, opaque=7)
        request.version = version
        outcome = request_table.handle(request, peer or self.peer, self.broker, self.tell_time())
        self.dispatch()
        return outcome

    def dispatch(self) -> None:
        self.arrivals += self.store.dispatch(1000)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, version: int = 479,
            peer: Peer | None = None) -> RemotingCommand:
        """The answer as a client sees it: written and read again."""
        outcome = self.handle(code, ext, body, version=version, peer=peer)
        if isinstance(outcome, Hold):
            return self.late_answer()
        assert isinstance(outcome, Reply)
        assert outcome.answer.opaque == 7
        return outcome.answer

    def late_answer(self) -> RemotingCommand:
        """Of a request that takes several steps; each tick does one."""
        while True:
            wait_ms = self.broker.tick(self.now_ms)
            answers = [notice.reply.answer for notice in self.broker.notices if notice.reply.answer.is_response]
            if answers:
                self.broker.notices.clear()
                return answers[0]
            assert wait_ms == 0

    def send(self, topic: str = "TopicA", body: bytes = b"hello", *, queue_id: int = 0, version: int = 479,
             peer: Peer | None = None, code: int = RequestCode.SEND_MESSAGE_V2,
             properties: dict[str, str] | None = None, **fields: object) -> RemotingCommand:
        if properties is None:
            properties = {"UNIQ_KEY": "K1"}
        header = SendMessageRequest("PG", topic, queue_id=queue_id, properties=properties, born_timestamp=self.now_ms,
                                    **fields)
        return self.ask(code, header.ext_for(int(code)), body, version=version, peer=peer)

    def send_batch(self, messages: list, topic: str = "TopicA", **fields: object) -> RemotingCommand:
        header = SendMessageRequest("PG", topic, queue_id=0, properties={"WAIT": "true"}, batch=True, **fields)
        return self.ask(RequestCode.SEND_BATCH_MESSAGE, header.ext(), message_batch.encode(messages))

    def heartbeat(self, group: str | None = "CG", *topics: str, expression: str = "*", client_id: str = "c1",
                  channel: int = 1, message_model: str = "CLUSTERING", sub_version: int = 1,
                  producer_group: str | None = None, expression_type: str = "TAG", user: str = "",
                  **fields: object) -> RemotingCommand:
        consumers = []
        if group is not None:
            subscriptions = [SubscriptionData.compile(topic, expression, sub_version, expression_type)
                             for topic in topics]
            consumers.append(ConsumerData(group_name=group, message_model=message_model,
                                          subscription_data_set=subscriptions))
        producers = [ProducerData(group_name=producer_group)] if producer_group else []
        body = HeartbeatData(client_id=client_id, consumer_data_set=consumers, producer_data_set=producers, **fields)
        return self.ask(RequestCode.HEART_BEAT, body=body.encode(), peer=peer(channel).of_user(user))

    def pull_outcome(self, topic: str = "TopicA", queue_id: int = 0, queue_offset: int = 0, *, group: str = "CG",
                     sys_flag: int = 2, channel: int = 1, suspend: int = 15_000, **fields: object) -> Outcome:
        header = PullMessageRequest(group, topic, queue_id, queue_offset, sys_flag=sys_flag,
                                    suspend_timeout_millis=suspend, **fields)
        return self.handle(RequestCode.PULL_MESSAGE, header.ext(), peer=peer(channel))

    def pull(self, topic: str = "TopicA", queue_id: int = 0, queue_offset: int = 0,
             **fields: object) -> RemotingCommand:
        outcome = self.pull_outcome(topic, queue_id, queue_offset, **fields)
        assert isinstance(outcome, Reply)
        return outcome.answer

    def send_back(self, offset: int, *, group: str = "CG", delay_level: int = 0, max_reconsume_times: int | None = None,
                  origin_topic: str = "TopicA", cause: str | None = None, stack: str | None = None) -> RemotingCommand:
        header = ConsumerSendMsgBackRequest(offset=offset, group=group, delay_level=delay_level,
                                            max_reconsume_times=max_reconsume_times, origin_topic=origin_topic,
                                            regulus_cause=cause, regulus_stack=stack)
        return self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header.ext())

    def commit(self, consumer_offset: int, *, group: str = "CG", topic: str = "TopicA", queue_id: int = 0,
               set_backs: int | None = None) -> RemotingCommand:
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=consumer_offset,
            set_backs=set_backs).ext())

    def offset(self, *, group: str = "CG", topic: str = "TopicA", queue_id: int = 0,
               set_zero_if_not_found: bool | None = None) -> RemotingCommand:
        return self.ask(RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequest(
            consumer_group=group, topic=topic, queue_id=queue_id,
            set_zero_if_not_found=set_zero_if_not_found).ext())

    def arrive(self) -> list[RemotingCommand]:
        """Tell the broker what was stored; the answers that this brings to held pulls."""
        arrivals, self.arrivals = self.arrivals, []
        self.broker.message_arrived(arrivals, self.now_ms)
        return self.notices()

    def notices(self) -> list[RemotingCommand]:
        commands = [notice.reply.answer for notice in self.broker.notices]
        self.broker.notices.clear()
        return commands

    def told(self) -> list[int]:
        """Let groups hear what changed: the channels that did. Other notices are dropped."""
        self.run(NOTICE_INTERVAL_MS)
        channels = [notice.channel for notice in self.broker.notices
                    if notice.reply.answer.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
        self.broker.notices.clear()
        return channels

    def run(self, elapsed_ms: int) -> None:
        """Let time pass as the server does: tick whenever the broker asks for it."""
        end_ms = self.now_ms + elapsed_ms
        while True:
            wait_ms = self.broker.tick(self.tell_time())
            self.dispatch()
            if wait_ms is None or self.now_ms + wait_ms > end_ms:
                break
            self.now_ms += max(wait_ms, 0)
        self.now_ms = end_ms

    def stored(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        units = self.store.queue_units(topic, queue_id, 0, 1000)
        return [message_record.decode(self.store.record_bytes(unit.physical_offset)) for unit in units]


def make_rig(**settings: object) -> Rig:
    store = MemoryStore(BrokerConfig(**settings))
    return Rig(BrokerState(BrokerConfig(**settings), store, now_ms=START_MS, steady_ms=STEADY_START_MS, seed=1),
               store)


@pytest.fixture
def rig() -> Rig:
    return make_rig()


@pytest.fixture(name="make_rig")
def make_rig_fixture():
    """Makes brokers with other settings."""
    return make_rig
