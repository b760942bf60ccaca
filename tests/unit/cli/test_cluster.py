"""`regulus cluster` against a real server."""

import json

import pytest
from click.testing import CliRunner

from regulus.broker.config import BrokerConfig
from regulus.cli.cluster import cluster
from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.cli.group import group
from regulus.testing.running_server import ServerThread


def test_brokers_show_themselves(run, regulus_server):
    assert regulus_server.address in run(cluster, "list")
    (row,) = json.loads(run(cluster, "list", "--json"))
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert "putTps" in json.loads(run(cluster, "status", regulus_server.address, "--json"))
    assert json.loads(run(cluster, "status", regulus_server.address, "--config", "--json"))["brokerName"] == "broker-a"


@pytest.mark.parametrize("listing", [cluster, group], ids=lambda command: command.name)
def test_a_listing_that_a_broker_could_not_be_asked_for_fails_with_the_reason(tmp_path, listing):
    """It listens at the loopback, and tells clients to call another address."""
    with ServerThread(tmp_path, BrokerConfig(listen_port=0, broker_ip1="127.0.0.2")) as server:
        result = CliRunner().invoke(listing, ["list"], env={"NAMESRV_ADDR": server.name_server_address})
    assert exit_code(result.exception) is ExitCode.NOT_REACHABLE
    assert "127.0.0.2" in str(result.exception)
    assert ("broker-a" in result.output) is (listing is cluster)
