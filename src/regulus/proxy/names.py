"""Checks the names of topics and groups that a client gives. Source: TopicValidator, Validators, GrpcValidator."""

import re

from regulus.errors import CallRefused
from regulus.model.topics import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    GROUP_SIZE_MAX,
    OFFSET_MOVED_EVENT,
    RETRY_TOPIC_SIZE_MAX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
    TOPIC_SIZE_MAX,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    is_dlq_topic,
    is_retry_topic,
)
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import Code

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
_SYSTEM_TOPICS = frozenset({
    AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, BENCHMARK_TOPIC, TRANS_HALF_TOPIC, TRACE_TOPIC, TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT, "CHECKPOINT_TOPIC"})


def topic_name(name: str) -> str:
    """Check the full name of a topic and return it. Raises CallRefused ILLEGAL_TOPIC."""
    size_max = RETRY_TOPIC_SIZE_MAX if is_retry_topic(name) or is_dlq_topic(name) else TOPIC_SIZE_MAX
    fault = _fault(name, "topic", size_max)
    if fault is None and (name in _SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)):
        fault = f"topic {name} belongs to the system; use one of your own"
    if fault is not None:
        raise CallRefused(Code.ILLEGAL_TOPIC, fault)
    return name


def group_name(name: str) -> str:
    """Check the full name of a group and return it. Raises CallRefused ILLEGAL_CONSUMER_GROUP."""
    fault = _fault(name, "group", GROUP_SIZE_MAX)
    if fault is None and name.startswith(_SYSTEM_GROUP_PREFIX):
        fault = f"group {name} belongs to the system; use one of your own"
    if fault is not None:
        raise CallRefused(Code.ILLEGAL_CONSUMER_GROUP, fault)
    return name


def _fault(name: str, noun: str, size_max: int) -> str | None:
    if not name.strip():
        return f"the name of the {noun} is blank"
    if len(name) > size_max:
        return f"the name of the {noun} has {len(name)} characters; {size_max} are the most"
    if not _NAME.fullmatch(name):
        return f"the name of the {noun} {name[:40]!r} has other characters than % | a-z A-Z 0-9 _ -"
    return None


def full_name(resource: messages.Resource, namespace: str = "") -> str:
    """The name of a resource at brokers: `namespace%name`, or the name alone if there is no namespace.

    `namespace` is the one of the call's headers, which counts if the resource has none."""
    name = resource.name
    space = resource.resource_namespace or namespace
    return f"{space}%{name}" if space and name and not name.startswith(f"{space}%") else name
