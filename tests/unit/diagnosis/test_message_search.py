"""Where a message is searched, and where not."""

import pytest

from regulus.client.administration.admin import Admin
from regulus.diagnosis.asking import Questions
from regulus.diagnosis.facts import Question
from regulus.diagnosis.message_search import home_of, topic_of
from regulus.model.message import MessageExt
from regulus.model.message_id import host_bytes, offset_message_id


@pytest.mark.parametrize(("topic", "properties", "home"), [
    ("Orders", {}, "Orders"), ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "Orders"}, "Orders"),
    ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "%RETRY%g", "RETRY_TOPIC": "Orders"}, "Orders"),
    ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "Orders"}, "Orders"), ("%RETRY%g", {"RETRY_TOPIC": "Orders"}, "Orders"),
    ("%DLQ%g", {"DLQ_ORIGIN_TOPIC": "Orders"}, "Orders"),
    ("Orders", {"REAL_TOPIC": "Other"}, "Orders"),      # delivered; the property stays
])
def test_a_copy_says_to_which_topic_the_message_was_sent(topic, properties, home):
    assert home_of(MessageExt(topic, b"", properties)) == home


async def test_only_brokers_of_the_cluster_are_asked(regulus_server, unused_tcp_port):
    """A unique key may look like an offset id, and name any address."""
    async with Admin(regulus_server.name_server_address) as admin:
        questions = Questions()
        stranger = offset_message_id(host_bytes("127.0.0.1", unused_tcp_port), 0)
        assert await topic_of(admin, questions, Question(message_id=stranger)) == ""
        assert await topic_of(admin, questions, Question(message_id="no id")) == ""
        assert questions.unknown == []
