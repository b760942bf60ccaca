"""SIGTERM under load: the server ends in order, and what it answered is stored."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from regulus.cli.serve import stop_signals
from regulus.errors import ConnectionLost
from regulus.model.message_id import parse_offset_message_id
from regulus.model.store_rules import StoreRules
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.testing.running_server import HOST, ServerProcess
from regulus.transport.connection import Connection
from regulus.transport.connector import connect
from regulus.wire.codes import RequestCode
from regulus.wire.headers import PullMessageRequest, SendMessageRequest
from regulus.wire.remoting_command import RemotingCommand

CONNECTIONS = 24
WINDOW = 32         # requests of one connection under way at a time
HELD = 20
ENOUGH = 3_000      # answers, after which the server is told to end
BODY = b"x" * 500
FILE_SIZE = 1 << 18     # room ahead of the writer is wanted all the time


class Load:
    """Sends as fast as they are answered, on many connections, until the server is gone."""

    def __init__(self) -> None:
        self.stored: dict[int, bytes] = {}      # by physical offset
        self.codes: set[int] = set()
        self.enough = asyncio.Event()
        self._number = 0

    async def run(self, connection: Connection) -> None:
        await asyncio.gather(*[self._send(connection) for _ in range(WINDOW)])

    async def _send(self, connection: Connection) -> None:
        while True:
            self._number += 1
            body = b"%d " % self._number + BODY
            header = SendMessageRequest("PG", "Loaded", queue_id=self._number % 4, properties={"UNIQ_KEY": "K"})
            code = int(RequestCode.SEND_MESSAGE_V2)
            try:
                answer = await connection.request(RemotingCommand.request(code, header.ext_for(code), body), 20_000)
            except ConnectionLost:
                return
            self.codes.add(answer.code)
            if answer.code == 0:
                self.stored[parse_offset_message_id(answer.ext["msgId"])[1]] = body
            if len(self.stored) >= ENOUGH:
                self.enough.set()


async def hold(connection: Connection) -> None:
    """A pull that waits for ever."""
    ext = PullMessageRequest("CG", "TBW102", 0, 0, sys_flag=6, suspend_timeout_millis=60_000, subscription="*",
                             expression_type="TAG").ext()
    with pytest.raises(ConnectionLost):
        await connection.request(RemotingCommand.request(RequestCode.PULL_MESSAGE, ext), 60_000)


@pytest.mark.parametrize("flush", ["sync", "async"])
async def test_a_server_that_is_told_to_end_under_load_ends_in_order(tmp_path: Path, flush: str) -> None:
    conf = tmp_path / "small.conf"
    conf.write_text(f"mappedFileSizeCommitLog={FILE_SIZE}\nmappedFileSizeConsumeQueue=2000\n")
    server = ServerProcess(tmp_path / "store", "-c", str(conf), "--flush", flush)
    server.start()
    load = Load()
    connections = [await connect(HOST, server.port) for _ in range(CONNECTIONS)]
    tasks = [asyncio.create_task(load.run(connection)) for connection in connections]
    tasks += [asyncio.create_task(hold(connections[number])) for number in range(HELD)]
    await load.enough.wait()
    status = await asyncio.to_thread(server.stop)
    await asyncio.gather(*tasks)
    log = server.log_path.read_text()
    assert "Traceback" not in log
    assert "ERROR" not in log
    assert "broker stopped" in log
    assert status == 0
    assert load.codes == {0}

    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(server.store_path),
                                                mapped_file_size_commit_log=FILE_SIZE,
                                                mapped_file_size_consume_queue=2000), StoreRules())
    report = store.open()
    try:
        assert report.is_clean_stop
        for physical_offset, body in load.stored.items():
            message = store.look_message(physical_offset)
            assert message is not None
            assert message.body == body
    finally:
        store.close()


def test_a_terminal_that_closes_ends_a_server_in_order(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "store")
    # Tests may run under `nohup`, and what they start inherits that.
    ours = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        server.start()
    finally:
        signal.signal(signal.SIGHUP, ours)
    os.kill(server.pid, signal.SIGHUP)
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    assert server.stop() == 0
    assert "broker stopped" in server.log_path.read_text()
    assert not (tmp_path / "store" / "abort").exists()


def test_what_was_started_to_outlive_its_terminal_hears_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nohup` ignores the signal, and what it starts inherits that."""
    monkeypatch.setattr(signal, "getsignal", {signal.SIGHUP: signal.SIG_IGN}.get)
    assert set(stop_signals()) == {signal.SIGTERM, signal.SIGINT}
