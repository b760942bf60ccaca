"""A full disk: a small file system in memory, mounted in a separate namespace for the round.

The round runs itself again inside: `python -m regulus.testing.attack.full_disk DIRECTORY SEED` prints its findings as
JSON. Acknowledged messages must be served, also after a start on the full disk; unsaved ones must have been refused.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from regulus.errors import RegulusError
from regulus.testing.attack.field import Field, Sent, Talk
from regulus.testing.running_server import ServerProcess
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetTopicConfigRequest, UpdateAndCreateTopicRequest

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
DISK_SIZE = "12m"
ROUND_MAX_S = 120
BALLAST = 4 << 20
MESSAGES_MAX = 6_000
TOPICS = 8
TOPIC = "Filled"


def may_mount() -> bool:
    return shutil.which(UNSHARE[0]) is not None and not subprocess.run([*UNSHARE, "true"], check=False).returncode


async def full_disk(field: Field) -> None:
    if not may_mount():
        field.note = "not played: this machine lets nobody mount a disk in a name space (`unshare --user --mount`)"
        return
    directory = field.home / "disk"
    directory.mkdir()
    command = (f"mount -t tmpfs -o size={DISK_SIZE} tmpfs '{directory}' && "
               f"exec '{sys.executable}' -m regulus.testing.attack.full_disk '{directory}' {field.seed}")
    child = await asyncio.create_subprocess_exec(*UNSHARE, "sh", "-c", command, stdout=asyncio.subprocess.PIPE,
                                                 stderr=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(ROUND_MAX_S):
            printed, errors = await child.communicate()
    except TimeoutError:
        child.kill()
        await child.wait()
        field.find(f"the round did not end within {ROUND_MAX_S} s")
        return
    if child.returncode:
        field.find(f"the round failed: {errors.decode(errors='replace')[-800:]}")
        return
    result = json.loads(printed)
    field.note = result["note"]
    for text in result["findings"]:
        field.find(text)


class _Disk:
    def __init__(self, directory: Path) -> None:
        self.ballast = directory / "ballast"
        self.ballast.write_bytes(bytes(BALLAST))

    def fill(self) -> None:
        """Use up every remaining page."""
        with suppress(OSError), self.ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        self.ballast.unlink()


async def _inside(field: Field) -> None:
    disk = _Disk(field.home)
    server = field.server(cleanFileForciblyEnable="false")
    server.start()
    sent = await _fill(field, server)
    disk.fill()
    made = await _make_topics(server)
    field.note = f"{len(sent)} acknowledged, {len(made)} topics made on the full disk"
    if field.chance.random() < 0.7:
        server.kill()
    else:
        server.stop()
    disk.fill()
    try:
        server.start()
    except RegulusError as error:
        field.find(f"the start on a full disk failed: {error}")
        disk.make_room()
        server.start()
    await _audit(field, server, sent, made)
    with suppress(FileNotFoundError):
        disk.make_room()
    await _goes_on(field, server)


async def _fill(field: Field, server: ServerProcess) -> list[Sent]:
    """Send until a message is refused."""
    sent: list[Sent] = []
    async with Talk(server.port) as talk:
        for number in range(MESSAGES_MAX):
            one = await talk.sent(TOPIC, f"{number:06d}".encode().ljust(field.chance.choice((900, 4_000)), b"."),
                                  number % 4)
            if one is None:
                return sent
            sent.append(one)
    field.find("the disk did not fill")
    return sent


async def _make_topics(server: ServerProcess) -> list[str]:
    """Make topics; returns those that were answered with success."""
    made = []
    async with Talk(server.port) as talk:
        for number in range(TOPICS):
            header = UpdateAndCreateTopicRequest(topic=f"made-{number}", default_topic="TBW102", read_queue_nums=1,
                                                 write_queue_nums=1, perm=6)
            answer = await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.ext())
            if answer.code == ResponseCode.SUCCESS:
                made.append(header.topic)
    return made


async def _audit(field: Field, server: ServerProcess, sent: list[Sent], made: list[str]) -> None:
    async with Talk(server.port) as talk:
        for queue_id in range(4):
            there = {message.queue_offset: message.body for message in await talk.queue(TOPIC, queue_id)}
            lost = [one for one in sent if one.queue_id == queue_id and there.get(one.queue_offset) != one.body]
            if lost:
                field.find(f"queue {queue_id}: {len(lost)} acknowledged messages are not served")
        gone = []
        for topic in made:
            answer = await talk.ask(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequest(topic=topic).ext())
            if answer.code != ResponseCode.SUCCESS:
                gone.append(topic)
        if gone:
            field.find(f"{len(gone)} topics were answered with success on the full disk and are gone: {gone}")


async def _goes_on(field: Field, server: ServerProcess) -> None:
    """When there is room again, a broker that starts must accept messages."""
    server.stop()
    server.start()
    async with Talk(server.port) as talk:
        answer = await talk.send(TOPIC, b"after")
    if answer.code != ResponseCode.SUCCESS:
        field.find(f"a start with room again takes no messages: {answer.remark}")


def main() -> None:
    with Field("full-disk", int(sys.argv[2]), Path(sys.argv[1]), time.monotonic() + ROUND_MAX_S) as field:
        asyncio.run(_inside(field))
    print(json.dumps({"note": field.note, "findings": field.findings}))


if __name__ == "__main__":
    main()
