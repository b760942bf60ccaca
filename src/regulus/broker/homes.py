"""Checks that the topic still exists to which a waiting message goes: a delayed one, a retry, or a half.

The topic may have been deleted in the meantime. The message is then dropped, because its append would create a queue
without a topic, with files that nothing deletes. The retry topic of a group that exists is created again, as its next
heartbeat would do.

A topic that is merely unknown gets its message: a promoted slave must not lose what its master promised. A topic that
exists and is also listed as deleted gets it too: the broker was killed after it had saved the one document and before
the other.
"""

from regulus.broker.groups.subscription_groups import SubscriptionGroups
from regulus.broker.topics import Topics
from regulus.model.topics import RETRY_PREFIX


class Homes:
    def __init__(self, topics: Topics, groups: SubscriptionGroups) -> None:
        self._topics = topics
        self._groups = groups

    def is_there(self, topic: str, now_ms: int) -> bool:
        if not self._topics.epochs.is_deleted(topic) or topic in self._topics:
            return True
        group = self._groups.get(topic.removeprefix(RETRY_PREFIX)) if topic.startswith(RETRY_PREFIX) else None
        if group is None or group.retry_queue_nums <= 0:
            return False
        self._topics.create_if_absent(topic, group.retry_queue_nums, now_ms)
        return True
