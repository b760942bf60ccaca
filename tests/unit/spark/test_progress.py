"""Lag and published progress, from what Spark says of a batch; with Spark itself in test_stream_reader."""

import json
from types import SimpleNamespace

import pytest

from regulus.errors import RegulusError
from regulus.model.message_queue import MessageQueue
from regulus.spark.offsets import offsets_object
from regulus.spark.progress import ProgressPublisher, QueueLag, lag

Q0, Q1 = (MessageQueue("orders", "b", number) for number in range(2))


def progress(end, latest, **lag_facts):
    facts = {"asOf": 10_000, "recordBytes": {}, "waitingSince": {}, "read": {}, **lag_facts}
    ours = SimpleNamespace(endOffset=json.dumps(offsets_object(end, {})),
                           latestOffset=json.dumps({**offsets_object(latest, {}), "lag": facts}))
    other = SimpleNamespace(endOffset="{\"logOffset\":3}", latestOffset=None)
    return SimpleNamespace(sources=[ours, other], name="orders", id="1")


def test_lag_of_each_queue():
    lags = lag(progress({Q0: 5, Q1: 7}, {Q0: 15, Q1: 7}, recordBytes={"orders/b/0": 100},
                        waitingSince={"orders/b/0": 7_500}))
    assert lags == [QueueLag(Q0, 10, 1000, 2.5), QueueLag(Q1, 0, 0, 0.0)]


def test_what_is_not_known_of_a_lag():
    assert lag(progress({Q0: 5}, {Q0: 6}, recordBytes={"orders/b/0": 0})) == [QueueLag(Q0, 1, None, None)]


def test_a_queue_that_the_batch_did_not_know_yet_has_no_lag():
    assert lag(progress({Q0: 5}, {Q0: 5, Q1: 9})) == [QueueLag(Q0, 0, 0, 0.0), QueueLag(Q1, 0, 0, 0.0)]


def test_offsets_that_changed_are_published_once():
    published = []
    publisher = ProgressPublisher(lambda place, group, offsets: published.append((place["nameServer"], group, offsets)))
    read = {"nameServer": "a:1", "consumerGroup": "billing", "credentials": ""}
    for end in ({Q0: 5, Q1: 7}, {Q0: 5, Q1: 7}, {Q0: 6, Q1: 7}):
        publisher.onQueryProgress(SimpleNamespace(progress=progress(end, end, read=read)))
    assert published == [("a:1", "billing", {Q0: 5, Q1: 7}), ("a:1", "billing", {Q0: 6})]


def test_two_clusters_may_have_a_group_and_queues_of_the_same_names():
    published = []
    publisher = ProgressPublisher(lambda place, group, offsets: published.append((place["nameServer"], offsets)))
    for _ in range(2):
        for name_server in ("a:1", "b:1"):
            read = {"nameServer": name_server, "consumerGroup": "billing"}
            publisher.onQueryProgress(SimpleNamespace(progress=progress({Q0: 5}, {Q0: 5}, read=read)))
    assert published == [("a:1", {Q0: 5}), ("b:1", {Q0: 5})]


def test_the_place_of_the_querys_keys_comes_with_its_progress():
    published = []
    publisher = ProgressPublisher(lambda place, group, offsets: published.append(place))
    read = {"nameServer": "a:1", "consumerGroup": "billing", "credentials": "file:/etc/rocketmq/keys"}
    publisher.finish(SimpleNamespace(lastProgress=progress({Q0: 5}, {Q0: 5}, read=read)))
    assert published == [read]


def test_a_query_without_group_publishes_nothing():
    publisher = ProgressPublisher(lambda place, group, offsets: pytest.fail("no group"))
    publisher.onQueryProgress(SimpleNamespace(progress=progress({Q0: 5}, {Q0: 5})))


def test_a_failed_publication_is_made_up_for_by_the_next(caplog):
    published, answers = [], [RegulusError("away"), None]

    def publish(place, group, offsets):
        error = answers.pop(0)
        if error:
            raise error
        published.append(offsets)

    publisher = ProgressPublisher(publish)
    read = {"nameServer": "a:1", "consumerGroup": "billing"}
    event = SimpleNamespace(progress=progress({Q0: 5}, {Q0: 5}, read=read))
    publisher.onQueryProgress(event)
    assert "progress of query orders was not published: away" in caplog.text
    publisher.onQueryProgress(event)
    assert published == [{Q0: 5}]


def test_a_query_that_never_had_a_batch_has_nothing_to_finish():
    ProgressPublisher().finish(SimpleNamespace(lastProgress=None))
