import pytest

from regulus.errors import OptionError
from regulus.spark.credentials import Credentials, resolve


@pytest.mark.parametrize("text", ["accessKey: reader\nsecretKey: 12 34\n", "accessKey=reader;secretKey=12 34",
                                  "# by the tools\r\nsecretKey : 12 34\r\naccessKey:reader\r\n"])
def test_keys_from_the_environment_and_from_a_file(text, tmp_path):
    path = tmp_path / "keys"
    path.write_text(text)
    assert resolve("env:KEYS", {"KEYS": text}) == resolve(f"file:{path}", {}) == Credentials("reader", "12 34")


def test_no_place_means_no_keys():
    assert resolve("", {}) == Credentials("", "")


@pytest.mark.parametrize(("place", "why"), [
    ("env:ABSENT", "has no ABSENT: set it on the executors"),
    ("file:/no/such/file", "cannot be read on this executor (No such file or directory)"),
    ("reader:hunter2", "must be env:NAME or file:/path"),
    ("env:HALF", "there is no secretKey in it"),
])
def test_what_is_wrong_is_said_without_the_secret(place, why):
    with pytest.raises(OptionError) as raised:
        resolve(place, {"HALF": "accessKey: hunter2"})
    assert why in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_secret_is_not_shown():
    assert "hunter2" not in repr(Credentials("reader", "hunter2"))
