"""What is not served is refused by name."""

from regulus.broker.refusals import REFUSALS, refusal_remark
from regulus.broker.request_table import HANDLERS
from regulus.wire.codes import RequestCode, ResponseCode


def test_each_request_code_has_a_handler_or_a_named_refusal():
    assert set(HANDLERS) | set(REFUSALS) == set(RequestCode)


def test_nothing_is_both_served_and_refused():
    assert not set(HANDLERS) & set(REFUSALS)


def test_the_reason_is_told(rig):
    response = rig.ask(RequestCode.POP_ROLLBACK)
    assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert response.remark == " request type 200056 not supported: pops are noted in the log, not in RocksDB"
    for code in range(200070, 200080):
        assert rig.ask(code).remark == f" request type {code} not supported: lite topics are not served"
    assert refusal_remark(31337) == " request type 31337 not supported"
