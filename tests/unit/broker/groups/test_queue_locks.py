"""Locks for consumption in order."""

from regulus.broker.groups.queue_locks import LOCK_EXPIRY_MS, QueueLocks
from regulus.model.message_queue import MessageQueue

A, B = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def test_a_lock_belongs_to_one_client_until_it_lapses():
    locks = QueueLocks()
    assert locks.lock("G", "c1", [A], 0, 1) == [A]
    assert locks.lock("G", "c2", [A, B], LOCK_EXPIRY_MS, 1) == [B]
    assert locks.lock("G", "c1", [A], LOCK_EXPIRY_MS, 1) == [A]
    assert locks.lock("G", "c2", [A], 2 * LOCK_EXPIRY_MS, 1) == []
    assert locks.lock("G", "c2", [A], 2 * LOCK_EXPIRY_MS + 1, 1) == [A]


def test_groups_do_not_hinder_each_other():
    locks = QueueLocks()
    assert locks.lock("G", "c1", [A], 0, 1) == [A]
    assert locks.lock("H", "c2", [A], 0, 1) == [A]


def test_only_its_owner_gives_a_lock_back():
    locks = QueueLocks()
    locks.lock("G", "c1", [A], 0, 1)
    locks.unlock("G", "c2", [A])
    assert locks.lock("G", "c2", [A], 1, 1) == []
    locks.unlock("G", "c1", [A])
    assert locks.lock("G", "c2", [A], 1, 1) == [A]


def test_whether_anything_is_held():
    locks = QueueLocks()
    assert not locks.is_any_held("G", 0)
    locks.lock("G", "c1", [A], 0, 1)
    assert locks.is_any_held("G", LOCK_EXPIRY_MS)
    assert not locks.is_any_held("G", LOCK_EXPIRY_MS + 1)


def test_lapsed_locks_are_forgotten():
    locks = QueueLocks()
    locks.lock("G", "c1", [A], 0, 1)
    assert locks.tick(0) == LOCK_EXPIRY_MS
    assert locks.tick(10) == LOCK_EXPIRY_MS - 10
    locks.tick(LOCK_EXPIRY_MS + 1)
    assert not locks._groups


def test_no_more_locks_than_there_may_be(monkeypatch):
    monkeypatch.setattr("regulus.broker.groups.queue_locks.LOCKS_MAX", 2)
    locks = QueueLocks()
    assert locks.lock("G", "c1", [A, B], 0, 1) == [A, B]
    assert locks.lock("H", "c1", [A], 0, 1) == []
    assert locks.lock("G", "c1", [A, B], 1, 1) == [A, B]
    locks.unlock("G", "c1", [A])
    assert locks.lock("H", "c1", [A], 0, 1) == [A]
    for _ in range(9):
        locks.tick(2 * LOCK_EXPIRY_MS + 1)
    assert locks.lock("H", "c2", [A, B], 3 * LOCK_EXPIRY_MS, 1) == [A, B]


def test_lapsed_locks_are_forgotten_a_group_each_tick():
    locks = QueueLocks()
    for group in ("G", "H", "I"):
        locks.lock(group, "c1", [A], 0, 1)
    assert [locks.tick(LOCK_EXPIRY_MS + 1) for _ in range(4)] == [0, 0, LOCK_EXPIRY_MS, LOCK_EXPIRY_MS]
    assert not locks._groups
