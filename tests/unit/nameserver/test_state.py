from regulus.nameserver.config import NamesrvConfig
from regulus.nameserver.state import NameServerState
from tests.unit.nameserver.support import NameServerUnderTest


def test_the_key_value_configuration_is_a_document() -> None:
    state = NameServerState(NamesrvConfig())
    assert state.take_changed_documents() == {}
    state.kv_config.put("NS", "k", "v")
    documents = state.take_changed_documents()
    assert list(documents) == ["kvConfig"]
    later = NameServerState(NamesrvConfig())
    later.load_documents(documents)
    assert later.kv_config.get("NS", "k") == "v"
    later.load_documents({})
    assert later.kv_config.get("NS", "k") == "v"


def test_a_tick_tells_when_it_wants_the_next_one() -> None:
    assert NameServerUnderTest(scan_not_active_broker_interval=700).state.tick(0) == 700
