from regulus.client.core.send_back import DEAD_LETTER, PROPERTIES_KEPT_MAX, lacking_letter, retry_message
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes, offset_message_id
from regulus.model.message_queue import MessageQueue

HOST = host_bytes("10.0.0.1", 10911)


def failed(**properties) -> MessageExt:
    return MessageExt("T", b"body", {"KEYS": "k", "UNIQ_KEY": "U", "MIN_OFFSET": "0", **properties}, store_host=HOST,
                      physical_offset=77, reconsume_times=2, flag=7)


def test_a_retry_copy_keeps_body_flag_and_properties_and_counts_one_more():
    copy = retry_message(failed(), "G", 0, -1)
    assert (copy.topic, copy.body, copy.flag) == ("%RETRY%G", b"body", 7)
    assert copy.properties == {"KEYS": "k", "UNIQ_KEY": "U", "RETRY_TOPIC": "T", "RECONSUME_TIME": "3", "DELAY": "5",
                               "ORIGIN_MESSAGE_ID": offset_message_id(HOST, 77)}


def test_first_topic_and_first_id_stay_over_many_retries():
    copy = retry_message(failed(RETRY_TOPIC="First", ORIGIN_MESSAGE_ID="FIRST"), "G", 0, -1)
    assert (copy.properties["RETRY_TOPIC"], copy.properties["ORIGIN_MESSAGE_ID"]) == ("First", "FIRST")


def test_a_wished_level_and_limit_are_carried():
    copy = retry_message(failed(), "G", 9, 5)
    assert (copy.properties["DELAY"], copy.properties["MAX_RECONSUME_TIMES"]) == ("9", "5")


def test_a_dead_letter_exceeds_its_limit_and_waits_for_nothing():
    copy = retry_message(failed(DELAY="4"), "G", DEAD_LETTER, 16)
    assert "DELAY" not in copy.properties
    assert int(copy.properties["RECONSUME_TIME"]) > int(copy.properties["MAX_RECONSUME_TIMES"])


def test_a_transactional_mark_does_not_survive():
    assert "TRAN_MSG" not in retry_message(failed(TRAN_MSG="true"), "G", 0, -1).properties


def test_a_limit_that_came_with_the_message_is_not_carried():
    assert "MAX_RECONSUME_TIMES" not in retry_message(failed(MAX_RECONSUME_TIMES="abc"), "G", 0, -1).properties


def test_what_fits_of_a_dead_letter_lacks_its_longest_properties_and_says_which_and_where_they_are():
    message = failed(long="x" * 20_000, longer="y" * 30_000)
    message.queue_offset = 9
    letter = retry_message(message, "G", DEAD_LETTER, -1)
    lacking = lacking_letter(message, MessageQueue("T", "a", 3), letter, "too large", with_body=True)
    assert lacking.body == b"body"
    assert (lacking.properties["KEYS"], len(lacking.properties["long"])) == ("k", 20_000)
    assert "longer" not in lacking.properties
    assert lacking.properties["MAX_RECONSUME_TIMES"] == "0"
    assert sum(len(name) + len(value) for name, value in lacking.properties.items()) < PROPERTIES_KEPT_MAX + 1000
    told = lacking.properties["NOT_WHOLE_REASON"]
    assert "offset 9 of" in told
    assert "property longer, 30000 signs: too large" in told


def test_where_the_body_does_not_fit_the_letter_says_so_in_its_place():
    message = failed()
    letter = retry_message(message, "G", DEAD_LETTER, -1)
    lacking = lacking_letter(message, MessageQueue("T", "a", 3), letter, "no" * 5000, with_body=False)
    assert b"lacks its body of 4 bytes: no" in lacking.body
    assert len(lacking.body) <= 1000
    assert lacking.properties["UNIQ_KEY"] == "U"


def test_a_letter_without_long_properties_lacks_its_body_or_nothing():
    message = failed()
    letter = retry_message(message, "G", DEAD_LETTER, -1)
    assert lacking_letter(message, MessageQueue("T", "a", 3), letter, "too large", with_body=True) is None
