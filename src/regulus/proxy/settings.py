"""The settings that a client gets: its own ones, with those on top that the server decides.

Source: GrpcClientSettingsManager.
"""


from regulus.model.topics import SubscriptionGroupConfig
from regulus.proxy.config import ProxyConfig
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Language
from regulus.wire.grpc.times import set_ms

CUSTOMIZED_BACKOFF_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Delay until the next delivery after the first failed one, the second, and so on; the last delay is repeated."""
_INITIAL_MS, _MAX_MS, _MULTIPLIER = 5_000, 7_200_000, 2
"""First delay, longest delay and factor for Node.js clients, which ignore a list of delays."""
CONSUMERS = frozenset((ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER))
"""The consumers that are served."""
LITE_CONSUMERS = frozenset((ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER))
"""Consumers of lite topics, which are refused."""


def max_attempts(group: SubscriptionGroupConfig) -> int:
    """The number of deliveries after which a message becomes a dead letter."""
    return max(0, group.retry_max_times) + 1


def retry_delay_ms(failures: int) -> int:
    """Delay until the next delivery, in ms. `failures`: deliveries that failed before this one."""
    return CUSTOMIZED_BACKOFF_S[min(max(0, failures), len(CUSTOMIZED_BACKOFF_S) - 1)] * 1000


def merged(settings: messages.Settings, config: ProxyConfig,
           group: SubscriptionGroupConfig | None) -> messages.Settings:
    """The settings for a client. `group` has those of a consumer's group; None for a producer."""
    made = messages.Settings()
    made.CopyFrom(settings)
    made.metric.Clear()
    made.metric.on = False
    made.backoff_policy.Clear()
    if group is None:
        _be_producer(made, config)
    else:
        _be_consumer(made, config, group)
    return made


def _be_producer(made: messages.Settings, config: ProxyConfig) -> None:
    made.publishing.max_body_size = config.max_message_size
    made.publishing.validate_message_type = config.enable_topic_message_type_check
    made.backoff_policy.max_attempts = config.grpc_client_producer_max_attempts
    backoff = made.backoff_policy.exponential_backoff
    set_ms(backoff.initial, config.grpc_client_producer_backoff_initial_millis)
    set_ms(backoff.max, config.grpc_client_producer_backoff_max_millis)
    backoff.multiplier = config.grpc_client_producer_backoff_multiplier


def _be_consumer(made: messages.Settings, config: ProxyConfig, group: SubscriptionGroupConfig) -> None:
    made.subscription.fifo = group.consume_message_orderly
    made.subscription.receive_batch_size = config.grpc_client_consumer_long_polling_batch_size
    set_ms(made.subscription.long_polling_timeout, config.grpc_client_consumer_max_long_polling_timeout_millis)
    made.backoff_policy.max_attempts = max_attempts(group)
    if made.user_agent.language == Language.NODE_JS:
        # It ignores a list of delays, and would have failed messages delivered again at once.
        backoff = made.backoff_policy.exponential_backoff
        set_ms(backoff.initial, _INITIAL_MS)
        set_ms(backoff.max, _MAX_MS)
        backoff.multiplier = _MULTIPLIER
        return
    for seconds in CUSTOMIZED_BACKOFF_S:
        made.backoff_policy.customized_backoff.next.add().seconds = seconds
