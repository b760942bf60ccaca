from regulus.wire.codes import VERSION, LanguageCode, RequestCode, ResponseCode


def test_numbers_are_rocketmqs() -> None:
    assert (RequestCode.SEND_MESSAGE_V2, RequestCode.POP_MESSAGE) == (310, 200050)
    assert (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.INVALID_PARAMETER) == (21, 29)
    assert (LanguageCode.PYTHON, LanguageCode.GO) == (3, 9)
    assert VERSION == 479


def test_no_number_stands_for_two_names() -> None:
    for codes in (RequestCode, ResponseCode, LanguageCode):
        assert len(codes.__members__) == len(list(codes))
