"""`regulus cluster` against a real server."""

import json

from regulus.cli.cluster import cluster


def test_brokers_show_themselves(run, regulus_server):
    assert regulus_server.address in run(cluster, "list")
    (row,) = json.loads(run(cluster, "list", "--json"))
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert "putTps" in json.loads(run(cluster, "status", regulus_server.address, "--json"))
    assert json.loads(run(cluster, "status", regulus_server.address, "--config", "--json"))["brokerName"] == "broker-a"
