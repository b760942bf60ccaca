"""Broker, name server and the proxy for RocketMQ 5 clients in one process."""

from regulus.errors import RegulusError
from regulus.proxy.access import CallAccess
from regulus.proxy.config import ProxyConfig
from regulus.proxy.local_brokers import LocalBrokers
from regulus.proxy.metrics import LOCAL_MODE
from regulus.proxy.server import ProxyServer
from regulus.server.assembly import Regulus
from regulus.transport.config import TransportConfig


class RegulusWithFront:
    """Starts the proxy last and stops it first, because it needs the broker for its calls.

    With `may_lack_front` the rest also starts if another program has the proxy's port; `missing` has the reason then.
    """

    def __init__(self, regulus: Regulus, config: ProxyConfig, transport: TransportConfig, *,
                 may_lack_front: bool = False) -> None:
        self.missing = ""
        self._may_lack_front = may_lack_front
        self.regulus = regulus
        broker_server = regulus.broker_server
        access = CallAccess(lambda: broker_server.access_rules) if broker_server.is_guarded else None
        self.front = ProxyServer(config, LocalBrokers(regulus), transport, access, mode=LOCAL_MODE)

    async def start(self) -> None:
        """Raises the errors of Regulus.start(), and OSError if another program has the proxy's port."""
        await self.regulus.start()
        try:
            await self.front.start()
        except OSError as error:
            if not self._may_lack_front:
                await self.regulus.stop()
                raise
            self.missing = error.strerror or str(error)
        except RegulusError:
            await self.regulus.stop()
            raise
        metrics = self.regulus.broker_server.metrics
        if metrics is not None and not self.missing:
            metrics.sources.append(self.front.fill)
            metrics.reasons.append(self.front.reasons)

    async def stop(self) -> None:
        try:
            await self.front.stop()
        finally:
            await self.regulus.stop()
