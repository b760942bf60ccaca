"""Replication by the broker's role: a master lets slaves copy its log, a slave copies it."""

from collections.abc import Callable, Mapping, Sequence
from socket import socket

from regulus.access.credentials import parse_credentials
from regulus.broker.config import BrokerConfig
from regulus.broker.groups.consumer_offsets import Ahead
from regulus.model.broker_role import BrokerRole
from regulus.model.java_numbers import LONG_MAX
from regulus.record.timer_units import TimerCheck
from regulus.server.clock import Clock
from regulus.server.durability import Durability
from regulus.server.ha_client import HA_PORT_OFFSET, HaClient
from regulus.server.ha_server import HaServer
from regulus.server.master_documents import MasterDocuments
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.transport.config import TransportConfig
from regulus.wire.bodies import HAClientRuntimeInfo, HARuntimeInfo

_RECORD_SIZE_MORE = 1 << 20     # the part of a record besides its body, at most


def ports_for_slaves(config: BrokerConfig, port: int) -> list[int]:
    """The ports from which slaves may copy, 0 for any; none for a broker without slaves. `port` is the one for
    clients."""
    if not config.is_copied:
        return []
    return [config.ha_listen_port or (port + HA_PORT_OFFSET if config.listen_port else 0)]


def be_slave(store: FileMessageStore, config: BrokerConfig) -> None:
    """Make the store a slave's, before it is opened: it accepts only what its master has."""
    store.be_copy(f"this is a slave of {config.broker_name}, which takes no messages: send to its master",
                  config.max_message_size + _RECORD_SIZE_MORE)


def longest_wait(config: BrokerConfig, store_config: MessageStoreConfig) -> int:
    """The longest time in ms that an answer waits for disk and slaves: the shorter limit, if it waits for both."""
    if config.broker_role is not BrokerRole.SYNC_MASTER:
        return store_config.sync_flush_timeout
    return min(config.slave_timeout, store_config.sync_flush_timeout) if config.sync_flush else config.slave_timeout


class Replication:
    """The replication of a broker.

    `bound` is a master's port for slaves. A slave passes the documents of its master to `take_documents`, and the
    progress of its timers to `take_timers`; it calls `on_copied` when its log has grown, and `on_compared` with how the
    log differs from its master's: an empty text when it does not.
    """

    def __init__(self, config: BrokerConfig, store: FileMessageStore, bound: socket | None, durability: Durability,
                 take_documents: Callable[[Mapping[str, str], int], Sequence[Ahead]], told: Callable[[Ahead], None],
                 take_timers: Callable[[TimerCheck, int, str], None], on_copied: Callable[[], None],
                 on_compared: Callable[[str], None], clock: Clock, transport_config: TransportConfig) -> None:
        self._store = store
        self._server: HaServer | None = None
        self._client: HaClient | None = None
        self._documents: MasterDocuments | None = None
        self._on_compared = on_compared
        if bound is not None:
            is_awaited = config.broker_role is BrokerRole.SYNC_MASTER
            self._server = HaServer(bound, store, config, store.config.mapped_file_size_commit_log,
                                    durability if is_awaited else None, transport_config)
        if config.is_slave:
            self._client = HaClient(store, config, store.config.mapped_file_size_commit_log, on_copied,
                                    self._sure, on_compared, clock, transport_config)
            self._documents = MasterDocuments(
                store.commit_log_max_offset, take_documents, told, take_timers, transport_config,
                parse_credentials(config.inner_client_authentication_credentials))

    @property
    def port(self) -> int:
        """The port for slaves; 0 when there is none."""
        return self._server.port if self._server is not None else 0

    @property
    def is_linked(self) -> bool:
        """Whether a slave is connected to its master."""
        return self._client is not None and self._client.is_linked

    @property
    def is_copy(self) -> bool:
        """Whether a slave's log was found to be its master's."""
        return self._client is not None and self._client.is_sure

    def status(self, now_ms: int) -> HARuntimeInfo:
        """The state of the slaves, or of the link to the master, for operators."""
        if self._client is not None:
            return HARuntimeInfo(ha_client_runtime_info=self._client.status(now_ms))
        slaves = self._server.status() if self._server is not None else []
        return HARuntimeInfo(master=True, master_commit_log_max_offset=self._store.commit_log_max_offset(),
                             in_sync_slave_nums=sum(slave.in_sync for slave in slaves), ha_connection_info=slaves,
                             ha_client_runtime_info=HAClientRuntimeInfo())

    async def start(self) -> None:
        """Raises OSError."""
        if self._server is not None:
            await self._server.start()
        if self._client is not None and self._documents is not None:
            self._client.start()
            self._documents.start()

    async def end_copying(self) -> None:
        """Stop copying: the log grows no more."""
        if self._client is not None and self._documents is not None:
            await self._documents.stop()
            await self._client.stop()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()

    def appended(self) -> None:
        """Note that the log has grown."""
        if self._server is not None:
            self._server.appended()

    def copied_offset(self) -> int:
        """Up to where all slaves have the log for which old files are kept."""
        return self._server.copied_offset() if self._server is not None else LONG_MAX

    def forcible_offset(self) -> int:
        """Up to where the log may be deleted before its time for lack of room: on a slave, only what its master has
        deleted, too."""
        return self._documents.log_begin if self._documents is not None else LONG_MAX

    def hurry_documents(self) -> None:
        """Ask for documents now: the log refers to a topic that a slave does not know."""
        if self._documents is not None:
            self._documents.hurry()

    def _sure(self) -> None:
        self._on_compared("")
        self.hurry_documents()

    def flushed(self, end: int) -> None:
        """Note that the disk has the log up to `end`."""
        if self._server is not None:
            self._server.appended()
        if self._client is not None:
            self._client.flushed(end)

    def master_at(self, address: str, ha_address: str) -> None:
        """Set the addresses of a slave's master for clients and for slaves, from a name server."""
        if self._client is not None and self._documents is not None:
            self._documents.master_at(address)
            self._client.master_at(address, ha_address)
