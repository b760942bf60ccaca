"""A slave is told what it has not in common with its master."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.errors import ConfigError
from regulus.server.master_settings import check

FILE_SIZE = 1 << 30
MASTER = {"brokerName": "broker-a", "brokerId": "0", "mappedFileSizeCommitLog": str(FILE_SIZE),
          "messageDelayLevel": "1s 5s", "maxMessageSize": "4194304"}
SLAVE = BrokerConfig(broker_role="SLAVE", broker_id=1, namesrv_addr="h:1",      # type: ignore[arg-type]
                     message_delay_level="1s 5s")


def test_what_is_the_same_or_not_said_is_not_told() -> None:
    assert check(MASTER, "h:1", SLAVE, FILE_SIZE) == []
    assert check({}, "h:1", SLAVE, FILE_SIZE) == []
    assert check({**MASTER, "messageDelayLevel": "1000ms  5s"}, "h:1", SLAVE, FILE_SIZE) == []


@pytest.mark.parametrize(("key", "value", "words"), [
    ("brokerName", "broker-b", "at h:1 is 'broker-b', and this is a slave of 'broker-a'"),
    ("brokerId", "2", "is a slave itself, brokerId 2 of 'broker-a': let haMasterAddress"),
    ("brokerId", "1", "is a slave itself, brokerId 1 of 'broker-a', as this one: let"),
    ("mappedFileSizeCommitLog", "4096", "has files of 4096 bytes, and the one here of 1073741824: set mapped")])
def test_what_is_no_master_of_this_slave_is_not_copied(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check({**MASTER, key: value}, "h:1", SLAVE, FILE_SIZE)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("messageDelayLevel", "1s 6s", "messageDelayLevel of the master is '1s 6s', and here '1s 5s'"),
    ("messageDelayLevel", "soon", "messageDelayLevel of the master is 'soon'"),
    ("maxMessageSize", "4194305", "maxMessageSize of the master is 4194305, and here 4194304")])
def test_what_shows_only_later_is_told_now(key: str, value: str, words: str) -> None:
    (text,) = check({**MASTER, key: value}, "h:1", SLAVE, FILE_SIZE)
    assert text.startswith(words)
