"""What an address says of the protocol."""

import pytest

from regulus.client.connecting.name_servers import parse_addresses
from regulus.client.core.addresses import Protocol, grpc_targets, split_protocol
from regulus.errors import ConfigError


def test_without_a_protocol_it_is_that_of_name_servers() -> None:
    assert split_protocol("a:1;b:2") == (Protocol.REMOTING, "a:1;b:2")
    assert split_protocol("rocketmq://a:1;b:2") == (Protocol.REMOTING, "a:1;b:2")
    assert split_protocol(" grpc://a:1") == (Protocol.GRPC, "a:1")


@pytest.mark.parametrize("text", ["http://a:1", "GRPC://a:1", "://a:1"])
def test_what_nobody_speaks_is_said_with_what_is_possible(text: str) -> None:
    with pytest.raises(ConfigError, match="rocketmq:// or grpc://"):
        split_protocol(text)


def test_name_servers_are_named_with_or_without_the_protocol() -> None:
    assert parse_addresses("rocketmq://a:1;b:2") == parse_addresses("a:1;b:2") == ("a:1", "b:2")
    with pytest.raises(ConfigError, match="name servers"):
        parse_addresses("grpc://a:1")


def test_several_servers_may_be_named() -> None:
    assert grpc_targets("a:1; [::1]:2,c:3") == ("a:1", "[::1]:2", "c:3")


@pytest.mark.parametrize("text", ["", ";", "a", "a:", ":1", "a:x", "a:0", "a:65536", "a:1;b", "a:１"])
def test_what_is_no_address_of_a_server_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        grpc_targets(text)
