"""Bytes of a stopped or killed store are flipped, zeroed or removed: the next start must report or repair it.

Silence is not allowed: a broker that starts, logs no warning, and then serves fewer or different messages than before,
or assigns a queue offset twice.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regulus.errors import RecordError, RegulusError
from regulus.testing.attack.field import Field, Sent, Talk
from regulus.testing.running_server import ServerProcess
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import QueryConsumerOffsetRequest, QueryMessageRequest

TOPIC = "Damaged"
GROUP = "readers"
QUEUES = 3
MESSAGES = 240
COMMITTED = 7
KEYS_ASKED = 12
DAMAGED_MAX = 400
"""The maximum number of bytes that one attack damages."""
FLUSHED_WITHIN_S = 0.7
DEEP_CHECK_S = 30.0
"""How long the background work of a start may take before its log is read."""
LOOK_AGAIN_S = 0.02
DEEP_CHECK_DONE = "the deep check is done"
TOLD = (" WARNING ", " ERROR ")


@dataclass(frozen=True, slots=True)
class Original:
    """A store before the damage, and what it must serve."""

    path: Path
    sent: list[Sent]


async def make_original(field: Field, *, is_killed: bool) -> Original:
    server = field.server(field.home / "original" / "store", flushIntervalConsumeQueue=100,
                          flushConsumeQueueThoroughInterval=200, flushConsumerOffsetInterval=100)
    server.start()
    sent: list[Sent] = []
    async with Talk(server.port) as talk:
        sends = [talk.sent(TOPIC, f"{number:06d}".encode().ljust(field.chance.choice((6, 300, 1_200)), b"x"),
                           number % QUEUES, KEYS=f"k{number}", UNIQ_KEY=f"U{number:06d}") for number in range(MESSAGES)]
        for one in await asyncio.gather(*sends):
            assert one is not None, "a fresh broker takes messages"
            sent.append(one)
        await talk.join(GROUP, TOPIC)
        assert await talk.commit(GROUP, TOPIC, 0, COMMITTED), "a group that joined may commit"
        await asyncio.sleep(FLUSHED_WITHIN_S)
    if is_killed:
        server.kill()
    else:
        server.stop()
    return Original(server.store_path, sent)


# --- the damage
# --------------------------------------------------------------------------------------------------------


def strike(field: Field, store: Path, files: list[Path]) -> str:
    """Damage one of the files somewhere in its used part; returns a description."""
    chance = field.chance
    path = chance.choice(sorted(files))
    data = bytearray(path.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))
    where = path.relative_to(store)
    deed = chance.choice(("flip", "zero", "noise", "remove"))
    if deed == "remove" or not used:
        path.unlink()
        return f"{where} removed"
    start = chance.randrange(used)
    end = min(used, start + chance.choice((1, 20, DAMAGED_MAX)))
    if deed == "flip":
        data[start] ^= 1 << chance.randrange(8)
        end = start + 1
    else:
        data[start:end] = bytes(end - start) if deed == "zero" else chance.randbytes(end - start)
    path.write_bytes(data)
    return f"{where}: {deed} of bytes {start} to {end}"


def _files(directory: str, pattern: str = "**/*") -> Callable[[Path], list[Path]]:
    return lambda store: [path for path in (store / directory).glob(pattern) if path.is_file()]


# --- the checks ----------------------------------------------------------------------------------------------------


async def _round(field: Field, files_of: Callable[[Path], list[Path]]) -> None:
    is_killed = field.chance.random() < 0.5
    original = await make_original(field, is_killed=is_killed)
    blows = 0
    while not field.is_over or not blows:
        blows += 1
        store = field.home / f"blow-{blows}" / "store"
        shutil.copytree(original.path, store)
        deed = strike(field, store, files_of(store))
        server = field.server(store)
        try:
            silent = await _silence(server, original)
        finally:
            server.kill()
        for text in silent:
            field.find(f"after a {'kill' if is_killed else 'clean stop'}, {deed}: {text}, and the log says nothing")
        shutil.rmtree(store.parent)
    field.note = f"{blows} blows"


async def _silence(server: ServerProcess, original: Original) -> list[str]:
    """Faults that were not reported. A start that is refused with a sentence has reported them."""
    try:
        server.start()
    except RegulusError:
        return ["the start failed with a traceback"] if "Traceback" in _log(server) else []
    wrong = await _wrong(server, original)
    if wrong:
        async with asyncio.timeout(DEEP_CHECK_S):
            while DEEP_CHECK_DONE not in _log(server):
                await asyncio.sleep(LOOK_AGAIN_S)
    return [] if any(word in _log(server) for word in TOLD) else wrong


def _log(server: ServerProcess) -> str:
    return server.log_path.read_text(errors="replace")


async def _wrong(server: ServerProcess, original: Original) -> list[str]:
    wrong: list[str] = []
    async with Talk(server.port) as talk:
        for queue_id in range(QUEUES):
            wrong += await _wrong_of_queue(talk, queue_id, [one for one in original.sent if one.queue_id == queue_id])
        for one in original.sent[::len(original.sent) // KEYS_ASKED]:
            header = QueryMessageRequest(topic=TOPIC, key=f"U{int(one.body[:6]):06d}", max_num=8, begin_timestamp=0,
                                         end_timestamp=(1 << 63) - 1)
            answer = await talk.ask(RequestCode.QUERY_MESSAGE, {**header.ext(), "_UNIQUE_KEY_QUERY": "true"})
            if answer.code != ResponseCode.SUCCESS:
                wrong.append(f"key {header.key} is not found")
        offset = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=TOPIC, queue_id=0)
        answer = await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, offset.ext())
        if answer.ext.get("offset") != str(COMMITTED):
            wrong.append(f"the group's offset is {answer.ext.get('offset')} and not {COMMITTED}")
    return wrong


async def _wrong_of_queue(talk: Talk, queue_id: int, sent: list[Sent]) -> list[str]:
    """The consumer detects a body with a wrong checksum."""
    try:
        there = {message.queue_offset: message.body for message in await talk.queue(TOPIC, queue_id)}
    except RecordError:
        return []
    wrong = []
    missing = [one for one in sent if there.get(one.queue_offset) != one.body]
    if missing:
        wrong.append(f"{len(missing)} of {len(sent)} messages of queue {queue_id} are not served, the first at "
                     f"{missing[0].queue_offset}")
    fresh = await talk.sent(TOPIC, b"fresh", queue_id)
    if fresh is not None and fresh.queue_offset < len(sent):
        wrong.append(f"offset {fresh.queue_offset} of queue {queue_id} was given a second time")
    return wrong


async def log(field: Field) -> None:
    await _round(field, _files("commitlog"))


async def queues(field: Field) -> None:
    await _round(field, _files("consumequeue", f"{TOPIC}/*/*"))


async def index(field: Field) -> None:
    await _round(field, _files("index"))


async def documents(field: Field) -> None:
    await _round(field, _files("config"))


async def rest(field: Field) -> None:
    """Damage the checkpoint, the lock, and the mark of a running broker."""
    await _round(field, lambda store: [path for path in store.iterdir() if path.is_file()])
