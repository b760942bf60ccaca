"""How many slaves an answer waits for."""

import pytest

from regulus.broker.config import BrokerConfig
from regulus.broker.sync_replicas import replicated_to
from regulus.errors import ConfigError

END = 900


@pytest.mark.parametrize(("settings", "slaves", "expected"), [
    ({}, [], None),
    ({}, [500], 500),
    ({}, [500, 700, 600], 700),
    ({"in_sync_replicas": 1}, [], END),
    ({"in_sync_replicas": 1}, [500], END),
    ({"in_sync_replicas": 3}, [500], None),
    ({"in_sync_replicas": 3}, [500, 700, 600], 600),
    ({"in_sync_replicas": 3, "enable_auto_in_sync_replicas": True}, [500, 700, 600], 600),
    ({"in_sync_replicas": 3, "enable_auto_in_sync_replicas": True}, [500], 500),
    ({"in_sync_replicas": 3, "enable_auto_in_sync_replicas": True}, [], END),
    ({"in_sync_replicas": 3, "enable_auto_in_sync_replicas": True, "min_in_sync_replicas": 2}, [500], 500),
    ({"in_sync_replicas": 3, "enable_auto_in_sync_replicas": True, "min_in_sync_replicas": 2}, [], None),
    ({"all_ack_in_sync_state_set": True}, [500, 700, 600], 500),
    ({"all_ack_in_sync_state_set": True}, [], None),
    ({"all_ack_in_sync_state_set": True, "in_sync_replicas": 1}, [500, 700], 500),
    ({"all_ack_in_sync_state_set": True, "in_sync_replicas": 1}, [], END),
])
def test_enough_slaves_have_it(settings: dict[str, int], slaves: list[int], expected: int | None) -> None:
    assert replicated_to(slaves, END, BrokerConfig(**settings)) == expected      # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"in_sync_replicas": 0}, {"min_in_sync_replicas": 0},
                                      {"in_sync_replicas": 2, "min_in_sync_replicas": 3}])
def test_numbers_that_cannot_be_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="InSyncReplicas"):
        BrokerConfig(**settings)     # type: ignore[arg-type]
