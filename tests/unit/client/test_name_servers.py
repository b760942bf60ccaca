import pytest

from regulus.client.name_servers import parse_addresses
from regulus.errors import ConfigError


def test_addresses_are_separated_by_semicolons_or_commas():
    assert parse_addresses("a:1; b:2,[::1]:3;") == ("a:1", "b:2", "[::1]:3")


@pytest.mark.parametrize("text", ["", " ; ", "localhost", "host:port", "host:99999"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError):
        parse_addresses(text)
