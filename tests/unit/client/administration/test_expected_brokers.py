"""All brokers are there that a reader says there are, and no others."""

import pytest

from regulus.client.administration.expected_brokers import check_brokers
from regulus.errors import ClientError, OptionError
from regulus.spark.options import parse_options
from regulus.wire.bodies import BrokerData, ClusterInfo


def cluster(**addresses: dict[int, str]) -> ClusterInfo:
    return ClusterInfo(broker_addr_table={
        name: BrokerData(cluster="c", broker_name=name, broker_addrs=of) for name, of in addresses.items()})


def test_the_brokers_that_are_expected_pass():
    check_brokers(["b", "a"], cluster(a={0: "h:1"}, b={0: "h:2", 1: "h:3"}))


@pytest.mark.parametrize(("there", "reason"), [
    ({"a": {0: "h:1"}}, "expected brokers are away: b, and"),
    ({"a": {0: "h:1"}, "b": {1: "h:3"}}, "expected brokers are away: b, and"),
    ({}, "expected brokers are away: a, b, and"),
    ({name: {0: "h:1"} for name in "abcd"}, "brokers are there that are not expected: c, d: add them")],
    ids=["away", "only a slave is there", "all away", "more"])
def test_others_are_named(there, reason):
    with pytest.raises(ClientError, match=reason):
        check_brokers(["a", "b"], cluster(**there))


def test_files_have_no_brokers_to_expect():
    assert parse_options({"nameServer": "n:1", "topic": "t", "expectedBrokers": "a, b"}).expected_brokers == ("a", "b")
    with pytest.raises(OptionError, match="option 'expectedBrokers' needs a running broker"):
        parse_options({"storePath": "/store", "topic": "t", "expectedBrokers": "a"})
