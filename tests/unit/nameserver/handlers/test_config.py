from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.config_text import parse_lines
from tests.unit.nameserver.support import NameServerUnderTest


def test_settings_are_sorted_lines() -> None:
    text = NameServerUnderTest(listen_port=9999).ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    values = parse_lines(text)
    assert list(values) == sorted(values)
    assert values["listenPort"] == "9999"
    assert values["orderMessageEnable"] == "false"
    assert values["productEnvName"] == "center"


def test_a_setting_changes_at_once() -> None:
    server = NameServerUnderTest()
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n").code == ResponseCode.SUCCESS
    assert server.state.config.order_message_enable is True


def test_some_settings_may_never_change_from_outside() -> None:
    server = NameServerUnderTest()
    for key in ("kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList"):
        response = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=f"{key}=/tmp/x\norderMessageEnable=true".encode())
        assert response.code == ResponseCode.NO_PERMISSION
    assert server.state.config.order_message_enable is False


def test_what_cannot_change_while_running_is_named() -> None:
    response = NameServerUnderTest().ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert "listenPort cannot change" in (response.remark or "")


def test_a_bad_value_is_named() -> None:
    for body in (b"orderMessageEnable=perhaps", b"scanNotActiveBrokerInterval=soon", b"scanNotActiveBrokerInterval=0"):
        response = NameServerUnderTest().ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert body.split(b"=")[0].decode() in (response.remark or "")


def test_what_is_not_served_is_refused_with_what_to_do_instead() -> None:
    server = NameServerUnderTest()
    response = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"clusterTest=true\norderMessageEnable=true")
    assert response.code == ResponseCode.SYSTEM_ERROR
    assert response.remark == ("clusterTest=true is not served: a name server here asks no other one; "
                               "write clusterTest=false")
    assert server.state.config.order_message_enable is False
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"clusterTest=false").code == ResponseCode.SUCCESS
