"""Settings of the proxy for RocketMQ 5 clients, with RocketMQ's names.

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
"""Settings whose lowest value is 1. With 0, all calls or messages of a kind would be refused, or a loop would run
without a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """Settings of `regulus proxy`, and of the gRPC port of `regulus up`. Raises ConfigError for an impossible value."""

    # Addresses
    namesrv_addr: str = ""
    """Name servers through which `regulus proxy` finds its brokers, `host:port;host:port`. `regulus up` needs none."""
    grpc_server_port: int = 8081
    """[port] Port of gRPC clients. 0 takes any free one, -1 opens none."""
    bind_address: str = "0.0.0.0"
    """Address to listen at. `0.0.0.0`: all IPv4 addresses of the machine; `regulus up` has 127.0.0.1 instead."""
    connections_max: int = 10_000
    """[connections] Most that may be open; the next one is closed as soon as it is accepted."""

    # Access
    broker_tls: TlsConfig = PLAIN
    """TLS towards brokers; in a file it is `tls.enable` and the keys of `tls.client`."""
    access_key: str = ""
    """With `secret_key`: the account by which `regulus proxy` signs requests to brokers and name servers."""
    secret_key: str = field(default="", repr=False)
    """Secret of that account."""
    acl_enable: bool = False
    """Whether each call must be signed by an account of `rocketmq_home`. Without it and `authentication_enabled`, each
    client of `regulus proxy` may do what the account of `access_key` may."""
    rocketmq_home: str = ""
    """Directory with the accounts, in `conf/plain_acl.yml`."""
    authentication_enabled: bool = False
    """Whether each call must be signed by a user of the brokers."""
    authorization_enabled: bool = False
    """Whether policies limit what users may do. Off: each user may do everything."""

    # Messages
    max_message_size: int = 4 << 20
    """[bytes] Largest body of a message. A client gets the number and refuses larger ones itself."""
    enable_message_body_empty_check: bool = True
    """Whether a message with an empty body is refused."""
    max_user_property_size: int = 16 << 10
    """[bytes] Largest total of names and values of a message's properties, with its tag and keys. More is refused."""
    user_property_max_num: int = 128
    """[properties] Most properties that a client may set on a message; more are refused."""
    max_message_group_size: int = 64
    """[bytes] Length from which a message group is refused; the longest one has one byte less."""
    enable_topic_message_type_check: bool = True
    """Whether a message must be of a type that its topic's `message.type` allows."""
    untyped_topics_take_all: bool = True
    """On: a topic without `message.type` accepts every type. Off: it accepts `NORMAL` only, as with RocketMQ."""
    max_delay_time_mills: int = 86_400_000
    """[ms] Longest time until delivery that a message may ask for. The broker's `timerMaxDelaySec` counts as well."""
    max_transaction_recovery_second: int = 3_600
    """[s] Longest delay that a message may ask for before its open transaction is checked. More is refused."""

    # Receiving
    default_invisible_time_mills: int = 60_000
    """[ms] How long a message that a push consumer received is first invisible to others. Less redelivers sooner after
    a proxy is killed, and renews more often."""
    min_invisible_time_mills_for_recv: int = 10_000
    """[ms] Shortest invisible time that a receive may ask for; less is refused."""
    max_invisible_time_mills: int = 43_200_000
    """[ms] Longest invisible time that a client may ask for; more is refused."""
    invisible_time_millis_when_clear: int = 1_000
    """[ms] Time after which other consumers get the messages that a push consumer held when it ended."""
    grpc_client_consumer_min_long_polling_timeout_millis: int = 5_000
    """[ms] Shortest wait of a receive that finds nothing. More saves calls from clients that ask for very short
    waits."""
    grpc_client_consumer_max_long_polling_timeout_millis: int = 20_000
    """[ms] Longest wait of a receive that finds nothing. More saves calls from idle consumers."""
    grpc_client_consumer_long_polling_batch_size: int = 32
    """[messages] How many messages push consumers ask for in one receive. More saves calls, and lets one consumer hold
    messages that others could work on."""
    long_polling_reserve_time_in_millis: int = 1_000
    """[ms] How long before a client's deadline a receive stops waiting. Less lets answers come too late, so that their
    messages have to be given back."""

    # Renewal of invisible time
    enable_proxy_auto_renew: bool = True
    """Whether messages that a push consumer works on are kept invisible for as long as it works. Off: a slow listener's
    message goes to another consumer as well."""
    renew_schedule_period_millis: int = 5_000
    """[ms] Pause after a failed renewal. Renewals also begin this much earlier than `renew_ahead_time_millis` says."""
    renew_ahead_time_millis: int = 10_000
    """[ms] How long before a message becomes visible it is renewed, in addition to `renew_schedule_period_millis`. More
    survives longer outages of a broker."""
    renew_max_time_millis: int = 10_800_000
    """[ms] Longest time that renewals keep a message invisible, counted from its receipt. After it another consumer
    gets the message."""
    max_renew_retry_times: int = 3
    """[attempts] Failed renewals in a row after which the proxy gives up. The message becomes visible when its current
    time ends."""
    renewals_max: int = 200_000
    """[messages] Most that are kept invisible at once. Further ones become visible when their first time ends."""

    # Retries of producers
    grpc_client_producer_max_attempts: int = 3
    """[attempts] How often a client tries one send before it fails."""
    grpc_client_producer_backoff_initial_millis: int = 10
    """[ms] Pause before a client's second attempt."""
    grpc_client_producer_backoff_max_millis: int = 1_000
    """[ms] Longest pause between a client's attempts."""
    grpc_client_producer_backoff_multiplier: int = 2
    """[times] How many times as long as the one before it each such pause is."""

    # Limits
    channel_expired_timeout: int = 120_000
    """[ms] Silence after which a client without a telemetry stream counts as gone, and others get its messages. Less
    frees messages of a killed client sooner, and redelivers those of one whose network fails for a moment."""
    calls_max: int = 4_096
    """[calls] Most in progress, receives and streams not counted; the next one is answered `TOO_MANY_REQUESTS`."""
    calls_size_max: int = 512 << 20
    """[bytes] Room for the requests of all calls in progress. Above it the largest calls of the connection that holds
    most end with `RESOURCE_EXHAUSTED`."""
    answers_size_max: int = 256 << 20
    """[bytes] Room for answers that clients do not read. Above it the connection with the most is closed."""
    receive_streams_max: int = 20_000
    """[calls] Most receives in progress; the next one is answered `TOO_MANY_REQUESTS`."""
    telemetry_streams_max: int = 20_000
    """[streams] Most telemetry streams, one or more for each client; the next one is answered `TOO_MANY_REQUESTS`."""
    grpc_max_inbound_message_size: int = 130 << 20
    """[bytes] Largest gRPC message that a client may send, whatever it contains."""
    metadata_size_max: int = 16 << 10
    """[bytes] Largest total of a call's headers; above it the call ends with `RESOURCE_EXHAUSTED`."""

    @property
    def guard(self) -> str:
        """The key of the setting that requires signed calls; empty if none does."""
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
