"""`regulus cluster` against a real server."""

import json

import pytest
from click.testing import CliRunner

from regulus.broker.config import BrokerConfig
from regulus.cli.cluster import _group, cluster
from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.cli.group import group
from regulus.testing.running_server import ServerThread


def test_brokers_show_themselves(run, regulus_server):
    assert regulus_server.address in run(cluster, "list")
    (row,) = json.loads(run(cluster, "list", "--output", "json"))
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert (row["role"], row["behind"]) == ("MASTER", "-")
    assert "putTps" in json.loads(run(cluster, "status", regulus_server.address, "--output", "json"))
    status = run(cluster, "status", regulus_server.address, "--config", "--output", "json")
    assert json.loads(status)["brokerName"] == "broker-a"


@pytest.mark.parametrize("listing", [cluster, group], ids=lambda command: command.name)
def test_a_listing_that_a_broker_could_not_be_asked_for_fails_with_the_reason(tmp_path, listing):
    """It listens at the loopback, and tells clients to call another address."""
    with ServerThread(tmp_path, BrokerConfig(listen_port=0, broker_ip1="127.0.0.2")) as server:
        result = CliRunner().invoke(listing, ["list"], env={"NAMESRV_ADDR": server.name_server_address})
    assert exit_code(result.exception) is ExitCode.NOT_REACHABLE
    assert "127.0.0.2" in str(result.exception)
    assert ("broker-a" in result.output) is (listing is cluster)


@pytest.mark.parametrize("facts", [{"brokerRole": "SLAVE"}, {}], ids=["ours", "rocketmq"])
async def test_a_slave_shows_how_far_it_is_behind_its_master(facts):
    class Brokers:
        async def broker_runtime_info(self, address):
            ends = {"master:1": "900", "slave:1": "650"}
            return {"commitLogMaxOffset": ends[address], **(facts if address == "slave:1" else {})}

    rows, silent = await _group(Brokers(), {1: "slave:1", 0: "master:1"})
    assert silent is None
    assert [row[:4] for row in rows] == [(0, "master:1", "MASTER", "-"), (1, "slave:1", "SLAVE", "250")]
    assert (await _group(Brokers(), {1: "slave:1"}))[0][0][3] == "-"
