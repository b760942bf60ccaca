"""RocketMQ settings for features that are not served here, each with the only value that is accepted.

A file with this value needs no change. Any other value is refused with the alternative: a broker that starts and does
not do what its file promises is worse than one that does not start. RocketMQ's other keys tune its own threads, caches
and intervals, and may have any value.

Source: the defaults of BrokerConfig, MessageStoreConfig and NamesrvConfig, releases 4.9.8 and 5.3.3.
"""

from typing import NamedTuple


class FixedSetting(NamedTuple):
    value: str
    instead: str


_ALONE = "master and slaves are set by brokerRole here (docs/replication.md)"
_V1 = "make the users with createUser and createAcl (docs/access.md)"
_FILES = "queues and log are ordinary files here; export the store with RocketMQ's own tools first"
_POP = "set the mode of a topic and group with setConsumeMode (docs/pop.md)"
_LIGHT = "light queues are not served; use a topic for each"

FIXED_BROKER_SETTINGS = {
    # the role of the broker, and its copies
    "duplicationEnable": FixedSetting("false", _ALONE),
    "enableControllerMode": FixedSetting("false", _ALONE),
    "enableDLegerCommitLog": FixedSetting("false", _ALONE),
    "enableSlaveActingMaster": FixedSetting("false", _ALONE),
    "enableRemoteEscape": FixedSetting("false", _ALONE),
    # access
    "migrateAuthFromV1Enabled": FixedSetting("false", _V1),
    "useTLS": FixedSetting("false", "leave it out; tls.server.certPath and tls.server.keyPath let this port speak "
                           "TLS (docs/tls.md)"),
    # how messages are stored
    "storeType": FixedSetting("default", _FILES),
    "enableRocksDBLog": FixedSetting("false", _FILES),
    "rocksdbCQDoubleWriteEnable": FixedSetting("false", _FILES),
    "readOnlyCommitLogStorePaths": FixedSetting("", "a log lies in one directory here; move its files into that"),
    "messageStorePlugIn": FixedSetting("", "classes of Java are not loaded here"),
    "enabledAppendPropCRC": FixedSetting("false", "the checksum of a record is of its body here"),
    "forceVerifyPropCRC": FixedSetting("false", "the checksum of a record is of its body here"),
    # what clients see
    "filterSupportRetry": FixedSetting("false", "a retried message was wanted already"),
    "enableLmq": FixedSetting("false", _LIGHT),
    "enableMultiDispatch": FixedSetting("false", _LIGHT),
    "defaultMessageRequestMode": FixedSetting("PULL", _POP),
    "rejectPullConsumerEnable": FixedSetting("false", "set consumeEnable of the groups that may not pull"),
    "disableConsumeIfConsumerReadSlowly": FixedSetting("false", "set consumeEnable of the groups that may not pull"),
    "notifyConsumerIdsChangedEnable": FixedSetting("true", "set it for each group"),
    "useStaticSubscription": FixedSetting("false", "a group wants here what its consumers say"),
    "storeReplyMessageEnable": FixedSetting("true", "replies are stored here as all messages are"),
    "clearRetryTopicWhenDeleteTopic": FixedSetting("true", "retry topics go with their topic here"),
    "validateSystemTopicWhenUpdateTopic": FixedSetting("true", "operators cannot set the broker's own topics here"),
    "filterServerNums": FixedSetting("0", "filter servers are not served; filter by tag"),
    "inBrokerContainer": FixedSetting("false", "each broker is a process of its own here"),
    # how it finds other servers, and what it reports
    "fetchNamesrvAddrByAddressServer": FixedSetting("false", "write the addresses into namesrvAddr"),
    "fetchNameSrvAddrByDnsLookup": FixedSetting("false", "write the addresses into namesrvAddr"),
    "metricsInDelta": FixedSetting("false", "the page of metrics counts from the start, as Prometheus expects"),
}
FIXED_NAME_SERVER_SETTINGS = {
    "clusterTest": FixedSetting("false", "a name server here asks no other one"),
    "productEnvName": FixedSetting("center", "a name server here asks no other one"),
    "enableControllerInNamesrv": FixedSetting("false", _ALONE),
}
FIXED_SETTINGS = FIXED_BROKER_SETTINGS | FIXED_NAME_SERVER_SETTINGS


def setting_fault(key: str, text: str) -> str | None:
    """Why a broker or name server cannot have this value; None when it can."""
    fixed = FIXED_SETTINGS.get(key)
    if fixed is None or text.strip().lower() == fixed.value.lower():
        return None
    return f"{key}={text.strip()} is not served: {fixed.instead}; write {key}={fixed.value}"
