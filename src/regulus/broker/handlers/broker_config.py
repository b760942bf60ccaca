"""UPDATE_BROKER_CONFIG, GET_BROKER_CONFIG. A change is lost when the broker stops."""

from dataclasses import fields, replace

from regulus.access.credentials import shown_values
from regulus.broker.handlers.answer import succeed
from regulus.broker.handlers.named_body import named_body
from regulus.broker.outcome import Outcome, refuse
from regulus.broker.state import BrokerState
from regulus.errors import ConfigError
from regulus.model import permission
from regulus.model.broker_role import BrokerRole
from regulus.model.fixed_settings import FIXED_BROKER_SETTINGS, setting_fault
from regulus.model.peer import Peer
from regulus.model.retention_rules import RetentionRules
from regulus.model.topics import AUTO_CREATE_TOPIC, TopicConfig
from regulus.wire import config_text
from regulus.wire.bodies import encode_data_version
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import GetBrokerConfigResponse
from regulus.wire.remoting_command import RemotingCommand

UPDATABLE_KEYS = frozenset({
    "autoCreateSubscriptionGroup", "autoCreateTopicEnable", "brokerPermission", "defaultQueryMaxNum",
    "enableNotifyAfterPopOrderLockRelease", "enablePopBufferMerge", "enablePropertyFilter",
    "flushConsumerOffsetInterval", "flushDelayOffsetInterval", "litePullMessageEnable",
    "longPollingEnable", "maxMessageSize", "maxTransferBytesOnMessageInMemory", "maxTransferCountOnMessageInMemory",
    "regionId", "rejectTransactionMessage", "shortPollingTimeMills", "startAcceptSendRequestTimeStamp", "traceOn",
    "transactionCheckInterval", "transactionCheckMax", "transactionTimeOut",
    "useServerSideResetOffset"}).union(config_text.config_key(rule.name) for rule in fields(RetentionRules))
"""Keys that may change while the broker runs."""

FORBIDDEN_KEYS = frozenset({"brokerConfigPath", "configBlackList", "initAuthenticationUser",
                            "innerClientAuthenticationCredentials", "rocketmqHome"})
"""Keys that requests may never change."""

FIXED_VALUES = {**{key: fixed.value for key, fixed in FIXED_BROKER_SETTINGS.items()},
                "messageIndexEnable": "true", "brokerConfigPath": "",
                "configBlackList": ";".join(sorted(FORBIDDEN_KEYS))}
"""Settings that tools ask for and that this broker does not have, with the values that describe its behaviour."""


def handle_update_broker_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """Changes all keys or none."""
    values = config_text.parse_lines(named_body(request).decode("utf-8", "replace"))
    if not FORBIDDEN_KEYS.isdisjoint(values):
        return refuse(request, ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    unserved = [fault for fault in map(setting_fault, values, values.values()) if fault is not None]
    if unserved:
        return refuse(request, ResponseCode.SYSTEM_ERROR, "; ".join(unserved))
    shown = _shown(broker)
    fixed = sorted(key for key in values.keys() - UPDATABLE_KEYS - FIXED_BROKER_SETTINGS.keys()
                   if values[key].strip() != shown.get(key))
    if fixed:
        return refuse(request, ResponseCode.SYSTEM_ERROR,
                      f"{', '.join(fixed)} cannot change while the broker runs; these can: "
                      f"{', '.join(sorted(UPDATABLE_KEYS))}")
    if not values:
        return refuse(request, ResponseCode.SYSTEM_ERROR, "string2Properties error: there is no key=value line")
    try:
        config = config_text.with_values(broker.config, {key: text for key, text in values.items()
                                                         if key in UPDATABLE_KEYS})
    except ConfigError as error:
        return refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
    before = broker.config
    broker.set_config(config)
    broker.config_version = broker.config_version.next(now_ms)
    if config.auto_create_topic_enable != before.auto_create_topic_enable:
        _offer_template(broker, config.auto_create_topic_enable, now_ms)
    elif config.broker_permission != before.broker_permission:
        broker.topics.put_all((), now_ms)  # each topic's registered permission follows the broker's
    return succeed(request)


def handle_get_broker_config(request: RemotingCommand, peer: Peer, broker: BrokerState, now_ms: int) -> Outcome:
    """All settings of broker and store, sorted, and the version of the changes."""
    values = _shown(broker)
    version = GetBrokerConfigResponse(version=encode_data_version(broker.config_version).decode())
    return succeed(request, config_text.format_lines(values).encode(), version.ext())


def _shown(broker: BrokerState) -> dict[str, str]:
    return {**FIXED_VALUES, **broker.runtime_facts.store_config, **shown_values(broker.config),
            "brokerRole": broker.config.broker_role or BrokerRole.ASYNC_MASTER}


def _offer_template(broker: BrokerState, offered: bool, now_ms: int) -> None:
    """Allow or stop the creation of topics by sends, which requires that the template topic passes on its
    permission."""
    queue_nums = broker.config.default_topic_queue_nums
    template = broker.topics.get(AUTO_CREATE_TOPIC) or TopicConfig(
        topic_name=AUTO_CREATE_TOPIC, read_queue_nums=queue_nums, write_queue_nums=queue_nums)
    perm = template.perm | permission.INHERIT if offered else template.perm & ~permission.INHERIT
    broker.topics.put(replace(template, perm=perm), now_ms)
