"""What operators ask breaks no handler, whatever it lacks."""

import pytest

CODES = {17, 18, 21, 25, 26, 28, 43, 45, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225, 300, 303, 305, 306, 307,
         308, 309, 314, 315, 316, 317, 321, 328, 329, 343, 345, 351, 352, 353, 907, 20001,
         20002, 20003, 20007, 50, 51, 52, 53, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008,
         3009, 3010}


@pytest.mark.parametrize("code", sorted(CODES))
def test_no_request_without_fields_breaks_a_handler(rig, code):
    assert rig.handle(code).answer.is_response


@pytest.mark.parametrize("code", sorted(CODES))
@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[]", b'{"groupName":5}', b'{"topicConfigList":[{}]}'])
def test_no_body_breaks_a_handler(rig, code, body):
    assert rig.handle(code, body=body).answer.is_response
