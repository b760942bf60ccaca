"""How far slaves are, as a broker without a server knows it; `server/test_replication.py` has real ones."""

import json

from regulus.wire.codes import RequestCode


def test_a_broker_alone_is_a_master_without_slaves(rig):
    rig.send(body=b"one")
    status = json.loads(rig.ask(RequestCode.GET_BROKER_HA_STATUS).body)
    assert status["master"] is True
    assert status["masterCommitLogMaxOffset"] == rig.store.commit_log_max_offset() > 0
    assert (status["haConnectionInfo"], status["inSyncSlaveNums"]) == ([], 0)
