"""What lets a name or an offset from a peer become a place that it must not be: docs/places.md."""

from tests.mutants import Mutant

_TOPICS = "regulus/model/topics.py"
_STORE = "regulus/store/file_message_store.py"
_PLACES = ("tests/contract/test_places.py",)

MUTANTS = (
    Mutant(name="any characters name a folder", path=_TOPICS,
           old="_STORED_CHARACTERS.issuperset(topic) and 0 <= queue_id", new="0 <= queue_id", tests=_PLACES),
    Mutant(name="an empty or endless name names a folder", path=_TOPICS, old="0 < len(topic) <= NAME_SIZE_MAX and ",
           new="", tests=_PLACES),
    Mutant(name="a queue id below 0 names a folder", path=_TOPICS, old="0 <= queue_id <= QUEUE_ID_MAX",
           new="queue_id <= QUEUE_ID_MAX", tests=_PLACES),
    Mutant(name="a queue is made under any name", path="regulus/store/consume_queues.py",
           old="        if not is_storable(topic, queue_id):\n            raise MessageIllegal",
           new="        if False:\n            raise MessageIllegal", tests=_PLACES),
    Mutant(name="a unit anywhere vouches for a record", path=_STORE,
           old="if unit is not None and unit.physical_offset == message.physical_offset:", new="if unit is not None:",
           tests=_PLACES),
    Mutant(name="what is not dispatched yet vouches for itself", path=_STORE, old="return position == physical_offset",
           new="return True", tests=_PLACES),
    Mutant(name="a half is not found before it is dispatched", path=_STORE,
           old="return self._is_passed_undispatched(message.physical_offset)", new="return False", tests=_PLACES),
    Mutant(name="a record in a body is shown", path=_STORE, old="if is_queue_gone or self._is_own_record(message)",
           new="if True", tests=_PLACES),
    Mutant(name="a record of a deleted topic is not shown", path=_STORE,
           old="if is_queue_gone or self._is_own_record(message)", new="if self._is_own_record(message)",
           tests=_PLACES),
    Mutant(name="a record in a body is sent back", path=_STORE,
           old="        if not self._is_own_record(message):\n            return None\n", new="", tests=_PLACES),
    Mutant(name="a damaged body is copied under a new checksum", path=_STORE,
           old="if message.body and crc32(message.body)", new="if False and crc32(message.body)",
           tests=("tests/unit/store/test_log_pass.py",)),
    Mutant(name="what is known to be rotten is given by its place", path=_STORE,
           old="if message is None or physical_offset in self._log.rotten:", new="if message is None:",
           tests=("tests/unit/store/test_log_pass.py",)),
    Mutant(name="what waits is sent back", path="regulus/broker/handlers/consumer_send_msg_back.py",
           old="if failed.topic in NEVER_CONSUMED_TOPICS:", new="if False:", tests=_PLACES),
    Mutant(name="a waiting message goes home anywhere", path="regulus/broker/placement.py",
           old="if topic in _HALF_TOPICS or not topics.is_storable(topic, queue_id):", new="if topic in _HALF_TOPICS:",
           tests=("tests/unit/broker/test_placement.py",)),
    Mutant(name="a waiting message becomes a half or an op", path="regulus/broker/placement.py",
           old="if topic in _HALF_TOPICS or not topics", new="if not topics", tests=_PLACES),
    Mutant(name="offsets are kept of any queue id", path="regulus/broker/handlers/consumer_offset.py",
           old="if not 0 <= header.queue_id < QUEUE_NUMS_MAX:", new="if False:", tests=_PLACES),
    Mutant(name="offsets are cloned for any group", path="regulus/broker/handlers/offsets_admin.py",
           old="    if fault is not None:\n        return refuse", new="    if False:\n        return refuse",
           tests=_PLACES),
)
