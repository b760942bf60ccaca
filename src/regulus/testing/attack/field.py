"""The means of a round of an attack: chance, a directory, its own servers, and a list of findings."""

import os
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from regulus.model.message import MessageExt
from regulus.record import message_record
from regulus.testing.running_server import HOST, ServerProcess
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.bodies import ConsumerData, HeartbeatData, SubscriptionData
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import (
    PullMessageRequest,
    SendMessageRequest,
    SendMessageResponse,
    UpdateConsumerOffsetRequest,
)
from regulus.wire.remoting_command import RemotingCommand

ANSWER_TIMEOUT_MS = 10_000
FINDINGS_MAX = 20
"""The maximum number of findings in one round: a broken broker would cause the same one thousands of times."""
SMALL_FILES = {"mappedFileSizeCommitLog": 65_536, "mappedFileSizeConsumeQueue": 4_000, "maxHashSlotNum": 500,
               "maxIndexNum": 2_000}
PULL_SUBSCRIPTION = 4
PULL_BATCH = 64


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged message and the position in the answer."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    message_id: str


class Field:
    """One round. A context manager: its servers end with it. `deadline` is of the monotonic clock."""

    def __init__(self, kind: str, seed: int, home: Path, deadline: float, frames: Path | None = None) -> None:
        self.kind = kind
        self.seed = seed
        self.home = home
        self.deadline = deadline
        self.frames = frames
        """A directory of recorded frames, if the player has one."""
        self.chance = random.Random(f"{kind} {seed}")
        self.findings: list[str] = []
        self.note = ""
        self._servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        for server in self._servers:
            server.kill()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def find(self, text: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(text)

    def server(self, store: Path | None = None, **settings: object) -> ServerProcess:
        """A server that is not started yet, with small files unless the settings say otherwise."""
        path = self.home / f"{len(self._servers)}.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in {**SMALL_FILES, **settings}.items()))
        server = ServerProcess(store or self.home / "store", "-c", str(path))
        self._servers.append(server)
        return server


Attack = Callable[[Field], Coroutine[Any, Any, None]]


class Talk:
    """A connection to one broker, for requests that no client would send."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        self._connection = await connect(HOST, self._port)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        assert self._connection is not None
        self._connection.close()
        await self._connection.wait_closed()

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        """Raises ConnectionLost, RequestTimeout."""
        assert self._connection is not None
        return await self._connection.request(RemotingCommand.request(int(code), ext, body), ANSWER_TIMEOUT_MS)

    def tell(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Send a request without waiting for its answer."""
        assert self._connection is not None
        self._connection.send(RemotingCommand.request(int(code), ext, body))

    async def send(self, topic: str, body: bytes, queue_id: int = 0, *, properties: dict[str, str] | None = None,
                   sys_flag: int = 0, group: str = "attackers") -> RemotingCommand:
        header = SendMessageRequest(group, topic, sys_flag=sys_flag, born_timestamp=1_700_000_000_000,
                                    properties=properties or {})
        code = int(RequestCode.SEND_MESSAGE_V2)
        # Written in afterwards, because the compiled header cannot hold numbers that are too large for the field.
        return await self.ask(code, {**header.ext_for(code), "e": str(queue_id)}, body)

    async def sent(self, topic: str, body: bytes, queue_id: int = 0, **properties: str) -> Sent | None:
        """Send a message; returns it when it was acknowledged, and None when it was refused."""
        answer = await self.send(topic, body, queue_id, properties=properties)
        if answer.code != ResponseCode.SUCCESS:
            return None
        placed = SendMessageResponse.decode(answer)
        return Sent(topic, placed.queue_id, placed.queue_offset, body, placed.msg_id)

    async def join(self, group: str, topic: str) -> None:
        """Register the group with the broker, as its first heartbeat does."""
        data = ConsumerData(group_name=group, message_model="CLUSTERING",
                            subscription_data_set=[SubscriptionData.compile(topic, "*", 1)])
        await self.ask(RequestCode.HEART_BEAT, body=HeartbeatData(
            client_id="attacker", consumer_data_set=[data], producer_data_set=[]).encode())

    async def commit(self, group: str, topic: str, queue_id: int, consumer_offset: int) -> bool:
        """Commit an offset; returns whether it was accepted."""
        header = UpdateConsumerOffsetRequest(consumer_group=group, topic=topic, queue_id=queue_id,
                                             commit_offset=consumer_offset)
        return (await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header.ext())).code == ResponseCode.SUCCESS

    async def queue(self, topic: str, queue_id: int) -> list[MessageExt]:
        """All messages that a consumer gets from one queue, from its first offset to its last."""
        found: list[MessageExt] = []
        offset = 0
        while True:
            header = PullMessageRequest("auditors", topic, queue_id, offset, max_msg_nums=PULL_BATCH,
                                        sys_flag=PULL_SUBSCRIPTION, subscription="*")
            answer = await self.ask(RequestCode.PULL_MESSAGE, header.ext())
            if answer.code == ResponseCode.SUCCESS:
                found += message_record.decode_all(answer.body)
            elif answer.code not in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
                return found
            next_offset = int(answer.ext["nextBeginOffset"])
            if next_offset <= offset:
                return found
            offset = next_offset


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and its threads, to a hundredth of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int) -> int:
    """The private memory of a process, without the files that it maps."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
