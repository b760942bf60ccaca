"""Who reads far behind the end is sent to a slave, and back when it has caught up."""

from dataclasses import replace

import pytest

from regulus.broker.outcome import HOLD
from regulus.broker.runtime_facts import RuntimeFacts
from regulus.wire.codes import ResponseCode
from regulus.wire.headers import PullMessageResponse

RECORDS = 10


@pytest.fixture
def make(make_rig):
    """A broker with RECORDS messages of the same size; `memory`: the bytes of so many of them."""
    def make(memory=5.0, **settings):
        rig = make_rig(slave_read_enable=True, access_message_in_memory_max_ratio=100, **settings)
        rig.heartbeat("CG", "TopicA")
        for _ in range(RECORDS):
            rig.send()
        size = rig.store.commit_log_max_offset() // RECORDS
        rig.broker.runtime_facts = RuntimeFacts(memory_size=int(memory * size))
        return rig
    return make


def suggested(rig, **pull):
    return PullMessageResponse.decode(rig.pull(**pull)).suggest_which_broker_id


def test_what_the_memory_cannot_hold_is_read_from_a_slave(make):
    rig = make()
    ids = [suggested(rig, queue_offset=offset, max_msg_nums=1) for offset in range(RECORDS)]
    assert ids == [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]     # five records lie behind the beginning of the last but four


def test_what_no_filter_takes_is_read_all_the_same(make):
    rig = make(memory=0.5)
    assert suggested(rig, sys_flag=4, subscription="Z") == 1
    assert suggested(make(), sys_flag=4, subscription="Z") == 0


def test_the_group_says_which_slave(make):
    rig = make()
    group = rig.broker.subscription_groups.table["CG"]
    rig.broker.subscription_groups.table["CG"] = replace(group, which_broker_when_consume_slowly=3, broker_id=2)
    assert (suggested(rig, max_msg_nums=1), suggested(rig, queue_offset=9)) == (3, 2)


def test_all_read_from_the_master_where_the_memory_is_unknown(make):
    assert suggested(make(memory=0), max_msg_nums=1) == 0


def test_all_read_from_the_master_unless_it_may_be_otherwise(make):
    rig = make()
    rig.broker.set_config(replace(rig.broker.config, slave_read_enable=False))
    assert suggested(rig, max_msg_nums=1) == 0


@pytest.mark.parametrize(("queue_id", "offset"), [(0, RECORDS + 5), (0, -1), (1, 4)],
                         ids=["behind its end", "before its beginning", "of a queue that it does not have"])
def test_a_slave_moves_nobody_for_what_it_does_not_have(make, queue_id, offset):
    """Its log may end before the master's, and begin behind it."""
    rig = make()
    assert rig.pull(queue_id=queue_id, queue_offset=offset).code == ResponseCode.PULL_OFFSET_MOVED
    rig.broker.set_config(replace(rig.broker.config, broker_role="SLAVE", broker_id=1, namesrv_addr="n:1"))
    assert rig.pull_outcome(queue_id=queue_id, queue_offset=offset) is HOLD
    answer = rig.pull(queue_id=queue_id, queue_offset=offset, sys_flag=0)
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert PullMessageResponse.decode(answer).next_begin_offset == offset
