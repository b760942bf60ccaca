"""Files of RocketMQ and TOML, known, unknown and misspelt keys."""

from pathlib import Path

import pytest

from regulus.broker.config import BrokerConfig
from regulus.cli.config_file import LoadedConfigs, apply, load
from regulus.cli.rocketmq_keys import ROCKETMQ_KEYS
from regulus.cli.serve import load_configs
from regulus.errors import ConfigError
from regulus.model.fixed_settings import FIXED_SETTINGS
from regulus.model.store_rules import FlushDiskType
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.store.config import MessageStoreConfig
from regulus.transport.config import TransportConfig
from regulus.wire.config_text import config_values

BROKER_CONF = """
# a broker.conf as it ships with RocketMQ
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
listenPort=11911
namesrvAddr=127.0.0.1:9876;127.0.0.1:9877
brokerIP1=127.0.0.1
sendMessageThreadPoolNums=16
storePathRootDir=/tmp/store
"""


def loaded(tmp_path: Path, name: str, text: str) -> LoadedConfigs:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load(path, BrokerConfig(), MessageStoreConfig())


def test_a_conf_of_rocketmq_is_taken_as_it_is(tmp_path: Path) -> None:
    result = loaded(tmp_path, "broker.conf", BROKER_CONF)
    broker, store = result.configs
    assert (broker.broker_name, broker.listen_port, broker.broker_ip1) == ("broker-b", 11911, "127.0.0.1")
    assert broker.namesrv_addr == "127.0.0.1:9876;127.0.0.1:9877"
    assert broker.flush_disk_type is FlushDiskType.SYNC_FLUSH
    assert broker.file_reserved_time == 48
    assert store.store_path_root_dir == "/tmp/store"
    assert "sendMessageThreadPoolNums" in result.ignored
    assert result.warning is not None
    assert result.warning.count("\n") == 0


def test_where_a_damaged_log_may_be_cut_is_a_key_of_ours(tmp_path: Path) -> None:
    _, store = loaded(tmp_path, "broker.conf", "cutDamagedLog=4096\n").configs
    assert store.cut_damaged_log == 4096


def test_whether_parts_of_a_store_may_be_left_out_is_a_key_of_ours(tmp_path: Path) -> None:
    _, store = loaded(tmp_path, "broker.conf", "takeWhatIsReadable=true\n").configs
    assert store.take_what_is_readable


def test_toml_takes_both_spellings_and_tables(tmp_path: Path) -> None:
    broker, store = loaded(tmp_path, "regulus.toml", """
        broker_name = "broker-t"
        autoCreateTopicEnable = false
        namesrv_addr = ["a:1", "b:2"]
        [store]
        flush_disk_type = "SYNC_FLUSH"
        mapped_file_size_commit_log = 1048576
    """).configs
    assert (broker.broker_name, broker.auto_create_topic_enable, broker.namesrv_addr) == ("broker-t", False, "a:1;b:2")
    assert (broker.flush_disk_type, store.mapped_file_size_commit_log) == (FlushDiskType.SYNC_FLUSH, 1 << 20)


def test_nothing_ignored_is_nothing_said() -> None:
    assert apply({"listenPort": "1"}, BrokerConfig()).warning is None


def test_a_key_with_the_one_value_that_is_served_is_no_news() -> None:
    values = {key: fixed.value for key, fixed in FIXED_SETTINGS.items()}
    assert apply(values, BrokerConfig(), MessageStoreConfig(), TransportConfig()).ignored == ()


@pytest.mark.parametrize("key", sorted(FIXED_SETTINGS))
def test_a_key_that_promises_what_is_not_served_is_refused_with_what_to_do_instead(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"broker\.conf: {key}=other is not served: .*; write {key}="):
        loaded(tmp_path, "broker.conf", f"{key} = other")


def test_every_such_key_is_one_of_rocketmq_s_and_no_setting_of_ours() -> None:
    ours = {key for config in (BrokerConfig(), MessageStoreConfig(), TransportConfig(), NamesrvConfig())
            for key in config_values(config)}
    assert FIXED_SETTINGS.keys() <= ROCKETMQ_KEYS - ours


@pytest.mark.parametrize(("key", "nearest"), [
    ("listenprot", "listenPort"), ("flushDiskTyp", "flushDiskType"), ("brokername", "brokerName"),
    ("broker_nmae", "brokerName"), ("sendMessageThreadPoolNum", "sendMessageThreadPoolNums"),
])
def test_a_misspelt_key_is_refused_with_the_nearest_name(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown key {key}: did you mean {nearest}"):
        apply({key: "1"}, BrokerConfig(), MessageStoreConfig())


@pytest.mark.parametrize("key", ["zzzz", "checkTransactionMessageEnable"])     # nothing rejects transactions there
def test_a_key_like_no_other_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="no known key resembles it"):
        apply({key: "1"}, BrokerConfig())


@pytest.mark.parametrize(("name", "text", "cause"), [
    ("a.conf", "listenPort=many", "listenPort has 'many'"),
    ("a.conf", "listenPort=70000", "listenPort is 70000"),
    ("a.toml", "listenPort = ", "not TOML"),
    ("a.toml", "listen_port = 1979-05-27", "write a text"),
])
def test_a_wrong_value_is_refused_with_file_and_key(tmp_path: Path, name: str, text: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause) as caught:
        loaded(tmp_path, name, text)
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.conf"):
        load(tmp_path / "none.conf", BrokerConfig())


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bin.conf"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(path, BrokerConfig())


@pytest.mark.parametrize("suffix", ["conf", "toml"])
def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"windows.{suffix}"
    path.write_bytes(b'\xef\xbb\xbfbrokerName = ' + (b'"b1"' if suffix == "toml" else b"b1"))
    assert load(path, BrokerConfig()).configs[0].broker_name == "b1"


def test_comments_may_be_in_any_encoding_and_values_in_one(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    comment = "# \u96c6\u7fa4\u540d\u79f0\n".encode("gbk")
    path.write_bytes(comment + b"storePathRootDir=/\\u96c6\n")
    assert load(path, MessageStoreConfig()).configs[0].store_path_root_dir == "/\u96c6"
    path.write_bytes(comment + "storePathRootDir=/\u96c6".encode("gbk"))
    with pytest.raises(ConfigError, match=r"not UTF-8 in storePathRootDir=.*write it in UTF-8, or as \\uXXXX"):
        load(path, MessageStoreConfig())


def test_one_file_serves_all_commands_and_each_is_told_what_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "all.conf"
    path.write_text("brokerName=b1\ngrpcServerPort=8081\nkvConfigPath=/kv.json\nnamesrvAddr=127.0.0.1:9876\n")
    of_broker = load_configs(path, {}, BrokerConfig(), MessageStoreConfig(), TransportConfig())
    assert of_broker.configs[0].broker_name == "b1"
    assert of_broker.warning == (
        "these keys are for regulus nameserver and have no effect on this command: kvConfigPath; "
        "these keys are for regulus proxy and have no effect on this command: grpcServerPort")
    of_proxy = load_configs(path, {}, ProxyConfig(), TransportConfig())
    assert of_proxy.configs[0].grpc_server_port == 8081
    assert "for regulus broker and have no effect on this command: brokerName" in str(of_proxy.warning)
    path.write_text("grpcServrPort=8081\n")
    with pytest.raises(ConfigError, match="did you mean grpcServerPort"):
        load_configs(path, {}, BrokerConfig(), MessageStoreConfig(), TransportConfig())
