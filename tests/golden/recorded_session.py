"""The whole recorded session once more: every request that a client, tool or broker sent, in order of time, to us.

Its eight minutes pass in a few seconds, because the clock is the recording's. Physical offsets differ, for we store a
few bytes more a message than 4.9.8 did; requests that carry one are translated by the answers to the sends.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regulus.broker import request_table
from regulus.broker.config import BrokerConfig
from regulus.broker.outcome import Hold, NoReply, Outcome, Relay
from regulus.broker.state import BrokerState
from regulus.model.message_id import host_bytes, offset_message_id, parse_offset_message_id
from regulus.model.peer import Peer
from regulus.nameserver import handlers as name_server_table
from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.codes import RequestCode
from regulus.wire.frame_reader import FrameReader
from regulus.wire.remoting_command import RemotingCommand

FRAMES = Path(__file__).parent / "frames"
OTHER_SESSIONS = ("acl-", "ha-")
STEP_MS = 100
LOCAL = host_bytes("127.0.0.1", 10911)


class Exchange(NamedTuple):
    """One request, what was answered to it then, and what we answer. `ours` is None when we hold or drop it."""

    scenario: str
    server: str
    request: RemotingCommand
    recorded: RemotingCommand
    ours: RemotingCommand | None


class RecordedFrame(NamedTuple):
    t_ms: float
    scenario: str
    connection: int
    server: str
    from_client: bool
    command: RemotingCommand


def scenarios() -> list[str]:
    return sorted(path.stem for path in FRAMES.glob("*.jsonl") if not path.name.startswith(OTHER_SESSIONS))


def frames() -> list[RecordedFrame]:
    """All frames of the session in order of time."""
    found = [frame for scenario in scenarios() for frame in frames_of(scenario)]
    return sorted(found, key=lambda frame: frame.t_ms)


def frames_of(scenario: str) -> list[RecordedFrame]:
    with (FRAMES / f"{scenario}.jsonl").open(encoding="utf-8") as lines:
        return [_frame(scenario, json.loads(line)) for line in lines]


def replay(root: Path) -> list[Exchange]:
    """Every request of a client that was answered, with both answers."""
    return list(_Replay(root).run(frames()))


def _frame(scenario: str, line: dict) -> RecordedFrame:
    command = _read(base64.b64decode(line["frame_base64"]))
    return RecordedFrame(line["t_ms"], scenario, line["conn"], line["server"], line["dir"] == "c2s", command)


def _read(frame: bytes) -> RemotingCommand:
    reader = FrameReader()
    reader.feed(frame)
    [command] = reader.frames()
    return command


class _Replay:
    def __init__(self, root: Path) -> None:
        self.store = FileMessageStore(MessageStoreConfig(
            store_path_root_dir=str(root), mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=6000,
            max_hash_slot_num=256, max_index_num=1024))
        self.store.open()
        config = BrokerConfig(broker_ip1="127.0.0.1", trace_topic_enable=True, use_server_side_reset_offset=False)
        self.now_ms = 0
        self.broker: BrokerState | None = None
        self.config = config
        self.name_server = NameServerState(NamesrvConfig())
        self.channels: dict[tuple[str, int], int] = {}
        self.offsets: dict[int, int] = {}

    def run(self, recorded: list[RecordedFrame]) -> Iterator[Exchange]:
        self.broker = BrokerState(self.config, self.store, now_ms=int(recorded[0].t_ms),
                                  steady_ms=int(recorded[0].t_ms), seed=1)
        answers = {(frame.scenario, frame.connection, frame.command.opaque): frame.command for frame in recorded
                   if not frame.from_client and frame.command.is_response}
        last = {(frame.scenario, frame.connection): frame for frame in recorded}
        for frame in recorded:
            self._advance(int(frame.t_ms))
            if frame.from_client and not frame.command.is_response:
                answer = answers.get((frame.scenario, frame.connection, frame.command.opaque))
                ours = self._ask(frame, answer)
                if answer is not None and not frame.command.is_oneway:
                    yield Exchange(frame.scenario, frame.server, frame.command, answer, ours)
            if last[frame.scenario, frame.connection] is frame:
                self._close(frame)
        self.store.close()

    def _advance(self, now_ms: int) -> None:
        assert self.broker is not None
        while self.now_ms and self.now_ms + STEP_MS < now_ms:
            self.now_ms += STEP_MS
            self._tell_time()
            self.broker.tick(self.now_ms)
            self._dispatch()
            self.name_server.tick(self.now_ms)
        self.now_ms = now_ms
        self._tell_time()

    def _tell_time(self) -> None:
        assert self.broker is not None
        self.broker.steady_ms = self.name_server.steady_ms = self.now_ms

    def _dispatch(self) -> None:
        assert self.broker is not None
        self.broker.message_arrived(self.store.dispatch(1000), self.now_ms)
        self.broker.notices.clear()

    def _ask(self, frame: RecordedFrame, recorded: RemotingCommand | None) -> RemotingCommand | None:
        assert self.broker is not None
        request = frame.command
        peer = self._peer(frame)
        if frame.server == "namesrv":
            return name_server_table.handle(request, peer, self.name_server, self.now_ms)
        self._translate(request)
        outcome = request_table.handle(request, peer, self.broker, self.now_ms)
        ours = self._long_answer() if len(self.broker.long_answers) else _settled(outcome, recorded)
        self._dispatch()
        self._learn(recorded, ours)
        return ours

    def _long_answer(self) -> RemotingCommand:
        """Of a request that takes several steps: all of them."""
        assert self.broker is not None
        while self.broker.long_answers.tick() == 0:
            pass
        return _read(self.broker.notices.pop().reply.answer.encode())

    def _peer(self, frame: RecordedFrame) -> Peer:
        key = (frame.scenario, frame.connection)
        channel = self.channels.setdefault(key, len(self.channels) + 1)
        return Peer(channel, host_bytes("127.0.0.1", 30_000 + channel), LOCAL, f"127.0.0.1:{30_000 + channel}",
                    "127.0.0.1")

    def _close(self, frame: RecordedFrame) -> None:
        assert self.broker is not None
        channel = self.channels.get((frame.scenario, frame.connection))
        if channel is not None:
            self.broker.channel_closed(channel, self.now_ms)
            self.name_server.channel_closed(channel, self.now_ms)

    def _learn(self, recorded: RemotingCommand | None, ours: RemotingCommand | None) -> None:
        """Where the message of a send stood then, and where it stands now."""
        if recorded is None or ours is None or "msgId" not in recorded.ext or "msgId" not in ours.ext:
            return
        for then, now in zip(recorded.ext["msgId"].split(","), ours.ext["msgId"].split(","), strict=True):
            self.offsets[parse_offset_message_id(then)[1]] = parse_offset_message_id(now)[1]

    def _translate(self, request: RemotingCommand) -> None:
        names = {RequestCode.VIEW_MESSAGE_BY_ID: "offset", RequestCode.CONSUMER_SEND_MSG_BACK: "offset",
                 RequestCode.END_TRANSACTION: "commitLogOffset"}
        name = names.get(RequestCode(request.code))
        if name is not None:
            then = int(request.ext[name])
            request.ext[name] = str(self.offsets.get(then, then))
        if request.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            host, then = parse_offset_message_id(request.ext["msgId"])
            request.ext["msgId"] = offset_message_id(host, self.offsets.get(then, then))


def _settled(outcome: Outcome, recorded: RemotingCommand | None) -> RemotingCommand | None:
    """A client that is asked says what it said then."""
    while isinstance(outcome, Relay):
        step = outcome.answer(recorded)
        if not isinstance(step, Relay):
            return step
        outcome = step
    return None if isinstance(outcome, Hold | NoReply) else _read(b"".join(outcome.encode_parts()))
