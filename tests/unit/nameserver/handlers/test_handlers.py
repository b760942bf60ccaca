from regulus.nameserver.handlers import HANDLERS, handle
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.remoting_command import RemotingCommand
from tests.unit.nameserver.support import NameServerUnderTest, peer


def test_a_code_of_brokers_is_not_supported() -> None:
    response = NameServerUnderTest().ask(RequestCode.SEND_MESSAGE)
    assert (response.code, response.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                                                " request type 10 not supported")


def test_a_one_way_request_is_done_and_not_answered() -> None:
    server = NameServerUnderTest()
    request = RemotingCommand.request(RequestCode.PUT_KV_CONFIG, {"namespace": "N", "key": "k", "value": "v"},
                                      oneway=True)
    assert handle(request, peer(), server.state, 1) is None
    assert server.state.kv_config.get("N", "k") == "v"


def test_an_answer_has_the_form_and_number_of_its_request() -> None:
    request = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=77, serialize_type=1)
    response = handle(request, peer(), NameServerUnderTest().state, 1)
    assert response is not None
    assert (response.opaque, response.serialize_type, response.is_response) == (77, 1, True)


def test_all_codes_of_a_name_server_are_answered() -> None:
    assert {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327,
            901, 904} == set(HANDLERS)


def test_no_request_without_fields_breaks_a_handler() -> None:
    server = NameServerUnderTest()
    for code in HANDLERS:
        assert server.ask(code).code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
