"""Messages of one sharding key stay in order."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.pipeline.steps.rows import at, collected, effects, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


def keyed(offset: int, born: int, key: str = "s", queue_id: int = 0, **more: Any) -> dict[str, Any]:
    return {"queue_offset": offset, "born_time": at(born), "store_time": at(100 + offset), "sharding_key": key,
            "queue_id": queue_id, "message_id": f"M{queue_id}{offset}", **more}


def test_a_message_behind_a_younger_one_of_its_key_is_out_of_order(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.order import order_violations

    messages = table(spark, [keyed(0, 10), keyed(1, 30), keyed(2, 20), keyed(3, 5, key="other"), keyed(4, 40)])
    assert collected(order_violations(messages), "sharding_key", "queue_offset", "violation") == [
        ("s", 2, "born later, stored earlier")]


def test_clocks_of_two_producers_are_not_compared(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.order import order_violations

    assert order_violations(table(spark, [keyed(0, 30), keyed(1, 10, born_host="10.0.0.2:9")])).count() == 0


def test_a_key_may_move_once_but_not_come_back(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.order import order_violations

    moved = [keyed(0, 1), keyed(1, 2), keyed(2, 3, queue_id=1), keyed(3, 4, queue_id=1)]
    assert order_violations(table(spark, moved)).count() == 0
    back = [*moved, keyed(4, 5)]
    assert collected(order_violations(table(spark, back)), "queue_id", "queue_offset", "violation") == [
        (0, 4, "in two queues by turns")]


def test_an_effect_before_that_of_an_earlier_message_is_out_of_order(spark: "SparkSession") -> None:
    from regulus.pipeline.steps.order import effect_order_violations

    messages = table(spark, [keyed(number, number, keys=f"k{number}") for number in range(4)])
    done = effects(spark, ("k0", 10), ("k1", 40), ("k3", 30))
    assert collected(effect_order_violations(messages, done), "queue_offset", "violation") == [
        (3, "stored later, applied earlier")]
