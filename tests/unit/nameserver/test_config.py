import pytest

from regulus.errors import ConfigError
from regulus.nameserver.config import FORBIDDEN_KEYS, UPDATABLE_KEYS, NamesrvConfig
from regulus.wire.config_text import config_values


def test_defaults_are_those_of_rocketmq() -> None:
    config = NamesrvConfig()
    assert config.listen_port == 9876
    assert config.order_message_enable is False
    assert config.scan_not_active_broker_interval == 5000


@pytest.mark.parametrize(("wrong", "key"), [
    ({"listen_port": 70_000}, "listenPort"), ({"listen_port": -1}, "listenPort"),
    ({"scan_not_active_broker_interval": 0}, "scanNotActiveBrokerInterval")])
def test_a_wrong_value_is_named(wrong: dict[str, int], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        NamesrvConfig(**wrong)


def test_updatable_keys_exist_and_are_allowed() -> None:
    assert set(config_values(NamesrvConfig())) >= UPDATABLE_KEYS
    assert UPDATABLE_KEYS.isdisjoint(FORBIDDEN_KEYS)
