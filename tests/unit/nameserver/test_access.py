"""The table of the name server's door."""

import pytest

from regulus.access.decision import ANY_NAME, Action, Need, ResourceKind
from regulus.nameserver.access import NEEDS, OPEN, needs_of
from regulus.nameserver.handlers import HANDLERS, ROUTE_CHANGES, SETTINGS
from regulus.wire.codes import RequestCode as Code
from regulus.wire.remoting_command import RemotingCommand


def test_every_code_stands_in_one_table():
    assert [code.name for code in Code if (code in NEEDS) == (code in OPEN)] == []


def test_nothing_that_changes_is_open():
    changes = {*ROUTE_CHANGES, *SETTINGS, Code.UPDATE_NAMESRV_CONFIG, Code.REGISTER_BROKER, Code.UNREGISTER_BROKER,
               Code.QUERY_DATA_VERSION, Code.BROKER_HEARTBEAT}
    assert OPEN & changes == set()
    assert HANDLERS.keys() >= OPEN


def test_a_registration_needs_the_cluster():
    expected = (Need(ResourceKind.CLUSTER, ANY_NAME, (Action.UPDATE,)),)
    assert needs_of(RemotingCommand.request(Code.REGISTER_BROKER)) == expected


def test_an_unknown_code_has_no_needs_that_could_be_met():
    with pytest.raises(KeyError):
        needs_of(RemotingCommand.request(9999))
