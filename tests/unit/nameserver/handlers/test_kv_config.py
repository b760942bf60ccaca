import json

import pytest

from regulus.wire.codes import RequestCode, ResponseCode
from tests.unit.nameserver.support import NameServerUnderTest

KEY = {"namespace": "NS1", "key": "key1"}


def test_what_was_put_is_got_until_it_is_deleted() -> None:
    server = NameServerUnderTest()
    server.ask(RequestCode.PUT_KV_CONFIG, {**KEY, "value": "value1"})
    assert server.ask(RequestCode.GET_KV_CONFIG, KEY).ext == {"value": "value1"}
    server.ask(RequestCode.DELETE_KV_CONFIG, KEY)
    response = server.ask(RequestCode.GET_KV_CONFIG, KEY)
    assert response.code == ResponseCode.QUERY_NOT_FOUND
    assert "NS1" in (response.remark or "")
    assert "key1" in (response.remark or "")


def test_an_absent_key_may_be_deleted() -> None:
    assert NameServerUnderTest().ask(RequestCode.DELETE_KV_CONFIG, KEY).code == ResponseCode.SUCCESS


def test_a_namespace_as_a_whole() -> None:
    server = NameServerUnderTest()
    assert server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "NS1"}).code == ResponseCode.QUERY_NOT_FOUND
    server.ask(RequestCode.PUT_KV_CONFIG, {**KEY, "value": "value1"})
    assert json.loads(server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "NS1"}).body) == {
        "table": {"key1": "value1"}}


@pytest.mark.parametrize("missing", ["namespace", "key", "value"])
def test_a_missing_field_is_refused(missing: str) -> None:
    ext = {**KEY, "value": "value1"}
    del ext[missing]
    response = NameServerUnderTest().ask(RequestCode.PUT_KV_CONFIG, ext)
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert missing in (response.remark or "")
