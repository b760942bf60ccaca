"""What a slave says counts only once it has been found true, and none waits for what will not come."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.model.java_numbers import LONG_MAX
from regulus.model.store_rules import FlushDiskType
from regulus.server.durability import Durability
from regulus.server.ha_server import AWAY_S_MAX, LINKS_MAX, HaServer, _Link
from regulus.transport import tls
from regulus.transport.config import TransportConfig
from regulus.wire import ha_frame
from regulus.wire.codes import ResponseCode
from tests.certificates import Authority
from tests.unit.server.test_durability import Written

FILE_SIZE = 1 << 20


class Log:
    """A store with 1,000 bytes of log, of which none can be had."""

    def __init__(self) -> None:
        self.first, self.end = 0, 1000
        self.flushed_offset = 0

    def commit_log_min_offset(self) -> int:
        return self.first

    def commit_log_max_offset(self) -> int:
        return self.end

    def log_bytes(self, offset: int, size_max: int) -> memoryview | None:
        return None


class AbortedLater(asyncio.Transport):
    """As of a loop: who aborts it hears that the connection is lost in a later turn, which never comes here."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def writelines(self, list_of_data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("reports", [(1 << 60,), (1000, 1 << 60)], ids=["its first report", "a later one"])
async def test_a_slave_that_is_refused_acknowledges_nothing(reports: tuple[int, ...]) -> None:
    loop = asyncio.get_running_loop()
    durability = Durability(60.0, lambda: None)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = HaServer(bound, Log(), BrokerConfig(), FILE_SIZE, durability)
        liar, honest = _Link(server, loop), _Link(server, loop)
        for link in (liar, honest):
            link.connection_made(AbortedLater())
        for reported in reports:
            liar.data_received(ha_frame.encode_report(reported))
        honest.data_received(ha_frame.encode_report(900))
        assert server.copied_offset() == 900
        written = Written()
        durability.answer_when_durable(2000, written, b"")
        assert not written.writes
        durability.stop()


class WholeLog(Log):
    """One whose bytes can be had."""

    def log_bytes(self, offset: int, size_max: int) -> memoryview | None:
        size = min(size_max, self.end - offset)
        return memoryview(bytes(size)) if size > 0 else None


class Kept(AbortedLater):
    """Keeps the sizes of what is written behind the heads."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[int] = []

    def writelines(self, list_of_data: Iterable[bytes | memoryview]) -> None:
        _, piece = list_of_data
        self.pieces.append(len(piece))


@pytest.mark.parametrize(("flush", "first"), [
    (FlushDiskType.ASYNC_FLUSH, [0, 900]), (FlushDiskType.SYNC_FLUSH, [0, 300])])
async def test_with_sync_flush_a_slave_gets_what_the_disk_here_has(flush: FlushDiskType, first: list[int]) -> None:
    log, wire = WholeLog(), Kept()
    log.flushed_offset = 400
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = HaServer(bound, log, BrokerConfig(flush_disk_type=flush), FILE_SIZE, None)
        link = _Link(server, asyncio.get_running_loop())
        link.connection_made(wire)
        link.data_received(ha_frame.encode_report(100))
        server.appended()
        assert wire.pieces == first
        log.flushed_offset = 1000
        server.appended()
    assert sum(wire.pieces) == 900


async def test_a_slave_whose_next_file_was_deleted_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    log, transport = Log(), AbortedLater()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = HaServer(bound, log, BrokerConfig(), FILE_SIZE, None)
        link = _Link(server, asyncio.get_running_loop())
        link.connection_made(transport)
        link.data_received(ha_frame.encode_report(1000))
        server.appended()
        assert not transport.is_aborted         # it has all that there is
        log.first, log.end = FILE_SIZE, FILE_SIZE + 1000
        server.appended()
    assert transport.is_aborted
    assert "the log has nothing at 1000" in caplog.text


async def test_old_files_wait_a_while_for_a_slave_whose_link_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    now = 100.0
    monkeypatch.setattr(loop, "time", lambda: now)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = HaServer(bound, Log(), BrokerConfig(), FILE_SIZE, None)
        stranger, slave = _Link(server, loop), _Link(server, loop)
        for link in (stranger, slave):
            link.connection_made(AbortedLater())
        slave.data_received(ha_frame.encode_report(700))
        for link in (stranger, slave):
            link.connection_lost(None)
        assert server.copied_offset() == 700
        now += AWAY_S_MAX
        assert server.copied_offset() == 700
        now += 0.001
        assert server.copied_offset() == LONG_MAX


async def test_a_slave_that_is_far_behind_is_not_waited_for() -> None:
    log, written = Log(), Written()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        durability = Durability(5.0, lambda: None)
        server = HaServer(bound, log, BrokerConfig(ha_slave_fallbehind_max=100), FILE_SIZE, durability)
        link = _Link(server, asyncio.get_running_loop())
        link.connection_made(AbortedLater())
        link.data_received(ha_frame.encode_report(1000))
        log.end = 1100
        durability.answer_when_durable(1100, written, b"")
        assert not written.writes       # it is as far behind as it may be
        log.end = 1101
        durability.answer_when_durable(1101, written, b"")
        assert len(written.writes) == 2
        durability.stop()


async def test_what_a_slave_says_first_is_a_wish_and_no_receipt() -> None:
    log, written = Log(), Written()
    with socket.create_server(("127.0.0.1", 0)) as bound:
        durability = Durability(5.0, lambda: None)
        server = HaServer(bound, log, BrokerConfig(), FILE_SIZE, durability)
        link = _Link(server, asyncio.get_running_loop())
        link.connection_made(AbortedLater())
        link.data_received(ha_frame.encode_report(1000))
        durability.answer_when_durable(900, written, b"")
        assert not written.writes       # its log may be another one that is as long
        link.data_received(ha_frame.encode_report(1000))
        assert len(written.writes) == 1
        durability.stop()


async def test_a_slave_that_came_back_before_its_old_link_was_missed_is_one_slave() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        durability = Durability(5.0, lambda: None)
        server = HaServer(bound, Log(), BrokerConfig(in_sync_replicas=3, ha_housekeeping_interval=20_000), FILE_SIZE,
                          durability)
        old, new = links = [_Link(server, asyncio.get_running_loop()) for _ in range(2)]
        for link in links:
            link.connection_made(AbortedLater())
            link.data_received(ha_frame.encode_report(900))
        old.data_received(ha_frame.encode_report(900))
        old.heard_at -= 11
        new.data_received(ha_frame.encode_report(900))
        assert server._replicated is not None
        assert server._replicated.absent is ResponseCode.SLAVE_NOT_AVAILABLE
        durability.stop()


async def test_old_files_wait_for_slaves_that_are_not_too_far_behind() -> None:
    log = Log()
    log.end = 10 * FILE_SIZE
    with socket.create_server(("127.0.0.1", 0)) as bound:
        server = HaServer(bound, log, BrokerConfig(ha_slave_keep_max=4 * FILE_SIZE), FILE_SIZE, None)
        assert server.copied_offset() > log.end
        links = [_Link(server, asyncio.get_running_loop()) for _ in range(4)]
        for link in links:
            link.connection_made(AbortedLater())
        assert server.copied_offset() > log.end         # none has told where it is
        for link, offset, needed in zip(links, (0, 9 * FILE_SIZE, 6 * FILE_SIZE, 6 * FILE_SIZE - 1),
                                        (10 * FILE_SIZE, 9 * FILE_SIZE, 6 * FILE_SIZE, 6 * FILE_SIZE), strict=True):
            link.data_received(ha_frame.encode_report(offset))
            assert server.copied_offset() == needed
        server.closed(links[2])
        assert server.copied_offset() == 6 * FILE_SIZE      # it may come back


async def test_whose_address_is_not_allowed_takes_no_handshake_of_those_that_slaves_need(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing, and would have kept one of the few places for handshakes for as long as one may take."""
    monkeypatch.setattr(tls, "HANDSHAKE_S_MAX", 600.0)
    pair = Authority(tmp_path).issue("master")
    transport_config = TransportConfig(tls_ha_enable=True, tls_server_cert_path=str(pair.certificate),
                                       tls_server_key_path=str(pair.key))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        config = BrokerConfig(ha_slave_white_addresses="10.0.0.*")
        server = HaServer(bound, Log(), config, FILE_SIZE, None, transport_config)
        await server.start()
        strangers = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(LINKS_MAX + 1)]
        async with asyncio.timeout(20):
            for reader, writer in strangers:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
        assert len(server._doors) == 0
        await server.stop()


@pytest.mark.parametrize(("patterns", "is_let_in"), [("", True), ("127.0.0.*", True), ("10.0.0.1;127.0.0.1", True),
                                                     ("10.0.0.*", False)])
async def test_only_whose_address_is_allowed_may_copy_the_log(patterns: str, is_let_in: bool) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = HaServer(bound, Log(), BrokerConfig(ha_slave_white_addresses=patterns), FILE_SIZE, None)
        link, transport = _Link(server, asyncio.get_running_loop()), AbortedLater()
        link.connection_made(transport)
        link.data_received(ha_frame.encode_report(1000))
        assert transport.is_aborted is not is_let_in
        assert (len(server.status()) == 1) is is_let_in
        await server.stop()
