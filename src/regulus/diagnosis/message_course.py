"""How far a message has come, from its records alone: the newest one decides."""

from dataclasses import dataclass
from enum import Enum, auto

from regulus.diagnosis.facts import Facts
from regulus.errors import ConfigError
from regulus.model import message_properties as names
from regulus.model.delay_level import DEFAULT_LADDER, parse_ladder
from regulus.model.message import MessageExt
from regulus.model.topics import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    is_dlq_topic,
    is_retry_topic,
)


class Stage(Enum):
    NOWHERE = auto()
    STORED = auto()
    """It is in its topic and has not failed."""
    DELAYED = auto()
    RETRY_DELAYED = auto()
    RETRY_STORED = auto()
    """It failed, and its copy for the next try can be consumed."""
    DEAD = auto()
    HALF_OPEN = auto()
    ROLLED_BACK = auto()
    GIVEN_UP = auto()


@dataclass(frozen=True, slots=True)
class Course:
    """`last` is the newest record; `due_ms` is when it becomes visible, 0 when it does not wait for a time."""

    stage: Stage
    last: MessageExt | None = None
    due_ms: int = 0

    @property
    def retries(self) -> int:
        return 0 if self.last is None else self.last.reconsume_times


def course_of(facts: Facts) -> Course:
    if facts.message is None or not facts.message.copies:
        return Course(Stage.NOWHERE)
    last = facts.message.copies[-1]
    if last.topic == TRANS_HALF_TOPIC:
        return Course(Stage.ROLLED_BACK if facts.message.half_ended else Stage.HALF_OPEN, last)
    if last.topic == TRANS_CHECK_MAX_TIME_TOPIC:
        return Course(Stage.GIVEN_UP, last)
    if last.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        is_retry = is_retry_topic(last.properties.get(names.REAL_TOPIC, ""))
        return Course(Stage.RETRY_DELAYED if is_retry else Stage.DELAYED, last, _due_ms(last, facts))
    if is_dlq_topic(last.topic):
        return Course(Stage.DEAD, last)
    return Course(Stage.RETRY_STORED if is_retry_topic(last.topic) else Stage.STORED, last)


def _due_ms(parked: MessageExt, facts: Facts) -> int:
    if parked.topic == TIMER_TOPIC:
        return max(0, names.number(parked.properties.get(names.TIMER_OUT_MS)))
    ladder = _ladder(facts)
    level = parked.queue_id + 1
    return parked.store_timestamp + ladder[min(level, len(ladder)) - 1]


def _ladder(facts: Facts) -> tuple[int, ...]:
    """The delays of the message's broker, in ms."""
    queue = facts.message.queue if facts.message is not None else None
    master = facts.master(queue.broker_name) if queue is not None else None
    text = master.settings.get("messageDelayLevel") if master is not None else None
    try:
        return parse_ladder(text or DEFAULT_LADDER)
    except ConfigError:
        return parse_ladder(DEFAULT_LADDER)
