"""Measures how costs grow: runs each case at N, 2N and 4N, on a broker or name server in this process, without sockets.

    python bench/growth.py [--seed N] [--scale PERCENT] [CASE...]

`s` is the CPU time of the case, and `longest ms` that of its longest step. A step is one request with the encoding of
its answer, one batch of arrivals, one tick, or the end of one connection; while it runs, no other client is served. A
linear case takes about twice the time in the next column. A case whose longest step does not grow delays no other
client, however large it is. Garbage is collected only between cases, so that it makes no step look long. Run with
PYTHONPATH=build/compiled for the compiled form.
"""

import argparse
import gc
import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.long_answers import LongAnswers
from regulus.broker.outcome import Hold
from regulus.broker.settings_changes import SettingsChanges
from regulus.broker.state import BrokerState
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes
from regulus.model.message_queue import MessageQueue
from regulus.model.peer import Peer
from regulus.model.topics import DataVersion, TopicConfig
from regulus.nameserver import handlers as name_server_table
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.memory_store import MemoryStore
from regulus.wire.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    RegisterBrokerBody,
    SubscriptionData,
    TopicConfigSerializeWrapper,
)
from regulus.wire.codes import RequestCode
from regulus.wire.headers import PullMessageRequest, QueryMessageRequest, RegisterBrokerRequest
from regulus.wire.remoting_command import RemotingCommand

START_MS = 1_700_000_000_000
HOST = host_bytes("10.0.0.1", 10911)
TICK_MS = 100                       # longest time between two ticks of the server


@dataclass
class Steps:
    """Measures one step after the other."""

    seconds: float = 0.0
    longest: float = 0.0
    longest_name: str = ""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.thread_time()
        yield
        took = time.thread_time() - began
        self.seconds += took
        if took > self.longest:
            self.longest, self.longest_name = took, name


@dataclass
class Rig:
    """Drives a broker as its server does. Each request advances the clock by one millisecond."""

    steps: Steps
    broker: BrokerState
    store: Any
    now_ms: int = START_MS
    ticked_ms: int = START_MS
    answers: list[RemotingCommand] = field(default_factory=list)

    def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", channel: int = 1) -> RemotingCommand:
        """Send a request and return its answer, which may come only after many ticks."""
        held = self.start(code, ext, body, channel)
        while not self.answers:
            self.tick(1)
        assert held or len(self.answers) == 1
        return self.answers.pop()

    def start(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", channel: int = 1) -> bool:
        """Send a request; true if the broker holds it."""
        request = RemotingCommand.request(int(code), ext, body, opaque=7)
        self.broker.steady_ms = self.now_ms
        with self.steps.step(f"request {int(code)}"):
            outcome = request_table.handle(request, peer(channel), self.broker, self.now_ms)
            if not isinstance(outcome, Hold):
                outcome.encode_parts()
            self._settle()
        if not isinstance(outcome, Hold):
            self.answers.append(outcome.answer)
        self.now_ms += 1
        self._tick_if_due()
        return isinstance(outcome, Hold)

    def close(self, channel: int) -> None:
        with self.steps.step("a connection's end"):
            self.broker.channel_closed(channel, self.now_ms)
            self._settle()
        self.now_ms += 1
        self._tick_if_due()

    def arrive(self, message: MessageExt) -> None:
        self.store.append(message, self.now_ms)
        with self.steps.step("an arrival"):
            arrivals = self.store.dispatch(1000, self.broker.held_requests.queues)
            self.broker.message_arrived(arrivals, self.now_ms)
            self._settle()

    def tick(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        self.ticked_ms = self.broker.steady_ms = self.now_ms
        with self.steps.step("a tick"):
            self.broker.tick(self.now_ms)
            self._settle()

    def _tick_if_due(self) -> None:
        if self.now_ms - self.ticked_ms >= TICK_MS:
            self.tick(0)

    def _settle(self) -> None:
        while self.broker.notices:
            command = self.broker.notices.popleft().reply.answer
            command.encode_parts()
            if command.flag & 1:
                self.answers.append(command)


def peer(channel: int) -> Peer:
    return Peer(channel, HOST, HOST, f"10.0.0.5:{channel}", "10.0.0.1")


def memory_rig(steps: Steps) -> Rig:
    store = MemoryStore()
    return Rig(steps, BrokerState(BrokerConfig(), store, now_ms=START_MS, steady_ms=START_MS, seed=1), store)


def heartbeat(client_id: str, group: str, topics: list[str], expression: str = "*") -> bytes:
    subscriptions = [SubscriptionData.compile(topic, expression, 1) for topic in topics]
    consumer = ConsumerData(group_name=group, subscription_data_set=subscriptions)
    return HeartbeatData(client_id=client_id, consumer_data_set=[consumer]).encode()


def message(topic: str, queue_id: int, tag: str, keys: str = "") -> MessageExt:
    properties = {"TAGS": tag} | ({"KEYS": keys} if keys else {})
    return MessageExt(topic, b"x" * 16, properties, queue_id, 0, 0, START_MS, HOST, HOST)


# --- groups -----------------------------------------------------------------------------------------------------------


def joined(steps: Steps, members: int) -> Rig:
    rig = memory_rig(steps)
    for channel in range(1, members + 1):
        rig.ask(RequestCode.HEART_BEAT, body=heartbeat(f"c{channel}", "G", ["T"]), channel=channel)
    return rig


def members_join(members: int, steps: Steps) -> None:
    joined(steps, members).tick(TICK_MS)


def members_close(members: int, steps: Steps) -> None:
    rig = joined(Steps(), members)
    rig.steps = steps
    for channel in range(1, members + 1):
        rig.close(channel)
    rig.tick(TICK_MS)


def members_ask_for_the_list(members: int, steps: Steps) -> None:
    """Each member asks once, as all do after the notice of a change."""
    rig = joined(Steps(), members)
    rig.steps = steps
    for channel in range(1, members + 1):
        rig.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "G"}, channel=channel)


def subscriptions_in_a_heartbeat(count: int, steps: Steps) -> None:
    rig = memory_rig(steps)
    rig.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", [f"T{number}" for number in range(count)]))


# --- held pulls -------------------------------------------------------------------------------------------------------


def holding(count: int) -> Rig:
    """A broker that holds `count` pulls for TagA of one queue, each from a connection of its own."""
    rig = memory_rig(Steps())
    rig.broker.topics.put(TopicConfig(topic_name="T"), rig.now_ms)
    rig.ask(RequestCode.HEART_BEAT, body=heartbeat("c1", "G", ["T"], "TagA"))
    ext = PullMessageRequest("G", "T", 0, 0, sys_flag=2, suspend_timeout_millis=300_000).ext()
    for channel in range(1, count + 1):
        assert rig.start(RequestCode.PULL_MESSAGE, ext, channel=channel)
    return rig


def sends_past_held_pulls(count: int, steps: Steps) -> None:
    """1,000 messages arrive that no pull wants."""
    rig = holding(count)
    rig.steps = steps
    for _ in range(1_000):
        rig.arrive(message("T", 0, "TagB"))


def a_send_wakes_held_pulls(count: int, steps: Steps) -> None:
    rig = holding(count)
    rig.steps = steps
    rig.arrive(message("T", 0, "TagA"))
    while len(rig.answers) < count:
        rig.tick(1)


def held_pulls_expire(count: int, steps: Steps) -> None:
    rig = holding(count)
    rig.steps = steps
    rig.tick(301_000)
    while len(rig.answers) < count:
        rig.tick(1)


def holders_close(count: int, steps: Steps) -> None:
    rig = holding(count)
    rig.steps = steps
    for channel in range(1, count + 1):
        rig.close(channel)


# --- large requests ---------------------------------------------------------------------------------------------------


def a_lock_of_queues(count: int, steps: Steps) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    body = LockBatchRequestBody(consumer_group="G", client_id="c1", mq_set=queues).encode()
    memory_rig(steps).ask(RequestCode.LOCK_BATCH_MQ, body=body)


def big_topic(queues: int) -> Rig:
    rig = memory_rig(Steps())
    rig.broker.topics.put(TopicConfig(topic_name="T", read_queue_nums=queues, write_queue_nums=queues), rig.now_ms)
    for queue_id in range(queues):
        rig.store.append(message("T", queue_id, "TagA"), rig.now_ms)
        rig.broker.consumer_offsets.commit("G", "T", queue_id, 1, rig.now_ms)
    rig.store.dispatch(queues)
    return rig


def statistics_of_a_topic(queues: int, steps: Steps) -> None:
    rig = big_topic(queues)
    rig.steps = steps
    assert rig.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"}).code == 0


def progress_of_a_group(queues: int, steps: Steps) -> None:
    rig = big_topic(queues)
    rig.steps = steps
    assert rig.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G", "topic": "T"}).code == 0


def units_of_a_queue_among(queues: int, steps: Steps) -> None:
    rig = big_topic(queues)
    rig.steps = steps
    for _ in range(10):
        rig.ask(RequestCode.QUERY_CONSUME_QUEUE, {"topic": "T", "queueId": "0", "index": "0", "count": "10"})


def a_key_of_messages(count: int, steps: Steps) -> None:
    """Query the oldest messages of a key that all `count` messages have, by their time."""
    root = Path(tempfile.mkdtemp(prefix="regulus-growth-"))
    try:
        store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root)))
        store.open()
        rig = Rig(steps, BrokerState(BrokerConfig(), store, now_ms=START_MS, steady_ms=START_MS, seed=1), store)
        for number in range(count):
            store.append(message("T", 0, "", "same"), START_MS + number)
            if number % 1_000 == 999:
                store.dispatch(1_000)
        query = QueryMessageRequest(topic="T", key="same", max_num=32, begin_timestamp=0, end_timestamp=START_MS + 10)
        rig.ask(RequestCode.QUERY_MESSAGE, query.ext())
        store.close()
    finally:
        shutil.rmtree(root)


# --- work on all topics and groups ------------------------------------------------------------------------------------


def many_topics(count: int) -> Rig:
    """A broker with `count` topics, each with a message and with the offset of a group of its own."""
    rig = memory_rig(Steps())
    names = [f"T{number}" for number in range(count)]
    rig.broker.topics.put_all([TopicConfig(topic_name=name) for name in names], rig.now_ms)
    for number, name in enumerate(names):
        facts = rig.broker.topics.facts[name]
        facts.other_nums, facts.other_size = 1, 100
        rig.broker.consumer_offsets.commit(f"G{number}", name, 0, 1, rig.now_ms)
    return rig


def samples_of_many_topics(count: int, steps: Steps) -> None:
    """The first sample, for which all topics are new, and the next one."""
    rig = many_topics(count)
    rig.steps = steps
    for _ in range(2):
        rig.tick(10_001)
        for _ in range(count // 100):
            rig.tick(1)


def runtime_info_of_many_topics(count: int, steps: Steps) -> None:
    rig = many_topics(count)
    rig.steps = steps
    rig.ask(RequestCode.GET_BROKER_RUNTIME_INFO)


def a_group_of_many_topics_is_deleted(count: int, steps: Steps) -> None:
    rig = many_topics(1)
    for number in range(count):
        rig.broker.consumer_offsets.commit("G", f"T{number}", 0, 1, rig.now_ms)
        rig.broker.statistics.note_get("G", f"T{number}", 1, 1)
    rig.steps = steps
    rig.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "G", "cleanOffset": "true"})


def a_topic_of_many_groups_is_deleted(count: int, steps: Steps) -> None:
    rig = many_topics(1)
    for number in range(count):
        rig.broker.consumer_offsets.commit(f"G{number}", "T0", 0, 1, rig.now_ms)
        rig.broker.statistics.note_get(f"G{number}", "T0", 1, 1)
    rig.steps = steps
    rig.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T0"})


def progress_among_many_topics(count: int, steps: Steps) -> None:
    """The progress of one group in all its topics, and the groups of one topic."""
    rig = many_topics(count)
    rig.steps = steps
    rig.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "G7"})
    rig.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "T7"})


# --- name server ------------------------------------------------------------------------------------------------------


def registered(steps: Steps, brokers: int) -> NameServerState:
    """A name server with `brokers` brokers, each with 50 topics of its own."""
    state = NameServerState(NamesrvConfig())
    for number in range(brokers):
        register(state, steps, number, [f"T{number}-{topic}" for topic in range(50)])
    return state


def registering(number: int, names: list[str]) -> RemotingCommand:
    topics = {name: TopicConfig(topic_name=name) for name in names}
    header = RegisterBrokerRequest(broker_name=f"b{number}", broker_addr=f"10.0.0.1:{number}", cluster_name="C",
                                   ha_server_addr="10.0.0.1:1", broker_id=0)
    wrapper = TopicConfigSerializeWrapper(topic_config_table=topics, data_version=DataVersion(counter=1))
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()
    return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.ext(), body)


def register(state: NameServerState, steps: Steps, number: int, names: list[str]) -> None:
    request = registering(number, names)
    answering = name_server_table.handle_in_steps(request, peer(number + 1), state, START_MS)
    is_done = False
    while not is_done:
        with steps.step("a registration"):
            is_done = next(answering, None) is None and answering.gi_frame is None


def brokers_register(brokers: int, steps: Steps) -> None:
    registered(steps, brokers)


def a_registration_of_topics(topics: int, steps: Steps) -> None:
    """Register all topics in one request, as RocketMQ's brokers do."""
    state = NameServerState(NamesrvConfig())
    register(state, steps, 1, [f"T{topic}" for topic in range(topics)])


def registrations_past_the_room(topics: int, steps: Steps) -> None:
    """Twelve brokers with this many topics register at once, with more bytes than may be under way."""
    state, names = NameServerState(NamesrvConfig()), [f"T{topic}" for topic in range(topics)]
    requests = [registering(number, names) for number in range(12)]
    size = len(requests[0].body)
    long_answers = LongAnswers(deque(), SettingsChanges(), bodies_size_max=4 * size)
    for number, request in enumerate(requests):
        answering = name_server_table.handle_in_steps(request, peer(number + 1), state, START_MS)
        with steps.step("a registration comes"):
            long_answers.begin(request, peer(number + 1), answering, line="routes")
    while len(long_answers):
        with steps.step("a step of a registration"):
            long_answers.tick()


def brokers_are_forgotten(brokers: int, steps: Steps) -> None:
    state = registered(Steps(), brokers)
    order = list(range(1, brokers + 1))
    random.shuffle(order)
    for channel in order:
        with steps.step("a connection's end"):
            state.channel_closed(channel, START_MS)


def other_connections_close(count: int, steps: Steps) -> None:
    """Clients disconnect from a name server with 1,000 brokers."""
    state = registered(Steps(), 1_000)
    for channel in range(10_000, 10_000 + count):
        with steps.step("a connection's end"):
            state.channel_closed(channel, START_MS)


CASES: dict[Callable[[int, Steps], None], int] = {
    members_join: 250,
    members_close: 250,
    members_ask_for_the_list: 250,
    subscriptions_in_a_heartbeat: 500,
    sends_past_held_pulls: 12_500,
    a_send_wakes_held_pulls: 12_500,
    held_pulls_expire: 12_500,
    holders_close: 2_500,
    a_lock_of_queues: 4_000,
    statistics_of_a_topic: 16_384,
    progress_of_a_group: 16_384,
    units_of_a_queue_among: 16_384,
    a_key_of_messages: 100_000,
    samples_of_many_topics: 25_000,
    runtime_info_of_many_topics: 25_000,
    progress_among_many_topics: 25_000,
    a_group_of_many_topics_is_deleted: 25_000,
    a_topic_of_many_groups_is_deleted: 750,
    brokers_register: 250,
    a_registration_of_topics: 25_000,
    registrations_past_the_room: 25_000,
    brokers_are_forgotten: 250,
    other_connections_close: 250,
}
"""The N of each case."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=int, default=100, help="percentage of each N")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(case.__name__ for case in CASES))
    arguments = parser.parse_args()
    gc.disable()
    print(f"{'case':<30}{'N':>9}" + "".join(f"{f'{times} s':>10}{'longest ms':>12}" for times in ("N", "2N", "4N")))
    for case, count in CASES.items():
        if arguments.cases and case.__name__ not in arguments.cases:
            continue
        count = max(1, count * arguments.scale // 100)
        line = f"{case.__name__:<30}{count:>9}"
        for times in (1, 2, 4):
            random.seed(arguments.seed)
            steps = Steps()
            gc.collect()
            case(count * times, steps)
            line += f"{steps.seconds:>10.3f}{steps.longest * 1000:>12.1f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
