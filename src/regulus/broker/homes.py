"""Whether the topic is there to which a message goes that waited: for its time, for its next try, for its producer's
word.

It may have been deleted meanwhile. Nothing is made for it then: no queue that no topic has, with a folder and files
that nothing would ever delete. The retry topic of a group that is there is made anew, as its next heartbeat would. A
topic that is merely unknown gets its message: who promotes a slave must not lose what its master promised. So does one
that is there and stands among the deleted, too: a broker was killed when it had saved the one and not yet the other.
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
