import pytest

from regulus.model import message_id

HOST = message_id.host_bytes("10.9.8.7", 10911)


def test_offset_message_id_is_host_and_offset_in_upper_case_hex():
    assert message_id.offset_message_id(HOST, 1000) == "0A09080700002A9F00000000000003E8"


def test_an_offset_message_id_is_read_back():
    assert message_id.parse_offset_message_id("0A09080700002A9F00000000000003E8") == (HOST, 1000)


def test_an_id_of_another_length_is_refused():
    with pytest.raises(ValueError, match="has 32 or 56 hexadecimal digits"):
        message_id.parse_offset_message_id("0A09")


def test_an_id_that_names_no_port_is_refused():
    with pytest.raises(ValueError, match="names port 571932669"):
        message_id.parse_offset_message_id("C00002022216FFFD00000000000003E8")


@pytest.mark.parametrize(("address", "size", "text"), [
    ("10.1.2.3", 8, "10.1.2.3:1234"), ("2001:db8::1", 20, "[2001:db8::1]:1234"),
    ("::ffff:10.1.2.3", 8, "10.1.2.3:1234"),
])
def test_hosts_in_stored_form(address, size, text):
    stored = message_id.host_bytes(address, 1234)
    assert len(stored) == size
    assert message_id.host_text(stored) == text


def test_a_unique_key_tells_when_it_was_made():
    source = message_id.UniqueKeySource(address=bytes((192, 0, 2, 10)), process_id=70000, class_loader_hash=-5)
    key = source.unique_key(month_ms=123456, counter=65537)
    assert len(key) == 32
    assert key.startswith("C000020A")
    assert key.endswith("0001")
    assert message_id.unique_key_month_ms(key) == 123456


def test_a_text_that_is_no_unique_key_is_refused():
    with pytest.raises(ValueError, match="not a unique key"):
        message_id.unique_key_month_ms("00")
