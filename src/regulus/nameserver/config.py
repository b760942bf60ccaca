"""Configuration of a name server. Source: NamesrvConfig, NettyServerConfig."""

from dataclasses import dataclass, field

from regulus.access.credentials import check_access
from regulus.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvConfig:
    # Address and routes
    bind_address: str = "0.0.0.0"
    """Address to listen at. `0.0.0.0`: all IPv4 addresses of the machine."""
    listen_port: int = 9876
    """[port] Port of brokers and clients. 0 takes any free one. `regulus up` uses `--namesrv-port` instead."""
    kv_config_path: str = ""
    """File that keeps the key-value configuration. Empty: it is kept in memory only, and a restart forgets it."""
    scan_not_active_broker_interval: int = 5_000
    """[ms] Pause between two checks for brokers that fell silent. More keeps dead brokers in routes for longer."""
    delete_topic_with_broker_registration: bool = False
    """On: a topic that is missing from a broker's registration is removed from that broker's routes. Off: it is
    removed on request, or when the broker deleted a retry topic itself and its registration says so."""

    # Answers
    order_message_enable: bool = False
    """Whether route answers carry the order configuration of their topic."""
    return_order_topic_config_to_broker: bool = True
    """Whether brokers get the order configuration of all topics when they register."""
    enable_all_topic_list: bool = True
    """Whether the list of all topics is answered. Off hides it from clients and tools."""
    enable_topic_list: bool = True
    """Whether lists of some topics (of a cluster, or with unit flags) are answered."""
    need_wait_for_service: bool = False
    """On: for `wait_seconds_for_service` after a start routes are answered 1 `name server not ready`. Off: a topic
    whose brokers have not registered yet is answered 17 (no such topic), for 5 s at most."""
    wait_seconds_for_service: int = 45
    """[s] How long that lasts after a start."""
    support_acting_master: bool = False
    """On: where the master is gone, the slave of the lowest id is shown as the master, if the broker allows it and the
    topic is not writable."""
    notify_min_broker_id_changed: bool = False
    """Whether brokers are notified when the lowest id of their name changes."""

    # Access
    acl_enable: bool = False
    """Whether requests that change routes must be signed, by an account of `rocketmq_home` or as the inner client."""
    rocketmq_home: str = ""
    """Directory with the accounts, in `conf/plain_acl.yml` and `conf/acl`."""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """`{"accessKey":"...","secretKey":"..."}`, the same as at the brokers: how they sign their registrations."""

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
