"""The config files of recorded stores are read, and what we write of them is read as the same."""

import json
from pathlib import Path
from typing import Any

import pytest

from regulus.wire import fastjson, json_fields
from regulus.wire.bodies import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)

STORES = Path(__file__).parent
KINDS = {"topics": TopicConfigSerializeWrapper, "subscriptionGroup": SubscriptionGroupWrapper,
         "consumerOffset": ConsumerOffsetSerializeWrapper, "delayOffset": DelayOffsetSerializeWrapper}
FILES = sorted([path for path in STORES.glob("store-*/config/*.json*") if path.name.partition(".")[0] in KINDS])


def read(path: Path) -> Any:
    return json_fields.decode(KINDS[path.name.partition(".")[0]], path.read_bytes())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}-{path.name}")
def test_a_config_file_is_read_and_written(path: Path) -> None:
    table = read(path)
    text = fastjson.dumps_pretty(json_fields.to_value(table))
    assert json_fields.decode(type(table), text.encode()) == table
    json.loads(text)  # Standard JSON, whatever the recorded form was.
    recorded = fastjson.loads(path.read_bytes())
    assert is_within(recorded, fastjson.loads(text))


def is_within(part: Any, whole: Any) -> bool:
    """5.x has members that 4.9 did not write."""
    if isinstance(part, dict):
        return all(is_within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


def test_integer_keys_and_negative_numbers() -> None:
    offsets = read(STORES / "store-4.9.8/config/consumerOffset.json")
    assert offsets.offset_table["SNormal@CG_all"] == {0: 115, 1: 111}
    assert read(STORES / "store-4.9.8/config/delayOffset.json").offset_table == {1: 5, 2: 1, 3: 1}


def test_topics_and_groups_have_their_settings() -> None:
    topics = read(STORES / "store-4.9.8/config/topics.json")
    order = topics.topic_config_table["SOrder"]
    assert (order.order, order.read_queue_nums, order.write_queue_nums, order.perm) == (True, 2, 3, 6)
    assert topics.data_version.counter == 23
    groups = read(STORES / "store-4.9.8/config/subscriptionGroup.json").subscription_group_table
    assert groups["CG_configured"].group_name == "CG_configured"
