from tests.unit.nameserver.support import NameServerUnderTest


def test_a_tick_tells_when_it_wants_the_next_one() -> None:
    assert NameServerUnderTest(scan_not_active_broker_interval=700).state.tick(0) == 700
