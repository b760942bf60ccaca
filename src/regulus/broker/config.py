"""What a broker is set to. Names are RocketMQ's keys in snake_case; times are in ms, sizes in bytes.

Source: BrokerConfig, MessageStoreConfig.
"""

from dataclasses import dataclass

from regulus.errors import ConfigError
from regulus.model import permission
from regulus.model.message_id import is_numeric_address
from regulus.model.store_rules import StoreRules
from regulus.model.topics import TRACE_TOPIC, name_fault

_MESSAGE_SIZE_MAX = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(StoreRules):
    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str = ""
    """The address that clients get; empty takes the one at which each of them reached us."""
    listen_port: int = 10911
    namesrv_addr: str = ""
    broker_permission: int = permission.READ_WRITE

    # topics and groups
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = TRACE_TOPIC

    # sending
    max_message_size: int = 4 << 20
    """Of the body that a client sends. What is stored already moves on whatever its size: a retry, a delivery."""
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    start_accept_send_request_time_stamp: int = 0
    """Sends before this time are refused; 0 accepts at once."""
    reject_transaction_message: bool = False
    flush_delay_offset_interval: int = 10_000
    """All offsets are saved together, after the shorter one of this and `flush_consumer_offset_interval`."""
    sink_marks_max: int = 10_000
    """Writers of sinks whose last message is remembered, so that repeated sends append nothing."""

    # transactions
    transaction_check_interval: int = 30_000
    """Between two runs that ask producers for open transactions."""
    transaction_time_out: int = 6_000
    """A half message is not asked for before this age, unless its producer gave it another."""
    transaction_check_max: int = 15
    """A half message that was asked for so often is given up."""

    # pulling
    max_transfer_bytes_on_message_in_memory: int = 262_144
    max_transfer_count_on_message_in_memory: int = 32
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1000
    lite_pull_message_enable: bool = True
    flush_consumer_offset_interval: int = 5000
    use_server_side_reset_offset: bool = True

    # queries
    default_query_max_num: int = 32

    # name servers
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000

    def __post_init__(self) -> None:
        StoreRules.__post_init__(self)   # with slots, super() would look for a class that is gone
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            fault = name_fault(name)
            if fault is not None:
                raise ConfigError(f"{key} {name!r} cannot name a topic: {fault}")
        if self.broker_id:
            raise ConfigError(f"brokerId is {self.broker_id}: replicas are not served, and every broker here is the "
                              "only one of its name; write 0 and a brokerName of its own")
        if not 1 <= self.max_message_size <= _MESSAGE_SIZE_MAX:
            raise ConfigError(f"maxMessageSize is {self.max_message_size}: write 1 to {_MESSAGE_SIZE_MAX}")
        if self.broker_ip1 and not is_numeric_address(self.broker_ip1):
            raise ConfigError(f"brokerIP1 is {self.broker_ip1!r}: write a numeric address, as messages keep it in 4 or "
                              "16 bytes; left out, it is the one by which this machine reaches the name server")
        if not 0 <= self.listen_port <= 65535:
            raise ConfigError(f"listenPort is {self.listen_port}: write 0 (any free port) to 65535")
        for key, number in (("defaultTopicQueueNums", self.default_topic_queue_nums),
                            ("defaultQueryMaxNum", self.default_query_max_num),
                            ("flushConsumerOffsetInterval", self.flush_consumer_offset_interval),
                            ("flushDelayOffsetInterval", self.flush_delay_offset_interval),
                            ("registerNameServerPeriod", self.register_name_server_period),
                            ("registerBrokerTimeoutMills", self.register_broker_timeout_mills),
                            ("shortPollingTimeMills", self.short_polling_time_mills),
                            ("transactionCheckInterval", self.transaction_check_interval),
                            ("transactionCheckMax", self.transaction_check_max),
                            ("sinkMarksMax", self.sink_marks_max),
                            ("maxTransferCountOnMessageInMemory", self.max_transfer_count_on_message_in_memory),
                            ("maxTransferBytesOnMessageInMemory", self.max_transfer_bytes_on_message_in_memory)):
            if number < 1:
                raise ConfigError(f"{key} is {number}: write 1 or more")
