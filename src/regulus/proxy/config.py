"""Settings of the gRPC front, under RocketMQ's names. Times are ms and sizes bytes unless a unit is written.

Source: ProxyConfig.
"""

from dataclasses import dataclass, field

from regulus.access.credentials import check_users
from regulus.errors import ConfigError
from regulus.transport.tls import PLAIN, TlsConfig
from regulus.wire.config_text import config_key

_AT_LEAST_ONE = ("max_message_size", "max_user_property_size", "user_property_max_num", "max_message_group_size",
                 "max_invisible_time_mills", "default_invisible_time_mills",
                 "grpc_client_consumer_long_polling_batch_size",
                 "grpc_client_producer_max_attempts", "renew_schedule_period_millis", "grpc_max_inbound_message_size",
                 "calls_max", "calls_size_max", "answers_size_max",
                 "telemetry_streams_max", "receive_streams_max", "renewals_max", "metadata_size_max")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """`namesrv_addr` is where the brokers are found when the front stands alone."""

    namesrv_addr: str = ""
    grpc_server_port: int = 8081            # 0 takes a free one; -1 opens none, -2 was not said
    bind_address: str = "0.0.0.0"
    broker_tls: TlsConfig = PLAIN           # its tls_enable and tls_client_... count, towards brokers
    access_key: str = ""                    # with secret_key: requests to brokers and name servers are signed
    secret_key: str = field(default="", repr=False)
    acl_enable: bool = False                # clients sign, as accounts of rocketmqHome/conf/plain_acl.yml
    rocketmq_home: str = ""
    authentication_enabled: bool = False    # clients sign, as users of the brokers
    authorization_enabled: bool = False
    grpc_max_inbound_message_size: int = 130 << 20
    max_message_size: int = 4 << 20         # of a body
    enable_message_body_empty_check: bool = True
    max_user_property_size: int = 16 << 10  # of all names and values of a message
    user_property_max_num: int = 128
    max_message_group_size: int = 64
    enable_topic_message_type_check: bool = True
    untyped_topics_take_all: bool = True    # a topic without message.type counts as MIXED; False: NORMAL, as RocketMQ
    max_delay_time_mills: int = 86_400_000
    max_transaction_recovery_second: int = 3_600
    default_invisible_time_mills: int = 60_000
    min_invisible_time_mills_for_recv: int = 10_000
    max_invisible_time_mills: int = 43_200_000
    invisible_time_millis_when_clear: int = 1_000
    grpc_client_producer_max_attempts: int = 3
    grpc_client_producer_backoff_initial_millis: int = 10
    grpc_client_producer_backoff_max_millis: int = 1_000
    grpc_client_producer_backoff_multiplier: int = 2
    grpc_client_consumer_min_long_polling_timeout_millis: int = 5_000
    grpc_client_consumer_max_long_polling_timeout_millis: int = 20_000
    grpc_client_consumer_long_polling_batch_size: int = 32
    long_polling_reserve_time_in_millis: int = 1_000    # left of a client's deadline when its poll is answered
    enable_proxy_auto_renew: bool = True
    renew_schedule_period_millis: int = 5_000
    renew_ahead_time_millis: int = 10_000
    renew_max_time_millis: int = 10_800_000
    max_renew_retry_times: int = 3
    channel_expired_timeout: int = 120_000  # a client that was not heard of for so long is forgotten
    calls_max: int = 4_096                  # under way, receives and streams not counted
    calls_size_max: int = 512 << 20         # of their requests
    answers_size_max: int = 256 << 20       # bytes that wait for clients which are slow; then the slowest is closed
    receive_streams_max: int = 20_000       # under way
    telemetry_streams_max: int = 20_000
    renewals_max: int = 200_000             # messages that are renewed; above it they become visible in their time
    connections_max: int = 10_000
    metadata_size_max: int = 16 << 10       # of one call's headers

    @property
    def guard(self) -> str:
        """The key that has clients sign; empty for none."""
        return "aclEnable" if self.acl_enable else "authenticationEnabled" if self.authentication_enabled else ""

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ConfigError(f"{config_key(name)} is {getattr(self, name)}: write 1 or more")
        if not -2 <= self.grpc_server_port <= 65_535:
            raise ConfigError(f"grpcServerPort is {self.grpc_server_port}: write 0 to 65535, or -1 for none")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("accessKey and secretKey belong together: set both or none")
        check_users(self.authentication_enabled, self.authorization_enabled, self.acl_enable, "")
        if self.acl_enable and not self.rocketmq_home:
            raise ConfigError("aclEnable=true, and rocketmqHome is empty: set it to the folder whose "
                              "conf/plain_acl.yml has the accounts")
