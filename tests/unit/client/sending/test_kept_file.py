import sqlite3
import stat
import threading
from collections import Counter

import pytest

from regulus.client.config import KeptSendsConfig
from regulus.client.sending.kept_file import KeptFile, KeptStatus, NewSend, decode, encode
from regulus.errors import ConfigError, KeptFileUnusable
from regulus.model.message import Message
from regulus.model.message_queue import MessageQueue

CONFIG = KeptSendsConfig()


@pytest.fixture
def file(tmp_path):
    file = KeptFile(tmp_path / "kept")
    yield file
    file.close()


def new_send(topic="T", body=b"x", queue=None, key="K", **message):
    return NewSend(topic, queue, key, 1, encode([Message(topic, body, **message)]), "no broker")


def add(file, *sends, now_ms=1_000, **config):
    return file.add([[send] for send in sends], KeptSendsConfig(**config), now_ms)


def head_id(file, lane):
    return file.head(lane)[0].send_id


def ids(file, **which):
    return [send.send_id for send in file.sends(1000, **which)]


def test_a_message_comes_back_as_it_was(file):
    properties = {"UNIQ_KEY": "U1", "DELAY": "3", "colour": "réd", "WAIT": "false"}
    message = Message("T", b"\0body", "tag", "k1 k2", properties, flag=7)
    queue = MessageQueue("T", "broker-a", 3)
    file.add([[NewSend("T", queue, "U1", 1, encode([message]), "why")]], CONFIG, 5)
    head, messages = file.head("T broker-a/3")
    [back] = decode("T", messages)
    assert (back.topic, back.body, back.properties, back.flag) == (
        "T", b"\0body", {"UNIQ_KEY": "U1", "DELAY": "3", "colour": "réd", "WAIT": "false", "TAGS": "tag",
                         "KEYS": "k1 k2"}, 7)
    assert head[:5] == (1, "T", queue, "U1", 1)
    assert (head.kept_time, head.attempts, head.last_error, head.is_given_up) == (5, 0, "why", False)


def test_a_batch_stays_one(file):
    file.add([[NewSend("T", None, "U1", 2, encode([Message("T", b"1"), Message("T", b"2")]), "why")]], CONFIG, 5)
    head, messages = file.head("T")
    assert [message.body for message in decode("T", messages)] == [b"1", b"2"]
    assert head.queue is None


def test_each_topic_has_its_order_and_goes_on_behind_what_is_gone(file):
    add(file, new_send("B"), new_send("A"), new_send("B"), new_send("A"))
    assert file.lanes() == ["A", "B"]
    assert (head_id(file, "A"), head_id(file, "B"), file.head("C")) == (2, 1, None)
    assert file.remove([1, 2, 99]) == 2
    assert (head_id(file, "A"), head_id(file, "B")) == (4, 3)
    file.failed(4, 1, "refused", 9, is_given_up=True)
    assert (file.head("A"), file.lanes()) == (None, ["B"])


def test_no_id_is_given_twice(file):
    add(file, new_send())
    file.remove([1])
    add(file, new_send())
    assert ids(file) == [2]


def test_a_full_file_takes_no_send_and_loses_none(file):
    assert add(file, new_send(), new_send(), new_send(), sends_max=2) == [
        None, None, "it holds 2 sends of 2 that sends_max allows"]
    file.failed(1, 1, "refused", 9, is_given_up=True)
    assert add(file, new_send(), sends_max=2)[0] is not None, "what is given up takes its place, too"
    assert ids(file) == [1, 2]
    file.remove([1])
    assert add(file, new_send(), sends_max=2) == [None]
    assert ids(file) == [2, 3]


def test_what_one_call_could_not_send_is_kept_all_or_not_at_all(file):
    assert file.add([[new_send()], [new_send(), new_send()], [new_send()]], KeptSendsConfig(sends_max=2), 1) == [
        None, "it holds 1 sends of 2 that sends_max allows", None]
    assert ids(file) == [1, 2]


def test_texts_that_no_database_takes_are_kept_as_far_as_they_go(file):
    assert file.add([[NewSend("T", None, "\ud800", 1, b"", "\ud800" + "x" * 1000)]], CONFIG, 5) == [None]
    [send] = file.sends(1)
    assert (send.message_id, send.last_error) == ("?", "?" + "x" * 499)


def test_the_bytes_are_bounded_too_and_a_smaller_send_may_fit(file):
    size = len(new_send(body=b"x" * 100).messages)
    assert size == 122
    assert add(file, new_send(body=b"x" * 100), new_send(body=b"x" * 100), new_send(body=b"x"), size_max=150) == [
        None, "it would hold 244 bytes of messages, more than size_max 150", None]
    assert file.status().size == 122 + 23


def test_the_totals_are_those_of_the_sends(file):
    assert file.status() == KeptStatus(0, 0, 0, 0)
    add(file, new_send(), now_ms=10)
    add(file, new_send(body=b"xyz"), now_ms=20)
    add(file, new_send(), now_ms=30)
    assert file.status() == KeptStatus(3, 0, 23 + 25 + 23, 10)
    file.failed(1, 16, "refused", 9, is_given_up=True)
    assert file.status() == KeptStatus(2, 1, 23 + 25 + 23, 20)
    file.remove([2])
    assert file.status() == KeptStatus(1, 1, 46, 30)
    assert file.begin_anew(40) == 1
    assert file.status() == KeptStatus(2, 0, 46, 30)
    file.remove([1, 3])
    assert file.status() == KeptStatus(0, 0, 0, 0)


def test_given_up_sends_are_told_once_and_begin_anew_untried(file):
    add(file, new_send(), new_send(), new_send())
    for send_id in (1, 3):
        file.failed(send_id, 16, "refused", 9, is_given_up=True)
    count, [oldest] = file.untold(1)
    assert (count, oldest.send_id, oldest.attempts, oldest.last_error) == (2, 1, 16, "refused")
    file.mark_told()
    assert file.untold(1) == (0, [])
    assert ids(file, only_given_up=True) == [1, 3]
    assert file.begin_anew(40, [3, 2]) == 1
    assert [(send.send_id, send.attempts, send.kept_time) for send in file.sends(9)] == [
        (1, 16, 1000), (2, 0, 1000), (3, 0, 40)]
    assert (ids(file, only_given_up=True), head_id(file, "T")) == ([1], 2)
    file.failed(3, 1, "refused", 9, is_given_up=True)
    assert file.untold(9)[0] == 1


def test_what_waited_for_too_long_is_given_up_in_its_topic(file):
    for now_ms in (10, 20, 30):
        add(file, new_send("A"), new_send("B"), now_ms=now_ms)
    file.give_up_older("A", 30)
    assert [(send.topic, send.kept_time) for send in file.sends(9, only_given_up=True)] == [("A", 10), ("A", 20)]


@pytest.mark.parametrize("statement", [
    "SELECT min(kept_time) FROM sends WHERE is_given_up = 0",
    "SELECT count(*) FROM sends WHERE is_given_up = 1 AND is_told = 0",
    "SELECT send_id FROM sends WHERE is_given_up = 0 AND lane = 'T' ORDER BY send_id LIMIT 1"])
def test_what_is_asked_each_second_walks_over_no_list(file, statement):
    [(*_, plan)] = file._rows(f"EXPLAIN QUERY PLAN {statement}")
    assert "INDEX" in plan
    assert "TEMP B-TREE" not in plan


def test_a_commit_is_synced_and_the_messages_are_the_owners(tmp_path):
    path = tmp_path / "kept"
    file = KeptFile(path)
    assert file._database.execute("PRAGMA synchronous").fetchone() == (2,)
    assert file._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    add(file, new_send())
    assert {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {
        "kept": 0o600, "kept-wal": 0o600, "kept-shm": 0o600}
    file.close()


def test_many_open_it_at_once_and_find_what_each_added(tmp_path):
    failures = []

    def open_and_add(number):
        try:
            file = KeptFile(tmp_path / "kept")
            add(file, new_send(key=str(number)))
            file.close()
        except KeptFileUnusable as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    file = KeptFile(tmp_path / "kept")
    assert Counter(send.message_id for send in file.sends(99)) == Counter(str(number) for number in range(8))
    file.close()


def other_database(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id)")
    database.close()


def newer_format(path):
    KeptFile(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()


@pytest.mark.parametrize(("make", "told"), [
    (other_database, "is no file of kept sends"),
    (newer_format, "has format 2 of kept sends"),
    (lambda path: path.write_text("notes " * 1000), "file is not a database"),
    (lambda path: path.mkdir(), "unable to open"),
    (lambda path: path.touch(), "is no file of kept sends")])
def test_what_is_no_file_of_ours_is_refused_and_left_as_it_is(tmp_path, make, told):
    path = tmp_path / "kept"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(KeptFileUnusable, match=told):
        KeptFile(path)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(KeptFileUnusable, match=r"nowhere/kept.*No such file or directory"):
        KeptFile(tmp_path / "nowhere" / "kept")


def test_limits_that_are_none_are_refused():
    for wrong in ({"sends_max": 0}, {"size_max": 0}, {"attempts_max": 0}, {"rest_ms": 0}, {"poll_ms": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            KeptSendsConfig(**wrong)
