"""Repeated laps of topics, groups and clients that come and go: afterwards nothing of them is left.

Each lap makes topics and groups of new names, sends, pulls, pops without an acknowledgement, sends back, commits, and
disconnects most of its clients during requests; then it deletes all that it made, some of it before its retries are
due. The state of the broker is measured between laps: descriptors and maps besides the files of its store, threads,
folders of queues, documents and memory. None of these may grow.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path

from regulus.model.topics import retry_topic
from regulus.store.consume_queues import BIRTHS_MAX
from regulus.testing.attack.field import PULL_SUBSCRIPTION, Field, Talk, memory_bytes
from regulus.testing.running_server import ServerProcess
from regulus.wire import fastjson
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
"""ms after which popped and returned messages would be delivered again: when their group is deleted, or just before."""
SETTLED_S = 3.0
SUSPEND = 2

MEMORY_GROWTH_MAX = 12 << 20
"""Bytes for the allocator itself, and for caches up to their limits."""
DELETED_QUEUE_MEMORY = 512
"""Bytes for each queue that was deleted while the log has its records.

A broker remembers the end of the log at the deletion, for up to `consume_queues.BIRTHS_MAX` queues, and writes them all
into its table of queues.
"""
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
    document_bytes: int
    memory: int


GROWTH_MAX = Held(descriptors=4, maps=40, threads=1, queue_folders=0, document_bytes=DOCUMENT_GROWTH_MAX,
                  memory=MEMORY_GROWTH_MAX)
"""The allowed growth. Maps include the allocator's arenas."""


async def churn(field: Field) -> None:
    server = field.server(messageDelayLevel="1s 2s 3s 4s 5s", flushConsumerOffsetInterval=200)
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
    field.note = f"{laps} laps: {after.descriptors} descriptors, {after.maps} maps, {after.memory >> 20} MiB"
    deleted_queues = min((laps - WARM_UP_LAPS) * (TOPICS * QUEUES + GROUPS), BIRTHS_MAX)
    allowed = replace(GROWTH_MAX, memory=GROWTH_MAX.memory + deleted_queues * DELETED_QUEUE_MEMORY)
    for member, was, now, growth_max in zip(fields(Held), astuple(before), astuple(after), astuple(allowed),
                                            strict=True):
        if now > was + growth_max:
            field.find(f"{member.name} grew from {was} to {now} in {laps - WARM_UP_LAPS} laps of {TOPICS} topics and "
                       f"{GROUPS} groups that are gone; {growth_max} more are allowed")


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
        pop = PopMessageRequest(consumer_group=group, topic=topic, queue_id=-1, max_msg_nums=8, invisible_time=DUE_MS,
                                poll_time=0, born_time=0, init_mode=0)
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
    return _held(server.pid, server.store_path)


def _held(pid: int, store: Path) -> Held:
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
        document_bytes=sum(_size(each) for each in (store / "config").glob("*.json")),
        memory=memory_bytes(pid))


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
