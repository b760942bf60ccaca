"""The proxy as a process of its own, for the brokers that its name servers list."""

import asyncio

from regulus.errors import ConfigError
from regulus.model.metrics_config import MetricsConfig
from regulus.proxy.access import CallAccess
from regulus.proxy.cluster_brokers import ClusterBrokers
from regulus.proxy.cluster_users import ClusterUsers
from regulus.proxy.config import ProxyConfig
from regulus.proxy.server import TICK_S, ProxyServer, steady_ms
from regulus.server.access_files import AccessFiles, accounts_of
from regulus.server.workers import Line, ThreadWorkers
from regulus.transport.config import TransportConfig

_DEFAULT_METRICS = MetricsConfig()


def standalone(config: ProxyConfig, transport: TransportConfig,
               metrics_config: MetricsConfig = _DEFAULT_METRICS) -> ProxyServer:
    """Assemble the proxy of `regulus proxy`. Raises ConfigError for settings that do not fit together."""
    brokers = ClusterBrokers(config)
    if config.authentication_enabled:
        if not config.access_key:
            raise ConfigError("authenticationEnabled=true, and accessKey is empty: brokers show their users only to a "
                              "Super user, so set accessKey and secretKey of one")
        users = ClusterUsers(brokers, authorizes=config.authorization_enabled)
        return ProxyServer(config, brokers, transport, CallAccess(users.rules), users.keep, metrics_config)
    if not config.acl_enable:
        return ProxyServer(config, brokers, transport, metrics_config=metrics_config)
    accounts: AccessFiles = accounts_of(config.rocketmq_home, "", ThreadWorkers().line(Line.ACCOUNTS))

    async def keep_accounts() -> None:
        while True:
            accounts.tick(steady_ms())
            await asyncio.sleep(TICK_S)

    return ProxyServer(config, brokers, transport, CallAccess(lambda: accounts.rules), keep_accounts, metrics_config)
