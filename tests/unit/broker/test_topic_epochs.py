import pytest

from regulus.broker.topic_epochs import TopicEpochs
from regulus.errors import HeaderError
from regulus.wire import encoded_table


def test_a_topic_made_again_gets_another_number_even_at_the_same_time():
    epochs = TopicEpochs()
    epochs.note_created("a", 1000)
    first = epochs.of("a")
    epochs.note_deleted("a")
    assert epochs.of("a") == 0
    epochs.note_created("a", 1000)
    assert (first, epochs.of("a")) == (1000, 1001)


def test_numbers_outlive_the_broker():
    epochs = TopicEpochs()
    epochs.note_created("a", 1000)
    later = TopicEpochs()
    later.load(encoded_table.text(epochs.document()))
    assert later.of("a") == 1000
    later.note_created("b", 5)
    assert later.of("b") == 1001


@pytest.mark.parametrize("text", ["[]", "{}", '{"topicEpochs":{"a":"b"}}'])
def test_another_document_is_refused(text):
    with pytest.raises(HeaderError):
        TopicEpochs().load(text)


def test_a_slave_hears_which_topics_are_others_than_before() -> None:
    master, slave = TopicEpochs(), TopicEpochs()
    for topic in ("A", "B"):
        master.note_created(topic, 1000)
    assert slave.follow(encoded_table.text(master.document())) == ["A", "B"]
    changes = slave.changes
    assert slave.follow(encoded_table.text(master.document())) == []
    assert slave.changes == changes
    master.note_deleted("B")
    master.note_created("B", 2000)
    assert slave.follow(encoded_table.text(master.document())) == ["B"]
    assert (slave.of("A"), slave.of("B")) == (master.of("A"), 2000)


def test_a_topic_from_before_there_were_numbers_that_is_made_anew_is_another() -> None:
    master, slave = TopicEpochs(), TopicEpochs()
    master.note_created("Young", 1000)
    slave.follow(encoded_table.text(master.document()))
    master.note_deleted("Old")
    master.note_created("Old", 2000)
    assert slave.follow(encoded_table.text(master.document())) == ["Old"]


def test_which_topics_were_deleted_outlives_the_broker_and_reaches_slaves() -> None:
    epochs, later, slave = TopicEpochs(), TopicEpochs(), TopicEpochs()
    epochs.note_deleted("from before there were numbers")
    for topic in ("a", "b"):
        epochs.note_created(topic, 1000)
        epochs.note_deleted(topic)
    epochs.note_created("b", 2000)
    text = encoded_table.text(epochs.document())
    later.load(text)
    assert slave.follow(text) == ["b"]
    for each in (epochs, later, slave):
        assert encoded_table.text(each.document()) == text
        assert [each.is_deleted(topic) for topic in ("from before there were numbers", "a", "b", "c")] == [
            True, True, False, False]
    changes = slave.changes
    epochs.note_deleted("c")
    slave.follow(encoded_table.text(epochs.document()))
    assert slave.is_deleted("c")
    assert slave.changes > changes


@pytest.mark.parametrize("text", ['{"topicEpochs":{"a":5}}', '{"deletedTopics":{}}'])
def test_a_document_that_lacks_a_part_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="has no numbers"):
        TopicEpochs().load(text)


def test_of_very_many_deleted_topics_the_first_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regulus.broker.topic_epochs.DELETED_MAX", 2)
    epochs = TopicEpochs()
    for topic in ("a", "b", "c"):
        epochs.note_deleted(topic)
    assert [epochs.is_deleted(topic) for topic in ("a", "b", "c")] == [False, True, True]
    assert '"a"' not in encoded_table.text(epochs.document())


def test_which_one_was_deleted_first_outlives_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document has its names in their own order."""
    monkeypatch.setattr("regulus.broker.topic_epochs.DELETED_MAX", 3)
    epochs, later = TopicEpochs(), TopicEpochs()
    for topic in ("c", "b", "a", "c"):
        epochs.note_deleted(topic)
    later.load(encoded_table.text(epochs.document()))
    epochs.note_deleted("d")
    assert [epochs.is_deleted(topic) for topic in ("a", "b", "c", "d")] == [True, False, True, True]
    later.note_deleted("d")
    assert [later.is_deleted(topic) for topic in ("a", "b", "c", "d")] == [True, False, True, True]
    later.note_deleted("e")
    assert [later.is_deleted(topic) for topic in ("a", "c", "d", "e")] == [False, True, True, True]


def test_a_document_that_was_made_before_follows_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is there again must not be a deleted one for the next start: what waits for it would be lost."""
    monkeypatch.setattr("regulus.broker.topic_epochs.DELETED_MAX", 2)
    epochs = TopicEpochs()

    def saved() -> str:
        text = encoded_table.text(epochs.document())
        later = TopicEpochs()
        later.load(text)
        for topic in ("a", "b", "c"):
            assert (later.of(topic), later.is_deleted(topic)) == (epochs.of(topic), epochs.is_deleted(topic))
        return text

    epochs.note_created("a", 1000)
    saved()
    epochs.note_deleted("a")
    saved()
    epochs.note_created("a", 2000)
    saved()
    for topic in ("a", "b", "c"):
        epochs.note_deleted(topic)
        text = saved()
    assert '"a"' not in text
