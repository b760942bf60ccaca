"""The running broker, as the archive job meets it: how far its log is on disk, and telling it what is archived.

A broker whose archive gate is on hears the archive alone that its settings name. Another one is refused before anything
is written: it may be an empty folder, where the disk of the archive should be.
"""

from regulus.client import shared_loop
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.errors import BrokerRefused, OptionError
from regulus.model.delay_level import DEFAULT_LADDER
from regulus.model.retention_rules import ArchiveGate
from regulus.pipeline.archive.config import ArchiveConfig
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import GetLogStateResponse


class BrokerGate:
    """Asked once when it is made, so that a run has one answer."""

    def __init__(self, config: ArchiveConfig) -> None:
        """Raises OptionError when the cluster has no such broker or it is not a Regulus broker, ClientError."""
        self._config = config
        self.address, self.state, self.message_delay_level = shared_loop.run(self._ask())

    @property
    def flushed_offset(self) -> int:
        return self.state.flushed_physical_offset

    def begin(self, identity: str) -> None:
        """Raises OptionError when the broker's gate waits for another archive."""
        trusted = self.state.archive_identity
        if self._is_shut_to(identity) and not self._config.beside_the_gate:
            waits = f"waits for the archive {trusted}" if trusted else "trusts no archive"
            raise OptionError(
                f"the archiveGate of {self._config.broker_name} {waits}, and this one is {identity}: nothing was "
                f"archived. If this is the right archive, set archiveIdentity={identity} on the broker; if it is "
                "another one besides, use --beside-the-gate")

    def archived(self, physical_offset: int, identity: str) -> None:
        if not self._is_shut_to(identity):
            shared_loop.run(self._tell(physical_offset, identity))

    def _is_shut_to(self, identity: str) -> bool:
        return self.state.archive_gate == ArchiveGate.on and self.state.archive_identity != identity

    def _admin(self) -> Admin:
        return Admin(self._config.name_server, ClientConfig(access_key=self._config.access_key,
                                                            secret_key=self._config.secret_key,
                                                            tls=self._config.tls))

    async def _ask(self) -> tuple[str, GetLogStateResponse, str]:
        async with self._admin() as admin:
            brokers = (await admin.cluster_info()).broker_addr_table
            broker = brokers.get(self._config.broker_name)
            address = broker.broker_addrs.get(0) if broker is not None else None
            if address is None:
                raise OptionError(f"no master {self._config.broker_name!r} is registered at "
                                  f"{self._config.name_server}: there are {', '.join(sorted(brokers)) or 'no brokers'}")
            try:
                state = await admin.log_state(address)
            except BrokerRefused as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                raise OptionError(f"{self._config.broker_name} at {address} does not say how far its log is on disk, "
                                  "as only Regulus does: archive from its store once it is stopped, or from a backup, "
                                  "without a name server") from error
            levels = (await admin.broker_config(address)).get("messageDelayLevel", DEFAULT_LADDER)
            return address, state, levels

    async def _tell(self, physical_offset: int, identity: str) -> None:
        async with self._admin() as admin:
            await admin.update_archived_offset(self.address, physical_offset, identity)
