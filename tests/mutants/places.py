"""Faults at the doors where what a peer names becomes a place: a record, a queue, a folder."""

from tests.mutants import Mutant

_PLACES = ("tests/contract/test_places.py",)
_STORE = "regulus/store/file_message_store.py"
_PLACEMENT = "regulus/broker/placement.py"

MUTANTS = [
    Mutant(name="bytes in a body count as a record", path=_STORE,
           old="return message if message is not None and self._is_own_record(message) else None",
           new="return message", tests=_PLACES),
    Mutant(name="a unit vouches for any record that names it", path=_STORE,
           old="if unit is not None and unit.physical_offset == message.physical_offset:", new="if unit is not None:",
           tests=_PLACES),
    Mutant(name="a path becomes a folder of the store", path="regulus/store/consume_queue.py",
           old="if not is_storable(topic, queue_id):", new="if False:", tests=_PLACES),
    Mutant(name="a delayed message comes home to a path", path=_PLACEMENT,
           old=" or not topics.is_storable(topic, queue_id)", new="",
           tests=(*_PLACES, "tests/unit/broker/test_placement.py")),
    Mutant(name="a queue id of a record has no limit", path=_PLACEMENT,
           old="return number if number <= topics.QUEUE_ID_MAX else -1", new="return number",
           tests=("tests/unit/broker/test_placement.py",)),
    Mutant(name="what waits for its producer is sent back", path="regulus/broker/handlers/consumer_send_msg_back.py",
           old="if failed.topic in NEVER_CONSUMED_TOPICS:", new="if False:", tests=_PLACES),
    Mutant(name="an offset is committed for a queue that no topic has",
           path="regulus/broker/handlers/consumer_offset.py",
           old="if not 0 <= header.queue_id < QUEUE_NUMS_MAX:", new="if False:",
           tests=(*_PLACES, "tests/unit/broker/handlers/test_consumer_offset.py")),
]
