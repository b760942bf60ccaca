"""An operator orders that old files go; the server does it."""

import pytest

from regulus.wire.codes import RequestCode, ResponseCode


@pytest.mark.parametrize(("code", "order"), [(RequestCode.DELETE_EXPIRED_COMMITLOG, "is_retention_wanted"),
                                             (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, "is_queue_cleaning_wanted")])
def test_a_request_is_an_order(rig, code, order):
    orders = {"is_retention_wanted", "is_queue_cleaning_wanted"}
    assert not any(getattr(rig.broker, name) for name in orders)
    assert rig.ask(code).code == ResponseCode.SUCCESS
    assert {name for name in orders if getattr(rig.broker, name)} == {order}
