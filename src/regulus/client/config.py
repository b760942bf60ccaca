"""Settings of the clients, under RocketMQ's names. Times are ms and sizes bytes unless a unit is written."""

from dataclasses import dataclass, field
from enum import StrEnum

from regulus.client.core.rebalance import STRATEGIES
from regulus.errors import ConfigError
from regulus.transport.tls import PLAIN, TlsConfig

_RATE_MIN, _RATE_MAX = 0.001, 1_000_000


class MessageModel(StrEnum):
    CLUSTERING = "CLUSTERING"
    """The queues are divided among the instances of the group."""
    BROADCASTING = "BROADCASTING"
    """Every instance consumes every message; offsets are kept in a local file, failures are not retried."""


class ConsumeFromWhere(StrEnum):
    """Where a group starts that has no stored offset. Retry topics always start at 0."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class MessageRequestMode(StrEnum):
    """How a push consumer gets its messages over rocketmq://. Over grpc:// it pops. Source: MessageRequestMode."""

    PULL = "PULL"
    """The queues are divided among the instances of the group."""
    POP = "POP"
    """The messages are: the broker gives each to one of them, for a time."""


class CompressType(StrEnum):
    ZLIB = "ZLIB"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"


class IsolationStrategy(StrEnum):
    """How a producer keeps away from brokers that were slow or failed; see `core.fault_isolation`."""

    NONE = "NONE"
    LATENCY = "LATENCY"
    LATENCY_4_9 = "LATENCY_4_9"
    FAILURE_TIME = "FAILURE_TIME"
    FLAG = "FLAG"
    COUNTER = "COUNTER"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What all clients of a process have in common."""

    instance_name: str = "DEFAULT"          # part of the client id; DEFAULT becomes <process id>#<number>
    unit_name: str = ""                     # appended to the client id when set
    client_ip: str = ""                     # the address in client ids and unique keys; empty: found out
    poll_name_server_interval: int = 30_000     # between two refreshes of the routes in use
    heartbeat_broker_interval: int = 30_000
    persist_consumer_offset_interval: int = 5_000
    mq_client_api_timeout: int = 3_000      # of route and admin calls
    connect_timeout: int = 3_000
    back_pressure_for_async_send_num: int = 256    # sends under way on a connection; more wait in turn. 0: no limit
    access_key: str = ""                    # with secret_key: every request is signed
    secret_key: str = field(default="", repr=False)
    tls: TlsConfig = PLAIN                  # its tls_enable and tls_client_... count

    def __post_init__(self) -> None:
        _at_least(self, 1, "poll_name_server_interval", "heartbeat_broker_interval", "persist_consumer_offset_interval",
                  "mq_client_api_timeout", "connect_timeout")
        _at_least(self, 0, "back_pressure_for_async_send_num")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("access_key and secret_key belong together: set both or none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    send_msg_timeout: int = 3_000           # of a send from its turn on, shared by all its attempts
    send_msg_max_timeout_per_request: int = -1  # of one attempt but the last; -1: what is left / attempts left
    java_budget: bool = False               # as RocketMQ: from the call on; each attempt may take all that is left
    retry_times_when_send_failed: int = 2
    retry_as_async_send: bool = False       # RocketMQ's rule for asynchronous sends: the same broker, no refusal again
    retry_times_when_send_async_failed: int = 2     # then
    retry_refused_connection: bool = True   # by the last broker, after 50, 100 ... ms; False: as any failure
    retry_without_answer: bool = True       # False: what was sent and not answered may be stored, and goes once
    retry_another_broker_when_not_store_ok: bool = False
    retry_response_codes: frozenset[int] | None = None      # None: those of RocketMQ 5.3
    throttle_back_off: bool = True          # wait after SYSTEM_BUSY; False: retry at once, as RocketMQ does
    compress_msg_body_over_howmuch: int = 4096      # compress bodies of this size and above
    compress_level: int = 5                 # 0 .. 9
    compress_type: CompressType = CompressType.ZLIB
    max_message_size: int = 4 << 20         # of a body before compression
    default_topic_queue_nums: int = 4       # of a topic that the first send creates
    create_topic_key: str = "TBW102"
    send_latency_fault_enable: bool = False     # the same as isolation_strategy LATENCY
    isolation_strategy: IsolationStrategy = IsolationStrategy.NONE
    auto_batch: bool = False                # gather concurrent sends into batches
    batch_max_delay_ms: int = 10            # how long a send may wait for others; 0: only for those of this moment
    batch_max_bytes: int = 32 << 10         # of bodies and properties
    total_batch_max_bytes: int = 32 << 20   # of all sends that wait; above it they go directly
    back_pressure_for_async_send_size: int = 32 << 20   # of bodies and properties under way. 0: no limit
    await_termination_millis_when_shutdown: int = 10_000    # in which shutdown sends what was accepted

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        _at_least(self, 1, "send_msg_timeout", "max_message_size", "default_topic_queue_nums", "batch_max_bytes",
                  "total_batch_max_bytes")
        _at_least(self, 0, "retry_times_when_send_failed", "retry_times_when_send_async_failed",
                  "compress_msg_body_over_howmuch", "batch_max_delay_ms", "back_pressure_for_async_send_size",
                  "await_termination_millis_when_shutdown")
        _at_least(self, -1, "send_msg_max_timeout_per_request")
        _at_most(self, 9, "compress_level")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSendsConfig:
    """Of the sends that failed for good and are kept in a file: how much it holds, and when they are sent again."""

    sends_max: int = 100_000                # in the file, those that were given up included; above it none is kept
    size_max: int = 256 << 20               # of their messages
    attempts_max: int = 16                  # of one send, of those that reached a broker; then it is given up
    age_max_ms: int = 7 * 24 * 3_600_000    # of one that fails still; then it is given up
    rest_ms: int = 1_000                    # of a topic, or chosen queue, that failed; twice as long after each failure
    rest_ms_max: int = 30 * 60_000          # ... where a broker was reached
    away_rest_ms_max: int = 30_000          # ... where none was, or it asks for fewer requests: most are back soon
    poll_ms: int = 1_000                    # how often to look for what other processes keep, and whether they ended
    tell_ms: int = 60_000                   # between two tellings of what was given up: those of a time are one

    def __post_init__(self) -> None:
        _between(self, 1, 10_000_000, "sends_max")
        _between(self, 1, 1 << 40, "size_max")
        _between(self, 1, 1_000, "attempts_max")
        _between(self, 1, 365 * 24 * 3_600_000, "age_max_ms")
        _between(self, 1, 24 * 3_600_000, "rest_ms", "rest_ms_max", "away_rest_ms_max", "tell_ms")
        _between(self, 1, 60_000, "poll_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerConfig(ClientConfig):
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp: int | None = None    # ms since 1970, for CONSUME_FROM_TIMESTAMP; None: 30 minutes before start
    allocate_message_queue_strategy: str = "AVG"
    consume_orderly: bool = False           # each queue in order, one call at a time
    consume_thread_max: int = 20            # listener calls at the same time
    consume_message_batch_max_size: int = 1     # messages of one listener call
    consume_rate_max: float = 0.0           # messages a second that the listener is given; 0: as fast as it takes them
    consume_burst_max: int = 0              # of them at once, after a pause; 0: those of one second
    pull_batch_size: int = 32
    pull_interval: int = 0
    pull_threshold_for_queue: int = 1000    # cached messages of a queue above which pulling pauses
    pull_threshold_size_for_queue: int = 100    # MiB
    consume_concurrently_max_span: int = 2000   # distance between first and last cached offset
    pull_threshold_for_topic: int = -1      # divided among the queues owned; -1: off
    pull_threshold_size_for_topic: int = -1     # MiB
    pull_threshold_size_for_all_queues: int = 256   # MiB, of all topics, divided among the queues owned; -1: off
    pull_time_delay_when_exception: int = 1_000
    broker_suspend_max_time: int = 15_000   # how long a broker may hold a pull that finds nothing
    consumer_timeout_when_suspend: int = 30_000     # after which a held pull counts as lost
    consume_timeout: int = 15 * 60_000      # a message in work longer than this is sent back
    max_reconsume_times: int = -1           # -1: what the group is set to (16)
    share_max_reconsume_times: bool = True  # the limit is set for the whole group; False: per request, as RocketMQ
    suspend_current_queue_time_millis: int = 1_000  # of orderly consumption: rest of a queue after a failure
    await_termination_millis_when_shutdown: int = 3_000     # how long shutdown waits for listener calls under way
    rebalance_interval: int = 20_000
    post_subscription_when_pull: bool = False   # send the tag expression with each pull
    offset_store_path: str = ""             # of broadcasting; empty: ~/.rocketmq_offsets
    message_request_mode: MessageRequestMode = MessageRequestMode.PULL
    # What follows counts where messages are popped; there max_reconsume_times is the group's, or 16.
    pop_invisible_time: int = 60_000        # for which a message is nobody else's; prolonged until consume_timeout
    pop_batch_nums: int = 32                # of one receive
    max_cache_message_count: int = 1024     # received and not done, of all topics; at it no more are received
    max_cache_message_size_in_bytes: int = 64 << 20     # of their bodies; receives under way may go beyond it
    fifo_retry_interval: int = 3_000        # of orderly consumption: until a message that failed is tried again

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        _between(self, 1, 1000, "consume_thread_max")
        _between(self, 1, 1024, "consume_message_batch_max_size", "pull_batch_size")
        _between(self, 0, 65535, "pull_interval")
        rate = self.consume_rate_max
        if rate != 0 and not _RATE_MIN <= rate <= _RATE_MAX:        # nan, too, is refused
            raise ConfigError(f"consume_rate_max is {rate}; it must be 0, or {_RATE_MIN} to {_RATE_MAX}")
        _between(self, 0, _RATE_MAX, "consume_burst_max")
        _between(self, 1, 65535, "pull_threshold_for_queue", "consume_concurrently_max_span")
        _between(self, 1, 1024, "pull_threshold_size_for_queue")
        _at_least(self, 1, "consume_timeout", "broker_suspend_max_time", "rebalance_interval",
                  "pull_time_delay_when_exception")
        _at_least(self, -1, "max_reconsume_times", "pull_threshold_for_topic", "pull_threshold_size_for_topic",
                  "pull_threshold_size_for_all_queues")
        _at_least(self, self.broker_suspend_max_time + 1, "consumer_timeout_when_suspend")
        _between(self, 5_000, 300_000, "pop_invisible_time")
        _between(self, 1, 32, "pop_batch_nums")
        _at_least(self, 1, "max_cache_message_count", "max_cache_message_size_in_bytes", "fifo_retry_interval")
        if self.message_request_mode is MessageRequestMode.POP and self.message_model is MessageModel.BROADCASTING:
            raise ConfigError("message_request_mode is POP and message_model BROADCASTING: a popped message is given "
                              "to one instance alone; set one of them otherwise")
        if self.allocate_message_queue_strategy not in STRATEGIES:
            raise ConfigError(f"allocate_message_queue_strategy is {self.allocate_message_queue_strategy!r}; "
                              f"write one of {', '.join(STRATEGIES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerConfig(ClientConfig):
    await_duration: int = 20_000            # how long a receive waits for a message
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET    # where a new group begins
    request_timeout: int = 3_000            # of all else

    def __post_init__(self) -> None:
        ClientConfig.__post_init__(self)
        _between(self, 0, 300_000, "await_duration")
        _at_least(self, 1, "request_timeout")
        if self.consume_from_where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            raise ConfigError("consume_from_where is CONSUME_FROM_TIMESTAMP, which no broker knows of a group that "
                              "pops; set the group back with `regulus group reset`")


def _at_least(config: object, low: int, *keys: str) -> None:
    for key in keys:
        if getattr(config, key) < low:
            raise ConfigError(f"{key} is {getattr(config, key)}; it must be {low} or more")


def _at_most(config: object, high: int, *keys: str) -> None:
    for key in keys:
        if getattr(config, key) > high:
            raise ConfigError(f"{key} is {getattr(config, key)}; it must be {high} or less")


def _between(config: object, low: int, high: int, *keys: str) -> None:
    _at_least(config, low, *keys)
    _at_most(config, high, *keys)
