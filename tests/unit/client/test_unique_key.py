import os
import re
import subprocess
import sys
from datetime import datetime

from regulus.client.unique_key import UniqueKeys, client_id, local_address, new_instance_name
from regulus.model.message_id import unique_key_month_ms

NOON = int(datetime(2026, 3, 20, 12).timestamp() * 1000)
MONTH_START = int(datetime(2026, 3, 1).timestamp() * 1000)


def test_keys_carry_address_process_and_time_since_the_month_began():
    key = UniqueKeys("10.0.0.5").make(NOON)
    raw = bytes.fromhex(key)
    assert re.fullmatch("[0-9A-F]{32}", key)
    assert raw[:4] == bytes((10, 0, 0, 5))
    assert int.from_bytes(raw[4:6], "big") == os.getpid() & 0xFFFF
    assert unique_key_month_ms(key) == NOON - MONTH_START


def test_keys_of_the_same_moment_differ_also_when_the_counter_wraps():
    keys = UniqueKeys("10.0.0.5")
    assert len({keys.make(NOON) for _ in range(60_000)}) == 60_000


def test_a_new_month_starts_from_zero():
    keys = UniqueKeys("10.0.0.5")
    keys.make(NOON)
    april = int(datetime(2026, 4, 1, 0, 0, 1).timestamp() * 1000)
    assert unique_key_month_ms(keys.make(april)) == 1000
    december = int(datetime(2026, 12, 31, 23).timestamp() * 1000)
    assert unique_key_month_ms(keys.make(december)) == december - int(datetime(2026, 12, 1).timestamp() * 1000)


def test_a_clock_that_is_set_back_into_the_month_before_goes_on_from_its_beginning():
    keys = UniqueKeys("10.0.0.5")
    keys.make(int(datetime(2026, 4, 1, 0, 0, 1).timestamp() * 1000))
    assert unique_key_month_ms(keys.make(NOON)) == NOON - MONTH_START


def test_two_sources_of_one_process_make_different_keys():
    one, two = UniqueKeys("10.0.0.5"), UniqueKeys("10.0.0.5")
    assert one.make(NOON)[12:20] != two.make(NOON)[12:20]


def test_an_ipv6_address_makes_longer_keys():
    assert len(UniqueKeys("2001:db8::1").make(NOON)) == 56


def test_client_ids_have_address_instance_and_unit():
    assert client_id("10.0.0.5", "one") == "10.0.0.5@one"
    assert client_id("10.0.0.5", "one", "east") == "10.0.0.5@one@east"
    assert re.fullmatch(rf"{os.getpid()}#\d+", new_instance_name())
    assert new_instance_name() != new_instance_name()
    assert local_address().count(".") == 3


def test_first_processes_of_containers_with_one_address_have_names_of_their_own():
    program = """import os; os.getpid = lambda: 1
from regulus.client.unique_key import client_id, new_instance_name
print(client_id('172.17.0.2', new_instance_name()))
"""
    ids = {subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
           for _ in range(2)}
    assert len(ids) == 2
    assert all(re.fullmatch(r"172\.17\.0\.2@1#\d+\n", each) for each in ids)
