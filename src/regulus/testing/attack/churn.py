"""Repeated laps of topics, groups and clients that come and go: afterwards nothing of them is left.

Each lap makes topics and groups of new names, sends, pulls, pops without an acknowledgement, sends back, commits, and
disconnects most of its clients during requests; then it deletes all that it made, some of it before its retries are
due, and asks the broker to delete the files of its log that are full. The state of the broker and its name server is
measured between laps: descriptors and maps besides the files of the store, threads, folders of queues, routes,
documents and memory. None of these may grow, except memory by what the broker remembers of deleted things, up to a
limit each (`REMEMBERED`).
"""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from regulus.broker.groups.offset_set_backs import REMOVED_MAX
from regulus.broker.topic_epochs import DELETED_MAX
from regulus.model.topics import retry_topic
from regulus.record import queue_table
from regulus.store.consume_queues import BIRTHS_MAX
from regulus.testing.attack.field import PULL_SUBSCRIPTION, Field, Talk, memory_bytes
from regulus.testing.running_server import ServerProcess
from regulus.wire import fastjson
from regulus.wire.bodies import TopicList
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    ConsumerSendMsgBackRequest,
    PopMessageRequest,
    PullMessageRequest,
    UpdateAndCreateTopicRequest,
)

TOPICS = 6
QUEUES = 2
"""The number of queues of each topic."""
GROUPS = 6
CLIENTS = 12
MESSAGES = 40
WARM_UP_LAPS = 2
LAPS_MIN = 4
"""The minimum number of laps after the warm-up, however short the time is."""
DUE_MS = 1_000
"""ms after which returned messages are delivered again: when their group is deleted, or just before."""
POPPED_DUE_MS = 200
"""ms after which popped messages are put into the retry topic of their group and topic: in some laps, before that is
deleted."""
SETTLED_S = 3.0
SUSPEND = 2
LOG_FILE_SIZE = 1 << 20
"""Bytes of a file of the log: some laps fill one, and then it is deleted."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Deleted things that a broker remembers: `a_lap` more with each lap, `count_max` at most. `size` is the memory of
    one in bytes, with what is kept encoded of it."""

    a_lap: int
    count_max: int
    size: int

    def memory(self, laps: int) -> int:
        return min(laps * self.a_lap, self.count_max) * self.size



REMEMBERED = {
    "deleted topics": Remembered(TOPICS + GROUPS + CLIENTS, DELETED_MAX, 480),
    "deleted groups": Remembered(GROUPS, REMOVED_MAX, 240),
}
"""What is remembered however long ago it was deleted."""
REMEMBERED_QUEUE_SIZE = 320
"""Bytes for each queue that was deleted while the log has records from before.

A broker remembers up to `consume_queues.BIRTHS_MAX` of them; its table of queues on disk says how many there are."""
ALLOCATOR_GROWTH_MAX = 12 << 20
"""Bytes that the allocator keeps and does not use: free memory is in pieces, and each thread has its own arena."""
DOCUMENT_GROWTH_MAX = 512
"""Bytes for versions, times and counters, which may get more digits."""
BOUNDED = ("deletedTopics", "removedGroups")
"""Members of documents: names of deleted topics and groups are kept up to a number, `topic_epochs.DELETED_MAX` and
`offset_set_backs.REMOVED_MAX`."""


@dataclass(frozen=True, slots=True)
class Held:
    """The resources of a broker besides stored messages."""

    descriptors: int
    maps: int
    threads: int
    queue_folders: int
    routes: int
    document_bytes: int
    memory: int
    remembered_queues: int
    """Deleted queues in the table of queues on disk."""


GROWTH_MAX = Held(descriptors=4, maps=40, threads=1, queue_folders=0, routes=0, document_bytes=DOCUMENT_GROWTH_MAX,
                  memory=ALLOCATOR_GROWTH_MAX, remembered_queues=BIRTHS_MAX)
"""The allowed growth, of memory besides what is remembered. Maps include the allocator's arenas."""


async def churn(field: Field) -> None:
    server = field.server(messageDelayLevel="1s 2s 3s 4s 5s", flushConsumerOffsetInterval=200,
                          mappedFileSizeCommitLog=LOG_FILE_SIZE, fileReservedTime=0)
    server.start()
    laps = 0
    before: Held | None = None
    while laps < WARM_UP_LAPS + LAPS_MIN or not field.is_over:
        await _lap(field, server, laps)
        laps += 1
        if laps == WARM_UP_LAPS:
            before = await _settled(server)
    assert before is not None
    after = await _settled(server)
    allowed = growth_max(laps - WARM_UP_LAPS, before, after)
    field.note = (f"{laps} laps: {after.descriptors} descriptors, {after.maps} maps, {after.routes} routes, "
                  f"{after.memory >> 10} KiB (+{after.memory - before.memory >> 10}, allowed {allowed.memory >> 10})")
    for text in grown(before, after, allowed):
        field.find(f"{text} in {laps - WARM_UP_LAPS} laps of {TOPICS} topics and {GROUPS} groups that are gone")


def growth_max(laps: int, before: Held, after: Held) -> Held:
    """The allowed growth over this many laps, from the limits of what is remembered."""
    queues = max(0, after.remembered_queues - before.remembered_queues)
    remembered = sum(each.memory(laps) for each in REMEMBERED.values())
    return replace(GROWTH_MAX, memory=GROWTH_MAX.memory + remembered + queues * REMEMBERED_QUEUE_SIZE)


def grown(before: Held, after: Held, allowed: Held) -> list[str]:
    """What grew by more than is allowed, a sentence each."""
    return [f"{member.name} grew from {was} to {now}, by more than {most}"
            for member, was, now, most in zip(fields(Held), astuple(before), astuple(after), astuple(allowed),
                                              strict=True) if now > was + most]


async def _lap(field: Field, server: ServerProcess, number: int) -> None:
    topics = [f"churn-{field.seed}-{number}-{each}" for each in range(TOPICS)]
    groups = [f"churners-{field.seed}-{number}-{each}" for each in range(GROUPS)]
    async with Talk(server.port) as operator:
        for topic in topics:
            header = UpdateAndCreateTopicRequest(topic=topic, default_topic="TBW102", read_queue_nums=QUEUES,
                                                 write_queue_nums=QUEUES, perm=6)
            await operator.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.ext())
        await asyncio.gather(*[_client(field, server, topics, groups) for _ in range(CLIENTS)])
        if field.chance.random() < 0.5:
            await asyncio.sleep(DUE_MS / 1000)      # due messages are delivered, their copies wait
        for group in groups:
            await operator.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": group, "removeOffset": "true"})
            await operator.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": retry_topic(group)})
        for topic in topics:
            await operator.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        await operator.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)
    async with Talk(server.name_server_port) as operator:
        for topic in (*topics, *map(retry_topic, groups)):
            await operator.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})


async def _client(field: Field, server: ServerProcess, topics: list[str], groups: list[str]) -> None:
    """Send requests of every kind, and disconnect during some of them."""
    chance = field.chance
    topic, group = chance.choice(topics), chance.choice(groups)
    async with AsyncExitStack() as stack:
        talk = await stack.enter_async_context(Talk(server.port))
        await talk.join(group, topic)
        sent = [await talk.sent(topic, bytes(chance.randrange(1, 2_000)), chance.randrange(QUEUES), KEYS=f"k{index}")
                for index in range(MESSAGES // CLIENTS + 1)]
        for message in sent:
            if message is not None and chance.random() < 0.5:
                back = ConsumerSendMsgBackRequest(offset=int(message.message_id[-16:], 16), group=group, delay_level=1,
                                                  origin_topic=topic)
                await talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back.ext())
        pop = PopMessageRequest(consumer_group=group, topic=topic, queue_id=-1, max_msg_nums=8,
                                invisible_time=POPPED_DUE_MS, poll_time=0, born_time=0, init_mode=0)
        await talk.ask(RequestCode.POP_MESSAGE, pop.ext())
        await talk.commit(group, topic, 0, 1)
        for queue_id in range(QUEUES):
            pull = PullMessageRequest(group, topic, queue_id, 1_000_000, sys_flag=SUSPEND | PULL_SUBSCRIPTION,
                                      subscription="*", suspend_timeout_millis=60_000)
            talk.tell(RequestCode.PULL_MESSAGE, pull.ext())


async def _settled(server: ServerProcess) -> Held:
    """The resources when all due messages have been delivered, and documents are saved."""
    await asyncio.sleep(SETTLED_S)
    async with Talk(server.port) as talk:
        answer = await talk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        assert answer.code == ResponseCode.SUCCESS
    async with Talk(server.name_server_port) as talk:
        answer = await talk.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        routes = len(TopicList.decode(answer.body).topic_list)
    return _held(server.pid, server.store_path, routes)


def _held(pid: int, store: Path, routes: int) -> Held:
    process = Path(f"/proc/{pid}")
    def is_stored(name: str) -> bool:
        """Whether it is a file of the store, and was not deleted while still in use."""
        return str(store) in name and not name.endswith("(deleted)")

    open_files = [_target(each) for each in (process / "fd").iterdir()]
    return Held(
        descriptors=sum(not is_stored(each) for each in open_files),
        maps=sum(not is_stored(each) for each in (process / "maps").read_text().splitlines()),
        threads=len(list((process / "task").iterdir())),
        queue_folders=sum(len(list(topic.iterdir())) for topic in (store / "consumequeue").iterdir()),
        routes=routes,
        document_bytes=sum(_size(each) for each in (store / "config").glob("*.json")),
        memory=memory_bytes(pid),
        remembered_queues=len(queue_table.decode((store / queue_table.FILE_NAME).read_bytes()).births))


def _size(document: Path) -> int:
    """The size of the parts that may not grow."""
    members = fastjson.loads(document.read_text(encoding="utf-8"))
    assert isinstance(members, dict)
    return len(json.dumps({name: value for name, value in members.items() if name not in BOUNDED}))


def _target(descriptor: Path) -> str:
    """The target of a descriptor; empty when it was closed meanwhile."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""
