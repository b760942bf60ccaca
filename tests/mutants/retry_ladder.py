"""Faults of the retry ladder: levels, limits, and the millisecond at which a message comes again."""

from tests.mutants import Mutant

_LADDER = ("tests/contract/test_retry_ladder.py",)
_SEND_BACK = "regulus/broker/handlers/consumer_send_msg_back.py"
_SCHEDULE = "regulus/broker/delay_schedule.py"
_LIMIT = "regulus/client/consuming/group_retry_limit.py"
_LIMIT_TESTS = ("tests/unit/client/consuming/test_group_retry_limit.py",)

MUTANTS = [
    Mutant(name="a broker that was not told gets no limit", path=_LIMIT,
           old="return GROUP_LIMIT if broker_name in self._told else self._limit", new="return GROUP_LIMIT",
           tests=_LIMIT_TESTS),
    Mutant(name="one broker knows for all", path=_LIMIT,
           old="if self._told and not self._untold()", new="if self._told", tests=_LIMIT_TESTS),
    Mutant(name="a later broker is never told", path=_LIMIT,
           old="            self._wanted.clear()\n            await self.tell()\n",
           new="            self._wanted.clear()\n", tests=_LIMIT_TESTS),
    Mutant(name="the retry level is always 3", path=_SEND_BACK,
           old="FIRST_RETRY_LEVEL + failed.reconsume_times", new="FIRST_RETRY_LEVEL", tests=_LADDER),
    Mutant(name="the retry level is one too high", path=_SEND_BACK,
           old="FIRST_RETRY_LEVEL + failed.reconsume_times", new="FIRST_RETRY_LEVEL + failed.reconsume_times + 1",
           tests=_LADDER),
    Mutant(name="retries begin at level 2", path="regulus/model/delay_level.py",
           old="FIRST_RETRY_LEVEL = 3", new="FIRST_RETRY_LEVEL = 2", tests=_LADDER),
    Mutant(name="a named level is passed by", path=_SEND_BACK,
           old="header.delay_level or FIRST", new="FIRST", tests=_LADDER),
    Mutant(name="a step of the ladder is missing", path="regulus/model/delay_level.py",
           old="7m 8m 9m", new="7m 9m", tests=_LADDER),
    Mutant(name="the ladder ends at one hour", path="regulus/model/delay_level.py",
           old="1h 2h", new="1h", tests=_LADDER),
    Mutant(name="the ladder begins at 5 s", path="regulus/model/delay_level.py",
           old='"1s 5s', new='"5s', tests=_LADDER),
    Mutant(name="fifteen tries", path=_SEND_BACK,
           old="failed.reconsume_times >= limit", new="failed.reconsume_times + 1 >= limit", tests=_LADDER),
    Mutant(name="seventeen tries", path=_SEND_BACK,
           old="failed.reconsume_times >= limit", new="failed.reconsume_times > limit", tests=_LADDER),
    Mutant(name="a group tries fifteen times by default", path="regulus/model/topics.py",
           old="retry_max_times: int = 16", new="retry_max_times: int = 15", tests=_LADDER),
    Mutant(name="the limit of the consumer is passed by", path=_SEND_BACK,
           old="if header.max_reconsume_times is None else header.max_reconsume_times", new="", tests=_LADDER),
    Mutant(name="a message comes a millisecond early", path=_SCHEDULE,
           old="if wait_ms > 0:", new="if wait_ms > 1:", tests=_LADDER),
    Mutant(name="a message comes a millisecond late", path=_SCHEDULE,
           old="if wait_ms > 0:", new="if wait_ms >= 0:", tests=_LADDER),
    Mutant(name="a try is not counted", path="regulus/broker/placement.py",
           old="properties[names.DELAY_TIME_LEVEL] = str(level)\n    return _copy(failed, topics.retry_topic(group), "
               "queue_id, properties, failed.reconsume_times + 1,",
           new="properties[names.DELAY_TIME_LEVEL] = str(level)\n    return _copy(failed, topics.retry_topic(group), "
               "queue_id, properties, failed.reconsume_times,",
           tests=_LADDER),
    Mutant(name="a message is parked one level lower", path="regulus/broker/placement.py",
           old="_park(message, topics.SCHEDULE_TOPIC, level - 1)",
           new="_park(message, topics.SCHEDULE_TOPIC, max(level - 2, 0))",
           tests=("tests/contract/test_retry_ladder.py", "tests/unit/broker/test_placement.py")),
    Mutant(name="levels above the last wait for ever", path="regulus/broker/placement.py",
           old="min(delay_level(properties), delay_level_max)", new="delay_level(properties)",
           tests=_LADDER),
    Mutant(name="a copy that never fits is refused as one that may fit later", path=_SEND_BACK,
           old="is_for_good = appended.status == PutStatus.MESSAGE_ILLEGAL", new="is_for_good = False",
           tests=("tests/unit/broker/handlers/test_consumer_send_msg_back.py",)),
]
