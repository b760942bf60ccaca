"""The front by itself, before the brokers that its name servers know."""

from regulus.proxy.access import CallAccess
from regulus.proxy.cluster_brokers import ClusterBrokers
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import ProxyServer
from regulus.server.access_files import AccessFiles, accounts_of
from regulus.transport.config import TransportConfig


def standalone(config: ProxyConfig, transport: TransportConfig) -> ProxyServer:
    """Raises ConfigError."""
    if not config.acl_enable:
        return ProxyServer(config, ClusterBrokers(config), transport)
    accounts: AccessFiles = accounts_of(config.rocketmq_home, "")
    access = CallAccess(lambda: accounts.rules)
    return ProxyServer(config, ClusterBrokers(config), transport, access, accounts.tick)
