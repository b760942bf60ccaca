"""What a broker is set to. Names are RocketMQ's keys in snake_case; times are in ms, sizes in bytes.

Source: BrokerConfig, MessageStoreConfig.
"""

from dataclasses import dataclass, field

from regulus.access.credentials import check_access, check_users
from regulus.access.white_addresses import WhiteAddresses
from regulus.errors import ConfigError
from regulus.model import permission
from regulus.model.broker_role import BrokerRole
from regulus.model.message_id import is_numeric_address
from regulus.model.store_rules import StoreRules
from regulus.model.topics import TRACE_TOPIC, name_fault

_MESSAGE_SIZE_MAX = 1 << 30
_PIECE_SIZE_MAX = (4 << 20) - 12        # a slave of RocketMQ has room for no more, with its head


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(StoreRules):
    broker_name: str = "broker-a"
    broker_cluster_name: str = "DefaultCluster"
    broker_id: int = 0
    broker_ip1: str = ""
    """The address that clients get; empty takes the one at which each of them reached us."""
    listen_port: int = 10911
    vip_port_enable: bool = True
    """Whether requests are taken two ports below, too, as of clients with `vipChannelEnabled`."""
    namesrv_addr: str = ""
    broker_permission: int = permission.READ_WRITE

    # topics and groups
    auto_create_topic_enable: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    unlock_queues_on_close: bool = False
    """Whether queues that a member consumes in order are free for others as soon as its connection closes, not a minute
    after its last word. A member that has lost its connection alone may still be at work on a message then, beside the
    next one of the queue."""
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
    enable_property_filter: bool = False
    """Whether consumers may subscribe by SQL92 conditions, each of which reads all messages that it is asked about."""
    filter_data_clean_time_span: int = 86_400_000
    """consumerFilter.json forgets the condition of a group without consumers after so long."""
    expect_consumer_num_use_filter: int = 32
    max_error_rate_of_bloom_filter: int = 20
    """In percent. By these two a group has its places in the bit maps of RocketMQ, which reads consumerFilter.json only
    where they are its own."""

    recall_message_enable: bool = False
    """Whether a message that waits for its time can be taken back by its handle."""

    # popping
    pop_from_retry_probability: int = 20
    """In percent: so many pops look for messages to be tried again before all others, the rest behind them."""
    pop_from_retry_probability_for_priority: int = 0
    """The same of pops by priority: with 0 what is to be tried again waits for all others."""
    enable_retry_topic_v2: bool = False
    """Whether messages to be tried again go to `%RETRY%group+topic`; those in `%RETRY%group_topic` are read anyway."""

    enable_pop_buffer_merge: bool = False
    """Taken and shown as RocketMQ's. With either value each pop is in the log before it is answered."""
    enable_notify_after_pop_order_lock_release: bool = True
    """Whether who waits for a queue in order is answered when the time of what is out is over, and not only by the next
    message."""

    # queries
    default_query_max_num: int = 32

    # replicas
    broker_role: BrokerRole = BrokerRole.ALONE
    """What is written makes a master open a port for slaves, from which whoever reaches it gets the whole log."""
    ha_listen_port: int = 0
    """Of a master, for slaves; 0: the one after `listen_port`, or any where that may be any."""
    ha_master_address: str = ""
    """Where a slave copies from; empty takes what the name server says."""
    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    """A link on which nothing came for so long is closed."""
    ha_transfer_batch_size: int = 32_768
    ha_slave_fallbehind_max: int = 256 << 20
    """No answer waits for slaves that are further behind."""
    ha_slave_keep_max: int = 16 << 30
    """Old files wait for a connected slave that is no further behind, until the disk is full."""
    slave_timeout: int = 2_500              # RocketMQ's 3,000 is all the time that its clients have by default
    """The longest that an answer of a SYNC_MASTER waits for a slave."""

    in_sync_replicas: int = 2
    """So many brokers must have a message before a SYNC_MASTER says SEND_OK, itself among them. RocketMQ's default of 1
    waits for nobody."""
    min_in_sync_replicas: int = 1
    enable_auto_in_sync_replicas: bool = False
    """Where fewer slaves are there, wait for these alone, down to `min_in_sync_replicas` with the master."""
    all_ack_in_sync_state_set: bool = False
    """Wait for all slaves that are not further behind than `ha_slave_fallbehind_max`."""
    slave_read_enable: bool = False
    """Send consumers to a slave that are further behind than `access_message_in_memory_max_ratio`, as RocketMQ does."""
    access_message_in_memory_max_ratio: int = 40
    """Percent of the machine's memory that newer messages may take before old ones are read from a slave."""

    # who may do what
    acl_enable: bool = False
    """Whether requests are checked against the accounts below `rocketmq_home`."""
    rocketmq_home: str = ""
    """Accounts stand in its `conf/plain_acl.yml` and `conf/acl`."""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """`{"accessKey":"...","secretKey":"..."}`: how this broker signs what it asks of name servers and of its master,
    and an account of its own door that may do anything."""
    authentication_enabled: bool = False
    """Whether requests must be signed by a user of ACL 2.0."""
    authorization_enabled: bool = False
    """Whether users are held to their policies."""
    init_authentication_user: str = field(default="", repr=False)
    """`{"username":"...","password":"..."}`: a Super user that is made at a start where it is not there."""
    authentication_whitelist: str = ""
    """Request codes, with commas, that need no signature."""
    authorization_whitelist: str = ""
    """Request codes, with commas, that need a user and no policy."""
    ha_slave_white_addresses: str = ""
    """Who may copy the log, patterns as of accounts with `;` between them; empty: everybody who reaches the port."""

    # name servers
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000

    def __post_init__(self) -> None:
        StoreRules.__post_init__(self)   # with slots, super() would look for a class that is gone
        for key, name in (("brokerName", self.broker_name), ("brokerClusterName", self.broker_cluster_name)):
            fault = name_fault(name)
            if fault is not None:
                raise ConfigError(f"{key} {name!r} cannot name a topic: {fault}")
        self._check_role()
        check_access(self.acl_enable, self.rocketmq_home, self.inner_client_authentication_credentials)
        check_users(self.authentication_enabled, self.authorization_enabled, self.acl_enable,
                    self.init_authentication_user, self.authentication_whitelist, self.authorization_whitelist)
        WhiteAddresses(self.ha_slave_white_addresses.split(";"))
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
                            ("haSendHeartbeatInterval", self.ha_send_heartbeat_interval),
                            ("haHousekeepingInterval", self.ha_housekeeping_interval),
                            ("haSlaveFallbehindMax", self.ha_slave_fallbehind_max),
                            ("slaveTimeout", self.slave_timeout),
                            ("registerNameServerPeriod", self.register_name_server_period),
                            ("registerBrokerTimeoutMills", self.register_broker_timeout_mills),
                            ("shortPollingTimeMills", self.short_polling_time_mills),
                            ("transactionCheckInterval", self.transaction_check_interval),
                            ("transactionCheckMax", self.transaction_check_max),
                            ("sinkMarksMax", self.sink_marks_max),
                            ("filterDataCleanTimeSpan", self.filter_data_clean_time_span),
                            ("expectConsumerNumUseFilter", self.expect_consumer_num_use_filter),
                            ("maxTransferCountOnMessageInMemory", self.max_transfer_count_on_message_in_memory),
                            ("maxTransferBytesOnMessageInMemory", self.max_transfer_bytes_on_message_in_memory)):
            if number < 1:
                raise ConfigError(f"{key} is {number}: write 1 or more")
        if not 1 <= self.max_error_rate_of_bloom_filter <= 99:
            raise ConfigError(f"maxErrorRateOfBloomFilter is {self.max_error_rate_of_bloom_filter}: write 1 to 99")

    def _check_role(self) -> None:
        if self.broker_role not in tuple(BrokerRole):
            raise ConfigError(f"brokerRole is {self.broker_role!r}: write {' or '.join(filter(None, BrokerRole))}")
        object.__setattr__(self, "broker_role", BrokerRole(self.broker_role))
        if self.is_slave and self.broker_id < 1:
            raise ConfigError(f"brokerRole is SLAVE and brokerId is {self.broker_id}: write 1 or more, another one for "
                              "each slave of a master")
        if not self.is_slave and self.broker_id:
            raise ConfigError(f"brokerId is {self.broker_id}, and brokerRole is not SLAVE: write 0 for a master, or "
                              "brokerRole=SLAVE for a copy of the one that has the same brokerName")
        if self.is_slave and not self.namesrv_addr.strip(" ;"):
            raise ConfigError("brokerRole is SLAVE and namesrvAddr is empty: a slave finds its master by the name "
                              "servers; write their addresses")
        if not 0 <= self.ha_listen_port <= 65535:
            raise ConfigError(f"haListenPort is {self.ha_listen_port}: write 0 (the port after listenPort) to 65535")
        if not 1 <= self.min_in_sync_replicas <= self.in_sync_replicas:
            raise ConfigError(f"minInSyncReplicas is {self.min_in_sync_replicas} and inSyncReplicas is "
                              f"{self.in_sync_replicas}: write 1 or more, the master among them, and no smaller "
                              "inSyncReplicas than minInSyncReplicas")
        if not 0 <= self.access_message_in_memory_max_ratio <= 100:
            raise ConfigError(f"accessMessageInMemoryMaxRatio is {self.access_message_in_memory_max_ratio}: write 0 to "
                              "100, a percentage")
        if self.ha_slave_keep_max < 0:
            raise ConfigError(f"haSlaveKeepMax is {self.ha_slave_keep_max}: write 0 (old files wait for no slave) or "
                              "more")
        if not 1 <= self.ha_transfer_batch_size <= _PIECE_SIZE_MAX:
            raise ConfigError(f"haTransferBatchSize is {self.ha_transfer_batch_size}: write 1 to {_PIECE_SIZE_MAX}")

    @property
    def is_slave(self) -> bool:
        return self.broker_role is BrokerRole.SLAVE

    @property
    def guard(self) -> str:
        """The setting by which requests must be signed; empty where they need not."""
        return "aclEnable" if self.acl_enable else "authenticationEnabled" if self.authentication_enabled else ""

    @property
    def is_copied(self) -> bool:
        """Whether slaves may copy this broker."""
        return self.broker_role in (BrokerRole.ASYNC_MASTER, BrokerRole.SYNC_MASTER)

    @property
    def is_durability_awaited(self) -> bool:
        """Whether answers wait until more than the memory of this process has their messages."""
        return self.sync_flush or self.broker_role is BrokerRole.SYNC_MASTER
