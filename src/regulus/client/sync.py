"""The same clients for programs without an event loop: every method blocks until it is done.

        with Producer("127.0.0.1:9876", "my-group") as producer:
            producer.send(Message("my-topic", b"hello"))

All blocking clients of a process share one event loop in a thread of its own, and so their connections. They may be
used from any number of threads; a consumer's listener is called in a pool of threads, as with the asyncio client.

Written by `python -m tests.blocking_clients` from the asyncio clients: change those, and have it written anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

from regulus.client import shared_loop
from regulus.client.administration.admin import Admin as AsyncioAdmin
from regulus.client.administration.bulk_admin import BULK_SIZE, QueueRead, QueueState
from regulus.client.administration.group_admin import GroupProgress
from regulus.client.administration.log_admin import LOG_READ_SIZE, LogRead
from regulus.client.administration.message_admin import FoundMessages, Pulled
from regulus.client.administration.sink_admin import SinkMark
from regulus.client.config import ClientConfig, ProducerConfig, PushConsumerConfig, SimpleConsumerConfig
from regulus.client.consuming import consumer_start
from regulus.client.consuming.push_consumer import PushConsumer as AsyncioPushConsumer
from regulus.client.consuming.simple_consumer import MESSAGES_MAX
from regulus.client.consuming.simple_consumer import SimpleConsumer as AsyncioSimpleConsumer
from regulus.client.core.queue_selector import QueueSelector
from regulus.client.listener import MessageListener
from regulus.client.received_message import PoppedState, ReceivedMessage
from regulus.client.send_result import SendResult
from regulus.client.sending.failed_sends import OnSendFailed
from regulus.client.sending.producer import Producer as AsyncioProducer
from regulus.client.sending.transaction_producer import (
    Check,
    Execute,
    HalfMessage,
    TransactionProducerConfig,
    TransactionSendResult,
    TransactionState,
)
from regulus.client.sending.transaction_producer import TransactionProducer as AsyncioTransactionProducer
from regulus.model.java_numbers import LONG_MAX
from regulus.model.message import Message, MessageExt
from regulus.model.message_queue import MessageQueue
from regulus.model.topics import SubscriptionGroupConfig, TopicConfig
from regulus.wire.bodies import (
    BrokerStatsData,
    ClusterInfo,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    HARuntimeInfo,
    ProducerConnection,
    ProducerTableInfo,
    QueueTimeSpan,
    TopicOffset,
    TopicRouteData,
)
from regulus.wire.headers import GetLogStateResponse


class Producer(shared_loop.Blocking):
    """Blocking `regulus.Producer`."""

    def __init__(self, name_server: str, group: str, config: ProducerConfig | None = None, *,
                 on_send_failed: OnSendFailed | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError.

        `on_send_failed` is told of each send that failed for good and may take it over, as `KeptSends` does.
        """
        self._client = shared_loop.made(lambda: AsyncioProducer(
            name_server, group, config, on_send_failed=on_send_failed))

    def start(self) -> None:
        """Over rocketmq:// it needs no network; over grpc:// it waits until a server has told its settings. Raises
        ConfigError for a malformed address, MissingExtra, KeptFileUnusable; ConnectFailed, BrokerRefused.
        """
        shared_loop.run(self._client.start())

    def shutdown(self) -> None:
        """Send what was accepted, unregister, and close connections that nobody else uses.

        What is not sent within `await_termination_millis_when_shutdown` raises SendCutOff, unless it is kept; new sends
        raise ClientClosed from the start. Who cancels this does not wait for them: they are cut off at once, and a
        second shutdown waits until all is done.
        """
        shared_loop.run(self._client.shutdown())

    @property
    def client_id(self) -> str:
        return shared_loop.call(lambda: self._client.client_id)

    def send(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
             argument: object = None, timeout_ms: int | None = None) -> SendResult:
        """Store one message; the message gets its unique key, and its body is left as it is.

        Without `queue` and `selector` the queue is chosen in turn and failures are retried on another broker. With one
        of them (ordered sends) there is one attempt. `argument` is handed to the selector. `timeout_ms` is an overall
        deadline: unlike `send_msg_timeout` it covers the wait for the send's turn.

        Raises MessageIllegal before anything is sent; NoRoute, NoNameServer; BrokerRefused for an answer that is not
        retried; SendFailed when all attempts failed, or an answer cannot be read; Throttled and TooManyRequests when
        the budget leaves no room; in their place SendKept or SendNotKept where failed sends are kept.
        """
        return shared_loop.run(self._client.send(
            message, queue=queue, selector=selector, argument=argument, timeout_ms=timeout_ms))

    def send_async(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
                   argument: object = None, timeout_ms: int | None = None) -> "Future[SendResult]":
        """Begin a send and return at once; the future has the result or the error."""
        return shared_loop.submit(self._client.send(
            message, queue=queue, selector=selector, argument=argument, timeout_ms=timeout_ms))

    def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue | None = None,
                   timeout_ms: int | None = None) -> SendResult:
        """Store several messages of one topic in one request, neighbours in one queue; all of them or none.

        The result has their ids joined by commas, in order, and the queue offset of the first. Raises as `send`;
        MessageIllegal also when the messages cannot be one batch.
        """
        return shared_loop.run(self._client.send_batch(messages, queue=queue, timeout_ms=timeout_ms))

    def send_in_batches(self, messages: Iterable[Message], *, size_max: int = 1 << 20) -> list[SendResult]:
        """Store any number of messages of one topic, cut into batches of at most `size_max` bytes, one after another.

        The result of each batch, as `send_batch` gives it. Raises as that, MessageIllegal before anything is sent;
        PartlySent when a batch fails and those before it are stored; where failed sends are kept, so is all that is not
        stored.
        """
        return shared_loop.run(self._client.send_in_batches(messages, size_max=size_max))

    def send_oneway(self, message: Message, *, queue: MessageQueue | None = None, selector: QueueSelector | None = None,
                    argument: object = None) -> None:
        """Write one message to the broker's connection and wait for no answer: it may be lost unseen.

        Raises MessageIllegal, NoRoute, NoNameServer, ConnectFailed: what is known on this side.
        """
        shared_loop.run(self._client.send_oneway(message, queue=queue, selector=selector, argument=argument))

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time, by the `recall_handle` of its result; its id. To do so again
        does no harm.

        Raises MessageIllegal for what is no handle of that topic; NoRoute, NoMaster; BrokerRefused, also when its time
        has come (ILLEGAL_OPERATION) or where the broker does not allow it (NO_PERMISSION, recallMessageEnable);
        ConnectFailed, ConnectionLost, RequestTimeout, after which nobody knows; AnswerUnreadable.
        """
        return shared_loop.run(self._client.recall(topic, recall_handle, timeout_ms=timeout_ms))

    def fetch_publish_message_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that take sends. Raises NoRoute, NoNameServer."""
        return shared_loop.run(self._client.fetch_publish_message_queues(topic))


class TransactionProducer(Producer):
    """Blocking `regulus.TransactionProducer`."""

    _client: AsyncioTransactionProducer

    def __init__(self, name_server: str, group: str, check: Check | None = None,
                 config: TransactionProducerConfig | None = None, *, topics: Iterable[str] = (),
                 on_send_failed: OnSendFailed | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError, MessageIllegal.

        `on_send_failed` is told of ordinary sends alone: a half message that is sent later would be another one.
        """
        self._client = shared_loop.made(lambda: AsyncioTransactionProducer(
            name_server, group, check, config, topics=topics, on_send_failed=on_send_failed))

    def send_in_transaction(self, message: Message, execute: Execute, *,
                            timeout_ms: int | None = None) -> TransactionSendResult:
        """Store the half message, run the local transaction, and end it as that says.

        Raises as `send`; then the local transaction has not run. What comes after the half message raises nothing:
        what the broker does not hear now it asks for later. A half that may not survive the loss of its master is
        rolled back, and its transaction does not run.
        """
        return shared_loop.run(self._client.send_in_transaction(message, execute, timeout_ms=timeout_ms))

    def send_half(self, message: Message, *, queue: MessageQueue | None = None, immunity_s: int | None = None,
                  timeout_ms: int | None = None) -> HalfMessage:
        """Store a half message, to be ended by `end_transaction`, here or elsewhere.

        `immunity_s`: for how many seconds the broker does not ask; whoever ends it later than that must say that it
        answers a check. Raises as `send`. A send without an answer is not repeated elsewhere, as the first one may have
        left a half too: SendFailed, and the check finds out.
        """
        return shared_loop.run(self._client.send_half(
            message, queue=queue, immunity_s=immunity_s, timeout_ms=timeout_ms))

    def end_transaction(self, half: HalfMessage, state: TransactionState, *, from_check: bool = False,
                        timeout_ms: int | None = None) -> None:
        """Commit a half message or roll it back; UNKNOWN does nothing.

        A Regulus broker takes the same end twice; one of RocketMQ delivers a message twice that is committed twice.
        Raises BrokerRefused when there is no such half, or it ended otherwise; ConnectFailed, ConnectionLost and
        RequestTimeout, after which the end may have been taken.
        """
        shared_loop.run(self._client.end_transaction(half, state, from_check=from_check, timeout_ms=timeout_ms))


class PushConsumer(shared_loop.Blocking):
    """Blocking `regulus.PushConsumer`."""

    def __init__(self, name_server: str, group: str, listener: MessageListener,
                 config: PushConsumerConfig | None = None) -> None:
        """Connects to nothing yet. Raises ConfigError."""
        self._client = shared_loop.made(lambda: AsyncioPushConsumer(name_server, group, listener, config))

    def start(self) -> None:
        """Join the group and consume; nothing is done when that is done already. A start that fails leaves nothing
        behind and may be tried again. Where each queue begins is known when it returns, so that what is sent from then
        on comes; of brokers that do not tell within 5 s a warning says so, and they are asked on. Where it pops from
        RocketMQ's brokers, the first pop decides.

        Raises ConfigError, NoNameServer; BrokerRefused for a bad SQL expression; ClientClosed when `shutdown` comes in
        between; ClientError when the offset file cannot be read, or the group has a client of this name already.
        """
        shared_loop.run(self._client.start())

    def shutdown(self) -> None:
        """Stop pulling, give running listener calls `await_termination_millis_when_shutdown` to end, store the offsets,
        leave the group. A start that is under way is ended. Who cancels this waits no more, for no call and no broker:
        the consumer leaves nevertheless, and a second shutdown waits until it has left.
        """
        shared_loop.run(self._client.shutdown())

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = consumer_start.TAG) -> None:
        """Consume the messages of a topic whose tag the expression names: `*`, `TagA`, `TagA || TagB`.

        With `expression_type` SQL92 the expression is a condition over properties, if the broker allows it. All members
        of a group must subscribe alike. Raises MessageIllegal, HeaderError.
        """
        shared_loop.call(lambda: self._client.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Consume the topic no more. Unknown topics are fine."""
        shared_loop.call(lambda: self._client.unsubscribe(topic))

    def suspend(self) -> None:
        """Pull no more until `resume`; what is cached is still consumed."""
        shared_loop.call(lambda: self._client.suspend())

    def resume(self) -> None:
        shared_loop.call(lambda: self._client.resume())

    @property
    def client_id(self) -> str:
        return shared_loop.call(lambda: self._client.client_id)

    def message_counts(self) -> dict[PoppedState, int]:
        """Of popped messages: those that are READY and INFLIGHT here now, and how many ended in each way since the
        start. Raises ClientError for a consumer that pulls.
        """
        return shared_loop.call(lambda: self._client.message_counts())

    def assigned_queues(self) -> list[MessageQueue]:
        """The queues that this instance consumes now; one that pops has none of its own."""
        return shared_loop.call(lambda: self._client.assigned_queues())

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at these offsets, whatever has been consumed; what is cached of the queues is dropped. Queues of other
        members are left alone.
        """
        shared_loop.run(self._client.reset_offsets(offsets))

    def running_info(self) -> ConsumerRunningInfo:
        """What an operator sees of this consumer."""
        return shared_loop.call(lambda: self._client.running_info())

    def consume_directly(self, message: MessageExt, queue: MessageQueue) -> ConsumeMessageDirectlyResult:
        """Call the listener once with this message; offsets and retries are not touched. Raises ClientClosed, and
        ClientError when `consume_thread_max` such calls run already.
        """
        return shared_loop.run(self._client.consume_directly(message, queue))


class SimpleConsumer(shared_loop.Blocking):
    """Blocking `regulus.SimpleConsumer`."""

    def __init__(self, address: str, group: str, subscriptions: dict[str, str] | None = None,
                 config: SimpleConsumerConfig | None = None) -> None:
        """Connects to nothing yet. `address` is `grpc://host:port`, or that of name servers, `rocketmq://host:port`;
        `subscriptions` are tag expressions by their topics. Raises ConfigError, MessageIllegal, HeaderError.
        """
        self._client = shared_loop.made(lambda: AsyncioSimpleConsumer(address, group, subscriptions, config))

    def start(self) -> None:
        """Join the group. What is sent once it returned is received, unless a warning says which brokers did not
        answer within 5 s, or they are RocketMQ's, where the first receive decides where a new group begins.

        Raises ConfigError, NoNameServer, ConnectFailed; BrokerRefused for a bad SQL expression, or a user who may not.
        """
        shared_loop.run(self._client.start())

    def shutdown(self) -> None:
        """Leave the group. What was received and not acknowledged is delivered again when its time is over. Who cancels
        this does not wait; the consumer leaves nevertheless, and a second shutdown waits until it has left.
        """
        shared_loop.run(self._client.shutdown())

    def subscribe(self, topic: str, expression: str = "*", expression_type: str = consumer_start.TAG) -> None:
        """Receive the messages of a topic whose tag the expression names: `*`, `TagA`, `TagA || TagB`; with
        `expression_type` SQL92 those that meet a condition. Raises MessageIllegal, HeaderError.
        """
        shared_loop.call(lambda: self._client.subscribe(topic, expression, expression_type))

    def unsubscribe(self, topic: str) -> None:
        """Receive the topic no more. Unknown topics are fine."""
        shared_loop.call(lambda: self._client.unsubscribe(topic))

    @property
    def client_id(self) -> str:
        return shared_loop.call(lambda: self._client.client_id)

    def receive(self, max_message_num: int = MESSAGES_MAX, invisible_duration_ms: int = 60000, *,
                await_duration_ms: int | None = None) -> list[ReceivedMessage]:
        """Up to so many messages of one of the topics, each call's the next one; empty when none came within
        `await_duration`. A proxy of RocketMQ waits 5 s at least.

        Raises MessageIllegal for numbers that are not possible; ClientError, ClientClosed when this consumer is closed
        meanwhile. When it is cancelled, what was on its way is others' soon, and was not delivered; when it gets no
        answer, it comes when its invisible time is over.
        """
        return shared_loop.run(self._client.receive(
            max_message_num, invisible_duration_ms, await_duration_ms=await_duration_ms))

    def ack(self, message: ReceivedMessage) -> None:
        """The message is done. Raises ReceiptInvalid when it is another's by now, or done already; ClientError, after
        which it may come again.
        """
        shared_loop.run(self._client.ack(message))

    def change_invisible_duration(self, message: ReceivedMessage, invisible_duration_ms: int) -> None:
        """Let the message be invisible for so long from now on: longer, to work on it, or shorter, to have it delivered
        again soon. Its receipt becomes a new one. Raises as `ack`, and MessageIllegal.
        """
        shared_loop.run(self._client.change_invisible_duration(message, invisible_duration_ms))


class Admin(shared_loop.Blocking):
    """Blocking `regulus.Admin`."""

    def __init__(self, name_server: str, config: ClientConfig | None = None) -> None:
        """Connects to nothing yet."""
        self._client = shared_loop.made(lambda: AsyncioAdmin(name_server, config))

    def start(self) -> None:
        """Needs no network. Raises ConfigError for a malformed name server address."""
        shared_loop.run(self._client.start())

    def shutdown(self) -> None:
        """Close connections that nobody else uses."""
        shared_loop.run(self._client.shutdown())

    def cluster_info(self) -> ClusterInfo:
        """All brokers, by name and by cluster."""
        return shared_loop.run(self._client.cluster_info())

    def topic_route(self, topic: str) -> TopicRouteData:
        """Which brokers serve a topic, with how many queues. Raises NoRoute."""
        return shared_loop.run(self._client.topic_route(topic))

    def master_addresses(self, cluster: str | None = None) -> list[str]:
        """Addresses of all masters, or of one cluster's, by broker name: who takes changes. Raises ClientError for an
        unknown cluster, and where there is no master.
        """
        return shared_loop.run(self._client.master_addresses(cluster))

    def readable_brokers(self) -> dict[str, str]:
        """Who can be asked, an address by broker name: the master's or, where that is away, that of the slave with the
        lowest id.
        """
        return shared_loop.run(self._client.readable_brokers())

    def create_topic(self, config: TopicConfig, *, cluster: str | None = None,
                     broker_address: str | None = None) -> None:
        """Create the topic, or change it, on one broker, on a cluster, or everywhere; waits until its route is known.

        Raises MessageIllegal for a name that cannot be used.
        """
        shared_loop.run(self._client.create_topic(config, cluster=cluster, broker_address=broker_address))

    def set_topic_config(self, broker_address: str, config: TopicConfig) -> None:
        """Create or change the topic on one broker."""
        shared_loop.run(self._client.set_topic_config(broker_address, config))

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete the topic from all masters (of one cluster) and from the name servers; its messages go too."""
        shared_loop.run(self._client.delete_topic(topic, cluster=cluster))

    def list_topics(self, cluster: str | None = None) -> list[str]:
        """Names of all topics, or of those of one cluster, sorted."""
        return shared_loop.run(self._client.list_topics(cluster))

    def topic_configs(self, broker_address: str) -> dict[str, TopicConfig]:
        """All topics of a broker with their settings."""
        return shared_loop.run(self._client.topic_configs(broker_address))

    def system_topics(self, broker_address: str) -> list[str]:
        """Names of the topics that a broker keeps for itself."""
        return shared_loop.run(self._client.system_topics(broker_address))

    def topic_stats(self, topic: str, *, broker_address: str | None = None,
                    masters_only: bool = False) -> dict[MessageQueue, TopicOffset]:
        """First and next offset and last store time of each queue, over all brokers or of one. Where a master is away
        its slave answers, which may be behind, unless `masters_only`. Raises NoRoute.
        """
        return shared_loop.run(self._client.topic_stats(
            topic, broker_address=broker_address, masters_only=masters_only))

    def groups_of_topic(self, topic: str) -> list[str]:
        """Groups that subscribe to the topic or have an offset in it. Raises NoRoute."""
        return shared_loop.run(self._client.groups_of_topic(topic))

    def max_offset(self, queue: MessageQueue) -> int:
        """The queue offset that the next message will get. Raises NoRoute."""
        return shared_loop.run(self._client.max_offset(queue))

    def min_offset(self, queue: MessageQueue) -> int:
        """The queue offset of the first message that is kept. Raises NoRoute."""
        return shared_loop.run(self._client.min_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The queue offset of the first message stored at or after a time; the next offset when all are older."""
        return shared_loop.run(self._client.search_offset(queue, timestamp_ms))

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """Store time in ms of the first message that is kept; -1 when there is none."""
        return shared_loop.run(self._client.earliest_store_time(queue))

    def queues(self, topic: str) -> list[MessageQueue]:
        """All readable queues of a topic. Raises NoRoute."""
        return shared_loop.run(self._client.queues(topic))

    def put_kv(self, namespace: str, key: str, value: str) -> None:
        shared_loop.run(self._client.put_kv(namespace, key, value))

    def get_kv(self, namespace: str, key: str) -> str | None:
        """Raises BrokerRefused with code QUERY_NOT_FOUND when there is none."""
        return shared_loop.run(self._client.get_kv(namespace, key))

    def delete_kv(self, namespace: str, key: str) -> None:
        shared_loop.run(self._client.delete_kv(namespace, key))

    def kv_namespace(self, namespace: str) -> dict[str, str]:
        """Raises BrokerRefused with code QUERY_NOT_FOUND when the namespace is empty."""
        return shared_loop.run(self._client.kv_namespace(namespace))

    def has_bulk(self, queue: MessageQueue) -> bool:
        """Whether the queue's broker reads in bulk, as far as is known yet."""
        return shared_loop.run(self._client.has_bulk(queue))

    def queue_state(self, queue: MessageQueue) -> QueueState:
        """From where to where the queue reaches now."""
        return shared_loop.run(self._client.queue_state(queue))

    def queue_states(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueState]:
        """From where to where queues of one topic at one broker reach: one request for many of them."""
        return shared_loop.run(self._client.queue_states(queues))

    def read_queue(self, queue: MessageQueue, start: int, end: int, *, size_max: int = BULK_SIZE, expression: str = "*",
                   expression_type: str = "TAG") -> QueueRead:
        """Records of [start, end), as many of the first of them as the broker gives at a time.

        RocketMQ may give some beyond `end` too.
        """
        return shared_loop.run(self._client.read_queue(
            queue, start, end, size_max=size_max, expression=expression, expression_type=expression_type))

    def group_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group goes on in a queue; None when it was never there."""
        return shared_loop.run(self._client.group_offset(group, queue))

    def forget_routes(self, topics: set[str]) -> None:
        """Ask the name server anew where the topics are, after a broker did not answer. Raises ClientError."""
        shared_loop.run(self._client.forget_routes(topics))

    def sink_marks(self, broker_address: str, sink_id: str) -> dict[str, SinkMark]:
        """The marks of a sink on one broker, by `<sinkId>/<partition>`; each broker keeps those of its own messages.

        A broker that keeps no marks, as RocketMQ's, refuses with REQUEST_CODE_NOT_SUPPORTED (3). Raises HeaderError
        when the answer has none.
        """
        return shared_loop.run(self._client.sink_marks(broker_address, sink_id))

    def log_state(self, broker_address: str) -> GetLogStateResponse:
        """From where to where the log reaches, and up to where it is on disk and archived."""
        return shared_loop.run(self._client.log_state(broker_address))

    def update_archived_offset(self, broker_address: str, physical_offset: int, archive_identity: str = "") -> None:
        """Tell that everything below the offset is in this archive; with the archive gate on, the broker may delete it.

        Raises BrokerRefused when that goes beyond what is on disk, or the gate waits for another archive.
        """
        shared_loop.run(self._client.update_archived_offset(broker_address, physical_offset, archive_identity))

    def read_commit_log(self, broker_address: str, physical_offset: int, size_max: int = LOG_READ_SIZE) -> LogRead:
        """Whole records from the offset on, which is where one begins; no bytes at the end of what is on disk.

        Raises BrokerRefused with code PULL_OFFSET_MOVED for an offset that the log does not have any more, or not yet.
        """
        return shared_loop.run(self._client.read_commit_log(broker_address, physical_offset, size_max))

    def create_group(self, config: SubscriptionGroupConfig, *, cluster: str | None = None,
                     broker_address: str | None = None) -> None:
        """Create or change the group on one broker, on a cluster, or everywhere; attributes that are not named stay.
        Raises ConfigError for its name.
        """
        shared_loop.run(self._client.create_group(config, cluster=cluster, broker_address=broker_address))

    def delete_group(self, group: str, *, clean_offset: bool = True, cluster: str | None = None) -> None:
        """Delete the group with its retry and dead-letter topics; with `clean_offset` its offsets too."""
        shared_loop.run(self._client.delete_group(group, clean_offset=clean_offset, cluster=cluster))

    def group_configs(self, broker_address: str) -> dict[str, SubscriptionGroupConfig]:
        """All groups of a broker with their settings."""
        return shared_loop.run(self._client.group_configs(broker_address))

    def group_config(self, group: str, broker_address: str) -> SubscriptionGroupConfig | None:
        """The group's settings at a broker, None when it does not know the group."""
        return shared_loop.run(self._client.group_config(group, broker_address))

    def list_groups(self) -> list[str]:
        """Groups that brokers know, but for the brokers' own; sorted."""
        return shared_loop.run(self._client.list_groups())

    def consumer_connection(self, group: str) -> ConsumerConnection | None:
        """Who consumes as this group now, None when nobody does."""
        return shared_loop.run(self._client.consumer_connection(group))

    def producer_connection(self, group: str, topic: str) -> ProducerConnection:
        """Who sends to the topic as this group now. Raises BrokerRefused when nobody does, NoRoute."""
        return shared_loop.run(self._client.producer_connection(group, topic))

    def consumer_running_info(self, group: str, client_id: str) -> ConsumerRunningInfo:
        """What a member says of itself: queues, cache, rates, settings."""
        return shared_loop.run(self._client.consumer_running_info(group, client_id))

    def consume_message_directly(self, group: str, client_id: str, offset_message_id: str,
                                 broker_address: str) -> ConsumeMessageDirectlyResult:
        """Have a member's listener called once with a stored message; offsets and retries are not touched."""
        return shared_loop.run(self._client.consume_message_directly(
            group, client_id, offset_message_id, broker_address))

    def consumer_status(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[MessageQueue, int]]:
        """The offsets as each member knows them: client id -> queue -> next offset to consume."""
        return shared_loop.run(self._client.consumer_status(group, topic, client_id))

    def consume_stats(self, group: str, topic: str | None = None, *, masters_only: bool = False) -> ConsumeStats:
        """Offsets of brokers and group for each queue, over all brokers. Where a master is away its slave answers,
        which may be behind, unless `masters_only`.
        """
        return shared_loop.run(self._client.consume_stats(group, topic, masters_only=masters_only))

    def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """How far a group is, and whether it is online."""
        return shared_loop.run(self._client.progress(group, topic))

    def consume_time_span(self, topic: str, group: str) -> list[QueueTimeSpan]:
        """How old, in ms, the next message to consume is in each queue."""
        return shared_loop.run(self._client.consume_time_span(topic, group))

    def reset_offset_by_timestamp(self, topic: str, group: str, timestamp_ms: int) -> dict[MessageQueue, int]:
        """Let the group go on at the first message stored at or after a time, -1 (LATEST) at the end of each queue.

        The new offset of each queue is returned. Members that are online go on there at once; when none is, the
        offsets are computed and stored from here.
        """
        return shared_loop.run(self._client.reset_offset_by_timestamp(topic, group, timestamp_ms))

    def reset_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Let the group go on at an offset of one queue."""
        shared_loop.run(self._client.reset_offset(group, queue, offset))

    def set_offsets(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets for a group that is offline; members that are online would overwrite them."""
        shared_loop.run(self._client.set_offsets(group, offsets))

    def clone_offsets(self, source_group: str, target_group: str, topic: str) -> None:
        """Let one group go on where another is."""
        shared_loop.run(self._client.clone_offsets(source_group, target_group, topic))

    def set_retry_limit(self, group: str, retry_max_times: int) -> None:
        """Change how often the group tries a message again; its other settings stay."""
        shared_loop.run(self._client.set_retry_limit(group, retry_max_times))

    def view_message(self, message_id: str, topic: str | None = None) -> MessageExt:
        """The message of an offset id or, with its topic, of a unique key. Raises ClientError when there is none."""
        return shared_loop.run(self._client.view_message(message_id, topic))

    def message_by_offset_id(self, offset_message_id: str) -> MessageExt:
        """The message at the place that its id names: a broker's address and a physical offset."""
        return shared_loop.run(self._client.message_by_offset_id(offset_message_id))

    def messages_by_unique_key(self, topic: str, unique_key: str) -> FoundMessages:
        """All copies with this unique key, oldest first: retries and repeated sends make copies. Raises NoRoute."""
        return shared_loop.run(self._client.messages_by_unique_key(topic, unique_key))

    def messages_by_key(self, topic: str, key: str, *, max_num: int = 64, begin_ms: int = 0,
                        end_ms: int = LONG_MAX) -> FoundMessages:
        """Messages that have this key among their KEYS, stored between two times: the newest `max_num`, oldest first.
        Raises NoRoute.
        """
        return shared_loop.run(self._client.messages_by_key(
            topic, key, max_num=max_num, begin_ms=begin_ms, end_ms=end_ms))

    def message_at(self, queue: MessageQueue, queue_offset: int) -> MessageExt:
        """The message at a place in a queue. Raises ClientError when there is none."""
        return shared_loop.run(self._client.message_at(queue, queue_offset))

    def pull(self, queue: MessageQueue, queue_offset: int, max_num: int = 32, *, expression: str = "*",
             suspend_ms: int = 0) -> Pulled:
        """Messages from an offset on; no group's offset is touched.

        With `suspend_ms` the broker may wait that long for a new one. An offset out of range gives no messages and a
        corrected `next_offset`.
        """
        return shared_loop.run(self._client.pull(
            queue, queue_offset, max_num, expression=expression, suspend_ms=suspend_ms))

    def broker_runtime_info(self, broker_address: str) -> dict[str, str]:
        """What a broker says of itself, under RocketMQ's names (`putTps`, `brokerVersionDesc`, ...)."""
        return shared_loop.run(self._client.broker_runtime_info(broker_address))

    def ha_status(self, broker_address: str) -> HARuntimeInfo:
        """How far the slaves of a master are, or the copy of a slave."""
        return shared_loop.run(self._client.ha_status(broker_address))

    def broker_config(self, broker_address: str) -> dict[str, str]:
        """A broker's settings, under RocketMQ's names."""
        return shared_loop.run(self._client.broker_config(broker_address))

    def update_broker_config(self, broker_address: str, values: Mapping[str, str]) -> None:
        """Change settings of a running broker."""
        shared_loop.run(self._client.update_broker_config(broker_address, values))

    def broker_stats(self, broker_address: str, stats_name: str, stats_key: str) -> BrokerStatsData:
        """A counter of a broker over the last minute, hour and day, such as TOPIC_PUT_NUMS of a topic."""
        return shared_loop.run(self._client.broker_stats(broker_address, stats_name, stats_key))

    def broker_consume_stats(self, broker_address: str, *, is_order: bool = False) -> ConsumeStatsList:
        """The progress of all groups of a broker."""
        return shared_loop.run(self._client.broker_consume_stats(broker_address, is_order=is_order))

    def producers(self, broker_address: str) -> ProducerTableInfo:
        """All producers that are connected to a broker, by group."""
        return shared_loop.run(self._client.producers(broker_address))

    def wipe_write_permission(self, broker_name: str) -> None:
        """Let no producer choose a broker, until `add_write_permission`; what it has can still be consumed."""
        shared_loop.run(self._client.wipe_write_permission(broker_name))

    def add_write_permission(self, broker_name: str) -> None:
        """Let producers choose the broker again."""
        shared_loop.run(self._client.add_write_permission(broker_name))

    def clean_unused_topics(self, broker_address: str) -> None:
        """Remove the queues of topics that were deleted."""
        shared_loop.run(self._client.clean_unused_topics(broker_address))

    def clean_expired_consume_queues(self, broker_address: str) -> None:
        """Remove what the queues do not need any more since the log begins later, and empty queues that their topic no
        longer has.
        """
        shared_loop.run(self._client.clean_expired_consume_queues(broker_address))

    def delete_expired_commit_log(self, broker_address: str) -> None:
        """Remove log files that are past their retention now instead of at the set hour."""
        shared_loop.run(self._client.delete_expired_commit_log(broker_address))
