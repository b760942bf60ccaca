"""Settings of the clients, under RocketMQ's names."""

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

    # Identity
    instance_name: str = "DEFAULT"
    """Part of the client id. `DEFAULT` becomes `<process id>#<number>`, which is unique. Two members of a group with
    one client id get the same messages."""
    unit_name: str = ""
    """Text that is appended to the client id."""
    client_ip: str = ""
    """Address in client ids and unique keys. Empty: the client finds out its own."""

    # Intervals and time-outs
    poll_name_server_interval: int = 30_000
    """[ms] Pause between two refreshes of the routes in use. Less notices new queues and brokers sooner."""
    heartbeat_broker_interval: int = 30_000
    """[ms] Pause between two heartbeats. A broker drops a client that is silent for 120 s."""
    persist_consumer_offset_interval: int = 5_000
    """[ms] Pause between two stores of consumer offsets. After a crash a group gets again what it consumed in this
    time."""
    mq_client_api_timeout: int = 3_000
    """[ms] Longest wait for the answer to a request for routes or of administration."""
    connect_timeout: int = 3_000
    """[ms] Longest wait for a connection."""
    back_pressure_for_async_send_num: int = 256
    """[sends] How many are in progress on a connection; the others wait for their turn. 0: no limit."""

    # Access
    access_key: str = ""
    """With `secret_key`: the account or user by which every request is signed."""
    secret_key: str = field(default="", repr=False)
    """Secret of that account or user."""
    tls: TlsConfig = PLAIN
    """TLS of all connections: `tls_enable` and the fields of `tls_client` count."""

    def __post_init__(self) -> None:
        _at_least(self, 1, "poll_name_server_interval", "heartbeat_broker_interval", "persist_consumer_offset_interval",
                  "mq_client_api_timeout", "connect_timeout")
        _at_least(self, 0, "back_pressure_for_async_send_num")
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigError("access_key and secret_key belong together: set both or none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    # Time and retries
    send_msg_timeout: int = 3_000
    """[ms] Time for all attempts of a send together, from its turn on. More survives longer outages, and callers wait
    longer for an error."""
    send_msg_max_timeout_per_request: int = -1
    """[ms] Time for each attempt but the last. -1: the rest of the time, divided by the attempts that are left."""
    java_budget: bool = False
    """On: as in RocketMQ the time starts at the call, and each attempt may take all that is left, so that a silent
    broker leaves none for retries."""
    retry_times_when_send_failed: int = 2
    """[retries] Attempts after the first one."""
    retry_as_async_send: bool = False
    """On: RocketMQ's rule for asynchronous sends, which retries at the same broker and never after a refusal."""
    retry_times_when_send_async_failed: int = 2
    """[retries] Attempts after the first one while `retry_as_async_send` is on."""
    retry_refused_connection: bool = True
    """On: while no broker accepts connections, the last one is tried again after 50, 100 ... ms without using up
    attempts. Off: a refused connection counts as any failure."""
    retry_without_answer: bool = True
    """On: a send without an answer is sent again, and its message may be stored twice. Off: it is sent once, and may be
    stored although it fails."""
    retry_another_broker_when_not_store_ok: bool = False
    """Whether a message that is stored, but not on disk or at a slave in time, is sent to another broker as well. On
    stores it twice."""
    retry_response_codes: frozenset[int] | None = None
    """Refusals after which a send is tried again. None: those of RocketMQ 5.3."""
    throttle_back_off: bool = True
    """On: a broker that answers `SYSTEM_BUSY` is left alone for a while. Off: it is asked again at once, as by
    RocketMQ."""

    # Choice of a broker
    send_latency_fault_enable: bool = False
    """Whether slow brokers are avoided for a while: the same as `isolation_strategy` `LATENCY`."""
    isolation_strategy: IsolationStrategy = IsolationStrategy.NONE
    """How brokers that were slow or failed are avoided. `NONE`: only within the attempts of one send."""

    # Messages
    max_message_size: int = 4 << 20
    """[bytes] Largest body before compression. More needs the broker's `maxMessageSize` as well."""
    compress_msg_body_over_howmuch: int = 4096
    """[bytes] Bodies of this size and above are compressed. Less saves network and disk, and costs processor time."""
    compress_level: int = 5
    """[level] 0 to 9. More makes bodies smaller and takes longer."""
    compress_type: CompressType = CompressType.ZLIB
    """Format of compressed bodies, which all consumers must know. RocketMQ before 5 knows `ZLIB` only."""

    # Topics that the first send creates
    default_topic_queue_nums: int = 4
    """[queues] How many such a topic gets, as far as the broker allows."""
    create_topic_key: str = "TBW102"
    """Topic that is the template of such a topic."""

    # Batches and memory
    auto_batch: bool = False
    """On: concurrent sends are gathered into batches. Many sends become faster, a single one slower, and each batch
    goes to one queue."""
    batch_max_delay_ms: int = 10
    """[ms] How long a send may wait for others. More makes larger batches. 0: only sends of the same moment are
    gathered."""
    batch_max_bytes: int = 32 << 10
    """[bytes] Bodies and properties at which a batch is sent."""
    total_batch_max_bytes: int = 32 << 20
    """[bytes] Bodies and properties that wait in all batches together; above it sends are not gathered."""
    back_pressure_for_async_send_size: int = 32 << 20
    """[bytes] Bodies and properties that a producer has in progress; the other sends wait for their turn. 0: no
    limit."""
    await_termination_millis_when_shutdown: int = 10_000
    """[ms] How long `shutdown` continues to send what was accepted before it. What is left then fails with
    `SendCutOff`."""

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
    """Raises ConfigError for a value that makes no sense."""

    # The file
    sends_max: int = 100_000
    """[sends] Most in the file, those that were given up included. A failed send beyond it is not kept."""
    size_max: int = 256 << 20
    """[bytes] Most of their messages together."""

    # When they are sent again
    attempts_max: int = 16
    """[attempts] Attempts that reached a broker, after which a send is given up."""
    age_max_ms: int = 7 * 24 * 3_600_000
    """[ms] Age at which a send that still fails is given up."""
    rest_ms: int = 1_000
    """[ms] Pause of a topic, or of a chosen queue, after a failure. It doubles with each further failure."""
    rest_ms_max: int = 30 * 60_000
    """[ms] Longest such pause while a broker refuses."""
    away_rest_ms_max: int = 30_000
    """[ms] Longest such pause while no broker is there or one asks for fewer requests. Less resends sooner after an
    outage."""
    poll_ms: int = 1_000
    """[ms] Pause between two looks for sends of other processes, and for processes that ended."""
    tell_ms: int = 60_000
    """[ms] Pause between two reports of sends that were given up. All of that time are one report."""

    def __post_init__(self) -> None:
        _between(self, 1, 10_000_000, "sends_max")
        _between(self, 1, 1 << 40, "size_max")
        _between(self, 1, 1_000, "attempts_max")
        _between(self, 1, 365 * 24 * 3_600_000, "age_max_ms")
        _between(self, 1, 24 * 3_600_000, "rest_ms", "rest_ms_max", "away_rest_ms_max", "tell_ms")
        _between(self, 1, 60_000, "poll_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerConfig(ClientConfig):
    # What is consumed
    message_model: MessageModel = MessageModel.CLUSTERING
    """`CLUSTERING`: each message goes to one member of the group. `BROADCASTING`: each goes to every member, and
    failures are not retried."""
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a group without a stored offset starts: at the end, at the beginning, or at `consume_timestamp`."""
    consume_timestamp: int | None = None
    """[ms since 1970] Start for `CONSUME_FROM_TIMESTAMP`. None: 30 minutes before the consumer starts."""
    message_request_mode: MessageRequestMode = MessageRequestMode.PULL
    """`PULL`: the queues are divided among the members. `POP`: the broker gives each message to any member, for a time.
    All members of a group must have the same."""
    allocate_message_queue_strategy: str = "AVG"
    """How queues are divided among the members: `AVG`, `AVG_BY_CIRCLE` or `CONSISTENT_HASH`. All members must have the
    same, or queues have two owners or none."""
    post_subscription_when_pull: bool = False
    """Whether each pull carries the subscription. On makes requests larger; off, the broker has it from heartbeats."""

    # Calls of the listener
    consume_orderly: bool = False
    """On: each queue is consumed in order, one call at a time, and a failing message holds up its queue."""
    consume_thread_max: int = 20
    """[calls] How many run at the same time. More consumes faster if the listener waits for others."""
    consume_message_batch_max_size: int = 1
    """[messages] Most that one call gets."""
    consume_rate_max: float = 0.0
    """[messages a second] Most that the listener gets. 0: as fast as it takes them."""
    consume_burst_max: int = 0
    """[messages] Most of them at once after a pause. 0: those of one second."""
    consume_timeout: int = 15 * 60_000
    """[ms] A call that takes longer counts as failed: its messages come again, here or at another member. Set it longer
    than any call takes. Where messages are popped, it counts from their receipt."""

    # Retries
    max_reconsume_times: int = -1
    """[retries] How often a failed message comes again before it is a dead letter. -1: what the group is set to (16),
    and without end when consuming in order. Where messages are popped, the group's number counts."""
    share_max_reconsume_times: bool = True
    """On: the number is set for the whole group, and the last member to set it wins. Off: it goes with each request, as
    in RocketMQ."""
    with_causes: bool = True
    """On: failed messages carry why they failed, the exception with its stack, into their retry copies and dead
    letters. Off: nothing of an exception leaves the consumer."""
    suspend_current_queue_time_millis: int = 1_000
    """[ms] Pause of a queue that is consumed in order after a failure. Less tries again sooner, and uses up
    `max_reconsume_times` sooner."""

    # Pulls
    pull_batch_size: int = 32
    """[messages] Most that one pull asks for. The broker's `maxTransferCountOnMessageInMemory` limits it."""
    pull_interval: int = 0
    """[ms] Pause between two pulls of a queue. More slows the queue down."""
    pull_time_delay_when_exception: int = 1_000
    """[ms] Pause of a queue after a pull that failed."""
    broker_suspend_max_time: int = 15_000
    """[ms] How long a broker may hold a pull that finds nothing. More saves requests of quiet queues."""
    consumer_timeout_when_suspend: int = 30_000
    """[ms] Time after which a pull without an answer counts as lost. Must be more than `broker_suspend_max_time`."""
    rebalance_interval: int = 20_000
    """[ms] Pause between two divisions of the queues, besides those when a member joins or leaves."""

    # Cached messages
    pull_threshold_for_queue: int = 1000
    """[messages] Cached messages of a queue above which its pulls pause. Less saves memory, more keeps the listener
    busy."""
    pull_threshold_size_for_queue: int = 100
    """[MiB] Cached bodies of a queue above which its pulls pause."""
    consume_concurrently_max_span: int = 2000
    """[offsets] Distance between the first and the last cached message of a queue above which its pulls pause. Less
    repeats fewer messages after a crash, and lets one slow message hold up the queue sooner."""
    pull_threshold_for_topic: int = -1
    """[messages] The same for a topic, divided among its queues here. -1: no limit."""
    pull_threshold_size_for_topic: int = -1
    """[MiB] Cached bodies of a topic, divided among its queues here. -1: no limit."""
    pull_threshold_size_for_all_queues: int = 256
    """[MiB] Cached bodies of all topics, divided among all queues here. -1: no limit, as in RocketMQ."""

    # Pops
    pop_invisible_time: int = 60_000
    """[ms] How long a message is invisible to others; prolonged until `consume_timeout`. Less redelivers sooner after a
    consumer is killed, and prolongs more often."""
    pop_batch_nums: int = 32
    """[messages] Most that one receive asks for."""
    max_cache_message_count: int = 1024
    """[messages] Received and not finished, of all topics; at it no more are received."""
    max_cache_message_size_in_bytes: int = 64 << 20
    """[bytes] Bodies of these; receives in progress may go beyond it."""
    fifo_retry_interval: int = 3_000
    """[ms] When consuming in order, pause until a failed message is tried again."""

    # End and offsets of a consumer
    await_termination_millis_when_shutdown: int = 3_000
    """[ms] How long `shutdown` waits for calls of the listener. Messages of calls that are cut off come again."""
    offset_store_path: str = ""
    """Directory of the offsets of `BROADCASTING`. Empty: `~/.rocketmq_offsets`."""

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
    # Receiving
    await_duration: int = 20_000
    """[ms] How long a receive waits for the first message. More saves requests; 0 returns at once."""
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    """Where a new group starts: at the end or at the beginning."""
    request_timeout: int = 3_000
    """[ms] Longest wait for the answer to any other request."""

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
