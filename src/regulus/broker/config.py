"""Settings of a broker. Names are RocketMQ's keys in snake_case.

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

_MESSAGE_SIZE_MAX = 1 << 30     # a record must fit into a file of the log, which has less than 2 GiB
_PIECE_SIZE_MAX = (4 << 20) - 12        # limit of RocketMQ's slaves, without the head of a piece


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(StoreRules):
    # Name and place
    broker_name: str = "broker-a"
    """Name of the broker, shared with its slaves. Two masters of one name in a cluster take each other's place."""
    broker_cluster_name: str = "DefaultCluster"
    """Cluster that the broker joins: brokers of one cluster serve the same topics to operators' tools."""
    broker_id: int = 0
    """[number] 0 for a master, and another number from 1 on for each of its slaves."""
    broker_ip1: str = ""
    """Numeric address that clients get. Set it behind address translation. Empty: the address at which each client
    reached the broker."""
    listen_port: int = 10911
    """[port] Port of clients and operators. 0 takes any free one."""
    vip_port_enable: bool = True
    """Whether the broker also listens two ports below `listen_port`, where clients with `vipChannelEnabled=true`
    connect, such as the dashboard. If another program has that port, the log says so."""
    namesrv_addr: str = ""
    """Name servers, `host:port;host:port`. Empty: the broker registers with none, and clients find it by its own
    address only."""
    broker_permission: int = permission.READ_WRITE
    """[bits] 6: reads and sends. 4: reads only, so that a broker can be emptied before it is removed. 2: sends only."""
    region_id: str = "DefaultRegion"
    """Region that is written into each message and each answer to a send, for clients' message traces."""

    # Topics and groups
    auto_create_topic_enable: bool = True
    """Whether a send to an unknown topic creates it. Off: a misspelt topic is refused instead of created."""
    default_topic_queue_nums: int = 8
    """[queues] Most queues of a topic that a send creates; a client may ask for fewer."""
    cluster_topic_enable: bool = True
    """Whether the topic that is named after the cluster can be read and written."""
    broker_topic_enable: bool = True
    """Whether the topic that is named after the broker can be read and written."""
    auto_create_subscription_group: bool = True
    """Whether the first request of an unknown group creates it. Off: operators create groups, and others are
    refused."""
    unlock_queues_on_close: bool = False
    """On: queues that a member consumes in order are free as soon as its connection closes, and not a minute after its
    last request. A member that lost only its connection may then still work on one message while another member has the
    next one."""
    trace_topic_enable: bool = False
    """Whether a start creates the topic for clients' message traces. Off: their first send creates it like any other
    topic."""
    msg_trace_topic_name: str = TRACE_TOPIC
    """Name of that topic. Clients have a setting of the same meaning, which must agree."""
    trace_on: bool = True
    """Whether answers allow clients to write message traces of their sends."""

    # Sends
    max_message_size: int = 4 << 20
    """[bytes] Largest body that a client may send. A stored message is retried or delivered whatever its size."""
    start_accept_send_request_time_stamp: int = 0
    """[ms since 1970] Time before which sends are refused. 0 accepts them at once."""
    reject_transaction_message: bool = False
    """On: half messages of transactions are refused with code 16, `NO_PERMISSION`."""
    sink_marks_max: int = 10_000
    """[writers] Sink writers whose last message is remembered, so that a repeated batch appends nothing. Beyond the
    limit the writer that was silent longest is forgotten, and a batch that it repeats is stored twice."""

    # Transactions
    transaction_check_interval: int = 30_000
    """[ms] Pause between two runs that ask producers about open transactions. Less settles them sooner."""
    transaction_time_out: int = 6_000
    """[ms] Age from which a half message is asked about, unless its producer set another. Set it longer than local
    transactions take, or producers are asked too early."""
    transaction_check_max: int = 15
    """[questions] Number after which a half message is given up and goes to `TRANS_CHECK_MAX_TIME_TOPIC`."""

    # Pulls and queries
    max_transfer_bytes_on_message_in_memory: int = 262_144
    """[bytes] Most that one read of a queue returns. More saves requests and holds the event loop longer for each."""
    max_transfer_count_on_message_in_memory: int = 32
    """[messages] Most that one pull returns, whatever the client asks for."""
    long_polling_enable: bool = True
    """On: a pull that finds nothing waits as long as its client asks. Off: it waits for `short_polling_time_mills`."""
    short_polling_time_mills: int = 1000
    """[ms] How long a pull that finds nothing waits while `long_polling_enable` is off."""
    lite_pull_message_enable: bool = True
    """Whether lite pull consumers of RocketMQ may pull. Off refuses them."""
    use_server_side_reset_offset: bool = True
    """On: the broker sets a group's offsets itself, also while no consumer is there. Off: it asks the consumers to."""
    default_query_max_num: int = 32
    """[messages] Most that a search by message id finds. A search by key names its own number."""

    # Filters
    enable_property_filter: bool = False
    """Whether consumers may subscribe by SQL92 conditions. Each reads all messages of its queues at the broker."""
    filter_data_clean_time_span: int = 86_400_000
    """[ms] Time after which `consumerFilter.json` forgets the condition of a group without consumers."""
    expect_consumer_num_use_filter: int = 32
    """[groups] Groups per topic for which RocketMQ sizes the bit maps of its filters. A RocketMQ that reads our
    `consumerFilter.json` must have the same number."""
    max_error_rate_of_bloom_filter: int = 20
    """[%] Error rate for which RocketMQ sizes these bit maps. A RocketMQ that reads the file must have the same one."""

    # Pops and recalls
    recall_message_enable: bool = False
    """Whether a message that waits for its time can be recalled by its handle. Off refuses recalls."""
    pop_from_retry_probability: int = 20
    """[%] Share of pops that look for messages to be retried first; the others look for them last. More retries sooner,
    and lets failing messages delay new ones."""
    pop_from_retry_probability_for_priority: int = 0
    """[%] The share for pops by priority. With 0 retried messages wait for all others."""
    enable_retry_topic_v2: bool = False
    """Whether messages to be retried go to `%RETRY%group+topic`. Those in `%RETRY%group_topic` are read in any case."""
    enable_pop_buffer_merge: bool = False
    """No effect: with either value each pop is in the log before it is answered."""
    enable_notify_after_pop_order_lock_release: bool = True
    """On: a pop that waits for a queue in order is answered when the time of the messages that are out is over. Off:
    only when the next message arrives."""

    # Saved documents
    flush_consumer_offset_interval: int = 5000
    """[ms] Pause between two saves of all offsets; the shorter of this and `flush_delay_offset_interval` holds. After a
    crash consumers receive again what they consumed in this time."""
    flush_delay_offset_interval: int = 10_000
    """[ms] RocketMQ's pause for the offsets of delay levels. Here all offsets are saved together."""

    # Replicas
    broker_role: BrokerRole = BrokerRole.ALONE
    """Empty: alone. `ASYNC_MASTER` or `SYNC_MASTER` opens a port at which slaves copy the log, and `SYNC_MASTER`
    answers sends only when slaves have them. `SLAVE` copies its master."""
    ha_listen_port: int = 0
    """[port] Port of a master for its slaves. 0: the one after `listen_port`."""
    ha_master_address: str = ""
    """Where a slave copies from. Empty: where the name server says."""
    ha_send_heartbeat_interval: int = 5_000
    """[ms] Silence on an idle link after which each end sends a heartbeat. Keep it well below
    `ha_housekeeping_interval`."""
    ha_housekeeping_interval: int = 20_000
    """[ms] Silence after which a link is closed. Less notices a dead machine sooner, and takes a slow one for dead."""
    ha_transfer_batch_size: int = 32_768
    """[bytes] Most of the log that one piece to a slave contains. More saves writes, each of which takes longer."""
    ha_slave_fallbehind_max: int = 256 << 20
    """[bytes] No answer waits for a slave that is further behind its master."""
    ha_slave_keep_max: int = 16 << 30
    """[bytes] Old files are kept for a connected slave that is at most this far behind, until the disk is full. 0: for
    no slave."""
    slave_timeout: int = 2_500
    """[ms] Longest that an answer of a `SYNC_MASTER` waits for slaves; after it the send is answered
    `FLUSH_SLAVE_TIMEOUT`, and its message stays stored. RocketMQ's 3,000 is all the time that its clients have by
    default."""
    in_sync_replicas: int = 2
    """[brokers] How many must have a message before a `SYNC_MASTER` answers `SEND_OK`, itself included. RocketMQ's
    default of 1 waits for no slave."""
    min_in_sync_replicas: int = 1
    """[brokers] Fewest that `enable_auto_in_sync_replicas` accepts, the master included. 1 accepts sends without any
    slave."""
    enable_auto_in_sync_replicas: bool = False
    """On: with fewer slaves than `in_sync_replicas` asks for, sends wait for those that are there, down to
    `min_in_sync_replicas`."""
    all_ack_in_sync_state_set: bool = False
    """On: answers wait for all slaves that are at most `ha_slave_fallbehind_max` behind, and are as slow as the slowest
    of them."""
    slave_read_enable: bool = False
    """Whether consumers that are further behind than `access_message_in_memory_max_ratio` are sent to a slave."""
    access_message_in_memory_max_ratio: int = 40
    """[%] Share of the machine's memory that newer messages may take before old ones are read from a slave. Less sends
    consumers to a slave sooner."""

    # Access
    acl_enable: bool = False
    """Whether each request must be signed by an account of `rocketmq_home`."""
    rocketmq_home: str = ""
    """Directory with the accounts, in `conf/plain_acl.yml` and `conf/acl`."""
    inner_client_authentication_credentials: str = field(default="", repr=False)
    """`{"accessKey":"...","secretKey":"..."}`: the account by which brokers of one cluster sign requests to name
    servers and to their master. At this broker it may do anything."""
    authentication_enabled: bool = False
    """Whether each request must be signed by a user of ACL 2.0."""
    authorization_enabled: bool = False
    """Whether policies limit what users may do. Off: each user may do everything."""
    init_authentication_user: str = field(default="", repr=False)
    """`{"username":"...","password":"..."}`: a Super user that a start creates if it does not exist."""
    authentication_whitelist: str = ""
    """Request codes, separated by commas, that need no signature."""
    authorization_whitelist: str = ""
    """Request codes, separated by commas, that need a user and no policy."""
    ha_slave_white_addresses: str = ""
    """Addresses that may copy the log, patterns separated by `;`. Empty: every host that reaches the port."""

    # Name servers
    register_name_server_period: int = 30_000
    """[ms] Pause between two registrations. Changes of topics are registered at once. A name server drops a broker that
    is silent for 120 s."""
    register_broker_timeout_mills: int = 24_000
    """[ms] How long one registration waits for the name server's answer; after it the registration has failed."""

    def __post_init__(self) -> None:
        StoreRules.__post_init__(self)   # with slots, super() would look for a class that no longer exists
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
                              "16 bytes; if it is left out, it is the address by which "
                              "this machine reaches the name server")
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
                              f"{self.in_sync_replicas}: write 1 or more, the master included, and no smaller "
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
        """Name of the setting by which requests must be signed; empty if they need no signature."""
        return "aclEnable" if self.acl_enable else "authenticationEnabled" if self.authentication_enabled else ""

    @property
    def is_copied(self) -> bool:
        """Whether slaves may copy this broker."""
        return self.broker_role in (BrokerRole.ASYNC_MASTER, BrokerRole.SYNC_MASTER)

    @property
    def is_durability_awaited(self) -> bool:
        """Whether answers wait until their messages are on disk or at slaves."""
        return self.sync_flush or self.broker_role is BrokerRole.SYNC_MASTER
