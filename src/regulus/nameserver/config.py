"""Configuration of a name server. Source: NamesrvConfig, NettyServerConfig."""

from dataclasses import dataclass, field

from regulus.access.credentials import check_access
from regulus.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvConfig:
    bind_address: str = "0.0.0.0"
    listen_port: int = 9876
    """0 takes any free port."""
    kv_config_path: str = ""
    """The file that keeps the key-value configuration; empty: memory only."""
    order_message_enable: bool = False
    """Whether route answers carry the order configuration of their topic."""
    return_order_topic_config_to_broker: bool = True
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    delete_topic_with_broker_registration: bool = False
    scan_not_active_broker_interval: int = 5_000
    """ms between two checks for brokers that stopped sending heartbeats."""
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    acl_enable: bool = False
    """Whether requests that change routes must be signed, by an account below `rocketmq_home` or as the inner
    client."""
    rocketmq_home: str = ""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """`{"accessKey":"...","secretKey":"..."}`, the same value as in the brokers."""

    def __post_init__(self) -> None:
        check_access(self.acl_enable, self.rocketmq_home, self.inner_client_authentication_credentials)
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: write a port number from 0 to 65535")
        if self.scan_not_active_broker_interval < 1:
            raise ConfigError(f"scanNotActiveBrokerInterval is {self.scan_not_active_broker_interval}: "
                              "write a number of ms above 0")


UPDATABLE_KEYS = frozenset({
    "orderMessageEnable", "returnOrderTopicConfigToBroker", "enableAllTopicList", "enableTopicList",
    "deleteTopicWithBrokerRegistration", "scanNotActiveBrokerInterval", "needWaitForService", "waitSecondsForService",
    "supportActingMaster", "notifyMinBrokerIdChanged"})
"""Keys that UPDATE_NAMESRV_CONFIG changes at run time."""

FORBIDDEN_KEYS = frozenset({"configBlackList", "configStorePath", "innerClientAuthenticationCredentials",
                            "kvConfigPath", "rocketmqHome"})
"""Keys that no request may change; the answer is NO_PERMISSION."""
